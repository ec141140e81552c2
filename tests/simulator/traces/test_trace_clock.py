"""One clock for every column of times: units, limits and doubts, in each format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import TraceFormatError
from simulator.traces import read_trace
from simulator.traces.cells import UNITS
from simulator.traces.trace_loading import TRACE_READERS

WEEK = 7 * 86_400


class Run(NamedTuple):
    """When a job is submitted, how long it waits and runs, and its limit: whole seconds, the limit in minutes."""

    submit: int
    wait: int
    run: int
    limit: int


def table(header: str, row: str) -> Callable[[Sequence[Run], int], bytes]:
    """Return what writes runs as rows of a text, times of which so many make a second.

    Where Slurm counts minutes, ``limit`` is written as so many times its minutes.
    """

    def written(runs: Sequence[Run], per_second: int) -> bytes:
        rows = [
            row.format(
                i=i,
                submit=run.submit * per_second,
                wait=run.wait * per_second,
                start=(run.submit + run.wait) * per_second,
                end=(run.submit + run.wait + run.run) * per_second,
                run=run.run * per_second,
                limit=run.limit * per_second,
                walltime=(run.run + 60 * run.limit) * per_second,
            )
            for i, run in enumerate(runs)
        ]
        return "".join(f"{line}\n" for line in (*([header] if header else []), *rows)).encode()

    return written


def ours(runs: Sequence[Run], per_second: int) -> list[dict[str, object]]:
    """Return rows of our own columns of times."""
    return [
        {
            "job_id": f"j{i}",
            "submit_time": run.submit * per_second,
            "duration": run.run * per_second,
            "gpus": 8,
            "estimate": run.limit * per_second,
            "waited": run.wait * per_second,
            "announced": run.submit * per_second,
        }
        for i, run in enumerate(runs)
    ]


def parquet(runs: Sequence[Run], per_second: int) -> bytes:
    """Return Parquet of our own columns."""
    file = BytesIO()
    pq.write_table(pa.Table.from_pylist(ours(runs, per_second)), file)
    return file.getvalue()


def batsim(runs: Sequence[Run], per_second: int) -> bytes:
    """Return a workload of Batsim, each job with a delay of its own."""
    jobs = [
        {
            "id": i,
            "subtime": run.submit * per_second,
            "walltime": (run.run + 60) * per_second,
            "res": 8,
            "profile": f"p{i}",
        }
        for i, run in enumerate(runs)
    ]
    profiles = {f"p{i}": {"type": "delay", "delay": run.run * per_second} for i, run in enumerate(runs)}
    return json.dumps({"nb_res": 64, "jobs": jobs, "profiles": profiles}).encode()


def philly_log(runs: Sequence[Run], per_second: int) -> bytes:
    """Return Philly's log with an attempt a job."""
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]
    entries = [
        {
            "jobid": f"a{i}",
            "status": "Pass",
            "vc": "v",
            "user": "u",
            "submitted_time": run.submit * per_second,
            "attempts": [
                {
                    "start_time": (run.submit + run.wait) * per_second,
                    "end_time": (run.submit + run.wait + run.run) * per_second,
                    "detail": detail,
                }
            ],
        }
        for i, run in enumerate(runs)
    ]
    return json.dumps(entries).encode()


def sacct_json(runs: Sequence[Run], per_second: int) -> bytes:
    """Return Slurm's accounting as JSON; its limit counts minutes."""
    jobs = [
        {
            "job_id": i + 1,
            "state": {"current": ["COMPLETED"]},
            "time": {
                "submission": run.submit * per_second,
                "eligible": run.submit * per_second,
                "start": (run.submit + run.wait) * per_second,
                "end": (run.submit + run.wait + run.run) * per_second,
                "elapsed": run.run * per_second,
                "limit": {"set": True, "infinite": False, "number": run.limit * per_second},
            },
            "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 8}], "requested": []},
        }
        for i, run in enumerate(runs)
    ]
    return json.dumps({"jobs": jobs}).encode()


