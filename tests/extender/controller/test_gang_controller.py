"""The loop on a cluster in memory: what is decided is done, in spite of everything, and by the leader alone."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from extender.cluster_api.client import (
    BUDGETS,
    EVENTS,
    GANGPLANS,
    HISTORIES,
    NODES,
    PODS,
    RESERVATIONS,
    Busy,
    Conflict,
    PatchFailed,
    Refused,
    Resource,
)
from extender.cluster_api.events import EventRecorder
from extender.cluster_api.reflector import Reflector
from extender.cluster_cache import ClusterCache
from extender.controller import actions as act
from extender.controller import pacing
from extender.controller.decide import decide
from extender.controller.loop import GangController, Planning, PlanningOutcome
from extender.controller.pacing import Timeouts
from extender.controller.reservations import ReservationController
from extender.controller.store import TOGETHER, Dependencies, Stores, Writer, decode_own_plan
from extender.extender_metrics import Metrics
from extender.gangs.types import GangKey
from extender.objects import decode_budget, decode_node, decode_pod
from extender.planner.solve import ZoneQuestion, find_zone
from extender.plans.gang_history import decode_history
from extender.plans.gang_plan import IN_LINE, GangPlan, PlanPhase, decode_plan
from extender.plans.reservation import Reservation, ReservationPhase, decode_reservation
from scheduler.placement.types import Limits
from scheduler.queue.arnold import Arnold
from scheduler.queue.policy import QueuePolicy
from scheduler.queue.priority import PriorityAge
from tests.extender.fake_cluster import FakeCluster, unreachable
from tests.extender.things import (
    LIMITS,
    MINIPOD,
    RACK,
    SPACE,
    Json,
    member_json,
    node_json,
    pod_json,
    reservation_json,
    uid,
)
from topology.kubernetes.nodes import SLOWDOWN, SLOWDOWN_UNTIL
from topology.kubernetes.pods import NODE

SIZE = 6


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop without its pauses, which are there for real clusters."""
    monkeypatch.setattr("extender.controller.pacing.PAUSE", 0.001)
    monkeypatch.setattr("extender.controller.pacing.QUIET", 0.01)
    monkeypatch.setattr("extender.controller.loop.SETTLE", 0.01)
    monkeypatch.setattr("extender.controller.reservations.LOOK_SECONDS", 0.005)
    monkeypatch.setattr(pacing, "LONGEST_IDLE", 0.01)
    monkeypatch.setattr(pacing, "AGAIN", 0.01)


class Replica:
    """All of one replica but its server: cache, watches, controller."""

    def __init__(
        self,
        api: FakeCluster,
        policy: QueuePolicy | None = None,
        preemption: pacing.Preemption = "advise",
        per_hour: int = 10,
        terms: Timeouts | None = None,
    ) -> None:
        policy = policy or PriorityAge()
        self.leads = True
        self.state = ClusterCache([MINIPOD, RACK])
        changed = asyncio.Event()
        stores = Stores(self.state)
        self.reflectors: list[Reflector[Any]] = [
            Reflector(api, NODES, decode=decode_node, sink=stores.nodes, changed=changed.set),
            Reflector(api, PODS, decode=decode_pod, sink=stores.pods, changed=changed.set),
            Reflector(api, GANGPLANS, decode=decode_own_plan, sink=stores.plans, changed=changed.set),
            Reflector(api, RESERVATIONS, decode=decode_reservation, sink=stores.reservations, changed=changed.set),
            Reflector(api, HISTORIES, decode=decode_history, sink=stores.histories, changed=changed.set),
            Reflector(api, BUDGETS, decode=decode_budget, sink=stores.budgets, changed=changed.set),
        ]
        self.events = EventRecorder(api, instance="test")
        self.writer = Writer(
            state=self.state,
            stores=stores,
            for_pods=api,
            for_plans=api,
            leads=lambda: self.leads,
            metrics=Metrics(plans=tuple, leads=bool),
            evicts=preemption == "on",
        )
        shared = Dependencies(
            state=self.state,
            writer=self.writer,
            events=self.events,
            metrics=Metrics(plans=tuple, leads=bool),
            policy=policy,
            limits=LIMITS,
            terms=terms or Timeouts(),
            preemption=preemption,
            preemptions_per_hour=per_hour,
            leads=lambda: self.leads,
            synced=lambda: all(one.synced for one in self.reflectors),
        )
        self.controller = GangController(shared, changed)
        self.reserver = ReservationController(shared)

    def start(self) -> list[asyncio.Task[None]]:
        """Start its tasks."""
        work = [self.controller.run(), self.reserver.run(), self.events.run(), *(one.run() for one in self.reflectors)]
        return [asyncio.create_task(one) for one in work]


