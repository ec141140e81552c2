"""Ring flow: valid placements of the pair, whatever intervals find, and what needs arcs across the last column."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import CoverageBound
from scheduler.placement.exact.flows import FlowLimit, count_tilings, interval_flow, ring_flow
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import Planted, alike, check_pair, check_placement, planted, problems
from topology.cluster import IntArray


def flow(problem: GridProblem, pair: Pair, *, seed: int = 0) -> IntArray | None:
    """Search to the end: every choice of arcs has its turn, as far as the limit of programs lasts."""
    limit = FlowLimit(60.0, programs=2000, roundings=2000, seed=seed)
    return ring_flow(problem, pair, limit=limit, coverage=CoverageBound(problem))


@given(st.one_of(problems(), alike()), st.integers(2, 4), st.integers(1, 4), st.integers(0, 2))
@examples(150)
def test_rings_keep_the_pair(problem: GridProblem, pp: int, dp: int, seed: int) -> None:
    """Nothing is found where brute force finds nothing; what intervals build is found on the ring too."""
    cells = flow(problem, (dp, pp), seed=seed)
    if cells is not None:
        check_placement(problem, cells, (dp, pp))
        return
    limit = FlowLimit(60.0, programs=100_000, roundings=100_000, seed=seed)
    assert interval_flow(problem, (dp, pp), limit=limit, coverage=CoverageBound(problem)) is None


@given(planted(served_by=2, transposed=True), st.integers(0, 2))
@examples(60)
def test_rings_keep_the_pair_on_larger_problems(plant: Planted, seed: int) -> None:
    """Problems made for a placement with R = 2; that none of arcs is found is allowed."""
    cells = flow(plant.problem, plant.pair, seed=seed)
    if cells is not None:
        check_pair(plant.problem, cells, plant.pair)


def test_arcs_across_the_last_column() -> None:
    """48 x 12 cells on 13 domains with 11 nodes to spare: (4, 3), which short dives over intervals miss."""
    problem = GridProblem(48, 12, (80, 73, 68, 65, 63, 41, 36, 33, 33, 32, 31, 28, 4))
    limit = FlowLimit(60.0, programs=60, roundings=2, seed=0)
    cells = ring_flow(problem, (4, 3), limit=limit, coverage=CoverageBound(problem))
    assert cells is not None
    assert problem.fits(cells)
    assert problem.pair_of(cells) == (4, 3)


def test_the_number_of_tilings() -> None:
    """Of 4 columns: uncut, or cut at two of four joints, or at three; the same with more segments than columns."""
    problem = GridProblem(5, 4, (20,))
    assert [count_tilings(problem, (1, pp)) for pp in (1, 2, 3, 4, 5)] == [1, 7, 11, 12, 12]
