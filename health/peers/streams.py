"""Samples as they were measured, and the same on a common clock."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ground.errors import InvalidInput, TooLarge
from health.peers.metrics import metric_of
from topology.cluster import BoolArray

FloatArray = NDArray[np.floating]
IntArray = NDArray[np.integer]

# Most numbers on one metric's grid, 240 MB; 1,500 machines over five hours at one sample a second are 27 million
MAX_CELLS = 30_000_000
# A machine without a sample for longer than this many steps is silent: what it last said is not what it does
GAP_STEPS = 8


@dataclass(frozen=True, slots=True)
class Samples:
    """One metric as measured: sample ``k`` says that ``machines[machine[k]]`` had ``value[k]`` at ``time[k]``."""

    metric: str
    machines: tuple[str, ...]  # names, sorted
    time: FloatArray  # seconds, any origin, not sorted
    machine: IntArray  # index into machines
    value: FloatArray  # finite

    def only(self, machines: Collection[str]) -> Self:
        """Return the samples of some machines."""
        kept = np.array([k for k, name in enumerate(self.machines) if name in machines], dtype=np.int64)
        rows = np.isin(self.machine, kept)
        names = tuple(self.machines[k] for k in kept)
        machine = np.searchsorted(kept, self.machine[rows])
        return type(self)(self.metric, names, self.time[rows], machine, self.value[rows])


@dataclass(frozen=True, slots=True)
class MetricRecording:
    """All metrics of a job's machines."""

    metrics: Mapping[str, Samples]
    absolute: bool  # times are seconds since 1970, not since some start
    source: str
    notes: tuple[str, ...] = ()  # what the reader had to decide or leave out
    of_nodes: bool = True  # whether its machines are nodes; else they are parts of one, such as its GPUs
    # what is called ``machines`` in samples and is a part of one, such as ``n7 GPU 6``: its machine, and its own name
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def machines(self) -> list[str]:
        """Names of all machines that sent anything."""
        senders = (samples.machines[k] for samples in self.metrics.values() for k in np.unique(samples.machine))
        return sorted({self.machine_of(name) for name in senders})

    def machine_of(self, row: str) -> str:
        """Return the machine of a part, or the machine itself."""
        return self.parts[row][0] if row in self.parts else row

    def by_machine(self, samples: Samples) -> Samples:
        """Return samples of parts as samples of their machines, several at a time."""
        if self.parts.keys().isdisjoint(samples.machines):
            return samples
        machines = [self.machine_of(row) for row in samples.machines]
        names = sorted(set(machines))
        index_of = {name: k for k, name in enumerate(names)}
        code = np.array([index_of[machine] for machine in machines], dtype=np.int64)
        return replace(samples, machines=tuple(names), machine=code[samples.machine])

    def only(self, machines: Collection[str]) -> Self:
        """Return the recording of some machines; it is an error if nothing is known of any of them."""
        wanted = set(machines)
        rows = {*wanted, *(row for row, (machine, _) in self.parts.items() if machine in wanted)}
        kept = {name: samples.only(rows) for name, samples in self.metrics.items()}
        kept = {name: samples for name, samples in kept.items() if len(samples.value)}
        if not kept:
            fix = f"the names in it are like {', '.join(self.machines[:3])}: name those"
            raise InvalidInput("has no sample of the machines asked for", where=self.source, fix=fix)
        missing, lost = sorted(wanted - set(self.machines)), sorted(self.metrics.keys() - kept.keys())
        notes = [f"no sample of {len(missing)} of the machines asked for: {', '.join(missing[:5])}"] if missing else []
        if lost:  # its exporter may call the machines by other names
            others = ", ".join(self.metrics[lost[0]].machines[:3])
            notes.append(
                f"not compared: {', '.join(lost)}, which is of none of the machines asked for, but of {others}"
            )
        return replace(self, metrics=kept, notes=(*self.notes, *notes))


Part = tuple[Sequence[str], IntArray, FloatArray, FloatArray]  # Machines, which of them, times, values


def samples_of(metric: str, parts: Sequence[Part]) -> Samples:
    """Return the samples of one metric that were measured apart, each part with machines of its own."""
    machines = sorted({name for names, *_ in parts for name in names})
    index_of = {name: k for k, name in enumerate(machines)}
    codes = [np.array([index_of[name] for name in names], dtype=np.int64)[code] for names, code, _, _ in parts]
    time, value = (np.concatenate([part[k] for part in parts]) for k in (2, 3))
    return Samples(metric, tuple(machines), time, np.concatenate(codes), value)


