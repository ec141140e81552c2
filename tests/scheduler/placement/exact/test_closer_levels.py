"""Closer levels by the search of pairs: the least on larger clusters, never worse than a weight on the level says."""

from __future__ import annotations

import itertools
import operator
import random
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import Count, Family, Job, LevelWeight, Parallelism
from scheduler.objective import goals, objective_terms
from scheduler.outcome import Outcome
from scheduler.placement.cpsat import Slice
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.closer import ColumnTouches, PodTouches, TwoLevelBands, column_touches, lay_rows
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.level_bounds import LevelBounds
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.skeletons import Pods, decide_in_pods
from scheduler.placement.moves import MoveChoices, MoveModel
from scheduler.placement.types import Limits
from scheduler.work_clock import clock
from tests.case_counts import examples
from tests.scheduler.placement.exact.test_exact_holds import racks
from topology.build import build_cluster
from topology.cluster import Cluster, Node

# racks of two minipods, the second too small for the jobs that are asked about
WIDER = (
    (
        8,
        2,
        7,
        4,
        2,
        3,
        6,
        8,
        8,
        6,
        7,
        4,
        8,
        5,
        7,
        6,
        7,
        4,
        7,
        2,
        3,
        6,
        2,
        1,
        7,
        8,
        1,
        8,
        2,
        4,
        8,
        6,
        2,
        6,
        1,
        5,
        6,
        3,
        3,
        7,
    ),
    (4, 4),
)
THREE = ((1, 6, 5, 6, 8, 2, 7, 8, 1, 5), (3, 4, 3, 3, 7, 2, 8, 5, 2, 8, 8, 4), (5, 4, 4, 6, 7, 7, 4, 4))


def placed(cluster: Cluster, job: Job, seconds: float = 10.0) -> Outcome:
    """The outcome on the clock of counted work."""
    return run(Exact(), cluster, job, Limits(seconds=seconds, workers=1, clock="work"))


def leaves(*pods: tuple[tuple[int, ...], ...]) -> Cluster:
    """Pods of leaves of racks of these sizes."""
    paths = [
        (f"p{p}", f"p{p}l{leaf}", f"p{p}l{leaf}r{rack}")
        for p, pod in enumerate(pods)
        for leaf, sizes in enumerate(pod)
        for rack, size in enumerate(sizes)
        for _ in range(size)
    ]
    return build_cluster(["pod", "leaf", "rack"], [Node(f"n{i:03d}", path, 8, 8) for i, path in enumerate(paths)])


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("minipods", "shape", "alpha", "objective", "pair"),
    [
        # all in the first minipod: 0.3 * 7 + 0.7 * 4 = 4.9 in its racks, as the job is told to count there alone
        (WIDER, (14, 12), 0.3, 1.0, (7, 4)),
        # two minipods: 0.3 * 5 + 0.7 * 2 = 2.9, as a weight of 0.001 on racks finds it
        (THREE, (5, 12), 0.3, 1.3, (5, 2)),
    ],
)
def test_the_least_in_racks_of_minipods(
    minipods: tuple[tuple[int, ...], ...], shape: tuple[int, int], alpha: float, objective: float, pair: tuple[int, int]
) -> None:
    """Proved, at both levels."""
    job = Job("job", Parallelism(tp=8, dp=shape[0], pp=shape[1]), alpha=alpha, level="minipod")
    outcome = placed(racks(*minipods), job)
    assert (outcome.status, outcome.objective) == ("optimal", pytest.approx(objective))
    closer = outcome.closer["rack"]
    assert (closer.dp, closer.pp, closer.proved) == (*pair, True)


def test_a_gang_over_minipods_takes_the_fewest_racks() -> None:
    """Nine nodes need two minipods.  With the roomiest racks of the first two that is 4 + 1 + 1 + 3, of the first and
    the last 4 + 5: the racks of the minipods chosen count, not how roomy these are.
    """
    outcome = placed(racks((4, 1, 1, 1), (3, 3, 1, 1), (5,)), Job("job", Parallelism(tp=8, dp=9), level="minipod"))
    closer = outcome.closer["rack"]
    assert (closer.dp, closer.proved) == (2, True)


