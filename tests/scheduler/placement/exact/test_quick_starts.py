"""No quick rule of the house is ever better than the exact search, goal by goal."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.every_level import with_terms
from benchmarks.instances import draw
from scheduler.algorithm_run import run
from scheduler.job import Count, Job, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.exact.starts import quick_starts
from scheduler.placement.heuristic import Heuristic
from scheduler.placement.types import ALGORITHMS, Limits
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact.test_exact_holds import racks
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import NodeFlag

RULES = [rule for name in ALGORITHMS.names() if isinstance(rule := ALGORITHMS.load(name), Heuristic)]

ALL = 1e6  # share of the time limit that is enough for every rule on any machine


def goals(cluster: Cluster, job: Job, outcome: Outcome) -> tuple[float, ...]:
    """The objective and Eq. 2 at each closer level; infinite where nothing was placed."""
    if outcome.evaluation is None:
        return (np.inf,)
    costs = outcome.evaluation.objective, *outcome.evaluation.closer.values()
    return tuple(round(cost, 9) for cost in costs)


def better_rules(cluster: Cluster, job: Job, exact: Exact, limits: Limits) -> list[str]:
    """The rules that are better than the exact search."""
    ours = goals(cluster, job, run(exact, cluster, job, limits))
    return [rule.name for rule in RULES if goals(cluster, job, run(rule, cluster, job, limits)) < ours]


@given(seed=st.integers(0, 10**9))
@examples(40)
def test_no_rule_is_better_where_nothing_else_is_tried(seed: int) -> None:
    """On up to eight minipods of three racks; no effort for models, so that rules alone may be best."""
    chance = random.Random(seed)
    nodes = [
        Node(f"n{i}", (f"m{i // 12}", f"r{i // 4}"), 8, chance.choice([8, 8, 8, 4, 0]))
        for i in range(12 * chance.randint(3, 8))
    ]
    cluster = build_cluster(["minipod", "rack"], nodes)
    free = int(cluster.idle.sum())
    columns = chance.choice([1, 2, 3, 4])
    if free < 2 * columns:
        return
    families = ["dp", "pp"]
    terms = [Count(chance.choice(families), chance.choice(["minipod", "rack"]), 0.3)] if chance.random() < 0.5 else []  # type: ignore[arg-type]
    job = Job(
        "job",
        Parallelism(tp=8, dp=chance.randint(2, free // columns), pp=columns),
        alpha=chance.choice([0.0, 0.3, 0.7]),
        level=chance.choice(["minipod", "rack"]),
        counts=tuple(terms),
    )
    exact = Exact(ExactParams(goal_effort=0.0, term_effort=0.0, rules_share=ALL, short_share=0.5, quick_share=0.5))
    assert better_rules(cluster, job, exact, Limits(seconds=5.0, workers=1)) == []


@pytest.mark.many_cases
@pytest.mark.parametrize("number", every_fourth([128, 63, 4]))
def test_no_rule_is_better_where_one_was(number: int) -> None:
    """Instances on which best-fit, topo-aware and gpu-packing were better than a search of a second."""
    instance = draw(number, seed=2)
    job = with_terms(instance) if number % 2 else instance.job()
    assert (
        better_rules(
            instance.cluster(),
            job,
            Exact(ExactParams(rules_share=ALL, short_share=0.5, quick_share=0.5)),
            Limits(seconds=1.0),
        )
        == []
    )


def test_rules_see_no_node_that_is_slower_than_the_threshold() -> None:
    """Six nodes, one of them slow: on healthy ones alone five cells are placed, six are not."""
    cluster = racks((3, 3)).with_flags([NodeFlag("n001", "straggler", 1.5)])
    for cells, placed in ((5, True), (6, False)):
        reduction = GridReduction(cluster, Job("job", Parallelism(tp=8, dp=cells), level="rack"), 1.0)
        found = list(quick_starts(reduction, Limits(), DEFAULTS))
        assert bool(found) == placed
        assert all(1 not in nodes for nodes in found)


@pytest.mark.parametrize(("share", "pod_share", "asked"), [(-1.0, ALL, 0), (ALL, -1.0, 2), (ALL, ALL, 5)])
def test_no_rule_is_asked_when_time_is_up(
    monkeypatch: pytest.MonkeyPatch, share: float, pod_share: float, asked: int
) -> None:
    """The clock is read before each of them; of two that list nodes and three that go pod by pod these come last."""
    names = ("kube-scheduler", "volcano-hard", "volcano-soft", "best-fit", "gpu-packing")
    monkeypatch.setattr(ALGORITHMS, "names", lambda inside: names)
    params = ExactParams(rules_share=share, quick_share=pod_share)
    reduction = GridReduction(racks((3, 3)), Job("job", Parallelism(tp=8, dp=2), level="rack"), 1.0)
    assert len(list(quick_starts(reduction, Limits(), params))) == asked


@pytest.mark.parametrize(("least", "asked"), [(-1.0, 0), (ALL, 2)])
def test_rules_have_little_time_beyond_the_limit(monkeypatch: pytest.MonkeyPatch, least: float, asked: int) -> None:
    """Where the time has ended of two rules each is asked as long as what is left to them lasts."""
    monkeypatch.setattr(ALGORITHMS, "names", lambda inside: ("best-fit", "gpu-packing"))
    params = ExactParams(rules_share=ALL, short_share=least)
    reduction = GridReduction(racks((3, 3)), Job("job", Parallelism(tp=8, dp=2), level="rack"), 1.0)
    assert len(list(quick_starts(reduction, Limits(), params, end=-np.inf))) == asked


@pytest.mark.parametrize("name", ["slurm-tree", "slurm-segment-p", "kube-scheduler", "volcano-soft", "volcano-hard"])
def test_a_rule_that_takes_long_gives_up_in_time(name: str) -> None:
    """Two cells on six nodes: placed where there is time, and not where it has ended."""
    rule, cluster = ALGORITHMS.load(name), racks((3, 3))
    assert isinstance(rule, Heuristic)
    job = Job("job", Parallelism(tp=8, dp=2), level="rack")
    assert rule.place(cluster, job, Limits()).nodes is not None
    late = rule.in_time(-np.inf).place(cluster, job, Limits())
    assert late.nodes is None
    assert not late.complete
