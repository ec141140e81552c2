"""Columns of other names, and times written in other ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from ground.errors import InvalidInput, TraceFormatError
from simulator.traces import JobTrace, parse_columns, read_trace
from simulator.traces.readers.own_tables import OPTIONAL, REQUIRED
from simulator.traces.trace_loading import SYNONYMS
from tests.facts import says
from tests.simulator.traces.trace_samples import SACCT


def read(folder: Path, text: str, *pairs: str, time_format: str | None = None) -> JobTrace:
    """Read a text strictly, with pairs of ``--column``."""
    (folder / "t").write_text(text, encoding="utf-8")
    return read_trace(folder / "t", columns=parse_columns(pairs), time_format=time_format)


@pytest.mark.parametrize(
    ("header", "fix"),
    [
        ("job_id,submit_time,duration,num_gpu", "num_gpu is there: --column gpus=num_gpu"),
        ("job_id,arrival_time,run_time,gpus", "--column submit_time=arrival_time --column duration=run_time"),
        ("Id,Arrival,Runtime,N_GPUs", "Id and Arrival and Runtime and N_GPUs are there: --column job_id=Id"),
        ("job_id,submit_time,gpus,start,finish", "--column start_time=start --column end_time=finish"),
    ],
)
def test_synonyms_are_offered_and_then_read(header: str, fix: str, tmp_path: Path) -> None:
    """What the error says to add is enough."""
    row = ",".join(
        {"job_id": "a", "Id": "a", "gpus": "8", "finish": "70"}.get(name, "10") for name in header.split(",")
    )
    with pytest.raises(TraceFormatError, match="is missing") as error:
        read(tmp_path, f"{header}\n{row}\n")
    assert fix in error.value.fix
    pairs = error.value.fix.partition(": ")[2].replace("--column ", "").split()
    assert len(read(tmp_path, f"{header}\n{row}\n", *pairs)) == 1


def test_json_lines_are_told_to_rename(tmp_path: Path) -> None:
    """There ``--column`` has no header to change."""
    with pytest.raises(TraceFormatError) as error:
        read(tmp_path, '{"job_id": "a", "submit_time": 0, "duration": 1, "num_gpus": 8}\n')
    assert says(error.value.fix, "rename num_gpus to gpus")


def test_only_tables_have_a_header_to_rename(tmp_path: Path) -> None:
    """JSON and Parquet are told apart before their first bytes are taken for columns."""
    with pytest.raises(TraceFormatError, match="is no CSV"):
        read(tmp_path, '{"job_id": "a", "submit_time": 0, "duration": 1, "num_gpus": 8}\n', "gpus=num_gpus")


def test_a_column_is_replaced(tmp_path: Path) -> None:
    """A column of our name that is not meant is not read; the first line may have a mark and Windows ends."""
    trace = read(tmp_path, "\ufeffjob_id,submit_time,duration,gpus,busy\r\na,0,99,8,10\r\n", "duration=busy")
    assert trace.records[0].duration == 10.0
    (note,) = trace.notes
    assert says(note, "not read", "duration'")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["gpus"], "'gpus' is no pair of names"),
        (["gpus="], "is no pair of names"),
        (["gpus=a", "gpus=b"], "names a column twice"),
        (["gpus=a", "nodes=a"], "names a column twice"),
    ],
)
def test_pairs_that_are_none(pairs: list[str], message: str) -> None:
    """The option is named."""
    with pytest.raises(InvalidInput, match=message) as error:
        parse_columns(pairs)
    assert error.value.where == "--column"


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    """The near one is offered."""
    with pytest.raises(TraceFormatError, match="has no column 'gpuss'") as error:
        read(tmp_path, "job_id,submit_time,duration,gpus\na,0,1,1\n", "gpus=gpuss")
    assert "did you mean 'gpus'?" in error.value.fix


def test_a_pair_the_wrong_way_round(tmp_path: Path) -> None:
    """NAME is that of the format."""
    with pytest.raises(TraceFormatError, match="has no column 'gpus'") as error:
        read(tmp_path, "job_id,submit_time,duration,num_gpu\na,0,1,1\n", "num_gpu=gpus")
    assert says(error.value.fix, "--column gpus=num_gpu")


@pytest.mark.parametrize(
    ("text", "pair", "fix"),
    [
        ("job_id,submit_time,duration,num_gpu\na,0,1,1\n", "gpu=num_gpu", "--column gpus=num_gpu"),
        (SACCT, "Submitt=Eligible", "--column submit=Eligible"),  # else Eligible would be gone, and nothing said
    ],
)
def test_a_name_that_the_format_nearly_has(text: str, pair: str, fix: str, tmp_path: Path) -> None:
    """The column would be renamed and then not read."""
    with pytest.raises(TraceFormatError, match="has no column") as error:
        read(tmp_path, text, pair)
    assert fix in error.value.fix


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_separators_are_named(mark: str, name: str, tmp_path: Path) -> None:
    """As spreadsheets write them in some countries."""
    with pytest.raises(TraceFormatError, match=name):
        read(tmp_path, "job_id,submit_time,duration,gpus\na,0,1,1\n".replace(",", mark))


def test_synonyms_are_none_of_our_names() -> None:
    """A synonym of one column that is another column of ours would be taken from there."""
    assert not set(SYNONYMS) & {*REQUIRED, *OPTIONAL}


@pytest.mark.parametrize(
    ("time", "time_format", "expected"),
    [
        ("03.10.2017 14:05:00", "%d.%m.%Y %H:%M:%S", 1507039500.0),  # date -u -d '2017-10-03 14:05' +%s
        ("1507039500000", "milliseconds", 1507039500.0),
        ("1507039500000000", "microseconds", 1507039500.0),
        ("2017-10-03T16:05:00+02:00", None, 1507039500.0),
        ("2017-10-03T14:05:00Z", "seconds", 1507039500.0),
    ],
)
def test_formats_of_times(time: str, time_format: str | None, expected: float, tmp_path: Path) -> None:
    """Patterns of strptime, units of numbers, ISO dates."""
    trace = read(tmp_path, f"job_id,submit_time,duration,gpus\na,{time},1,1\n", time_format=time_format)
    assert trace.records[0].submit == expected


def test_several_zones_are_told(tmp_path: Path) -> None:
    """All become UTC, and a note says so."""
    rows = "a,2017-10-03 14:00:00+02:00,1,1\nb,2017-10-03 13:00:00+01:00,1,1\n"
    trace = read(tmp_path, f"job_id,submit_time,duration,gpus\n{rows}")
    assert {record.submit for record in trace.records} == {1507032000.0}
    (note,) = trace.notes
    assert says(note, "several UTC offsets")


@pytest.mark.parametrize(
    ("time", "time_format", "message", "fix"),
    [
        ("03.10.2017", None, "neither a number of seconds nor a date", "say with --time-format"),
        ("2017", "%d.%m.%Y", "not a time as '%d.%m.%Y' has it", "--time-format of all times"),
        ("2017", "%Q", "'Q' is a bad directive", "pattern of strptime"),
        ("2017", "fortnights", "'fortnights' is no format of times", "milliseconds"),
        ("1507039500000", None, "submit_time is 1.50704e.12", "--time-format milliseconds"),
    ],
)
def test_times_that_are_none(time: str, time_format: str | None, message: str, fix: str, tmp_path: Path) -> None:
    """The error says which option there is."""
    with pytest.raises(InvalidInput, match=message) as error:
        read(tmp_path, f"job_id,submit_time,duration,gpus\na,{time},1,1\n", time_format=time_format)
    assert fix in error.value.fix


def test_a_column_without_a_name_is_said(tmp_path: Path) -> None:
    """The index that pandas writes has none."""
    trace = read(tmp_path, ",job_id,submit_time,duration,gpus\n0,a,10,60,8\n")
    assert says(trace.notes, "not read", "without a name")
