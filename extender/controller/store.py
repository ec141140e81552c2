"""Between the API server and the cache: what is read fills the cache, what is decided is written, by the leader.

Objects have names there, UIDs or keys here.  Answers to our own writes are taken up too, so that the next decision
knows of them.  The watch may be behind such an answer: older versions are passed over.  It may also be ahead, up to the
object's end: an answer brings nothing back.  A write that comes too late raises; the watch brings the newer object.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import Any, Self, TypeVar

import msgspec

from extender.cluster_api import client
from extender.cluster_api.client import ClusterApi, ClusterError, Conflict, Document, NotFound, PatchFailed
from extender.cluster_api.events import EventRecorder, Regarding
from extender.cluster_api.reflector import Identity, ObjectStore, version_number
from extender.cluster_cache import ClusterCache
from extender.controller.actions import EventNote, release_patch
from extender.controller.pacing import Preemption, Timeouts
from extender.extender_metrics import Metrics
from extender.gangs.types import GangKey
from extender.incidents import write_history
from extender.kubernetes_names import HISTORY_NAME, PLANNED
from extender.objects import DISRUPTED, DisruptionBudget, NamespaceObject, Owner, decode_pod, decode_version
from extender.plans.custom_resource import StoredObject
from extender.plans.gang_history import EndedRun, GangHistory, decode_history
from extender.plans.gang_plan import GangPlan, decode_plan, encode_plan, object_name
from extender.plans.reservation import Reservation, decode_reservation, encode_reservation
from ground.errors import ArnoldError, InvalidInput
from scheduler.placement.types import Limits
from scheduler.queue.policy import QueuePolicy
from topology.kubernetes.claim_table import reference_to
from topology.kubernetes.objects import AllocationObject, NodeObject
from topology.kubernetes.pods import NODE, Pod

T = TypeVar("T")
RELEASES = 16  # at once: with more the first pod would wait for the first halves of all others


class Stores:
    """The stores of all kinds, which fill one cache."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self.nodes = ObjectStore[NodeObject](cache.put_node, cache.drop_node, _by(_NAME))
        self.pods = ObjectStore[Pod](cache.put_pod, cache.drop_pod, _by(_UID))
        self.namespaces = ObjectStore[NamespaceObject](cache.weights.put, cache.weights.drop, _by(_NAME))
        self.budgets = ObjectStore[DisruptionBudget](
            lambda budget: cache.budgets.update({budget.metadata.uid: budget}),
            lambda uid: cache.budgets.pop(uid, None),
            _by(_UID),
        )
        self.plans = ObjectStore[GangPlan](
            cache.put_plan,
            cache.drop_plan,
            lambda plan: _ours(plan, plan.key.namespace, object_name(plan.key), plan.key),
        )
        self.reservations = ObjectStore[Reservation](
            cache.put_reservation, cache.drop_reservation, lambda held: _ours(held, *held.key, held.key)
        )
        self.histories = ObjectStore[GangHistory](
            cache.put_history,
            cache.drop_history,
            lambda past: _ours(past, past.namespace, HISTORY_NAME, past.namespace),
        )

    def allocation(self) -> ObjectStore[AllocationObject]:
        """Return a store of one kind of dynamic resource allocation."""
        return ObjectStore(self._cache.claimed.put, self._cache.claimed.drop, _by(reference_to))

    def owners(self) -> ObjectStore[Owner]:
        """Return a store of one kind of makers of pods."""
        return ObjectStore(self._cache.put_owner, self._cache.drop_owner, _by(_UID))


_NAME, _UID = attrgetter("metadata.name"), attrgetter("metadata.uid")


def _by(key: Callable[[Any], Any]) -> Callable[[Any], Identity]:
    """Return what tells objects apart by their metadata, and their key in the cache."""

    def identify(item: Any) -> Identity:
        meta = item.metadata
        return Identity((meta.namespace or "", meta.name), key(item), meta.uid, version_number(meta.resource_version))

    return identify


def _ours(item: GangPlan | Reservation | GangHistory, namespace: str, name: str, key: Any) -> Identity:
    return Identity((namespace, name), key, item.uid, version_number(item.resource_version))


