"""Trace and cluster disagree: said before the run."""

from __future__ import annotations

import numpy as np
import pytest

from ground.errors import InvalidTopology, TraceFormatError
from scheduler.job import Parallelism
from simulator.job_record import JobRecord
from simulator.replay import check_against
from simulator.traces import JobTrace
from tests.facts import saying
from tests.simulator.runs import placed
from topology.cluster import Cluster
from topology.generate import minipods

CLUSTER = minipods(minipods=2, nodes=8)
"""8 nodes of 8 GPUs."""


def job(name: str, gpus: float, nodes: int | None = None, parallelism: Parallelism | None = None) -> JobRecord:
    """A job of some size."""
    return JobRecord(name, 0.0, 1.0, gpus, nodes, parallelism=parallelism)


def with_free(cluster: Cluster, free: list[int]) -> Cluster:
    """The cluster with other numbers of free GPUs."""
    return cluster.replace(free_gpus=np.array(free, dtype=np.int32))


def fitting(trace: JobTrace, cluster: Cluster, *, lenient: bool = False) -> JobTrace:
    """The trace, checked against the nodes of a cluster."""
    return check_against(trace, placed(cluster), nodes=len(cluster), lenient=lenient)


def test_jobs_that_fit_pass() -> None:
    """The whole cluster, a share of a GPU, 12 GPUs as 6 + 6: the same trace comes back."""
    trace = JobTrace((job("all", 64), job("share", 0.5), job("uneven", 12), job("stated", 16, 4)))
    assert fitting(trace, CLUSTER) is trace


TOO_MANY = job("many", 72)
TOO_WIDE = job("wide", 64, 4)
UNCUT = job("uncut", 24, None, Parallelism(tp=3, dp=8))
TOO_LONG = job("long", 9, 9)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (TOO_MANY, r"job many needs 72 GPUs \(9 nodes with 8 each\), and the cluster has 8 such nodes"),
        (TOO_WIDE, "job wide asks for 16 GPUs on each of 4 nodes"),
        (UNCUT, "tensor-parallel groups of 3 GPUs neither divide a node of 8 GPUs nor fill whole nodes"),
        (TOO_LONG, r"job long needs 9 GPUs \(9 nodes with 1 each\)"),
    ],
)
def test_jobs_that_do_not_fit(record: JobRecord, message: str) -> None:
    """Strict: an error with name and reason.  Lenient: dropped and counted."""
    trace = JobTrace((job("small", 1), record), source="t.csv")
    with pytest.raises(TraceFormatError, match=message) as error:
        fitting(trace, CLUSTER)
    assert error.value.where == "t.csv"
    assert "--lenient" in error.value.fix
    kept = fitting(trace, CLUSTER, lenient=True)
    assert [one.job_id for one in kept.records] == ["small"]
    assert kept.dropped == {"larger than the cluster": 1}


def test_many_are_counted_and_three_are_named() -> None:
    """An error of thousands of jobs stays readable."""
    trace = JobTrace(tuple(job(f"j{i}", 100) for i in range(1000)))
    with pytest.raises(TraceFormatError, match=saying("1,000 jobs", "997 more")) as error:
        fitting(trace, CLUSTER)
    assert error.value.message.count("needs 100 GPUs") == 3
    with pytest.raises(TraceFormatError, match="1,000 jobs"):
        fitting(trace, CLUSTER, lenient=True)


def test_busy_nodes_do_not_count() -> None:
    """Of two nodes with 4 free GPUs each, none takes a job of 8, and one takes a job of 4."""
    cluster = with_free(CLUSTER, [4, 4, 0, 0, 0, 0, 0, 0])
    assert len(fitting(JobTrace((job("a", 4), job("b", 8, 2))), cluster)) == 2
    with pytest.raises(TraceFormatError, match="job c needs 8 GPUs"):
        fitting(JobTrace((job("c", 8),)), cluster)


def test_a_cluster_without_a_usable_node() -> None:
    """All busy: the trace is not to blame."""
    with pytest.raises(InvalidTopology, match=saying("8 nodes")):
        fitting(JobTrace((job("a", 1),)), with_free(CLUSTER, [0] * 8), lenient=True)
