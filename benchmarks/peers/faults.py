"""Faults put into a job's streams: the kinds of Minder's table 1, each by how long it shows and how much.

The shares are the paper's (arXiv 2411.01791, table 1; they leave 10 % to other kinds).  What a kind does to which
metric is our model, after the paper's words: no metric shows every kind, PCIe downgrading fills the NIC's buffers and
raises PFC, GPU execution errors and PCIe downgrading soon slow the machine's whole group, optical cables (AOC) have no
counter of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.peers.streams import SECONDS, SHAPES, Job

CPU, DUTY, POWER = "cpu_usage", "gpu_duty_cycle", "gpu_power_draw"
ENGINE, TENSOR, NVLINK, PFC = (
    "gpu_graphics_engine_activity",
    "gpu_tensor_activity",
    "nvlink_bandwidth",
    "pfc_tx_packet_rate",
)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a fault does to one metric of its machine."""

    factor: float  # What the metric is multiplied by at full size
    chance: float  # How often this metric shows the fault at all


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault."""

    name: str
    share: float  # Of all faults, percent
    effects: Mapping[str, Effect]
    group: float = 0.0  # Chance that the machine's group shows the same, at half the size, from half a minute later
    unseen: float = 0.0  # Chance that the machine's metrics stop arriving


_STOPPED = {
    DUTY: Effect(0.02, 0.65),
    POWER: Effect(0.25, 0.65),
    ENGINE: Effect(0.02, 0.6),
    TENSOR: Effect(0.02, 0.6),
    CPU: Effect(0.3, 0.8),
    NVLINK: Effect(0.05, 0.5),
}
"""The process on the machine stops; its peers wait."""

KINDS: tuple[Kind, ...] = (
    Kind("ECC error", 38.9, _STOPPED | {PFC: Effect(0.2, 0.1)}),
    Kind(
        "PCIe downgrading", 6.6, {PFC: Effect(8.0, 0.95), NVLINK: Effect(0.8, 0.2), DUTY: Effect(0.9, 0.1)}, group=0.3
    ),
    Kind("NIC dropout", 5.7, {CPU: Effect(0.4, 0.9), DUTY: Effect(0.3, 0.7), PFC: Effect(0.05, 0.5)}),
    Kind("GPU card drop", 2.0, {DUTY: Effect(0.875, 0.8), POWER: Effect(0.87, 0.8), CPU: Effect(0.6, 0.7)}),
    Kind("NVLink error", 1.7, {NVLINK: Effect(0.3, 0.8), CPU: Effect(0.5, 0.7), POWER: Effect(0.7, 0.6)}),
    Kind("AOC error", 0.9, {PFC: Effect(3.0, 0.4), NVLINK: Effect(0.9, 0.2)}),
    Kind("CUDA execution error", 14.6, _STOPPED),
    Kind(
        "GPU execution error",
        7.7,
        {DUTY: Effect(0.5, 0.6), POWER: Effect(0.6, 0.6), TENSOR: Effect(0.4, 0.5)},
        group=0.3,
    ),
    Kind("HDFS error", 5.7, {CPU: Effect(1.8, 0.7), DUTY: Effect(0.3, 0.4), POWER: Effect(0.5, 0.4)}),
    Kind(
        "machine unreachable", 6.0, {CPU: Effect(0.2, 0.8), DUTY: Effect(0.1, 0.5), PFC: Effect(0.02, 0.3)}, unseen=0.3
    ),
)

SIZES: Mapping[str, float] = {"slight": 0.35, "middling": 0.65, "full": 1.0}  # How much of its effect a fault has

DURATIONS: Mapping[str, float] = {"3 min": 180.0, "5 min": 300.0, "8 min": 480.0, "to the end": np.inf}
"""How long it shows before the whole job stops and all machines look alike again."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in a recording."""

    kind: str
    machine: str
    onset: int  # Second at which it begins
    size: str  # A name of :data:`SIZES`
    duration: str  # A name of :data:`DURATIONS`
    alone: bool = False  # A metric shows it, on this machine alone, and the machine goes on sending

    def detectable(self, continuity: float) -> bool:
        """Whether machines compared for so many seconds can show it: it is seen alone, and lasts longer than that."""
        return self.alone and min(DURATIONS[self.duration], SECONDS - self.onset) > continuity


def draw_fault(job: Job, rng: np.random.Generator, *, kind: Kind | None = None) -> tuple[Kind, Fault]:
    """A fault by the shares of the kinds, at any size; most last (paper, figure 4: usually more than five minutes)."""
    shares = np.array([one.share for one in KINDS])
    kind = kind or KINDS[int(rng.choice(len(KINDS), p=shares / shares.sum()))]
    machine = job.machines[int(rng.integers(len(job.machines)))]
    size = str(rng.choice(list(SIZES), p=[0.15, 0.35, 0.5]))
    duration = str(rng.choice(list(DURATIONS), p=[0.1, 0.25, 0.3, 0.35]))
    return kind, Fault(kind.name, machine, int(rng.integers(120, 300)), size, duration)


def inject(job: Job, kind: Kind, fault: Fault, rng: np.random.Generator) -> Fault:
    """Change the job's streams as the fault does; the same fault is returned, with whether it is seen alone."""
    machines, seconds = job.calm.shape
    row = job.machines.index(fault.machine)
    end = int(min(seconds, fault.onset + DURATIONS[fault.duration]))
    shown = [name for name, effect in kind.effects.items() if rng.random() < effect.chance]
    grouped = rng.random() < kind.group
    group = [k for k in range(row // 4 * 4, min(machines, row // 4 * 4 + 4)) if k != row]
    size = SIZES[fault.size]
    for name in shown:
        values, factor = job.values[name], kind.effects[name].factor
        values[row, fault.onset : end] *= factor**size
        if grouped:
            values[group, fault.onset + 30 : end] *= factor ** (size / 2.0)
    _wait(job, fault.onset, end)
    if silent := rng.random() < kind.unseen:
        for values in job.values.values():
            values[row, fault.onset :] = np.nan
    _stop(job, end, rng)
    return replace(fault, alone=bool(shown) and not grouped and not silent)


def _wait(job: Job, onset: int, end: int) -> None:
    """All wait for the machine, itself included: GPUs spin in collectives and compute less."""
    for name, factor in ((TENSOR, 0.7), (POWER, 0.9), (NVLINK, 0.8)):
        job.values[name][:, onset:end] *= factor


def _stop(job: Job, end: int, rng: np.random.Generator) -> None:
    """The job has stopped: every machine idles."""
    for name, values in job.values.items():
        rest = values[:, end:]
        gone = np.isnan(rest)
        rest[...] = SHAPES[name].idle * rng.normal(1.0, 0.02, rest.shape)
        rest[gone] = np.nan
