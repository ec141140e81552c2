"""Metrics of machines from files: Parquet and CSV tables of one sample a row, Prometheus range queries as JSON.

A file is known by its content, not by its name.  Nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from health.peers.metrics import canonical
from health.peers.prometheus import read_prometheus
from health.peers.sample_sources import SampleColumns
from health.peers.streams import FloatArray, IntArray, MetricRecording, Samples
from topology.errors import InvalidInput, did_you_mean
from topology.files import decode_source, read_bytes, unpacked
from topology.tables.arrow_columns import csv_texts, encoded, numbers, open_parquet, timestamps
from topology.tables.text_rows import header_of

MAX_BYTES = 2 * 1024**3  # Largest file: 15 minutes of seven metrics of 1,500 machines are about 0.5 GB as CSV
EPOCH = 1e8  # Seconds above this are taken for seconds since 1970 (this one is in 1973)
MILLISECONDS = 1e11  # Numbers above this are taken for milliseconds since 1970 (as seconds it is the year 5138)


def load_recording(
    path: str, *, columns: SampleColumns | None = None, machines: Collection[str] | None = None, lenient: bool = False
) -> MetricRecording:
    """Read the metrics of machines.

    :param path: a file, plain or gzip; ``-`` is standard input.
    :param machines: only these; ``None`` = all.
    :param lenient: leave out rows that cannot be used, and say how many, instead of refusing the file.
    """
    name, data = read_bytes(path, max_bytes=MAX_BYTES, if_larger="cut it into shorter pieces of time")
    data = unpacked(name, data, max_bytes=MAX_BYTES)
    if not data.strip():
        raise InvalidInput("is empty", where=name, fix="give a file with content")
    chosen = columns or SampleColumns()
    if data.startswith(b"PAR1"):
        recording = read_parquet(name, data, chosen, lenient=lenient)
    elif data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        recording = read_prometheus(decode_source(name, data), lenient=lenient)
    elif data.lstrip()[:7] in (b"# HELP ", b"# TYPE "):
        raise InvalidInput(
            "is one scrape of an exporter: how a metric was at one moment",
            where=name,
            fix="ask Prometheus, which scrapes it, for a range: /api/v1/query_range",
        )
    elif b"\0" in data[:4096] or data.startswith(b"\x80"):
        raise InvalidInput(
            "is binary and not Parquet",
            where=name,
            fix="give Parquet, CSV or Prometheus JSON; pickles and other binary formats are not read",
        )
    else:
        recording = read_csv(name, data, chosen, lenient=lenient)
    return recording if machines is None else recording.only(machines)


if TYPE_CHECKING:
    import pyarrow as pa


def read_csv(name: str, data: bytes, columns: SampleColumns, *, lenient: bool) -> MetricRecording:
    """Return samples from CSV text with a header; errors name the line."""
    _check_columns(header_of(data[: data.find(b"\n") + 1 or None]), columns, f"{name}:1")
    table, left_out = csv_texts(name, data, columns.names, lenient=lenient)
    notes = [f"left out {left_out} rows with a wrong number of cells"] if left_out else []
    return _Samples(table, columns, lambda row: f"{name}:{row + 2}", lenient, notes).recording(name)


def read_parquet(name: str, data: bytes, columns: SampleColumns, *, lenient: bool) -> MetricRecording:
    """Return samples from a Parquet file; errors name the row."""
    with open_parquet(data, name=name) as file:
        _check_columns(file.schema_arrow.names, columns, name)
        table = file.read(columns=columns.names)
    return _Samples(table, columns, lambda row: f"{name}: row {row + 1}", lenient, []).recording(name)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Makes samples of the columns of a table."""

    table: pa.Table
    columns: SampleColumns
    line: Callable[[int], str]  # from a row, counted from 0, to its place
    lenient: bool
    notes: list[str]  # takes what the user should know

    def recording(self, name: str) -> MetricRecording:
        """Return samples of all metrics."""
        columns, notes = self.columns, self.notes
        if self.table.num_rows == 0:
            raise InvalidInput("has no rows", where=name, fix="give a file with samples")
        time, absolute = self._times()
        value = self._numbers(columns.value, _number, "of numbers", "not a number", "give numbers")
        machine, machines = self._names(columns.machine)
        metric: IntArray = np.zeros(len(value), dtype=np.int64)
        metrics = [columns.value]
        if columns.metric is not None:
            metric, metrics = self._names(columns.metric)
        usable = np.ones(len(value), dtype=np.bool_)
        for bad, what, fix in (
            (~np.isfinite(time), f"has no {columns.time}", "give every sample its time"),
            (machine < 0, f"has no {columns.machine}", "give every sample its machine"),
            (metric < 0, f"has no {columns.metric}", "give every sample its metric"),
            (np.isinf(value), f"has an infinite {columns.value}", "leave out samples that are not numbers"),
        ):
            if bad.any():
                first = self.line(int(np.argmax(bad)))
                if not self.lenient:
                    raise InvalidInput(what, where=first, fix=f"{fix}, or leave such rows out with --lenient")
                notes.append(f"left out {int(bad.sum()):,} rows: the first, {first}, {what}")
                usable &= ~bad
        absent = usable & np.isnan(value)
        if absent.any():
            notes.append(f"{int(absent.sum()):,} samples without a value count as missing")
        usable &= ~absent
        if not usable.any():
            raise InvalidInput("has no usable sample", where=name, fix="give samples with time, machine and value")
        rows = Samples("", tuple(machines), time[usable], machine[usable], value[usable])
        return MetricRecording(_by_metric(rows, metric[usable], metrics), absolute, name, tuple(notes))

    def _times(self) -> tuple[FloatArray, bool]:
        """Return seconds, NaN where there is none, and whether they count from 1970."""
        title = self.columns.time
        if (since_1970 := timestamps(self.table.column(title))) is not None:
            return since_1970, True
        fix = "give seconds, or dates such as 2026-11-21T12:00:00Z"
        time = self._numbers(title, _seconds, "of times", "neither seconds nor a date", fix)
        time = np.where(np.isfinite(time), time, np.nan)
        if not np.isfinite(time).any():
            return time, False
        middle = float(np.nanmedian(time))
        return (time / 1e3, True) if middle > MILLISECONDS else (time, middle > EPOCH)

    def _numbers(self, title: str, value_of: Callable[[str], float], kind: str, wanted: str, fix: str) -> FloatArray:
        """Return the numbers of a column, NaN where there is none; what is no number is an error unless lenient."""
        try:
            found, odd, row = numbers(self.table.column(title), value_of)
        except TypeError as error:
            raise InvalidInput(f"{title} is a column of {error}, not {kind}", where=self.line(0), fix=fix) from None
        if odd is not None and not self.lenient:
            raise InvalidInput(
                f"{title} is {odd[:40]!r}, {wanted}",
                where=self.line(row),
                fix=f"{fix}, or leave such rows out with --lenient",
            )
        return found

    def _names(self, title: str) -> tuple[IntArray, list[str]]:
        """Return numbers for names, -1 for none, and the names in order."""
        codes, texts = encoded(self.table.column(title))
        names = [text.strip() for text in texts]
        order = sorted(set(names) - {""})
        rank = {text: k for k, text in enumerate(order)}
        return np.array([*(rank.get(text, -1) for text in names), -1], dtype=np.int64)[codes], order


