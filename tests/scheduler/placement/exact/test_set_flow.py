"""Set flow: valid placements of the pair, and one that needs sets which lie on no ring."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import CoverageBound
from scheduler.placement.exact.flows import FlowLimit, count_sets, partitions, set_flow
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import Planted, alike, check_pair, check_placement, corners, planted, problems
from topology.cluster import IntArray

EVEN = GridProblem(87, 8, (31,) * 30)
"""(8, 3): 23 domains with all their rows and columns but one or two full."""


def flow(problem: GridProblem, pair: Pair, *, seed: int = 0, programs: int = 300) -> IntArray | None:
    """Search with short dives."""
    limit = FlowLimit(60.0, programs=programs, roundings=20, seed=seed)
    return set_flow(problem, pair, limit=limit, coverage=CoverageBound(problem))


@given(st.one_of(problems(), alike()), st.integers(2, 4), st.integers(1, 4), st.integers(0, 2))
@examples(100)
def test_sets_keep_the_pair(problem: GridProblem, pp: int, dp: int, seed: int) -> None:
    """Nothing is found where brute force finds nothing."""
    cells = flow(problem, (dp, pp), seed=seed)
    if cells is not None:
        check_placement(problem, cells, (dp, pp))
        assert any(dp >= s and pp >= r for s, r in corners(problem))


@given(planted(served_by=2, transposed=True), st.integers(0, 2))
@examples(20)
def test_sets_keep_the_pair_on_larger_problems(plant: Planted, seed: int) -> None:
    """Problems made for a placement with R = 2; that none of sets is found is allowed."""
    if plant.problem.columns > 6:
        return
    cells = flow(plant.problem, plant.pair, seed=seed, programs=20)
    if cells is not None:
        check_pair(plant.problem, cells, plant.pair)


def test_sets_that_lie_on_no_ring() -> None:
    """87 x 8 cells on thirty domains of 31, (8, 3): neither intervals nor arcs found it in 15 s, sets do in a dive."""
    cells = flow(EVEN, (8, 3), seed=8, programs=40)
    assert cells is not None
    assert EVEN.fits(cells)
    assert EVEN.pair_of(cells) == (8, 3)


def test_the_sizes_of_the_model() -> None:
    """Partitions of 4 columns into at most 1, 2, 3 and 4 sets: sums of Stirling numbers.  Of 8 columns domains of
    31 may serve 2 to 4, by their regrets: 28 + 56 + 70 sets.
    """
    assert [len(partitions(4, parts)) for parts in (1, 2, 3, 4)] == [1, 8, 14, 15]
    assert all(sorted(sum(cut, ())) == [0, 1, 2, 3] for cut in partitions(4, 3))
    assert count_sets(EVEN, (8, 3), CoverageBound(EVEN)) == 154
