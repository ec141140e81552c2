"""The short way of plain gangs: the objective of the whole search, closer levels no worse than those of gpu-packing."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import Count, Hold, Job, LevelWeight, Parallelism
from scheduler.objective import TOLERANCE, slowest_in_use, step_time
from scheduler.outcome import Outcome
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.params import DEFAULTS, ExactParams
from scheduler.placement.exact.plain_gang import PlainStrategy, is_plain, plain_gang
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.exact.solve import search_reduction
from scheduler.placement.types import ALGORITHMS, Limits, Told
from tests.case_counts import examples
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import NodeFlag

SHORT = Limits(seconds=20.0, workers=1, told="placement")
LONG = replace(SHORT, told="everything")
ALPHAS = (0.0, 0.3, 0.5, 0.7, 1.0)


def tree(chance: random.Random, *, free: float, pods: int, racks: int = 5, nodes: int = 4) -> Cluster:
    """Minipods of racks, a share of the nodes free, more of them in some minipods than in others."""
    shares = [min(1.0, free * chance.uniform(0.3, 1.7)) for _ in range(pods)]
    rows = [
        Node(f"n{m}-{r}-{i}", (f"m{m}", f"m{m}-r{r}"), 8, 8 if chance.random() < shares[m] else chance.choice([0, 4]))
        for m in range(pods)
        for r in range(racks)
        for i in range(nodes)
    ]
    return build_cluster(["minipod", "rack"], rows)


def gang(chance: random.Random, most: int, *, level: str | None = "minipod") -> Job:
    """A gang of up to so many nodes."""
    columns = chance.choice([1, 1, 2, 3, 4, 8])
    rows = chance.randint(1, max(1, most // columns))
    columns = min(columns, most)
    return Job("gang", Parallelism(tp=8, dp=rows, pp=columns), alpha=chance.choice(ALPHAS), level=level)


@st.composite
def congested(draw: st.DrawFn) -> tuple[Cluster, Job]:
    """A cluster and a gang that fits it."""
    chance = random.Random(draw(st.integers(0, 10**9)))
    cluster = tree(chance, free=chance.choice([0.3, 0.5, 0.8]), pods=chance.randint(1, 8))
    free = int(cluster.idle.sum())
    return cluster, gang(chance, max(1, min(40, free)))


def goals(cluster: Cluster, job: Job, outcome: Outcome) -> tuple[float, ...]:
    """The objective and Eq. 2 at each closer level; infinite where nothing was placed."""
    if outcome.evaluation is None:
        return (np.inf,)
    costs = outcome.evaluation.objective, *outcome.evaluation.closer.values()
    return tuple(round(cost, 9) for cost in costs)


@given(congested())
@examples(400)
def test_the_objective_is_that_of_the_search_of_pairs(instance: tuple[Cluster, Job]) -> None:
    """And so is what is proved; the pair is the same, or another of the same cost that is better at closer levels."""
    cluster, job = instance
    outcome = run(Exact(), cluster, job, SHORT)
    if int(cluster.idle.sum()) < job.grid.cells:
        assert outcome.status == "infeasible"
        return
    lattice = search_reduction(GridReduction(cluster, job, 1.0), LONG, LONG.seconds, DEFAULTS).lattice
    assert outcome.evaluation is not None
    assert outcome.evaluation.objective == pytest.approx(lattice.cost(lattice.best))
    assert outcome.bound == pytest.approx(lattice.bound())
    pair = outcome.evaluation.dp, outcome.evaluation.pp
    assert pair == lattice.best or lattice.is_built(pair)


@given(congested())
@examples(400)
def test_no_worse_than_gpu_packing_goal_by_goal(instance: tuple[Cluster, Job]) -> None:
    """The quick rule that packs minipods and racks best."""
    cluster, job = instance
    packed = run(ALGORITHMS.load("gpu-packing"), cluster, job, SHORT)
    assert goals(cluster, job, run(Exact(), cluster, job, SHORT)) <= goals(cluster, job, packed)


@given(congested())
@examples(100)
def test_the_same_answer_twice(instance: tuple[Cluster, Job]) -> None:
    """On a copy of the cluster, and of the job."""
    cluster, job = instance
    first, again = (run(Exact(), one, job.replace(), SHORT).proposal.nodes for one in (cluster, cluster.replace()))
    assert (first is None and again is None) or np.array_equal(first, again)  # type: ignore[arg-type]


@given(congested())
@examples(200)
def test_told_the_spread_alone_it_is_that_of_the_whole_search(instance: tuple[Cluster, Job]) -> None:
    """As in replays: the same (S, R), the same bound, and inside each minipod as few racks as its cells need."""
    cluster, job = instance
    outcome = run(Exact(), cluster, job, replace(SHORT, told="spread", clock="work"))
    reduction = GridReduction(cluster, job, 1.0)
    if reduction.refusal:
        assert outcome.status == "infeasible"
        return
    lattice = search_reduction(reduction, LONG, LONG.seconds, DEFAULTS).lattice
    found, nodes = outcome.evaluation, outcome.proposal.nodes
    assert found is not None
    assert nodes is not None
    assert ((found.dp, found.pp), outcome.bound) == (lattice.best, pytest.approx(lattice.bound()))
    minipods, racks = (level.domain_of[nodes] for level in cluster.levels)
    free = np.bincount(cluster.levels[1].domain_of[cluster.idle], minlength=len(cluster.levels[1]))
    for minipod in np.unique(minipods):
        fullest = np.sort(free[cluster.levels[1].parent_of == minipod])[::-1]
        fewest = int(np.searchsorted(fullest.cumsum(), np.count_nonzero(minipods == minipod))) + 1
        assert len(np.unique(racks[minipods == minipod])) == fewest


def test_replays_and_the_extender_go_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are told less than everything and end in one function; told everything, the search of pairs answers."""
    asked: list[str] = []

    def noted(cluster: Cluster, job: Job, limits: Limits, params: ExactParams) -> PlainStrategy | None:
        asked.append(limits.told)
        return plain_gang(cluster, job, limits, params)

    monkeypatch.setattr("scheduler.placement.exact.plain_gang.plain_gang", noted)
    chance = random.Random(5)
    cluster, job = tree(chance, free=0.7, pods=4), gang(chance, 12)
    found = [run(Exact(), cluster, job, replace(SHORT, told=told)).evaluation for told in get_args(Told)]
    assert asked == ["placement", "spread"]
    assert len({(one.dp, one.pp) for one in found if one is not None}) == 1


