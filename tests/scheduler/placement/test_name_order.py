"""Ranks in the order of names: the best choice of nodes, equal to all choices of tiny clusters."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.algorithm_run import run
from scheduler.job import Count, Hold, Job, Parallelism
from scheduler.objective import worth_of
from scheduler.placement.name_order import InNameOrder, NodeRow
from scheduler.placement.node_order import by_natural_name
from scheduler.placement.types import ALGORITHMS, Limits
from tests.case_counts import examples
from topology.cluster import Cluster
from topology.flags import NodeFlag
from topology.generate import generate

IN_ORDER = InNameOrder(ALGORITHMS.load("exact"))
SHAPES = ((4, 1), (1, 4), (2, 2), (3, 2), (2, 3), (5, 1), (1, 5))


def cluster_of(names: list[int], busy: set[int]) -> Cluster:
    """Three minipods of three nodes with names in an order that may not be the network's, some in use."""
    cluster = generate("minipods", minipods=3, nodes=9, rack_nodes=2)
    return cluster.replace(names=tuple(f"n{number}" for number in names)).with_busy(sorted(busy))


def least(cluster: Cluster, job: Job) -> float | None:
    """The least objective of all choices of nodes in the order of names; ``None`` = none keeps the constraints."""
    row = by_natural_name(cluster, np.flatnonzero(cluster.idle).astype(np.int32))
    choices = (row[list(positions)] for positions in combinations(range(len(row)), job.grid.cells))
    worths = (worth_of(cluster, job, nodes[job.grid.node_rank]) for nodes in choices)
    return min((worth.objective for worth in worths if worth is not None), default=None)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """A job of at most six nodes, perhaps with groups that are held together, or with a soft term at racks."""
    dp, pp = draw(st.sampled_from(SHAPES))
    holds = draw(st.sampled_from(((), (Hold("dp", "minipod"),), (Hold("pp", "minipod"),))))
    counts = draw(st.sampled_from(((), (Count("pp", "rack", 0.2),))))
    alpha = draw(st.sampled_from((0.0, 0.3, 0.5, 1.0)))
    return Job("j", Parallelism(tp=8, dp=dp, pp=pp), alpha=alpha, level="minipod", holds=holds, counts=counts)


@given(st.permutations(range(9)) | st.just([*range(9)]), st.sets(st.integers(0, 8), max_size=3), jobs())
@examples(200)
def test_equal_to_all_choices(names: list[int], busy: set[int], job: Job) -> None:
    """The least objective, proved; or that there is no choice."""
    cluster = cluster_of(names, busy)
    outcome = run(IN_ORDER, cluster, job, Limits(seconds=20, workers=1))
    expected = least(cluster, job)
    if expected is None:
        assert outcome.status == "infeasible"
        return
    assert outcome.evaluation is not None
    assert (outcome.status, round(outcome.evaluation.objective, 6)) == ("optimal", round(expected, 6))
    nodes = outcome.proposal.nodes
    assert nodes is not None
    by_rank = nodes.ravel()[np.argsort(job.grid.node_rank, axis=None)]
    assert by_rank.tolist() == by_natural_name(cluster, np.sort(by_rank)).tolist()


def test_slow_nodes_where_healthy_ones_keep_no_constraint() -> None:
    """Both pipelines of two stages within a minipod: n0 and n1 of one, n2 and the slow n3 of the other; n4 is alone."""
    cluster = cluster_of([0, 1, 8, 2, 3, 7, 4, 5, 6], {2, 5, 7, 8})
    parallelism = Parallelism(tp=8, dp=2, pp=2, order="tp-cp-ep-pp-dp")
    job = Job("j", parallelism, level="minipod", holds=(Hold("pp", "minipod"),), avoid="price", spread_cost=0.1)
    cluster = cluster.with_flags([NodeFlag("n3", "straggler", 1.1)])
    outcome = run(IN_ORDER, cluster, job, Limits(seconds=20, workers=1))
    nodes = outcome.proposal.nodes
    assert nodes is not None, outcome.reason
    assert sorted(cluster.names[node] for node in nodes.ravel()) == ["n0", "n1", "n2", "n3"]
    # without the slow node there is no choice, which is proved
    outcome = run(IN_ORDER, cluster.with_busy([2, 4, 5, 7, 8]), job, Limits(seconds=20, workers=1))
    assert outcome.status == "infeasible"


@pytest.mark.parametrize("alpha", [0.3, 1 / 7, 6 / 7])
def test_what_a_free_order_would_add_is_said(alpha: float) -> None:
    """Two pipelines of four stages on three minipods of three nodes: by name both cross more than they have to, which
    is proved, also where no millionths say the weights.
    """
    cluster = cluster_of([*range(9)], set())
    job = Job("j", Parallelism(tp=8, dp=2, pp=4), alpha=alpha, level="minipod")
    outcome = run(IN_ORDER, cluster, job, Limits(seconds=20, workers=1))
    assert outcome.status == "optimal"
    free = run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=20, workers=1))
    assert outcome.evaluation is not None
    assert free.evaluation is not None
    assert outcome.evaluation.objective > free.evaluation.objective
    assert any(f"{free.evaluation.objective:g} in place of" in note for note in outcome.notes)


def test_names_that_do_not_follow_the_network() -> None:
    """Where each node is a run of its own the model is too large: a placement, without a proof that it is the best."""
    cluster = generate("minipods", minipods=16, nodes=1024)
    scattered = [(i * 389) % 1024 for i in range(1024)]
    cluster = cluster.replace(names=tuple(f"n{number}" for number in scattered))
    job = Job("j", Parallelism(tp=8, dp=16, pp=8), alpha=0.3, level="minipod")
    row = NodeRow(cluster, job, by_natural_name(cluster, np.arange(1024, dtype=np.int32)))
    assert row.places > 100_000
    outcome = run(IN_ORDER, cluster, job, Limits(seconds=5, workers=1))
    assert (outcome.status, outcome.evaluation is not None) == ("feasible", True)
