"""What every model of communication takes and returns, and what a job computes and sends between nodes in one step.

The volumes are those of the placement's own affinity (:func:`scheduler.affinity.volumes`; paper, appendix), cut to
nodes: what replicas in one node have in common crosses the network once, what they send each crosses for each.  Of a
stage on several nodes (tensor parallelism) each sends its part; what these nodes send each other is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Protocol

from ground.plugins import PluginGroup
from scheduler.affinity import Model, model_microbatches, volumes
from scheduler.job import Job, Parallelism
from topology.cluster import Cluster, IntArray

DEFAULT_MODEL = Model(hidden=4096, layers=32, vocab=32_000, sequence_length=4096)
"""What a job trains that does not say: the 7B model by which the paper checks its volumes (2 GB DP, 30 MB PP)."""

GPU_BANDWIDTH = 50.0
"""GB/s from a GPU into the network: one port of 400 Gb/s a GPU, 400 GB/s for a node of eight (arXiv 2509.15940)."""

MICROBATCHES_A_STAGE = 4
"""Microbatches of a step for each pipeline stage where neither job nor model says: from there on the idle slots were
found negligible (Huang et al., "GPipe", NeurIPS 2019)."""


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
    known = model_microbatches(model, parallelism) if given is None else given
    layers, stages_in_node = model.layers / parallelism.pp, ceil(parallelism.pp / columns)
    experts = _expert_bytes(model, parallelism, gpus_per_node) * layers * stages_in_node
    return Traffic(
        dp=sizes.dp * stages_in_node / parts,
        pp=sizes.pp * replicas_in_node / parts,
        ep=experts * replicas_in_node / parts,
        operations=operations(model) / (parallelism.pp * parallelism.cp * parallelism.tp),
        stages=parallelism.pp,
        stage_layers=layers,
        microbatches=known or MICROBATCHES_A_STAGE * parallelism.pp,
        known_microbatches=known is not None,
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


def _expert_bytes(model: Model, parallelism: Parallelism, gpus_per_node: int) -> float:
    """Return what a replica sends to other nodes for the experts of one layer: there and back, forward and backward."""
    if model.moe is None or parallelism.ep == 1:
        return 0.0
    nodes = parallelism.grid(gpus_per_node).groups["ep"].largest
    tokens = model.micro_batch * model.sequence_length / parallelism.cp
    return 4.0 * model.moe.top_k * tokens * model.hidden * model.bytes_per_value * (nodes - 1) / nodes


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

    @property
    def communication(self) -> float:
        """Share of the step that is not compute."""
        return 1.0 - self.compute / self.total


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
