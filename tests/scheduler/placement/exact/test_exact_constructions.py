"""The constructions of a search: what they take in is valid, and they try what they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact import schedule
from scheduler.placement.exact.closed_forms import cut_outs
from scheduler.placement.exact.lattice import GridView, Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.schedule import apply_product, count_edges
from scheduler.placement.types import Limits, Pair
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import alike, corners, feasible, problems

STAGES = [
    schedule.build_quick_tabu,
    schedule.build_cut_outs,
    schedule.build_quick_flows,
    schedule.build_long_flows,
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


UNBALANCED = (5000, *[400] * 12, 200)
"""Free nodes below the switches of an unbalanced tree of 10,000: half of them below one."""


@pytest.mark.parametrize(("rows", "columns"), [(400, 16), (16, 400), (800, 8)])
def test_rectangles_are_cut_out_of_the_largest_domain(rows: int, columns: int) -> None:
    """1,400 of 6,400 cells lie outside it, on 400, 400, 400 and 200 others: of 16 columns each gets 4 and 100 rows at
    most, so no line touches more than it and one other.
    """
    search = started(GridProblem(rows, columns, UNBALANCED), alpha=0.3)
    apply_product(search)
    schedule.build_cut_outs(search)
    assert search.lattice.best == (2, 2)


def test_nothing_is_cut_out_where_there_are_too_many_others() -> None:
    """Five domains of 8 below 8 x 5 cells: the four others need a column each at least, and 16 rows of the 8."""
    problem = GridProblem(8, 5, (8, 8, 8, 8, 8))
    cells = cut_outs(problem)
    assert cells is not None
    assert problem.fits(cells)
    dp, pp = problem.pair_of(cells)
    assert dp <= 2 < pp


def test_rows_are_cut_where_two_segments_are_open() -> None:
    """Bands of whole rows do not use up the cluster; rows cut in two do, and the name says how."""
    search = started(FULL)
    apply_product(search)
    schedule.build_long_flows(search)
    named = [pair for pair, name in search.lattice.builders.items() if name.startswith("interval flow")]
    assert named
    assert all(min(pair) == 2 for pair in named)


def test_the_roomiest_pair_of_the_cheaper_half_comes_first() -> None:
    """Of the open pairs by cost the first half; there the largest S * R, and none within one that failed."""
    search = started(GridProblem(150, 8, (93,) * 22))
    tried: list[Pair] = []

    def attempt(view: GridView, pair: Pair) -> None:
        tried.append(view.turn(pair))

    waiting = search.lattice.open()
    schedule._from_the_roomiest(search, attempt, "nothing")
    half = waiting[: (len(waiting) + 1) // 2]
    assert tried[0][0] * tried[0][1] == max(dp * pp for dp, pp in half)
    # each on both views, one after the other
    assert tried[::2] == tried[1::2]
    once = tried[::2]
    assert not any(p[0] <= q[0] and p[1] <= q[1] for i, p in enumerate(once) for q in once[:i])
    assert all(any(p[0] <= q[0] and p[1] <= q[1] for q in once) for p in waiting)


def test_without_time_nothing_is_built() -> None:
    """Rows are cut only within the time that is left."""
    search = started(FULL, seconds=0.0)
    before = dict(search.lattice.builders)
    schedule.build_quick_flows(search)
    schedule.build_long_flows(search)
    assert search.lattice.builders == before
