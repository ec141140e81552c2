"""Width profiles: the stream ends, repeats nothing, and leaves out no profile of a real placement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.placement.cpsat import Slice
from scheduler.placement.exact.bounds import usable_domains
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.profiles import SkeletonModel, WidthProfiles
from scheduler.placement.types import Pair
from tests.case_counts import examples
from tests.scheduler.placement.exact.brute_force import width_profiles
from tests.scheduler.placement.exact.tiny import alike, all_problems, pairs, spare_rows

LIMIT = Slice(effort=10.0, wall=60.0, light=True)

TINY = [problem for problem in all_problems(rows=3, columns=3, domains=3, largest=6) if problem.rows >= 2]


def stream(problem: GridProblem, pair: Pair, without: tuple[int, ...] | None = None) -> Iterator[tuple[int, ...]]:
    """All profiles, with the slack that the search allows; where asked for, those left when one is excluded."""
    profiles = WidthProfiles(problem, pair, spare_rows=spare_rows(problem, pair))
    if without is not None:
        profiles.exclude(np.array(without, dtype=np.int32))
    while True:
        answer, widths = profiles.next(LIMIT)
        if widths is None:
            assert answer == "no"
            return
        yield tuple(int(q) for q in widths)


@given(st.sampled_from(TINY), st.data())
@examples(250)
def test_every_placement_has_its_profile_in_the_stream(problem: GridProblem, data: st.DataObject) -> None:
    """Of all placements with S and R on the domains that the pair can use, by brute force."""
    pair = data.draw(st.sampled_from(pairs(problem)))
    capacities = problem.capacities[: usable_domains(problem, pair)]
    found = list(stream(problem, pair))
    assert len(found) == len(set(found))
    named = {tuple(sorted(zip(capacities, widths, strict=True))) for widths in found}
    assert width_profiles(problem.rows, problem.columns, capacities, pair) <= named


@given(st.sampled_from(TINY), st.data())
@examples(100)
def test_profiles_keep_to_the_column_touches(problem: GridProblem, data: st.DataObject) -> None:
    """At most S a column; among equal domains in descending order, since they are interchangeable."""
    dp, pp = data.draw(st.sampled_from(pairs(problem)))
    for widths in stream(problem, (dp, pp)):
        assert sum(widths) <= dp * problem.columns
        assert max(widths) <= problem.columns
        for k in range(1, len(widths)):
            assert problem.capacities[k - 1] > problem.capacities[k] or widths[k - 1] >= widths[k]


@pytest.mark.parametrize(
    ("problem", "pair", "expected"),
    [
        # Four domains of 4 with 8 row and 8 column touches: a box of 4 cells takes 4 as 2 x 2, more in any other shape.
        (GridProblem(4, 4, (4,) * 4), (2, 2), [(2, 2, 2, 2)]),
        # One column of 3 for each domain.
        (GridProblem(3, 3, (3, 3, 3)), (1, 3), [(1, 1, 1)]),
        # The small domains are on a column each.
        (GridProblem(3, 3, (7, 1, 1)), (2, 2), [(3, 1, 1)]),
    ],
)
def test_tight_pairs_have_one_profile(problem: GridProblem, pair: Pair, expected: list[tuple[int, ...]]) -> None:
    """Known by hand."""
    assert list(stream(problem, pair)) == expected


Named = tuple[tuple[int, int], ...]
"""A profile without the order of equal domains: (capacity, columns served), ascending."""


def named(capacities: tuple[int, ...], widths: Iterable[int]) -> Named:
    """As the brute force names profiles."""
    return tuple(sorted((c, int(q)) for c, q in zip(capacities, widths, strict=True)))


def dominates(large: Named, small: Named) -> bool:
    """Whether the domains of each width, both in ascending order, are as many and each as large or larger."""
    for q in range(1, 1 + max(q for _, q in (*large, *small))):
        of_large, of_small = ([c for c, width in profile if width == q] for profile in (large, small))
        if len(of_large) != len(of_small) or any(a < b for a, b in zip(of_large, of_small, strict=True)):
            return False
    return True


@given(st.one_of(st.sampled_from(TINY), alike()))
@examples(150)
def test_a_profile_that_dominates_one_of_a_placement_has_a_placement(problem: GridProblem) -> None:
    """By brute force, for every pair: the same widths on other domains, each as large or larger."""
    for pair in pairs(problem):
        capacities = problem.capacities[: usable_domains(problem, pair)]
        real = width_profiles(problem.rows, problem.columns, capacities, pair)
        for profile in real:
            for widths in set(permutations(q for _, q in profile)):
                moved = named(capacities, widths)
                assert moved in real or not dominates(moved, profile)


@given(st.one_of(st.sampled_from(TINY), alike()), st.data())
@examples(200)
def test_what_is_dominated_is_excluded_and_nothing_else(problem: GridProblem, data: st.DataObject) -> None:
    """Of all profiles of a pair: with the one that is excluded those that it dominates, hence none of a placement."""
    pair = data.draw(st.sampled_from(pairs(problem)))
    capacities = problem.capacities[: usable_domains(problem, pair)]
    found = list(stream(problem, pair))
    if found:
        excluded = data.draw(st.sampled_from(found))
        left = [w for w in found if not dominates(named(capacities, excluded), named(capacities, w))]
        assert set(stream(problem, pair, without=excluded)) == set(left)


@given(st.one_of(st.sampled_from(TINY), alike()), st.data())
@examples(200)
def test_the_same_widths_on_the_largest_domains(problem: GridProblem, data: st.DataObject) -> None:
    """They dominate; among equal domains they descend, as the skeleton model wants them: it finds those of a placement,
    so that its "no" tells of the profile and not of the order.
    """
    pair = data.draw(st.sampled_from(pairs(problem)))
    capacities = problem.capacities[: usable_domains(problem, pair)]
    drawn = data.draw(st.lists(st.integers(0, problem.columns), min_size=len(capacities), max_size=len(capacities)))
    widths = np.minimum(drawn, capacities).astype(np.int32)
    assume(widths.any())
    moved = WidthProfiles(problem, pair, spare_rows=problem.rows).on_largest(widths)
    assert dominates(named(capacities, moved), named(capacities, widths))
    assert (np.diff((moved > 0).astype(int)) <= 0).all()
    for k in range(1, len(moved)):
        assert capacities[k - 1] > capacities[k] or moved[k - 1] >= moved[k]
    if named(capacities, moved) in width_profiles(problem.rows, problem.columns, capacities, pair):
        model = SkeletonModel(problem, pair, spare_rows=spare_rows(problem, pair))
        assert model.find(LIMIT, moved)[0] == "yes"


@pytest.mark.parametrize(
    ("widths", "moved"),
    [
        ((0, 2, 1, 0, 3), (2, 3, 1, 0, 0)),  # on the first domain, and the two of 4 in descending order
        ((3, 1, 2, 0, 0), (3, 2, 1, 0, 0)),  # nothing to move but equal ones
        ((0, 0, 0, 1, 2), (1, 2, 0, 0, 0)),  # in the order they had, whatever the width
    ],
)
def test_on_the_largest_in_numbers(widths: tuple[int, ...], moved: tuple[int, ...]) -> None:
    """Five domains, the second and third and the last two equal."""
    profiles = WidthProfiles(GridProblem(4, 4, (5, 4, 4, 3, 3)), (3, 3), spare_rows=4)
    assert tuple(profiles.on_largest(np.array(widths, dtype=np.int32))) == moved


def test_fewer_domains_may_do_where_more_do_not() -> None:
    """9 x 2 cells on 9 + 3 + 3 + 3 + 2 with S = 3: a column on the first domain, the other on the three of 3.

    The last one cannot serve both columns besides.  All six column touches would be in use, so the column without the
    first domain would lie on the last and two of 3, which hold 8 of its 9 cells.  That is no word against leaving the
    last domain out.
    """
    problem, pair = GridProblem(9, 2, (9, 3, 3, 3, 2)), (3, 2)
    cells = np.array([[0, 1 + row // 3] for row in range(9)])
    assert problem.fits(cells)
    assert problem.pair_of(cells) == pair
    assert (1, 1, 1, 1, 2) in stream(problem, pair)
    assert (1, 1, 1, 1, 0) in stream(problem, pair, without=(1, 1, 1, 1, 2))
