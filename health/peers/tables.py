"""Tables of metrics: a sample a row, a column a machine or a column a metric, as their header says.

``nvidia-smi --query-gpu=... --format=csv`` writes a column a metric.  It names its units in the header
(``utilization.gpu [%]``), writes them behind each number too unless told not to, and never the host.  What cannot be
used of a column of times, numbers or names is an error with its line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import numpy as np

from ground.columns import NOTHING, csv_texts, encoded, numbers, open_parquet, timestamps
from ground.errors import InvalidInput, did_you_mean, few
from ground.files import Content
from ground.formats import NEARLY, FileFormat, begins_as_json, text_of
from ground.rows import header_of
from health.peers.metrics import canonical
from health.peers.sample_sources import GPU_LABELS, MACHINE_LABELS, PORT_LABELS, SampleColumns, part_of
from health.peers.streams import FloatArray, IntArray, MetricRecording, Part, recording_of, row_of, stem
from topology.cluster import BoolArray

PARQUET = b"PAR1"  # First bytes of such a file
TIMES = ("time", "timestamp", "datetime", "date", "ts")
GPUS = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")  # What tells GPUs apart
INDEX = ("", "unnamed: 0")  # Columns of row numbers, as pandas writes them
ABSENT = ("[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "N/A", "")  # As nvidia-smi writes
_UNIT = re.compile(r"(?<!\s)\s*+\[[^\[\]]*+\]\s*$")
_SMI_FIELD = re.compile(r"(?:utilization|power|temperature|memory|clocks|ecc|pcie|fan|encoder|fbc)\.[a-z_.]+")
_NUMBER = re.compile(r"([-+]?[0-9.]+(?:e[-+]?\d+)?)\s*(?:%|W|MiB|MHz|C|us|ms)?", re.IGNORECASE)
_PART = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(?:[-:_](.*))?")  # An address, and perhaps which part of that machine
EPOCH = 1e8  # Seconds above this are taken for seconds since 1970 (this one is in 1973)
LATEST = 1e11  # Times above this (the year 5138) are milliseconds since 1970; a thousandfold micro-, then nanoseconds


class _Table:
    """A table of metrics: which of the three it is decide its header and the options, whichever reader is asked."""

    def read(self, content: Content, *, columns: SampleColumns, lenient: bool, several: bool) -> MetricRecording:
        """Return samples from CSV text with a header, or from Parquet; errors name the line or row."""
        name, data = content.name, content.data
        notes: list[str] = []
        if data.startswith(PARQUET):
            with open_parquet(data, name=name) as file:
                header = file.schema_arrow.names
                wide = _wide_or_known(header, header, columns, name)
                table = file.read(columns=wide.columns if wide else [*columns.names, *_part_columns(header, columns)])
            rows = TableColumns(table, name, lambda row: f"{name}: row {row + 1}", lenient, notes)
        else:
            head = data[: data.find(b"\n") + 1 or None]
            wide = _wide_or_known(_header(head), header_of(head), columns, f"{name}:1")
            again = wide is not None and data.find(head, len(head)) >= 0
            if again:
                # Each run of `nvidia-smi ... >> FILE` begins with the header; without it lines are not the file's.
                data = head + data[len(head) :].replace(head, b"")
            named = wide.columns if wide else [*columns.names, *_part_columns(header_of(head), columns)]
            table, out = csv_texts(name, data, named, lenient=lenient)
            if out:
                notes.append(f"left out {out} rows with a wrong number of cells")
            rows = TableColumns(table, name, lambda row: name if again else f"{name}:{row + 2}", lenient, notes)
        return _long_samples(rows, columns) if wide is None else wide_samples(rows, columns, wide, several=several)


class SampleRows(_Table):
    """Reads a sample a row."""

    format = FileFormat(
        "samples",
        source="CSV or Parquet with a sample a row: time, machine, metric, value",
        export="table.melt(...).to_parquet('metrics.parquet')",
        read="these four columns, and gpu or device; other names by --time-column, --machine-column, "
        "--metric-column, --value-column",
        left_out="other columns; samples without a value (counted)",
        marks=("time", "machine", "metric", "value"),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the header has the columns; any other table is asked what it lacks for them."""
        if head.startswith(PARQUET):
            return NEARLY
        if begins_as_json(head) or b"\0" in head[:4096] or head.startswith(b"\x80"):
            return 0.0
        return 1.0 if {*SampleColumns().names} <= {*_header(head)} else NEARLY


