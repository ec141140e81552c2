"""Jobs that leave the GPUs of a node to the cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidJob
from ground.files import Source
from scheduler.algorithm_run import run
from scheduler.explanation import nodes_to_free
from scheduler.job import Job, NodeSize, Parallelism
from scheduler.job_files.job_file import JobFile, job_document, load_job
from scheduler.outcome import Instance
from scheduler.placement.admission import choices, shortage
from scheduler.placement.types import ALGORITHMS, Limits
from tests.case_counts import examples
from tests.facts import saying, says
from topology.build import build_cluster
from topology.cluster import Cluster, Node


def cluster_of(*kinds: tuple[str, int, int]) -> Cluster:
    """Some nodes of each kind: type, GPUs of a node, how many; a rack for each kind."""
    rows = [
        Node(f"{name or 'plain'}-{gpus}-{i}", (f"{name}-{gpus}",), gpus, gpus, gpu_type=name)
        for name, gpus, count in kinds
        for i in range(count)
    ]
    return build_cluster(["rack"], rows)


def read(text: str, cluster: Cluster | None = None, **more: int) -> JobFile:
    """Read a job that is to go to a cluster."""
    return load_job(Source("job.yaml", text), cluster=cluster, **more)


SMALL = "parallelism: {tp: 4, dp: 4}"


@pytest.mark.parametrize("gpus", [1, 4, 8, 16])
def test_a_job_takes_what_the_nodes_have(gpus: int) -> None:
    """16 GPUs on nodes of any size, and a note that says which; as if the job had said it."""
    text = "parallelism: {dp: 16}"
    cluster = cluster_of(("", gpus, 16))
    found = read(text, cluster)
    assert found.job == read(f"{text}\ngpus_per_node: {gpus}", cluster).job
    assert says(found.notes, f"gpus_per_node {gpus}")


def test_what_the_job_says_counts_before_the_nodes() -> None:
    """Nodes of two sizes are no trouble then, and there is no note; without a cluster 8 is taken, or what is known."""
    found = read(f"gpus_per_node: 4\n{SMALL}", cluster_of(("", 4, 4), ("", 8, 9)))
    assert found.job.gpus_per_node == 4
    assert not any("gpus_per_node" in note for note in found.notes)
    assert read(SMALL).job.gpus_per_node == 8
    assert read(SMALL, gpus_per_node=4).job.gpus_per_node == 4


def test_nodes_of_one_type_that_differ_are_refused() -> None:
    """Which of the two is meant is not guessed; the message counts them."""
    with pytest.raises(InvalidJob, match=saying("3 with 4", "2 with 8")) as caught:
        read(SMALL, cluster_of(("", 4, 3), ("", 8, 2)))
    assert caught.value.where.startswith("job.yaml")
    assert "gpus_per_node: 4" in caught.value.fix
    with pytest.raises(InvalidJob, match=saying("the type H100")):
        read(SMALL, cluster_of(("H100", 4, 3), ("H100", 8, 2), ("H200", 8, 4)))
    # a type that the job does not admit may be as mixed as it likes
    only = read(f"{SMALL}\ngpu_types: [H200]", cluster_of(("H100", 4, 3), ("H100", 8, 2), ("H200", 8, 4)))
    assert only.job.gpus_per_node == 8


def test_each_type_has_its_own_size() -> None:
    """16 GPUs are four nodes of GB200 or two of H200, and one solve answers for each."""
    cluster = cluster_of(("GB200", 4, 4), ("H200", 8, 1))
    job = read(SMALL, cluster).job
    assert {one.gpu_types: one.grid.cells for one in choices(cluster, job)} == {("GB200",): 4, ("H200",): 2}
    assert shortage(cluster, job) == ""
    outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits())
    assert (outcome.status, outcome.objective, outcome.gpus_per_node) == ("optimal", 1.0, 4)
    assert {one.gpu_types: one.nodes for one in outcome.types} == {("GB200",): 4, ("H200",): 1}
    settled = Instance(cluster, job).settled(outcome)
    assert job_document(settled).gpus_per_node == 4
    assert settled.job.grid.cells == 4


def test_what_fits_no_type_says_so_for_each() -> None:
    """Neither three nodes of 4 GPUs nor one of 8 hold 16."""
    cluster = cluster_of(("GB200", 4, 3), ("H200", 8, 1))
    job = read(SMALL, cluster).job
    short = shortage(cluster, job)
    assert says(short, "4 free nodes of 4 GPUs of the type GB200")
    assert says(short, "2 free nodes of 8 GPUs of the type H200")
    outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits())
    assert (outcome.status, outcome.reason) == ("infeasible", short)


def test_types_that_a_job_cannot_be_cut_into_are_left_out_unless_it_names_them() -> None:
    """TP groups of 8 go into no number of nodes of 3; a job that names that type wants to know."""
    found = read("parallelism: {tp: 8, cp: 1, dp: 2, pp: 3}", cluster_of(("odd", 3, 32), ("H200", 8, 6)))
    assert (found.job.gpu_types, found.job.gpus_per_node, found.job.node_sizes) == (("H200",), 8, ())
    assert says(found.notes, "left out", "odd")
    with pytest.raises(InvalidJob):
        read("parallelism: {tp: 8, dp: 2, pp: 3}\ngpu_types: [odd]", cluster_of(("odd", 3, 32), ("H200", 8, 6)))


def test_mixed_nodes_are_of_one_size() -> None:
    """A gang that may mix types has nodes of one size all the same."""
    cluster = cluster_of(("GB200", 4, 4), ("H100", 8, 1), ("H200", 8, 1))
    job = read(f"{SMALL}\ngpu_types: any", cluster).job
    several = [one for one in choices(cluster, job) if len(one.gpu_types or ()) > 1]
    assert [(one.gpu_types, one.gpus_per_node) for one in several] == [(("H100", "H200"), 8)]


SIZES = (NodeSize("", 8), NodeSize("", 4))


def test_nodes_of_one_type_may_be_of_several_sizes_where_each_may_be_tried() -> None:
    """16 GPUs are two nodes of 8 or four of 4, never some of both; the best of both is proved best."""
    job = Job("job", Parallelism(tp=4, dp=4), gpus_per_node=8, node_sizes=SIZES)
    cluster = cluster_of(("", 8, 1), ("", 4, 4))
    assert [(one.gpu_types, one.gpus_per_node) for one in choices(cluster, job)] == [(("",), 8), (("",), 4)]
    outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits())
    assert (outcome.status, outcome.objective, outcome.gpus_per_node) == ("optimal", 1.0, 4)
    short = shortage(cluster_of(("", 8, 1), ("", 4, 3)), job)
    assert says(short, "2 free nodes of 8 GPUs, the cluster has 1 of 4", "3 with another number of GPUs")
    assert says(short, "4 free nodes of 4 GPUs, the cluster has 3 of 4", "1 with another number of GPUs")


def test_fewest_nodes_to_free_are_those_of_one_size() -> None:
    """One node of 8 GPUs, or three of 4."""
    cluster = cluster_of(("", 8, 2), ("", 4, 4)).with_busy([0, 2, 3, 4])
    job = Job("job", Parallelism(tp=4, dp=4), gpus_per_node=8, node_sizes=SIZES)
    assert nodes_to_free(cluster, job).tolist() == [0]
    assert nodes_to_free(cluster, job.replace(mix_types=True)).tolist() == [0]


@given(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5), st.booleans())
@examples(60)
def test_a_size_is_found_where_one_has_room(eights: int, fours: int, other: int, mix: bool) -> None:
    """For any cluster: a placement exactly where some size has the nodes, of one type unless it may mix them."""
    job = Job("job", Parallelism(tp=4, dp=4), gpus_per_node=8, mix_types=mix)
    job = job.replace(node_sizes=(NodeSize("A", 8), NodeSize("A", 4), NodeSize("B", 4)))
    cluster = cluster_of(("A", 8, eights + 1), ("A", 4, fours + 1), ("B", 4, other + 1)).with_busy(
        [0, eights + 1, eights + fours + 2]
    )
    outcome = run(ALGORITHMS.load("exact"), cluster, job, Limits())
    possible = eights >= 2 or max(fours, other) >= 4 or (mix and fours + other >= 4)
    assert (outcome.evaluation is not None) is possible
    if outcome.proposal.nodes is not None:
        assert set(cluster.gpus[outcome.proposal.nodes.ravel()].tolist()) == {outcome.gpus_per_node}