def test_whole_pipelines_share_minipods_by_their_racks() -> None:
    """Four pipelines of four, each in a minipod: two in each of two minipods, where a rack holds one.

    S is 2 at least, as no minipod holds all.  A column touches a rack for each pipeline unless a rack holds two: 4.
    """
    job = Job("job", Parallelism(tp=8, dp=4, pp=4), alpha=0.2, level="minipod")
    outcome = placed(racks((4, 4, 1), (4, 4, 1), (2, 2, 2, 2)), job)
    assert outcome.evaluation is not None
    assert (outcome.evaluation.dp, outcome.evaluation.pp) == (2, 1)
    closer = outcome.closer["rack"]
    assert (closer.dp, closer.pp, closer.proved) == (4, 1, True)


def test_a_soft_term_that_is_met_is_held_at_closer_levels() -> None:
    """Expert groups of four in one rack each, which the objective wants: of racks of 4, 4 and 8 the last one serves."""
    job = Job("job", Parallelism(tp=8, dp=8, ep=4), alpha=0.5, level="minipod", counts=(Count("ep", "rack", 1.0),))
    outcome = placed(racks((4, 4), (8, 1)), job)
    assert (outcome.status, outcome.objective) == ("optimal", pytest.approx(2.0))
    assert (outcome.closer["rack"].dp, outcome.closer["rack"].proved) == (1, True)


def test_expert_groups_that_lie_in_one_domain_do_so_at_closer_levels() -> None:
    """Two minipods of 21 racks of three hold 126 nodes in 42 racks, but each an odd number, so that a pair of experts
    lies in both.  Of one of them 62 nodes in 21 racks and 64 nodes of the racks of two, 32 of them, are 53 racks.
    """
    job = Job("job", Parallelism(tp=8, dp=126, ep=2), alpha=0.5, level="minipod")
    outcome = placed(racks((3,) * 21, (3,) * 21, (2,) * 40), job)
    assert outcome.ep is not None
    assert (outcome.ep.spread, outcome.ep.proved) == (1, True)
    closer = outcome.closer["rack"]
    assert (closer.dp, closer.proved) == (53, True)


def test_rows_alike_are_in_the_same_expert_groups() -> None:
    """46 expert groups of four, which the objective lets touch two racks each.  Five minipods of eight racks of four
    hold 40 of them, and six more take 12 nodes of each of two minipods: 3 + 3 + 2 + 2 + 2, where a 3 and a part of the
    next make a group, and two of 2: 50 racks.  In the order of their names 2 + 1 + 1, 2 + 2 and 3 + 2 + 3 do not.
    """
    job = Job("job", Parallelism(tp=8, dp=184, ep=4), alpha=0.1, level="minipod", counts=(Count("ep", "rack", 0.3),))
    mixed = (2, 1, 1, 2, 2, 3, 2, 3), (1, 1, 1, 2, 2, 2), (3, 1, 2, 1, 1, 1, 2, 1), (2, 3, 1, 2, 2, 3, 1, 2)
    outcome = placed(racks(*mixed, *[(4,) * 8] * 5), job)
    assert (outcome.status, outcome.objective) == ("optimal", pytest.approx(0.1 * 7 + 0.9 + 0.3 * 2))
    assert (outcome.closer["rack"].dp, outcome.closer["rack"].proved) == (50, True)


def test_lines_touch_no_more_than_the_groups_in_them() -> None:
    """A stage has two expert groups of four nodes: where the objective lets these touch two racks each, it touches four
    of the five at most; where one, two.  Rows of three have three of these groups, and three cells.
    """
    job = Job(
        "job", Parallelism(tp=8, dp=8, ep=4, pp=3), alpha=0.5, level="minipod", counts=(Count("ep", "rack", 1.0),)
    )
    reduction = GridReduction(racks((12, 12, 12, 12, 12)), job, 1.0)
    bounds, terms = LevelBounds(reduction, Limits(), DEFAULTS), objective_terms(reduction.cluster, job)
    assert [bounds.allowed("rack", terms, 1.0 + touched) for touched in (1, 2, 3)] == [[(2, 3)], [(4, 3)], [(5, 3)]]


