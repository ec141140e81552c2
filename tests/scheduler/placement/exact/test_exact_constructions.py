"""The constructions of a search: what they take in is valid, and they try what they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact import constructions
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.search import apply_closed_forms, count_edges
from scheduler.placement.types import Limits
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import alike, corners, feasible, problems

STAGES = [
    constructions.build_cheapest,
    constructions.build_few_bands,
    constructions.build_cut_rows,
    constructions.build_more_bands,
    constructions.build_front,
]


def started(problem: GridProblem, *, alpha: float = 0.5, seconds: float = 60.0, workers: int = 1) -> PairSearch:
    """Return a search that has counted the edges, so that a placement exists."""
    search = PairSearch(Lattice(problem, alpha, 1 - alpha), Limits(seconds=seconds, workers=workers))
    count_edges(search)
    return search


@pytest.mark.parametrize("stage", STAGES)
@given(st.one_of(problems(), alike()), st.sampled_from([0.2, 0.5, 0.8]), st.integers(1, 2))
@examples(40)
def test_what_is_built_exists(
    stage: Callable[[PairSearch], None], problem: GridProblem, alpha: float, workers: int
) -> None:
    """Each construction by itself, on either view: placements with the S and R that they are said to have."""
    search = started(problem, alpha=alpha, workers=workers)
    refuted = len(search.lattice.refutations)
    stage(search)
    for pair, cells in search.lattice.built.items():
        assert problem.fits(cells)
        assert problem.pair_of(cells) == pair
        assert feasible(problem, pair)
    assert len(search.lattice.refutations) == refuted
    assert corners(problem)


FULL = GridProblem(8, 5, (16, 8, 8, 5, 3))
"""No node to spare: 40 cells.  Counting leaves (2, 3) and (3, 2) open."""


def test_cut_rows_are_for_full_clusters() -> None:
    """A cluster with nodes to spare is left to the bands; on a full one rows cut in two are found, and named."""
    full, roomy = started(FULL), started(GridProblem(8, 5, (18, 10, 9, 6, 4)))
    for search in (full, roomy):
        apply_closed_forms(search)
        assert search.lattice.open()
        constructions.build_cut_rows(search)
    assert any(name.startswith("cut rows") for name in full.lattice.builders.values())
    assert not any(name.startswith("cut rows") for name in roomy.lattice.builders.values())
    for pair, name in full.lattice.builders.items():
        if name == "cut rows":
            assert pair[1] == 2


def test_without_time_nothing_is_built() -> None:
    """Rows are cut only within the time that is left."""
    search = started(FULL, seconds=0.0)
    before = dict(search.lattice.builders)
    constructions.build_cut_rows(search)
    constructions.build_more_bands(search)
    assert search.lattice.builders == before
