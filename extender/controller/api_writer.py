"""Writes to the API server, each followed by the same change in the cache.

Only the leader writes.  A write that comes too late raises; the watch brings the newer object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import Literal

from extender import kubernetes_names as names
from extender.cluster_api.api_errors import ClusterError, Conflict, NotFound, PatchFailed
from extender.cluster_api.client import PODS, ClusterApi, Document, Resource
from extender.cluster_cache import ClusterCache
from extender.controller.object_store import Stores, decode_own_plan
from extender.controller.pod_release import release_patch
from extender.extender_metrics import Metrics
from extender.objects import decode_pod
from extender.plans.gang_history import EndedRun, GangHistory, decode_history, encode_history
from extender.plans.gang_plan import GangPlan, encode_plan, object_name
from extender.plans.reservation import Reservation, decode_reservation, encode_reservation
from topology.kubernetes.pods import Pod

DISRUPTED = "DisruptionTarget"  # Kubernetes' own condition of a pod that goes for reasons which are not its own

GANGPLANS = Resource(names.GROUP, names.VERSION, names.PLURAL, names.KIND)
HISTORIES = Resource(names.GROUP, names.VERSION, names.HISTORY_PLURAL, names.HISTORY_KIND)
RESERVATIONS = Resource(names.GROUP, names.VERSION, names.RESERVATION_PLURAL, names.RESERVATION_KIND)


class NotLeading(ClusterError):
    """The Lease is lost: another replica goes on from here."""


@dataclass(kw_only=True)
class Writer:
    """Writes of the leader; other replicas may not."""

    state: ClusterCache
    stores: Stores
    for_pods: ClusterApi  # writes pods, many at once
    for_plans: ClusterApi  # writes plans, which do not wait for the pods of other gangs
    leads: Callable[[], bool]  # whether this replica leads, at this very moment
    metrics: Metrics
    # held while a history is written: of gangs that end together each adds to what the one before has written
    _learning: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def write(self, plan: GangPlan) -> GangPlan:
        """Write a plan, and return it as it is stored now, or raise ``Conflict``: it was written since it was read."""
        with self._counted("plan"):
            stored = decode_own_plan(await self._store(plan))
        self.stores.plans.wrote(stored, new=not plan.uid)
        return stored

    async def release(self, pod: Pod, node: str, mark: str) -> None:
        """Take the gate off a pod, pin and mark it, or raise ``PatchFailed``: the pod is not what it was."""
        with self._counted("release"):
            change = release_patch(pod, node, mark)
            raw = await self.for_pods.patch(PODS, pod.name, change, kind="json-patch", namespace=pod.namespace)
        self.stores.pods.wrote(decode_pod(raw))

    async def tell(self, pod: Pod, node: str) -> None:
        """Write into a pod's status that it has a node."""
        with self._counted("tell"):
            self.stores.pods.wrote(await self._set_condition(pod, names.PLANNED, "Planned", f"planned on node {node}"))

    async def tell_of_room(self, pod: Pod) -> None:
        """Write into the status of a pod without a gang that nodes were given back, so that it is tried again."""
        what = "nodes that were promised or reserved are free again"
        with self._counted("tell"):
            self.stores.pods.wrote(await self._set_condition(pod, names.PLANNED, "NodesFree", what, holds=False))

    async def stop(self, what: Literal["recreate", "evict"], pod: Pod, why: str) -> None:
        """Delete a pod, with its grace period, unless it is another of the same name by now.

        It is told first that it is disrupted, as the eviction API does, so that the podFailurePolicy of a Job that
        ignores disruptions does not count it as a failure.
        """
        reason = {"recreate": "PlannedElsewhere", "evict": "PreemptedByArnold"}[what]
        with suppress(NotFound, Conflict), self._counted(what):
            await self._set_condition(pod, DISRUPTED, reason, why)
            await self.for_pods.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)

    async def reserve(self, reservation: Reservation) -> None:
        """Write the status of a reservation, or raise ``Conflict``: it was written since it was read."""
        name, namespace = reservation.key.name, reservation.key.namespace
        with self._counted("reservation"), suppress(NotFound):
            raw = await self.for_plans.replace(
                RESERVATIONS, name, encode_reservation(reservation), namespace=namespace, subresource="status"
            )
            self.stores.reservations.wrote(decode_reservation(raw))

    async def learn(self, run: EndedRun) -> None:
        """Add a gang that ended to the history of its namespace, or raise ``Conflict``: another replica writes it."""
        namespace = run.key.namespace
        async with self._learning:
            known = self.state.histories.get(namespace)
            if known is not None and known.learnt(run) is known:
                return
            with self._counted("history"):
                try:
                    stored = await self._remember(known or GangHistory(namespace=namespace), run)
                except Conflict:
                    # The watch is behind, or what is there could not be read.
                    raw = await self.for_plans.get(HISTORIES, names.HISTORY_NAME, namespace=namespace)
                    stored = await self._remember(decode_history(raw), run)
            self.stores.histories.wrote(stored, new=known is None)

    async def _remember(self, before: GangHistory, run: EndedRun) -> GangHistory:
        """Write a history with one more gang, unless that is in it, and return it as it is stored."""
        after = before.learnt(run)
        if after is before:
            return before
        self._check()
        document, name = encode_history(after), names.HISTORY_NAME
        if before.uid:
            raw = await self.for_plans.replace(HISTORIES, name, document, namespace=before.namespace)
        else:
            raw = await self.for_plans.create(HISTORIES, document, namespace=before.namespace)
        return decode_history(raw)

    async def forget(self, plan: GangPlan) -> None:
        """Delete a plan, or raise ``Conflict``: it is another of the same name by now."""
        name, namespace = object_name(plan.key), plan.key.namespace
        with suppress(NotFound), self._counted("forget"):
            await self.for_plans.delete(GANGPLANS, name, namespace=namespace, uid=plan.uid)
        self.stores.plans.remove(namespace, name)

    async def _set_condition(self, pod: Pod, kind: str, reason: str, message: str, *, holds: bool = True) -> Pod:
        """Write a condition into a pod's status, and return the pod as it is stored now."""
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        condition = {"type": kind, "status": str(holds), "reason": reason, "message": message}
        condition |= {"lastProbeTime": now, "lastTransitionTime": now}
        change = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        raw = await self.for_pods.patch(
            PODS, pod.name, change, kind="strategic-merge-patch", namespace=pod.namespace, subresource="status"
        )
        return decode_pod(raw)

    async def _store(self, plan: GangPlan) -> bytes:
        """Write the spec if it is new or has changed, then the status: the API server takes them apart."""
        document = encode_plan(plan)
        name, namespace = object_name(plan.key), plan.key.namespace
        before = self.state.plans.get(plan.key)
        spec: Document = {part: document[part] for part in ("apiVersion", "kind", "metadata", "spec")}
        raw = b""
        if not plan.uid:
            self._check()
            raw = await self.for_plans.create(GANGPLANS, spec, namespace=namespace)
        elif before is None or before.spec != plan.spec:
            self._check()
            raw = await self.for_plans.replace(GANGPLANS, name, spec, namespace=namespace)
        if raw:
            # The second half names the version that the first has made.
            written = decode_own_plan(raw)
            document["metadata"] |= {"uid": written.uid, "resourceVersion": written.resource_version}
        self._check()
        return await self.for_plans.replace(GANGPLANS, name, document, namespace=namespace, subresource="status")

    def _check(self) -> None:
        if not self.leads():
            raise NotLeading("this replica does not lead any more")

    @contextmanager
    def _counted(self, kind: str) -> Iterator[None]:
        """Count what the block writes, if we may write at all."""
        self._check()
        started = perf_counter()
        try:
            yield
        except ClusterError as error:
            outcome = "conflict" if isinstance(error, Conflict | PatchFailed | NotFound) else "error"
            self.metrics.wrote(kind, outcome, perf_counter() - started)
            raise
        self.metrics.wrote(kind, "ok", perf_counter() - started)