def test_all_groups_of_a_soft_term_are_counted_together() -> None:
    """Two expert groups of four in racks of 2, 2, 1, 1, 1, 1: one alone needs two racks, but with two each they touch
    four, which hold 2 + 2 + 1 + 1 of the eight nodes.  So three: Eq. 2 is 1 in the one minipod, and 1 + 3 = 4.
    """
    job = Job("job", Parallelism(tp=8, dp=8, ep=4), alpha=0.5, level="minipod", counts=(Count("ep", "rack", 1.0),))
    reduction = GridReduction(racks((2, 2, 1, 1, 1, 1)), job, 1.0)
    assert LevelBounds(reduction, Limits(), DEFAULTS).least(objective_terms(reduction.cluster, job)) == 4.0


def test_a_soft_term_of_whole_columns_is_weighed_against_the_pair() -> None:
    """Two stages of four nodes, whose expert groups are the DP groups: in the second minipod alone one stage has a rack
    of 4 and the other two of 2: 1 + 2.  Each in the rack of 4 of its own minipod: 0.5 * 1 + 0.5 * 2 + 1 is less.
    """
    job = Job("job", Parallelism(tp=8, dp=4, ep=4, pp=2), alpha=0.5, level="minipod", counts=(Count("ep", "rack", 1),))
    outcome = placed(racks((4, 1, 1), (4, 2, 2)), job)
    assert (outcome.status, outcome.objective) == ("optimal", pytest.approx(2.5))
    closer = outcome.closer["rack"]
    assert (closer.dp, closer.pp, closer.proved) == (1, 2, True)


@given(seed=st.integers(0, 10**9))
@examples(10)
def test_one_column_takes_the_fewest_domains_level_by_level(seed: int) -> None:
    """Against all sets of racks with room for it: the fewest minipods, then leaves in these, then racks."""
    chance = random.Random(seed)
    paths = [(f"p{k // 5}", f"l{k // chance.choice((2, 3))}-{k // 5}", f"r{k}") for k in range(10)]
    room = [chance.randint(1, 5) for _ in paths]
    nodes = [Node(f"n{k}-{i}", path, 8, 8) for k, path in enumerate(paths) for i in range(room[k])]
    rows = chance.randint(2, len(nodes))
    job = Job("job", Parallelism(tp=8, dp=rows), alpha=0.5, level="pod")
    outcome = placed(build_cluster(("pod", "leaf", "rack"), nodes), job)
    fewest = min(
        tuple(len({paths[k][: depth + 1] for k in some}) for depth in range(3))
        for size in range(1, 11)
        for some in itertools.combinations(range(10), size)
        if sum(room[k] for k in some) >= rows
    )
    assert outcome.evaluation is not None
    assert tuple(of["dp"] for of in outcome.evaluation.by_level.values()) == fewest
    assert all(spread.proved for spread in outcome.closer.values())


