"""Peeled bands: valid placements of the pair, and pairs that neither bands nor flows over all columns find."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import CoverageBound
from scheduler.placement.exact.flows import PROGRAMS, FlowLimit, PeeledBands, interval_flow
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import alike, check_pair, corners, problems
from topology.cluster import IntArray

NEARLY_FULL = GridProblem(
    87,
    12,
    (80, 79, 77, 75, 74, 73, 53, 52, 52, 52, 49, 37, 34, 34, 32, 32, 31, 27, 27, 24, 22, 19, 14, 12, 8, 6, 4),
)
"""Number 828 of seed 1: 27 domains with 35 of 1,079 nodes to spare; (3, 8) needs cut rows beside whole ones."""


def peeled(problem: GridProblem, pair: Pair, *, seeds: range) -> IntArray | None:
    """Draw bands with one seed after another, until a flow beside them is found."""
    bands = PeeledBands(problem, pair)
    placements = (bands.flow(FlowLimit(60.0, PROGRAMS, seed)) for seed in seeds)
    return next((cells for cells in placements if cells is not None), None)


@given(st.one_of(problems(), alike()), st.integers(1, 4), st.integers(2, 5))
@examples(100)
def test_peeled_bands_keep_the_pair(problem: GridProblem, dp: int, pp: int) -> None:
    """Nothing is found where brute force finds nothing."""
    cells = peeled(problem, (dp, pp), seeds=range(6))
    if cells is not None:
        check_pair(problem, cells, (dp, pp))
        assert any(dp >= s and pp >= r for s, r in corners(problem))


def test_bands_and_a_flow_beside_them() -> None:
    """Found in the first draw, one for each number of parts left; the same again with the same seed, as all is counted.
    A dive over all columns finds nothing in as many programs.
    """
    first, again = (peeled(NEARLY_FULL, (3, 8), seeds=range(1)) for _ in range(2))
    assert first is not None
    assert again is not None
    assert (first == again).all()
    check_pair(NEARLY_FULL, first, (3, 8))
    limit = FlowLimit(60.0, PROGRAMS, seed=0)
    assert interval_flow(NEARLY_FULL, (3, 8), limit=limit, coverage=CoverageBound(NEARLY_FULL)) is None


@pytest.mark.parametrize(
    ("problem", "pair"),
    [
        (NEARLY_FULL, (3, 2)),  # a flow of two parts is all of it: nothing to peel off
        (NEARLY_FULL, (13, 8)),  # 20,058,300 sets of 13 of 27 domains are not listed, nor 17,383,860 of 12
        (GridProblem(4, 4, (3, 3, 3, 3, 3, 3)), (1, 3)),  # no domain holds a column
    ],
)
def test_what_is_not_looked_for(problem: GridProblem, pair: Pair) -> None:
    """Pairs for which bands would be too many, or none."""
    assert peeled(problem, pair, seeds=range(3)) is None
