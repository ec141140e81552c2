"""Width profiles: the stream ends, repeats nothing, and leaves out no profile of a real placement."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.profiles import Profiles
from scheduler.placement.exact.rectangles import RectangleBound
from scheduler.placement.exact.totals import usable_domains
from scheduler.placement.types import Pair
from tests.scheduler.placement.exact.brute_force import width_profiles
from tests.scheduler.placement.exact.tiny import all_problems, pairs

LIMIT = Slice(effort=10.0, wall=60.0, light=True)

TINY = [problem for problem in all_problems(rows=3, columns=3, domains=3, largest=6) if problem.rows >= 2]


def stream(problem: GridProblem, pair: Pair, without: tuple[int, ...] | None = None) -> Iterator[tuple[int, ...]]:
    """All profiles, with the slack that the search allows; where asked for, those left when one is excluded."""
    profiles = Profiles(problem, pair, spare_rows=RectangleBound(problem, [pair]).spare_rows(pair))
    if without is not None:
        profiles.exclude(np.array(without, dtype=np.int32))
    while True:
        answer, widths = profiles.next(LIMIT)
        if widths is None:
            assert answer == "no"
            return
        yield tuple(int(q) for q in widths)


@given(st.sampled_from(TINY), st.data())
@settings(max_examples=250, deadline=None)
def test_every_placement_has_its_profile_in_the_stream(problem: GridProblem, data: st.DataObject) -> None:
    """Of all placements with S and R on the domains that the pair can use, by brute force."""
    pair = data.draw(st.sampled_from(pairs(problem)))
    capacities = problem.capacities[: usable_domains(problem, pair)]
    found = list(stream(problem, pair))
    assert len(found) == len(set(found))
    named = {tuple(sorted(zip(capacities, widths, strict=True))) for widths in found}
    assert width_profiles(problem.rows, problem.columns, capacities, pair) <= named


@given(st.sampled_from(TINY), st.data())
@settings(max_examples=100, deadline=None)
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


def test_fewer_domains_may_do_where_more_do_not() -> None:
    """9 x 2 cells on 9 + 3 + 3 + 3 + 2 with S = 3: a column on the first domain, the other on the three of 3.

    The last one cannot serve both columns besides.  All six column touches would be in use, so the column without the
    first domain would lie on the last and two of 3, which hold 8 of its 9 cells.  That is no word against leaving the
    last domain out.
    """
    problem, pair = GridProblem(9, 2, (9, 3, 3, 3, 2)), (3, 2)
    cells = np.array([[0, 1 + row // 3] for row in range(9)])
    assert problem.holds(cells)
    assert problem.pair_of(cells) == pair
    assert (1, 1, 1, 1, 2) in stream(problem, pair)
    assert (1, 1, 1, 1, 0) in stream(problem, pair, without=(1, 1, 1, 1, 2))