WRITERS: dict[str, Callable[[Sequence[Run], int], bytes]] = {
    "acme": table(
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time",
        "{i},u,1,8,64,Pretrain,COMPLETED,{submit},{start},{end},{run},{wait},1",
    ),
    "batsim": batsim,
    "csv": table(
        "job_id,submit_time,duration,gpus,estimate,waited,announced", "{i},{submit},{run},8,{walltime},{wait},{submit}"
    ),
    "gavel": table("", "ResNet-18 (batch size 32)\tmain\tdata\t--steps\t1\t100\t2\tgns\t1\t-1\t{run}\t{submit}"),
    "helios": table(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
        "{i},u,v,8,64,1,COMPLETED,{submit},{start},{end},{run},{wait}",
    ),
    "jsonl": lambda runs, per_second: "".join(json.dumps(row) + "\n" for row in ours(runs, per_second)).encode(),
    "muri": table(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval,iteration_time,resource_time_0",
        "{i},8,{submit},10,vgg16,{run},1,1,1",
    ),
    "pai2020": table(
        "", "j{i},worker,1.0,Terminated,{start},{end},20.0,50.0,100.0,T4\nj{i},w,u,Terminated,{submit},{end}"
    ),
    "pai2023": table(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        "p{i},8000,1024,8,1000,,LS,Succeeded,{submit},{end},{start}",
    ),
    "pai2025": table(
        "instance_sn,role,app_name,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time",
        "i{i},HN,app,12,1,120.0,{submit},{start},{end}",
    ),
    "parquet": parquet,
    "philly": table("timestamp,duration,num_gpus,gpu_time,cluster", "{submit},{run},8,1,v"),
    "philly-log": philly_log,
    "pollux": table("name,time,application,num_replicas,batch_size,duration", "n{i},{submit},bert,16,384,{run}"),
    "sacct": table(
        "JobID|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|State|AllocTRES",
        "{i}|{submit}|{submit}|{start}|{end}|{run}|{limit}|COMPLETED|gres/gpu=8,node=1",
    ),
    "sacct-json": sacct_json,
    "spot2026": table(
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type",
        "{i},1,A10,8,8,1,{submit},{run},HP",
    ),
    "swf": table("; made", "{i} {submit} {wait} {run} 8 -1 -1 8 {walltime} -1 1 3 1 -1 2 -1 -1 -1"),
    "tiresias": table(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval", "{i},8,{submit},10,vgg16,{run},1"
    ),
}
"""Format -> what writes runs in it."""

COUNTS_MILLISECONDS = {"muri"}
NOT_READ_FROM_TIMES = {"llm-workload"}  # makes its jobs
ALIKE = {"acme-as-written"}  # the columns of acme


def test_every_format_is_tried() -> None:
    """A reader that is added has to say here which of its columns are times."""
    assert set(WRITERS) == set(TRACE_READERS.names()) - NOT_READ_FROM_TIMES - ALIKE


# Not from 0: Slurm's JSON has 0 for what has not come.  A wait and a limit of at least a second and a minute.
RUNS = st.lists(
    st.builds(Run, st.integers(1, 10**7), st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**4)),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", sorted(WRITERS))
