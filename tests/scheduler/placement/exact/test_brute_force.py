"""The judge of the solver is itself judged: against Python's plainest loop, and by cases known by hand."""

from __future__ import annotations

from itertools import product

import pytest

from tests.scheduler.placement.exact.brute_force import Pair, corners, feasible, instances, least_cost, width_profiles


def pairs_by_hand(rows: int, columns: int, capacities: tuple[int, ...]) -> set[Pair]:
    """(S, R) of every assignment that fits, one by one."""
    pairs = set()
    for cells in product(range(len(capacities)), repeat=rows * columns):
        if all(cells.count(k) <= capacity for k, capacity in enumerate(capacities)):
            in_rows = [set(cells[i * columns : (i + 1) * columns]) for i in range(rows)]
            in_columns = [set(cells[j::columns]) for j in range(columns)]
            pairs.add((max(map(len, in_columns)), max(map(len, in_rows))))
    return pairs


@pytest.mark.parametrize(("rows", "columns", "domains"), [(2, 2, 3), (3, 2, 3), (2, 3, 2), (1, 4, 3)])
def test_it_agrees_with_the_plainest_loop(rows: int, columns: int, domains: int) -> None:
    """The same pairs, and those above them, are feasible."""
    for d, p, capacities in instances(rows=rows, columns=columns, domains=domains, largest=4):
        found = pairs_by_hand(d, p, capacities)
        for s, r in product(range(1, domains + 1), repeat=2):
            assert feasible(d, p, capacities, (s, r)) == any(a <= s and b <= r for a, b in found)


@pytest.mark.parametrize(
    ("rows", "columns", "capacities", "expected"),
    [
        (2, 2, (4,), {(1, 1)}),  # all in one domain
        (2, 2, (2, 2), {(1, 2), (2, 1)}),  # a column each, or a row each
        (3, 3, (7, 1, 1), {(2, 2)}),  # the two small ones on different rows and columns
        (2, 2, (1, 1, 1, 1), {(2, 2)}),  # every cell elsewhere
        (2, 2, (3,), set()),  # no room
    ],
)
def test_corners_known_by_hand(rows: int, columns: int, capacities: tuple[int, ...], expected: set[Pair]) -> None:
    """Grids small enough to see it."""
    assert corners(rows, columns, capacities) == expected


def test_least_cost_is_over_all_corners() -> None:
    """2 x 2 on (2, 2): (1, 2) costs 0.25 + 1.5, (2, 1) costs 0.5 + 0.75."""
    assert least_cost(2, 2, (2, 2), 0.25) == pytest.approx(1.25)


def test_width_profiles_known_by_hand() -> None:
    """2 x 2 on (2, 2) with S = 1: each domain serves one column.  With R = 1: each serves both."""
    assert width_profiles(2, 2, (2, 2), (1, 2)) == {((2, 1), (2, 1))}
    assert width_profiles(2, 2, (2, 2), (2, 1)) == {((2, 2), (2, 2))}
    # Three cells and one: the large domain serves both columns, the small one a single one.
    assert width_profiles(2, 2, (3, 1), (2, 2)) == {((1, 1), (3, 2))}