@asynccontextmanager
async def running(api: FakeCluster, policy: QueuePolicy | None = None, **options: Any) -> AsyncIterator[Replica]:
    """A replica that runs with the block and is killed with it; ``options`` are those of preemption, and its times."""
    replica = Replica(api, policy, **options)
    tasks = replica.start()
    try:
        yield replica
    finally:
        await kill(replica, tasks)


async def kill(replica: Replica, tasks: list[asyncio.Task[None]]) -> None:
    """Whatever a replica does ends where it is."""
    controller = replica.controller
    everything = [*tasks, *(task for task in (*controller._tasks.values(), controller._round) if task)]
    everything += (*controller._newcomers.tasks, *controller._singles.tasks, *controller._outlooks.tasks)
    for task in everything:
        task.cancel()
    await asyncio.gather(*everything, return_exceptions=True)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario; one that waits in vain fails after a minute, however busy the machine."""
    asyncio.run(asyncio.wait_for(scenario(), 60))


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until something is so."""
    for _ in range(25_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"waited in vain for {what}")


def cluster(minipods: int = 2, nodes: int = 4) -> FakeCluster:
    """Nodes, and no pods yet."""
    api = FakeCluster()
    for m in range(minipods):
        for i in range(nodes):
            api.put(NODES, node_json(f"m{m}-{i}", f"mp{m}", f"mp{m}r0"))
    return api


def submit(api: FakeCluster, gang: str, size: int = SIZE, **more: Any) -> None:
    """A user creates the pods of a gang."""
    for rank in range(size):
        api.put(PODS, member_json(gang, rank, size, **more))


def pods_of(api: FakeCluster, gang: str) -> list[Json]:
    """The pods of a gang as the server has them."""
    return [pod for pod in api.objects["pods"].values() if pod["metadata"]["labels"].get("arnold.dev/gang") == gang]


def released(api: FakeCluster, gang: str) -> int:
    """Pods of a gang without gate."""
    return sum(not pod["spec"].get("schedulingGates") for pod in pods_of(api, gang))


def plan(api: FakeCluster, gang: str) -> GangPlan | None:
    """The plan of a gang as the server has it."""
    found = api.objects[GANGPLANS.plural].get((SPACE, gang))
    return None if found is None else decode_plan(dict(found))


def phase(api: FakeCluster, gang: str) -> PlanPhase | None:
    """Its phase."""
    found = plan(api, gang)
    return None if found is None else found.phase


def judged(api: FakeCluster, gang: str) -> bool:
    """Whether it waits and the solver was asked about it, rather than that it merely has its place in line."""
    found = plan(api, gang)
    return found is not None and found.phase is PlanPhase.QUEUED and found.reason != IN_LINE


def bind(api: FakeCluster, gang: str) -> None:
    """The scheduler binds all released pods of a gang on their nodes."""
    for pod in pods_of(api, gang):
        if not pod["spec"].get("schedulingGates"):
            pod["spec"]["nodeName"] = pod["metadata"]["annotations"][NODE]
            api.put(PODS, pod)


def on_plan(api: FakeCluster, gang: str) -> bool:
    """Whether every pod of a gang is released to its rank's node, which is nominated for it."""
    found = plan(api, gang)
    assert found is not None
    nodes = {
        int(pod["metadata"]["labels"]["arnold.dev/rank"]): {
            pod["metadata"]["annotations"].get(NODE),
            pod["status"].get("nominatedNodeName"),
        }
        for pod in pods_of(api, gang)
    }
    return nodes == {rank: {node} for rank, node in enumerate(found.nodes)}


