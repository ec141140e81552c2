"""How much of what is asked is proved: the objective, goals down to a level, all; against all placements there are."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arnold.documents.place_answer import place_document
from scheduler.algorithm_run import judge, run
from scheduler.job import Job, Parallelism
from scheduler.outcome import Instance
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits, Proposal
from tests.case_counts import examples
from tests.facts import says
from tests.scheduler.placement.exact.every_placement import least, tiny_instance
from topology.build import build_cluster
from topology.cluster import Cluster, Node

JOB = Job("j", Parallelism(tp=8, dp=2, pp=2), alpha=0.5, level="pod")
EXPERTS = Job("e", Parallelism(tp=1, dp=16, ep=16), alpha=0.5, level="pod")
LIMITS = Limits(seconds=20, workers=1)


@pytest.fixture
def cluster() -> Cluster:
    """Two pods of two racks of two leaves of a node each."""
    paths = [(f"p{i // 4}", f"r{i // 2}", f"l{i}") for i in range(8)]
    return build_cluster(["pod", "rack", "leaf"], [Node(f"n{i}", path, 8, 8) for i, path in enumerate(paths)])


@pytest.mark.parametrize(
    ("claims", "proved_to", "words"),
    [
        # in one pod Eq. 2 is 1; over two racks 0.5 * 2 + 0.5 * 1 = 1.5, over four leaves 2: each group touches two
        ({"lower_bound": 0.5}, "objective", "nothing closer is proved"),
        ({"lower_bound": 1.0, "closer_bounds": {"rack": 1.5}}, "rack", "proved down to rack"),
        ({"lower_bound": 1.0, "closer_bounds": {"rack": 1.5, "leaf": 2.0}}, "all", "all that is asked is proved"),
        # what is known of a closer level says nothing where one between is open
        ({"lower_bound": 1.0, "closer_bounds": {"rack": 1.4, "leaf": 2.0}}, "objective", "nothing closer is proved"),
    ],
)
def test_goals_are_proved_in_their_order(
    cluster: Cluster, claims: dict[str, object], proved_to: str, words: str
) -> None:
    """What was claimed of each goal decides, and the verdict says it."""
    outcome = judge("test", cluster, JOB, Proposal(np.array([[0, 1], [2, 3]], dtype=np.int32), **claims))  # type: ignore[arg-type]
    assert (outcome.objective, dict(outcome.evaluation.closer)) == (1.0, {"rack": 1.5, "leaf": 2.0})  # type: ignore[union-attr]
    assert (outcome.status, outcome.proved_to) == ("optimal", proved_to)
    assert says(outcome.verdict, "proved optimal", words)
    assert place_document(Instance(cluster, JOB), outcome).proved_to == proved_to


def test_without_the_objective_nothing_is_proved(cluster: Cluster) -> None:
    """A placement over both pods, which Eq. 2 counts as 1.5 where 1 is not ruled out; and none at all."""
    split = judge("test", cluster, JOB, Proposal(np.array([[0, 1], [4, 5]], dtype=np.int32)))
    assert (split.status, split.proved_to) == ("feasible", None)
    assert judge("test", cluster, JOB, Proposal(None, infeasible="no room")).proved_to is None


@pytest.mark.parametrize(
    ("claims", "proved_to"),
    [
        ({}, "objective"),
        ({"expert_bound": 2.0}, "pod"),
        ({"expert_bound": 2.0, "closer_bounds": {"rack": 1.5}}, "rack"),
    ],
)
def test_the_spread_of_experts_stands_before_closer_levels(claims: dict[str, object], proved_to: str) -> None:
    """An expert group on two nodes of two pods: its spread at the job's level is proved to be 2, then closer levels.

    Held together by nothing: the DP group of both nodes touches two pods, 0.5 * 2 + 0.5 = 1.5.
    """
    paths = [(f"p{i}", f"r{i}", f"l{i}") for i in range(2)]
    apart = build_cluster(["pod", "rack", "leaf"], [Node(f"n{i}", path, 8, 8) for i, path in enumerate(paths)])
    nodes = np.array([[0], [1]], dtype=np.int32)
    outcome = judge("test", apart, EXPERTS, Proposal(nodes, lower_bound=1.5, **claims))  # type: ignore[arg-type]
    assert (outcome.status, outcome.ep and outcome.ep.spread, outcome.proved_to) == ("optimal", 2, proved_to)


@given(seed=st.integers(0, 10**9))
@examples(150)
def test_all_is_the_least_of_every_goal(seed: int) -> None:
    """Of all placements of a tiny job none is better in any goal before the one at which the proof ends."""
    cluster, job = tiny_instance(random.Random(seed))
    outcome, best = run(Exact(), cluster, job, LIMITS), least(cluster, job)
    if best is None:
        assert outcome.proved_to is None
        return
    worth = outcome.evaluation
    assert worth is not None
    names = ["objective", *([worth.level] if worth.experts is not None else []), *worth.closer]
    ends = {None: 0, "all": len(names)} | {name: i for i, name in enumerate(names, 1)}
    proved = ends[outcome.proved_to]
    assert worth.goals[:proved] == pytest.approx(best[:proved])
    # the same as what is said of each goal
    each = [outcome.status == "optimal", *([outcome.ep.proved] if outcome.ep else [])]
    each += [closer.proved for closer in outcome.closer.values()]
    assert each == [True] * proved + [False] * (len(names) - proved)
