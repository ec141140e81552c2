"""Bands that share domains: placements that keep S and R, found whenever there are any; and partitions."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.exact.bands import partitions, shared_bands
from scheduler.placement.exact.cpsat import Slice
from scheduler.placement.exact.problem import GridProblem
from tests.case_counts import examples
from tests.scheduler.placement.exact.tiny import bands_exist, check_placement, problems

LIMIT = Slice(effort=10.0, wall=60.0)


@st.composite
def banded(draw: st.DrawFn) -> tuple[GridProblem, int, tuple[int, ...]]:
    """A problem, S, and the widths of bands that cut its columns."""
    problem = draw(problems())
    bands = draw(st.integers(1, problem.columns))
    widths = draw(st.sampled_from(list(partitions(problem.columns, bands))))
    return problem, draw(st.integers(1, problem.largest_pair[0])), widths


@given(banded())
@examples(200)
def test_column_bands_are_found_whenever_there_are_any(instance: tuple[GridProblem, int, tuple[int, ...]]) -> None:
    """And keep S, and R by the number of bands: in each band a row lies in one domain."""
    problem, dp, widths = instance
    cells = shared_bands(problem, dp=dp, widths=widths, limit=LIMIT)
    assert (cells is not None) == bands_exist(problem, dp, widths)
    if cells is not None:
        check_placement(problem, cells, (dp, len(widths)))


@pytest.mark.parametrize("total", range(1, 10))
@pytest.mark.parametrize("parts", range(1, 5))
def test_partitions_are_all_there_the_most_even_first(total: int, parts: int) -> None:
    """Each once, in descending order; in the first, parts differ by one at most."""
    expected = {
        tuple(sorted(choice, reverse=True))
        for choice in combinations_with_replacement(range(1, total + 1), parts)
        if sum(choice) == total
    }
    found = list(partitions(total, parts))
    assert len(found) == len(set(found))
    assert set(found) == expected
    if found:
        assert max(found[0]) - min(found[0]) <= 1