def test_from_pods_to_nodes_and_away() -> None:
    """A gang is planned, released, bound and forgotten; what happened is told in Events."""

    async def scenario() -> None:
        api = cluster()
        async with running(api):
            submit(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")
            assert on_plan(api, "g")
            bind(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.BOUND, "the gang to be bound")
            await until(lambda: len(api.objects[EVENTS.plural]) >= 2, "events")
            reasons = {event["reason"] for event in api.objects[EVENTS.plural].values()}
            assert reasons >= {"Planned", "Bound"}
            for rank in range(SIZE):
                api.remove(PODS, f"g-{rank}", SPACE)
            await until(lambda: plan(api, "g") is None, "the plan to go")

    run(scenario)


def test_a_gang_that_cannot_be_decided_about_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug that one gang brings about is logged with its name, and it is tried again; the others are planned."""
    ill = [True]

    def stumbling(*given: Any, keys: Sequence[GangKey]) -> act.Decision:
        if ill[0] and GangKey(SPACE, "a") in keys:
            raise RuntimeError("of gang a alone")
        return decide(*given, keys=keys)

    monkeypatch.setattr("extender.controller.loop.decide", stumbling)

    async def scenario() -> None:
        api = cluster()
        async with running(api):
            submit(api, "a", 2)
            submit(api, "b", 2)
            await until(lambda: phase(api, "b") is PlanPhase.RELEASED, "b to be released")
            assert plan(api, "a") is None
            ill[0] = False
            await until(lambda: phase(api, "a") is PlanPhase.RELEASED, "a to be released")

    run(scenario)
    told = [record for record in caplog.records if "a bug in Arnold" in record.message]
    assert {record.gang for record in told} == {f"{SPACE}/a"}  # type: ignore[attr-defined]


def test_nodes_are_promised_while_their_plan_is_written() -> None:
    """From the moment at which it is sent, and no longer where it is refused; what others have since is theirs."""

    async def scenario() -> None:
        api = cluster()
        seen: list[tuple[GangKey | None, ...]] = []
        original = api.replace
        async with running(api) as replica:
            promised_to = replica.state.fleet.promised_to

            async def replace(*args: Any, **kwargs: Any) -> bytes:
                seen.append(tuple(map(promised_to, ("m0-0", "m0-1", "m0-2"))))
                return await original(*args, **kwargs)

            submit(api, "g", 2)
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")
            held = replica.state.plans[g := GangKey(SPACE, "g")]
            api.replace = replace  # type: ignore[method-assign]
            api.fail_next("replace/status", Conflict("changed", status=409, reason="Conflict"))
            with pytest.raises(Conflict):
                await replica.writer.write(held.moved_to(("m0-1", "m0-2")))
            assert seen[0] == (g, g, g)
            assert tuple(map(promised_to, ("m0-0", "m0-1", "m0-2"))) == (g, g, None)
            # a plan that was decided on before another gang was given its nodes is not written
            h = GangKey(SPACE, "h")
            writes = len(seen)
            await replica.controller._carry_out(h, [act.Write(held.replace(key=h, uid="", resource_version=""))])
            assert (len(seen), phase(api, "h")) == (writes, None)

    run(scenario)


def counted_gangs(api: FakeCluster) -> int:
    """Ended gangs that the history of the namespace counts."""
    found = api.objects[HISTORIES.plural].get((SPACE, "arnold"))
    return 0 if found is None else sum(one.run_times.jobs for one in decode_history(dict(found)).kinds)


async def run_and_end(api: FakeCluster, gang: str, size: int = SIZE) -> None:
    """A gang comes, runs and is deleted."""
    submit(api, gang, size)
    await until(lambda: phase(api, gang) is PlanPhase.RELEASED, f"{gang} to be released")
    bind(api, gang)
    await until(lambda: phase(api, gang) is PlanPhase.BOUND, f"{gang} to be bound")
    for rank in range(size):
        api.remove(PODS, f"{gang}-{rank}", SPACE)
    await until(lambda: plan(api, gang) is None, f"the plan of {gang} to go")


def test_how_long_gangs_ran_is_remembered_across_restarts() -> None:
    """Two replicas after one another: the second foresees from what the first has seen, and each gang counts once."""

    async def scenario() -> None:
        api = cluster()
        async with running(api):
            for number in range(3):
                await run_and_end(api, f"llm-{number}")
        assert counted_gangs(api) == 3
        async with running(api):
            for number in range(3, 5):
                await run_and_end(api, f"llm-{number}")
            submit(api, "llm-9")
            await until(lambda: phase(api, "llm-9") is PlanPhase.RELEASED, "the last gang to be released")
            found = plan(api, "llm-9")
            assert found is not None
            assert found.estimate is not None
            assert found.estimate.jobs == counted_gangs(api) == 5

    run(scenario)


def test_a_gang_counts_once_though_its_plan_cannot_be_deleted() -> None:
    """It is counted before its plan goes; whoever tries again, or takes over, sees that it was."""

    async def scenario() -> None:
        api = cluster()
        original = api.delete

        async def delete(*args: Any, **kwargs: Any) -> None:
            raise unreachable()

        api.delete = delete  # type: ignore[method-assign]
        async with running(api):
            submit(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")
            bind(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.BOUND, "the gang to be bound")
            for pod in pods_of(api, "g"):
                pod["status"]["phase"] = "Succeeded"
                api.put(PODS, pod)
            await until(lambda: counted_gangs(api) == 1, "the gang to be counted")
            await asyncio.sleep(0.5)
            assert plan(api, "g") is not None
        async with running(api):
            await asyncio.sleep(0.2)
            api.delete = original  # type: ignore[method-assign]
            await until(lambda: plan(api, "g") is None, "the plan to go")
        assert counted_gangs(api) == 1

    run(scenario)


@pytest.mark.parametrize("status", [403, 404, 422])
def test_nodes_are_free_although_nothing_may_be_remembered(status: int) -> None:
    """Rights or definition from before the upgrade, a namespace that goes: the plan goes all the same."""

    async def scenario() -> None:
        api = cluster()
        original = api.create

        async def create(resource: Any, document: Json, **kwargs: Any) -> bytes:
            if resource == HISTORIES:
                raise Refused("no", status=status, reason="No")
            return await original(resource, document, **kwargs)

        api.create = create  # type: ignore[method-assign]
        async with running(api):
            await run_and_end(api, "g")
        assert counted_gangs(api) == 0

    run(scenario)


def test_a_history_that_another_wrote_is_read_again() -> None:
    """The watch has not told of it yet, as after a change of leaders: nothing of it is lost."""

    async def scenario() -> None:
        api = cluster()
        async with running(api) as replica:
            await run_and_end(api, "g")
            replica.state.drop_history(SPACE)
            await run_and_end(api, "h")
        assert counted_gangs(api) == 2

    run(scenario)


def test_the_plan_is_written_before_the_first_pod_is_released() -> None:
    """The order of writes: make the GangPlan, write its status, and only then touch pods."""

    async def scenario() -> None:
        api = cluster()
        async with running(api):
            submit(api, "g")
            await until(lambda: released(api, "g") == SIZE, "all releases")
        writes = [verb for verb, plural, _ in api.asked if plural in ("pods", "gangplans")]
        writes = [verb for verb in writes if verb not in ("page", "watch")]
        assert writes[:3] == ["create", "replace/status", "patch"]

    run(scenario)


def test_a_follower_writes_nothing() -> None:
    """Only the leader acts; a follower that becomes it goes on at once."""

    async def scenario() -> None:
        api = cluster()
        async with running(api) as replica:
            replica.leads = False
            submit(api, "g")
            await asyncio.sleep(0.1)
            assert phase(api, "g") is None
            replica.leads = True
            replica.controller._changed.set()
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")

    run(scenario)


def test_a_leader_that_loses_its_lease_stops_in_the_middle() -> None:
    """The clock of the Lease is asked before every write, not only before every decision."""

    async def scenario() -> None:
        api = cluster()
        async with running(api) as replica:
            original = api.patch

            async def patch(*args: Any, **kwargs: Any) -> bytes:
                answer = await original(*args, **kwargs)
                replica.leads = released(api, "g") < 2
                await asyncio.sleep(0)
                return answer

            api.patch = patch  # type: ignore[method-assign]
            replica.writer.for_pods = _OneByOne(api)  # type: ignore[assignment]
            submit(api, "g")
            await until(lambda: released(api, "g") == 2, "two releases")
            await asyncio.sleep(0.05)
            assert released(api, "g") == 2

    run(scenario)


class _OneByOne:
    """An API that takes one patch at a time, as flow control may have it."""

    def __init__(self, api: FakeCluster) -> None:
        self._api = api
        self._lock = asyncio.Lock()

    async def patch(self, *args: Any, **kwargs: Any) -> bytes:
        """See the protocol."""
        async with self._lock:
            if released(self._api, "g") >= 2:
                await asyncio.sleep(3600)
            return await self._api.patch(*args, **kwargs)


@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("create", Conflict("exists", status=409, reason="AlreadyExists")),
        ("create", unreachable()),
        ("replace/status", Conflict("changed", status=409, reason="Conflict")),
        ("replace/status", Busy("later", status=503, reason="ServiceUnavailable")),
        ("patch", PatchFailed("test failed", status=422, reason="Invalid")),
        ("patch", unreachable()),
    ],
)
def test_writes_that_fail_are_tried_again(verb: str, error: Exception) -> None:
    """Each kind of failure of each write: the gang gets there all the same."""

    async def scenario() -> None:
        api = cluster()
        api.fail_next(verb, error, error)
        async with running(api):
            submit(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")
            assert on_plan(api, "g")

    run(scenario)


def test_a_gang_that_fails_does_not_stop_the_others() -> None:
    """The writes of one gang fail for ever; the other one runs."""

    async def scenario() -> None:
        api = cluster(minipods=4)
        original = api.create

        async def create(resource: Any, document: Json, **kwargs: Any) -> bytes:
            if document["metadata"]["name"] == "bad":
                raise unreachable()
            return await original(resource, document, **kwargs)

        api.create = create  # type: ignore[method-assign]
        async with running(api):
            submit(api, "bad", created="2026-11-21T09:00:00Z")
            submit(api, "good")
            await until(lambda: phase(api, "good") is PlanPhase.RELEASED, "the good gang to be released")
            assert released(api, "bad") == 0

    run(scenario)


def test_the_head_of_the_queue_need_not_wait_for_a_whole_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole rounds are far apart here, glances are not: the gang that has waited longest has nodes as soon as one is
    free.
    """
    own_round = Planning.round

    async def rounded(planning: Planning, **options: Any) -> frozenset[PlanningOutcome]:
        # of this round's end the pause is counted
        monkeypatch.setattr(pacing, "LONGEST_IDLE", 0.0 if options["glance"] else 1e9)
        return await own_round(planning, **options)

    monkeypatch.setattr(pacing, "IDLE", 1e12)
    monkeypatch.setattr(Planning, "round", rounded)

    async def scenario() -> None:
        api = cluster(minipods=2, nodes=3)
        api.put(PODS, pod_json("tenant", node="m0-0"))
        for hour, name in enumerate(("first", "second", "third"), start=8):
            submit(api, name, created=f"2026-11-21T{hour:02d}:00:00Z")
        async with running(api):
            await until(lambda: judged(api, "third"), "the last gang to be told that it waits")
            await api.delete(PODS, "tenant", namespace=SPACE)
            await until(lambda: phase(api, "first") is PlanPhase.RELEASED, "the first gang to be released")

    run(scenario)


def test_all_gangs_are_thought_about_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although a gang that is to be bound in five minutes is due only then: the flag of another's node runs out."""
    monkeypatch.setattr("extender.controller.pacing.RETHINK", 0.05)

    def healthy(api: FakeCluster) -> str | None:
        found = plan(api, "runs")
        said = None if found is None else found.condition("Healthy")
        return None if said is None else said.status

    async def scenario() -> None:
        api = cluster(minipods=2, nodes=4)
        async with running(api):
            submit(api, "runs", 4)
            await until(lambda: phase(api, "runs") is PlanPhase.RELEASED, "the first gang to be released")
            bind(api, "runs")
            await until(lambda: phase(api, "runs") is PlanPhase.BOUND, "the first gang to be bound")
            submit(api, "waits", 4)
            await until(lambda: phase(api, "waits") is PlanPhase.RELEASED, "the second gang to be released")
            flagged = api.find(NODES, min(nodes_of(api, "runs")))
            flagged["metadata"]["annotations"] = {SLOWDOWN: "faulty"}
            api.put(NODES, flagged)
            await until(lambda: healthy(api) == "False", "the flag to be told")
            end = datetime.now(UTC) + timedelta(seconds=0.5)
            flagged["metadata"]["annotations"] |= {SLOWDOWN_UNTIL: end.isoformat()}
            api.put(NODES, flagged)
            # Nothing happens in the cluster any more.
            await until(lambda: healthy(api) == "True", "the end of the flag to be told")

    run(scenario)


def test_a_gang_deleted_while_it_is_released() -> None:
    """Answers to our patches arrive after the pods are gone: nothing of them comes back."""

    async def scenario() -> None:
        api = cluster()
        original = api.patch

        async def patch(*args: Any, **kwargs: Any) -> bytes:
            answer = await original(*args, **kwargs)
            await asyncio.sleep(0.05)
            return answer

        api.patch = patch  # type: ignore[method-assign]
        async with running(api) as replica:
            submit(api, "g")
            await until(lambda: released(api, "g") == SIZE, "all releases")
            for rank in range(SIZE):
                api.remove(PODS, f"g-{rank}", SPACE)
            await until(lambda: plan(api, "g") is None, "the plan to go")
            await asyncio.sleep(0.1)
            assert not replica.state.pods
            assert plan(api, "g") is None

    run(scenario)


def test_forged_plans_are_passed_over() -> None:
    """A GangPlan under another name claims a gang: it is none of ours, and the gang gets its own."""

    async def scenario() -> None:
        api = cluster()
        forged = {
            "metadata": {"name": "forged", "namespace": SPACE, "uid": uid("forged")},
            "spec": {"gang": "g"},
            "status": {"phase": "Bound"},
        }
        api.put(GANGPLANS, forged)
        async with running(api):
            submit(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")
            assert on_plan(api, "g")

    run(scenario)


def test_pods_without_a_gate_are_told() -> None:
    """Their status says that they have a node, which makes kube-scheduler ask again; where it has not refused them, as
    here, after a while.
    """

    async def scenario() -> None:
        api = cluster()
        async with running(api, terms=Timeouts(tell=timedelta(seconds=0.3))):
            submit(api, "g", gate=False)
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be planned")
            found = plan(api, "g")
            assert found is not None

            def told(rank: int) -> list[tuple[str, str]]:
                conditions = api.find(PODS, f"g-{rank}", SPACE)["status"].get("conditions", [])
                return [(condition["type"], condition["message"]) for condition in conditions]

            expected = [[("arnold.dev/Planned", f"planned on node {node}")] for node in found.nodes]
            await until(lambda: [told(rank) for rank in range(len(expected))] == expected, "its pods to be told")

    run(scenario)


def test_a_node_lost_under_a_running_gang() -> None:
    """Deleted node, recreated pod: the pod is released to another node, the others stay."""

    async def scenario() -> None:
        api = cluster()
        async with running(api):
            submit(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")
            bind(api, "g")
            await until(lambda: phase(api, "g") is PlanPhase.BOUND, "the gang to be bound")
            before = plan(api, "g")
            assert before is not None
            api.remove(NODES, before.nodes[2])
            api.remove(PODS, "g-2", SPACE)
            again = member_json("g", 2, SIZE)
            again["metadata"]["uid"] = uid("again")
            api.put(PODS, again)
            await until(lambda: released(api, "g") == SIZE, "the new pod to be released")
            after = plan(api, "g")
            assert after is not None
            assert [a == b for a, b in zip(before.nodes, after.nodes, strict=True)] == [
                rank != 2 for rank in range(SIZE)
            ]
            assert on_plan(api, "g")

    run(scenario)


def announce(api: FakeCluster, size: int) -> None:
    """A user announces a gang."""
    document = reservation_json("llm", nodes=size)
    document["spec"]["arrives"] = (datetime.now(UTC) + timedelta(hours=4)).isoformat().replace("+00:00", "Z")
    api.put(RESERVATIONS, document)


def reserved(api: FakeCluster) -> Reservation:
    """The reservation as the server has it."""
    return decode_reservation(api.find(RESERVATIONS, "llm", SPACE))


def nodes_of(api: FakeCluster, gang: str) -> set[str]:
    """The nodes that a gang's pods are bound to."""
    return {pod["spec"]["nodeName"] for pod in pods_of(api, gang) if "nodeName" in pod["spec"]}


def test_from_an_announcement_to_the_gang_on_its_zone() -> None:
    """A zone is found and written; a preemptible gang uses it and goes when the announced one is there."""

    async def scenario() -> None:
        api = cluster()
        async with running(api, Arnold()):
            announce(api, 6)
            await until(lambda: reserved(api).held, "a zone")
            zone = set(reserved(api).zone)
            submit(api, "spare", 4, annotations={"arnold.dev/preemptible": "true"})
            await until(lambda: released(api, "spare") == 4, "the preemptible gang to be released")
            bind(api, "spare")
            await until(lambda: phase(api, "spare") is PlanPhase.BOUND, "the preemptible gang to be bound")
            # Two of the eight nodes are outside the zone.
            await until(
                lambda: reserved(api).held_by_others == len(nodes_of(api, "spare") & zone), "others to be counted"
            )
            submit(api, "llm", 6)
            await until(lambda: phase(api, "llm") is PlanPhase.RELEASED, "the announced gang to be released")
            found = plan(api, "llm")
            assert found is not None
            assert set(found.nodes) == zone
            assert pods_of(api, "spare") == []
            await until(lambda: reserved(api).phase is ReservationPhase.USED, "the reservation to be used")
            reasons = {event["reason"] for event in api.objects[EVENTS.plural].values()}
            assert reasons >= {"Held", "Preempted", "Used"}

    run(scenario)


def test_a_zone_that_could_not_be_written_is_found_again() -> None:
    """Somebody else wrote the reservation meanwhile: the answer is lost, and asked for again though nothing changes."""

    async def scenario() -> None:
        api = cluster()
        api.fail_next("replace/status", Conflict("changed since", status=409, reason="Conflict"))
        async with running(api, Arnold()):
            announce(api, 6)
            await until(lambda: reserved(api).held, "a zone")

    run(scenario)


def test_nodes_that_come_while_a_zone_is_sought_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver was told of four nodes, and six are there when it answers: it is asked once more."""
    monkeypatch.setattr("extender.controller.reservations.RETHINK", 0.01)
    asked = 0

    async def scenario() -> None:
        api, loop = cluster(minipods=1, nodes=4), asyncio.get_running_loop()
        async with running(api, Arnold()) as replica:

            def slowly(question: ZoneQuestion, limits: Limits) -> Reservation:
                nonlocal asked
                asked += 1
                answer = find_zone(question, limits)
                if asked == 1:
                    for i in (4, 5):
                        loop.call_soon_threadsafe(api.put, NODES, node_json(f"m0-{i}", "mp0", "mp0r0"))
                    while replica.state.fleet.host("m0-5") is None:
                        time.sleep(0.001)
                return answer

            monkeypatch.setattr("extender.controller.reservations.find_zone", slowly)
            announce(api, 6)
            await until(lambda: reserved(api).held, "a zone")

    run(scenario)


def test_a_gang_that_could_not_be_stopped_is_stopped_at_the_next_try() -> None:
    """Its plan was written by another in between: the stop is not put off until the next round, half a minute later."""

    async def scenario() -> None:
        api = cluster()
        original, refused = api.replace, 0

        async def replace(resource: Any, name: str, document: Json, **kwargs: Any) -> bytes:
            nonlocal refused
            if document.get("status", {}).get("reason") == "Preempted" and refused < 2:
                refused += 1
                raise Conflict("changed since", status=409, reason="Conflict")
            return await original(resource, name, document, **kwargs)

        api.replace = replace  # type: ignore[method-assign]
        async with running(api, Arnold()):
            announce(api, 8)
            await until(lambda: reserved(api).held, "a zone")
            submit(api, "spare", 4, annotations={"arnold.dev/preemptible": "true"})
            await until(lambda: released(api, "spare") == 4, "the preemptible gang to be released")
            bind(api, "spare")
            await until(lambda: phase(api, "spare") is PlanPhase.BOUND, "the preemptible gang to be bound")
            submit(api, "llm", 8)
            await until(lambda: phase(api, "llm") is PlanPhase.RELEASED, "the announced gang to be released")
            assert refused == 2

    run(scenario)


def test_a_pod_that_could_not_be_stopped_is_stopped_at_the_next_try() -> None:
    """The API server was away when single pods were asked to go: they are asked again soon."""

    async def scenario() -> None:
        api = cluster()
        async with running(api, Arnold()):
            announce(api, 8)
            await until(lambda: reserved(api).held, "a zone")
            api.put(PODS, pod_json("spare", node="m0-0", annotations={"arnold.dev/preemptible": "true"}))
            await until(lambda: reserved(api).held_by_others == 1, "the pod to be counted")
            api.fail_next("patch", unreachable())
            submit(api, "llm", 8)
            await until(lambda: phase(api, "llm") is PlanPhase.RELEASED, "the announced gang to be released")
            assert (SPACE, "spare") not in api.objects[PODS.plural]

    run(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_killed_while_a_zone_is_emptied(seed: int) -> None:
    """Replicas die at some of their writes; the zone stays what it was, and no gang is stopped half."""

    async def scenario() -> None:
        chance = random.Random(seed)
        api = cluster()
        announce(api, 6)
        async with running(api, Arnold()):
            await until(lambda: reserved(api).held, "a zone")
            submit(api, "spare", 4, annotations={"arnold.dev/preemptible": "true"})
            await until(lambda: released(api, "spare") == 4, "the preemptible gang to be released")
            bind(api, "spare")
            await until(lambda: phase(api, "spare") is PlanPhase.BOUND, "the preemptible gang to be bound")
        zone = reserved(api).zone
        submit(api, "llm", 6)
        for _ in range(4):
            mortal = _Mortal(api, writes=chance.randrange(1, 5), after=chance.random() < 0.5)
            replica = Replica(mortal, Arnold())  # type: ignore[arg-type]
            tasks = replica.start()
            await asyncio.wait(
                [asyncio.create_task(mortal.died.wait()), asyncio.create_task(asyncio.sleep(0.15))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            await kill(replica, tasks)
            assert reserved(api).zone == zone
        async with running(api, Arnold()):
            await until(lambda: phase(api, "llm") is PlanPhase.RELEASED, "the announced gang to be released")
            found = plan(api, "llm")
            assert found is not None
            assert set(found.nodes) == set(zone)
            assert pods_of(api, "spare") == []

    run(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_killed_after_any_write(seed: int) -> None:
    """A replica dies at one of its writes, before it or after; the next one goes on from what the server has.

    However often that happens, the gang ends whole on one plan, and no node is planned for two ranks.
    """

    async def scenario() -> None:
        chance = random.Random(seed)
        api = cluster()
        submit(api, "g")
        for _ in range(5):
            mortal = _Mortal(api, writes=chance.randrange(1, 6), after=chance.random() < 0.5)
            replica = Replica(mortal)  # type: ignore[arg-type]
            tasks = replica.start()
            await asyncio.wait(
                [asyncio.create_task(mortal.died.wait()), asyncio.create_task(asyncio.sleep(0.15))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            await kill(replica, tasks)
            found = plan(api, "g")
            assert found is None or len({*found.nodes}) == len(found.nodes)
        async with running(api):
            await until(lambda: phase(api, "g") is PlanPhase.RELEASED, "the gang to be released")
            assert on_plan(api, "g")

    run(scenario)


class _Mortal:
    """An API that hangs for ever at one write, and says so."""

    def __init__(self, api: FakeCluster, *, writes: int, after: bool) -> None:
        self.died = asyncio.Event()
        self._api = api
        self._left = writes
        self._after = after

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._api, name)
        if name not in ("create", "replace", "patch", "delete"):
            return verb

        async def ask(*args: Any, **kwargs: Any) -> Any:
            if args[0] is EVENTS:
                return await verb(*args, **kwargs)
            self._left -= 1
            if self._left > 0:
                return await verb(*args, **kwargs)
            if self._left == 0 and self._after:
                await verb(*args, **kwargs)
            self.died.set()
            return await asyncio.sleep(3600)

        return ask


class SlowPlans(FakeCluster):
    """A cluster that creates as many GangPlans as it is let."""

    def __init__(self, let: int) -> None:
        super().__init__()
        self.let = asyncio.Semaphore(let)

    async def create(self, resource: Resource, document: Json, *, namespace: str = "") -> bytes:
        """Wait until one more is let, where it is a GangPlan."""
        if resource is GANGPLANS:
            await self.let.acquire()
        return await super().create(resource, document, namespace=namespace)


def test_who_comes_behind_many_hears_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 gangs of one namespace wait on a full cluster; one of another that comes is told before a score of these."""
    monkeypatch.setattr("extender.controller.loop.PATIENCE", 0.001)

    async def scenario() -> None:
        api = SlowPlans(4)
        for number in range(8):
            api.put(NODES, node_json(f"m0-{number}", "mp0", "mp0r0"))
            api.put(PODS, pod_json(f"busy-{number}", node=f"m0-{number}", phase="Running"))
        for number in range(100):
            api.put(PODS, member_json(f"many-{number:03}", 0, 1))
        plans = api.objects[GANGPLANS.plural]
        late = GangKey("other", "late")
        async with running(api) as replica:
            await until(lambda: len(plans) == 4, "the first to be told")
            document = member_json(late.name, 0, 1, created="2026-11-21T11:30:00Z")
            document["metadata"]["namespace"] = late.namespace
            api.put(PODS, document)
            await until(lambda: late in replica.controller._newcomers._seen, "the late one to be seen")
            assert len(plans) == 4
            while late not in plans:
                # Before it are those alone that are being written already, by the round and beside it.
                assert len(plans) <= 4 + 2 * TOGETHER
                api.let.release()
                await asyncio.sleep(0.01)
            told = decode_plan(dict(plans[late]))
            assert (told.phase, told.spec.size) == (PlanPhase.QUEUED, 1)
            for _ in range(100):
                api.let.release()
            await until(lambda: len(plans) == 101, "all to be told")
            await until(
                lambda: all(decode_plan(dict(one)).reason == "NoRoom" for one in plans.values()), "all to hear why"
            )

    run(scenario)


def test_the_end_waits_for_few_newcomers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that ends finishes the plans that it is writing, and begins none for those that have not been told."""
    monkeypatch.setattr("extender.controller.loop.PATIENCE", 0.001)

    async def scenario() -> None:
        api = SlowPlans(0)
        api.put(NODES, node_json("m0-0", "mp0", "mp0r0"))
        api.put(PODS, pod_json("busy", node="m0-0", phase="Running"))
        for number in range(50):
            api.put(PODS, member_json(f"many-{number:02}", 0, 1))
        plans = api.objects[GANGPLANS.plural]
        async with running(api) as replica:
            newcomers = replica.controller._newcomers
            await until(lambda: len(newcomers._writes.tasks) == TOGETHER, "as many to be told as are at once")
            ending = asyncio.create_task(replica.controller.drain())
            await asyncio.sleep(0)
            for _ in range(50):
                api.let.release()
            await ending
            assert not newcomers.tasks
            # those that were told, and those of the round beside them
            assert TOGETHER <= len(plans) <= 2 * TOGETHER + 1

    run(scenario)


def test_a_pod_that_was_bound_before_it_is_told() -> None:
    """The policy that guards status refuses it: it knows by then, and nothing has failed."""
    api = cluster()
    submit(api, "g")

    async def scenario() -> None:
        replica = Replica(api)
        api.fail_next("patch", PatchFailed("bound", status=422, reason="Invalid"))
        await replica.writer.tell(decode_pod(pods_of(api, "g")[0]), "m0-0")

    run(scenario)
    assert "conditions" not in pods_of(api, "g")[0]["status"]
