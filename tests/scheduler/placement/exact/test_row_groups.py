"""Rows on few domains, whatever the columns touch: what counting builds and refutes is what every assignment says."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.closed_forms import BinPacking, OutOfNodes, chained_rows, rows_on_two
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import all_problems, corners

NODES = 100_000


def check_rows_on_two(problem: GridProblem, *, possible: bool) -> None:
    """A placement with R = 2 is built iff there is one."""
    cells = rows_on_two(problem, NODES)
    assert (cells is not None) == possible
    if cells is not None:
        assert problem.fits(cells)
        assert problem.pair_of(cells)[1] <= 2


def test_all_tiny_grids() -> None:
    """All grids of up to 3 x 3 cells on up to four domains."""
    for problem in all_problems(rows=3, columns=3, domains=4, largest=5):
        check_rows_on_two(problem, possible=min(r for _, r in corners(problem)) <= 2)


def possible(problem: GridProblem) -> bool:
    """Whether rows on two domains each exist, row by row every way to go on; what is left of the domains is a state."""
    width, states = problem.columns, {problem.capacities}
    for _ in range(problem.rows):
        states = {
            tuple(
                sorted([*(left for k, left in enumerate(state) if k not in (i, j)), state[i] - x, state[j] - width + x])
            )
            for state in states
            for i, j in combinations(range(len(state)), 2)
            for x in range(max(0, width - state[j]), min(width, state[i]) + 1)
        }
    return bool(states)


@st.composite
def many_domains(draw: st.DrawFn) -> GridProblem:
    """Grids of up to four rows on up to eight domains, just large enough: more domains than a single chain takes."""
    rows, columns = draw(st.integers(2, 4)), draw(st.integers(3, 6))
    capacities = draw(st.lists(st.integers(1, columns + 1), min_size=rows + 2, max_size=8))
    capacities[0] += max(0, rows * columns - sum(capacities))
    return GridProblem(rows, columns, tuple(sorted(capacities, reverse=True)))


@given(many_domains())
@examples(200, deadline=None)
def test_more_domains_than_rows(problem: GridProblem) -> None:
    """Groups of domains as bins: rows on two domains each exist iff trying all ways finds some."""
    check_rows_on_two(problem, possible=possible(problem))


@given(st.integers(1, 20), st.integers(1, 12), st.lists(st.integers(1, 40), min_size=1, max_size=40))
@examples(300)
def test_a_chain_needs_no_more_domains_a_row_than_it_says(rows: int, columns: int, capacities: list[int]) -> None:
    """The m largest domains that hold all cells are had with rows on 1 + (m - 1) / D domains, rounded up."""
    capacities[0] += max(0, rows * columns - sum(capacities))
    problem = GridProblem(rows, columns, tuple(sorted(capacities, reverse=True)))
    needed = next(m for m in range(1, len(capacities) + 1) if sum(problem.capacities[:m]) >= problem.cells)
    cells = chained_rows(problem)
    assert problem.fits(cells)
    assert problem.pair_of(cells)[1] <= 1 + -(-(needed - 1) // rows)


def test_a_grid_that_only_groups_build() -> None:
    """Eight domains for four rows are three more than a chain takes; four of 3 cells and four of 1 make whole rows."""
    problem = GridProblem(4, 4, (3, 3, 3, 3, 1, 1, 1, 1))
    assert problem.pair_of(chained_rows(problem))[1] == 3
    check_rows_on_two(problem, possible=True)
    check_rows_on_two(GridProblem(4, 4, (3, 3, 3, 2, 2, 1, 1, 1)), possible=True)
    check_rows_on_two(GridProblem(4, 4, (2, 2, 2, 2, 2, 2, 2, 1, 1)), possible=False)


def test_a_packing_ends_at_its_limit() -> None:
    """What is not decided within the limit is not told."""
    items = Counter({7: 3, 6: 3, 5: 3, 4: 3, 3: 3, -2: 2})
    with pytest.raises(OutOfNodes):
        BinPacking(items, 10, 5).pack(8)
    assert BinPacking(items, 10, NODES).pack(7) is None
    packed = BinPacking(items, 10, NODES).pack(8)
    assert packed is not None
    assert all(sum(one) <= 10 for one in packed)
    assert Counter(item for one in packed for item in one) == items
