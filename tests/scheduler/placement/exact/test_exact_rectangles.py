"""The rectangle table: exactly the most cells that rectangles cover, and never less than a placement needs."""

from __future__ import annotations

from functools import cache
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bounds import CoverageBound, RectangleBound
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import all_problems, corners, pairs, problems

Touches = tuple[int, int]


@cache
def most_covered(problem: GridProblem) -> dict[Touches, int]:
    """For each (sum of rows, sum of columns) exactly, the most cells of rectangles, all heights and widths tried."""
    shapes = list(product(range(1, problem.rows + 1), range(1, problem.columns + 1)))
    most = {(0, 0): 0}
    for capacity in problem.capacities:
        before = dict(most)
        for (rows, columns), cells in before.items():
            for r, q in shapes:
                touches = rows + r, columns + q
                most[touches] = max(most.get(touches, 0), cells + min(capacity, r * q))
    return most


def best(problem: GridProblem, rows: int, columns: int) -> int:
    """The most cells within these sums."""
    return max(cells for (r, q), cells in most_covered(problem).items() if r <= rows and q <= columns)


@st.composite
def larger_problems(draw: st.DrawFn) -> GridProblem:
    """Up to 7 x 7 cells on up to 4 domains: too large for brute force over placements, not over rectangles."""
    rows, columns = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    sizes = st.integers(1, draw(st.sampled_from([6, 12, 49])))
    capacities = sorted(draw(st.lists(sizes, min_size=1, max_size=4)), reverse=True)
    capacities[0] += max(0, rows * columns - sum(capacities))
    return GridProblem(rows, columns, tuple(capacities))


@given(st.one_of(problems(), larger_problems()))
@examples(300)
def test_the_table_is_exact(problem: GridProblem) -> None:
    """For every pair the most cells over all heights and widths of all domains, not only the full heights."""
    table = RectangleBound(problem, pairs(problem))
    for dp, pp in pairs(problem):
        assert table.most_cells((dp, pp)) == best(problem, pp * problem.rows, dp * problem.columns)


@given(problems())
@examples(200)
def test_spare_touches_are_exact(problem: GridProblem) -> None:
    """What the pair allows beyond the fewest row (column) touches with which all cells can be covered."""
    table = RectangleBound(problem, pairs(problem))
    for dp, pp in pairs(problem):
        rows, columns = pp * problem.rows, dp * problem.columns
        if not table.refutes((dp, pp)):
            fewest_rows = next(r for r in range(rows + 1) if best(problem, r, columns) >= problem.cells)
            fewest_columns = next(q for q in range(columns + 1) if best(problem, rows, q) >= problem.cells)
            assert table.spare_rows((dp, pp)) == rows - fewest_rows
            assert table.spare_columns((dp, pp)) == columns - fewest_columns


def test_no_tiny_placement_is_refuted() -> None:
    """All 1,032 grids of up to 3 x 3 cells on up to 4 domains of up to 5."""
    for problem in all_problems(rows=3, columns=3, domains=4, largest=5):
        table = RectangleBound(problem, pairs(problem))
        assert [pair for pair in corners(problem) if table.refutes(pair)] == []


@given(problems())
@examples(300)
def test_no_placement_is_refuted(problem: GridProblem) -> None:
    """Drawn problems, also seen with rows and columns exchanged; the table is never weaker than the coverage bound."""
    for view in (problem, problem.transposed):
        table, coverage = RectangleBound(view, pairs(view)), CoverageBound(view)
        assert [pair for pair in corners(view) if table.refutes(pair)] == []
        assert all(table.refutes(pair) for pair in pairs(view) if coverage.refutes(*pair))


def test_it_refutes_what_the_coverage_bound_leaves_open() -> None:
    """3 x 6 cells on 7 + 5 + 5 + 3, S = R = 2: real heights and widths would cover 18.2 cells, whole ones 17 of 18."""
    problem = GridProblem(3, 6, (7, 5, 5, 3))
    assert not CoverageBound(problem).refutes(2, 2)
    assert best(problem, 6, 12) == 17
    assert RectangleBound(problem, [(2, 2)]).refutes((2, 2))


def test_a_table_knows_pairs_up_to_the_largest_asked() -> None:
    """Made for (3, 1) and (1, 2) it reaches to S = 3 and R = 2, whether or not they were asked about together."""
    problem = GridProblem(3, 3, (3, 3, 3, 3))
    table = RectangleBound(problem, [(3, 1), (1, 2)])
    assert [pair for pair in pairs(problem) if table.knows(pair)] == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    # Three domains of 3 cells: whole rows make (3, 1); 3 cells of 2 x 2 each take the 12 touches that (2, 2) allows.
    assert [pair for pair in pairs(problem) if table.knows(pair) and not table.refutes(pair)] == [
        (2, 2),
        (3, 1),
        (3, 2),
    ]


def test_work_grows_with_the_pairs_asked() -> None:
    """The estimate by which the search decides whether to make the table."""
    problem = GridProblem(10, 4, (9,) * 8)
    assert RectangleBound.work(problem, [(2, 2)]) < RectangleBound.work(problem, [(2, 2), (4, 3)])
