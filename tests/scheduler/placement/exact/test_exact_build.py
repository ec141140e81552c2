"""The constructions of a walk: what they take in is valid, and they try what they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement.exact import build
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.refute import apply_closed_forms, count_edges
from scheduler.placement.exact.walk import Walk
from scheduler.placement.types import Limits
from tests.scheduler.placement.exact.tiny import alike, corners, feasible, problems

STAGES = [build.build_cheapest, build.build_few_bands, build.build_cut_rows, build.build_more_bands, build.build_front]


def started(problem: GridProblem, *, alpha: float = 0.5, seconds: float = 60.0, workers: int = 1) -> Walk:
    """A walk that has counted the edges, so that a placement exists."""
    walk = Walk(problem, alpha=alpha, beta=1 - alpha, limits=Limits(seconds=seconds, workers=workers))
    count_edges(walk)
    return walk


@pytest.mark.parametrize("stage", STAGES)
@given(st.one_of(problems(), alike()), st.sampled_from([0.2, 0.5, 0.8]), st.integers(1, 2))
@settings(max_examples=40)
def test_what_is_built_exists(stage: Callable[[Walk], None], problem: GridProblem, alpha: float, workers: int) -> None:
    """Each construction by itself, on either view: placements with the S and R that they are said to have."""
    walk = started(problem, alpha=alpha, workers=workers)
    refuted = len(walk.lattice.refutations)
    stage(walk)
    for pair, cells in walk.lattice.built.items():
        assert problem.holds(cells)
        assert problem.pair_of(cells) == pair
        assert feasible(problem, pair)
    assert len(walk.lattice.refutations) == refuted
    assert corners(problem)


FULL = GridProblem(8, 5, (16, 8, 8, 5, 3))
"""No node to spare: 40 cells.  Counting leaves (2, 3) and (3, 2) open."""


def test_cut_rows_are_for_full_clusters() -> None:
    """A cluster with nodes to spare is left to the bands; on a full one rows cut in two are found, and named."""
    full, roomy = started(FULL), started(GridProblem(8, 5, (18, 10, 9, 6, 4)))
    for walk in (full, roomy):
        apply_closed_forms(walk)
        assert walk.lattice.open()
        build.build_cut_rows(walk)
    assert any(name.startswith("cut rows") for name in full.lattice.builders.values())
    assert not any(name.startswith("cut rows") for name in roomy.lattice.builders.values())
    for pair, name in full.lattice.builders.items():
        if name == "cut rows":
            assert pair[1] == 2


def test_without_time_nothing_is_built() -> None:
    """Rows are cut only within the time that is left."""
    walk = started(FULL, seconds=0.0)
    before = dict(walk.lattice.builders)
    build.build_cut_rows(walk)
    build.build_more_bands(walk)
    assert walk.lattice.builders == before
