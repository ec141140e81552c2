"""Each format of a trace, by a few rows made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ground.errors import TraceFormatError
from scheduler.job import Parallelism
from simulator.job_record import JobRecord
from simulator.traces import JobTrace, read_trace
from tests.facts import saying, says


def read(folder: Path, text: str, *, lenient: bool = False) -> JobTrace:
    """Read a text; its format is recognised."""
    file = folder / "trace"
    file.write_text(text, encoding="utf-8")
    return read_trace(file, lenient=lenient)


def seconds(date: str) -> float:
    """Seconds since 1970 of a date in UTC."""
    return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()


def test_philly(tmp_path: Path) -> None:
    """Timestamps are dates of UTC, the cluster is the queue, rows may stand in any order of time."""
    trace = read(
        tmp_path,
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,1,66.0,aa\n"
        "2017-10-09 06:13:03,10.0,8,80.0,bb\n",
    )
    assert trace.format == "philly"
    assert [record.job_id for record in trace.records] == ["philly-2", "philly-1"]
    assert trace.records[0] == JobRecord("philly-2", seconds("2017-10-09 06:13:03"), 10.0, 8.0, queue="bb")
    assert says(trace.notes, "without a time zone", "UTC")
    assert any("sorted" in note for note in trace.notes)


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_helios(tmp_path: Path) -> None:
    """A row of 16 GPUs on 2 nodes; one of CPUs alone is dropped where that is asked for."""
    trace = read(
        tmp_path,
        HELIOS + "1,u1,vc1,16,32,2,TIMEOUT,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:42:11,60,10\n"
        "2,u2,vc2,0,4,1,COMPLETED,2020-06-09 18:41:02,2020-06-09 18:41:11,2020-06-09 18:42:11,60,9\n",
        lenient=True,
    )
    assert trace.format == "helios"
    assert trace.dropped == {"no GPUs": 1}
    # Time-outs count as failed, as in the paper of the trace.
    expected = JobRecord("1", seconds("2020-06-09 18:41:01"), 60.0, 16.0, 2, "u1", "vc1", cpus=32.0, status="failed")
    # From 18:41:01 to 18:41:11.
    assert trace.records == (replace(expected, waited=10.0),)


def test_acme(tmp_path: Path) -> None:
    """UTC offsets count, the type is the group, memory is that of all pods; the wait is taken out of the duration."""
    text = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,start_time,end_time,duration,"
        "queue,gpu_time\n"
        "d1,u1,8,64,960,1000,Pretrain,CANCELLED,2023-03-01 08:00:00+08:00,2023-03-01 08:00:10+08:00,"
        "2023-03-01 08:01:10+08:00,70,10.0,4480.0\n"
    )
    trace = read(tmp_path, text)
    assert trace.format == "acme"
    (record,) = trace.records
    # Eight hours before, in UTC.
    assert record.submit == seconds("2023-03-01 00:00:00")
    assert (record.gpus, record.nodes, record.group, record.status) == (64.0, 8, "Pretrain", "cancelled")
    assert record.memory == 8 * 1000 * 2.0**30
    # The column says 70 s where start and end are 60 s apart: it holds the wait of 10 s.
    assert (record.duration, record.waited) == (60.0, 10.0)
    assert says(trace.notes, "1 jobs", "end_time - start_time was taken")
    # A job that was cancelled while it waited has no start: what its duration says is no run time.
    waiting = text + text.splitlines()[1].replace("d1,", "d2,").replace("2023-03-01 08:00:10+08:00", "") + "\n"
    assert read(tmp_path, waiting, lenient=True).dropped == {"never ran": 1}
    read(tmp_path, text)
    as_written = read_trace(tmp_path / "trace", format="acme-as-written")
    assert as_written.records[0].duration == 70.0
    assert says(as_written.notes, "1 jobs", "the column duration was taken")


PAI = """\
j1,ps,1.0,Terminated,90.0,300.0,600.0,10.0,,
j1,worker,2.0,Terminated,100.0,200.0,400.0,20.0,50.0,T4
j1,evaluator,1.0,Failed,100.0,260.0,400.0,20.0,50.0,T4
j2,tensorflow,1.0,Terminated,50.0,60.0,600.0,29.0,25.0,MISC
j3,xgb,4.0,Terminated,10.0,20.0,600.0,29.0,,
j4,worker,1.0,Running,40.0,,600.0,29.0,100.0,V100
"""


def test_pai_2020(tmp_path: Path) -> None:
    """Tasks of a job are one gang, with or without a header; only those that ask for GPUs count."""
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    trace = read(tmp_path, PAI, lenient=True)
    assert trace.records == read(tmp_path, header + PAI, lenient=True).records
    assert trace.format == "pai2020"
    assert trace.dropped == {"no GPUs": 1, "has not ended": 1}
    quarter, gang = trace.records
    # One instance of 25 %.
    assert (quarter.job_id, quarter.submit, quarter.duration, quarter.gpus) == ("j2", 50.0, 10.0, 0.25)
    # 2 * 50 % + 50 % = 1.5 GPUs, rounded up; from the first start to the last end of tasks with GPUs.
    assert (gang.job_id, gang.submit, gang.duration, gang.gpus) == ("j1", 100.0, 160.0, 2.0)
    assert (gang.cpus, gang.status) == (12.0, "failed")


LAUNCHES = "j1,inst1,u1,Terminated,90.0,201.0\nj2,inst2,u2,Failed,40.0,61.0\n"


@pytest.mark.parametrize("text", [PAI + LAUNCHES, LAUNCHES + PAI], ids=["tasks first", "jobs first"])
def test_both_tables_of_pai_2020(text: str, tmp_path: Path) -> None:
    """The job table says when a job was submitted, by whom, and how it ended; of j4 it says nothing."""
    headers = "job_name,inst_id,user,status,start_time,end_time\n"
    trace = read(tmp_path, text, lenient=True)
    assert trace.records == read(tmp_path, text.replace(LAUNCHES, headers + LAUNCHES), lenient=True).records
    second, first = trace.records
    # j1 starts at 100 and was submitted at 90, j2 at 50 and 40; the run times are those of the tasks.
    assert (first.job_id, first.submit, first.waited, first.duration) == ("j1", 90.0, 10.0, 160.0)
    assert (first.user, first.status) == ("u1", "completed")
    assert (second.user, second.submit, second.waited, second.status) == ("u2", 40.0, 10.0, "failed")
    late = text.replace("Terminated,90.0", "Terminated,101.0")
    assert read(tmp_path, late, lenient=True).dropped["submitted too late"] == 1


def test_a_list_of_pods_without_times(tmp_path: Path) -> None:
    """It is no trace, and no column alone would make it one."""
    with pytest.raises(TraceFormatError, match=saying("no times", "list of pods")):
        read(tmp_path, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,1,1,1,1000\n")


def test_pai_2023(tmp_path: Path) -> None:
    """Pods on one node; thousandths count for one GPU only; a pod that never ran is no job."""
    trace = read(
        tmp_path,
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "p1,88000,1024,8,1000,,Burstable,Succeeded,100,400,150\n"
        "p2,4000,1,1,220,,BE,Running,110,120,110\n"
        "p3,4000,1,1,1000,V100M16|V100M32,LS,Pending,110,120,\n",
        lenient=True,
    )
    assert trace.format == "pai2023"
    assert trace.dropped == {"never ran": 1}
    whole, share = trace.records
    assert (whole.gpus, whole.nodes, whole.submit, whole.duration) == (8.0, 1, 100.0, 250.0)
    assert (whole.cpus, whole.memory, whole.status) == (88.0, 2.0**30, "completed")
    assert (share.gpus, share.nodes, share.queue) == (0.22, 1, "BE")


def test_swf_with_more_fields(tmp_path: Path) -> None:
    """Those behind the 18th, often words, are passed over, and told; lines of parts of jobs are known all the same."""
    job = "1 0 10 3600 64 -1 -1 128 7200 -1 1 3 1 -1 2 -1 -1 -1"
    part = job.replace(" 1 3 1 ", " 2 3 1 ")
    trace = read(tmp_path, f"{job} {{7,7}} q_1d 1:ppn=64\n{part} 77\n")
    assert trace.records == read(tmp_path, job + "\n").records
    assert says(trace.notes, "18 fields", "not read")


def test_swf(tmp_path: Path) -> None:
    """18 fields, comments, -1 unknown; processors asked for, else those given; parts of jobs are passed over."""
    trace = read(
        tmp_path,
        "; Computer: by hand\n;\n"
        "1 0 10 3600 64 -1 -1 128 7200 -1 1 3 1 -1 2 -1 -1 -1\n"
        "2 5 -1 60.5 4 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1 ; cancelled\n"
        "2 5 -1 30 4 -1 -1 -1 -1 -1 3 -1 -1 -1 -1 -1 -1 -1\n",
    )
    assert trace.format == "swf"
    assert trace.records == (
        JobRecord(
            "1", 0.0, 3600.0, 128.0, user="3", group="1", queue="2", status="completed", estimate=7200.0, waited=10.0
        ),
        JobRecord("2", 5.0, 60.5, 4.0, status="cancelled"),
    )


OURS = {
    "job_id": "big",
    "submit_time": 100.5,
    "duration": 60,
    "gpus": 32,
    "nodes": 4,
    "user": "ada",
    "queue": "research",
    "group": "vision",
    "cpus": 512,
    "memory": 1e12,
    "status": "completed",
    "priority": 3,
    "preemptible": True,
    "announced": 40,
    "estimate": 90,
    "model": "llm-7b",
    "tp": 8,
    "pp": 2,
    "dp": 2,
}
BIG = JobRecord(
    "big",
    100.5,
    60.0,
    32.0,
    4,
    "ada",
    "research",
    "vision",
    512.0,
    1e12,
    "completed",
    3,
    preemptible=True,
    announced=40.0,
    estimate=90.0,
    parallelism=Parallelism(tp=8, pp=2, dp=2),
    model="llm-7b",
)
SMALL = JobRecord("small", 100.5, 1.0, 0.34)


def test_ours_as_csv_json_lines_and_parquet(tmp_path: Path) -> None:
    """All columns, and a row with none but the required ones, are the same job in all three ways of writing."""
    # A third of a GPU is rounded up to hundredths.
    small = {"job_id": "small", "submit_time": 100.5, "duration": 1, "gpus": 1 / 3}
    csv = ",".join(OURS) + "\n" + ",".join(map(str, OURS.values())) + "\nsmall,100.5,1,0.3333" + "," * 15 + "\n"
    lines = json.dumps(OURS) + "\n\n" + json.dumps(small) + "\n"
    pq.write_table(pa.Table.from_pylist([OURS, small]), tmp_path / "parquet")
    found = [read(tmp_path, csv), read(tmp_path, lines), read_trace(tmp_path / "parquet")]
    assert [trace.format for trace in found] == ["csv", "jsonl", "parquet"]
    for trace in found:
        assert trace.records == (BIG, SMALL)
        assert trace.notes == ()


def test_parquet_with_dates(tmp_path: Path) -> None:
    """Dates of Parquet are dates."""
    row = {"job_id": "a", "submit_time": datetime(2026, 1, 1, tzinfo=UTC), "duration": 1, "gpus": 1}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "parquet")
    assert read_trace(tmp_path / "parquet").records[0].submit == seconds("2026-01-01")


def test_the_jobs_of_a_simulation_are_a_trace(tmp_path: Path) -> None:
    """Run time is end - start where there is no duration; columns of ours that say nothing of a trace are named."""
    trace = read(
        tmp_path,
        "job_id,submit_time,start_time,end_time,gpus,nodes,wait_seconds,placed_on\na,0,10,25.5,8,1,10,n1\n",
    )
    assert trace.records == (JobRecord("a", 0.0, 15.5, 8.0, 1, waited=10.0),)
    (note,) = trace.notes
    assert says(note, "not read", "placed_on, wait_seconds")
    trace = read(tmp_path, "job_id,submit_time,start_time,end_time,gpus,duration_seconds\na,0,10,,8,40\n")
    assert trace.records == (JobRecord("a", 0.0, 40.0, 8.0, waited=10.0),)


def test_nodes_that_do_not_divide_the_gpus_are_left_open(tmp_path: Path) -> None:
    """13 GPUs on 2 nodes are no gang of equal cells; a share of a GPU lies on one node."""
    trace = read(tmp_path, "job_id,submit_time,duration,gpus,nodes\na,0,1,13,2\nb,0,1,0.5,1\n")
    assert [record.nodes for record in trace.records] == [None, 1]


def test_order_of_submission_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    """Jobs submitted at one instant stay as they stood."""
    trace = read(tmp_path, "job_id,submit,duration,gpus\nc,5,1,1\nb,5,1,1\na,0,1,1\n")
    assert [record.job_id for record in trace.records] == ["a", "c", "b"]
