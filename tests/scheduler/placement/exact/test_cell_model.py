"""The model of all cells, what goes into it, and the bounds and starts around it, against all placements there are."""

from __future__ import annotations

import random
from dataclasses import replace
from math import ceil

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.job import Count, Hold, Job, Parallelism
from scheduler.objective import evaluate, goals
from scheduler.placement.admission import admissible
from scheduler.placement.exact.goals import weighed
from scheduler.placement.exact.level_bounds import LevelBounds
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.exact.starts import tight_fills
from scheduler.placement.moves import MoveChoices, MoveModel
from scheduler.placement.types import Limits
from scheduler.work_clock import clock
from tests.case_counts import examples
from tests.scheduler.placement.exact.every_placement import least, tiny_instance
from tests.scheduler.placement.exact.test_exact_holds import racks
from topology.cluster import Cluster


def choices_of(cluster: Cluster, job: Job) -> MoveChoices:
    """All nodes that the job may use, told apart by racks."""
    return MoveChoices.anywhere(cluster, job, admissible(cluster, job), depth=len(cluster.levels) - 1)


def test_blocks_and_where_they_go() -> None:
    """Expert groups of two rows held in a rack are blocks; a rack of one node has no room for one."""
    job = Job("job", Parallelism(tp=8, dp=4, ep=2), holds=(Hold("ep", "rack"),))
    choices = choices_of(racks((3, 1), (2,)), job)
    assert (len(choices.movers), choices.size, choices.targets.tolist(), choices.room.tolist()) == (
        2,
        2,
        [0, 2],
        [1, 1],
    )
    placed = np.array([[0], [1], [4], [5]], dtype=np.int32)
    assert choices.target_of_mover(placed).tolist() == [0, 1]
    assert choices.class_of_cell(np.array([1, 0])).tolist() == [[2], [2], [0], [0]]


def test_each_block_goes_where_it_reaches() -> None:
    """Two rows on two racks of two: both fit in either, and where each reaches another one S is 2."""
    job = Job("job", Parallelism(tp=8, dp=2), alpha=1.0)
    cluster = racks((2, 2))
    choices, limits = choices_of(cluster, job), Limits(workers=1)
    apart = replace(choices, reach=np.eye(2, dtype=np.bool_))
    assert (len(choices), len(apart)) == (4, 2)
    least = [MoveModel(some, limits).minimise("objective", clock() + 60) for some in (choices, apart)]
    assert [(step.value, step.bound) for step in least if step] == [(1, 1), (2, 2)]


def test_ties_go_to_the_tightest_domain() -> None:
    """Racks of 4, 2 and 3, two nodes asked for: of equals the rack of two."""
    choices = choices_of(racks((4, 2, 3)), Job("job", Parallelism(tp=8, dp=2), level="rack"))
    model = MoveModel(choices, Limits(workers=1))
    assert model.minimise("objective", clock() + 60) is not None
    model.settle(clock() + 60)
    assert model.answer is not None
    assert choices.targets[model.answer].tolist() == [1, 1]


@given(seed=st.integers(0, 10**9))
@examples(30)
def test_the_model_finds_the_least_objective(seed: int) -> None:
    """From any placement that keeps the holds, however bad; the bound is the same."""
    cluster, job = tiny_instance(random.Random(seed))
    best = least(cluster, job)
    assume(best is not None)
    assert best is not None
    start = next((one for one in tight_fills(GridReduction(cluster, job, np.inf)) if weighed(cluster, job, one)), None)
    assume(start is not None)
    assert start is not None
    choices = choices_of(cluster, job)
    model = MoveModel(choices, Limits(workers=1))
    model.suggest(choices.target_of_mover(start))
    reached = model.minimise("objective", clock() + 60)
    assert reached is not None
    assert (reached.value, reached.bound) == (round(best[0] * model.scale),) * 2


@given(seed=st.integers(0, 10**9))
@examples(60)
def test_bounds_of_all_levels_are_true(seed: int) -> None:
    """Of each goal, among placements as good in those before."""
    cluster, job = tiny_instance(random.Random(seed))
    best = least(cluster, job)
    assume(best is not None)
    assert best is not None
    bounds = LevelBounds(GridReduction(cluster, job, np.inf if job.avoid == "ignore" else 1.0), Limits(), DEFAULTS)
    terms_of = goals(cluster, job)
    assert len(terms_of) == len(best)
    for number, terms in enumerate(terms_of):
        before = list(zip(terms_of[:number], best[:number], strict=True))
        assert bounds.least(terms, among=before) <= best[number] + 1e-9


def test_a_path_over_levels_ascends() -> None:
    """Six cells in a column, minipods of 3 in racks of 3: two racks suffice by themselves, and so do two minipods; with
    racks of 3, 2 and 1 there are at least as many as of minipods.
    """
    job = Job("job", Parallelism(tp=8, dp=6), alpha=1.0, level="minipod")
    reduction = GridReduction(racks((2,), (2,), (2,), (1,)), job, 1.0)
    bounds = LevelBounds(reduction, Limits(), DEFAULTS)
    assert bounds.least((Count("dp", "rack", 1.0),)) == ceil(6 / 2)
    assert bounds.least((Count("dp", "minipod", 1.0), Count("dp", "rack", 1.0))) == 6.0
    assert bounds.least((Count("ep", "rack", 0.5),)) == 0.5


@given(seed=st.integers(0, 10**9))
@examples(60)
def test_tight_fills_are_placements(seed: int) -> None:
    """On nodes that may be used, none twice; without holds the evaluator takes them all."""
    cluster, job = tiny_instance(random.Random(seed))
    job = job.replace(holds=())
    assume(int(admissible(cluster, job).sum()) >= job.grid.cells)
    fills = list(tight_fills(GridReduction(cluster, job, np.inf if job.avoid == "ignore" else 1.0)))
    assert len(fills) >= 6
    for nodes in fills:
        tuple(evaluate(cluster, job, nodes).closer.values())


def test_the_roomiest_racks_of_two_minipods() -> None:
    """Ten nodes: of minipods of 4 + 1 + 1 and 3 + 3 the racks with most room, wherever they lie."""
    job = Job("job", Parallelism(tp=8, dp=10), level="minipod")
    cluster = racks((4, 1, 1), (3, 3))
    spreads = [
        evaluate(cluster, job, one).by_level["rack"]["dp"] for one in tight_fills(GridReduction(cluster, job, 1.0))
    ]
    assert min(spreads) == 3
