"""How many cells a pair covers, recounted: charges never change the answer, whether they are good or bad."""

from __future__ import annotations

from itertools import product
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objective import Spread
from scheduler.verification.question import CountedGrid
from scheduler.verification.refutations import Covering, Effort, TooMuch
from scheduler.witnesses import Multipliers
from tests.case_counts import examples

Touches = dict[tuple[int, int], float]


def most_cells(grid: CountedGrid, pair: Spread) -> float:
    """The most cells that any heights and widths of all domains cover, domain by domain, without any charge."""
    rows, columns = pair.pp * grid.rows, pair.dp * grid.columns
    most: Touches = {(0, 0): 0}
    for capacity in grid.capacities:
        found = dict(most)
        for (a, b), cells in most.items():
            for r, q in product(range(1, grid.rows + 1), range(1, grid.columns + 1)):
                if a + r <= rows and b + q <= columns:
                    found[a + r, b + q] = max(found.get((a + r, b + q), -inf), cells + min(capacity, r * q))
        most = found
    return max(most.values())


@given(st.data())
@examples(300)
def test_charges_never_change_the_answer(data: st.DataObject) -> None:
    """Below zero slack, or with no combination left: exactly where no heights and widths cover all cells."""
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    capacities = tuple(sorted(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)), reverse=True))
    grid = CountedGrid(rows, columns, capacities)
    pair = Spread(data.draw(st.integers(1, grid.largest.dp)), data.draw(st.integers(1, grid.largest.pp)))
    charge = st.integers(0, 12)
    charges = Multipliers(data.draw(charge), data.draw(charge), data.draw(st.integers(1, 6)))
    one = Covering.of(grid, pair, charges)
    covered = one.slack >= 0 and one.fits(one.slack, Effort())
    assert covered == (most_cells(grid, pair) >= grid.cells)


def test_slack_by_hand() -> None:
    """Two domains of 3 for 2 x 2 cells, S = R = 1: two row touches and two column touches in all.

    Charged half a cell each, a whole domain (2 rows, 2 columns, 3 cells) is worth 1, one row of it 2 - 0.5 - 1 = 0.5.
    So the two are worth 2, the charges come to 2, and 4 cells are to place: no slack.  A whole domain gives up nothing,
    but two of them take four row touches.
    """
    one = Covering.of(CountedGrid(2, 2, (3, 3)), Spread(1, 1), Multipliers(1, 1, 2))
    assert one.slack == 0
    assert one.fits(0, Effort()) is False


def test_a_grid_wider_than_high_is_turned() -> None:
    """S and R change places with rows and columns, and so do the charges."""
    one = Covering.of(CountedGrid(2, 5, (6, 4)), Spread(1, 2), Multipliers(3, 7, 11))
    other = Covering.of(CountedGrid(5, 2, (6, 4)), Spread(2, 1), Multipliers(7, 3, 11))
    assert one == other
    assert (one.rows, one.columns, one.row_touches, one.column_touches) == (5, 2, 5, 4)


def test_what_is_too_large_is_not_told() -> None:
    """Numbers beyond 64 bits and tables beyond the effort are left open; neither holds nor fails by accident."""
    grid = CountedGrid(3, 3, (5, 5))
    huge = Covering.of(grid, Spread(1, 1), Multipliers(0, 0, 2**62))
    assert huge.slack > 0
    with pytest.raises(TooMuch):
        huge.fits(huge.slack, Effort())
    small = Covering.of(grid, Spread(1, 1), Multipliers(0, 0, 1))
    with pytest.raises(TooMuch):
        small.fits(small.slack, Effort(of_one=3))
