"""Files of metrics, good and bad: nothing that cannot be read becomes evidence."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyarrow import parquet

from ground.errors import InvalidInput
from health.peers.recording_files import load_recording
from health.peers.sample_sources import SampleColumns
from health.peers.streams import MetricRecording
from tests.case_counts import examples
from tests.facts import saying, says

HEADER = "time,machine,metric,value\n"
ROWS = "".join(f"{t},n{m},cpu_usage,{10 * m + t}\n" for t in range(3) for m in range(2))

Read = Callable[..., MetricRecording]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read text or bytes as a file."""

    def call(content: str | bytes, **how: Any) -> MetricRecording:
        file = tmp_path / "metrics.dat"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_recording(str(file), **how)

    return call


def as_rows(recording: MetricRecording) -> list[tuple[str, float, str, float]]:
    """All samples as (metric, time, machine, value), sorted."""
    return sorted(
        (name, float(t), one.machines[m], float(v))
        for name, one in recording.metrics.items()
        for t, m, v in zip(one.time, one.machine, one.value, strict=True)
    )


EXPECTED = sorted(("cpu_usage", float(t), f"n{m}", 10.0 * m + t) for t in range(3) for m in range(2))


def parquet_bytes(**columns: Any) -> bytes:
    """A Parquet file in memory."""
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


GOOD = {
    "time": [t for t in range(3) for _ in range(2)],
    "machine": [f"n{m}" for _ in range(3) for m in range(2)],
    "metric": ["cpu_usage"] * 6,
    "value": [10 * m + t for t in range(3) for m in range(2)],
}


def test_csv_and_parquet_say_the_same(read: Read) -> None:
    """The same table in both formats is the same recording."""
    assert as_rows(read(HEADER + ROWS)) == EXPECTED
    assert as_rows(read(parquet_bytes(**GOOD))) == EXPECTED


def test_other_names_of_columns(read: Read) -> None:
    """Columns may be called otherwise, and a table of one metric needs no column for it."""
    text = ",worker,gpu,time,batch_time\n" + "".join(f"{k},{k % 2},25,{k},{k}\n" for k in range(4))
    found = read(text, columns=SampleColumns(machine="worker", metric=None, value="batch_time"))
    assert list(found.metrics) == ["batch_time"]
    assert found.machines == ["0", "1"]


@pytest.mark.parametrize(
    "times",
    [
        [1_800_000_000 + k for k in range(6)],
        [1_800_000_000_000 + 1000 * k for k in range(6)],
        [(1_800_000_000 + k) * 10**6 for k in range(6)],
        [(1_800_000_000 + k) * 10**9 for k in range(6)],
        [datetime.fromtimestamp(1_800_000_000 + k, UTC) for k in range(6)],
        [datetime.fromtimestamp(1_800_000_000 + k, UTC).isoformat() for k in range(6)],
    ],
    ids=["seconds", "milliseconds", "microseconds", "nanoseconds", "timestamps", "ISO"],
)
def test_times_in_every_form(read: Read, times: list[Any]) -> None:
    """Seconds, parts of them and dates since 1970 are the same instants."""
    found = read(parquet_bytes(**{**GOOD, "time": times}))
    assert found.absolute
    time = np.sort(found.metrics["cpu_usage"].time)
    assert np.allclose(time, 1_800_000_000 + np.arange(6), atol=1e-3)


def test_a_time_that_is_one_in_no_unit(read: Read) -> None:
    """Nanoseconds of the year 5138 are the most that is read as a time."""
    with pytest.raises(InvalidInput, match=saying("time", "unit")):
        read(HEADER + "1e300,n0,m,1\n")


def test_dates_in_csv(read: Read) -> None:
    """Dates with and without a zone; without one they are UTC."""
    found = read(HEADER + "2027-01-15T08:00:00Z,n0,m,1\n2027-01-15T08:00:01Z,n0,m,1\n")
    assert found.absolute
    assert found.metrics["m"].time.tolist() == [1_800_000_000.0, 1_800_000_001.0]
    assert not found.notes
    naive = read(HEADER + "2027-01-15 08:00:00,n0,m,1\n2027/01/15 08:00:01,n0,m,1\n")
    of_arrow = read(parquet_bytes(**{**GOOD, "time": [datetime(2027, 1, 15, 8, 0, k) for k in range(6)]}))
    assert naive.metrics["m"].time.tolist() == found.metrics["m"].time.tolist()
    assert [says(one.notes, "time zone", "UTC") for one in (naive, of_arrow)] == [True, True]