def _number(text: str) -> float:
    """Return a number; NaN = it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def _seconds(text: str) -> float:
    """Return seconds as they are written, or since 1970 of a date; NaN = neither."""
    if not np.isnan(seconds := _number(text)):
        return seconds
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _by_metric(rows: Samples, metric: IntArray, metrics: list[str]) -> dict[str, Samples]:
    """Return samples of all metrics taken apart, by the canonical names of the metrics."""
    names = [canonical(name) or name for name in metrics]
    distinct = sorted(set(names))
    code = np.array([distinct.index(name) for name in names])[metric]
    found = {}
    for k, name in enumerate(distinct):
        chosen = np.flatnonzero(code == k)
        if chosen.size:
            found[name] = Samples(name, rows.machines, rows.time[chosen], rows.machine[chosen], rows.value[chosen])
    return found


def _check_columns(there: Sequence[str], columns: SampleColumns, where: str) -> None:
    for wanted in columns.names:
        if wanted not in there:
            raise InvalidInput(
                f"has no column {wanted!r}; its columns are {', '.join(repr(name[:40]) for name in there[:12])}",
                where=where,
                fix=f"{did_you_mean(wanted, there)}say which column it is: --time-column, --machine-column, "
                "--metric-column (none = one metric only), --value-column",
            )
