"""Searches of bare grids are kept: with and without the cache the same answers, and never more than so many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact import solve
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.solve import GRIDS, GridAnswer, GridCache, solve_grid
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import ALPHAS

grids = st.tuples(
    st.integers(1, 6),
    st.integers(1, 4),
    st.lists(st.integers(1, 9), min_size=1, max_size=7),
    st.sampled_from(ALPHAS),
)


def room_for(rows: int, columns: int, capacities: list[int]) -> tuple[int, ...]:
    """The capacities, descending, the largest of them grown where they do not hold the grid."""
    grown = [capacities[0] + max(0, rows * columns - sum(capacities)), *capacities[1:]]
    return tuple(sorted(grown, reverse=True))


@given(st.lists(grids, min_size=1, max_size=4))
@examples(200)
def test_the_same_answers_with_the_cache_and_without(asked: list[tuple[int, int, list[int], float]]) -> None:
    """Each asked twice in a row, then once more after all is forgotten."""
    GRIDS.clear()
    for rows, columns, capacities, alpha in asked:
        room = room_for(rows, columns, capacities)
        first, again = (solve_grid(rows, columns, room, alpha, 20.0) for _ in range(2))
        GRIDS.clear()
        fresh = solve_grid(rows, columns, room, alpha, 20.0)
        assert first is not None
        assert again is not None
        assert fresh is not None
        assert np.array_equal(first, again)
        assert np.array_equal(first, fresh)
        assert GridProblem(rows, columns, room).fits(first)


@given(grids, st.integers(0, 50), st.lists(st.integers(1, 9), max_size=3))
@examples(100)
def test_what_no_placement_can_use_changes_nothing(
    grid: tuple[int, int, list[int], float], more: int, small: list[int]
) -> None:
    """Room beyond all cells in the largest domain, and domains beyond as many as there are cells."""
    rows, columns, capacities, alpha = grid
    cells = rows * columns
    room = [cells, *room_for(rows, columns, capacities)]
    room = sorted(room, reverse=True)
    larger = [room[0] + cells + more, *room[1:]]
    assert np.array_equal(
        solve_grid(rows, columns, tuple(room), alpha, 20.0),  # type: ignore[arg-type]
        solve_grid(rows, columns, tuple(larger), alpha, 20.0),  # type: ignore[arg-type]
    )
    full = [9] * max(cells, 2)
    assert np.array_equal(
        solve_grid(rows, columns, tuple(full), alpha, 20.0),  # type: ignore[arg-type]
        solve_grid(rows, columns, tuple(sorted([*full, *small], reverse=True)), alpha, 20.0),  # type: ignore[arg-type]
    )


def test_a_search_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid that no closed form settles, asked three times, on domains that differ where no cell can be."""
    GRIDS.clear()
    searched = []
    search, pairs = solve.search_pairs, (5, 4, (7, 7, 7), 0.5)

    def watched(one: object) -> None:
        searched.append(one)
        search(one)  # type: ignore[arg-type]

    monkeypatch.setattr(solve, "search_pairs", watched)
    for _ in range(3):
        solve_grid(*pairs, 20.0)
    assert len(searched) == len(GRIDS) == 1


def test_no_more_than_so_many_are_kept() -> None:
    """What was asked for least lately gives way."""
    cache = GridCache(2)
    for key in "abacd":
        if cache.get(key) is None:
            cache.keep(key, GridAnswer((1, 1), np.zeros((1, 1), dtype=np.int32), 1.0, proved=True, complete=True))
    assert len(cache) == 2
    assert [cache.get(key) is None for key in "abcd"] == [True, True, False, False]


def test_what_time_cut_off_is_not_kept() -> None:
    """A grid that is left open without time is searched again with it."""
    GRIDS.clear()
    tight = (14, 5, (13, 12, 11, 11, 9, 8, 7), 0.5)
    first = solve_grid(*tight, 1e-6)
    assert first is not None
    assert len(GRIDS) == 0
