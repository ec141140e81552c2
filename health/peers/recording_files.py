"""Metrics of machines from files: tables in Parquet and CSV, answers of Prometheus as JSON, the text of an exporter.

A file is known by its content, not by its name.  Nothing is ever unpickled.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ground.columns import csv_texts, open_parquet
from ground.errors import InvalidInput, did_you_mean
from ground.files import decode_source, read_bytes, unpacked
from ground.formats import FileFormat
from ground.rows import header_of
from health.peers.metrics import canonical, counts_up
from health.peers.prometheus import RANGE, SCRAPE, VECTOR, read_prometheus, read_scrape
from health.peers.sample_sources import SampleColumns
from health.peers.streams import IntArray, MetricRecording, Samples, joined, rate_of
from health.peers.tables import MACHINES, SMI, TableColumns, WideTable, wide_samples, wide_table

SAMPLES = FileFormat(
    "samples",
    source="CSV or Parquet with a sample a row: time, machine, metric, value",
    export="table.melt(...).to_parquet('metrics.parquet')",
    read="these four columns; other names by --time-column, --machine-column, --metric-column, --value-column",
    left_out="other columns; samples without a value (counted)",
    marks=("time", "machine", "metric", "value"),
)
FORMATS = (SAMPLES, MACHINES, SMI, RANGE, VECTOR, SCRAPE)
"""What ``arnold health peers`` reads."""

MAX_BYTES = 2 * 1024**3  # Largest file: 15 minutes of seven metrics of 1,500 machines are about 0.5 GB as CSV
_SCRAPE = re.compile(rb"\s*(?:# (?:HELP|TYPE) |[A-Za-z_:][A-Za-z0-9_:]*\{[A-Za-z_])")


def load_recordings(
    paths: Sequence[str], *, columns: SampleColumns, machines: Collection[str] | None = None, lenient: bool = False
) -> MetricRecording:
    """Read the metrics of machines from files of a metric each, of a machine each, or of all, as one recording."""
    several = len(paths) > 1
    found = [load_recording(path, columns=columns, lenient=lenient, several=several) for path in paths]
    recording = _counters_as_rates(joined(found) if several else found[0])
    return recording if machines is None else recording.only(machines)


def _counters_as_rates(recording: MetricRecording) -> MetricRecording:
    """Return a recording whose counters are what they gain a second: their level says when a machine was started."""
    rates = {name: rate_of(samples) for name, samples in recording.metrics.items() if counts_up(name)}
    known = {name: rate for name, rate in rates.items() if rate is not None}
    note = f"counters, compared by what they gain a second: {', '.join(known)}"
    return replace(
        recording, metrics={**recording.metrics, **known}, notes=(*recording.notes, note) if known else recording.notes
    )


def load_recording(
    path: str,
    *,
    columns: SampleColumns | None = None,
    machines: Collection[str] | None = None,
    lenient: bool = False,
    several: bool = False,
) -> MetricRecording:
    """Read the metrics of machines.

    :param path: a file, plain or gzip; ``-`` is standard input.
    :param machines: only these; ``None`` = all.
    :param lenient: leave out rows that cannot be used, and say how many, instead of refusing the file.
    :param several: there are other files: one without names of machines is of the machine that it is called by.
    """
    name, data = read_bytes(path, max_bytes=MAX_BYTES, if_larger="cut it into shorter pieces of time")
    data = unpacked(name, data, max_bytes=MAX_BYTES)
    if not data.strip():
        raise InvalidInput("is empty", where=name, fix="give a file with content")
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        recording = read_prometheus(decode_source(name, data), lenient=lenient)
    elif _SCRAPE.match(data):
        recording = read_scrape(decode_source(name, data), lenient=lenient)
    elif not data.startswith(b"PAR1") and (b"\0" in data[:4096] or data.startswith(b"\x80")):
        raise InvalidInput(
            "is binary and not Parquet",
            where=name,
            fix="give Parquet, CSV or Prometheus JSON; pickles and other binary formats are not read",
        )
    else:
        read = read_parquet if data.startswith(b"PAR1") else read_csv
        recording = read(name, data, columns or SampleColumns(), lenient=lenient, several=several)
    return recording if machines is None else recording.only(machines)


def read_csv(
    name: str, data: bytes, columns: SampleColumns, *, lenient: bool, several: bool = False
) -> MetricRecording:
    """Return samples from CSV text with a header; errors name the line."""
    head = data[: data.find(b"\n") + 1 or None]
    wide = wide_table(_as_written(head), columns)
    if wide is None:
        _check_columns(header_of(head), columns, f"{name}:1")
    again = wide is not None and data.find(head, len(head)) >= 0
    if again:
        # Each run of `nvidia-smi ... >> FILE` begins with the header; without it lines are not those of the file.
        data = head + data[len(head) :].replace(head, b"")
    table, out = csv_texts(name, data, wide.columns if wide else columns.names, lenient=lenient)
    notes = [f"left out {out} rows with a wrong number of cells"] if out else []
    rows = TableColumns(table, name, lambda row: name if again else f"{name}:{row + 2}", lenient, notes)
    return _samples(rows, columns, wide, several=several)


def read_parquet(
    name: str, data: bytes, columns: SampleColumns, *, lenient: bool, several: bool = False
) -> MetricRecording:
    """Return samples from a Parquet file; errors name the row."""
    with open_parquet(data, name=name) as file:
        wide = wide_table(file.schema_arrow.names, columns)
        if wide is None:
            _check_columns(file.schema_arrow.names, columns, name)
        table = file.read(columns=wide.columns if wide else columns.names)
    rows = TableColumns(table, name, lambda row: f"{name}: row {row + 1}", lenient, [])
    return _samples(rows, columns, wide, several=several)


def _as_written(head: bytes) -> list[str]:
    """Return the names of columns with the spaces around them, as Arrow knows them; nothing where it is not CSV."""
    try:
        return next(csv.reader([head.decode("utf-8-sig", errors="replace").rstrip("\r\n")]), [])
    except csv.Error:
        return []


def _samples(rows: TableColumns, columns: SampleColumns, wide: WideTable | None, *, several: bool) -> MetricRecording:
    return _long_samples(rows, columns) if wide is None else wide_samples(rows, columns, wide, several=several)


def _long_samples(rows: TableColumns, columns: SampleColumns) -> MetricRecording:
    """Return samples of all metrics from a sample a row."""
    time, absolute = rows.times(columns.time)
    value = rows.values(columns.value)
    machine, machines = rows.names(columns.machine)
    metric: IntArray = np.zeros(len(value), dtype=np.int64)
    metrics = [columns.value]
    if columns.metric is not None:
        metric, metrics = rows.names(columns.metric)
    usable = rows.usable(
        (~np.isfinite(time), f"has no {columns.time}", "give every sample its time"),
        (machine < 0, f"has no {columns.machine}", "give every sample its machine"),
        (metric < 0, f"has no {columns.metric}", "give every sample its metric"),
        (np.isinf(value), f"has an infinite {columns.value}", "leave out samples that are not numbers"),
    )
    absent = usable & np.isnan(value)
    if absent.any():
        rows.notes.append(f"{int(absent.sum()):,} samples without a value count as missing")
    usable &= ~absent
    if not usable.any():
        raise InvalidInput("has no usable sample", where=rows.name, fix="give samples with time, machine and value")
    time, machine, value, metric = time[usable], machine[usable], value[usable], metric[usable]
    names = [canonical(one) or one for one in metrics]
    distinct = sorted(set(names))
    code = np.array([distinct.index(name) for name in names])[metric]
    chosen = {one: np.flatnonzero(code == k) for k, one in enumerate(distinct)}
    found = {
        one: Samples(one, tuple(machines), time[rows_], machine[rows_], value[rows_])
        for one, rows_ in chosen.items()
        if rows_.size
    }
    return MetricRecording(found, absolute, rows.name, tuple(rows.notes))


def _check_columns(there: Sequence[str], columns: SampleColumns, where: str) -> None:
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(there) == 1 and mark in there[0]:
            fix = "write it with commas between columns and points in numbers, as with LC_ALL=C"
            raise InvalidInput(f"has {name} between its columns", where=where, fix=fix)
    for wanted in columns.names:
        if wanted not in there:
            raise InvalidInput(
                f"has no column {wanted!r}; its columns are {', '.join(repr(name[:40]) for name in there[:12])}",
                where=where,
                fix=f"{did_you_mean(wanted, there)}say which column it is: --time-column, --machine-column, "
                "--metric-column (none = one metric only), --value-column",
            )
