"""Pods that share nodes: which node each goes to, and which nodes a gang could have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.gangs.assembly import assemble
from extender.gangs.job import nodes_needed, nodes_of_pods, on_nodes, pod_count, ranks_by_node
from extender.gangs.recognise import recognise
from extender.gangs.types import Gang, InvalidGang
from extender.plans.gang_plan import GangPlan
from scheduler.job import Hold, Job, NodeSize, Parallelism
from tests.case_counts import examples
from tests.extender.things import RACK, gang_pods, key
from tests.facts import saying, says

SIZES = st.sampled_from([(1, 8), (2, 8), (4, 8), (8, 8), (4, 12), (1, 16), (4, 4)])


@given(st.integers(1, 60), SIZES)
@examples(100)
def test_ranks_fill_nodes_in_turn(pods: int, sizes: tuple[int, int]) -> None:
    """Pod k of g GPUs is on the node of node rank k * g // G, and only the last node has fewer pods than it could."""
    gpus, of_node = sizes
    each = of_node // gpus
    names = [f"n{i}" for i in range(nodes_needed(pods, each))]
    assert len(names) == -(-pods * gpus // of_node)
    where = nodes_of_pods(names, pods, each)
    assert where == tuple(f"n{rank * gpus // of_node}" for rank in range(pods))
    plan = GangPlan(key("g"), nodes=where, pods_per_node=each)
    assert plan.nodes_by_rank == plan.node_names == tuple(names)
    groups = list(ranks_by_node(pods, each))
    assert [rank for ranks in groups for rank in ranks] == list(range(pods))
    assert [{where[rank] for rank in ranks} for ranks in groups] == [{name} for name in names]
    assert {len(ranks) for ranks in groups[:-1]} <= {each}


DEGREES = st.builds(
    Parallelism,
    tp=st.sampled_from([1, 2, 4, 8, 16]),
    dp=st.integers(1, 6),
    pp=st.integers(1, 4),
    order=st.sampled_from(["tp-cp-ep-dp-pp", "tp-pp-cp-ep-dp", "tp-cp-ep-pp-dp"]),
) | st.builds(Parallelism, tp=st.sampled_from([1, 2, 4]), cp=st.just(2), dp=st.integers(1, 6), pp=st.integers(1, 4))


@given(DEGREES, st.sampled_from([1, 2, 4, 8]))
@examples(200)
def test_a_gang_has_as_many_pods_as_its_ranks_fill(degrees: Parallelism, gpus: int) -> None:
    """On nodes as large as pods, that is one for each cell; and pods that share nodes fill the cells of larger ones."""
    job = Job("team/g", degrees, gpus_per_node=gpus)
    assert pod_count(degrees, gpus) == job.grid.cells
    assert nodes_needed(pod_count(degrees, gpus), 8 // gpus) == degrees.grid(8).cells


def gang(size: int, gpus: int, notes: dict[str, str] | None = None) -> Gang:
    """A gang of pods with so many GPUs each."""
    members = [recognise(one, {}) for one in gang_pods("g", size, notes, gpus=gpus)]
    return assemble(key("g"), [member for member in members if member is not None])


def degrees_of(text: str, order: str | None = None) -> dict[str, str]:
    """Annotations that say how a job is cut."""
    return {"arnold.dev/parallelism": text} | ({} if order is None else {"arnold.dev/order": order})


def test_degrees_are_in_gpus_whatever_the_pods() -> None:
    """tp=8, dp=2, pp=2 are 32 GPUs: 4 pods of 8, 8 of 4, 32 of 1."""
    for gpus in (8, 4, 1):
        found = gang(32 // gpus, gpus, degrees_of("tp=8,dp=2,pp=2"))
        assert (found.problem, found.size, found.complete) == (None, 32 // gpus, True)
        assert found.job is not None
        assert on_nodes(found.job, (NodeSize("", 8),)).grid.cells == 4


def test_the_size_is_told_in_pods() -> None:
    """Of 4 GPUs each there are eight."""
    found = gang(7, 4, degrees_of("tp=8,dp=2,pp=2"))
    assert found.problem is not None
    assert found.problem.reason == "SizeContradictsParallelism"
    assert says(found.problem.message, "7", "arnold.dev/parallelism", "4 GPUs", "8 pods")


def test_without_degrees_it_is_one_group_over_its_nodes() -> None:
    """Five pods of 4 GPUs are one data-parallel group: on nodes of 8 that is one column of three."""
    found = gang(5, 4)
    assert found.job is not None
    job = on_nodes(found.job, (NodeSize("", 8),))
    assert (job.grid.rows, job.grid.columns, job.parallelism.gpus) == (3, 1, 20)
    assert set(job.grid.groups["dp"].group.tolist()) == {0}


def test_degrees_may_cut_into_nodes_and_not_into_pods() -> None:
    """A TP group of 4 with its ranks two apart fills a node of 8 and no pod of 4; one of 3 fills no node at all."""
    found = gang(4, 4, degrees_of("tp=4,cp=2,dp=2", "cp-tp-ep-dp-pp"))
    assert (found.problem, found.size) == (None, 4)
    assert found.job is not None
    assert on_nodes(found.job, (NodeSize("", 8),)).grid.cells == 2
    with pytest.raises(InvalidGang, match=saying("4 GPUs", "2 apart")) as caught:
        on_nodes(found.job, (NodeSize("", 4),))
    assert (caught.value.reason, bool(caught.value.fix)) == ("InvalidParallelism", True)
    never = gang(6, 4, degrees_of("tp=3,dp=8"))
    assert never.problem is not None
    assert (never.problem.reason, never.problem.where) == ("InvalidParallelism", "arnold.dev/parallelism")


def test_what_peers_require_is_about_ranks_of_pods() -> None:
    """Slices of four consecutive pods are the data-parallel groups of a gang without degrees, on whatever nodes."""
    slices = {"kueue.x-k8s.io/podset-slice-required-topology": RACK, "kueue.x-k8s.io/podset-slice-size": "4"}
    found = gang(8, 4, slices)
    assert found.job is not None
    assert found.job.holds == (Hold("dp", RACK),)
    job = on_nodes(found.job, (NodeSize("", 8),))
    assert (job.grid.rows, job.grid.columns) == (2, 2)
    whole = gang(8, 4, {"kueue.x-k8s.io/podset-required-topology": RACK})
    assert whole.job is not None
    assert {hold.family for hold in whole.job.holds} == {"dp", "pp"}


# Nodes that differ


def job_of(gpus: int, text: str = "tp=4,dp=4", gpu_types: tuple[str, ...] | None = None) -> Job:
    """A job of pods of so many GPUs."""
    degrees = Parallelism(**{name: int(number) for name, number in (part.split("=") for part in text.split(","))})
    return Job("team/g", degrees, gpus_per_node=gpus, gpu_types=gpu_types)


def test_each_size_that_pods_fill_is_tried() -> None:
    """Nodes of 4, 8 and 6 GPUs: pods of 4 fill the first two; the usual one stands for it in the queue."""
    sizes = (NodeSize("H100", 8), NodeSize("", 4), NodeSize("L4", 6))
    job = on_nodes(job_of(4), sizes)
    assert (job.gpus_per_node, job.node_sizes) == (8, sizes[:2])
    assert on_nodes(job_of(4, gpu_types=("",)), sizes).gpus_per_node == 4
    assert on_nodes(job_of(8, "tp=8,dp=4"), sizes).node_sizes == ()
    # tp=8 over two nodes of 4, or inside one of 8; dp=3 of tp=4 fills 8s in part
    assert on_nodes(job_of(4, "tp=8,dp=3"), sizes).node_sizes == sizes[:2]


def test_sizes_into_which_the_degrees_do_not_cut_are_left_out() -> None:
    """tp=6 fills nodes of 6 and of 12, and none of 8."""
    sizes = (NodeSize("", 8), NodeSize("", 12), NodeSize("", 6))
    job = on_nodes(job_of(2, "tp=6,dp=4"), sizes)
    assert (job.gpus_per_node, job.node_sizes) == (12, sizes[1:])


@pytest.mark.parametrize("gpus", [3, 16])
def test_pods_that_fill_no_node(gpus: int) -> None:
    """Three of 8 GPUs leave a rest on every node, and 16 are more than a node has: what, where and what would do."""
    with pytest.raises(InvalidGang) as caught:
        on_nodes(job_of(gpus, "dp=48"), (NodeSize("", 8),))
    error = caught.value
    assert (error.reason, error.where) == ("PodsDoNotFillNodes", "the GPUs in the resources of its pods")
    assert says(error.message, f"{gpus} GPUs")
    assert "the nodes have 8" in error.message
    assert error.fix.endswith(": 1, 2, 4, 8")


def test_without_nodes_nothing_is_decided() -> None:
    """Of no type, or none at all: the job stays as it is, and whoever looks for room says why there is none."""
    assert on_nodes(job_of(4), ()) == job_of(4)
    named = job_of(4, gpu_types=("H200",))
    assert on_nodes(named, (NodeSize("H100", 8),)) == named