def stem(name: str) -> str:
    """Return how a machine or a metric is called by its file: ``n7`` of ``scrapes/n7.prom.gz``."""
    return PurePath(name).name.split(".", 1)[0] or "value"


def recording_of(
    parts: Mapping[str, Sequence[Part]],
    *,
    absolute: bool,
    source: str,
    notes: Sequence[str],
    of_nodes: bool = True,
    of_machines: Mapping[str, tuple[str, str]] | None = None,
    fix: str,
) -> MetricRecording:
    """Return the recording of samples by their metric; an error, with what to do, where there is none."""
    metrics = {name: samples_of(name, part) for name, part in sorted(parts.items())}
    metrics = {name: samples for name, samples in metrics.items() if len(samples.value)}
    if not metrics:
        raise InvalidInput("has no usable sample", where=source, fix=fix)
    return MetricRecording(metrics, absolute, source, tuple(notes), of_nodes, of_machines or {})


def joined(recordings: Sequence[MetricRecording]) -> MetricRecording:
    """Return several recordings as one; it is an error if some count from 1970 and others do not."""
    parts: dict[str, list[Part]] = {}
    for recording in recordings:
        if recording.absolute != recordings[0].absolute:
            problem = f"{'has' if recording.absolute else 'has no'} times since 1970, unlike {recordings[0].source}"
            raise InvalidInput(problem, where=recording.source, fix="give files with times of one kind")
        for name, metric in recording.metrics.items():
            parts.setdefault(name, []).append((metric.machines, metric.machine, metric.time, metric.value))
    metrics = {name: samples_of(name, of_metric) for name, of_metric in sorted(parts.items())}
    notes = tuple(dict.fromkeys(note for recording in recordings for note in recording.notes))
    sources = f"{recordings[0].source} and {len(recordings) - 1} more files"
    of_nodes = all(recording.of_nodes for recording in recordings)
    parts_of = {row: of for recording in recordings for row, of in recording.parts.items()}
    return MetricRecording(metrics, recordings[0].absolute, sources, notes, of_nodes, parts_of)


def in_our_units(recording: MetricRecording) -> MetricRecording:
    """Return a recording with the metrics that are known in our units, by which it is told what is noticeable or idle.

    Shares of 1 are no percent, kilowatts no watts: in them no difference would be noticeable, and no machine work.
    """
    found, notes = dict(recording.metrics), list(recording.notes)
    for name, samples in recording.metrics.items():
        known, most = metric_of(name), float(np.quantile(samples.value, 0.99))
        if known.other_unit is None or not known.other_unit[0] <= most <= known.other_unit[1]:
            continue
        factor = known.other_unit[2]
        if factor > 1.0 and not (samples.value % 1.0).any():
            continue  # whole percent of what idles
        found[name] = replace(samples, value=samples.value * factor)
        taken = f"is of another unit: taken x {factor:g}" if factor != 1.0 else "may be a share, or idles"
        notes.append(f"{known.title} of at most {most:.3g} {taken}")
    return replace(recording, metrics=found, notes=tuple(notes))


def row_of(machine: str, part: str, parts: dict[str, tuple[str, str]]) -> str:
    """Return the name of the row of a part of a machine, which is noted; of no part that of the machine."""
    if not part:
        return machine
    parts[f"{machine} {part}"] = machine, part
    return f"{machine} {part}"


@dataclass(frozen=True, slots=True)
class SampleGrid:
    """One metric on a common clock."""

    metric: str
    machines: tuple[str, ...]
    start: float  # time of the first column, seconds
    step: float  # seconds between columns
    values: FloatArray  # shape (machines, times); where a machine is silent, its nearest sample
    silent: BoolArray  # same shape: no sample within GAP_STEPS steps
    # columns before which time was cut out, as no machine had samples in it, and how many seconds
    cuts: tuple[tuple[int, float], ...] = ()

    def time(self, column: int) -> float:
        """Return the time of a column, seconds."""
        return self.start + column * self.step + sum(seconds for first, seconds in self.cuts if first <= column)

    @property
    def times(self) -> FloatArray:
        """Return the times of all columns, seconds, ascending."""
        columns = np.arange(self.values.shape[1])
        return self.start + columns * self.step + sum((columns >= first) * seconds for first, seconds in self.cuts)


