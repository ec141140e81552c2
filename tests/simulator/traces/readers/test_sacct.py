"""Slurm's accounting, as text and as JSON: amounts, limits, requeues, arrays, steps, and what never ran or goes on."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ground.errors import TraceFormatError
from ground.rows import BadRow
from simulator.job_record import JobRecord
from simulator.traces import JobTrace, read_trace
from simulator.traces.readers.slurm_accounting import length, trackable
from tests.facts import says
from tests.simulator.traces.trace_samples import SACCT, SACCT_JSON


def read(folder: Path, text: str, **how: object) -> JobTrace:
    """Read a text leniently; its format is recognised."""
    (folder / "trace").write_text(text, encoding="utf-8")
    return read_trace(folder / "trace", lenient=True, **how)  # type: ignore[arg-type]


def seconds(time: str) -> float:
    """Seconds since 1970 of a time of the first of March 2026."""
    return datetime.fromisoformat(f"2026-03-01T{time}").replace(tzinfo=UTC).timestamp()


def test_jobs_of_the_text(tmp_path: Path) -> None:
    """What the rows say, by hand: two nodes of 8, a task of an array, a job that ran twice."""
    trace = read(tmp_path, SACCT)
    assert trace.format == "sacct"
    assert trace.records == (
        JobRecord(
            "100", seconds("08:00:00"), 3600.0, 16.0, 2, "ada", "gpu", "vision", cpus=96.0, memory=2 * 2.0**40,
            status="completed", estimate=7200.0, waited=600.0,
        ),
        JobRecord(
            "101_7", seconds("08:01:00"), 30.0, 4.0, 1, "ben", "gpu", "nlp", cpus=4.0, memory=62.5 * 2**30,
            status="cancelled", waited=3660.0,
        ),
        # 100 s and 200 s from the first submission; it waited a minute before the first run.
        JobRecord(
            "102", seconds("08:02:00"), 300.0, 8.0, 1, "ada", "gpu", "vision", cpus=8.0, memory=500_000 * 2.0**20,
            status="failed", estimate=86_400.0, waited=60.0,
        ),
    )  # fmt: skip
    assert trace.dropped == {"has not ended": 1, "no GPUs": 1, "never ran": 1}
    assert says(trace.notes, "Steps of jobs")
    assert says(trace.notes, "1 jobs", "requeued")
    assert says(trace.notes, "1 jobs", "after their submission")


def test_parts_of_gpus_are_no_gpus(tmp_path: Path) -> None:
    """Jobs of slices and of shards are left out and counted apart; of one that has whole GPUs too, these count.

    Slurm counts slices among the GPUs: of 9, 7 are slices. The third was given slices for GPUs that it asked for.
    """
    head = "JobID|Submit|Start|ElapsedRaw|State|NNodes|ReqTRES|AllocTRES\n"
    row = "{}|2026-03-01T08:00:00|2026-03-01T08:10:00|60|COMPLETED|1|{}|cpu=8,node=1,{}\n"
    resources = {
        "1": ("gres/gpu=8", "gres/gpu:a100=8,gres/gpu=8"),
        "2": ("gres/gpu:1g.10gb=7,gres/gpu=7", "gres/gpu:1g.10gb=7,gres/gpu=7"),
        "3": ("gres/gpu=2", "gres/gpu:a100_3g.40gb=2,gres/gpu=2"),
        "4": ("gres/shard=4", "gres/shard=4,gres/shard:a100=4"),
        "5": ("gres/mps=50", "gres/mps=50"),
        "6": ("gres/gpu=9", "gres/gpu:1g.10gb=7,gres/gpu:a100=2,gres/gpu=9"),
        "7": ("cpu=8", "mem=1G"),
    }
    trace = read(tmp_path, head + "".join(row.format(job, *asked) for job, asked in resources.items()))
    assert {record.job_id: record.gpus for record in trace.records} == {"1": 8.0, "6": 2.0}
    assert trace.dropped == {"parts of GPUs": 4, "no GPUs": 1}


def test_gpu_seconds_by_another_way(tmp_path: Path) -> None:
    """Elapsed times the sum of GPUs of every ended allocation, by the csv module alone."""
    rows = csv.DictReader(SACCT.splitlines(), delimiter="|", quoting=csv.QUOTE_NONE)
    expected = (
        sum(
            int(row["ElapsedRaw"]) * int(row["AllocTRES"].split("gres/gpu=")[1].split(",")[0])
            for row in rows
            if "gres/gpu=" in row["AllocTRES"] and row["End"] != "Unknown" and "." not in row["JobID"]
        )
        + 30 * 4
    )  # 101_7 names its GPUs by their type alone
    trace = read(tmp_path, SACCT)
    assert sum(record.gpus * record.duration for record in trace.records) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "|\n"),
        lambda text: text.upper().split("\n", 1)[0] + "\n" + text.split("\n", 1)[1],
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("ElapsedRaw", "CPUTimeRAW"),
    ],
    ids=["--parsable", "capitals", "carriage returns", "times alone"],
)
def test_the_same_printed_otherwise(change: object, tmp_path: Path) -> None:
    """A bar behind each line, names in capitals, Windows lines, run times from start and end."""
    changed = read(tmp_path, change(SACCT))  # type: ignore[operator]
    assert changed.records == read(tmp_path, SACCT).records


def test_exports_one_after_the_other(tmp_path: Path) -> None:
    """A job that ran over midnight stands in the exports of two days: it is one job, and no requeued one."""
    trace = read(tmp_path, SACCT + SACCT)
    assert trace.records == read(tmp_path, SACCT).records
    # The four runs that ended stand there twice.
    assert says(trace.notes, "4 rows", "same submission and start")
    assert says(trace.notes, "1 jobs", "requeued")


def test_without_a_header(tmp_path: Path) -> None:
    """The columns of Open XDMoD: account as group, 37 days as limit, GPUs of AllocTRES alone."""
    trace = read(
        tmp_path,
        "163485|163485|c|p|q|acc|grp|45|usr|38|2016-12-22T07:15:12|2016-12-22T07:15:12|2016-12-22T07:15:13|"
        "2017-01-01T20:42:19|10-13:27:06|0:0|CANCELLED by 38|1|12|12|31000Mn|cpu=12,node=1|"
        "billing=12,cpu=12,gres/gpu=2,mem=31000M,node=1|37-14:00:00|n1|name\n",
    )
    (job,) = trace.records
    # 10 days, 13 hours, 27 minutes and 6 seconds; 37 days and 14 hours.
    assert (job.duration, job.estimate) == (10 * 86_400 + 13 * 3600 + 27 * 60 + 6, 37 * 86_400 + 14 * 3600)
    assert (job.gpus, job.user, job.group, job.status, job.waited) == (2.0, "usr", "acc", "cancelled", 1.0)


def test_times_as_seconds(tmp_path: Path) -> None:
    """What SLURM_TIME_FORMAT=%s prints is read as it is."""
    head = "JobID|Submit|Start|End|State|AllocTRES\n"
    trace = read(tmp_path, f"{head}1|100|160|260|COMPLETED|gres/gpu=1\n")
    assert trace.records == (JobRecord("1", 100.0, 100.0, 1.0, status="completed", waited=60.0),)
    assert trace.notes == ()


def test_submitted_when_eligible(tmp_path: Path) -> None:
    """A job that might start at nine is submitted at nine, where that is asked for; and waited a minute."""
    job = read(tmp_path, SACCT, columns={"Submit": "Eligible"}).records[-1]
    assert (job.job_id, job.submit, job.waited) == ("101_7", seconds("09:01:00"), 60.0)


def test_an_id_that_came_again(tmp_path: Path) -> None:
    """Slurm begins again at 1, and another cluster has ids of its own: another user, or cluster, is another job."""
    head = "JobID|Cluster|User|Submit|Start|End|State|AllocTRES\n"
    rows = [
        "1|x|a|0|1|2|COMPLETED|gres/gpu=1",
        "1|x|b|9|10|12|COMPLETED|gres/gpu=1",
        "1|y|a|9|10|13|COMPLETED|gres/gpu=1",
    ]
    trace = read(tmp_path, head + "\n".join(rows))
    assert [(job.job_id, job.duration) for job in trace.records] == [("1", 1.0), ("1@2", 2.0), ("1@3", 3.0)]


def test_the_json(tmp_path: Path) -> None:
    """Two jobs by hand: 1,024 MB, a limit of 120 minutes, a task of an array, a state as a word; one goes on."""
    trace = read(tmp_path, SACCT_JSON)
    assert trace.format == "sacct-json"
    common = {"cpus": 96.0, "memory": 2.0**30, "estimate": 7200.0}
    assert trace.records == (
        JobRecord("7", 1000.0, 3600.0, 16.0, 2, "ada", "gpu", "vision", status="completed", waited=600.0, **common),
        JobRecord("6_3", 1010.0, 10.0, 8.0, 2, "ada", "gpu", "vision", status="failed", waited=610.0, **common),
    )
    assert trace.dropped == {"has not ended": 1}


def test_an_error_names_the_line_of_the_json(tmp_path: Path) -> None:
    """The line on which the entry begins."""
    (tmp_path / "trace").write_text(SACCT_JSON)
    # The brace stands on the line before, and lines count from 1.
    line = next(i for i, text in enumerate(SACCT_JSON.splitlines()) if '"job_id": 9' in text)
    with pytest.raises(TraceFormatError, match="job 9 has not ended") as error:
        read_trace(tmp_path / "trace")
    assert error.value.where == f"{tmp_path / 'trace'}:{line}"


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("JobID|User|Submit|Start|End|State\n1|a|0|0|1|COMPLETED\n", "column AllocTRES is missing", "--format=JobID"),
        ("JobID|Start|End|State|AllocTRES\n1|0|1|COMPLETED|gres/gpu=1\n", "column Submit is missing", "export it"),
        ("JobID     JobName    State\n------- ------ -----\n1 a COMPLETED\n", "cannot be told apart", "--parsable2"),
        ("JobID,State,AllocTRES\n1,COMPLETED,cpu=1\n", "cannot be told apart", "without --delimiter"),
        (
            '{"jobs": [], "errors": [{"error": "no database"}], "job_id": "submission"}',
            "no database",
            "ask Slurm again",
        ),
    ],
)
def test_outputs_that_cannot_be_read(text: str, message: str, fix: str, tmp_path: Path) -> None:
    """The error says how to export what is missing."""
    (tmp_path / "trace").write_text(text)
    with pytest.raises(TraceFormatError, match=message) as error:
        read_trace(tmp_path / "trace")
    assert fix in error.value.fix


def test_amounts() -> None:
    """Units are powers of 1,024, for counts too; memory without one is in megabytes."""
    found = trackable("billing=1.5K,cpu=2K,mem=62.50G,gres/gpu:a=1,node=1")
    assert found == {"billing": 1536.0, "cpu": 2048.0, "mem": 62.5 * 2**30, "gres/gpu:a": 1.0, "node": 1.0}
    assert trackable("mem=5") == {"mem": 5 * 2.0**20}
    with pytest.raises(BadRow, match="no amount"):
        trackable("cpu=many")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("00:30", 30), ("10:00", 600), ("1:00:00", 3600), ("1-12", 129_600), ("2-00:00:01", 172_801), ("05:00.250", 300)],
)
def test_lengths(text: str, expected: float) -> None:
    """MINUTES:SECONDS, HOURS:MINUTES:SECONDS, with days before; words are no limit."""
    assert length(text) == expected
    assert length("UNLIMITED") is length("Partition_Limit") is None


def test_json_of_old_slurm(tmp_path: Path) -> None:
    """Slurm 21.08 wrote numbers and words where later ones write objects and lists."""
    job = json.loads(SACCT_JSON)["jobs"][0]
    job["time"]["limit"], job["state"]["current"], job["array"]["task_id"] = 120, "COMPLETED", None
    trace = read(tmp_path, json.dumps({"jobs": [job]}))
    assert trace.records == read(tmp_path, SACCT_JSON).records[:1]


def test_what_waits_without_resources_never_ran(tmp_path: Path) -> None:
    """The tasks of an array that wait have no AllocTRES: that says nothing of GPUs."""
    waits = "9_[5-7%2]|ada|ml|gpu|2026-01-01T00:00:05|2026-01-01T00:00:05|Unknown|Unknown|0|60|PENDING|1||arr\n"
    columns = SACCT.splitlines(keepends=True)[0].replace("ReqTRES|", "")
    ran = waits.replace("[5-7%2]", "4").replace("Unknown|Unknown|0", "2026-01-01T00:00:06|2026-01-01T00:01:06|60")
    ran = ran.replace("PENDING|1|", "COMPLETED|1|gres/gpu=1")
    assert read(tmp_path, columns + waits + ran).dropped == {"never ran": 1}


@pytest.mark.parametrize(
    "limit", ["4294967295", "4294967294", '{"set": true, "infinite": false, "number": 4294967295}']
)
def test_no_limit_is_no_estimate(limit: str, tmp_path: Path) -> None:
    """INFINITE and NO_VAL of slurm.h as plain numbers of minutes: 8,000 years otherwise."""
    times = f'"elapsed": 60, "start": 10, "end": 70, "submission": 5, "limit": {limit}'
    gpus = '{"type": "gres", "name": "gpu", "count": 1}'
    job = (
        f'{{"job_id": 1, "state": {{"current": "COMPLETED"}}, "time": {{{times}}}, "tres": {{"allocated": [{gpus}]}}}}'
    )
    assert read(tmp_path, f'{{"jobs": [{job}]}}').records[0].estimate is None
