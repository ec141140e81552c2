"""Seeded placement problems: always the same, within their limits, and as described."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.instances import ALPHAS, FAMILIES, MAX_CELLS, MAX_DOMAINS, draw, instances
from topology.cluster import count_nodes

SAMPLE = list(instances(300, seed=1))


def test_an_instance_does_not_depend_on_how_many_are_drawn() -> None:
    """Instance 7 of a seed is the same alone and among others, and another seed gives another one."""
    assert draw(7, seed=1) == SAMPLE[7]
    assert draw(7, seed=2) != SAMPLE[7]


def test_every_family_is_drawn() -> None:
    """All six families take part: of 300 instances at least 20 each, far below the 50 expected."""
    counts = Counter(instance.family for instance in SAMPLE)
    assert set(counts) == set(FAMILIES)
    assert min(counts.values()) >= 20


def test_instances_keep_their_limits() -> None:
    """Cells, domains and alpha are what we publish, and the job fits on the free nodes."""
    for instance in SAMPLE:
        assert 2 * 2 <= instance.rows * instance.columns <= MAX_CELLS
        assert 2 <= len(instance.free) <= MAX_DOMAINS
        assert instance.rows * instance.columns <= sum(instance.free)
        assert instance.alpha in ALPHAS


def test_tight_instances_are_tight() -> None:
    """A tight job leaves at most 3 % of the free nodes, and what rounding to whole rows leaves (below one row)."""
    for instance in SAMPLE:
        if instance.family == "tight":
            left = sum(instance.free) - instance.rows * instance.columns
            assert left < 0.03 * sum(instance.free) + instance.columns + 1


@pytest.mark.parametrize("number", range(5))
def test_cluster_has_the_free_nodes_it_is_said_to_have(number: int) -> None:
    """Busy nodes are strewn in, free ones are counted exactly, and the job has one cell for each of its nodes."""
    instance = draw(number, seed=1)
    cluster, job = instance.cluster(), instance.job()
    assert tuple(count_nodes(cluster.level("minipod"), cluster.idle)) == instance.free
    assert np.count_nonzero(~cluster.idle) == sum(free // 3 + 1 for free in instance.free)
    assert (job.grid.rows, job.grid.columns) == (instance.rows, instance.columns)
