"""Tables with a column a machine or a column a metric, in place of a sample a row: what their header says they are.

``nvidia-smi --query-gpu=... --format=csv`` writes a column a metric.  It names its units in the header
(``utilization.gpu [%]``), writes them behind each number too unless told not to, and never the host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ground.errors import InvalidInput, did_you_mean
from ground.formats import FileFormat
from health.peers.metrics import canonical
from health.peers.prometheus import stem
from health.peers.sample_sources import MACHINE_LABELS, SampleColumns
from health.peers.streams import FloatArray, IntArray, MetricRecording, Part, samples_of
from health.peers.table_columns import Fault, TableColumns

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