@given(runs=RUNS)
def test_a_unit_holds_for_every_column(name: str, runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same jobs, whatever their times count: submissions, starts, run times, limits and waits."""
    file = tmp_path_factory.mktemp("clock") / "trace"
    file.write_bytes(WRITERS[name](runs, 1))
    trace = read_trace(file, time_format="seconds" if name in COUNTS_MILLISECONDS else None)
    assert trace.format == name
    # Without an option the file counts seconds: run times are those that were written.
    assert sorted(record.duration for record in trace.records) == sorted(run.run for run in runs)
    for unit in ("milliseconds", "microseconds"):
        file.write_bytes(WRITERS[name](runs, round(UNITS[unit])))
        assert read_trace(file, time_format=unit).records == trace.records


def test_dates_with_lengths_in_milliseconds(tmp_path: Path) -> None:
    """Dates are dates, whatever the numbers beside them count."""
    file = tmp_path / "jobs.csv"
    file.write_text("job_id,submit_time,duration,gpus\na,2026-03-01 08:00:00,60000,8\n")
    assert read_trace(file, time_format="milliseconds").records[0].duration == 60.0


def test_muri_is_known_by_its_columns(tmp_path: Path) -> None:
    """Milliseconds without an option, and said; the user's own word goes first."""
    file = tmp_path / "muri.csv"
    file.write_bytes(WRITERS["muri"]([Run(1_000, 1, 500, 1)], 1_000))
    trace = read_trace(file)
    assert (trace.records[0].submit, trace.records[0].duration) == (1_000.0, 500.0)
    assert any("milliseconds" in note for note in trace.notes)
    assert read_trace(file, time_format="seconds").records[0].duration == 500_000.0


def test_muri_in_public() -> None:
    """Four hundred jobs, by their numbers as the csv module counts them, with and without the option."""
    folder = os.environ.get("ARNOLD_DATA")
    if not folder:
        pytest.skip("ARNOLD_DATA is not set: the public traces are not part of the project")
    file = Path(folder) / "real/muri/cluster_trace.csv"
    trace = read_trace(file)
    assert trace.format == "muri"
    assert trace.records == read_trace(file, time_format="milliseconds").records
    assert trace.records == read_trace(file, format="tiresias", time_format="milliseconds").records
    assert (len(trace), sum(job.gpus for job in trace.records)) == (400, 3_766)
    lengths = sorted(job.duration for job in trace.records)
    assert (lengths[200], lengths[-1]) == (2_256, 603_739)
    assert trace.records[-1].submit == 2_344_695
    assert sum(job.gpus * job.duration for job in trace.records) == 220_836_929
    # As Tiresias' and in seconds it would be jobs of 26 days over 74 years.
    notes = [note for note in read_trace(file, format="tiresias").notes if "--time-format milliseconds" in note]
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("time_format", "factor", "offered"),
    [(None, 1, "milliseconds"), ("milliseconds", 1_000, "microseconds"), ("nanoseconds", 10**9, None)],
)
def test_times_that_no_cluster_has_seen(
    time_format: str | None, factor: int, offered: str | None, tmp_path: Path
) -> None:
    """A median job above a week and submissions over more than ten years are noted, with the unit to say instead."""

    def notes(days: int, years: int) -> list[str]:
        runs = [Run(1, 1, days * 86_400, 1), Run(1 + round(years * 365.25 * 86_400), 1, days * 86_400, 1)]
        file = tmp_path / "jobs.csv"
        file.write_bytes(WRITERS["csv"](runs, factor))
        return list(read_trace(file, time_format=time_format).notes)

    assert notes(7, 10) == []
    long, far = notes(8, 11)
    assert "8 days" in long
    assert "11 years" in far
    for note in (long, far):
        assert (f"--time-format {offered}" in note) if offered else "--time-format" not in note


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"gavel", "parquet"}))
@pytest.mark.parametrize("time_format", ["seconds", "milliseconds", "microseconds", "nanoseconds"])
def test_what_to_say_where_a_run_is_too_long(name: str, time_format: str, tmp_path: Path) -> None:
    """The refusal of a run of 160 years offers a unit finer than the one that was given, and never that one."""
    file = tmp_path / "trace"
    file.write_bytes(WRITERS[name]([Run(1, 1, 5 * 10**9, 1)], round(UNITS[time_format])))
    with pytest.raises(TraceFormatError, match="ran for 5e") as error:
        read_trace(file, time_format=time_format)
    assert f"read as {time_format}" in error.value.fix
    units = list(UNITS)
    finer = units[units.index(time_format) + 1 :]
    assert all(unit in error.value.fix for unit in finer)
    assert not any(f"--time-format {unit}" in error.value.fix for unit in units if unit not in finer)


def test_a_run_too_long_that_is_dropped_is_noted(tmp_path: Path) -> None:
    """Leniently the longest jobs go, which would be the largest of a trace in another unit."""
    file = tmp_path / "jobs.csv"
    file.write_bytes(WRITERS["csv"]([Run(1, 1, 60, 1), Run(2, 1, 5 * 10**9, 1)], 1))
    trace = read_trace(file, lenient=True)
    assert trace.dropped == {"duration too long": 1}
    assert any("--time-format milliseconds" in note for note in trace.notes)


def test_a_wait_that_is_not_known_has_no_unit(tmp_path: Path) -> None:
    """-1 of the Standard Workload Format is unknown in every unit."""
    file = tmp_path / "log.swf"
    file.write_text("1 0 -1 60000 8 -1 -1 8 -1 -1 1 3 1 -1 2 -1 -1 -1\n")
    record = read_trace(file, time_format="milliseconds").records[0]
    assert record == replace(record, duration=60.0, waited=None, estimate=None)