def test_one_rack_where_one_has_room() -> None:
    """The tightest rack of the tightest minipod that has one; ranks in order of names."""
    free = {"m0": (4, 4, 4), "m1": (4, 3, 1), "m2": (2, 2, 2)}
    nodes = [
        Node(f"{pod}-{rack}-n{i}", (pod, f"{pod}-{rack}"), 8, 8 if i < count else 0)
        for pod, racks in free.items()
        for rack, count in enumerate(racks)
        for i in range(4)
    ]
    cluster = build_cluster(["minipod", "rack"], nodes)
    placed = run(Exact(), cluster, Job("gang", Parallelism(tp=8, dp=3), level="minipod"), SHORT)
    assert placed.proposal.nodes is not None
    assert [cluster.names[i] for i in placed.proposal.nodes.ravel()] == ["m1-1-n0", "m1-1-n1", "m1-1-n2"]


def test_the_fewest_racks_before_the_tightest_minipod() -> None:
    """Six nodes on two racks of a minipod that is all free, not on three of one that has just six."""
    nodes = [Node(f"a{i}", ("a", f"a{i // 4}"), 8, 8) for i in range(12)]
    nodes += [Node(f"b{i}", ("b", f"b{i // 4}"), 8, 8 if i % 4 < 2 else 0) for i in range(12)]
    cluster = build_cluster(["minipod", "rack"], nodes)
    evaluation = run(Exact(), cluster, Job("gang", Parallelism(tp=8, dp=6), level="minipod"), SHORT).evaluation
    assert evaluation is not None
    assert evaluation.by_level["rack"]["dp"] == 2
    assert evaluation.domains == {"a": 6}


@given(st.integers(0, 10**9), st.sampled_from(["strict", "price", "ignore"]))
@examples(100)
def test_slow_nodes_are_weighed_as_ever(seed: int, avoid: str) -> None:
    """The predicted step time is that of the long way, whichever way is gone."""
    chance = random.Random(seed)
    cluster = tree(chance, free=0.5, pods=3)
    slow = [NodeFlag(cluster.names[i], "straggler", chance.choice([1.01, 1.3]), source="t") for i in range(0, 60, 3)]
    cluster = cluster.with_flags(slow)
    job = gang(chance, max(1, min(20, int(cluster.idle.sum())))).replace(avoid=avoid, spread_cost=0.1)
    times = []
    for limits in (SHORT, LONG):
        found = run(Exact(), cluster, job, limits)
        if found.evaluation is None:
            times.append(np.inf)
            continue
        slowest = slowest_in_use(cluster, found.evaluation)
        times.append(step_time(job, objective=found.evaluation.objective, slowest=slowest))
    assert times[0] == pytest.approx(times[1]) or times == [np.inf, np.inf]


