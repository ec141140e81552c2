"""Traces come as files or through a pipe, plain or gzip, and are recognised by content."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest

from ground.errors import TraceFormatError, UnknownName
from simulator.traces import read_trace
from simulator.traces.trace_loading import TRACE_READERS
from tests.facts import saying, says
from tests.simulator.traces.trace_samples import SAMPLES

OURS = b"job_id,submit_time,duration,gpus\na,0,1,1\n"


class Pipe:
    """Standard input that gives its bytes a few at a time."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BufferedReader(_Drops(data), 7)


class _Drops(io.RawIOBase):
    def __init__(self, data: bytes) -> None:
        self._rest = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._rest.read(min(5, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def test_all_formats_are_registered() -> None:
    """Each under its own name, and each says all of itself."""
    formats = [TRACE_READERS.load(name).format for name in TRACE_READERS.names()]
    assert [one.name for one in formats] == list(TRACE_READERS.names())
    for one in formats:
        assert all((one.source, one.export, one.read)), one.name
        assert [mark for mark in one.marks if mark not in SAMPLES.get(one.name, mark).lower()] == []


def test_the_nearest_format_is_named(tmp_path: Path) -> None:
    """And what is missing for it."""
    (tmp_path / "t").write_text('[{"jobid": "a", "attempts": []}]')
    with pytest.raises(TraceFormatError, match=saying("philly-log", '"submitted_time"')):
        read_trace(tmp_path / "t")


@pytest.mark.parametrize(
    "data",
    [OURS, gzip.compress(OURS, mtime=0), b"\xef\xbb\xbf" + OURS, OURS.replace(b"\n", b"\r\n")],
    ids=["plain", "gzip", "byte order mark", "carriage returns"],
)
def test_file_and_standard_input(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain, packed, with a byte order mark or with Windows lines, from a file or a slow pipe: the same job."""
    (tmp_path / "t").write_bytes(data)
    trace = read_trace(tmp_path / "t")
    monkeypatch.setattr(sys, "stdin", Pipe(data))
    piped = read_trace("-")
    assert piped.source == "stdin"
    assert trace.records == piped.records
    assert trace.records[0].job_id == "a"


def test_the_name_of_a_file_says_nothing(tmp_path: Path) -> None:
    """A trace of another format under this name is read as what it is."""
    (tmp_path / "philly.csv.gz").write_bytes(OURS)
    assert read_trace(tmp_path / "philly.csv.gz").format == "csv"


def test_format_overrides(tmp_path: Path) -> None:
    """What --format says is believed, and then columns are missing."""
    (tmp_path / "t").write_bytes(OURS)
    with pytest.raises(TraceFormatError, match=saying("'timestamp'", "philly")):
        read_trace(tmp_path / "t", format="philly")
    with pytest.raises(UnknownName, match=saying("'phily'")) as error:
        read_trace(tmp_path / "t", format="phily")
    assert "did you mean 'philly'?" in error.value.fix


@pytest.mark.parametrize(
    ("header", "message", "fix"),
    [
        ("job_id,submit_time,duration,gpu", "the column 'gpus' is missing", "gpu is there: --column gpus=gpu"),
        ("jobid,submit_time,duration,gpus", "the column 'job_id' is missing", "jobid is there: --column job_id=jobid"),
        ("job_id,submit_time,duration,gpuz", "the column 'gpus' is missing", "did you mean 'gpuz'?"),
        ("job_id,submit_time,start_time,gpus", "the column 'duration' is missing", "add the column"),
        ("timestamp,duration,gpus,gpu_time,cluster", "the column 'num_gpus' is missing", "did you mean 'gpus'?"),
        ("job_id,submit_time,duration,gpus,prioritty", "'prioritty' looks like 'priority'", "did you mean 'priority'?"),
        ("job_id,submit_time,duration,gpus,gpus", "two columns are called 'gpus'", "its own name"),
        ("job_id,submit,submit_time,duration,gpus", "has both submit and submit_time", "keep one"),
        (
            "job_id,user,vc,gpu_nums,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue",
            "the column 'gpu_num' is missing",
            "did you mean 'gpu_nums'?",
        ),
    ],
)
def test_columns_missing_or_renamed(header: str, message: str, fix: str, tmp_path: Path) -> None:
    """The format that most columns belong to is taken, and says which one it misses and what was probably meant."""
    (tmp_path / "t").write_text(f"{header}\n{','.join('1' for _ in header.split(','))}\n", encoding="utf-8")
    with pytest.raises(TraceFormatError, match=message) as error:
        read_trace(tmp_path / "t")
    assert error.value.where == f"{tmp_path / 't'}:1"
    assert fix in error.value.fix


def test_what_is_no_trace_is_told_what_would_be_one(tmp_path: Path) -> None:
    """A cluster file is no trace; the error lists the formats."""
    (tmp_path / "t").write_text("node,minipod\nn1,m1\n", encoding="utf-8")
    with pytest.raises(TraceFormatError, match=saying("format")) as error:
        read_trace(tmp_path / "t")
    assert all(name in error.value.fix for name in TRACE_READERS.names())
    assert says(error.value.fix, "arnold formats jobs")


def test_the_job_table_of_pai_is_refused_by_name(tmp_path: Path) -> None:
    """It is a file of the same data set, and says nothing of GPUs."""
    (tmp_path / "t").write_text("j1,i1,u1,Terminated,1.0,2.0\n", encoding="utf-8")
    with pytest.raises(TraceFormatError, match="job table") as error:
        read_trace(tmp_path / "t")
    assert says(error.value.fix, "cat pai_task_table.csv pai_job_table.csv")