def test_only_some_machines(read: Read) -> None:
    """Machines of other jobs are left out, and one that is missing is named."""
    found = read(HEADER + ROWS, machines=["n1", "n7"])
    assert found.machines == ["n1"]
    assert any("n7" in note for note in found.notes)
    with pytest.raises(InvalidInput, match=saying("no sample")):
        read(HEADER + ROWS, machines=["x"])


def test_missing_values_are_missing_samples(read: Read) -> None:
    """An empty cell and NaN are no evidence of anything: counted, not judged."""
    found = read(HEADER + ROWS + "3,n0,cpu_usage,\n3,n1,cpu_usage,NaN\n")
    assert as_rows(found) == EXPECTED
    (note,) = found.notes
    assert says(note, "2 samples", "missing")


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        ("", "", "empty"),
        ("  \n", "", "empty"),
        (HEADER, "", "no rows"),
        ("time,machine,value\n1,n0,2\n", ":1", "no column 'metric'"),
        ("a;b\n1;2\n", ":1", "semicolons between"),
        ("a\tb\n1\t2\n", ":1", "tabs between"),
        (HEADER + ROWS + "3,n0,cpu_usage,much\n", ":8", "'much'"),
        (HEADER + "noon,n0,cpu_usage,1\n", ":2", "'noon'"),
        (HEADER + ROWS + "3,n0,cpu_usage\n", ":8", "not CSV"),
        (HEADER + ROWS + "3,,cpu_usage,1\n", ":8", "no machine"),
        (HEADER + ROWS + ",n0,cpu_usage,1\n", ":8", "no time"),
        (HEADER + ROWS + "3,n0,cpu_usage,inf\n", ":8", "infinite"),
        (b"\x7fELF\0\0\1\2", "", "binary"),
        (pickle.dumps({"time": [1]}), "", "binary"),
        (b"PAR1 and then nothing", "", "not a whole Parquet file"),
        (parquet_bytes(**GOOD)[:-40], "", "not a whole Parquet file"),
        (parquet_bytes(**GOOD)[:20], "", "not a whole Parquet file"),
        (parquet_bytes(**GOOD) + b"PAR1", "", "not a whole Parquet file"),
        (parquet_bytes(**{name: column[:0] for name, column in GOOD.items()}), "", "no rows"),
        (parquet_bytes(**{**GOOD, "value": ["a"] * 6}), "row 1", "'a'"),
        (parquet_bytes(**{**GOOD, "value": [float("nan")] * 6}), "", "no usable sample"),
        (parquet_bytes(**{**GOOD, "value": [1.0] * 5 + [float("inf")]}), "row 6", "infinite"),
        (parquet_bytes(**{**GOOD, "time": [0.0, float("nan"), 1.0, 1.0, 2.0, 2.0]}), "row 2", "no time"),
        (parquet_bytes(**{**GOOD, "machine": ["n0", "n1", None, "n1", "n0", "n1"]}), "row 3", "no machine"),
        (parquet_bytes(**{**GOOD, "value": [[1.0]] * 6}), "row 1", "not of numbers"),
        (parquet_bytes(time=[1], machine=["a"], value=[1.0]), "", "no column 'metric'"),
        ('{"status": "success"}', "", "not an answer"),
        ('{"status": "error", "error": "parse error"}', "", "parse error"),
        ('{"status": "success", "data": {"resultType": "scalar", "result": []}}', "", "'scalar'"),
        ('{"status": "success", "data": {"resultType": "matrix", "result": []}}', "", "no usable sample"),
        ('{"status": "succ', ":1", "truncated"),
    ],
)
def test_bad_files(read: Read, content: str | bytes, place: str, words: str) -> None:
    """Each fault has its message, with the row where there is one, and a way out."""
    with pytest.raises(InvalidInput) as caught:
        read(content)
    assert words in caught.value.message
    assert "metrics.dat" in caught.value.where
    assert caught.value.where.endswith(place)
    assert caught.value.fix


