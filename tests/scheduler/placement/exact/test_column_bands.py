"""Partitions of columns into bands."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest

from scheduler.placement.exact.bands import partitions


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
