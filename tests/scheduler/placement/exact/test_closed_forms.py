"""Closed forms: what counting proves is what trying every assignment finds, and what the whole search answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objective import TOLERANCE
from scheduler.placement.exact.bounds import contiguous, fewest_for_lines, whole_columns
from scheduler.placement.exact.closed_forms import closed_form, contiguous_pair
from scheduler.placement.exact.lattice import Lattice, PairSearch, pair_cost
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.schedule import search_pairs
from scheduler.placement.types import Limits, Pair
from tests.case_counts import every_fourth, examples
from tests.scheduler.placement.exact import brute_force
from tests.scheduler.placement.exact.tiny import ALPHAS, all_problems, corners, problems

alphas = st.sampled_from(ALPHAS)


def check_against_every_assignment(problem: GridProblem, alpha: float) -> None:
    """The placement is one with its pair; nothing is below the bound; and where it is proved nothing is better."""
    form = closed_form(problem, alpha)
    assert problem.fits(form.cells)
    assert problem.pair_of(form.cells) == form.pair
    assert form.cost == pytest.approx(alpha * form.pair[0] + (1 - alpha) * form.pair[1])
    least = brute_force.least_cost(problem.rows, problem.columns, problem.capacities, alpha)
    assert form.bound <= least + TOLERANCE
    if form.proved:
        assert form.bound == form.cost == pytest.approx(least)


@pytest.mark.many_cases
def test_all_tiny_problems() -> None:
    """1,032 grids of up to 3 x 3 cells on up to four domains, each with six affinities."""
    for problem, alpha in product(every_fourth(all_problems(rows=3, columns=3, domains=4, largest=5)), ALPHAS):
        check_against_every_assignment(problem, alpha)


@given(problems(), alphas)
@examples(1000)
def test_drawn_problems(problem: GridProblem, alpha: float) -> None:
    """Grids that are longer one way than the other."""
    check_against_every_assignment(problem, alpha)


def feasible(problem: GridProblem, pair: Pair) -> bool:
    """Whether some assignment has the pair: column by column every way to go on, of equal states one.

    A state is what is left of the domains, and which of them each row touches so far; rows are interchangeable.
    """
    states = {(problem.capacities, (0,) * problem.rows)}
    for _ in range(problem.columns):
        states = {
            (left, tuple(sorted(touched)))
            for room, touches in states
            for left, touched in _columns(room, touches, pair)
        }
    return bool(states)


def _columns(
    room: tuple[int, ...], touches: tuple[int, ...], pair: Pair, used: int = 0
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield what is left and what rows touch after each way to place the cells of one more column."""
    if not touches:
        yield room, ()
        return
    first, *others = touches
    for k, left in enumerate(room):
        bit = 1 << k
        if left and (used | bit).bit_count() <= pair[0] and (first | bit).bit_count() <= pair[1]:
            rest = (*room[:k], left - 1, *room[k + 1 :])
            for after, touched in _columns(rest, tuple(others), pair, used | bit):
                yield after, (first | bit, *touched)


@st.composite
def up_to_4_x_5(draw: st.DrawFn) -> GridProblem:
    """Grids of up to 4 x 5 cells on five domains, often just large enough: too many assignments to try them all."""
    rows, columns = draw(st.integers(2, 4)), draw(st.integers(2, 5))
    capacities = draw(st.lists(st.integers(1, draw(st.sampled_from([4, 6, 9]))), min_size=2, max_size=5))
    capacities[0] += max(0, rows * columns - sum(capacities))
    return GridProblem(rows, columns, tuple(sorted(capacities, reverse=True)))


@given(up_to_4_x_5(), alphas)
@examples(2000, deadline=None)
def test_up_to_4_x_5_cells_on_five_domains(problem: GridProblem, alpha: float) -> None:
    """No pair below the bound is feasible."""
    form = closed_form(problem, alpha)
    assert problem.fits(form.cells)
    assert problem.pair_of(form.cells) == form.pair
    dp, pp = problem.largest_pair
    for pair in product(range(1, dp + 1), range(1, pp + 1)):
        # a pair that is as good as another in both need not be looked at: the larger one is feasible with it
        if pair_cost(pair, alpha) < form.bound - TOLERANCE and not any(
            other != pair
            and other[0] >= pair[0]
            and other[1] >= pair[1]
            and pair_cost(other, alpha) < form.bound - TOLERANCE
            for other in product(range(1, dp + 1), range(1, pp + 1))
        ):
            assert not feasible(problem, pair)


@given(problems())
@examples(100)
def test_the_enumeration_agrees_with_brute_force(problem: GridProblem) -> None:
    """Column by column or all at once: the same pairs."""
    front = corners(problem)
    for pair in product(range(1, 4), range(1, 4)):
        assert feasible(problem, pair) == any(s <= pair[0] and r <= pair[1] for s, r in front)


@given(
    st.integers(1, 40),
    st.integers(1, 16),
    st.lists(st.integers(1, 60), min_size=1, max_size=40),
    alphas,
)
@examples(300)
def test_the_search_answers_the_same(rows: int, columns: int, capacities: list[int], alpha: float) -> None:
    """Where a closed form is proved the whole search ends with the same pair, and by counting alone."""
    capacities[0] += max(0, rows * columns - sum(capacities))
    problem = GridProblem(rows, columns, tuple(sorted(capacities, reverse=True)))
    form = closed_form(problem, alpha)
    if form.proved:
        lattice = Lattice(problem, alpha, 1 - alpha)
        search_pairs(PairSearch(lattice, Limits(workers=1)))
        assert lattice.proved
        assert lattice.best == form.pair


@given(problems())
@examples(300)
def test_pairs_are_counted_without_a_placement(problem: GridProblem) -> None:
    """The fewest domains of whole columns, and the pair of domains filled one by one, are those of the placements."""
    fewest = fewest_for_lines(problem.rows, problem.columns, problem.capacities)
    cells = whole_columns(problem)
    assert (fewest is None) == (cells is None)
    if cells is not None:
        assert problem.pair_of(cells) == (1, fewest)
    assert contiguous_pair(problem.rows, problem.columns, problem.capacities) == problem.pair_of(contiguous(problem))


@pytest.mark.parametrize(
    ("problem", "alpha", "pair"),
    [
        (GridProblem(4, 4, (16, 3)), 0.5, (1, 1)),  # one domain holds all
        (GridProblem(4, 4, (11, 9, 4)), 0.3, (2, 1)),  # 2 + 2 whole rows cost 1.3, and 2 + 2 columns 1.7
        (GridProblem(4, 4, (9, 9)), 0.7, (1, 2)),  # the other way round
        (GridProblem(4, 4, (11, 5)), 0.3, (2, 2)),  # 2 + 1 whole rows are not 4; two domains hold all
    ],
)
def test_by_hand(problem: GridProblem, alpha: float, pair: Pair) -> None:
    """Each form once."""
    form = closed_form(problem, alpha)
    assert (form.pair, form.proved) == (pair, True)


def test_what_is_left_to_the_search() -> None:
    """Three domains of 6 for 4 x 4 cells: one whole row or column each, so a pair with S, R >= 2 that is not known."""
    form = closed_form(GridProblem(4, 4, (6, 6, 6)), 0.5)
    assert not form.proved
    assert form.bound == pytest.approx(2.0)
