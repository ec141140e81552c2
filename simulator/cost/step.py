"""The step of a pipeline: slots of compute, transfers between stages, and the reduction of gradients at its end.

A step takes m microbatches through p stages, ``m + p - 1`` slots of forward and backward compute; v chunks of layers
in each stage (the interleaved schedule) shorten the idle ones to ``(p - 1) / v`` and repeat all transfers v times
(Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC'21,
section 2.2).  A slot ends when its transfer has arrived: the first microbatch waits for every hop on its way through
the stages and back, each later one for the slowest hop of its PP group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.job import stage_slowdown
from simulator.cost.calibration import Calibration
from simulator.cost.reduction import node_bandwidth, reduction_seconds
from simulator.cost.traffic import traffic_of
from simulator.cost.types import PlacedJob, StepTime
from topology.cluster import FloatArray
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True)
class Communication:
    """Seconds of communication of a step.

    :param dp: of the slowest DP group.
    :param pp: of the slowest PP group.
    """

    dp: float
    pp: float


def pipeline_seconds(hops: FloatArray, *, microbatches: int, chunks: int = 1) -> float:
    """Return what the slowest PP group waits for transfers in a step.

    :param hops: shape [groups, hops], seconds of one transfer between neighbours of a group, one way.
    :param microbatches: m.
    :param chunks: v, chunks of layers in each stage (interleaved schedule); above 1, ``hops`` includes the way from the
        last stage back to the first.
    """
    if not hops.size:
        return 0.0
    both_ways = 2.0 * hops
    return float((both_ways.sum(axis=1) + (chunks * microbatches - 1) * both_ways.max(axis=1)).max())


def slowest_node(placed: PlacedJob) -> float:
    """Return factor on the compute time of a step by the slowest node in use (:func:`scheduler.job.stage_slowdown`).

    The price of a slow node, in every model: all of them make their steps by :func:`on_one_node` and :func:`step_time`.
    """
    if not placed.cluster.flags:
        return HEALTHY
    factor = float(placed.cluster.slowdown[placed.nodes.ravel()].max())
    traffic = traffic_of(placed.job, placed.model)
    known = traffic.microbatches if traffic.known_microbatches else None
    return float(stage_slowdown(factor, stages=traffic.stages, microbatches=known))


def on_one_node(placed: PlacedJob) -> StepTime:
    """Return the step of a job that sends nothing between nodes, in units of its ideal step: all of it is compute."""
    return StepTime(compute=slowest_node(placed), dp=0.0, pp=0.0, ideal=1.0)


def flat_step(placed: PlacedJob, calibration: Calibration) -> StepTime:
    """Return the step of a job on more than one node when communication costs what it costs without spread."""
    ideal = ideal_communication(placed)
    return step_time(placed, ideal, ideal, calibration)


def step_time(placed: PlacedJob, found: Communication, ideal: Communication, calibration: Calibration) -> StepTime:
    """Return the step of a job on more than one node.

    :param found: communication as placed.
    :param ideal: communication of the same job without spread.
    """
    compute = calibrated_compute(ideal, calibration)
    return StepTime(
        compute=compute * slowest_node(placed),
        dp=_exposed(found.dp, compute, calibration.overlap),
        pp=found.pp,
        ideal=compute + _exposed(ideal.dp, compute, calibration.overlap) + ideal.pp,
    )


def calibrated_compute(ideal: Communication, calibration: Calibration) -> float:
    """Return the compute that makes all communication, hidden or not, its share of the ideal step.

    With share s, overlap o and C of compute: dp + pp is s of C + (1 - o) * dp + pp.  There is always more compute than
    is hidden behind it.
    """
    share, overlap = calibration.communication_share, calibration.overlap
    return (1.0 - share) / share * (ideal.dp + ideal.pp) + overlap * ideal.dp


def _exposed(dp: float, compute: float, overlap: float) -> float:
    """Return what is not hidden of a reduction: a share of it is, if there is as much compute to hide behind."""
    return dp - min(overlap * dp, compute)


def ideal_communication(placed: PlacedJob) -> Communication:
    """Of the same job without spread, all nodes at their full bandwidth."""
    traffic, bandwidth = traffic_of(placed.job, placed.model), node_bandwidth(placed)
    rows, columns = placed.nodes.shape
    hops = columns if placed.chunks > 1 and columns > 1 else columns - 1
    return Communication(
        dp=reduction_seconds(traffic, rows, bandwidth),
        pp=pipeline_seconds(
            np.full((1, hops), traffic.pp / bandwidth), microbatches=traffic.microbatches, chunks=placed.chunks
        ),
    )
