"""A training step of a placed job, written once for all models: what it sends between nodes, and what it waits for.

A step takes m microbatches through p stages, ``m + p - 1`` slots of forward and backward compute; v chunks of layers
in each stage (the interleaved schedule) shorten the idle ones to ``(p - 1) / v`` and repeat all transfers v times
(Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC'21,
section 2.2).  A slot ends when its transfer has arrived: the first microbatch waits for every hop on its way through
the stages and back, each later one for the slowest hop of its PP group.  Gradients are reduced and scattered behind the
backward pass of the last microbatches, two thirds of a slot, and weights gathered behind the forward pass of the first.
All-to-alls between experts wait for nothing and hide behind nothing.

The volumes are those of the placement's own affinity (:func:`scheduler.affinity.volumes`; paper, appendix), cut to
nodes: what replicas in one node have in common crosses the network once, what they send each crosses for each.  Of a
stage on several nodes (tensor parallelism) each sends its part; what these nodes send each other is not counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Protocol

from ground.plugins import PluginGroup
from scheduler.affinity import Model, model_microbatches, volumes
from scheduler.job import Job, Parallelism, stage_slowdown
from simulator.cost.calibration import MICROBATCHES_A_STAGE, Calibration
from topology.cluster import Cluster, FloatArray, IntArray
from topology.flags import HEALTHY

DEFAULT_MODEL = Model(hidden=4096, layers=32, vocab=32_000, sequence_length=4096)
"""What a job trains that does not say: the 7B model by which the paper checks its volumes (2 GB DP, 30 MB PP)."""

GPU_BANDWIDTH = 50.0
"""GB/s from a GPU into the network: one port of 400 Gb/s a GPU, 400 GB/s for a node of eight (arXiv 2509.15940)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes between nodes, and the work between them."""

    dp: float  # weights of a node's stages, for whose gradients it reduces with its DP group in a step
    # activations that a node sends to the next node of its PP group for one microbatch; their gradients come back, as
    # many
    pp: float
    ep: float  # what a node sends to others in all-to-alls between experts for one microbatch, forward and backward
    operations: float  # floating-point operations of one GPU for one microbatch, forward and backward
    stages: int  # pipeline stages p
    stage_layers: float  # layers of a stage
    microbatches: int  # m of a step
    known_microbatches: bool  # whether job or model says m; else it is MICROBATCHES_A_STAGE times p
    gpu: str | None  # type of GPU, where the model says one

    @property
    def ep_message(self) -> float:
        """Bytes that a node sends in one all-to-all: there or back, forward or backward, of one layer."""
        return self.ep / (4.0 * self.stage_layers)


def traffic_of(job: Job, model: Model | None) -> Traffic:
    """Return the traffic of a job; without a model, that of :data:`DEFAULT_MODEL`.

    :raises InvalidJob: the groups do not cut into nodes, or the global batch not into microbatches.
    """
    return _traffic(job.parallelism, job.gpus_per_node, job.microbatches, model or DEFAULT_MODEL)


@lru_cache(maxsize=4096)
def _traffic(parallelism: Parallelism, gpus_per_node: int, given: int | None, model: Model) -> Traffic:
    rows, columns = parallelism.shape(gpus_per_node)
    sizes = volumes(model, parallelism)
    parts = parallelism.nodes_of_tp(gpus_per_node)
    replicas_in_node = ceil(parallelism.cp * parallelism.dp * parts / rows)  # the last node may have fewer
    stated = model_microbatches(model, parallelism) if given is None else given
    layers, stages_in_node = model.layers / parallelism.pp, ceil(parallelism.pp / columns)
    experts = 0.0
    if model.moe is not None and parallelism.ep > 1:
        # of a replica to other nodes for the experts of a layer: there and back, forward and backward
        nodes = parallelism.grid(gpus_per_node).groups["ep"].largest
        tokens = model.micro_batch * model.sequence_length / parallelism.cp
        a_layer = 4.0 * model.moe.top_k * tokens * model.hidden * model.bytes_per_value * (nodes - 1) / nodes
        experts = a_layer * layers * stages_in_node
    return Traffic(
        dp=sizes.dp * stages_in_node / parts,
        pp=sizes.pp * replicas_in_node / parts,
        ep=experts * replicas_in_node / parts,
        operations=operations(model) / (parallelism.pp * parallelism.cp * parallelism.tp),
        stages=parallelism.pp,
        stage_layers=layers,
        microbatches=stated or MICROBATCHES_A_STAGE * parallelism.pp,
        known_microbatches=stated is not None,
        gpu=model.gpu,
    )


def operations(model: Model) -> float:
    """Return floating-point operations of a microbatch, forward and backward, nothing recomputed.

    Six for each weight that computes a token, 12 l s h in all for attention (Narayanan et al., SC'21, appendix).
    """
    h, s = model.hidden, model.sequence_length
    mlp = 8 * h**2 if model.moe is None else model.moe.top_k * 2 * h * (model.moe.ffn_hidden or 4 * h)
    a_token = model.layers * (6 * (4 * h**2 + mlp) + 12 * s * h) + 6 * h * model.vocab
    return float(a_token * model.micro_batch * s)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PlacedJob:
    """A job on its nodes.  Two are the same only if they are one object, so that what a model knows of it is kept."""

    job: Job
    cluster: Cluster  # for its levels and the slowdown of its nodes; what is free does not matter
    nodes: IntArray  # shape [rows, columns], index of the node of each cell
    model: Model | None = None  # what is trained, for the volumes; None = DEFAULT_MODEL
    # v, chunks of layers in each pipeline stage (virtual stages of the interleaved schedule); None = as many as it has
    # layers for (:attr:`simulator.cost.calibration.Calibration.layers_a_chunk`)
    chunks: int | None = None

    @property
    def traffic(self) -> Traffic:
        """What the job sends between nodes in a step."""
        return traffic_of(self.job, self.model)

    @property
    def bandwidth(self) -> float:
        """Bytes a second between a node of the job and the network, one way."""
        return self.job.gpus_per_node * GPU_BANDWIDTH * 1e9


@dataclass(frozen=True, slots=True)
class StepTime:
    """One training step, all parts in one unit: seconds, or the ideal step of a job on one node."""

    compute: float  # with the idle slots of the pipeline and the slowest node
    dp: float  # reduction of gradients that is not hidden behind compute
    pp: float  # activations and their gradients between stages
    ep: float  # all-to-alls between experts on several nodes
    other: float  # what is the same wherever the job lies, as tensor parallel traffic
    ideal: float  # the whole step without spread and without a slow node

    @property
    def total(self) -> float:
        """The whole step."""
        return self.compute + self.dp + self.pp + self.ep + self.other

    @property
    def relative(self) -> float:
        """By what the placement stretches the job: 1 = no spread and no slow node."""
        return self.total / self.ideal


class CommModel(Protocol):
    """A model of communication.  Registered as an entry point in the group ``arnold.cost``: a class (or any callable
    without arguments) that makes an object with this face.
    """

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def summary(self) -> str:
        """One line for lists."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true for its numbers to be: a sentence each, printed by reports."""

    @property
    def shares_links(self) -> bool:
        """Whether jobs slow each other: then all are asked again when one starts or ends."""

    def step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> StepTime:
        """Return a step of a job while others run, which matter only where the model ``shares_links``."""

    def step_times(self, running: Sequence[PlacedJob]) -> list[StepTime]:
        """Return a step of each of the jobs that run together, in their order: links are shared out once."""

    def relative_step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> float:
        """Return by what the placement stretches the job, at least 1; see :attr:`StepTime.relative`."""


COMM_MODELS: PluginGroup[CommModel] = PluginGroup(
    "arnold.cost", unknown="no model of communication is called", where="--cost-model"
)
"""All installed models of communication."""


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
    def compute_seconds(self) -> float:
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
    stated = traffic.microbatches if traffic.known_microbatches else None
    return float(stage_slowdown(factor, stages=traffic.stages, microbatches=stated))


def on_one_node(placed: PlacedJob) -> StepTime:
    """Return the step of a job that sends nothing between nodes, in units of its ideal step: all of it is compute."""
    return StepTime(compute=slowest_node(placed), dp=0.0, pp=0.0, ep=0.0, other=0.0, ideal=1.0)


def flat_step(placed: PlacedJob, calibration: Calibration) -> StepTime:
    """Return the step of a job on more than one node when communication costs what it costs without spread."""
    schedule = schedule_of(placed, calibration)
    ideal = ideal_communication(placed, schedule, calibration)
    return step_time(placed, schedule, ideal, ideal, calibration)


def step_time(
    placed: PlacedJob, schedule: Schedule, actual: Communication, ideal: Communication, calibration: Calibration
) -> StepTime:
    """Return the step of a job on more than one node, from its communication as placed and without spread.

    What is not compute is a share s of the ideal step, or what the network alone takes, if that is more: the rest of s
    is the same wherever the job lies.
    """
    compute, share = schedule.compute_seconds, calibration.communication_share
    reduction = exposed_reduction(ideal.dp, schedule, calibration)
    other = max(0.0, share / (1.0 - share) * compute - (reduction + ideal.pp + ideal.ep))
    return StepTime(
        compute=compute * slowest_node(placed),
        dp=exposed_reduction(actual.dp, schedule, calibration),
        pp=actual.pp,
        ep=actual.ep,
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
