"""What jobs have in common of their data: golden numbers, and closed forms against drawn samples."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import DataSet, data_affinity, near_shared_data, union_size
from tests.case_counts import examples
from topology.generate import minipods

DATA = st.dictionaries(st.sampled_from("abc"), st.floats(1.0, 1e12), max_size=3).map(
    lambda sizes: [DataSet(*one) for one in sizes.items()]
)


def test_four_jobs_of_a_part_each() -> None:
    """Four jobs of 10,000 out of 13,333 need 13,281 loads together: N (1 - .25^4) with the part that each leaves out,
    3,333 / 13,333, rounded to a quarter, and 40,000 each for itself.
    """
    assert union_size([10_000.0] * 4, 13_333.0) == pytest.approx(13_333 * (1 - 0.25**4), abs=0.5)
    assert round(union_size([10_000.0] * 4, 13_333.0)) == 13_281


def test_the_union_of_drawn_samples() -> None:
    """The closed form is the mean over drawn parts: 200 draws of 3 parts of 300 out of 1,000, deviation below 1 %."""
    rng = Random(1)
    drawn = [len(set().union(*(rng.sample(range(1_000), 300) for _ in range(3)))) for _ in range(200)]
    assert np.mean(drawn) == pytest.approx(union_size([300.0] * 3, 1_000.0), rel=0.01)


@examples(60)
@given(parts=st.lists(st.floats(0.0, 1.0), max_size=5))
def test_a_union_lies_between_its_largest_part_and_their_sum(parts: list[float]) -> None:
    """And each further part adds to it, or leaves it as it is."""
    unions = [union_size(parts[:n], 1.0) for n in range(len(parts) + 1)]
    assert max(parts, default=0.0) - 1e-9 <= unions[-1] <= min(1.0, sum(parts)) + 1e-9
    assert all(one <= other + 1e-9 for one, other in pairwise(unions))


def test_affinity_by_hand() -> None:
    """100 of 200 in common where each reads 150; of a known whole of 400 random parts have 150 150 / 400 in common."""
    ours, theirs = [DataSet("a", 100), DataSet("b", 50)], [DataSet("a", 100), DataSet("c", 50)]
    assert data_affinity(ours, theirs) == 0.5
    assert data_affinity([DataSet("a", 150)], [DataSet("a", 150)], whole={"a": 400}) == pytest.approx(56.25 / 243.75)


@examples(60)
@given(one=DATA, other=DATA)
def test_affinity_is_even_handed(one: list[DataSet], other: list[DataSet]) -> None:
    """It lies between 0 and 1, is the same both ways, and is 1 of a job with itself."""
    assert 0.0 <= data_affinity(one, other) <= 1.0 + 1e-9
    assert data_affinity(one, other) == pytest.approx(data_affinity(other, one))
    assert data_affinity(one, one) == pytest.approx(1.0 if one else 0.0)


def test_nodes_near_shared_data() -> None:
    """The racks of the two jobs that read the same data count, the larger affinity where both are; no other does."""
    cluster = minipods(minipods=1, nodes=8, rack_nodes=2)
    data = [DataSet("a", 10)]
    running = [(data, np.array([0, 2])), ([DataSet("a", 5)], np.array([3, 4])), ([DataSet("b", 5)], np.array([6]))]
    near = near_shared_data(data, cluster.levels[-1].domain_of, running)
    assert near.tolist() == [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.0, 0.0]
