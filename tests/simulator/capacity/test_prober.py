"""The largest job of a shape by trying every size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.placement.types import ALGORITHMS
from simulator.capacity.job_shape import ALPHA, Family, JobShape, Prober
from tests.case_counts import examples
from tests.simulator.capacity.clusters_in_use import with_free


def prober_of(*free: int) -> Prober:
    """Minipods of 8 nodes with so many free, placed by the exact algorithm."""
    return Prober(with_free(*free), ALGORITHMS.load("exact"))


@examples(12)
@given(
    free=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    stages=st.integers(1, 4),
    family=st.sampled_from(["dp", "pp"]),
    spread=st.integers(1, 2),
)
def test_the_largest_job_by_trying_every_size(free: list[int], stages: int, family: Family, spread: int) -> None:
    """Of all sizes for which there are nodes, the largest whose groups touch so few minipods; proved in these."""
    prober, shape = prober_of(*free), JobShape(8, stages)
    found = prober.largest(shape, family, spread)
    sizes = []
    for rows in range(1, prober.most_rows(shape) + 1):
        worth = prober.place(shape, rows, ALPHA[family]).evaluation
        if worth is not None and getattr(worth, family) <= spread:
            sizes.append(rows * stages)
    assert (found.nodes, found.proved) == (max(sizes, default=0), True)
    assert (found.family, found.spread) == (family, spread)


def test_whole_groups_need_no_search() -> None:
    """PP groups of 3 inside minipods with 7, 5 and 2 free: two, one and none, 9 nodes of the 12 that spread may use."""
    prober, shape = prober_of(7, 5, 2), JobShape(8, 3)
    assert prober.most_rows(shape) == 4
    assert prober.largest(shape, "pp", 1).nodes == 9
    assert prober.largest(shape, "pp", 2).nodes == 12


def test_a_job_is_placed_once() -> None:
    """Asked again, the outcome is the same object; another alpha is another job."""
    prober, shape = prober_of(4, 4), JobShape(8, 2)
    assert prober.place(shape, 2, 0.5) is prober.place(shape, 2, 0.5)
    assert prober.place(shape, 2, 0.5) is not prober.place(shape, 2, 0.6)


@pytest.mark.parametrize("free", [(), (0,), (0, 0)], ids=str)
def test_nothing_free(free: tuple[int, ...]) -> None:
    """The largest job of any shape has no node, and that is proved."""
    prober = prober_of(*(free or (0,)))
    assert prober.most_rows(JobShape(8, 2)) == 0
    assert (prober.largest(JobShape(8, 2), "dp", 1).nodes, prober.largest(JobShape(8, 2), "dp", 1).proved) == (0, True)