class MetricsOfMachines(_Table):
    """Reads a column a machine."""

    format = FileFormat(
        "metrics-of-machines",
        source="CSV or Parquet with a column of times and a column a machine, as of Acme: one metric, named by "
        "the file",
        export="table.pivot(index='time', columns='machine', values='value').to_csv('gpu_util.csv')",
        read="all columns but the times; 10.1.2.3-0 and 10.1.2.3-mlx5_0 are a GPU and a NIC of the machine 10.1.2.3",
        left_out="columns without numbers (named)",
        marks=("time,",),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the header has times, and columns that are no fields of nvidia-smi."""
        wide = _wide_of_text(head)
        return float(wide is not None and not wide.of_smi)


class NvidiaSmi(_Table):
    """Reads what nvidia-smi writes, a column a metric."""

    format = FileFormat(
        "nvidia-smi",
        source="CSV of nvidia-smi, with or without units and times: of several hosts in a file each, or with a "
        "column host",
        export="nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw --format=csv -l 1 > HOST.csv",
        read="every column of numbers, GPU by GPU",
        left_out="columns without numbers (named); [N/A]",
        marks=("utilization.gpu", "power.draw", "timestamp"),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the header has a field of nvidia-smi."""
        wide = _wide_of_text(head)
        return float(wide is not None and wide.of_smi)


def _header(head: bytes) -> list[str]:
    """Return the names of columns with the spaces around them, as Arrow knows them; nothing where it is not CSV."""
    try:
        return next(csv.reader([text_of(head).split("\n", 1)[0].rstrip("\r")]), [])
    except csv.Error:
        return []


def _wide_of_text(head: bytes) -> WideTable | None:
    """Return what a text is by its header, with the columns called as usual; ``None`` = no wide table."""
    no_text = begins_as_json(head) or head.startswith(PARQUET) or b"\0" in head[:4096]
    return None if no_text else wide_table(_header(head), SampleColumns())


def _wide_or_known(header: Sequence[str], names: Sequence[str], columns: SampleColumns, where: str) -> WideTable | None:
    """Return the wide table that a header is of; else make sure that it has the columns of a sample a row.

    :param names: those of the header for errors, without the spaces around them.
    """
    if (wide := wide_table(header, columns)) is not None:
        return wide
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and mark in names[0]:
            fix = "write it with commas between columns and points in numbers, as with LC_ALL=C"
            raise InvalidInput(f"has {name} between its columns", where=where, fix=fix)
    for column in columns.names:
        if column not in names:
            raise InvalidInput(
                f"has no column {column!r}; its columns are {', '.join(repr(name[:40]) for name in names[:12])}",
                where=where,
                fix=f"{did_you_mean(column, names)}say which column it is: --time-column, --machine-column, "
                "--metric-column (none = one metric only), --value-column",
            )
    return None


def _long_samples(rows: TableColumns, columns: SampleColumns) -> MetricRecording:
    """Return samples of all metrics from a sample a row."""
    time, absolute = rows.times(columns.time)
    value = rows.values(columns.value)
    machine, machines = rows.names(columns.machine)
    of_machines: dict[str, tuple[str, str]] = {}
    machine, machines = rows.parts(machine, machines, _part_columns(rows.table.column_names, columns), of_machines)
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
    parts: dict[str, list[Part]] = {}
    for code, name in enumerate(metrics):
        there = np.flatnonzero(usable & (metric == code))
        parts.setdefault(canonical(name) or name, []).append((machines, machine[there], time[there], value[there]))
    fix = "give samples with time, machine and value"
    return recording_of(parts, absolute=absolute, source=rows.name, notes=rows.notes, of_machines=of_machines, fix=fix)


def _part_columns(header: Sequence[str], columns: SampleColumns) -> list[str]:
    """Return the columns of a header that say which part of a machine a row is of."""
    return [name for name in (*GPU_LABELS, *PORT_LABELS) if name in header and name not in columns.names]


@dataclass(frozen=True, slots=True)
class WideTable:
    """What the columns of a table are, by their names as they stand in it."""

    kind: Literal["machines", "metrics"]
    of_smi: bool  # whether a column is a field of nvidia-smi
    time: str | None  # None = it has none: rows of a unit follow each other
    machine: str | None  # None = the file is of one machine
    gpu: str | None  # which GPU; None = the table does not say, or has none
    values: Mapping[str, str]  # column -> the metric that it is of; itself where it is of a machine

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [*(name for name in (self.time, self.machine, self.gpu) if name is not None), *self.values]


def wide_table(header: Sequence[str], columns: SampleColumns) -> WideTable | None:
    """Return what a table is by its header; ``None`` = it is of a sample a row, or nothing that is known."""
    plain = {_UNIT.sub("", name).strip().lower(): name for name in header}
    if len(plain) < len(header) or any(name.lower() in plain for name in columns.names[2:]):
        return None
    time = next((plain[name] for name in (columns.time.lower(), *TIMES) if name in plain), None)
    labels = (columns.machine, *MACHINE_LABELS)
    machine = next((plain[name.lower()] for name in labels if name.lower() in plain), None)
    rest = {name: shown for shown, name in plain.items() if name not in (time, machine) and shown not in INDEX}
    if any(_SMI_FIELD.fullmatch(shown) for shown in rest.values()):
        gpu = next((plain[name] for name in GPUS if name in plain), None)
        values = {name: shown for name, shown in rest.items() if name != gpu}
        return WideTable("metrics", True, time, machine, gpu, values)
    misspelt = any(did_you_mean(name, rest.values()) for name in columns.names[2:])
    if time is None or columns.metric is None or misspelt or len(rest) < (1 if machine else 2):
        return None
    if machine is not None:
        gpu = next((plain[name] for name in GPU_LABELS if name in plain and len(rest) > 1), None)
        return WideTable("metrics", False, time, machine, gpu, {name: of for name, of in rest.items() if name != gpu})
    return WideTable("machines", False, time, None, None, {name: name for name in rest})


def machine_of(column: str) -> tuple[str, str]:
    """Return machine and part of a column: of ``10.1.2.3-0`` the address and ``GPU 0``."""
    if (match := _PART.fullmatch(column.strip())) is None:
        return column.strip(), ""
    part = match[2] or ""
    return match[1], f"{'GPU' if part.isdigit() else 'NIC'} {part}" if part else ""


def ticks(machine: IntArray, gpu: IntArray | None, time: FloatArray | None) -> FloatArray:
    """Return one time for all GPUs of a machine at each query, shape [rows].

    The k-th row of each GPU is of the k-th query.  Without times queries are taken to be a second apart.
    """
    unit = machine if gpu is None else machine * (int(gpu.max(initial=0)) + 1) + gpu
    order = np.argsort(unit, kind="stable")
    begins = np.flatnonzero(np.diff(unit[order], prepend=-1))
    turn = np.empty(len(unit), dtype=np.int64)
    turn[order] = np.arange(len(unit)) - np.repeat(begins, np.diff(np.append(begins, len(unit))))
    if time is None:
        return turn.astype(np.float64)
    if gpu is None:
        return time
    query = machine * (int(turn.max(initial=0)) + 1) + turn
    first = np.full(int(query.max(initial=0)) + 1, np.inf)
    np.minimum.at(first, query, np.where(np.isfinite(time), time, np.inf))
    return np.where(np.isfinite(time), first[query], np.nan)


def wide_samples(rows: TableColumns, columns: SampleColumns, wide: WideTable, *, several: bool) -> MetricRecording:
    """Return samples of a table with a column a machine or a metric.

    :param several: there are other files, so that one without names of machines is of the machine it is called by.
    """
    called = stem(rows.name)
    machine, machines, gpu = np.zeros(rows.table.num_rows, dtype=np.int64), [called], None
    if wide.gpu is not None:
        gpu, gpus = rows.names(wide.gpu)
    alone = gpu is not None and wide.machine is None and not several
    if wide.machine is not None:
        machine, machines = rows.names(wide.machine)
    elif gpu is not None and alone:
        machine, machines, gpu = gpu, [f"GPU {name}" for name in gpus], None
        rows.notes.append("it names no host: its GPUs are compared with each other, and no node can be flagged")
    time, absolute = (None, False) if wide.time is None else rows.times(wide.time)
    faults: list[Fault] = [(machine < 0, f"has no {wide.machine or wide.gpu}", "give every row its machine")]
    if time is None:
        rows.notes.append("it has no times: its queries are taken to be a second apart")
    else:
        faults.append((~np.isfinite(time), f"has no {wide.time}", "give every row its time"))
    usable = rows.usable(*faults)
    at = ticks(machine, gpu, time) if wide.kind == "metrics" or time is None else time
    of_machines: dict[str, tuple[str, str]] = {}
    if wide.gpu is not None and gpu is not None:
        machine, machines = rows.parts(machine, machines, [wide.gpu], of_machines)
    given = columns.value if columns.value != SampleColumns().value else called
    parts: dict[str, list[Part]] = {}
    texts = []
    for column, of in wide.values.items():
        value = rows.measured(column, measured, ABSENT)
        if value is None:
            texts.append(column)
            continue
        there = np.flatnonzero(usable & np.isfinite(value))
        metric, names = of, machines
        if wide.kind == "machines":
            metric, names = given, [row_of(*machine_of(column), of_machines)]
        part = (names, machine[there], at[there], value[there])
        parts.setdefault(canonical(metric) or metric, []).append(part)
    if texts:
        without = few((repr(name.strip()[:40]) for name in texts), most=8)
        rows.notes.append(f"left out columns without numbers: {without}")
    return recording_of(
        parts,
        absolute=absolute,
        source=rows.name,
        notes=rows.notes,
        of_nodes=not alone,
        of_machines=of_machines,
        fix="give a file with columns of numbers",
    )


Fault = tuple[BoolArray, str, str]  # Rows that cannot be used, what is wrong with them, how to mend them


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Columns of an Arrow table, each by its name."""

    table: Any
    name: str  # of the file
    line: Callable[[int], str]  # from a row, counted from 0, to its place
    lenient: bool
    notes: list[str]  # takes what the user should know

    def __post_init__(self) -> None:
        if self.table.num_rows == 0:
            raise InvalidInput("has no rows", where=self.name, fix="give a file with samples")

    def times(self, title: str) -> tuple[FloatArray, bool]:
        """Return seconds, NaN where there is none, and whether they count from 1970."""
        column, zoneless = self.table.column(title), list[str]()
        fix = "give seconds, or dates such as 2026-11-21T12:00:00Z"
        since_1970 = timestamps(column)
        if since_1970 is None:
            seconds = partial(_seconds, zoneless=zoneless)
            time = self.numbers(title, seconds, "of times", "neither seconds nor a date", fix)
        if zoneless or (since_1970 is not None and not column.type.tz):
            self.notes.append("dates without a time zone were read as UTC")
        if since_1970 is not None:
            return since_1970, True
        time = np.where(np.isfinite(time), time, np.nan)
        if not np.isfinite(time).any():
            return time, False
        middle = float(np.nanmedian(time))
        units = [unit for unit in (1.0, 1e3, 1e6, 1e9) if middle <= LATEST * unit]
        if not units:
            raise InvalidInput(f"{title} is {middle:g}, no time in any unit", where=self.name, fix=fix)
        return time / units[0], middle > EPOCH

    def values(self, title: str) -> FloatArray:
        """Return plain numbers, NaN where there is none."""
        return self.numbers(title, _number, "of numbers", "not a number", "give numbers")

    def measured(self, title: str, value_of: Callable[[str], float], absent: tuple[str, ...]) -> FloatArray | None:
        """Return numbers, perhaps with units, NaN where there is none; ``None`` = the column holds no number.

        :param absent: texts that stand for no number, beside the usual ones.
        """
        try:
            values, odd, row = numbers(self.table.column(title), value_of, nothing=(*NOTHING, *absent))
        except TypeError:
            return None
        if odd is not None and not np.isfinite(values).any():
            return None
        if odd is not None and not self.lenient:
            what = f"{title.strip()[:40]} is {odd[:40]!r}, not a number"
            raise InvalidInput(what, where=self.line(row), fix="give numbers, or leave such cells out with --lenient")
        return values

    def numbers(self, title: str, value_of: Callable[[str], float], kind: str, wanted: str, fix: str) -> FloatArray:
        """Return the numbers of a column, NaN where there is none; what is no number is an error unless lenient."""
        try:
            values, odd, row = numbers(self.table.column(title), value_of)
        except TypeError as error:
            raise InvalidInput(f"{title} is a column of {error}, not {kind}", where=self.line(0), fix=fix) from None
        if odd is not None and not self.lenient:
            problem = f"{title} is {odd[:40]!r}, {wanted}"
            raise InvalidInput(problem, where=self.line(row), fix=f"{fix}, or leave such rows out with --lenient")
        return values

    def names(self, title: str) -> tuple[IntArray, list[str]]:
        """Return numbers for names, -1 for none, and the names in order."""
        codes, texts = encoded(self.table.column(title))
        names = [text.strip() for text in texts]
        order = sorted(set(names) - {""})
        rank = {text: k for k, text in enumerate(order)}
        return np.array([*(rank.get(text, -1) for text in names), -1], dtype=np.int64)[codes], order

    def parts(
        self, machine: IntArray, machines: list[str], titles: Sequence[str], of_machines: dict[str, tuple[str, str]]
    ) -> tuple[IntArray, list[str]]:
        """Return rows for parts of machines in place of machines, as columns say, and their names.

        :param machine: of each row its machine, -1 for none; ``machines``: their names.
        :param of_machines: takes what is a part of which machine.
        """
        code, several = machine, []
        for title in titles:
            codes, texts = self.names(title)
            # a column that is the same all over each machine tells no parts of it apart
            if len(np.unique(machine * (len(texts) + 1) + codes)) > len(np.unique(machine)):
                several.append((title.strip().lower(), codes, texts))
        for _, codes, texts in several:
            code = np.where(machine < 0, -1, code * (len(texts) + 1) + codes + 1)
        if not several:
            return machine, machines
        kept, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        names = []
        for k in first[kept >= 0].tolist():
            labels = {
                "gpu" if title in GPUS else title: texts[codes[k]] for title, codes, texts in several if codes[k] >= 0
            }
            names.append(row_of(machines[machine[k]], part_of(labels), of_machines))
        return inverse - int((kept < 0).any()), names

    def usable(self, *faults: Fault) -> BoolArray:
        """Return the rows that have none of these faults; the first that has one is an error unless lenient."""
        good = np.ones(self.table.num_rows, dtype=np.bool_)
        for bad, what, fix in faults:
            if bad.any():
                first = self.line(int(np.argmax(bad)))
                if not self.lenient:
                    raise InvalidInput(what, where=first, fix=f"{fix}, or leave such rows out with --lenient")
                self.notes.append(f"left out {int(bad.sum()):,} rows: the first, {first}, {what}")
                good &= ~bad
        return good


def _number(text: str) -> float:
    """Return a number; NaN = it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def _seconds(text: str, *, zoneless: list[str]) -> float:
    """Return seconds as they are written, or since 1970 of a date; NaN = neither.

    :param zoneless: takes dates that say no time zone, and are taken to be UTC.
    """
    if not np.isnan(seconds := _number(text)):
        return seconds
    try:
        # nvidia-smi writes 2026/11/21 12:00:00.123.
        date = datetime.fromisoformat(text.strip().replace("/", "-"))
    except ValueError:
        return np.nan
    if date.tzinfo is None:
        zoneless.append(text)
        date = date.replace(tzinfo=UTC)
    return date.timestamp()


def measured(text: str) -> float:
    """Return a number with or without its unit; NaN = it is none."""
    match = _NUMBER.fullmatch(text.strip())
    try:
        return float(match[1]) if match else np.nan
    except ValueError:
        return np.nan
