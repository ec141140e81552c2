"""Chains of evidence about gangs that stand still: what becomes of each look, and what is done, once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest

from extender.cluster_api.client import EVENTS, GANGPLANS, HISTORIES, PODS, Busy, Conflict
from extender.incidents import GangSeen, keep_incidents, list_histories
from extender.kubernetes_names import HISTORY_NAME
from extender.plans.gang_history import (
    MOST_INCIDENTS,
    MOST_STEPS,
    GangHistory,
    GangIncident,
    decode_history,
    encode_history,
)
from extender.plans.gang_plan import GangPlan, PlanPhase, PlanSpec, encode_plan
from scheduler.job import Job, Parallelism
from tests.extender.fake_cluster import FakeCluster
from tests.extender.things import MINIPOD, NOW, SPACE, key, pod_json, uid
from tests.facts import says

SINCE = NOW - timedelta(minutes=6)
JOB = ("Job", "llm")


def plan(name: str = "llm", *, nodes: Collection[str] = ("n0", "n1", "n2", "n3")) -> GangPlan:
    """A gang of four that runs."""
    spec = PlanSpec.of(Job("g", Parallelism(tp=8, dp=4), level=MINIPOD), dialect="job", priority=0)
    pods = tuple(uid(f"{name}-{rank}") for rank in range(4))
    return GangPlan(key(name), PlanPhase.BOUND, uid=f"plan of {name}", spec=spec, nodes=tuple(nodes), pods=pods)


def standing(gang: GangPlan, *suspects: str) -> GangSeen:
    """It stands still, and some hold it up."""
    return GangSeen(gang, True, SINCE, "nothing has moved", dict.fromkeys(suspects, "it is behind"))


class Watched:
    """A cluster with gangs of four pods, made by a Job, and what a watch does about them."""

    def __init__(self, *gangs: GangPlan, owner: tuple[str, str] | None = JOB) -> None:
        self.api = FakeCluster()
        self.now = NOW
        for gang in gangs:
            self.api.put(GANGPLANS, encode_plan(gang))
            for rank, node in enumerate(gang.nodes):
                name = f"{gang.key.name}-{rank}"
                self.api.put(PODS, pod_json(name, node=node, phase="Running", owner=owner))

    def look(self, *seen: GangSeen, out: Collection[str] = (), acts: bool = True, budget: int = 3) -> list[str]:
        """One look, a minute after the last; what is new of the chains."""

        async def run() -> Any:
            api: Any = self.api
            histories = await list_histories(api)
            return await keep_incidents(api, seen, histories, out=out, acts=acts, budget=budget, now=self.now)

        self.now += timedelta(minutes=1)
        before = {step for incident in self.incidents for step in incident.steps}
        return [step.did for _, incident in asyncio.run(run()) for step in incident.steps if step not in before]

    @property
    def incidents(self) -> tuple[GangIncident, ...]:
        """All that is kept."""
        found = self.api.objects[HISTORIES.plural].get((SPACE, HISTORY_NAME))
        return () if found is None else decode_history(found).incidents

    @property
    def evicted(self) -> list[str]:
        """Names of the pods that leave."""
        return [name for verb, _, name in self.api.asked if verb == "evict"]


def test_the_whole_chain() -> None:
    """It stands still, its node is out, its pod goes, its rank moves, it goes on: five links, and as many Events."""
    gang = plan()
    watched = Watched(gang)
    assert watched.look(GangSeen(gang, False, None, "it moves", {})) == []
    assert watched.look(standing(gang, "n2"), out=["n2"]) == ["StandsStill", "Named", "Evicted"]
    assert watched.evicted == ["llm-2"]
    assert watched.look(standing(gang, "n2"), out=["n2"]) == []
    moved = gang.replace(nodes=("n0", "n1", "n9", "n3"))
    assert watched.look(GangSeen(moved, None, None, "starting", {})) == ["Moved"]
    assert watched.look(GangSeen(moved, False, None, "it moves", {})) == ["Resumed"]
    (incident,) = watched.incidents
    assert (incident.nodes, incident.ranks, incident.over) == (("n2",), (2,), True)
    assert says(incident.steps[-2].why, "rank 2", "n9", "n2")
    # it stood still at 11:54, and the fifth look is at 12:05
    assert says(incident.steps[-1].why, "11 min")
    posted = [event["reason"] for event in watched.api.objects[EVENTS.plural].values()]
    assert sorted(posted) == sorted(step.did for step in incident.steps)
    # the next time is another incident
    watched.look(GangSeen(moved, True, watched.now, "nothing has moved", {}))
    assert [it.over for it in watched.incidents] == [True, False]


def test_advice_stops_nobody() -> None:
    """What could be done is said once."""
    watched = Watched(plan())
    assert watched.look(standing(plan(), "n2"), acts=False) == ["StandsStill", "Named", "Advised"]
    assert watched.look(standing(plan(), "n2"), acts=False) == []
    assert watched.evicted == []
    # the policy is another now
    assert watched.look(standing(plan(), "n2"), out=["n2"]) == ["Evicted"]


def test_nobody_is_named_without_evidence() -> None:
    """All stand at the same count: that is told, and later who it was."""
    watched = Watched(plan())
    assert watched.look(standing(plan())) == ["StandsStill"]
    assert watched.look(GangSeen(plan(), None, None, "half is not known", {})) == []
    assert watched.look(standing(plan(), "n1"), out=["n1"]) == ["Named", "Evicted"]


@pytest.mark.parametrize(
    ("more", "why"),
    [({"out": []}, "n2"), ({"budget": 0}, "--budget"), ({}, "anew")],
    ids=["the store does not agree", "the budget is spent", "nobody makes them anew"],
)
def test_what_keeps_it_from_acting(more: dict[str, Any], why: str) -> None:
    """No pod goes, the chain says why, once, and it is tried again."""
    watched = Watched(plan(), owner=None if why == "anew" else JOB)
    assert watched.look(standing(plan(), "n2"), **{"out": ["n2"], **more})[-1] == "Withheld"
    assert says(watched.incidents[0].steps[-1].why, why)
    assert watched.look(standing(plan(), "n2"), **{"out": ["n2"], **more}) == []
    assert watched.evicted == []
    if why != "anew":
        assert watched.look(standing(plan(), "n2"), out=["n2"]) == ["Evicted"]


def test_the_budget_is_of_all_gangs_and_of_an_hour() -> None:
    """Three gangs hang at once, each by a node: two are helped, the third an hour later."""
    gangs = [plan(name, nodes=[f"{name}{k}" for k in range(4)]) for name in "abc"]
    watched = Watched(*gangs)
    seen, out = [standing(gang, f"{gang.key.name}1") for gang in gangs], ["a1", "b1", "c1"]
    watched.look(*seen, out=out, budget=2)
    assert watched.evicted == ["a-1", "b-1"]
    watched.look(*seen, out=out, budget=2)
    assert watched.evicted == ["a-1", "b-1"]
    watched.now += timedelta(hours=1)
    watched.look(*seen, out=out, budget=2)
    assert watched.evicted == ["a-1", "b-1", "c-1"]


def test_a_disruption_budget_is_heeded() -> None:
    """The API server refuses the eviction: that is a link of the chain too."""
    watched = Watched(plan())
    watched.api.fail_next("evict", Busy("PodDisruptionBudget", status=429, reason="TooManyRequests"))
    assert watched.look(standing(plan(), "n2"), out=["n2"])[-2:] == ["Evicted", "Withheld"]


def test_nothing_is_done_that_is_not_written() -> None:
    """Where the history cannot be written no pod goes; a conflict with the extender is tried again."""
    watched = Watched(plan())
    stale = [Conflict("changed since", status=409, reason="Conflict") for _ in range(3)]
    watched.api.fail_next("create", *stale)
    with pytest.raises(Conflict):
        watched.look(standing(plan(), "n2"), out=["n2"])
    assert watched.evicted == []
    watched.api.fail_next("create", stale[0])
    watched.look(standing(plan(), "n2"), out=["n2"])
    assert watched.evicted == ["llm-2"]


def test_a_gang_that_is_gone() -> None:
    """For a day it may come again: its owner starts it as another gang of that name."""
    watched = Watched(plan())
    watched.look(standing(plan(), "n2"), acts=False)
    assert watched.look() == []
    watched.now += timedelta(days=1)
    assert watched.look() == ["Gone"]
    assert watched.incidents[0].over


def test_what_is_kept_is_bounded() -> None:
    """Of an incident the first step and the last, of a namespace the incidents that changed last; what is more is
    none that we wrote.
    """
    incident = GangIncident(gang="g", since=NOW)
    for number in range(50):
        incident = incident.then(NOW, "Withheld", f"reason {number}")
    assert len(incident.steps) == MOST_STEPS
    assert (incident.steps[0].why, incident.steps[-1].why) == ("reason 0", "reason 49")
    history = GangHistory(namespace=SPACE)
    for number in range(MOST_INCIDENTS + 5):
        history = history.noted(incident.replace(gang=f"g{number}"))
    assert [it.gang for it in history.incidents] == [f"g{number}" for number in range(5, MOST_INCIDENTS + 5)]
    assert decode_history(encode_history(history)).incidents == history.incidents
