"""From a cluster and a job to the grid problem."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.job import Hold, Job, Parallelism
from scheduler.placement.exact.problem import GridProblem, GridReduction
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.flags import FAULTY


@pytest.fixture
def cluster() -> Cluster:
    """m0: racks of 2 and 3, one node slow; m1: racks of 4 and 1, one busy; m2: a faulty and a small node; m3: three."""
    states = [
        *[("m0", "m0r0", 8, 8, 1.0)] * 2,
        *[("m0", "m0r1", 8, 8, 1.0)] * 2,
        ("m0", "m0r1", 8, 8, 1.4),
        *[("m1", "m1r0", 8, 8, 1.0)] * 4,
        ("m1", "m1r1", 8, 4, 1.0),
        ("m2", "m2r0", 8, 8, FAULTY),
        ("m2", "m2r0", 4, 4, 1.0),
        *[("m3", "m3r0", 8, 8, 1.0)] * 3,
    ]
    nodes = [Node(f"n{i}", (pod, rack), gpus, free, slow) for i, (pod, rack, gpus, free, slow) in enumerate(states)]
    return build_cluster(["minipod", "rack"], nodes)


@pytest.mark.parametrize(
    ("slowest", "level", "capacities", "domains"),
    [
        (1.4, "minipod", (5, 4, 3), [0, 1, 3]),
        (1.0, "minipod", (4, 4, 3), [0, 1, 3]),
        (1.0, "rack", (4, 3, 2, 2), [2, 5, 0, 1]),
    ],
)
def test_domains_with_room_the_roomiest_first(
    cluster: Cluster, slowest: float, level: str, capacities: tuple[int, ...], domains: list[int]
) -> None:
    """Busy, faulty and small nodes are no room, slow ones only where they are admitted; equals stay in order."""
    reduction = GridReduction(cluster, Job("job", Parallelism(tp=8, dp=2, pp=3), level=level), slowest)
    assert reduction.problem == GridProblem(2, 3, capacities)
    assert reduction.domains.tolist() == domains
    assert reduction.refusal == ""


def test_blocks_take_whole_room(cluster: Cluster) -> None:
    """Expert groups of 2 inside a rack: racks of 2 and 3 take one each, m1 two, m3 one; 8 rows make 4 blocks."""
    job = Job("job", Parallelism(tp=8, dp=8, ep=2), level="minipod", holds=(Hold("ep", "rack"),))
    reduction = GridReduction(cluster, job, 1.4)
    assert reduction.problem == GridProblem(4, 1, (2, 2, 1))
    # one part of two blocks, two of one: the cells of a block lie in one domain, each part in a domain of its own
    cells = reduction.domain_of_cell(np.array([[0], [0], [1], [2]], dtype=np.int32)).ravel().tolist()
    assert cells[::2] == cells[1::2]
    assert cells[:2] == cells[2:4]
    assert sorted(cells) == [0] * 2 + [1] * 4 + [3] * 2 or sorted(cells) == [0] * 4 + [1] * 2 + [3] * 2


def test_healthy_nodes_are_counted_by_domain(cluster: Cluster) -> None:
    """Whatever is admitted besides."""
    assert GridReduction(cluster, Job("job", Parallelism(tp=8), level="minipod"), 1.4).healthy.tolist() == [4, 4, 0, 3]


@pytest.mark.parametrize(
    ("job", "slowest", "reason"),
    [
        (
            Job("job", Parallelism(tp=8, dp=13)),
            1.4,
            "the job needs 13 free nodes of 8 GPUs, the cluster has 12 of 15 "
            "(1 with another number of GPUs, 1 faulty, 1 in use)",
        ),
        (Job("job", Parallelism(tp=8, dp=12)), 1.0, "the job needs 12 free nodes, and 11 are no slower than 1"),
        (
            Job("job", Parallelism(tp=8, dp=4, pp=3), holds=(Hold("pp", "rack"),)),
            1.4,
            "holding every pp group inside one rack makes 4 blocks of 3 nodes, "
            "and the free nodes have room for 3 such blocks",
        ),
    ],
)
def test_refusals(cluster: Cluster, job: Job, slowest: float, reason: str) -> None:
    """Too few nodes at all; too few that are fast enough; enough, but not together."""
    assert GridReduction(cluster, job, slowest).refusal == reason


def test_nodes_are_read_back_as_blocks(cluster: Cluster) -> None:
    """Expert groups of 2: each of the four blocks is where its first node is."""
    job = Job("job", Parallelism(tp=8, dp=8, ep=2), level="minipod", holds=(Hold("ep", "rack"),))
    reduction = GridReduction(cluster, job, 1.4)
    nodes = np.array([[0], [1], [2], [3], [5], [6], [12], [13]], dtype=np.int32)
    domains = reduction.domains[reduction.part_of_block(nodes)]
    assert cluster.levels[0].domain_of[nodes[::2]].tolist() == domains.tolist()
    assert reduction.part_of_block(nodes).shape == (4, 1)