def decode_own_plan(raw: bytes) -> GangPlan:
    """Return the plan of a GangPlan that bears the name of its gang, or raise ``InvalidInput``: it is none of ours."""
    plan = decode_plan(raw)
    if msgspec.json.decode(raw, type=StoredObject).metadata.name != object_name(plan.key):
        raise InvalidInput(f"it is not the GangPlan of gang {plan.key}", fix="delete it; Arnold makes GangPlans itself")
    return plan


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
    evicts: bool = False  # whether pods go by the Eviction API, which heeds disruption budgets
    _releasing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(RELEASES))
    # held while a history is written: of gangs that end together each adds to what the one before has written
    _learning: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def write(self, plan: GangPlan) -> GangPlan:
        """Write a plan, and return it as it is stored now, or raise ``Conflict``: it was written since it was read.

        The spec is written if it is new or has changed, then the status: the API server takes them apart.
        """
        document, name, namespace = encode_plan(plan), object_name(plan.key), plan.key.namespace
        before = self.state.plans.get(plan.key)
        spec: Document = {part: document[part] for part in ("apiVersion", "kind", "metadata", "spec")}
        self.state.under_way[plan.key] = done = asyncio.Event()
        # meanwhile its nodes are nobody else's, those that it has and those that it is to have
        promise, held = self.state.fleet.promise, () if before is None else before.promised
        promise(plan.key, {*held, *plan.promised})
        try:
            with self._counted("plan"):
                raw = b""
                if not plan.uid:
                    raw = await self.for_plans.create(client.GANGPLANS, spec, namespace=namespace)
                elif before is None or before.spec != plan.spec:
                    raw = await self.for_plans.replace(client.GANGPLANS, name, spec, namespace=namespace)
                if raw:
                    # The second half names the version that the first has made.
                    written = decode_own_plan(raw)
                    document["metadata"] |= {"uid": written.uid, "resourceVersion": written.resource_version}
                    self._check()
                raw = await self.for_plans.replace(
                    client.GANGPLANS, name, document, namespace=namespace, subresource="status"
                )
                stored = decode_own_plan(raw)
            self.stores.plans.wrote(stored, new=not plan.uid)
        finally:
            now = self.state.plans.get(plan.key)
            promise(plan.key, () if now is None else now.promised)
            self.state.under_way.pop(plan.key, None)
            done.set()
        return stored

    async def release(self, pod: Pod, node: str, mark: str) -> None:
        """Nominate a node for a pod, take its gate off and mark it, or raise ``Conflict``: it is not what it was."""
        space, name = pod.namespace, pod.name
        async with self._releasing:
            with self._counted("release"):
                raw = await self._patch_status(pod, {"nominatedNodeName": node})
                # the watch need not repeat it: in a moment the second answer is all of the pod
                self.stores.pods.pass_over(space, name, version := decode_version(raw))
                change = release_patch(pod, node, mark, version=version)
                try:
                    raw = await self.for_pods.patch(client.PODS, name, change, kind="merge-patch", namespace=space)
                finally:
                    self.stores.pods.wrote(decode_pod(raw))

    async def tell(self, pod: Pod, node: str) -> None:
        """Write into a pod which node it has; one that was bound meanwhile, which refuses it, knows."""
        status = _condition(PLANNED, "Planned", f"planned on node {node}") | {"nominatedNodeName": node}
        with suppress(PatchFailed), self._counted("tell"):
            moved = {NODE: node} if pod.released else None
            self.stores.pods.wrote(decode_pod(await self._patch_status(pod, status, annotations=moved)))

    async def tell_of_room(self, pod: Pod) -> None:
        """Write into the status of a pod without a gang that nodes were given back, so that it is tried again."""
        what = "nodes that were promised or reserved are free again"
        with self._counted("tell"):
            condition = _condition(PLANNED, "NodesFree", what, holds=False)
            self.stores.pods.wrote(decode_pod(await self._patch_status(pod, condition)))

    async def evict(self, pod: Pod, why: str) -> None:
        """Evict a pod, unless it is another of the same name by now, or raise ``Busy``: a disruption budget forbids it.

        Where gangs do not preempt, the API server lets us delete pods alone that say they may be stopped.  Such a one
        is told first that it is disrupted, as the eviction API does, so that the podFailurePolicy of a Job that ignores
        disruptions does not count it as a failure.
        """
        with suppress(NotFound, Conflict), self._counted("evict"):
            if self.evicts:
                await self.for_pods.evict(pod.name, namespace=pod.namespace, uid=pod.uid)
            else:
                await self._patch_status(pod, _condition(DISRUPTED, "PreemptedByArnold", why))
                await self.for_pods.delete(client.PODS, pod.name, namespace=pod.namespace, uid=pod.uid)

    async def refused(self, pods: Iterable[Pod]) -> list[tuple[Pod, ArnoldError]]:
        """Return which pods the API server would not let us evict now, and why; none where gangs do not preempt."""
        here = [pod for pod in pods if self.evicts and not pod.leaving]
        tries = await asyncio.gather(*map(self._try_to_evict, here), return_exceptions=True)
        for error in tries:
            if error is not None and not isinstance(error, ArnoldError):
                raise error
        return [(pod, error) for pod, error in zip(here, tries, strict=True) if isinstance(error, ArnoldError)]

    async def _try_to_evict(self, pod: Pod) -> None:
        with suppress(NotFound, Conflict), self._counted("evict-dry-run"):
            await self.for_pods.evict(pod.name, namespace=pod.namespace, uid=pod.uid, dry_run=True)

    async def reserve(self, reservation: Reservation) -> None:
        """Write the status of a reservation, or raise ``Conflict``: it was written since it was read."""
        name, namespace = reservation.key.name, reservation.key.namespace
        with self._counted("reservation"), suppress(NotFound):
            raw = await self.for_plans.replace(
                client.RESERVATIONS, name, encode_reservation(reservation), namespace=namespace, subresource="status"
            )
            self.stores.reservations.wrote(decode_reservation(raw))

    async def learn(self, run: EndedRun) -> None:
        """Add a gang that ended to the history of its namespace, or raise ``Conflict``: another replica writes it."""
        await self._remember(run.key.namespace, lambda history: history.learnt(run))

    async def preempts(self, key: GangKey, now: datetime) -> None:
        """Add a preemption to the history of a gang's namespace, or raise ``Conflict``: another replica writes it."""
        await self._remember(key.namespace, lambda history: history.preempted(now.replace(microsecond=0)))

    async def _remember(self, namespace: str, more: Callable[[GangHistory], GangHistory]) -> None:
        async with self._learning:
            cached = self.state.histories.get(namespace)
            if cached is not None and more(cached) is cached:
                return
            with self._counted("history"):
                before = cached or GangHistory(namespace=namespace)
                try:
                    raw = await write_history(self.for_plans, more(before))
                except Conflict:
                    # The watch is behind, or what is there could not be read.
                    raw = await self.for_plans.get(client.HISTORIES, HISTORY_NAME, namespace=namespace)
                    before = decode_history(raw)
                    if (after := more(before)) is not before:
                        self._check()
                        raw = await write_history(self.for_plans, after)
            self.stores.histories.wrote(decode_history(raw), new=cached is None)

    async def forget(self, plan: GangPlan) -> None:
        """Delete a plan, or raise ``Conflict``: it is another of the same name by now."""
        name, namespace = object_name(plan.key), plan.key.namespace
        with suppress(NotFound), self._counted("forget"):
            await self.for_plans.delete(client.GANGPLANS, name, namespace=namespace, uid=plan.uid)
        self.stores.plans.remove(namespace, name)

    async def _patch_status(self, pod: Pod, status: Document, *, annotations: Document | None = None) -> bytes:
        """Write into a pod's status, and annotations that come with it, and return the pod as it is stored now."""
        metadata = {"uid": pod.uid} | ({} if annotations is None else {"annotations": annotations})
        change = {"metadata": metadata, "status": status}
        return await self.for_pods.patch(
            client.PODS, pod.name, change, kind="strategic-merge-patch", namespace=pod.namespace, subresource="status"
        )

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


