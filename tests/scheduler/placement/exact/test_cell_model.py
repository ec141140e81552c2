"""The model of all cells, what goes into it, and the bounds and starts around it, against all placements there are."""

from __future__ import annotations

import random
from math import ceil

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.job import Count, Hold, Job, Parallelism
from scheduler.objective import evaluate, goals, objective_terms
from scheduler.placement.admission import admissible
from scheduler.placement.cpsat import Slice
from scheduler.placement.exact.goals import CellModel, Goal, Sites, weighed
from scheduler.placement.exact.level_bounds import LevelBounds
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.exact.starts import tight_fills
from scheduler.placement.types import Limits
from tests.case_counts import examples
from tests.scheduler.placement.exact.every_placement import least, tiny_instance
from tests.scheduler.placement.exact.test_exact_holds import racks
from topology.cluster import Cluster

LIMIT = Slice(10.0, 60.0)


def sites_of(cluster: Cluster, job: Job) -> Sites:
    """All nodes that the job may use."""
    return Sites(cluster, job, admissible(cluster, job))


def test_units_and_sites() -> None:
    """Expert groups of two rows held in a rack are units; a rack of one node has no room for one."""
    job = Job("job", Parallelism(tp=8, dp=4, ep=2), holds=(Hold("ep", "rack"),))
    sites = sites_of(racks((3, 1), (2,)), job)
    assert (sites.units, sites.blocks.size, sites.room.tolist()) == (2, 2, [1, 1])
    assert sites.domain_at["minipod"].tolist() == [0, 1]
    assert sites.groups("ep") == []
    assert sites.groups("dp") == [(0, 1)]
    placed = np.array([[0], [1], [4], [5]], dtype=np.int32)
    assert sites.site_of_unit(placed).tolist() == [0, 1]
    assert sites.domain_of_cell(np.array([1, 0])).tolist() == [[2], [2], [0], [0]]


def test_terms_of_one_family_and_level_are_one() -> None:
    """Weights add up, those of 0 are left out, and thirds are not rounded."""
    goal = Goal.of([Count("dp", "rack", 0.25), Count("pp", "rack", 0.0), Count("dp", "rack", 1 / 3)])
    assert (goal.terms, goal.weights, goal.scale) == ((Count("dp", "rack", 0.25 + 1 / 3),), (7,), 12)
    assert goal.error < 1e-12


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
    goal = Goal.of(objective_terms(cluster, job))
    sites = sites_of(cluster, job)
    assume(len(sites) > 0)
    model = CellModel(sites, sites.site_of_unit(start))
    reached = model.minimise(goal, LIMIT)
    assert reached is not None
    assert (reached.value, reached.bound) == (round(best[0] * goal.scale),) * 2


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
