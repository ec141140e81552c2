"""One history of gangs, played through the controller and through the predictor of replays: the same predictions.

A gang is to the controller what a job of a trace is to ``arnold simulate --predictor history``, with its namespace for
the user and its name without numbers for the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from heapq import heappop, heappush

import msgspec
import numpy as np
import pytest

from extender.gangs.types import GangKey
from extender.plans.gang_history import decode_history, encode_history, name_pattern
from extender.plans.gang_plan import PlanPhase, decode_plan, encode_plan
from extender.queue_views import running_jobs, waiting_gang
from scheduler.queue.run_times import Prediction
from simulator.job_record import JobRecord
from simulator.prediction import predict_all
from tests.extender.controller.test_ended_runs import stamp
from tests.extender.controller.world import World
from tests.extender.things import NOW, member_json

LENGTH = "arnold.dev/expected-duration"


@dataclass(frozen=True)
class Past:
    """A gang of the history: whose it is, how it is called, when it comes, how long it runs, on how many nodes."""

    namespace: str
    name: str
    at: int
    seconds: int
    nodes: int
    says: str | None = None  # how long, by its own word

    @property
    def key(self) -> GangKey:
        """Its key."""
        return GangKey(self.namespace, self.name)

    @property
    def record(self) -> JobRecord:
        """The same in a trace."""
        gpus = 8.0 * self.nodes
        return JobRecord(self.name, self.at, self.seconds, gpus, user=self.namespace, queue=name_pattern(self.name))


def history(seed: int) -> list[Past]:
    """Gangs that come every 100 s and run 30 to 290 s on one or two of eight nodes, so none ever waits."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(45):
        namespace = str(rng.choice(["red", "blue", "green"], p=[0.5, 0.4, 0.1]))
        kind = str(rng.choice(["llm", "eval", "tune"], p=[0.5, 0.4, 0.1]))
        says = "1h" if rng.random() < 0.2 else None
        seconds, nodes = int(rng.integers(30, 290)), int(rng.integers(1, 3))
        found.append(Past(namespace, f"{kind}-{i}", 100 * i, seconds, nodes, says))
    return found


class Live:
    """A world in which gangs come, run and end at their times."""

    def __init__(self) -> None:
        self.world = World()
        self._ends: list[tuple[int, str, Past]] = []

    @classmethod
    def after(cls, gangs: int) -> Live:
        """A world in which so many gangs of one node have run 50 s each, before 1,000 s."""
        live = cls()
        for i in range(gangs):
            live.come(Past("team", f"llm-{i}", 100 * i, 50, 1))
        live.until(1_000)
        return live

    def come(self, gang: Past) -> None:
        """Let a gang appear at its time, and run."""
        self.until(gang.at)
        self.submit(gang)
        self.run(gang)

    def until(self, time: int) -> None:
        """Let gangs end whose time comes by then."""
        while self._ends and self._ends[0][0] <= time:
            at, _, gang = heappop(self._ends)
            self.world.now = NOW + timedelta(seconds=at)
            state = {"state": {"terminated": {"finishedAt": stamp(self.world.now)}}}
            for name in self._pods(gang):
                self.world.change(
                    name, lambda pod, state=state: pod["status"].update(phase="Succeeded", containerStatuses=[state])
                )
            self.world.settle()
            assert gang.key not in self.world.state.plans
            self.world.delete(*self._pods(gang))
        self.world.now = NOW + timedelta(seconds=time)

    def submit(self, gang: Past) -> None:
        """Let the pods of a gang appear."""
        notes = {LENGTH: gang.says} if gang.says else {}
        for rank in range(gang.nodes):
            document = member_json(gang.name, rank, gang.nodes, notes, created=stamp(self.world.now))
            document["metadata"]["namespace"] = gang.namespace
            self.world.add(document)

    def run(self, gang: Past) -> None:
        """Let it be planned and bound, within the second."""
        self.world.settle()
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(self.world.now)}
        for name in self._pods(gang):
            self.world.bind(name)
            self.world.change(name, lambda pod: pod["status"].update(phase="Running", conditions=[scheduled]))
        self.world.settle()
        heappush(self._ends, (gang.at + gang.seconds, gang.name, gang))

    def restart(self) -> None:
        """The controller is killed: a new one knows what the API server has, in whatever order it hears of it."""
        fresh, old = World(), self.world.state
        for one in reversed(old.histories.values()):
            fresh.state.put_history(decode_history(msgspec.json.encode(encode_history(one))))
        fresh.now, fresh.version, fresh.pods = self.world.now, self.world.version, self.world.pods
        for name in fresh.pods:
            fresh._see(name)
        for plan in old.plans.values():
            fresh.state.put_plan(decode_plan(msgspec.json.encode(encode_plan(plan))))
        self.world = fresh

    def _pods(self, gang: Past) -> list[str]:
        return [f"{gang.name}-{rank}" for rank in range(gang.nodes)]


