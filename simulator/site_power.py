"""What a site draws over time: a trapezoid wave of each job's steps, with starts, stops and checkpoints, added up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, pi
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from simulator.power_file import JobPower, NodeWatts, PowerFigures, PowerSettings
from topology.cluster import Cluster, FloatArray, IntArray, Level

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


RATE = 64  # Samples a second: more than twice the 20 Hz that specifications look at
MEGA = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class PowerLoad:
    """Nodes of one type of GPU that a job holds: all draw the same at one instant."""

    watts: NodeWatts  # of each
    nodes: IntArray  # shape [nodes], indices
    step: float  # seconds of a step
    share: float  # of a step in which they compute
    phase: float = 0.0  # how far the first step is at second 0, as a share of it
    begin: float = -inf  # when the job starts, seconds
    end: float = inf  # when it stops
    part: float = 1.0  # share of each node that the job holds

    def drawn(self, times: FloatArray, settings: PowerSettings, *, floor: float = 0.0) -> FloatArray:
        """Return what each node draws above its idle power, shape [times], watts.

        :param times: seconds.
        :param floor: least power while the job runs, as a share of its compute power.
        """
        low, high = self.watts.communicate, self.watts.compute
        power = low + (high - low) * trapezoid(
            times / self.step + self.phase, self.share, settings.edge_seconds / self.step
        )
        if settings.checkpoint_seconds:
            every = settings.checkpoint_every
            working = max(0.0, 1.0 - settings.checkpoint_seconds / every)
            begin = self.begin if self.begin > -inf else -settings.edge_seconds  # at second 0 it is at full power
            power = low + (power - low) * trapezoid((times - begin) / every, working, settings.edge_seconds / every)
        power = np.maximum(power, floor * high) - self.watts.idle
        rising = np.clip((times - self.begin) / settings.start_seconds, 0.0, 1.0)
        falling = np.clip((self.end + settings.stop_seconds - times) / settings.stop_seconds, 0.0, 1.0)
        return self.part * power * np.minimum(rising, falling)


def trapezoid(turns: FloatArray, share: float, edge: float) -> FloatArray:
    """Return a wave between 0 and 1 whose mean is ``share``: it rises at the begin of each turn, and falls after it.

    :param turns: time in periods.
    :param edge: how long it rises and falls, in periods; 0 = a square wave.
    """
    inside, edge = np.mod(turns, 1.0), min(edge, share, 1.0 - share)
    # a shorter edge is none: it would be lost between two samples, and its slope in rounding
    if edge <= 1e-9:
        return (inside < share).astype(np.float64)
    wave: FloatArray = np.clip(inside / edge, 0.0, 1.0) - np.clip((inside - share) / edge, 0.0, 1.0)
    return wave


def loads_of(cluster: Cluster, nodes: ArrayLike, settings: PowerSettings, *, job: str = "") -> Iterator[PowerLoad]:
    """Yield the loads of a job, by name where the power file knows it, one for each type of GPU of its nodes."""
    held = np.asarray(nodes, dtype=np.int32).ravel()
    own = settings.jobs.get(job, JobPower())
    step = settings.step_seconds if own.step_seconds is None else own.step_seconds
    share = settings.compute_share if own.compute_share is None else own.compute_share
    types = cluster.gpu_type_of[held]
    for of in np.unique(types).tolist():
        yield PowerLoad(settings.watts_of(cluster.gpu_types[of]), held[types == of], step, share)


def node_watts(cluster: Cluster, settings: PowerSettings) -> tuple[FloatArray, FloatArray]:
    """Return what each node draws without a job, and at most; shape [nodes] each, watts."""
    types = [settings.watts_of(name) for name in cluster.gpu_types]
    idle, peak = np.array([[type_.idle for type_ in types], [type_.compute for type_ in types]])[:, cluster.gpu_type_of]
    return idle, peak


def sample_times(seconds: float, *, begin: float = 0.0) -> FloatArray:
    """Return instants at which power is looked at, in the middle of each sample."""
    return begin + (np.arange(max(2, round(seconds * RATE))) + 0.5) / RATE


def figures_of(watts: FloatArray, settings: PowerSettings) -> PowerFigures:
    """Return the figures of power over time, shape [times], watts."""
    return PowerFigures(
        float(watts.mean()) / MEGA,
        float(watts.max()) / MEGA,
        float(np.ptp(watts)) / MEGA,
        float(ramps(watts).max()) / MEGA,
        band_share(watts, settings.band),
    )


def ramps(watts: FloatArray, *, seconds: float = 1.0) -> FloatArray:
    """Return the largest change of power within each window of some seconds, shape [windows], watts.

    Not the difference of its ends: that of a wave with a period of 1 s would be nothing.
    """
    windows = sliding_window_view(watts, min(len(watts), round(seconds * RATE) + 1))
    changes: FloatArray = windows.max(axis=1) - windows.min(axis=1)
    return changes


def spectrum(watts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return frequencies above 0 in Hz, and the mean square of the swings at each, watts squared.

    Their sum is the variance of the power (Parseval); a sine of amplitude A has A squared / 2.
    """
    count = len(watts)
    energy = np.abs(np.fft.rfft(watts - watts.mean())) ** 2 * 2.0 / count**2
    if count % 2 == 0:
        energy[-1] /= 2.0  # the highest frequency of an even count stands once in the whole transform, not twice
    return np.arange(1.0, len(energy)) * RATE / count, energy[1:].astype(np.float64)


