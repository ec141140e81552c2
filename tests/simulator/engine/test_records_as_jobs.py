"""What a record of a trace asks, put to placement as a job file with the same keys is."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.affinity import RECORDS, affinity
from scheduler.job import DEFAULT_ALPHA, Hold, Parallelism
from scheduler.job_affinity import NAMED_MODELS
from scheduler.jobfile import load_job
from scheduler.queue.queue_policy import POLICIES
from scheduler.queue.run_times import Prediction
from simulator.cluster_fit import check_against
from simulator.engine.sim_job import Need, SimJob
from simulator.job_record import JobRecord
from simulator.traces import JobTrace, read_trace
from simulator.traces.job_table_readers import write_jobs
from simulator.workload import WorkloadSpec, generate
from tests.case_counts import examples
from tests.simulator.clusters import racks
from tests.simulator.engine.runs import placed, placed_run
from topology.errors import TraceFormatError
from topology.files import Source

CLUSTER = racks(64)
SHAPES = st.fixed_dictionaries(
    {"hidden": st.integers(1, 8192), "layers": st.integers(1, 96), "vocab": st.integers(1, 10**5)},
    optional={"micro_batch": st.integers(1, 4), "gpu": st.sampled_from(["H800", "L20"])},
).map(lambda shape: {**shape, "sequence_length": 4096})
CONSTRAINTS = st.lists(
    st.fixed_dictionaries({"family": st.sampled_from(["dp", "pp", "ep"]), "within": st.just("pod")})
    | st.fixed_dictionaries(
        {"family": st.sampled_from(["tp", "cp"]), "level": st.just("rack"), "weight": st.sampled_from([0.5, 1.25])}
    ),
    max_size=3,
)
# A tensor-parallel group stays in its node, so tp runs fastest.
ORDERS = st.permutations(["cp", "ep", "dp", "pp"]).map(lambda rest: "-".join(("tp", *rest)))


def megatron_accepts(asked: dict[str, Any]) -> bool:
    """Whether stages run slowest where experts, which know no context parallelism, have another data parallelism."""
    return asked["cp"] == 1 or asked["pp"] == 1 or asked.get("order", "pp").endswith("pp")


ASKED = st.fixed_dictionaries(
    {"cp": st.sampled_from([1, 2]), "dp": st.sampled_from([1, 2, 4]), "pp": st.sampled_from([1, 2, 4])},
    optional={
        "order": ORDERS,
        "alpha": st.sampled_from([0.0, 0.25, 1.0]),
        "model": st.sampled_from(list(NAMED_MODELS)) | SHAPES,
        "microbatches": st.integers(1, 64),
        "avoid": st.sampled_from(["strict", "price", "ignore"]),
        "constraints": CONSTRAINTS,
    },
).filter(megatron_accepts)


def job_file(asked: dict[str, Any]) -> str:
    """The job file with these keys."""
    degrees = {name: asked[name] for name in ("cp", "dp", "pp")}
    others = {name: value for name, value in asked.items() if name not in degrees}
    return json.dumps({"parallelism": {"tp": 8, **degrees}, **others})


def read_back(text: str, folder: Path) -> JobRecord:
    """The one job of a trace."""
    (folder / "trace").write_text(text, encoding="utf-8")
    return read_trace(folder / "trace").records[0]


def waiting(record: JobRecord) -> SimJob:
    """The job in a queue."""
    need = placed(CLUSTER).need(record)
    return SimJob(
        key=0, record=record, need=Need(need.nodes, need.gpus, need.units), prediction=Prediction(1.0, 1.0, 1.0)
    )


@given(ASKED)
@examples(150)
def test_a_record_asks_what_its_job_file_asks(asked: dict[str, Any]) -> None:
    """Every key, whether the trace is JSON lines or what is written of it as CSV; only name and level are the run's.

    A hold that cannot be kept even on the empty cluster is refused before the run, so none here: pods hold 16 nodes.
    """
    gpus = 8 * asked["cp"] * asked["dp"] * asked["pp"]
    row = {"job_id": "a", "submit_time": 0, "duration": 60, "gpus": gpus, "tp": 8, **asked}
    with tempfile.TemporaryDirectory() as folder:
        record = read_back(json.dumps(row) + "\n", Path(folder))
        assert read_back(write_jobs([record]), Path(folder)) == record
    expected = load_job(Source("job.yaml", job_file(asked))).job
    if expected.grid.cells > 1:
        assert placed(CLUSTER).gang(waiting(record)) == expected


def test_jobs_of_a_made_workload_have_the_alpha_of_their_models() -> None:
    """By the characterisation, or 1 without pipeline stages; of those without a model nothing is known."""
    records = generate(WorkloadSpec(days=3, seed=1, kinds=("other", "evaluation"), max_gpus=256))
    gangs = [record for record in records if record.gpus >= 16]
    pool = placed(racks(64))
    for record in gangs[:60]:
        found = pool.gang(waiting(record))
        assert isinstance(record.model, str)
        known = record.known_model
        assert found.alpha == (DEFAULT_ALPHA if known is None else affinity(known, found.parallelism, RECORDS).alpha)
    assert {record.model for record in gangs} >= {"llm-7b", "llm-20b"}


def gang(name: str, at: float, takes: float, nodes: int, **asks: Any) -> JobRecord:
    """A data-parallel job on whole nodes."""
    return JobRecord(name, at, takes, 8.0 * nodes, parallelism=Parallelism(tp=8, dp=nodes), **asks)


def starts(records: list[JobRecord], policy: str) -> dict[str, float]:
    """When each job starts, on two racks of four nodes."""
    run = placed_run(racks(8), records, POLICIES.load(policy))
    return {job.record.job_id: job.first_start for job in run.jobs}


def test_a_constraint_makes_a_job_wait() -> None:
    """Three nodes of each rack are in use until 10: the two that are free are in two racks."""
    held = (Hold("dp", "rack"),)
    before = [gang("a", 0, 10, 3, holds=held), gang("b", 0, 10, 3, holds=held)]
    assert starts([*before, gang("c", 1, 5, 2)], "fifo")["c"] == 1
    assert starts([*before, gang("c", 1, 5, 2, holds=held)], "fifo")["c"] == 10


def test_jobs_of_one_size_that_ask_otherwise_are_asked_one_by_one() -> None:
    """At 4 a node of each rack is free: not for the gang that wants a rack, but for the longer one behind it."""
    held = (Hold("dp", "rack"),)
    before = [gang("a", 0, 10, 3, holds=held), gang("b", 0, 10, 3, holds=held), gang("e", 0, 4, 2)]
    found = starts([*before, gang("c", 1, 5, 2, holds=held), gang("d", 2, 6, 2)], "arnold-no-reserve")
    assert (found["c"], found["d"]) == (10, 4)


@pytest.mark.parametrize(
    ("asks", "nodes", "message"),
    [
        ({"holds": (Hold("dp", "rack"),)}, 5, "its constraints cannot be kept, even if the cluster were empty"),
        ({"holds": (Hold("dp", "rak"),)}, 2, "the cluster has no level 'rak'"),
    ],
)
def test_constraints_that_no_state_of_the_cluster_keeps(asks: dict[str, Any], nodes: int, message: str) -> None:
    """Such a job would wait for ever: strict says which, lenient leaves it out and counts it."""
    trace = JobTrace((gang("fits", 0, 1, 2), gang("x", 0, 1, nodes, **asks)), source="t.csv")
    with pytest.raises(TraceFormatError, match=f"job x could never run: constraints: .*{message}"):
        check_against(trace, placed(racks(8)), nodes=8)
    assert check_against(trace, placed(racks(8)), nodes=8, lenient=True).dropped == {"constraints": 1}


def test_constraints_of_parts_of_nodes_are_refused() -> None:
    """Placement is asked about whole nodes alone."""
    trace = JobTrace((gang("fits", 0, 1, 2), JobRecord("x", 0, 1, 8, 2, holds=(Hold("dp", "rack"),))))
    with pytest.raises(TraceFormatError, match="a part of each of 2 nodes, and constraints"):
        check_against(trace, placed(racks(8)), nodes=8)
