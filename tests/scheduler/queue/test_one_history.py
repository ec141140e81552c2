"""One scripted history, played through the planner of the extender and the engine of the simulator: the same decisions.

A hundred gangs are submitted, some after a reservation; nodes fail and return; gangs end when they have run.  Both
drive the pass of ``scheduler.queue.dispatch`` as on a live cluster: a stopped gang takes 40 s to leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pytest

from extender.gangs.types import GangKey
from extender.objects import decode_namespace, decode_pod
from extender.planner.round import PlanningRound
from extender.planner.solve import answer_to, find_zone, zone_question
from extender.plans.gang_plan import PlanPhase
from extender.plans.reservation import ReservationPhase, decode_reservation
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits
from scheduler.queue.arnold import Arnold
from scheduler.queue.fair_share import FairShare
from scheduler.queue.fifo_and_backfill import FifoBackfill
from scheduler.queue.policy import QueuePolicy
from scheduler.queue.priority import PriorityAge, PriorityPreempt
from scheduler.queue.run_times import Prediction
from simulator.engine import Engine
from simulator.hooks import Incident, Why
from simulator.job_record import JobRecord
from simulator.pools import Found, NodePool
from simulator.sim_job import SimJob
from tests.case_counts import ALL_CASES, every_fourth
from tests.extender.things import Json, member_json, node, reservation_json, state_of
from tests.simulator.incidents import Scripted
from topology.build import build_cluster
from topology.cluster import Cluster, Node

LIMITS = Limits(seconds=20.0, workers=1, clock="work")
DRAIN = 40
GANGS = 100 if ALL_CASES else 50
START = datetime.fromisoformat("2026-11-21T12:00:00Z")
MINIPODS, RACKS, PER_RACK = 3, 2, 4
WEIGHTS = {"team-1": 2.0, "team-2": 0.5}

Decision = tuple[float, str, str, tuple[str, ...]]
"""Time, ``start`` or ``stop``, the gang, and the nodes that it gets."""


@dataclass(frozen=True)
class Submitted:
    """A gang: it says how long it runs, mostly right.

    :param announced: when a reservation was made for it; ``None`` = none was.
    """

    name: str
    at: int
    nodes: int
    runs: int
    says: int
    priority: int
    preemptible: bool
    namespace: str
    announced: int | None = None


@dataclass(frozen=True)
class History:
    """What happens without anybody deciding it.

    :param troubles: time, node and whether it fails; else it returns.
    """

    gangs: Sequence[Submitted]
    troubles: Sequence[tuple[int, str, bool]]


def node_names() -> list[str]:
    """All nodes, in the order that both cluster have them."""
    return [f"m{m}-{i}" for m in range(MINIPODS) for i in range(RACKS * PER_RACK)]


def history(seed: int) -> History:
    """A hundred gangs of 2 to 8 of the 24 nodes, every tenth announced, and twelve failures; in `make test` half."""
    rng = np.random.default_rng(seed)
    gangs, at = [], 0
    for number in range(GANGS):
        at += int(rng.integers(10, 130))
        runs = int(rng.integers(60, 500))
        says = runs if rng.random() < 0.7 else int(runs * rng.uniform(0.5, 2.0))
        large = number % 10 == 9
        size = 8 if large else int(rng.integers(2, 7))
        announced = max(0, at - int(rng.integers(100, 400))) if large else None
        stops = bool(rng.random() < 0.5) and not large
        namespace = f"team-{number * number % 7 % 3}"  # the three in no regular order
        priority = 1 if large else 0
        gangs.append(Submitted(f"g{number:03d}", at, size, runs, says, priority, stops, namespace, announced))
    troubles = []
    for name in rng.choice(node_names(), GANGS // 8, replace=False).tolist():
        down = int(rng.integers(0, at))
        troubles += [(down, name, True), (down + int(rng.integers(100, 900)), name, False)]
    return History(gangs, sorted(troubles))


def decisions_of(engine: Engine) -> list[Decision]:
    """Who starts where, and who is stopped for others, in a run to come; written as it happens."""
    decisions: list[Decision] = []
    cluster, names = engine.cluster, node_names()
    start, stop = cluster.start, cluster.stop

    def started(job: SimJob, found: Found) -> None:
        places = tuple(sorted(names[place] for place in found.places))
        decisions.append((cluster.now, "start", job.record.job_id, places))
        start(job, found)

    def stopped(job: SimJob, why: Why) -> None:
        if why == "preemption":
            decisions.append((cluster.now, "stop", job.record.job_id, ()))
        stop(job, why)

    cluster.start, cluster.stop = started, stopped  # type: ignore[method-assign]
    return decisions


def simulated(past: History, policy: QueuePolicy) -> list[Decision]:
    """The decisions of the simulator."""
    cluster: Cluster = build_cluster(
        ["minipod", "rack"],
        [Node(name, (f"mp{m}", f"mp{m}r{i // PER_RACK}"), 8, 8) for name in node_names() for m, i in [_where(name)]],
    )
    records = [
        JobRecord(
            one.name, one.at, one.runs, 8 * one.nodes, nodes=one.nodes, priority=one.priority,
            preemptible=one.preemptible, announced=one.announced, queue=one.namespace,
        )
        for one in past.gangs
    ]  # fmt: skip
    names = node_names()
    incidents = [Incident(time, "down" if fails else "up", names.index(name)) for time, name, fails in past.troubles]
    engine = Engine(
        records,
        NodePool(cluster, algorithm=Exact(), limits=LIMITS),
        policy,
        predictions={one.name: Prediction(one.says, one.says, one.says) for one in past.gangs},
        incidents=Scripted(incidents),
        drain_seconds=DRAIN,
        weights=WEIGHTS,
    )
    decisions = decisions_of(engine)
    engine.run()
    return decisions


class ByHand:
    """A Kubernetes cluster on which everything that the planner says is done at once, but for pods that leave.

    A gang whose node fails, and one that has left, is made anew by its controller with its old time of creation.

    :param gpus: of each pod; nodes have 8.
    """

    def __init__(self, past: History, policy: QueuePolicy, gpus: int) -> None:
        self._policy = policy
        self._gpus = gpus
        self._gangs = {one.name: one for one in past.gangs}
        self.state = state_of([self._node(name, ready=True) for name in node_names()])
        for name, weight in WEIGHTS.items():
            annotations = {"arnold.dev/fair-share-weight": str(weight)}
            self.state.weights.put(decode_namespace({"metadata": {"name": name, "annotations": annotations}}))
        self.decisions: list[Decision] = []
        self._now = 0.0
        self._attempt = dict.fromkeys(self._gangs, 0)
        self._places: dict[str, tuple[str, ...]] = {}
        self._leaving: set[str] = set()
        self._events: list[tuple[float, int, int, str, Any]] = []
        for time, name, fails in past.troubles:
            self._at(time, 2 if fails else 1, name, fails)
        for one in past.gangs:
            if one.announced is not None and policy.reserving:
                self._at(one.announced, 3, one.name, None)
            self._at(one.at, 4, one.name, None)

    def _at(self, time: float, phase: int, name: str, more: Any) -> None:
        """At one instant in the order of the simulator: gangs end, nodes return, nodes fail, news, submissions."""
        heappush(self._events, (time, phase, len(self._events) + 1_000 * len(self.decisions), name, more))

    @property
    def _time(self) -> datetime:
        return START + timedelta(seconds=self._now)

    def play(self) -> list[Decision]:
        """All of the history."""
        while self._events:
            self._now = self._events[0][0]
            while self._events and self._events[0][0] == self._now:
                _, phase, _, name, more = heappop(self._events)
                if phase == 0:
                    self._released(name, more)
                elif phase < 3:
                    self._trouble(name, fails=more)
                elif phase == 3:
                    self._announced(name)
                else:
                    self._put(name)
            while self._round():
                pass
        return self.decisions

    def _round(self) -> bool:
        """One pass of the planner; whether anything came of it."""
        round_, before = PlanningRound(policy=self._policy), len(self.decisions)
        while (question := round_.next(self.state, self._time)) is not None:
            answer = answer_to(question, LIMITS)
            if question.case.stops_others:
                assert not question.stopping.pods
                needed = question.stopping.holding(answer.plan.nodes).gangs
                for victim in needed if answer.placed and not question.case.trial else ():
                    self._stop(victim.name)
            else:
                self.state.put_plan(answer.plan)
                if answer.placed:
                    self._start(answer.key.name, answer.plan.nodes)
            round_.tell(answer)
        return len(self.decisions) > before

    def _start(self, name: str, nodes: tuple[str, ...]) -> None:
        self.decisions.append((self._now, "start", name, tuple(sorted(set(nodes)))))
        self._places[name] = nodes
        self._put(name)
        self._attempt[name] += 1
        self._at(self._now + self._gangs[name].runs, 0, name, self._attempt[name])
        for one in list(self.state.reservations.values()):
            if one.key.name == name and one.held:
                self.state.put_reservation(one.replace(phase=ReservationPhase.USED))

    def _stop(self, name: str) -> None:
        """Its nodes are promised to nobody, and its pods are being deleted."""
        self.decisions.append((self._now, "stop", name, ()))
        self._give_back(name)
        self._leaving.add(name)
        self._put(name)
        self._attempt[name] += 1
        self._at(self._now + DRAIN, 0, name, self._attempt[name])

    def _key(self, name: str) -> GangKey:
        return GangKey(self._gangs[name].namespace, name)

    def _give_back(self, name: str) -> None:
        plan = self.state.plans[self._key(name)]
        self.state.put_plan(plan.without_nodes().replace(phase=PlanPhase.QUEUED))

    def _released(self, name: str, attempt: int) -> None:
        """A gang has ended, or has left and is made anew; unless that was to be of an earlier attempt."""
        if attempt != self._attempt[name]:
            return
        if name in self._leaving:
            self._again(name)
            return
        for pod in self.state.gang(self._key(name)).pods:  # type: ignore[union-attr]
            self.state.drop_pod(pod.uid)
        self.state.drop_plan(self._key(name))
        del self._places[name]

    def _again(self, name: str) -> None:
        self._leaving.discard(name)
        self._attempt[name] += 1
        del self._places[name]
        self._put(name)

    def _trouble(self, name: str, *, fails: bool) -> None:
        """A node fails with the gang on it, or returns."""
        if fails:
            for gang in [gang for gang, places in self._places.items() if name in places]:
                self._give_back(gang)
                self._again(gang)
        self.state.put_node(self._node(name, ready=not fails))

    def _announced(self, name: str) -> None:
        gang = self._gangs[name]
        arrives = (gang.at - self._now) / 3600
        document = reservation_json(name, nodes=gang.nodes)
        document["metadata"]["namespace"] = gang.namespace
        document["spec"]["arrives"] = f"{START + timedelta(seconds=gang.at):%Y-%m-%dT%H:%M:%SZ}"
        assert arrives >= 0
        found = find_zone(zone_question(self.state, decode_reservation(document), (), self._time), LIMITS)
        phase = ReservationPhase.HELD if found.zone else ReservationPhase.ANNOUNCED
        self.state.put_reservation(found.replace(phase=phase))

    def _put(self, name: str) -> None:
        """The pods of a gang as they are now: behind their gates, on their nodes, or being deleted."""
        gang = self._gangs[name]
        notes = {
            "arnold.dev/expected-duration": str(gang.says),
            "arnold.dev/preemptible": str(gang.preemptible).lower(),
        }
        created = f"{START + timedelta(seconds=gang.at):%Y-%m-%dT%H:%M:%SZ}"
        places = self._places.get(name)
        pods = gang.nodes * 8 // self._gpus
        for rank in range(pods):
            more: Json = {"created": created, "priority": gang.priority, "gate": places is None, "gpus": self._gpus}
            if places is not None:
                more |= {"node": places[rank], "phase": "Running", "leaving": name in self._leaving}
            document = member_json(name, rank, pods, notes, **more)
            document["metadata"]["namespace"] = gang.namespace
            if places is not None:
                bound = self._bound_at(name)
                document["status"]["conditions"] = [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}
                ]
            self.state.put_pod(decode_pod(document))

    def _bound_at(self, name: str) -> str:
        start = next(time for time, what, gang, _ in reversed(self.decisions) if (what, gang) == ("start", name))
        return f"{START + timedelta(seconds=start):%Y-%m-%dT%H:%M:%SZ}"

    @staticmethod
    def _node(name: str, *, ready: bool) -> Any:
        m, i = _where(name)
        return node(name, f"mp{m}", f"mp{m}r{i // PER_RACK}", ready="True" if ready else "False")


def _where(name: str) -> tuple[int, int]:
    minipod, index = name[1:].split("-")
    return int(minipod), int(index)


PLAYED = [
    (PriorityPreempt(), 8),
    (PriorityAge(), 8),
    (FifoBackfill(), 8),
    (Arnold(), 8),
    (Arnold(), 4),
    (FairShare(), 8),
]
"""Policies, and GPUs of each pod on nodes of 8; the first and the fifth are always played."""


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("policy", "gpus"),
    every_fourth(PLAYED),
    ids=lambda value: getattr(value, "name", value),
)
def test_planner_and_engine_decide_the_same(policy: QueuePolicy, gpus: int) -> None:
    """Who starts, on which nodes, and who is stopped for others: the same, in the same order, at the same times; where
    two pods share a node as where each has one, as queues count nodes.
    """
    past = history(seed=7)
    expected = simulated(past, policy)
    assert {gang for _, what, gang, _ in expected if what == "start"} == {one.name for one in past.gangs}
    assert ByHand(past, policy, gpus).play() == expected
