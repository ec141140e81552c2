"""Rows of jobs, series over time, the trace for Perfetto: what they say, and that no half of them is ever written."""

from __future__ import annotations

import csv
import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from arnold.commands.run import run
from arnold.exports import (
    JOB_COLUMNS,
    SERIES_COLUMNS,
    attempts_to_export,
    chrome_trace,
    job_rows,
    series_rows,
    table_bytes,
)
from ground.errors import InvalidInput
from simulator.hooks import Incident
from simulator.results import time_series
from tests.simulator.clusters import racks
from tests.simulator.replays import KeepsHalf, random_records, replayed

CLUSTER = "node,pod,gpus\n" + "".join(f"n{i},p{i // 2},8\n" for i in range(4))
TRACE = "job_id,submit_time,duration,gpus,user\na,0,100,32,ann\nb,10,50,8,bob\nc,20,30,1,ann\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Options that name a small cluster and trace."""
    (tmp_path / "cluster.csv").write_text(CLUSTER)
    (tmp_path / "jobs.csv").write_text(TRACE)
    named = ["--cluster", str(tmp_path / "cluster.csv"), "--trace", str(tmp_path / "jobs.csv")]
    return ["simulate", *named, "--algorithm", "gpu-packing", "--cost-model", "none"]


def test_every_format_says_the_same(tmp_path: Path) -> None:
    """CSV, Parquet and JSON lines have the same columns and values, in order of submission."""
    _, past = replayed(random_records(5, 30))
    rows = list(job_rows(past.jobs, racks(8).names))
    for suffix in ("csv", "parquet", "jsonl"):
        (tmp_path / f"jobs.{suffix}").write_bytes(table_bytes(f"jobs.{suffix}", rows, JOB_COLUMNS))
    table = pq.read_table(tmp_path / "jobs.parquet")
    assert table.column_names == list(JOB_COLUMNS)
    assert table.to_pylist() == rows
    assert [json.loads(line) for line in (tmp_path / "jobs.jsonl").read_text().splitlines()] == rows
    with (tmp_path / "jobs.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["job_id"] for row in read] == [row["job_id"] for row in rows]
    assert [float(row["start_time"]) for row in read] == [row["start_time"] for row in rows]


def test_a_job_that_was_never_placed_has_no_nodes() -> None:
    """Not 0 of them, which no job has: the row can be read as a trace."""
    away = [Incident(0.0, "down", node) for node in range(8)]
    _, past = replayed(random_records(5, 3), incidents=away)
    assert [row["nodes"] for row in job_rows(past.jobs, racks(8).names)] == [None, None, None]


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    """Columns and types do not depend on what is in them."""
    (tmp_path / "none.parquet").write_bytes(table_bytes("none.parquet", [], JOB_COLUMNS))
    assert pq.read_table(tmp_path / "none.parquet").column_names == list(JOB_COLUMNS)


def test_series_stand_on_the_clock_of_the_trace() -> None:
    """Times start at the first submission; counts are whole, means that cannot be are empty."""
    _, past = replayed(random_records(6, 20), algorithm="none")
    rows = list(series_rows(time_series(past, step=100.0), past.origin))
    assert rows[0]["time"] == past.origin
    assert sum(row["jobs_submitted"] for row in rows) == 20
    assert {type(row["failures"]) for row in rows} == {int}
    assert rows[0]["fragmentation"] is None
    assert list(rows[0]) == list(SERIES_COLUMNS)


def events(data: bytes) -> list[dict[str, Any]]:
    """Events of a Chrome trace."""
    found: list[dict[str, Any]] = json.loads(data)["traceEvents"]
    return found


def test_jobs_lie_on_their_nodes_without_overlap() -> None:
    """Each attempt is an event on each of its nodes; events of one lane follow each other; lanes are named by nodes."""
    _, past = replayed(random_records(7))
    made = events(chrome_trace(past, time_series(past), attempts_to_export(past)))
    complete = [event for event in made if event["ph"] == "X"]
    assert len(complete) == len(past.attempts.places)
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in complete:
        lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for lane in lanes.values():
        assert all(before[1] <= after[0] + 1 for before, after in pairwise(sorted(lane)))
    names = {event["args"]["name"] for event in made if event["name"] == "thread_name"}
    assert names <= set(racks(8).names)
    processes = {event["args"]["name"] for event in made if event["name"] == "process_name"}
    assert processes == {"cluster", "r0", "r1"}


def test_an_attempt_says_how_it_was_over() -> None:
    """The one that a failure cut short and the one that ended are two events."""
    records = random_records(8, 3, most=8)
    down = [Incident(records[2].submit + 1.0, "down", node) for node in range(8)]
    back = [Incident(records[2].submit + 50.0, "up", node) for node in range(8)]
    _, past = replayed(records, incidents=[*down, *back], recovery=KeepsHalf())
    made = events(chrome_trace(past, time_series(past), attempts_to_export(past)))
    how = [event["args"]["how"] for event in made if event["ph"] == "X"]
    assert "cut short by a failure" in how
    assert how.count("ended") == 3


def test_of_a_long_run_the_largest_attempts_are_written() -> None:
    """Two events have room: the two with most GPU-seconds on one node each, in order of time."""
    _, past = replayed(random_records(9, 30, most=8))
    chosen = attempts_to_export(past, most_events=2)
    worth = past.attempts.gpus * (past.attempts.end - past.attempts.begin)
    assert sorted(worth[chosen].tolist()) == sorted(worth.tolist())[-2:]


def test_the_packed_trace_is_the_same() -> None:
    """Gzip without a time stamp: same input, same bytes."""
    _, past = replayed(random_records(10, 10))
    chosen = attempts_to_export(past)
    packed = chrome_trace(past, time_series(past), chosen, packed=True)
    assert gzip.decompress(packed) == chrome_trace(past, time_series(past), chosen)
    assert packed == chrome_trace(past, time_series(past), chosen, packed=True)


def test_one_run_writes_everything(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All outputs of one run agree with its JSON; nothing else is left in the folder."""
    names = {"--jobs-out": "o.csv", "--series-out": "s.parquet", "--chrome-trace": "t.json.gz", "--html": "p.html"}
    outputs = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    assert run([*files, *outputs, "--series-step", "10", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    with (tmp_path / "o.csv").open(newline="") as file:
        waits = [float(row["wait_seconds"]) for row in csv.DictReader(file)]
    assert waits == [0.0, 90.0, 80.0]
    assert document["wait_seconds"]["mean"] == pytest.approx(170 / 3)
    table = pq.read_table(tmp_path / "s.parquet").to_pylist()
    assert [row["jobs_waiting"] for row in table[:4]] == [0.0, 1.0, 2.0, 2.0]
    assert "jobs.csv" in (tmp_path / "p.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names.values(), "cluster.csv", "jobs.csv"])


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["--jobs-out", "jobs.txt"], "--jobs-out"),
        (["--series-out", "series"], "--series-out"),
        (["--series-step", "10"], "--series-step"),
        (["--study", "study.parquet"], "--study"),
        (["--html", "x.csv", "--jobs-out", "x.csv"], "x.csv"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_run(
    files: list[str], options: list[str], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and where the mistake is."""
    assert run([*files, *options, "--json"]) == 2
    assert where in json.loads(capsys.readouterr().out)["error"]["where"]


@pytest.mark.parametrize("option", ["--jobs-out", "--series-out", "--html", "--chrome-trace"])
def test_a_place_that_cannot_be_written_to_is_an_error(
    files: list[str], option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, with the folder named."""
    assert run([*files, option, str(tmp_path / "nowhere" / "file.csv"), "--json"]) == 2
    assert "nowhere" in json.loads(capsys.readouterr().out)["error"]["where"]


def test_too_many_buckets_are_refused(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A step of a microsecond would make hundreds of millions of rows."""
    options = ["--series-out", str(tmp_path / "s.csv"), "--series-step", "1e-7", "--json"]
    assert run([*files, *options]) == 2
    assert "--series-step" in capsys.readouterr().out


def test_rows_that_say_no_format_are_refused(tmp_path: Path) -> None:
    """From Python too."""
    with pytest.raises(InvalidInput, match="says no format"):
        table_bytes("jobs.xls", [], JOB_COLUMNS)
