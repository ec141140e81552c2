"""CSV and JSON lines a row at a time: what is written is read, what is wrong is told with its line."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput, TraceFormatError
from ground.files import CutOff, Source, open_stream
from ground.rows import BadRow, BadRows, CsvRows, json_objects, parse_object
from tests.facts import saying, says

CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=8)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=6))
def test_csv_that_was_written_is_read(rows: list[list[str]]) -> None:
    """Whatever the cells hold, quotes and line ends too; space around a cell does not count, empty rows neither."""
    text = io.StringIO()
    csv.writer(text).writerows([["a", "b", "c"], *rows])
    found = list(CsvRows(Source("t.csv", text.getvalue()), BadRows()))
    stripped = [[cell.strip() for cell in row] for row in rows]
    assert [cells for _, cells in found] == [row for row in stripped if any(row)]


def test_lines_are_counted_where_rows_end() -> None:
    """A quoted cell over two lines moves those that follow; an empty line counts as a line and is no row."""
    text = 'a,b\n1,"two\nlines"\n\n3,4\n'
    assert [line for line, _ in CsvRows(Source("t.csv", text), BadRows())] == [3, 5]


def test_columns_are_found_by_name() -> None:
    """Where they stand; one that is missing is told with what was probably meant."""
    rows = CsvRows(Source("t.csv", "job,gpus,time\n1,2,3\n"), BadRows(error=TraceFormatError))
    assert rows.need("time", "job", format="mine") == (2, 0)
    assert (rows.find("gpus"), rows.find("nodes")) == (1, None)
    with pytest.raises(TraceFormatError, match=saying("t.csv:1", "'gpu'", "mine")) as caught:
        rows.need("gpu", format="mine")
    assert caught.value.where == "t.csv:1"
    assert "did you mean 'gpus'?" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a,b,a\n1,2,3\n", 1, "two columns are called 'a'"),
        ("a,b\n1,2,3\n", 2, "the row has 3 cells, the header 2"),
        ("a,b\n1,2\n3\n", 3, "the row has 1 cells, the header 2"),
        ('a,b\n1,"2\n', 2, "is not CSV"),
    ],
)
def test_wrong_csv(text: str, line: int, message: str) -> None:
    """Each fault with its line and what to do."""
    with pytest.raises(InvalidInput, match=message) as caught:
        list(CsvRows(Source("t.csv", text), BadRows()))
    assert caught.value.where == f"t.csv:{line}"
    assert caught.value.fix


@given(st.lists(st.dictionaries(st.text(max_size=4), VALUE, max_size=4), max_size=6))
def test_json_lines_that_were_written_are_read(objects: list[dict[str, object]]) -> None:
    """Objects of any content, each with its line; blank lines between them do not count as objects."""
    text = "".join(json.dumps(one) + "\n\n" for one in objects)
    found = list(json_objects(Source("t.jsonl", text), BadRows()))
    assert found == [(2 * i + 1, one) for i, one in enumerate(objects)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]\n", "is not a JSON object"),
        ("5\n", "is not a JSON object"),
        ('{"a": 1, "c": 2, "a": 3}\n', "has the key 'a' twice"),
        ('{"a": {"c": 2, "c": 2}}', "has the key 'c' twice"),
        ('{"a": }\n', "is not JSON, or was cut off: Expecting value"),
        ('{"a": 1', "is truncated: the last line ends in the middle"),
        ('{"a": ' + "[" * 100_000 + "\n", "is nested too deep"),
        ('{"a": ' + "9" * 5_000 + "}\n", "holds a number of more than 4,300 digits"),
    ],
)
def test_wrong_json_lines(text: str, message: str) -> None:
    """Strict: told with the line.  Lenient: counted, and the good lines are read."""
    good = '{"b": 2}\n'
    with pytest.raises(InvalidInput, match=message) as caught:
        list(json_objects(Source("t.jsonl", good + text), BadRows()))
    assert caught.value.where == "t.jsonl:2"
    assert "--lenient" in caught.value.fix
    bad_rows = BadRows(lenient=True)
    assert list(json_objects(Source("t.jsonl", good + text), bad_rows)) == [(1, {"b": 2})]
    assert bad_rows.dropped.total() == 1


@given(st.text(max_size=20))
def test_any_text_is_an_object_or_refused(text: str) -> None:
    """Nothing but the one error of a bad row comes out of a text from elsewhere."""
    try:
        found = parse_object(text)
    except BadRow:
        return
    assert isinstance(found, dict)


def test_what_becomes_of_bad_rows() -> None:
    """Strict stops at the first; lenient counts by reason; a command without the option does not offer it."""

    def half(number: int) -> int:
        if number % 2:
            raise BadRow("odd", f"{number} is odd", fix="double it")
        return number // 2

    rows = [(1, 2), (2, 3), (3, 5), (4, 8)]
    source = Source("t", "")
    lenient = BadRows(lenient=True)
    assert list(lenient.keep(rows, half, source)) == [(1, 1), (4, 4)]
    assert lenient.dropped == {"odd": 2}
    with pytest.raises(TraceFormatError, match="3 is odd") as caught:
        list(BadRows(error=TraceFormatError).keep(rows, half, source))
    assert caught.value.where == "t:2"
    assert says(caught.value.fix, "double it", "--lenient")
    with pytest.raises(InvalidInput) as plain:
        list(BadRows(lenient=None).keep(rows, half, source))
    assert plain.value.fix == "double it"
    lenient.note("once")
    lenient.note("once")
    assert lenient.notes == ["once"]


@given(st.binary(max_size=200), st.booleans())
def test_bytes_are_read_as_they_are(data: bytes, packed: bool) -> None:
    """Plain or gzip, in one piece."""
    from ground.files import ByteStream

    content = gzip.compress(data) if packed else b"x" + data
    stream = ByteStream("t", io.BufferedReader(io.BytesIO(content)))  # type: ignore[arg-type]
    assert stream.content().read() == (data if packed else b"x" + data)


def test_a_file_that_is_cut_off_gives_its_whole_lines(tmp_path: Path) -> None:
    """The lines before the cut are read, the one that was cut is not, and the error says where."""
    lines = [f"{i},{i * 7919 % 104729}\n" for i in range(20_000)]
    data = gzip.compress("".join(lines).encode())
    (tmp_path / "t.gz").write_bytes(data[: len(data) // 2])
    read: list[str] = []
    with pytest.raises(CutOff) as caught, open_stream(tmp_path / "t.gz") as stream:
        read.extend(stream.lines())
    assert 0 < len(read) < len(lines)
    assert read == lines[: len(read)]
    assert caught.value.where == f"{tmp_path / 't.gz'}:{len(read) + 1}"
