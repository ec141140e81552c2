"""Throughputs of jobs by type of GPU: Gavel's JSON, the CSV, what is wrong with either, and what jobs have of them."""

from __future__ import annotations

import json

import pytest

from ground.errors import InvalidInput, TraceFormatError
from ground.files import Source
from scheduler.job import Speed
from simulator.job_record import JobRecord
from simulator.throughputs import Throughputs
from simulator.traces import JobTrace
from simulator.traces.throughput_files import read_throughputs, with_speeds
from tests.facts import saying
from topology.build import build_cluster
from topology.cluster import Cluster, Node

CSV = """\
model,gpus,gpu_type,throughput,unconsolidated
llm,8,H100,4.0,
llm,8,A100,2.0,
net,1,H100,10,
net,1,A100,8,
net,2,H100,20,15
net,2,A100,0,
"""

JSON = {
    "k80": {"('net', 1)": {"null": 1.0, "('net', 1)": [0.5, 0.5]}, "('net', 2)": {"null": 2.0}},
    "v100": {"('net', 1)": {"null": 4.0}, "('net', 2)": {"null": 8.0}},
    "v100_unconsolidated": {"('net', 1)": {"null": 4.0}, "('net', 2)": {"null": 6.0}},
}


def read(text: str) -> Throughputs:
    """The throughputs of a text."""
    return read_throughputs(Source("t", text))


def cluster_of(*types: str) -> Cluster:
    """A node of 8 GPUs of each type."""
    return build_cluster(["site"], [Node(name, ("s",), 8, 8, gpu_type=name) for name in types])


def test_a_csv() -> None:
    """Speeds are relative to the type of the first row; 0 means that the job does not run there."""
    known = read(CSV)
    assert known.reference == "H100"
    jobs = (
        JobRecord("a", 0, 1, 8, model="llm"),
        JobRecord("b", 0, 1, 2, model="net"),
        JobRecord("c", 0, 1, 3, model="net"),
    )
    a, b, c = with_speeds(JobTrace(jobs), known, cluster_of("H100", "A100", "L20")).records
    assert (a.gpu_types, a.speed) == (("H100", "A100"), (Speed("H100", 1.0), Speed("A100", 0.5)))
    assert (b.gpu_types, b.speed, b.speed_apart) == (("H100",), (Speed("H100", 1.0),), (Speed("H100", 0.75),))
    assert (c.speed, c.speed_on(["H100"], apart=True)) == (b.speed, 0.75)


def test_gavels_json() -> None:
    """Names of types are those of the cluster; pairs of jobs and single GPUs apart are not read; V100 is 1."""
    (job,) = with_speeds(
        JobTrace((JobRecord("a", 0, 1, 2, model="net"),)), read(json.dumps(JSON)), cluster_of("K80", "V100")
    ).records
    assert job.speed == (Speed("K80", 0.25), Speed("V100", 1.0))
    assert job.speed_apart == (Speed("V100", 0.75),)


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("model,gpus,type,throughput\nx,1,A,1\n", "t:1", "'gpu_type'"),
        (CSV.replace("unconsolidated", "unconsolidatd"), "t:1", "'unconsolidatd' is not known"),
        (CSV + "net,1,H100,3,\n", "t:8", "twice"),
        (CSV + "net,0,H100,3,\n", "t:8", "gpus is 0"),
        (CSV + "net,4,H100,-3,\n", "t:8", "-3"),
        (CSV + "net,4,H100,fast,\n", "t:8", "fast"),
        ("model,gpus,gpu_type,throughput\n", "t", "no throughputs"),
        ('{"k80": {\n"(\'net\', 1)": {"null": "much"}}}', "t:2", "much"),
        ('{"k80": {\n"net on one": {"null": 1.0}}}', "t:2", "net on one"),
        ('{"k80":\n 3}', "t:1", "'k80' has no kinds of jobs"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, where: str, says: str) -> None:
    """Each mistake names file and line, and what to do."""
    with pytest.raises(InvalidInput) as error:
        read(text)
    assert error.value.where == where
    assert says in error.value.message
    assert error.value.fix
    assert "--format" not in error.value.fix  # there is one format of such files


def test_jobs_without_throughputs() -> None:
    """Strict reading names the first; lenient reading leaves them out and counts them, if any is left."""
    trace = JobTrace((JobRecord("a", 0, 1, 8, model="llm"), JobRecord("b", 0, 1, 8, model="lm")), source="trace.csv")
    with pytest.raises(TraceFormatError, match=saying("job b", "no throughput", "'lm'")) as error:
        with_speeds(trace, read(CSV), cluster_of("H100"))
    assert "llm" in error.value.fix
    with pytest.raises(TraceFormatError, match=saying("no throughput", "'llm'", "L20")) as error:
        with_speeds(trace, read(CSV), cluster_of("L20"))
    assert "did you mean" not in error.value.fix
    left = with_speeds(trace, read(CSV), cluster_of("H100"), lenient=True)
    assert ([job.job_id for job in left.records], left.dropped) == (["a"], {"no throughput": 1})
    with pytest.raises(TraceFormatError, match="2 jobs"):
        with_speeds(trace, read(CSV), cluster_of("L20"), lenient=True)
