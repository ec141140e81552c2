"""Several jobs where slow nodes have a price: what is claimed is of all nodes, and such nodes may be needed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scheduler.job import Hold, Job, Parallelism
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.types import Limits
from scheduler.several.together import SLOW_LEFT_OUT, JointOutcome, place_together
from topology.build import build_cluster
from topology.cluster import Cluster, Node

Row = tuple[str, str, float, int]  # minipod, rack, slowdown, free GPUs


def cluster_of(*rows: Row) -> Cluster:
    """Nodes of 8 GPUs."""
    nodes = [Node(f"n{i}", (pod, rack), 8, free, slow) for i, (pod, rack, slow, free) in enumerate(rows)]
    return build_cluster(["minipod", "rack"], nodes)


def together(cluster: Cluster, jobs: Sequence[Job], weights: Sequence[float]) -> JointOutcome:
    """The outcome, with time enough."""
    return place_together(cluster, jobs, weights, solver=Exact(), limits=Limits(seconds=10, workers=1))


def test_the_bound_of_the_sum_is_of_slow_nodes_too() -> None:
    """Two pipelines of two stages; each alone takes two healthy nodes of two racks, as a step with the pair of a rack,
    of which one is 1.3 times slower, is longer.  Then both cost 2, and 1 each with the slow nodes: at least 2 in all.
    """
    rows = [("m0", rack, slow, 8) for rack in ("a", "b", "c", "d") for slow in (1.0, 1.3)]
    jobs = [Job(name, Parallelism(tp=8, pp=2), alpha=0.0, level="rack") for name in "ab"]
    found = together(cluster_of(*rows), jobs, [1.0, 1.0])
    assert (found.status, found.objective, found.bound, found.gap) == ("optimal", 4.0, 2.0, 0.5)
    assert SLOW_LEFT_OUT in found.notes


def test_a_job_that_comes_to_slow_nodes_after_others() -> None:
    """Five nodes for five cells, two of them slow: whichever comes first leaves slow nodes to the other, which alone
    has none.
    """
    rows = [
        ("m0", "r1", 1.0, 8),
        ("m1", "r2", 1.05, 8),
        ("m0", "r1", 1.05, 8),
        ("m2", "r0", 1.0, 8),
        ("m0", "r3", 1.0, 8),
    ]
    jobs = [
        Job("square", Parallelism(tp=8, dp=2, pp=2), alpha=0.2, level="minipod"),
        Job("one", Parallelism(tp=8), alpha=0.3, level="minipod"),
    ]
    found = together(cluster_of(*rows), jobs, [0.5, 1.0])
    assert found.objective is not None
    # a square over two or three minipods: 0.5 * (0.2 * S + 0.8 * R) + 1, with three nodes of one minipod at best
    assert found.bound is not None
    assert found.bound <= found.objective


def test_what_is_left_out_is_least_on_slow_nodes_too() -> None:
    """Three, two and one node wanted, five free, two of them slow: without the second job, of weight 0.5, the others
    fit; on healthy nodes alone one of weight 2 would have to go.
    """
    rows = [("m0", "r1", 1.0, 8), ("m0", "r0", 1.3, 8), ("m0", "r0", 1.05, 8), ("m0", "r1", 1.0, 8)]
    rows += [("m1", "r2", 1.0, 8), ("m1", "r2", 1.0, 0)]
    jobs = [
        Job("three", Parallelism(tp=8, pp=3), alpha=0.3),
        Job("two", Parallelism(tp=8, pp=2), alpha=0.2, level="rack"),
        Job("one", Parallelism(tp=8), alpha=1.0, level="minipod", holds=(Hold("dp", "minipod"),)),
    ]
    found = together(cluster_of(*rows), jobs, [2.0, 0.5, 1.0])
    assert (found.status, found.left_out) == ("infeasible", (1,))


@pytest.mark.parametrize("avoid", ["strict", "ignore"])
def test_without_a_price_nothing_is_left_out_of_the_bound(avoid: str) -> None:
    """The first question again: on healthy nodes both cost 2, and 1 where slow ones are as good."""
    rows = [("m0", rack, slow, 8) for rack in ("a", "b", "c", "d") for slow in (1.0, 1.3)]
    jobs = [Job(name, Parallelism(tp=8, pp=2), alpha=0.0, level="rack", avoid=avoid) for name in "ab"]  # type: ignore[arg-type]
    found = together(cluster_of(*rows), jobs, [1.0, 1.0])
    least = 4.0 if avoid == "strict" else 2.0
    assert (found.status, found.objective, found.bound, found.notes) == ("optimal", least, least, ())
