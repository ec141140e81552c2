"""The step of a pipeline, written once for all models: what is computed, sent between stages, and reduced.

A step takes m microbatches through p stages, ``m + p - 1`` slots of forward and backward compute; v chunks of layers
in each stage (the interleaved schedule) shorten the idle ones to ``(p - 1) / v`` and repeat all transfers v times
(Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC'21,
section 2.2).  A slot ends when its transfer has arrived: the first microbatch waits for every hop on its way through
the stages and back, each later one for the slowest hop of its PP group.  Gradients are reduced and scattered behind the
backward pass of the last microbatches, two thirds of a slot, and weights gathered behind the forward pass of the first.
All-to-alls between experts wait for nothing and hide behind nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    """Seconds that the network takes for what a step sends, hidden or not."""

    # the slowest DP group, to pass as many bytes as its weights have to every node or to reduce as many: half of an
    # all-reduce
    dp: float
    pp: float  # the slowest PP group, with what is waited for of each transfer
    ep: float  # all-to-alls of all microbatches


@dataclass(frozen=True, slots=True)
class Schedule:
    """The pipeline of one step."""

    stages: int  # p
    microbatches: int  # m
    chunks: int  # v, of layers in each stage
    slot: float  # seconds of forward and backward compute of a microbatch in a stage

    @property
    def compute(self) -> float:
        """Seconds of compute and of idle slots."""
        return (self.microbatches + (self.stages - 1) / self.chunks) * self.slot

    @property
    def around(self) -> bool:
        """Whether the last stage sends back to the first: the interleaved schedule."""
        return self.chunks > 1


def schedule_of(placed: PlacedJob, calibration: Calibration) -> Schedule:
    """Return how a placed job computes."""
    traffic = placed.traffic
    chunks = placed.chunks
    if chunks is None:
        chunks = max(1, round(traffic.stage_layers / calibration.layers_a_chunk)) if traffic.stages > 1 else 1
    return Schedule(traffic.stages, traffic.microbatches, chunks, traffic.operations / calibration.speed(traffic.gpu))


def reduction_seconds(placed: PlacedJob, bandwidth: float) -> float:
    """Return the least seconds of half an all-reduce, ``(n - 1) / n * V / B`` for n nodes and B bytes a second."""
    nodes = len(placed.nodes) // placed.job.nodes_of_tp
    return (nodes - 1) / nodes * placed.traffic.dp / bandwidth


def exposed_reduction(half: float, schedule: Schedule, calibration: Calibration) -> float:
    """Return what is waited for of a reduction of gradients and a gathering of weights, in the unit of its parts.

    The interleaved schedule takes p microbatches through one chunk and then through the next.  So a chunk is reduced
    while the next ones are computed, and only for the last there is no more than its own pass.

    :param half: of an all-reduce; gradients may be wider than weights.
    """
    chunks, stages = schedule.chunks, schedule.stages

    def waited(seconds: float, share: float) -> float:
        own = share * schedule.slot
        least = max(0.0, (seconds - own) / chunks, seconds - own * (1.0 + (chunks - 1) * stages) / chunks)
        return seconds - calibration.overlap * (seconds - least)

    # of a slot the backward pass is two thirds
    return waited(half * calibration.gradient_width, 2.0 / 3.0) + waited(half, 1.0 / 3.0)


def pipeline_seconds(hops: FloatArray, schedule: Schedule, exposure: float = 1.0) -> float:
    """Return what the slowest PP group waits for transfers in a step.

    :param hops: shape [groups, hops], seconds of one transfer between neighbours of a group, one way; with more than
        one chunk, also of the way from the last stage back to the first.
    :param exposure: share of the transfers after the first microbatch's that is waited for.
    """
    if not hops.size:
        return 0.0
    later = exposure * (schedule.chunks * schedule.microbatches - 1)
    return 2.0 * float((hops.sum(axis=1) + later * hops.max(axis=1)).max())


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
    return StepTime(compute=slowest_node(placed), dp=0.0, pp=0.0, ep=0.0, other=0.0, ideal=1.0)


def flat_step(placed: PlacedJob, calibration: Calibration) -> StepTime:
    """Return the step of a job on more than one node when communication costs what it costs without spread."""
    schedule = schedule_of(placed, calibration)
    ideal = ideal_communication(placed, schedule, calibration)
    return step_time(placed, schedule, ideal, ideal, calibration)


def step_time(
    placed: PlacedJob, schedule: Schedule, found: Communication, ideal: Communication, calibration: Calibration
) -> StepTime:
    """Return the step of a job on more than one node, from its communication as placed and without spread.

    What is not compute is a share s of the ideal step, or what the network alone takes, if that is more: the rest of s
    is the same wherever the job lies.
    """
    compute, share = schedule.compute, calibration.communication_share
    reduction = exposed_reduction(ideal.dp, schedule, calibration)
    other = max(0.0, share / (1.0 - share) * compute - (reduction + ideal.pp + ideal.ep))
    return StepTime(
        compute=compute * slowest_node(placed),
        dp=exposed_reduction(found.dp, schedule, calibration),
        pp=found.pp,
        ep=found.ep,
        other=other,
        ideal=compute + reduction + ideal.pp + ideal.ep + other,
    )


def ideal_communication(placed: PlacedJob, schedule: Schedule, calibration: Calibration) -> Communication:
    """Return communication of the same job without spread, all nodes at their full bandwidth."""
    traffic, columns, bandwidth = placed.traffic, placed.nodes.shape[1], placed.bandwidth
    hops = columns if schedule.around and columns > 1 else columns - 1
    later = calibration.transfer_exposure * (schedule.chunks * schedule.microbatches - 1) if hops else 0.0
    return Communication(
        dp=reduction_seconds(placed, bandwidth),
        pp=2.0 * (hops + later) * traffic.pp / bandwidth,
        ep=traffic.microbatches * traffic.ep / bandwidth,
    )
