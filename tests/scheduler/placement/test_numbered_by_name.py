"""Rank 0 is on the first node by name, in every placement of equal worth that is given."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from scheduler.algorithm_run import run
from scheduler.job import Count, Job, Parallelism
from scheduler.objective import evaluate
from scheduler.placement.node_order import natural, numbered_by_name
from scheduler.placement.types import ALGORITHMS, Limits
from tests.case_counts import examples
from topology.cluster import Cluster, IntArray
from topology.generate import generate

ORDERS = ("tp-cp-ep-dp-pp", "tp-pp-cp-ep-dp", "tp-dp-pp-cp-ep")


def cluster_of(order: list[int]) -> Cluster:
    """Four minipods of six nodes, two to a rack, with the names n0, n1, ... in an order that is not the network's."""
    cluster = generate("minipods", minipods=4, nodes=24, rack_nodes=2)
    return cluster.replace(names=tuple(f"n{number}" for number in order))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """A job of at most 24 nodes of 8 GPUs, with groups of all kinds, at two levels."""
    degrees = {name: draw(st.sampled_from((1, 1, 2, 3, 4, 8))) for name in ("cp", "ep", "dp", "pp")}
    order = draw(st.sampled_from(ORDERS))
    try:
        parallelism = Parallelism(tp=draw(st.sampled_from((2, 4, 8))), **degrees, order=order)
        job = Job("j", parallelism, counts=(Count("ep", "rack", 0.2),) if degrees["ep"] > 1 else (), level="minipod")
        assume(job.grid.cells <= 24)
    except InvalidJob:
        assume(False)
    return job


@given(jobs(), st.permutations(range(24)), st.permutations(range(24)))
@examples(300)
def test_it_is_worth_the_same(job: Job, order: list[int], seats: list[int]) -> None:
    """Whatever its groups: on the same nodes, by the evaluator, and rank 0 on the first by name where ranks nest."""
    cluster, shape = cluster_of(order), (job.grid.rows, job.grid.columns)
    nodes = np.array(seats[: job.grid.cells], dtype=np.int32).reshape(shape)
    numbered = numbered_by_name(cluster, job, nodes)
    assert sorted(numbered.ravel()) == sorted(nodes.ravel())
    assert evaluate(cluster, job, numbered) == evaluate(cluster, job, nodes)
    if prod(job.rank_digits) == job.grid.cells:
        assert host(cluster, job, numbered) == min((cluster.names[node] for node in nodes.ravel()), key=natural)
        # a second time there is nothing left to do
        assert (numbered_by_name(cluster, job, numbered) == numbered).all()
    else:
        assert (numbered == nodes).all()


def host(cluster: Cluster, job: Job, nodes: IntArray) -> str:
    """The name of the node of rank 0."""
    return cluster.names[nodes[job.grid.node_rank == 0].item()]


DEGREES = ({"dp": 4, "pp": 3}, {"dp": 8, "ep": 4}, {"cp": 2, "dp": 3, "pp": 2}, {"tp": 16, "dp": 3, "pp": 2})


@pytest.mark.parametrize("degrees", DEGREES)
def test_the_dimensions_of_megatron_nest(degrees: dict[str, int]) -> None:
    """Data, pipeline, context, expert parallel jobs, TP groups of two nodes: rank 0 is where the batch script runs."""
    cluster = cluster_of([(7 * i + 3) % 24 for i in range(24)])
    job = Job("j", Parallelism(**{"tp": 8, **degrees}), level="minipod")
    outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits(seconds=5, workers=1))
    nodes = outcome.proposal.nodes
    assert nodes is not None
    assert host(cluster, job, nodes) == min((cluster.names[node] for node in nodes.ravel()), key=natural)


def test_a_part_filled_last_node_may_be_any() -> None:
    """Five replicas of two GPUs fill two nodes of four and half of a third: each group has ranks on all or on one."""
    job = Job("j", Parallelism(tp=2, dp=5), gpus_per_node=4, level="minipod")
    cluster = cluster_of([*reversed(range(24))])
    nodes = np.array([[0], [5], [9]], dtype=np.int32)  # n23, n18 and n14
    assert numbered_by_name(cluster, job, nodes).tolist() == [[9], [5], [0]]


def test_other_ranks_follow_by_name_too() -> None:
    """Six nodes of one minipod, three pipelines of two stages: ranks run down the columns as names do."""
    cluster = cluster_of([*range(24)])
    job = Job("j", Parallelism(tp=8, dp=3, pp=2), level="minipod")
    nodes = np.array([[4, 1], [5, 3], [0, 2]], dtype=np.int32)
    # of column 0 the rows begin with n4, n5, n0 and n1, n3, n2; the row of n0 comes first, then by the lesser name
    assert numbered_by_name(cluster, job, nodes).tolist() == [[0, 2], [4, 1], [5, 3]]


def test_stages_of_one_domain_are_neighbours() -> None:
    """Four stages in two minipods, whose names alternate: two hops of four stay, and one leaves."""
    cluster = cluster_of([0, 2, *range(4, 8), 1, 3, *range(8, 24)])
    job = Job("j", Parallelism(tp=8, pp=4), level="minipod")
    nodes = np.array([[0, 6, 1, 7]], dtype=np.int32)
    assert [cluster.names[node] for node in nodes[0]] == ["n0", "n1", "n2", "n3"]
    assert numbered_by_name(cluster, job, nodes).tolist() == [[0, 1, 6, 7]]


@pytest.mark.parametrize(
    "parallelism",
    [Parallelism(tp=2, ep=3, dp=12), Parallelism(tp=1, cp=3, ep=3, pp=8, dp=3, order="tp-cp-ep-pp-dp")],
    ids=["experts", "stages"],
)
def test_groups_that_share_nodes_with_their_neighbours_keep_their_ranks(parallelism: Parallelism) -> None:
    """Six ranks of experts, or three of a stage, on nodes of eight: three nodes are whole groups, one alone is not."""
    cluster = cluster_of([*reversed(range(24))])
    job = Job("j", parallelism, level="minipod")
    nodes = np.arange(job.grid.cells, dtype=np.int32).reshape(job.grid.rows, job.grid.columns)
    assert (numbered_by_name(cluster, job, nodes) == nodes).all()


def test_a_rule_of_others_keeps_its_ranks() -> None:
    """Which node has which rank is what a peer is compared by."""
    cluster = cluster_of([*reversed(range(24))])
    job = Job("j", Parallelism(tp=8, dp=4, pp=3), level="minipod")
    proposal = ALGORITHMS.load("gpu-packing").place(cluster, job, Limits(seconds=1))
    outcome = run(ALGORITHMS.load("gpu-packing"), cluster, job, Limits(seconds=1))
    assert proposal.nodes is not None
    assert outcome.proposal.nodes is not None
    assert outcome.proposal.nodes.tolist() == proposal.nodes.tolist()
