"""Tables with one sample a row: time, machine, metric, value.  The door of pyarrow for machine metrics."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from health.peers.metrics import canonical
from health.peers.readers.times import seconds
from health.peers.streams import BoolArray, FloatArray, IntArray, Recording, Samples
from topology.errors import InvalidInput, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Columns:
    """How the columns of a table are called.

    :param metric: ``None`` = the table has one metric only, called as its value column.
    """

    time: str = "time"
    machine: str = "machine"
    metric: str | None = "metric"
    value: str = "value"

    @property
    def names(self) -> list[str]:
        """Those that must be there."""
        return [name for name in (self.time, self.machine, self.metric, self.value) if name is not None]


def read_csv(name: str, data: bytes, columns: Columns, *, lenient: bool) -> Recording:
    """Samples from CSV text with a header.

    :raises InvalidInput: no CSV, a column missing, a cell that cannot be; with the line.
    """
    import pyarrow as pa
    from pyarrow import csv

    header = data[: data.find(b"\n") + 1 or None].decode("utf-8-sig", errors="replace").strip().split(",")
    _check_columns([column.strip().strip('"') for column in header], columns, f"{name}:1")
    kinds = {columns.machine: pa.string(), columns.value: pa.string() if lenient else pa.float64()}
    if columns.metric is not None:
        kinds[columns.metric] = pa.string()
    if lenient:
        kinds[columns.time] = pa.string()
    short = 0

    def skip(_: object) -> str:
        nonlocal short
        short += 1
        return "skip"

    try:
        table = csv.read_csv(
            pa.BufferReader(data),
            # One thread: only then an error knows its row.
            read_options=csv.ReadOptions(use_threads=False),
            parse_options=csv.ParseOptions(invalid_row_handler=skip if lenient else None),
            convert_options=csv.ConvertOptions(
                include_columns=columns.names, column_types=kinds, null_values=["", "null", "NULL", "NaN", "nan", "NA"]
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError) as error:
        raise _csv_error(name, str(error)) from None
    notes = (f"left out {short} rows with a wrong number of cells",) if short else ()
    return _recording(name, table, columns, lenient=lenient, line=lambda row: f"{name}:{row + 2}", notes=notes)


def read_parquet(name: str, data: bytes, columns: Columns, *, lenient: bool) -> Recording:
    """Samples from a Parquet file.

    :raises InvalidInput: truncated or broken, a column missing, a cell that cannot be; with the row.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        _check_columns(file.schema_arrow.names, columns, name)
        table = file.read(columns=columns.names)
    except (pa.ArrowInvalid, pa.ArrowException, OSError) as error:
        raise InvalidInput(
            f"is not a whole Parquet file: {_first_line(error)}", where=name, fix="write or copy the file again"
        ) from None
    return _recording(name, table, columns, lenient=lenient, line=lambda row: f"{name}: row {row + 1}", notes=())


def _recording(
    name: str,
    table: pa.Table,
    columns: Columns,
    *,
    lenient: bool,
    line: Callable[[int], str],
    notes: tuple[str, ...],
) -> Recording:
    """Samples of all metrics of a table."""
    if table.num_rows == 0:
        raise InvalidInput("has no rows", where=name, fix="give a file with samples")
    time, absolute = seconds(table.column(columns.time), columns.time, line=line, lenient=lenient)
    machine, machines = _codes(table.column(columns.machine))
    value = _values(table.column(columns.value), columns.value, line=line, lenient=lenient)
    metric: IntArray = np.zeros(len(value), dtype=np.int64)
    metrics = [columns.value]
    if columns.metric is not None:
        metric, metrics = _codes(table.column(columns.metric))
    said = list(notes)
    usable = np.ones(len(value), dtype=np.bool_)
    for bad, what, fix in (
        (~np.isfinite(time), f"has no {columns.time}", "give every sample its time"),
        (machine < 0, f"has no {columns.machine}", "give every sample its machine"),
        (metric < 0, f"has no {columns.metric}", "give every sample its metric"),
        (np.isinf(value), f"has an infinite {columns.value}", "leave out samples that are not numbers"),
    ):
        usable &= _usable(bad, what, fix, line=line, lenient=lenient, notes=said)
    absent = usable & np.isnan(value)
    if absent.any():
        said.append(f"{int(absent.sum()):,} samples without a value count as missing")
    usable &= ~absent
    if not usable.any():
        raise InvalidInput("has no usable sample", where=name, fix="give samples with time, machine and value")
    rows = Samples("", tuple(machines), time[usable], machine[usable], value[usable])
    return Recording(_by_metric(rows, metric[usable], metrics), absolute, name, tuple(said))