def rate_of(samples: Samples) -> Samples | None:
    """Return what a counter gained a second between two samples of a machine, at the later one; ``None`` = nothing.

    A counter that begins anew falls: what it gained meanwhile is not known, and left out.
    """
    machine, time, value = _means(samples.machine, samples.time, samples.value)
    gained = np.diff(value)
    rises = (np.diff(machine) == 0) & (gained >= 0)
    if not rises.any():
        return None
    rate = gained[rises] / np.diff(time)[rises]
    return replace(samples, time=time[1:][rises], machine=machine[1:][rises], value=rate)


def sampling_step(samples: Samples) -> float:
    """Return seconds between two samples of a machine, usually: the median over all pairs of neighbours in time."""
    order = np.lexsort((samples.time, samples.machine))
    gaps = np.diff(samples.time[order])[np.diff(samples.machine[order]) == 0]
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if gaps.size else 1.0


def align(
    samples: Samples,
    *,
    step: float | None = None,
    machines: Sequence[str] | None = None,
    longest_gap: float | None = None,
) -> SampleGrid:
    """Put a metric on a common clock, each column filled with the nearest sample (Minder, section 4.1).

    Several samples of a machine at one time (one for each of its GPUs) count as their mean.

    :param step: seconds; ``None`` = as often as it was sampled.
    :param machines: rows of the grid; ``None`` = those of the samples.  One without samples is silent throughout.
    :param longest_gap: seconds to which longer times without any sample are cut; ``None`` = they are not.
    """
    rows = tuple(samples.machines if machines is None else machines)
    step = sampling_step(samples) if step is None else step
    start = float(samples.time.min())
    # longer times without samples are cut out: the middle of what is left of each, and what was cut
    longest = longest_gap or np.inf
    order = np.sort(samples.time - start)
    lengths = np.diff(order)
    long = np.flatnonzero(lengths > longest)
    cut = np.concatenate(([0.0], np.cumsum(lengths[long] - longest)))
    middles = order[long + 1] - cut[1:] - (longest / 2.0 if long.size else 0.0)
    time = samples.time - start - cut[np.searchsorted(order[long + 1], samples.time - start, side="right")]
    gaps = zip(middles.tolist(), np.diff(cut).tolist(), strict=True)
    end = start + float(time.max())
    columns = int((end - start) / step + 1e-9) + 1
    if columns * len(rows) > MAX_CELLS:
        raise TooLarge(
            f"{samples.metric}: {len(rows):,} machines at {columns:,} times, {step:g} s apart, are too many numbers",
            fix="cut the recording into shorter pieces, or give a longer --sample-interval",
        )
    index_of = {name: row for row, name in enumerate(rows)}
    row_of = np.array([index_of.get(name, -1) for name in samples.machines], dtype=np.int64)
    machine, time, value = _means(row_of[samples.machine], time, samples.value)
    # One sorted axis for all machines: each has a stretch of its own, so far apart that the nearest sample is its own.
    stretch = 2.0 * (end - start) + 4.0 * (GAP_STEPS + 1) * step
    axis = machine * stretch + time
    wanted = np.arange(len(rows))[:, None] * stretch + np.arange(columns) * step
    after = np.clip(np.searchsorted(axis, wanted), 1, max(len(axis) - 1, 1))
    before = after - 1
    after = np.minimum(after, len(axis) - 1)
    nearest = np.where(wanted - axis[before] <= axis[after] - wanted, before, after)
    silent = np.abs(axis[nearest] - wanted) > (GAP_STEPS + 0.5) * step
    cuts = tuple((int(middle / step), seconds) for middle, seconds in gaps)
    return SampleGrid(samples.metric, rows, start, step, value[nearest], silent, cuts)


def _means(machine: IntArray, time: FloatArray, value: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return samples of wanted machines, sorted by machine and time, one for each time."""
    wanted = machine >= 0
    machine, time, value = machine[wanted], time[wanted], value[wanted]
    order = np.lexsort((time, machine))
    machine, time, value = machine[order], time[order], value[order]
    first = np.ones(len(time), dtype=np.bool_)
    first[1:] = (np.diff(machine) != 0) | (np.diff(time) != 0)
    if first.all():
        return machine, time, value
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(time)))
    return machine[starts], time[starts], np.add.reduceat(value, starts) / counts
