"""CSV and Parquet a column at a time, against the rows that were written."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.columns import NOTHING, ParquetColumns, csv_texts, encoded, numbers, open_parquet, parquet_rows, timestamps
from ground.errors import InvalidInput, TraceFormatError
from ground.files import open_stream
from tests.case_counts import examples
from tests.facts import saying

INT64 = np.iinfo(np.int64)


def number(text: str) -> float:
    """A number; NaN = none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def parquet(table: pa.Table) -> bytes:
    """A Parquet file in memory."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(NOTHING), max_size=8))
def test_numbers_of_texts(values: list[float | str]) -> None:
    """Written and read again they are the same; what stands for nothing is NaN."""
    found, odd, _ = numbers(pa.chunked_array([[str(value) for value in values]], type=pa.string()), number)
    expected = [math.nan if isinstance(value, str) else value for value in values]
    assert odd is None
    assert np.array_equal(found, np.array(expected, dtype=np.float64), equal_nan=True)


def test_a_text_that_is_no_number_is_told_with_its_row() -> None:
    """The first one; numbers with space around them are numbers, also beside one that is not."""
    found, odd, row = numbers(pa.chunked_array([["1", " 2 ", None, "much", "more"]]), number)
    assert found[:2].tolist() == [1.0, 2.0]
    assert (odd, row) == ("much", 3)
    assert np.isnan(found[2:]).all()
    with pytest.raises(TypeError, match="list"):
        numbers(pa.chunked_array([[[1.0]]]), number)


@given(st.lists(st.none() | st.text(max_size=3), max_size=8))
def test_encoded_texts_are_the_texts(texts: list[str | None]) -> None:
    """Each row's place leads back to its text; nothing lies behind the end of the list."""
    codes, distinct = encoded(pa.chunked_array([texts], type=pa.string()))
    assert [distinct[code] if code < len(distinct) else None for code in codes] == texts
    assert len(set(distinct)) == len(distinct)


def test_timestamps_are_seconds_since_1970() -> None:
    """Of any unit and zone; a column of something else has none."""
    for unit, ticks in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        column = pa.chunked_array([[90 * ticks, None]], type=pa.timestamp(unit, "UTC"))
        found = timestamps(column)
        assert found is not None
        assert found[0] == 90.0
        assert np.isnan(found[1])
    assert timestamps(pa.chunked_array([[1.0]])) is None


def test_csv_texts() -> None:
    """Only the columns asked for; a row of another width is an error with its line, or left out."""
    data = b"a,b,c\n1,x,2\n3,y\n4,z,5\n"
    with pytest.raises(InvalidInput, match="is not CSV") as caught:
        csv_texts("t.csv", data, ["c", "a"], lenient=False)
    assert caught.value.where == "t.csv:3"
    table, left_out = csv_texts("t.csv", data, ["c", "a"], lenient=True)
    assert table.to_pydict() == {"c": ["2", "5"], "a": ["1", "4"]}
    assert left_out == 1


@given(st.lists(st.none() | st.integers(-(2**40), 2**40), min_size=1, max_size=8), st.booleans())
def test_whole_numbers_may_be_floats(values: list[int | None], floats: bool) -> None:
    """As pandas writes them where some are missing."""
    kind = pa.float64() if floats else pa.int64()
    data = parquet(pa.table({"n": pa.array(values, type=kind)}))
    with open_parquet(data, name="t") as file:
        found = ParquetColumns(file, name="t").whole_numbers("n", missing=INT64.min, limits=INT64)
    assert found.tolist() == [INT64.min if value is None else value for value in values]


@pytest.mark.parametrize(
    ("column", "message", "place"),
    [
        (pa.array([1.0, 2.5]), "n is 2.5, not a whole number", "t:row 1"),
        (pa.array([1, 2, 300]), "n is 300, which no job has", "t:row 2"),
        (pa.array(["a"]), "the column 'n' holds string, not whole numbers", "t"),
    ],
)
def test_wrong_whole_numbers(column: pa.Array, message: str, place: str) -> None:
    """Each fault with its row where it has one."""
    data = parquet(pa.table({"n": column}))
    with pytest.raises(TraceFormatError, match=message) as caught, open_parquet(data, name="t") as file:
        ParquetColumns(file, name="t", error=TraceFormatError).whole_numbers("n", missing=-1, limits=np.iinfo(np.int8))
    assert caught.value.where == place


@given(st.lists(st.none() | st.sampled_from(["up", "down", "odd"]), min_size=1, max_size=10), st.booleans())
def test_codes_of_names(names: list[str | None], packed: bool) -> None:
    """Whether the file has a dictionary or not; names without a code are told."""
    column = pa.array(names, type=pa.string())
    data = parquet(pa.table({"n": column.dictionary_encode() if packed else column}))
    with open_parquet(data, name="t", read_dictionary=["n"] if packed else []) as file:
        codes, strange = ParquetColumns(file, name="t").codes("n", {"up": 0, "down": 1}, unknown=-1)
    assert codes.tolist() == [{"up": 0, "down": 1}.get(str(name), -1) for name in names]
    assert set(strange) == {name or "nothing" for name in names} - {"up", "down"}


@examples(20)
@given(st.lists(st.tuples(st.integers(), st.text(max_size=3)).map(lambda row: (row[0] % 2**40, row[1])), max_size=5))
def test_rows_of_a_file(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]]) -> None:
    """Counted from 1, under the names that the reader gives the columns."""
    path: Path = tmp_path_factory.mktemp("rows") / "t.parquet"
    table = pa.table(
        {"a": pa.array([a for a, _ in rows], pa.int64()), "b": pa.array([b for _, b in rows], pa.string())}
    )
    path.write_bytes(parquet(table))
    with open_stream(path) as source:
        found = list(parquet_rows(source, lambda names: [name.upper() for name in names]))
    assert found == [(i, {"A": a, "B": b}) for i, (a, b) in enumerate(rows, 1)]


@given(st.integers(0, 400))
def test_a_file_cut_off_anywhere_is_refused(length: int) -> None:
    """One sentence, and the class of error that was asked for; what to do helps with a file of another kind as well."""
    data = parquet(pa.table({"n": list(range(100))}))[:-1][:length]
    with (
        pytest.raises(TraceFormatError, match=saying("Parquet")) as caught,
        open_parquet(data, name="t", error=TraceFormatError),
    ):
        pass
    assert "that pandas or pyarrow wrote" in caught.value.fix