@pytest.mark.parametrize(
    "changes",
    [
        {"holds": (Hold("pp", "rack"),)},
        {"counts": (Count("dp", "rack", 0.5),)},
        {"levels": (LevelWeight("rack", 0.5),)},
        {"parallelism": Parallelism(tp=16, dp=4)},
        {"parallelism": Parallelism(tp=8, dp=3, pp=2), "gpus_per_node": 16},
    ],
)
def test_other_gangs_go_the_long_way(changes: dict[str, object]) -> None:
    """Holds, soft terms, weighed levels, TP groups of two nodes, stages that share nodes: same objective either way."""
    job = Job("gang", Parallelism(tp=8, dp=4, pp=2), level="minipod").replace(**changes)
    nodes = [Node(f"n{i}", (f"m{i // 8}", f"r{i // 4}"), job.gpus_per_node, job.gpus_per_node) for i in range(24)]
    cluster = build_cluster(["minipod", "rack"], nodes)
    assert not is_plain(job)
    short, long = (run(Exact(), cluster, job, limits) for limits in (SHORT, LONG))
    assert short.objective == pytest.approx(long.objective)
    assert short.status == long.status == "optimal"


def test_a_gang_beyond_the_size_goes_the_long_way() -> None:
    """The limit is a tuning number; the answer has the same objective."""
    cluster = tree(random.Random(1), free=0.8, pods=4)
    job = Job("gang", Parallelism(tp=8, dp=5, pp=2), level="minipod")
    params = replace(DEFAULTS, plain_cells=9)
    assert plain_gang(cluster, job, SHORT, params) is None
    assert plain_gang(cluster, job, SHORT, DEFAULTS) is not None
    outcomes = [run(Exact(one), cluster, job, SHORT) for one in (params, DEFAULTS)]
    assert outcomes[0].objective == outcomes[1].objective


def test_only_the_types_that_it_admits() -> None:
    """On nodes of one type, though another has more room."""
    nodes = [Node(f"a{i}", ("a", f"a{i // 4}"), 8, 8, gpu_type="A") for i in range(8)]
    nodes += [Node(f"b{i}", (f"b{i // 2}", f"b{i // 2}"), 8, 8, gpu_type="B") for i in range(8)]
    cluster = build_cluster(["minipod", "rack"], nodes)
    job = Job("gang", Parallelism(tp=8, dp=4), level="minipod", gpu_types=("B",))
    evaluation = run(Exact(), cluster, job, SHORT).evaluation
    assert evaluation is not None
    assert (evaluation.dp, evaluation.gpu_types) == (2, ("B",))


def test_three_levels() -> None:
    """Blocks of racks below the job's level: each level as close as the one above allows."""
    nodes = [Node(f"n{i}", (f"p{i // 32}", f"b{i // 16}", f"r{i // 4}"), 8, 8) for i in range(64)]
    cluster = build_cluster(["pod", "block", "rack"], nodes)
    evaluation = run(Exact(), cluster, Job("gang", Parallelism(tp=8, dp=4, pp=4)), SHORT).evaluation
    assert evaluation is not None
    assert [evaluation.by_level[name]["dp"] for name in ("pod", "block")] == [1, 1]
    # a row in each rack: 0.3 * 4 + 0.7 * 1 is less than the 2 of squares of two by two
    assert (evaluation.by_level["rack"]["dp"], evaluation.by_level["rack"]["pp"]) == (4, 1)


def test_what_time_cuts_off_is_no_worse_than_a_rule() -> None:
    """A tight grid without time for a proof: gap and status say so, and no quick rule is better."""
    nodes = [
        Node(f"n{m}-{i}", (f"m{m}",), 8, 8) for m, size in enumerate((13, 12, 11, 11, 9, 8, 7)) for i in range(size)
    ]
    cluster = build_cluster(["minipod"], nodes)
    job = Job("gang", Parallelism(tp=8, dp=14, pp=5), alpha=0.5, level="minipod")
    found = run(Exact(), cluster, job, replace(SHORT, seconds=1e-6))
    assert found.evaluation is not None
    assert found.bound is not None
    assert found.bound <= found.evaluation.objective + TOLERANCE
    packed = run(ALGORITHMS.load("gpu-packing"), cluster, job, SHORT)
    assert goals(cluster, job, found) <= goals(cluster, job, packed)
