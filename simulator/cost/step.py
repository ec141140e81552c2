"""The step of a pipeline: slots of compute, transfers between stages, and the reduction of gradients at its end.

A step takes m microbatches through p stages, ``m + p - 1`` slots of forward and backward compute; v chunks of layers
in each stage (the interleaved schedule) shorten the idle ones to ``(p - 1) / v`` and repeat all transfers v times
(Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC'21,
section 2.2).  A slot ends when its transfer has arrived: the first microbatch waits for every hop on its way through
the stages and back, each later one for the slowest hop of its PP group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.job import stage_slowdown
from simulator.cost.calibration import Calibration
from simulator.cost.types import PlacedJob, StepTime
from topology.cluster import FloatArray
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True)
class Independent:
    """A model of communication in which jobs do not disturb each other: a price for each placed job."""

    name: str
    summary: str
    assumptions: tuple[str, ...]
    # of a job on more than one node; on one node nothing is sent, and no model differs
    price: Callable[[PlacedJob], StepTime]
    shares_links: bool = False

    def step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> StepTime:  # noqa: ARG002
        """Return a step of a job, whatever others run."""
        return on_one_node(placed) if placed.nodes.size == 1 else self.price(placed)

    def step_times(self, running: Sequence[PlacedJob]) -> list[StepTime]:
        """Return a step of each job."""
        return [self.step_time(placed) for placed in running]

    def relative_step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> float:  # noqa: ARG002
        """Return by what the placement stretches the job."""
        return self.step_time(placed).relative


@dataclass(frozen=True, slots=True)
class Communication:
    """Seconds of communication of a step."""

    dp: float  # of the slowest DP group
    pp: float  # of the slowest PP group


def reduction_seconds(placed: PlacedJob, bandwidth: float) -> float:
    """Return the least seconds of an all-reduce in a DP group: n nodes, B bytes a second, ``2 (n - 1) / n * V / B``."""
    nodes = len(placed.nodes) // placed.job.nodes_of_tp
    return 2.0 * (nodes - 1) / nodes * placed.traffic.dp / bandwidth


def pipeline_seconds(hops: FloatArray, *, microbatches: int, chunks: int = 1) -> float:
    """Return what the slowest PP group waits for transfers in a step of m microbatches.

    :param hops: shape [groups, hops], seconds of one transfer between neighbours of a group, one way.
    :param chunks: v; above 1, ``hops`` includes the way from the last stage back to the first.
    """
    if not hops.size:
        return 0.0
    both_ways = 2.0 * hops
    return float((both_ways.sum(axis=1) + (chunks * microbatches - 1) * both_ways.max(axis=1)).max())


def slowest_node(placed: PlacedJob) -> float:
    """Return the factor of the slowest node in use on the compute of a step (:func:`scheduler.job.stage_slowdown`).

    The price of a slow node, in every model: all of them make their steps by :func:`on_one_node` and :func:`step_time`.
    """
    if not placed.cluster.flags:
        return HEALTHY
    factor = float(placed.cluster.slowdown[placed.nodes.ravel()].max())
    traffic = placed.traffic
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
    """Return the step of a job on more than one node, from its communication as placed and without spread.

    Compute is what makes all communication, hidden or not, its share s of the ideal step: with overlap o and C of
    compute, dp + pp is s of C + (1 - o) * dp + pp.  There is always more compute than is hidden behind it.
    """
    share, overlap = calibration.communication_share, calibration.overlap
    compute = (1.0 - share) / share * (ideal.dp + ideal.pp) + overlap * ideal.dp

    def exposed(dp: float) -> float:
        # a share of a reduction is hidden, if there is as much compute to hide behind
        return dp - min(overlap * dp, compute)

    return StepTime(
        compute=compute * slowest_node(placed),
        dp=exposed(found.dp),
        pp=found.pp,
        ideal=compute + exposed(ideal.dp) + ideal.pp,
    )


def ideal_communication(placed: PlacedJob) -> Communication:
    """Return communication of the same job without spread, all nodes at their full bandwidth."""
    traffic, columns = placed.traffic, placed.nodes.shape[1]
    hops = columns if placed.around and columns > 1 else columns - 1
    each = np.full((1, hops), traffic.pp / placed.bandwidth)
    return Communication(
        dp=reduction_seconds(placed, placed.bandwidth),
        pp=pipeline_seconds(each, microbatches=traffic.microbatches, chunks=placed.chunks),
    )
