"""Metric streams of the machines of a training job, from a seed.

No public recording of such metrics exists, so this is a model of what is known of them, made to be hard in the ways
that are reported: one sample a second; a common rhythm of training steps, sampled by clocks that are up to half a
second off; machines that differ from each other for good (gain, pipeline stage); noise with a memory; sensor spikes;
bursts of other work that last up to minutes on one machine, which is what continuity is for; checkpoints, at which all
machines idle and come back one after the other; samples that are missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from health.peers.streams import FloatArray, MetricRecording, Samples
from topology.cluster import BoolArray

SECONDS = 900  # Length of a recording: Minder is called on 15 minutes of data

MISSING = 0.01  # Share of samples that never arrive


@dataclass(frozen=True, slots=True)
class Shape:
    """How a metric runs on a healthy machine."""

    busy: float  # Value in the busy part of a training step
    calm: float  # Value in the communicating part
    idle: float  # Value of a machine without work
    noise: float  # Standard deviation of its noise, as a share of `busy`
    gain: float  # The same for what machines differ by for good
    top: float = np.inf  # Largest value there is
    decimals: int = 0  # Of a sample


SHAPES: Mapping[str, Shape] = {
    "pfc_tx_packet_rate": Shape(400.0, 900.0, 0.0, 0.35, 0.15),
    "cpu_usage": Shape(22.0, 30.0, 2.0, 0.08, 0.05, top=100.0, decimals=1),
    "gpu_duty_cycle": Shape(98.0, 90.0, 0.0, 0.02, 0.01, top=100.0),
    "gpu_power_draw": Shape(620.0, 420.0, 90.0, 0.03, 0.03, top=720.0, decimals=1),
    "gpu_graphics_engine_activity": Shape(0.96, 0.86, 0.0, 0.02, 0.01, top=1.0, decimals=3),
    "gpu_tensor_activity": Shape(0.45, 0.20, 0.0, 0.05, 0.02, top=1.0, decimals=3),
    "nvlink_bandwidth": Shape(60e9, 110e9, 0.0, 0.06, 0.03),
}
"""The seven metrics of Minder's order."""


@dataclass(frozen=True, slots=True)
class Job:
    """A healthy job: what its machines' metrics are before anything happens to them."""

    values: Mapping[str, FloatArray]  # Metric -> (machines, seconds), unrounded
    calm: FloatArray  # Share of each second that is communication, (machines, seconds)
    machines: tuple[str, ...]


def healthy_job(machines: int, rng: np.random.Generator, *, seconds: int = SECONDS) -> Job:
    """A job of that many machines."""
    seen = np.arange(seconds) + rng.uniform(-0.5, 0.5, (machines, 1))
    period, share = rng.uniform(4.0, 25.0), rng.uniform(0.15, 0.35)
    phase = np.mod(seen / period, 1.0)
    # A sample is a mean over its second, so edges are as wide as that.
    edge = 0.5 / period
    calm = np.clip((phase - (1.0 - share)) / edge, 0.0, 1.0) * np.clip((1.0 - phase) / edge, 0.0, 1.0)
    pausing = _checkpoints(machines, seconds, rng)
    stage = rng.integers(0, max(2, min(8, machines // 4)), machines)
    values = {}
    for name, shape in SHAPES.items():
        base = shape.busy + (shape.calm - shape.busy) * calm
        gain = 1.0 + shape.gain * rng.standard_t(5, (machines, 1)) / 1.3
        gain = gain + shape.gain * rng.standard_normal(8)[stage][:, None]
        made = base * gain + shape.busy * shape.noise * _noise(machines, seconds, rng)
        made = np.where(pausing, shape.idle + (made - shape.idle) * 0.15, made)
        values[name] = made
    job = Job(values, calm, tuple(f"n{k:04d}" for k in range(machines)))
    _spikes(job, rng)
    _bursts(job, rng)
    return job


def recording(job: Job, rng: np.random.Generator, *, source: str) -> MetricRecording:
    """What the monitoring system has of a job: rounded, in range, some of it missing."""
    machines, seconds = job.calm.shape
    row, second = np.divmod(np.arange(machines * seconds), seconds)
    metrics = {}
    for name, values in job.values.items():
        shape = SHAPES[name]
        flat = np.round(np.clip(values, 0.0, shape.top), shape.decimals).ravel()
        there = (rng.random(flat.size) >= MISSING) & np.isfinite(flat)
        metrics[name] = Samples(name, job.machines, second[there].astype(float), row[there], flat[there])
    return MetricRecording(metrics, absolute=False, source=source)


def _noise(machines: int, seconds: int, rng: np.random.Generator) -> FloatArray:
    """Noise of variance 1, half of which the next second remembers."""
    white = rng.standard_normal((machines, seconds))
    out = white.copy()
    for k in range(1, seconds):
        out[:, k] = 0.5 * out[:, k - 1] + np.sqrt(0.75) * white[:, k]
    return out


def _checkpoints(machines: int, seconds: int, rng: np.random.Generator) -> BoolArray:
    """Whether a machine is pausing, (machines, seconds): 0-2 checkpoints of 10-40 s, ends 2 s apart."""
    clock, pausing = np.arange(seconds), np.zeros((machines, seconds), dtype=np.bool_)
    for _ in range(rng.integers(0, 3)):
        start, length = rng.uniform(0, seconds), rng.uniform(10.0, 40.0)
        end = start + length + np.abs(rng.normal(0.0, 2.0, (machines, 1)))
        pausing |= (clock >= start) & (clock < end)
    return pausing


def _spikes(job: Job, rng: np.random.Generator) -> None:
    """A sensor reads nonsense for 1-3 seconds, about once an hour for each machine and metric."""
    machines, seconds = job.calm.shape
    for name, values in job.values.items():
        shape = SHAPES[name]
        for _ in range(rng.poisson(machines * seconds / 3600.0)):
            row, start, length = rng.integers(machines), rng.integers(seconds), rng.integers(1, 4)
            values[row, start : start + length] = rng.choice([shape.idle, min(shape.top, 2.0 * shape.busy)])


def _bursts(job: Job, rng: np.random.Generator) -> None:
    """Something else runs on a machine for 10-180 s, on average 1.5 times a recording."""
    machines, seconds = job.calm.shape
    names = list(SHAPES)
    for _ in range(rng.poisson(1.5)):
        row, start, length = rng.integers(machines), rng.integers(seconds), int(rng.uniform(10, 180))
        for name in rng.choice(names, rng.integers(1, 3), replace=False):
            job.values[name][row, start : start + length] *= rng.choice([0.4, 0.6, 1.6, 2.5])
