"""Tables of metrics: a sample a row, a column a machine or a column a metric, as their header says.

``nvidia-smi --query-gpu=... --format=csv`` writes a column a metric.  It names its units in the header
(``utilization.gpu [%]``), writes them behind each number too unless told not to, and never the host.  What cannot be
used of a column of times, numbers or names is an error with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from ground.columns import NOTHING, encoded, numbers, timestamps
from ground.errors import InvalidInput, did_you_mean
from ground.formats import FileFormat
from health.peers.metrics import canonical
from health.peers.prometheus import stem
from health.peers.sample_sources import MACHINE_LABELS, SampleColumns
from health.peers.streams import FloatArray, IntArray, MetricRecording, Part, samples_of
from topology.cluster import BoolArray

# -- table_columns --
# Columns of a table of metrics as times, numbers and names; what cannot be used is an error with its line.


EPOCH = 1e8  # Seconds above this are taken for seconds since 1970 (this one is in 1973)
MILLISECONDS = 1e11  # Numbers above this are taken for milliseconds since 1970 (as seconds it is the year 5138)

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
        if (since_1970 := timestamps(self.table.column(title))) is not None:
            return since_1970, True
        fix = "give seconds, or dates such as 2026-11-21T12:00:00Z"
        time = self.numbers(title, _seconds, "of times", "neither seconds nor a date", fix)
        time = np.where(np.isfinite(time), time, np.nan)
        if not np.isfinite(time).any():
            return time, False
        middle = float(np.nanmedian(time))
        return (time / 1e3, True) if middle > MILLISECONDS else (time, middle > EPOCH)

    def values(self, title: str) -> FloatArray:
        """Return plain numbers, NaN where there is none."""
        return self.numbers(title, _number, "of numbers", "not a number", "give numbers")

    def measured(self, title: str, value_of: Callable[[str], float], absent: tuple[str, ...]) -> FloatArray | None:
        """Return numbers, perhaps with units, NaN where there is none; ``None`` = the column holds no number.

        :param absent: texts that stand for no number, beside the usual ones.
        """
        try:
            found, odd, row = numbers(self.table.column(title), value_of, nothing=(*NOTHING, *absent))
        except TypeError:
            return None
        if odd is not None and not np.isfinite(found).any():
            return None
        if odd is not None and not self.lenient:
            what = f"{title.strip()[:40]} is {odd[:40]!r}, not a number"
            raise InvalidInput(what, where=self.line(row), fix="give numbers, or leave such cells out with --lenient")
        return found

    def numbers(self, title: str, value_of: Callable[[str], float], kind: str, wanted: str, fix: str) -> FloatArray:
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

    def names(self, title: str) -> tuple[IntArray, list[str]]:
        """Return numbers for names, -1 for none, and the names in order."""
        codes, texts = encoded(self.table.column(title))
        names = [text.strip() for text in texts]
        order = sorted(set(names) - {""})
        rank = {text: k for k, text in enumerate(order)}
        return np.array([*(rank.get(text, -1) for text in names), -1], dtype=np.int64)[codes], order

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


def _seconds(text: str) -> float:
    """Return seconds as they are written, or since 1970 of a date; NaN = neither."""
    if not np.isnan(seconds := _number(text)):
        return seconds
    try:
        # nvidia-smi writes 2026/11/21 12:00:00.123.
        date = datetime.fromisoformat(text.strip().replace("/", "-"))
    except ValueError:
        return np.nan
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


# -- wide_tables --
# Tables with a column a machine or a column a metric, in place of a sample a row: what their header says they are.
#
# ``nvidia-smi --query-gpu=... --format=csv`` writes a column a metric.  It names its units in the header
# (``utilization.gpu [%]``), writes them behind each number too unless told not to, and never the host.


MACHINES = FileFormat(
    "metrics-of-machines",
    source="CSV or Parquet with a column of times and a column a machine, as of Acme: one metric, named by the file",
    export="table.pivot(index='time', columns='machine', values='value').to_csv('gpu_util.csv')",
    read="all columns but the times; 10.1.2.3-0 and 10.1.2.3-mlx5_0 are parts of the machine 10.1.2.3, taken as a mean",
    left_out="columns without numbers (named)",
    marks=("time,",),
)
SMI = FileFormat(
    "nvidia-smi",
    source="CSV of nvidia-smi, with or without units and times: of several hosts in a file each, or with a column host",
    export="nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw --format=csv -l 1 > HOST.csv",
    read="every column of numbers; the GPUs of a host as their mean, of a single host its GPUs by themselves",
    left_out="columns without numbers (named); [N/A]",
    marks=("utilization.gpu", "power.draw", "timestamp"),
)

TIMES = ("time", "timestamp", "datetime", "date", "ts")
GPUS = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")  # What tells GPUs apart
INDEX = ("", "unnamed: 0")  # Columns of row numbers, as pandas writes them
ABSENT = ("[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "N/A", "")  # As nvidia-smi writes
_UNIT = re.compile(r"\s*\[[^\]]*\]\s*$")
_SMI_FIELD = re.compile(r"(?:utilization|power|temperature|memory|clocks|ecc|pcie|fan|encoder|fbc)\.[a-z_.]+")
_NUMBER = re.compile(r"([-+]?[0-9.]+(?:e[-+]?\d+)?)\s*(?:%|W|MiB|MHz|C|us|ms)?", re.IGNORECASE)
_PART = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3})(?:[-:_].*)?")  # An address, and perhaps which part of that machine


@dataclass(frozen=True, slots=True)
class WideTable:
    """What the columns of a table are, by their names as they stand in it."""

    kind: Literal["machines", "metrics"]
    time: str | None  # None = it has none: rows of a unit follow each other
    machine: str | None  # None = the file is of one machine
    gpu: str | None  # which GPU; None = the table does not say, or has none
    values: Mapping[str, str]  # column -> the machine or the metric that it is of

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
        return WideTable("metrics", time, machine, gpu, values)
    misspelt = any(did_you_mean(name, rest.values()) for name in columns.names[2:])
    if time is None or columns.metric is None or misspelt or len(rest) < (1 if machine else 2):
        return None
    if machine is not None:
        return WideTable("metrics", time, machine, None, rest)
    return WideTable("machines", time, None, None, {name: machine_of(name) for name in rest})


def machine_of(column: str) -> str:
    """Return the machine of a column: of ``10.1.2.3-0`` and ``10.1.2.3-mlx5_0`` the address."""
    part = _PART.fullmatch(column.strip())
    return part[1] if part else column.strip()


def measured(text: str) -> float:
    """Return a number with or without its unit; NaN = it is none."""
    match = _NUMBER.fullmatch(text.strip())
    try:
        return float(match[1]) if match else np.nan
    except ValueError:
        return np.nan


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
        machine, machines, gpu = gpu, [f"GPU {one}" for one in gpus], None
        rows.notes.append("it names no host: its GPUs are compared with each other, and no node can be flagged")
    time, absolute = (None, False) if wide.time is None else rows.times(wide.time)
    faults: list[Fault] = [(machine < 0, f"has no {wide.machine or wide.gpu}", "give every row its machine")]
    if time is None:
        rows.notes.append("it has no times: its queries are taken to be a second apart")
    else:
        faults.append((~np.isfinite(time), f"has no {wide.time}", "give every row its time"))
    usable = rows.usable(*faults)
    at = ticks(machine, gpu, time) if wide.kind == "metrics" or time is None else time
    given = columns.value if columns.value != SampleColumns().value else called
    parts: dict[str, list[Part]] = {}
    texts = []
    for column, of in wide.values.items():
        value = rows.measured(column, measured, ABSENT)
        if value is None:
            texts.append(column)
            continue
        there = np.flatnonzero(usable & np.isfinite(value))
        metric, names = (of, machines) if wide.kind == "metrics" else (given, [of])
        part = (names, machine[there], at[there], value[there])
        parts.setdefault(canonical(metric) or metric, []).append(part)
    metrics = {name: samples_of(name, found) for name, found in sorted(parts.items())}
    metrics = {name: samples for name, samples in metrics.items() if len(samples.value)}
    if not metrics:
        raise InvalidInput("has no usable sample", where=rows.name, fix="give a file with columns of numbers")
    notes = (*rows.notes, *_without_numbers(texts))
    return MetricRecording(metrics, absolute, rows.name, notes, of_nodes=not alone)


def _without_numbers(columns: Sequence[str]) -> list[str]:
    """Return a note on columns that hold no numbers, if there are any."""
    few = ", ".join(repr(name.strip()[:40]) for name in columns[:8]) + (", ..." if len(columns) > 8 else "")
    return [f"left out columns without numbers: {few}"] if columns else []
