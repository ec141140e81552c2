"""Rows as CSV, Parquet or JSON lines, by the suffix of the file, whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from topology.errors import InvalidInput
from topology.files import write_file

Row = Mapping[str, Any]
"""Values by column; ``None`` = there is none.  All rows of a table have the same columns."""

_PLAIN = {int: "int64", float: "float64", str: "string", bool: "bool"}


def check_suffix(path: str, option: str, *, known: Iterable[str] = ()) -> None:
    """Refuse a file whose suffix says no format, before anything is computed for it.

    :param option: as the user called it.
    :param known: suffixes instead of those of :data:`WRITERS`.
    :raises InvalidInput: another suffix.
    """
    suffixes = tuple(known) or tuple(WRITERS)
    if Path(path).suffix.lower() not in suffixes:
        raise InvalidInput(
            f"{Path(path).suffix or 'no suffix'!r} says no format",
            where=option,
            fix=f"name the file with one of {', '.join(suffixes)}",
        )


def write_rows(path: str, rows: Sequence[Row], columns: Mapping[str, type]) -> None:
    """Write a table.  Same rows, same bytes.

    :param columns: names and types, in order; they hold where there is no row, too.
    :raises InvalidInput: a suffix that says no format, or a place that cannot be written to.
    """
    check_suffix(path, path)
    write_file(path, WRITERS[Path(path).suffix.lower()](rows, columns))


def _csv(rows: Sequence[Row], columns: Mapping[str, type]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _json_lines(rows: Sequence[Row], columns: Mapping[str, type]) -> bytes:
    lines = (json.dumps({name: row[name] for name in columns}, allow_nan=False) + "\n" for row in rows)
    return "".join(lines).encode()


def _parquet(rows: Sequence[Row], columns: Mapping[str, type]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.type_for_alias(_PLAIN[kind])) for name, kind in columns.items()])
    arrays = [pa.array([row[field.name] for row in rows], type=field.type) for field in schema]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()


WRITERS: Mapping[str, Callable[[Sequence[Row], Mapping[str, type]], bytes]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
}
