"""Rows and files that are wrong: strict reading names the line, lenient reading counts."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from ground.errors import TraceFormatError
from simulator.traces import read_trace
from tests.facts import saying, says

HEAD = "job_id,submit_time,duration,gpus,nodes,start_time,end_time,announced,tp,dp,preemptible\n"
GOOD = "good,0,10,1,,,,,,,\n"


@pytest.mark.parametrize(
    ("row", "reason", "message"),
    [
        ("a,0,0,1,,,,,,,", "zero duration", "ran for 0 seconds"),
        ("a,0,-5,1,,,,,,,", "negative duration", "ran for -5 seconds"),
        ("a,0,1e15,1,,,,,,,", "duration too long", "ran for 1e"),
        ("a,0,nan,1,,,,,,,", "not a number", "duration is nan"),
        ("a,0,inf,1,,,,,,,", "not a number", "duration is inf"),
        ("a,0,ten,1,,,,,,,", "not a number", "duration is 'ten', not a number"),
        ("a,0,,1,,,,,,,", "has not ended", "job a has not ended"),
        ("a,0,10,0,,,,,,,", "no GPUs", "job a has no GPUs"),
        ("a,0,10,-8,,,,,,,", "impossible GPUs", "has -8 GPUs"),
        ("a,0,10,2.5,,,,,,,", "impossible GPUs", "has 2.5 GPUs"),
        ("a,0,10,1e12,,,,,,,", "impossible GPUs", "has 1e"),
        ("a,0,10,,,,,,,,", "not a number", "gpus is empty"),
        ("a,0,10,8,0,,,,,,", "impossible nodes", "8 GPUs on 0 nodes"),
        ("a,0,10,8,9,,,,,,", "impossible nodes", "8 GPUs on 9 nodes"),
        ("a,0,10,8,1.5,,,,,,", "not a whole number", "nodes is 1.5"),
        ("a,0,10,8,,,,,1e300,,", "not a whole number", r"tp is 1e\+300"),
        (",0,10,8,,,,,,,", "no id", "the job has no id"),
        ("good,0,10,8,,,,,,,", "duplicate id", r"job good is there twice \(first at .*:2\)"),
        ("a,2017-10-03 14:00,10,8,,,,,,,", "mixed clocks", "submit_time is a date without a time zone"),
        ("a,1700000000000,10,8,,,,,,,", "not a time", "submit_time is 1.7e"),
        ("a,,10,8,,,,,,,", "not a time", "submit_time is empty"),
        ("a,noon,10,8,,,,,,,", "not a time", "submit_time is 'noon', neither"),
        ("a,100,10,8,,,50,,,,", "submitted too late", "ends at 50 and is submitted at 100"),
        ("a,100,,8,,90,150,,,,", "submitted too late", "starts at 90 and is submitted at 100"),
        ("a,100,10,8,,,,101,,,", "announced too late", "announced at 101"),
        ("a,0,10,8,,,,,8,2,", "parallelism", "has 8 GPUs, its parallelism 16"),
        ("a,0,10,8,,,,,0,2,", "parallelism", "tp is 0"),
        ("a,0,10,8,,,,,,,perhaps", "not true or false", "preemptible is 'perhaps'"),
        ("a,0,10", "cells missing", "the row has 3 cells, the header 11"),
        ("a,0,10,8,,,,,,,,", "too many cells", "the row has 12 cells"),
    ],
)
def test_rows_that_are_no_jobs(row: str, reason: str, message: str, tmp_path: Path) -> None:
    """Strict: an error that names the line and offers --lenient.  Lenient: the others are read, this one counted."""
    file = tmp_path / "jobs.csv"
    file.write_text(HEAD + GOOD + row + "\n", encoding="utf-8")
    with pytest.raises(TraceFormatError, match=message) as error:
        read_trace(file)
    assert error.value.where == f"{file}:3"
    assert says(error.value.fix, "--lenient")
    trace = read_trace(file, lenient=True)
    assert trace.dropped == {reason: 1}
    assert [record.job_id for record in trace.records] == ["good"]


@pytest.mark.parametrize(
    ("cells", "reason", "message", "fix"),
    [
        ({"alpha": 1.5}, "alpha", "alpha is 1.5", "between 0 and 1"),
        ({"alpha": "high"}, "not a number", "alpha is 'high'", "as a number"),
        ({"microbatches": 0}, "microbatches", "microbatches is 0", "at least 1"),
        ({"avoid": "prize"}, "avoid", "avoid is 'prize'", "did you mean 'price'"),
        ({"order": "tp-dp"}, "parallelism", "there are no degrees to order", "give degrees"),
        ({"order": "tp-dp", "tp": 8}, "parallelism", "does not name tp, cp, ep, dp and pp", "for example order"),
        ({"model": {"hidden": 8}}, "model", "model: .* is missing", "add "),
        ({"model": '{"hiden": 8}'}, "model", "unknown key 'hiden'", "did you mean 'hidden'"),
        ({"constraints": [{"family": "dp"}]}, "constraints", "give either within", "correct"),
        ({"constraints": "[{family: dq, within: rack}]"}, "constraints", "not 'dq'", "correct"),
        ({"constraints": "family: dp"}, "constraints", "valid list", "correct"),
        ({"model": [1]}, "model", "keys with values", "correct"),
        ({"gpu_types": [100]}, "gpu_types", "names no types", r"like H200,H100"),
        ({"tp_level": ["rack"], "tp": 8}, "not text", r"tp_level is \['rack'\]", "as text"),
        ({"job_id": {"a": 1}}, "not text", "job_id is ", "as text"),
        ({"job_id": "a\x1b[31m"}, "not text", "control characters", "printable"),
        ({"alpha": True}, "not a number", "alpha is 'True'", "as a number"),
        ({"gpus": True}, "not a number", "gpus is 'True'", "as a number"),
        ({"user": ["ann"]}, "not text", "user is ", "as text"),
    ],
)
def test_what_a_job_cannot_ask(cells: dict[str, object], reason: str, message: str, fix: str, tmp_path: Path) -> None:
    """Every column that placement looks at, with what to write instead."""
    (tmp_path / "trace").write_text(
        "".join(
            json.dumps({"job_id": name, "submit_time": 0, "duration": 1, "gpus": 8, **more}) + "\n"
            for name, more in (("good", {}), ("bad", cells))
        )
    )
    with pytest.raises(TraceFormatError, match=message) as error:
        read_trace(tmp_path / "trace")
    assert error.value.where.endswith(":2")
    assert fix in error.value.fix
    assert read_trace(tmp_path / "trace", lenient=True).dropped == {reason: 1}


def test_time_zones_must_be_all_or_none(tmp_path: Path) -> None:
    """A date with an offset among dates without one could be hours away from them."""
    file = tmp_path / "jobs.csv"
    file.write_text(
        "job_id,submit_time,duration,gpus\na,2017-10-03 14:00:00+08:00,1,1\nb,2017-10-03 14:00:00,1,1\n",
        encoding="utf-8",
    )
    with pytest.raises(TraceFormatError, match=saying("without a time zone", "with a time zone")):
        read_trace(file)
    assert read_trace(file, lenient=True).dropped == {"mixed clocks": 1}


def _packed(rows: int) -> bytes:
    """A packed trace of many rows of random numbers, which do not pack well."""
    numbers = random.Random(1)
    lines = [f"j{i},{numbers.random()},{numbers.random()},1\n" for i in range(rows)]
    return gzip.compress(("job_id,submit_time,duration,gpus\n" + "".join(lines)).encode())


@pytest.mark.parametrize("rows", [20, 5_000])
def test_gzip_that_is_cut_off(rows: int, tmp_path: Path) -> None:
    """Strict refuses it; lenient keeps the whole lines before the cut and says so.  Also if the cut is in the head."""
    file = tmp_path / "jobs.csv.gz"
    data = _packed(rows)
    file.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(TraceFormatError, match="cut off"):
        read_trace(file)
    trace = read_trace(file, lenient=True)
    assert 0 < len(trace) < rows
    assert trace.dropped == {"cut off": 1}
    assert any("cut off at" in note for note in trace.notes)
    assert trace.records == in_order_of_submission(read_whole(data, tmp_path), len(trace))


def read_whole(data: bytes, folder: Path) -> list[tuple[str, object]]:
    """The jobs of the whole file by their place in it."""
    (folder / "whole").write_bytes(data)
    return [(record.job_id, record) for record in read_trace(folder / "whole").records]


def in_order_of_submission(jobs: list[tuple[str, object]], count: int) -> tuple[object, ...]:
    """The first jobs of the file, as many as were kept, in order of submission."""
    kept = {f"j{i}" for i in range(count)}
    return tuple(record for name, record in jobs if name in kept)


def test_gzip_that_is_damaged(tmp_path: Path) -> None:
    """Bytes changed in the middle are no end: nothing of the file is believed, lenient or not."""
    file = tmp_path / "jobs.csv.gz"
    data = bytearray(_packed(5_000))
    data[len(data) // 2 : len(data) // 2 + 200] = b"\xff" * 200
    file.write_bytes(bytes(data))
    for lenient in (False, True):
        with pytest.raises(TraceFormatError):
            read_trace(file, lenient=lenient)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"job_id,submit_time,duration,gpus\n", "holds no jobs"),
        (b"job_id,submit_time,duration,gpus\na,0,1,1\nb\xff,0,1,1\n", "not UTF-8"),
        (b"job_id,submit_time,duration,gpus\na,0,1,1\nb\0,0,1,1\n", "binary"),
        (b'job_id,submit_time,duration,gpus\n"a,0,1,1\n', "not CSV"),
        (b"PAR1 and then nothing", "not a whole Parquet file"),
        (b'{"job_id": "a", "submit_time": 0, "duration": 1, "gpus": 1}\n{"job_id"\n', "is not JSON, or was cut off"),
        (b"1 0 10 3600 64 -1 -1 128 7200 -1 1 3 1 -1 2 -1 -1 -1\n2 0 10\n", "3 fields, the format 18"),
        (b"1 -1 10 3600 64 -1 -1 128 7200 -1 1 3 1 -1 2 -1 -1 -1\n", r"submit time \(field 2\) is -1"),
        (b"1 0 10 -1 64 -1 -1 128 7200 -1 1 3 1 -1 2 -1 -1 -1\n", r"run time \(field 4\) of job 1 is unknown"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "in no format that is known"),
    ],
)
def test_files_that_are_no_traces(data: bytes, message: str, tmp_path: Path) -> None:
    """Never a traceback: what is wrong, where, and what to do."""
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(TraceFormatError, match=message) as error:
        read_trace(file)
    assert error.value.where.startswith(str(file))
    assert error.value.fix


def test_a_trace_of_bad_rows_alone(tmp_path: Path) -> None:
    """Lenient reading that keeps nothing is an error too, which says what became of the rows."""
    file = tmp_path / "file"
    file.write_text("job_id,submit_time,duration,gpus\na,0,0,1\n", encoding="utf-8")
    with pytest.raises(TraceFormatError, match=saying("no jobs", "1 zero duration")):
        read_trace(file, lenient=True)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    """A missing file and a directory."""
    with pytest.raises(TraceFormatError, match="no such file"):
        read_trace(tmp_path / "none")
    with pytest.raises(TraceFormatError, match="directory"):
        read_trace(tmp_path)


def test_helios_that_ends_before_it_is_submitted(tmp_path: Path) -> None:
    """The error writes the time as the file does."""
    file = tmp_path / "file"
    file.write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1,u,v,1,1,1,FAILED,2020-06-09 18:00:00,2020-06-09 17:00:00,2020-06-09 17:30:00,1800,0\n",
        encoding="utf-8",
    )
    with pytest.raises(TraceFormatError, match=saying("2020-06-09 17:30:00", "2020-06-09 18:00:00")):
        read_trace(file)


def test_json_lines_that_lack_a_key(tmp_path: Path) -> None:
    """In the first line it is the wrong file; in a later one a bad row.  Keys that may be absent may come and go."""
    good = '{"job_id": "a", "submit_time": 0, "duration": 1, "gpus": 1}\n'
    more = '{"job_id": "b", "submit_time": 0, "duration": 1, "gpus": 1, "user": "u"}\n'
    lacks = '{"job_id": "c", "submit_time": 0, "duration": 1}\n'
    file = tmp_path / "jobs.jsonl"
    file.write_text(good + more + lacks, encoding="utf-8")
    with pytest.raises(TraceFormatError, match=saying("the column 'gpus'")) as error:
        read_trace(file)
    assert error.value.where == f"{file}:3"
    trace = read_trace(file, lenient=True)
    assert trace.dropped == {"keys missing": 1}
    assert [record.user for record in trace.records] == ["", "u"]
    file.write_text(lacks + good, encoding="utf-8")
    with pytest.raises(TraceFormatError, match=saying("the column 'gpus'")):
        read_trace(file, lenient=True)


@pytest.mark.parametrize(
    ("digits", "message"), [(400, "gpus is inf"), (5_000, "holds a number of more than 4,300 digits")]
)
@pytest.mark.parametrize("first", [True, False])
def test_whole_numbers_beyond_all_floats(digits: int, message: str, *, first: bool, tmp_path: Path) -> None:
    """JSON holds integers of any length: told with the line, also where the format has to be recognised by it."""
    good = '{"job_id": "good", "submit_time": 0, "duration": 10, "gpus": 1}\n'
    bad = '{"job_id": "a", "submit_time": 0, "duration": 10, "gpus": ' + "9" * digits + "}\n"
    file = tmp_path / "jobs.jsonl"
    file.write_text(bad + good if first else good + bad)
    with pytest.raises(TraceFormatError, match=message) as error:
        read_trace(file)
    assert error.value.where == f"{file}:{1 if first else 2}"
    assert [record.job_id for record in read_trace(file, lenient=True).records] == ["good"]
