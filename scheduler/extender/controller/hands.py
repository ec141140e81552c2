"""Writes to the API server, each followed by the same change in the cache.

Nothing is written by who does not lead.  What fails because somebody was faster brings the newer object into the cache
and raises: the next decision is made on that.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from scheduler.extender.cluster_api import (
    PODS,
    ClusterApi,
    ClusterError,
    Conflict,
    Document,
    NotFound,
    PatchFailed,
    Resource,
)
from scheduler.extender.controller.pinning import release_patch
from scheduler.extender.controller.sinks import PlanSink, PodSink, decode_own_plan
from scheduler.extender.names import GROUP, KIND, PLURAL, VERSION
from scheduler.extender.objects import Pod, decode_pod
from scheduler.extender.plan import Plan, object_name
from scheduler.extender.plan_document import encode_plan, encode_spec
from scheduler.extender.state import State

GANGPLANS = Resource(GROUP, VERSION, PLURAL, KIND)


class NotLeading(ClusterError):
    """The Lease is lost: another replica goes on from here."""


class Telemetry(Protocol):
    """Who counts what the controller does."""

    def decided(self, seconds: float) -> None:
        """A decision was made on the event loop."""

    def planned(self, seconds: float, outcome: str) -> None:
        """The solver answered about one gang."""

    def wrote(self, kind: str, outcome: str, seconds: float) -> None:
        """Something was written: plan, release, recreate, forget; ok, conflict or error."""


class Hands:
    """What writes.

    :param for_pods: writes pods, many at once.
    :param for_plans: writes plans, which do not wait for the pods of other gangs.
    :param leads: whether this replica leads, at this very moment.
    """

    def __init__(
        self,
        state: State,
        *,
        for_pods: ClusterApi,
        for_plans: ClusterApi,
        pods: PodSink,
        plans: PlanSink,
        leads: Callable[[], bool],
        telemetry: Telemetry,
    ) -> None:
        self._for_pods = for_pods
        self._for_plans = for_plans
        self._state = state
        self._pods = pods
        self._plans = plans
        self._leads = leads
        self._telemetry = telemetry

    async def write(self, plan: Plan) -> Plan:
        """Write a plan.

        :returns: the plan as it is stored now.
        :raises Conflict: somebody wrote it since it was read.
        """
        started = perf_counter()
        try:
            stored = decode_own_plan(await self._store(plan))
        except (Conflict, NotFound) as error:
            self._count("plan", error, started)
            await self._read_again(plan)
            raise
        except ClusterError as error:
            self._count("plan", error, started)
            raise
        self._count("plan", None, started)
        self._plans.put(stored)
        return stored

    async def release(self, pod: Pod, node: str) -> None:
        """Take the gate off a pod and pin it.

        :raises PatchFailed: the pod is not what it was.
        """
        self._check()
        started = perf_counter()
        try:
            change = release_patch(pod, node)
            raw = await self._for_pods.patch(PODS, pod.name, change, kind="json-patch", namespace=pod.namespace)
        except (PatchFailed, NotFound) as error:
            self._count("release", error, started)
            await self._look_again(pod)
            raise
        except ClusterError as error:
            self._count("release", error, started)
            raise
        self._count("release", None, started)
        self._pods.put(decode_pod(raw))

    async def delete_pod(self, pod: Pod) -> None:
        """Delete a pod, unless it is another of the same name by now."""
        self._check()
        started = perf_counter()
        try:
            await self._for_pods.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
        except (NotFound, Conflict) as error:
            self._count("recreate", error, started)
        except ClusterError as error:
            self._count("recreate", error, started)
            raise
        else:
            self._count("recreate", None, started)

    async def forget(self, plan: Plan) -> None:
        """Delete a plan, unless it is another of the same name by now."""
        self._check()
        started = perf_counter()
        name, namespace = object_name(plan.key), plan.key.namespace
        try:
            await self._for_plans.delete(GANGPLANS, name, namespace=namespace, uid=plan.uid)
        except Conflict as error:
            self._count("forget", error, started)
            await self._read_again(plan)
            raise
        except NotFound as error:
            self._count("forget", error, started)
        except ClusterError as error:
            self._count("forget", error, started)
            raise
        else:
            self._count("forget", None, started)
        self._plans.remove(namespace, name)

    async def _store(self, plan: Plan) -> bytes:
        """The spec if it is new or has changed, then the status: the API server takes them apart."""
        document = encode_plan(plan)
        name, namespace = object_name(plan.key), plan.key.namespace
        before = self._state.plans.get(plan.key)
        spec: Document = {part: document[part] for part in ("apiVersion", "kind", "metadata", "spec")}
        raw = b""
        if not plan.uid:
            self._check()
            raw = await self._for_plans.create(GANGPLANS, spec, namespace=namespace)
        elif before is None or encode_spec(before) != document["spec"]:
            self._check()
            raw = await self._for_plans.replace(GANGPLANS, name, spec, namespace=namespace)
        if raw:
            written = decode_own_plan(raw)
            document["metadata"] |= {"uid": written.uid, "resourceVersion": written.resource_version}
        self._check()
        return await self._for_plans.replace(GANGPLANS, name, document, namespace=namespace, subresource="status")

    async def _read_again(self, plan: Plan) -> None:
        name, namespace = object_name(plan.key), plan.key.namespace
        try:
            self._plans.put(decode_own_plan(await self._for_plans.get(GANGPLANS, name, namespace=namespace)))
        except NotFound:
            self._plans.remove(namespace, name)

    async def _look_again(self, pod: Pod) -> None:
        try:
            self._pods.put(decode_pod(await self._for_pods.get(PODS, pod.name, namespace=pod.namespace)))
        except NotFound:
            self._pods.remove(pod.namespace, pod.name)

    def _check(self) -> None:
        if not self._leads():
            raise NotLeading("this replica does not lead any more")

    def _count(self, kind: str, error: ClusterError | None, started: float) -> None:
        outcome = "ok" if error is None else "conflict" if isinstance(error, Conflict | PatchFailed) else "error"
        self._telemetry.wrote(kind, outcome, perf_counter() - started)