def _by_metric(rows: Samples, metric: IntArray, metrics: list[str]) -> dict[str, Samples]:
    """Samples of all metrics taken apart, by the canonical names of the metrics."""
    names = [canonical(name) or name for name in metrics]
    distinct = sorted(set(names))
    code = np.array([distinct.index(name) for name in names])[metric]
    found = {}
    for k, name in enumerate(distinct):
        chosen = np.flatnonzero(code == k)
        if chosen.size:
            found[name] = Samples(name, rows.machines, rows.time[chosen], rows.machine[chosen], rows.value[chosen])
    return found


def _codes(column: pa.ChunkedArray) -> tuple[IntArray, list[str]]:
    """Numbers for names, -1 for none, and the names in order."""
    import pyarrow as pa

    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    names = ["" if text is None else text.strip() for text in encoded.dictionary.to_pylist()]
    order = sorted(set(names) - {""})
    rank = {text: k for k, text in enumerate(order)}
    numbers = np.array([*(rank.get(text, -1) for text in names), -1], dtype=np.int64)
    codes = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
    return numbers[codes], order


def _values(column: pa.ChunkedArray, title: str, *, line: Callable[[int], str], lenient: bool) -> FloatArray:
    """Numbers; nothing and what is no number as NaN."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = column.to_pylist()
        numbers = np.array([_number(text) for text in texts])
        odd = [k for k, text in enumerate(texts) if text and np.isnan(numbers[k]) and text.lower() != "nan"]
        if odd and not lenient:
            raise InvalidInput(
                f"{title} is {texts[odd[0]][:40]!r}, not a number", where=line(odd[0]), fix="give numbers"
            )
        return numbers
    try:
        found: FloatArray = column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidInput(
            f"{title} is a column of {column.type}, not of numbers", where=line(0), fix="give numbers"
        ) from None
    return found


def _number(text: str | None) -> float:
    try:
        return float(text) if text else np.nan
    except ValueError:
        return np.nan


def _usable(
    bad: BoolArray, what: str, fix: str, *, line: Callable[[int], str], lenient: bool, notes: list[str]
) -> BoolArray:
    """Rows that are not bad."""
    if bad.any():
        first = int(np.argmax(bad))
        if not lenient:
            raise InvalidInput(what, where=line(first), fix=f"{fix}, or leave such rows out with --lenient")
        notes.append(f"left out {int(bad.sum()):,} rows: the first, {line(first)}, {what}")
    return ~bad


def _check_columns(there: list[str], columns: Columns, where: str) -> None:
    for wanted in columns.names:
        if wanted not in there:
            raise InvalidInput(
                f"has no column {wanted!r}; its columns are {', '.join(repr(name[:40]) for name in there[:12])}",
                where=where,
                fix=f"{did_you_mean(wanted, there)}say which column it is: --time-column, --machine-column, "
                "--metric-column (none = one metric only), --value-column",
            )


def _csv_error(name: str, text: str) -> InvalidInput:
    row = re.search(r"Row #(\d+)", text)
    where = f"{name}:{row.group(1)}" if row else name
    value = re.search(r"invalid value '(.{0,40})", text, flags=re.DOTALL)
    message = (
        f"has {value.group(1).rstrip(chr(39))!r} where a number belongs"
        if value
        else f"is not CSV: {_first_line(text)}"
    )
    return InvalidInput(message, where=where, fix="correct that row, or leave such rows out with --lenient")


def _first_line(error: object) -> str:
    return (str(error).splitlines() or ["unknown"])[0][:200]