def same(told: Prediction | None, expected: Prediction) -> bool:
    """Whether two predictions are one; where the replay has nothing but its stand-in, nothing is told."""
    if expected.jobs == 0 or told is None:
        return told is None and expected.jobs == 0
    numbers = (told.seconds, told.low, told.high)
    wanted = (expected.seconds, expected.low, expected.high)
    return told.jobs == expected.jobs and numbers == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(("seed", "crash_every"), [(1, None), (2, 4)])
def test_the_controller_foresees_what_a_replay_does(seed: int, crash_every: int | None) -> None:
    """Each gang's estimate, what its policy is told of it waiting and running, however often the controller is killed.

    A gang that says how long it runs is believed, and learnt from as any other.
    """
    past = history(seed)
    expected = predict_all([gang.record for gang in past], "history")
    live, seen = Live(), 0
    for number, gang in enumerate(past):
        live.until(gang.at)
        if crash_every and number % crash_every == 0:
            live.restart()
        live.submit(gang)
        told = expected[gang.name]
        known = live.world.state.gang(gang.key)
        assert known is not None
        waiting = waiting_gang(live.world.state, known)
        live.run(gang)
        plan = live.world.state.plans[gang.key]
        if gang.says:
            assert (waiting.predicted, waiting.predicted_high, plan.estimate) == (3600.0, 3600.0, None)
            continue
        assert same(plan.estimate, told), gang
        if plan.estimate is not None:
            seen += 1
            assert (waiting.predicted, waiting.predicted_high) == (plan.estimate.seconds, plan.estimate.high)
            state = live.world.state
            (entry,) = [
                one for one in running_jobs(state, state.fleet.table.index_of, live.world.now) if one.key == gang.key
            ]
            assert entry.ends - entry.started == pytest.approx(plan.estimate.seconds)
    # all that say nothing, but for the first few
    assert seen >= 25


def test_an_estimate_is_made_when_the_gang_comes() -> None:
    """Those that end while it runs change nothing, as in a replay; a namesake that comes then knows of them."""
    live = Live.after(6)
    first, third = Past("team", "llm-77", 1_000, 400, 1), Past("team", "llm-79", 1_200, 400, 1)
    live.come(first)
    told = live.world.state.plans[first.key].estimate
    assert told is not None
    assert (told.seconds, told.jobs) == (50.0, 6)
    live.come(Past("team", "llm-78", 1_100, 1, 1))
    live.come(third)
    plans = live.world.state.plans
    assert plans[first.key].estimate == told
    found = plans[third.key].estimate
    assert found is not None
    assert (found.seconds, found.jobs) == (pytest.approx(301 / 7), 7)


def test_a_gang_that_waits_keeps_its_estimate_until_it_is_another() -> None:
    """It has no room; others end meanwhile.  Only when it asks for another size is it foreseen anew."""
    live = Live.after(5)
    for i in range(5):
        live.come(Past("team", f"llm-1{i}", 1_000 + 100 * i, 30, 2))
    for i in range(8):
        live.come(Past("team", f"hog-{i}", 1_500, 300, 1))
    gang = Past("team", "llm-9", 1_501, 10, 2)
    live.until(gang.at)
    live.submit(gang)
    live.world.settle()
    plans = live.world.state.plans
    told = plans[gang.key].estimate
    assert plans[gang.key].phase is PlanPhase.QUEUED
    assert told is not None
    assert (told.seconds, told.jobs) == (30.0, 5)
    # one of eight nodes is free again, and its gang counted
    live.world.now += timedelta(seconds=100)
    live.world.change("hog-0-0", lambda pod: pod["status"].update(phase="Failed"))
    live.world.settle()
    assert sum(one.run_times.jobs for one in live.world.state.histories["team"].kinds) == 11
    assert plans[gang.key].estimate == told
    live.world.delete("llm-9-0", "llm-9-1")
    live.submit(Past("team", "llm-9", 1_601, 10, 1))
    live.world.settle()
    assert plans[gang.key].phase is PlanPhase.RELEASED
    told = plans[gang.key].estimate
    assert told is not None
    assert (told.seconds, told.jobs) == (50.0, 5)


def test_what_pods_say_wins_whenever_they_say_it() -> None:
    """A duration that is written later takes the estimate's place, and gives it back when it goes."""
    live, gang = Live.after(5), Past("team", "llm-9", 1_000, 400, 1)
    live.come(gang)
    state = live.world.state

    def told() -> tuple[float | None, float]:
        estimate = state.plans[gang.key].estimate
        (entry,) = running_jobs(state, state.fleet.table.index_of, live.world.now)
        return estimate and estimate.seconds, entry.ends - entry.started

    assert told() == (50.0, 50.0)
    live.world.change("llm-9-0", lambda pod: pod["metadata"]["annotations"].update({LENGTH: "2h"}))
    live.world.settle()
    assert told() == (None, 7_200.0)
    live.world.change("llm-9-0", lambda pod: pod["metadata"]["annotations"].pop(LENGTH))
    live.world.settle()
    assert told() == (50.0, 50.0)
