"""Peeled bands: valid placements of the pair, and pairs that neither bands nor flows over all columns find."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import CoverageBound
from scheduler.placement.exact.flows import FlowLimit, interval_flow, peeled_bands
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import Planted, alike, check_pair, corners, planted, problems
from topology.cluster import IntArray

NEARLY_FULL = GridProblem(
    65, 16, (80, 79, 78, 76, 65, 57, 56, 55, 49, 45, 42, 37, 37, 35, 34, 33, 31, 30, 28, 27, 26, 20, 16, 14, 11)
)
"""25 domains with 21 of 1,061 nodes to spare; (3, 8) needs cut rows on some columns and whole ones on others."""


def peeled(problem: GridProblem, pair: Pair, *, seed: int = 0, flows: int = 20) -> IntArray | None:
    """Search with the dives that the algorithm takes."""
    limit = FlowLimit(60.0, programs=30, roundings=1, seed=seed)
    return peeled_bands(problem, pair, flows=flows, limit=limit, params=DEFAULTS)


@given(st.one_of(problems(), alike()), st.integers(1, 4), st.integers(3, 5), st.integers(0, 1))
@examples(200)
def test_peeled_bands_keep_the_pair(problem: GridProblem, dp: int, pp: int, seed: int) -> None:
    """Nothing is found where brute force finds nothing."""
    cells = peeled(problem, (dp, pp), seed=seed)
    if cells is not None:
        check_pair(problem, cells, (dp, pp))
        assert any(dp >= s and pp >= r for s, r in corners(problem))


@given(planted(served_by=3, transposed=True), st.integers(0, 1))
@examples(100)
def test_peeled_bands_keep_the_pair_on_larger_problems(plant: Planted, seed: int) -> None:
    """Problems made for a placement with R up to 3; that none is found is allowed."""
    cells = peeled(plant.problem, plant.pair, seed=seed)
    if cells is not None:
        check_pair(plant.problem, cells, plant.pair)


def test_bands_and_a_flow_beside_them() -> None:
    """Found beside the first bands, where dives over all columns find nothing in as many programs; and transposed."""
    cells = peeled(NEARLY_FULL, (3, 8), flows=2)
    assert cells is not None
    check_pair(NEARLY_FULL, cells, (3, 8))
    limit = FlowLimit(60.0, programs=30, roundings=1, seed=0)
    assert interval_flow(NEARLY_FULL, (3, 8), limit=limit, coverage=CoverageBound(NEARLY_FULL)) is None


def test_the_same_seed_gives_the_same_cells() -> None:
    """Limits are counts, and choices are in a fixed order."""
    first, again = (peeled(NEARLY_FULL, (3, 8), seed=3) for _ in range(2))
    assert first is not None
    assert again is not None
    assert (first == again).all()


@pytest.mark.parametrize(
    ("problem", "pair"),
    [
        (NEARLY_FULL, (5, 8)),  # more domains of a band than sets are listed of
        (NEARLY_FULL, (3, 2)),  # bands alone, or nothing to peel off
        (GridProblem(60, 8, (8,) * 63), (3, 7)),  # more domains than an integer has bits
    ],
)
def test_what_is_not_looked_for(problem: GridProblem, pair: Pair) -> None:
    """Pairs and clusters for which bands would be too many, or none."""
    assert peeled(problem, pair) is None


def test_sets_up_to_a_limit() -> None:
    """With fewer sets allowed than three of 25 domains nothing is listed."""
    limit = FlowLimit(60.0, programs=30, roundings=1, seed=0)
    few = replace(DEFAULTS, peel_sets=2000)
    assert peeled_bands(NEARLY_FULL, (3, 8), flows=20, limit=limit, params=few) is None