def _condition(kind: str, reason: str, message: str, *, holds: bool = True) -> Document:
    """Return a pod's status with a condition that is written now."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    return {"conditions": [{"type": kind, "status": str(holds), "reason": reason, "message": message, **times}]}


TOGETHER = 8  # writes at once, as many as the API server is sent at once


class SideWrites:
    """Tasks that write, one of a gang at a time; as a block it ends when all are done.

    The next gang is looked at while the API server takes what was decided about others.
    """

    def __init__(self) -> None:
        self._tasks: dict[GangKey, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """What is under way."""
        return tuple(task for task in self._tasks.values() if not task.done())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*self._tasks.values())

    async def done(self, key: GangKey) -> None:
        """Return when nothing is being written about a gang."""
        if (task := self._tasks.get(key)) is not None:
            try:
                await task
            finally:  # not before: until then it is one of those under way
                if self._tasks.get(key) is task:
                    del self._tasks[key]

    def start(self, key: GangKey, write: Coroutine[None, None, None]) -> None:
        """Write about a gang, about which nothing is being written."""
        self._tasks[key] = asyncio.create_task(write, name=f"write {key}")

    async def place(self) -> None:
        """Return when one more may be started."""
        if len(self.tasks) >= TOGETHER:
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
        self._tasks = {key: task for key, task in self._tasks.items() if not task.done()}


Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """What the tasks of the controller share."""

    state: ClusterCache
    writer: Writer
    events: EventRecorder
    metrics: Metrics
    policy: QueuePolicy  # the order of gangs that wait
    limits: Limits
    terms: Timeouts
    preemption: Preemption = "advise"
    preemptions_per_hour: int = 10
    leads: Callable[[], bool]  # whether this replica leads, at this very moment
    synced: Callable[[], bool]  # whether the cache holds the cluster
    now: Callable[[], datetime] = field(default=partial(datetime.now, UTC))
    # held while the solver is asked, and until its answer is in the cache: one question at a time
    solver: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def active(self) -> bool:
        """Whether this replica may decide now."""
        return self.leads() and self.synced()

    def announce(self, plan: GangPlan, notes: Iterable[EventNote]) -> None:
        """Post events about a plan."""
        regarding = Regarding(client.GANGPLANS, plan.key.namespace, object_name(plan.key), plan.uid)
        for note in notes:
            self.events.say(regarding, reason=note.reason, note=note.note, kind=note.kind)

    async def ask(self, solve: Callable[[Q, Limits], A], question: Q, *, what: str, fits: Callable[[A], bool]) -> A:
        """Ask the solver, in a thread, and count in metrics whether the answer is what was asked for."""
        started = perf_counter()
        answer = await asyncio.to_thread(solve, question, self.limits)
        outcome = what if fits(answer) else f"{what}-no-room"
        self.metrics.plan_seconds.labels(outcome=outcome).observe(perf_counter() - started)
        return answer
