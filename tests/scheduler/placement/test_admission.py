"""Which nodes a gang may use."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.job import Job, Parallelism
from scheduler.placement.admission import admissible, held_nodes, shortage
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node


@pytest.fixture
def cluster() -> Cluster:
    """Six nodes, one of each kind: good, in use, partly in use, slow, faulty, small."""
    return build_cluster(
        ["minipod"],
        [
            Node("good", ("m0",), 8, 8),
            Node("used", ("m0",), 8, 0),
            Node("part", ("m0",), 8, 4),
            Node("slow", ("m1",), 8, 8, 1.3),
            Node("dead", ("m1",), 8, 8, inf),
            Node("small", ("m1",), 4, 4),
        ],
    )


def job(avoid: str = "price", dp: int = 2) -> Job:
    """A job of ``dp`` cells."""
    return Job("job", Parallelism(tp=8, dp=dp), avoid=avoid)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("avoid", "expected"), [("strict", ["good"]), ("price", ["good", "slow"]), ("ignore", ["good", "slow"])]
)
def test_admissible_by_avoid(cluster: Cluster, avoid: str, expected: list[str]) -> None:
    """Only idle nodes of the right size that are not faulty; slow ones unless the job is strict."""
    admitted = admissible(cluster, job(avoid))
    assert [name for name, ok in zip(cluster.names, admitted, strict=True) if ok] == expected


def test_slowest_narrows_what_price_admits(cluster: Cluster) -> None:
    """``slowest`` overrides the job: 1.2 leaves out the node slowed by 1.3, ``inf`` still leaves out the faulty one."""
    assert admissible(cluster, job(), slowest=1.2).sum() == 1
    assert admissible(cluster, job("strict"), slowest=inf).sum() == 2


def test_shared_gpus_are_for_no_gang(cluster: Cluster) -> None:
    """Neither healthy and empty nor emptied: the reason names how they are shared, and clean nodes are admitted."""
    shared = cluster.with_sharing({0: "time-slicing x4"})
    assert not admissible(shared, job())[0]
    assert not admissible(shared.emptied(), job())[0]
    assert admissible(shared, job())[1:].tolist() == admissible(cluster, job())[1:].tolist()
    assert "1 with shared GPUs: time-slicing x4" in shortage(shared, job(dp=9))
    none = cluster.with_sharing(dict.fromkeys(range(len(cluster)), "MIG 1g.10gb"))
    assert "with shared GPUs: MIG 1g.10gb" in shortage(none, job())
    assert not none.usable_gpus.any()


def test_no_shortage_when_cells_equal_admissible_nodes(cluster: Cluster) -> None:
    """Two cells fit on the two nodes admitted under price."""
    assert shortage(cluster, job(dp=2)) == ""


def test_shortage_says_what_holds_every_other_node(cluster: Cluster) -> None:
    """The sentence counts each node once, under the first reason that excludes it."""
    reason = shortage(cluster, job("strict", dp=2))
    assert says(reason, "2 free nodes of 8 GPUs", "1 of 6")
    assert says(reason, "1 with another number of GPUs", "1 faulty", "2 in use", "1 flagged", "avoid: strict")


@pytest.mark.parametrize("gpus", [4, 16])
def test_a_job_that_asks_for_no_whole_node_is_told_so(gpus: int) -> None:
    """On nodes of 8 GPUs, pods of 4 fit in number and pods of 16 do not: neither is a whole node."""
    nodes = build_cluster(["rack"], [Node("a", ("r",), 8, 8), Node("b", ("r",), 8, 8)])
    reason = shortage(nodes, Job("job", Parallelism(tp=gpus, dp=1), gpus_per_node=gpus))
    assert says(reason, f"1 free nodes of {gpus} GPUs", "0 of 2", "2 with another number of GPUs", "whole nodes")


@given(
    states=st.lists(
        st.tuples(
            st.sampled_from([(8, 8), (8, 0), (8, 4), (4, 4)]),
            st.sampled_from([1.0, 1.3, inf]),
            st.sampled_from(["", "H100", "A100"]),
            st.sampled_from(["", "of another partition"]),
            st.sampled_from(["", "MIG 1g.10gb"]),
        ),
        min_size=1,
        max_size=12,
    ),
    avoid=st.sampled_from(["price", "strict"]),
    gpu_types=st.sampled_from([None, ("H100",)]),
)
def test_every_node_that_is_passed_over_is_counted_once(
    states: list[tuple[tuple[int, int], float, str, str, str]], avoid: str, gpu_types: tuple[str, ...] | None
) -> None:
    """Whatever holds a node, and however many things at once, what is told adds up to all that are not admitted."""
    nodes = [
        Node(f"n{i}", ("m",), *gpus, slowdown, gpu_type) for i, (gpus, slowdown, gpu_type, *_) in enumerate(states)
    ]
    kept_out = {i: why for i, (*_, why, _) in enumerate(states) if why}
    sharing = {i: how for i, (*_, how) in enumerate(states) if how}
    cluster = build_cluster(["minipod"], nodes).with_kept_out(kept_out).with_sharing(sharing)
    asked = job(avoid).replace(gpu_types=gpu_types)
    assert sum(held_nodes(cluster, asked).values()) == len(cluster) - admissible(cluster, asked).sum()