class Hostile:
    """Unpickled, it makes a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("lenient", [False, True])
def test_a_hostile_pickle_is_never_unpickled(read: Read, tmp_path: Path, protocol: int, lenient: bool) -> None:
    """Of any protocol, by itself or as the type of a Parquet column: an error or plain numbers, and nothing is run."""
    trace = tmp_path / "unpickled"
    payload = pickle.dumps(Hostile(trace), protocol)
    with pytest.raises(InvalidInput):
        read(payload, lenient=lenient)
    type_of = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": payload}
    field = pa.field("value", pa.float64(), metadata=type_of)
    table = pa.table(GOOD)
    column = table.column("value").cast(pa.float64())
    sink = pa.BufferOutputStream()
    parquet.write_table(table.set_column(3, field, column), sink)
    assert as_rows(read(bytes(sink.getvalue().to_pybytes()), lenient=lenient)) == EXPECTED
    assert not trace.exists()
    pickle.loads(payload)
    assert trace.exists(), "the pickle would have done it"


@given(st.integers(0, len(parquet_bytes(**GOOD)) - 1))
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parquet_cut_off_anywhere_is_refused(read: Read, length: int) -> None:
    """Wherever a copy broke off: an error, and never a part of the samples."""
    with pytest.raises(InvalidInput):
        read(parquet_bytes(**GOOD)[:length], lenient=True)


def test_no_such_file(tmp_path: Path) -> None:
    """A missing file and a directory are said to be so."""
    with pytest.raises(InvalidInput, match="no such file"):
        load_recording(str(tmp_path / "none"))
    with pytest.raises(InvalidInput, match="directory"):
        load_recording(str(tmp_path))


def test_lenient_leaves_bad_rows_out_and_counts_them(read: Read) -> None:
    """Six good rows survive; what was dropped is said, with the first place."""
    bad = "3,,cpu_usage,1\nnoon,n0,cpu_usage,1\n3,n0,cpu_usage,inf\n3,n0,cpu_usage\n3,n0,cpu_usage,much\n"
    found = read(HEADER + ROWS + bad, lenient=True)
    assert as_rows(found) == EXPECTED
    told = " / ".join(found.notes)
    assert says(told, "1 rows", "number of cells")
    assert "metrics.dat:8, has no machine" in told
    assert "1 rows: the first" in told
    assert "1 samples without a value" in told


def series(machine: str, values: list[list[Any]], **labels: str) -> dict[str, Any]:
    """One series of a matrix."""
    return {"metric": {"Hostname": machine, **labels}, "values": values}


def answer(*found: dict[str, Any]) -> dict[str, Any]:
    """An answer of Prometheus."""
    return {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}


def test_prometheus_answers(read: Read) -> None:
    """Two answers in a list, one with the exporter's name for a metric, one of an expression without a name."""
    first = answer(
        series("n1", [[1.8e9, "50"], [1.8e9 + 1, "NaN"]], __name__="DCGM_FI_DEV_GPU_UTIL"),
        series("n2", [[1.8e9, "60"]], __name__="DCGM_FI_DEV_GPU_UTIL"),
    )
    second = answer({"metric": {"instance": "n1:9400"}, "values": [[1.8e9, "7"]]}) | {"warnings": ["store away"]}
    found = read(json.dumps([first, second]))
    assert as_rows(found) == [
        ("gpu_duty_cycle", 1.8e9, "n1", 50.0),
        ("gpu_duty_cycle", 1.8e9, "n2", 60.0),
        ("value", 1.8e9, "n1", 7.0),
    ]
    note, warning = found.notes
    assert says(note, "missing", "1 sample", "DCGM's blank")
    assert warning == "Prometheus warns: store away"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"metric": {"gpu": "0"}, "values": [[1, "2"]]}, "none of the labels"),
        ({"metric": {"node": "n"}, "values": [[1, "much"]]}, "not [seconds, number]"),
        ({"metric": {"node": "n"}, "values": [[1, "2", "3"], [4]]}, "not [seconds, number]"),
        ({"values": [[1, "2"]]}, "no labels"),
        ("nonsense", "no labels"),
    ],
)
def test_bad_series(read: Read, bad: Any, words: str) -> None:
    """A broken series is refused with its number, or left out and counted with --lenient."""
    good = series("n1", [[1.0, "50"]], __name__="m")
    text = json.dumps(answer(good, bad))
    with pytest.raises(InvalidInput) as caught:
        read(text)
    assert words in caught.value.message
    assert caught.value.where.endswith("series 2")
    found = read(text, lenient=True)
    assert found.machines == ["n1"]
    assert any("left out a series" in note for note in found.notes)


def test_a_whole_number_beyond_all_floats_is_refused(read: Read) -> None:
    """JSON may hold an integer of 400 digits: refused with its series."""
    answer = {"metric": {"node": "n1"}, "values": [[1.0, 10**400]]}
    body = {"status": "success", "data": {"resultType": "matrix", "result": [answer]}}
    with pytest.raises(InvalidInput, match="not \\[seconds, number\\]"):
        read(json.dumps(body).encode())
