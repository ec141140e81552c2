"""Nodes that a job may not have though nothing is wrong with them, and how many nodes it may have at all."""

from __future__ import annotations

import numpy as np
import pytest

from ground.errors import Infeasible, InvalidPlacement
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.objective import evaluate
from scheduler.placement.admission import shortage
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.repair import repair
from tests.facts import says
from topology.build import build_cluster
from topology.cluster import Cluster, Node, NodeLimit, State, node_states
from topology.flags import FAULTY
from topology.summary import text_tree
from topology.writers import ClusterCsvWriter

WHY = "not in the partition batch"


def racks() -> Cluster:
    """Two racks of two nodes; n1 is kept out, n2 in use, n3 faulty and kept out as well, n4 free."""
    rows = [
        Node("n1", ("a",), 8, 8),
        Node("n2", ("a",), 8, 0),
        Node("n3", ("b",), 8, 8, FAULTY),
        Node("n4", ("b",), 8, 8),
    ]
    return build_cluster(["rack"], rows).with_kept_out({0: WHY, 2: WHY})


def job(dp: int) -> Job:
    """A job of so many nodes."""
    return Job("j", Parallelism(tp=8, dp=dp), gpus_per_node=8)


def test_a_node_that_is_kept_out_is_not_free() -> None:
    """Of four nodes n4 alone is; emptied, n2 too, but neither the one kept out nor the faulty one."""
    cluster = racks()
    assert (cluster.idle.tolist(), cluster.usable_gpus.tolist()) == ([False, False, False, True], [0, 0, 0, 8])
    assert cluster.emptied().idle.tolist() == [False, True, False, True]
    assert (cluster.node("n1").free, cluster.node("n1").kept_out, cluster.node("n4").free) == (False, WHY, True)


def test_what_keeps_a_node_out_goes_with_it() -> None:
    """In a part of the cluster it has another number; the first of two reasons stays; a running job is excused."""
    part = racks().subset(np.array([0, 3], dtype=np.int32))
    assert (part.names, dict(part.kept_out)) == (("n1", "n4"), {0: WHY})
    assert dict(part.with_kept_out({0: "excluded", 1: "excluded"}).kept_out) == {0: WHY, 1: "excluded"}
    assert part.excused({0}).idle.tolist() == [True, True]


def test_it_is_drawn_apart_from_faulty_and_busy_nodes() -> None:
    """A faulty node is faulty first."""
    states = [State.KEPT_OUT, State.BUSY, State.FAULTY, State.FREE]
    assert node_states(racks()).tolist() == states
    assert "kept out" in text_tree(racks()).splitlines()[0]


def test_the_csv_calls_it_faulty_and_says_so() -> None:
    """The CSV has no other word for never use."""
    rendering = ClusterCsvWriter().write(racks())
    assert [row.split(",")[-1] for row in rendering.text.splitlines()[1:]] == ["faulty", "", "faulty", ""]
    assert any("kept out" in note and note.endswith(": 2") for note in rendering.notes)


def test_too_few_nodes_are_told_by_why() -> None:
    """Two nodes are needed and one is free: one is kept out, one faulty, one in use."""
    reason = shortage(racks(), job(2))
    assert reason.endswith(f"the cluster has 1 of 4 (1 faulty, 1 {WHY}, 1 in use)")


def test_a_repair_says_why_nodes_are_no_spares() -> None:
    """n4 is lost, and of the others n1 is kept out, n2 in use, n3 faulty before it is kept out."""
    with pytest.raises(Infeasible) as caught:
        repair(racks(), job(1), np.array([[3]], dtype=np.int32), ["n4"], prefer="moves", limits=Limits(seconds=5))
    assert says(caught.value.message, "spare nodes of 8 GPUs left: 0", "1 in use", "1 faulty", f"1 {WHY}")


def test_no_placement_has_a_node_that_is_kept_out() -> None:
    """The one evaluator refuses it with the reason."""
    with pytest.raises(InvalidPlacement, match=WHY):
        evaluate(racks(), job(1), np.array([[0]], dtype=np.int32))


@pytest.mark.parametrize("algorithm", ALGORITHMS.names(inside="scheduler"))
def test_a_job_may_have_no_more_nodes_than_the_limit(algorithm: str) -> None:
    """Of four free nodes a job may have two: one of three does not fit whoever places it, one of two does."""
    cluster = build_cluster(["rack"], [Node(f"n{i}", ("a",), 8, 8) for i in range(4)])
    cluster = cluster.replace(node_limit=NodeLimit(2, "MaxNodes of the partition debug"))
    placed = run(ALGORITHMS.load(algorithm), cluster, job(3), Limits(seconds=5))
    assert placed.status == "infeasible"
    assert says(placed.reason, "3 nodes", "2", "MaxNodes", "debug")
    assert run(ALGORITHMS.load(algorithm), cluster, job(2), Limits(seconds=5)).evaluation is not None