@given(seed=st.integers(0, 10**9))
@examples(40)
def test_one_model_of_all_cells_finds_nothing_less_than_what_is_proved(seed: int) -> None:
    """With soft terms at any level: goal by goal, among the placements as good in those before."""
    chance = random.Random(seed)
    cluster = racks(*(tuple(chance.choices(range(1, 6), k=chance.randint(1, 3))) for _ in range(chance.randint(2, 3))))
    stages = chance.choice([count for count in (1, 2, 3, 4) if count <= len(cluster)])
    rows = max(1, 2 // stages, int(len(cluster) * chance.uniform(0.3, 1.0)) // stages)
    experts = chance.choice([size for size in range(1, rows + 1) if rows % size == 0])
    families: tuple[Family, ...] = ("ep", "ep", "dp", "pp")
    term = Count(chance.choice(families), chance.choice(("minipod", "rack")), chance.choice((0.1, 0.3, 1.0)))
    parallelism, alpha = Parallelism(tp=8, dp=rows, ep=experts, pp=stages), chance.choice((0.1, 0.3, 0.5, 0.9))
    job = Job("job", parallelism, alpha=alpha, level="minipod", counts=(term,))
    outcome = placed(cluster, job, 0.5)
    assert outcome.evaluation is not None
    assert outcome.proposal.nodes is not None
    proved = (
        outcome.status == "optimal",
        *([outcome.ep.proved] if outcome.ep else []),
        *(spread.proved for spread in outcome.closer.values()),
    )
    choices = MoveChoices.anywhere(cluster, job, cluster.idle, depth=len(cluster.levels) - 1)
    model = MoveModel(choices, Limits(workers=1))
    model.suggest(choices.target_of_mover(outcome.proposal.nodes))
    for number, (terms, cost, is_proved) in enumerate(
        zip(goals(cluster, job), outcome.evaluation.goals, proved, strict=True)
    ):
        if not is_proved:
            return
        model.count(goal := f"goal {number}", terms)
        reached, least = model.minimise(goal, clock() + 60, effort=0.2), round(cost * model.scale_of[goal])
        assert reached is None or reached.value >= least
        model.at_most(goal, least)


@given(seed=st.integers(0, 10**9))
@examples(8)
def test_never_worse_than_with_a_weight_on_racks(seed: int) -> None:
    """On clusters of up to 24 racks: where the objective is proved, racks cost no more than with a weight on them
    that decides among equals alone.
    """
    chance = random.Random(seed)
    cluster = racks(*(tuple(chance.choices(range(1, 9), k=chance.randint(3, 6))) for _ in range(chance.randint(2, 4))))
    stages = chance.choice((1, 2, 4, 8))
    rows = max(1, int(len(cluster) * chance.uniform(0.2, 0.95)) // stages)
    job = Job("job", Parallelism(tp=8, dp=rows, pp=stages), alpha=chance.choice((0.2, 0.5, 0.7)), level="minipod")
    alone, weighed = placed(cluster, job, 0.5), placed(cluster, job.replace(levels=(LevelWeight("rack", 0.001),)), 0.5)
    assert alone.evaluation is not None
    assert weighed.evaluation is not None
    there = weighed.evaluation.by_level["rack"]
    other = job.alpha * there["dp"] + job.beta * there["pp"]
    as_good = weighed.evaluation.objective - 0.001 * other <= alone.evaluation.objective + 1e-9
    if alone.status == "optimal" and as_good:
        assert alone.evaluation.closer["rack"] <= other + 1e-9


def test_pods_that_cannot_have_the_pair_above_are_passed_over() -> None:
    """Three pipelines of six in leaves with (2, 3): of the nine leaves of the third pod so few lines touch eight, which
    hold 17 nodes of the 18.
    """
    pods = (
        ((2,), (3, 1), (1, 1), (2,), (2, 1), (1,), (2,), (1, 2)),
        ((2, 1), (1,), (1,)),
        ((2,), (1,), (1,), (2,), (2,), (2,), (3, 1), (1, 2), (1,)),
        ((2, 2), (3,), (2,), (2, 1), (1, 3), (1,), (2,), (2, 2), (1,), (2,)),
    )
    outcome = placed(leaves(*pods), Job("job", Parallelism(tp=8, dp=3, pp=6), alpha=0.7, level="pod"))
    assert {name: (level.dp, level.pp, level.proved) for name, level in outcome.closer.items()} == {
        "leaf": (2, 3, True),
        "rack": (2, 5, True),
    }


def test_racks_touch_as_many_as_their_leaves() -> None:
    """In leaves 0.7 * 3 + 0.3 * 6 = 3.9 is proved, which no other pair comes to.  So racks have no S below 3 and no R
    below 6, as (2, 8) for 3.8; (3, 6) has no room there, and (3, 7) is the next.
    """
    pods = (
        ((1, 1), (1,), (1,), (1, 2), (1, 3), (2, 1), (3,), (2,), (1,), (1,)),
        ((1, 3), (1, 1), (3,), (1, 1), (2,), (2,), (3,), (2,), (1, 1), (1,), (1, 1)),
        ((1,), (2, 3), (1,), (3,), (2, 3), (1,), (1,), (1,), (1,), (2,), (2,)),
    )
    outcome = placed(leaves(*pods), Job("job", Parallelism(tp=8, dp=5, pp=8), alpha=0.7, level="pod"), 2.0)
    assert (outcome.closer["leaf"].dp, outcome.closer["leaf"].pp, outcome.closer["leaf"].proved) == (3, 6, True)
    assert outcome.proposal.closer_bounds["rack"] == pytest.approx(0.7 * 3 + 0.3 * 7)


@given(seed=st.integers(0, 10**9))
@examples(15)
def test_pairs_that_time_leaves_out_are_not_claimed_of(seed: int) -> None:
    """On clusters of up to twenty racks: where no time is left after the first pair of minipods, racks may come to no
    less than is claimed.
    """
    chance = random.Random(seed)
    cluster = racks(*(tuple(chance.choices(range(1, 5), k=chance.randint(2, 4))) for _ in range(chance.randint(3, 5))))
    stages = chance.choice((2, 3, 4))
    rows = max(2, int(len(cluster) * chance.uniform(0.5, 0.95)) // stages)
    job = Job("job", Parallelism(tp=8, dp=rows, pp=stages), level="minipod")
    outcome = placed(cluster, job, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scheduler.placement.exact.closer.clock", lambda: 1e9)
        hasty = placed(cluster, job, 1.0)
    if outcome.evaluation is not None:
        assert hasty.proposal.closer_bounds["rack"] <= outcome.evaluation.closer["rack"] + 1e-9


def test_racks_of_no_weight_count_among_equals() -> None:
    """A weight of 0 makes racks no part of the objective: of equal placements the one with the fewest is found still.

    One pod has racks of one node, one of three, one 4 + 4: all eight cells lie in this one, two rows in each rack.
    """
    cluster = racks((1,) * 8, (3,) * 3, (4, 4))
    job = Job("job", Parallelism(tp=8, dp=4, pp=2), level="minipod", levels=(LevelWeight("rack", 0.0),))
    found = placed(cluster, job, 0.5).evaluation
    assert found is not None
    assert found.closer == {"rack": pytest.approx(0.3 * 2 + 0.7 * 1)}


def test_a_weight_next_to_nothing() -> None:
    """A soft term of the least weight that a float has decides nothing, and rules no pair out."""
    cluster = racks((4, 4, 4), (4, 4, 4), (4, 4, 4))
    job = Job("job", Parallelism(tp=8, dp=6, pp=3), level="minipod", counts=(Count("pp", "rack", 5e-324),))
    found = placed(cluster, job, 0.5)
    assert (found.status, found.objective) == ("optimal", pytest.approx(0.3 * 2 + 0.7))


def test_columns_of_a_pod_need_not_be_alike() -> None:
    """Six pipelines of 16 stages in four pods, a job of the realistic clusters: pods hold one, two, two, one of them.

    A pipeline alone is 16 touches of columns.  Two in 8, 8, 8, 8: each column in one rack would be four racks of two
    rows, so a row in four; a row in three racks has half of the columns in two racks: 8 + 16.  With the two halves
    laid apart 16 + 24 + 24 + 16 = 80 touches are five for each column, and an average below that needs longer rows.
    """
    racks_of = ((8, 5, 4), (9, 9, 8, 8), (8, 8, 8, 8), (9, 8))
    job = Job("job", Parallelism(tp=8, dp=6, pp=16), alpha=0.3, level="minipod")
    closer = placed(racks(*racks_of), job).closer["rack"]
    assert (closer.dp, closer.pp, closer.proved) == (5, 3, True)


@given(seed=st.integers(0, 10**9))
@examples(10)
def test_rows_laid_in_a_pod_touch_as_few_racks_as_any(seed: int) -> None:
    """Against all placements of up to six cells in three racks: what is proved is true, and what is laid counts."""
    chance = random.Random(seed)
    rows, columns = chance.choice(((1, 3), (2, 2), (2, 3), (3, 2), (6, 1)))
    capacities = sorted((chance.randint(1, 5) for _ in range(3)), reverse=True)
    pp = chance.randint(1, 3)
    grid = GridProblem(rows, columns, tuple(capacities))
    every = np.array(list(itertools.product(range(3), repeat=rows * columns)), dtype=np.int32)
    fitting = [
        cells
        for cells in every.reshape(-1, rows, columns)
        if grid.fits(cells) and max(len(set(row)) for row in cells.tolist()) <= pp
    ]
    fewest = min(map(column_touches, fitting), default=100)
    laid = lay_rows(grid, pp, columns, rows * columns, Slice(5.0, 60.0))
    assert laid.least <= fewest
    if fitting:
        assert laid.cells is not None
        assert any(np.array_equal(laid.cells, cells) for cells in fitting)
        assert laid.touches == fewest
    else:
        assert laid.cells is None


@given(seed=st.integers(0, 10**9))
@examples(40)
def test_touches_of_pods_and_racks_refute_no_placement(seed: int) -> None:
    """All placements of up to six cells on up to five racks in up to three pods."""
    chance = random.Random(seed)
    pods: list[list[int]] = [[] for _ in range(chance.randint(1, 3))]
    for _ in range(chance.randint(len(pods), 5)):
        chance.choice(pods).append(chance.randint(1, 4))
    pods = [pod for pod in pods if pod]
    pod_of = np.repeat(np.arange(len(pods)), [len(pod) for pod in pods])
    shape = chance.choice([(1, 4), (2, 2), (3, 2), (2, 3), (4, 1)])
    seen = set()
    for placement in itertools.product(range(len(pod_of)), repeat=shape[0] * shape[1]):
        if (np.bincount(placement, minlength=len(pod_of)) <= np.concatenate(pods)).all():
            cells = np.reshape(placement, shape)
            lines = [[len(set(line)) for line in (*of.T, *of)] for of in (cells, pod_of[cells])]
            seen.add(tuple((max(of[: shape[1]]), max(of[shape[1] :])) for of in lines))
    touches = PodTouches(*shape, tuple(map(tuple, pods)))
    assert not [pairs for pairs in seen if touches.refutes(*pairs)]


@given(seed=st.integers(0, 10**9))
@examples(25)
def test_skeletons_in_pods_settle_every_pair(seed: int) -> None:
    """All placements of up to six cells on up to five racks in up to three pods, of which a pair of the pods is asked:
    the least of them is built, in pods as asked, and no pair is refuted that a placement has.
    """
    chance = random.Random(seed)
    pods = [list(chance.choices(range(1, 5), k=chance.randint(1, 2))) for _ in range(chance.randint(1, 3))]
    shape = chance.choice([(2, 2), (3, 2), (2, 3)])
    room, above = np.concatenate(pods), (chance.randint(1, 3), chance.randint(1, 3))
    if room.sum() < shape[0] * shape[1]:
        return
    pods.sort(key=sum, reverse=True)
    room, pod_of = np.concatenate(pods), np.repeat(np.arange(len(pods)), [len(pod) for pod in pods])
    order = np.argsort(-room, kind="stable")
    grid, pod_of = GridProblem(*shape, tuple(room[order].tolist())), pod_of[order]
    outer = GridProblem(*shape, tuple(map(sum, pods)))
    lattice = Lattice(grid, 0.4, 0.6)
    decide_in_pods(PairSearch(lattice, Limits(seconds=20.0, workers=1)), Pods(tuple(pod_of), above))
    there = set()
    for placement in itertools.product(range(len(pod_of)), repeat=grid.cells):
        cells = np.reshape(placement, shape)
        if grid.fits(cells) and all(map(operator.le, outer.pair_of(pod_of[cells]), above)):
            there.add(grid.pair_of(cells))
    assert not any(map(lattice.is_refuted, there))
    assert min(map(lattice.cost, lattice.built), default=0.0) == min(map(lattice.cost, there), default=0.0)
    assert lattice.proved if there else lattice.bound() == float("inf")
    for cells in lattice.built.values():
        assert all(map(operator.le, outer.pair_of(pod_of[cells]), above))


def test_skeletons_see_pods_and_racks_at_once() -> None:
    """A grid of 4 x 2 on pods of racks 2, 2 and 2, 2: with a column in each pod it touches both racks there, and rows
    two pods.  With rows whole in pods each of two lies in both racks, or each column does in those of both pods.
    """
    grid, of_rack = GridProblem(4, 2, (2, 2, 2, 2)), (0, 0, 1, 1)
    for above, least in (((1, 2), (2, 2)), ((2, 1), (2, 2))):
        lattice = Lattice(grid, 0.5, 0.5)
        decide_in_pods(PairSearch(lattice, Limits(seconds=20.0, workers=1)), Pods(of_rack, above))
        assert (lattice.best, lattice.proved) == (least, True)


def test_touches_of_pods_tell_what_those_of_racks_do_not() -> None:
    """Two columns of eight fill four racks of four, two each.  Where rows lie whole in pods a column is beside the
    other one, so a pod needs a rack for each.
    """
    assert PodTouches(8, 2, ((4,),) * 4).refutes((2, 2), (4, 1))
    assert not PodTouches(8, 2, ((4,),) * 4).refutes((2, 2), (4, 1), end=-inf)
    assert not PodTouches(8, 2, ((4, 4),) * 2).refutes((2, 2), (2, 1))


def test_rows_are_counted_up_to_what_a_pod_holds() -> None:
    """8,000 rows of eight on 200 pods of 500: no pod holds more than 62, and no table has more rows."""
    touches = ColumnTouches(8000, 8, ((20,) * 25,) * 200)
    assert touches.most_rows == 62
    assert touches.least(8).shape == (200, 63)


def test_few_of_many_pods_serve_a_job() -> None:
    """Four columns of 52 nodes, in four pods each, have 14 racks: 15 + 15 + 11 + 11 = 52.  Thirteen racks need room for
    four each, and a pod has three of these: columns in five pods leave rows three, which are too few.
    """
    pods = [(4, 4, 4, 3)] * 16 + [(4, 4, 3, 3)] * 20 + [(3, 3, 3, 3)] * 20
    job = Job("job", Parallelism(tp=8, dp=52, pp=4), alpha=0.5, level="minipod")
    closer = placed(racks(*pods), job).closer["rack"]
    assert (closer.dp, closer.proved) == (14, True)


@given(seed=st.integers(0, 10**9))
@examples(15)
def test_bands_in_two_levels_keep_both_pairs(seed: int) -> None:
    """Whatever pair is asked for at either level: a placement fits the racks, and has no more of either spread; rows
    that stay together lie in one pod in each column.
    """
    chance = random.Random(seed)
    pods = tuple(tuple(chance.choices(range(1, 7), k=chance.randint(1, 4))) for _ in range(chance.randint(1, 4)))
    together = chance.randint(1, 3)
    rows, columns = together * chance.randint(1, 5 // together), chance.randint(1, 5)
    pair, above = ((chance.randint(1, 4), chance.randint(1, 4)) for _ in range(2))
    cells = TwoLevelBands(rows, columns, pods, together).build(pair, above, Slice(1.0, 60.0))
    if cells is None:
        return
    room = [rack for pod in pods for rack in pod]
    pod_of = np.repeat(np.arange(len(pods)), [len(pod) for pod in pods])
    assert (np.bincount(cells.ravel(), minlength=len(room)) <= room).all()
    for domains, (dp, pp) in ((cells, pair), (pod_of[cells], above)):
        assert max(len(set(column)) for column in domains.T.tolist()) <= dp
        assert max(len(set(row)) for row in domains.tolist()) <= pp
    assert all((pod_of[cells[row]] == pod_of[cells[row - row % together]]).all() for row in range(rows))


def test_bands_are_found_after_restarts() -> None:
    """A cluster filled to 95 %, 13 leaves of four racks of 4 or 3 and one of 3, 2 and 1 nodes: eight columns of 25 need
    seven racks each, with one of 55 shared.  In pairs of columns, three leaves of two columns each and a half, they do.
    """
    pods = [(4, 4, 4, 4)] * 9 + [(4, 4, 4, 3)] * 4 + [(3, 2, 1)]
    job = Job("job", Parallelism(tp=8, dp=25, pp=8), alpha=0.5, level="minipod")
    closer = placed(racks(*pods), job).closer["rack"]
    assert (closer.dp, closer.pp, closer.proved) == (7, 8, True)


def test_bands_in_two_levels_where_pods_matter() -> None:
    """A grid of 4 x 2 on two pods of two racks of 2: a column in each pod (1, 2), in racks (2, 2); no column and no row
    in one pod alone, as neither holds all.
    """
    bands = TwoLevelBands(4, 2, ((2, 2), (2, 2)))
    cells = bands.build((2, 2), (1, 2), Slice(1.0, 60.0))
    assert cells is not None
    assert [len(set(column)) for column in (cells // 2).T.tolist()] == [1, 1]
    assert bands.build((4, 2), (1, 1), Slice(1.0, 60.0)) is None