def band_share(watts: FloatArray, band: tuple[float, float]) -> float:
    """Return the share of the energy of the swings at frequencies of a band, its ends included; 0 without swings."""
    frequencies, energy = spectrum(watts)
    total = float(energy.sum())
    # swings that are nothing but rounding have no spectrum
    if total <= (1e-9 * max(1.0, float(watts.max()))) ** 2:
        return 0.0
    inside = (frequencies >= band[0]) & (frequencies <= band[1])
    return min(1.0, float(energy[inside].sum()) / total)


def stored(watts: FloatArray, joules: float) -> FloatArray:
    """Return what is drawn from outside, shape [times], where storage of so many joules smooths power over time.

    A low-pass of first order with time constant tau = joules / swing, without losses: tau (g[n] - g[n-1]) is what goes
    through the storage in a sample, (P[n] - g[n]) dt; so it never holds more than tau times the swing, its joules.
    """
    swing = float(np.ptp(watts))
    if joules <= 0.0 or swing <= 0.0:
        return watts
    new = 1.0 / (1.0 + joules / swing * RATE)  # share of a sample that is in what is drawn at once
    turns = np.fft.rfftfreq(len(watts))
    gain = new / (1.0 - (1.0 - new) * np.exp(-2j * pi * turns))
    filtered: FloatArray = np.fft.irfft(np.fft.rfft(watts) * gain, len(watts))
    return filtered


PHASES = 120  # That are tried of each job: halves, thirds, quarters and fifths of a step are among them


@dataclass(frozen=True, kw_only=True, eq=False)
class SitePower:
    """What loads draw in some time, on the whole site and in its domains."""

    cluster: Cluster
    settings: PowerSettings
    seconds: float  # that are looked at
    begin: float = 0.0

    @cached_property
    def level(self) -> Level | None:
        """The level of the power domains; ``None`` = the cluster has none of that name."""
        every = (*self.cluster.levels, *self.cluster.second_levels)
        return next((level for level in every if level.name == self.settings.level), None)

    @cached_property
    def times(self) -> FloatArray:
        """Shape [times], seconds."""
        return sample_times(self.seconds, begin=self.begin)

    def drawn(self, loads: Iterable[PowerLoad], *, floor: float = 0.0) -> FloatArray:
        """Return what the whole site draws, shape [times], watts."""
        total = np.full_like(self.times, node_watts(self.cluster, self.settings)[0].sum())
        for load in loads:
            total += len(load.nodes) * load.drawn(self.times, self.settings, floor=floor)
        return total

    def figures(self, watts: FloatArray) -> PowerFigures:
        """Return the figures of power over time."""
        return figures_of(watts, self.settings)

    def worst(self, level: Level, loads: Sequence[PowerLoad]) -> tuple[str, FloatArray]:
        """Return the domain of a level that swings most, and what it draws, shape [times], watts.

        Domains with equally many nodes of each load swing alike and are looked at once: racks are many, mixes few.
        """
        counts = [np.bincount(level.domain_of[load.nodes], minlength=len(level)) for load in loads]
        rows, first = np.unique(np.array(counts).reshape(-1, len(level)).T, axis=0, return_index=True)
        idle = np.bincount(level.domain_of, node_watts(self.cluster, self.settings)[0])
        worst, most = 0, np.zeros_like(self.times)
        for row, domain in zip(rows, first.tolist(), strict=True):
            held = [(row[i], loads[i].drawn(self.times, self.settings)) for i in np.flatnonzero(row).tolist()]
            added = sum((count * watts for count, watts in held), np.zeros_like(self.times))
            if np.ptp(added) > np.ptp(most):
                worst, most = domain, added
        return level.domains[worst], idle[worst] + most

    def staggered(self, loads: Sequence[PowerLoad]) -> list[PowerLoad]:
        """Return the loads at other phases, those of the largest swings first, each with the least swing so far.

        Equal steps cancel so; of steps that differ no phase is better than another.
        """
        staggered, total = [*loads], np.zeros_like(self.times)
        size = [len(load.nodes) * load.part * (load.watts.compute - load.watts.communicate) for load in loads]
        for i in sorted(range(len(loads)), key=lambda i: -size[i]):
            turns, edge = self.times / loads[i].step, self.settings.edge_seconds / loads[i].step
            waves = [trapezoid(turns + k / PHASES, loads[i].share, edge) for k in range(PHASES)]
            sums = [total + size[i] * wave for wave in waves]
            best = min(range(PHASES), key=lambda k: (float(np.ptp(sums[k])), float(sums[k].var()), k))
            total, staggered[i] = sums[best], replace(loads[i], phase=best / PHASES)
        return staggered
