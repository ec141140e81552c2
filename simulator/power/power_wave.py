"""What nodes of jobs draw at each instant: a trapezoid wave of steps, with starts, stops and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from simulator.power.power_file import JobPower, NodeWatts, PowerSettings
from topology.cluster import Cluster, FloatArray, IntArray

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
    idle, peak = np.array([[one.idle for one in types], [one.compute for one in types]])[:, cluster.gpu_type_of]
    return idle, peak


def sample_times(seconds: float, *, begin: float = 0.0) -> FloatArray:
    """Return instants at which power is looked at, in the middle of each sample."""
    return begin + (np.arange(max(2, round(seconds * RATE))) + 0.5) / RATE
