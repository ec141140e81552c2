"""What every model of communication takes and returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.affinity import Model
from scheduler.job import Job
from simulator.cost.traffic import Traffic, traffic_of
from topology.cluster import Cluster, IntArray
from topology.graph import GPU_BANDWIDTH
from topology.plugins import PluginGroup


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PlacedJob:
    """A job on its nodes.  Two are the same only if they are one object, so that what a model knows of it is kept.

    :param cluster: for its levels and the slowdown of its nodes; what is free does not matter.
    :param nodes: shape [rows, columns], index of the node of each cell.
    :param model: what is trained, for the volumes; ``None`` = :data:`~simulator.cost.traffic.DEFAULT_MODEL`.
    :param chunks: v, chunks of layers in each pipeline stage (virtual stages of the interleaved schedule).
    """

    job: Job
    cluster: Cluster
    nodes: IntArray
    model: Model | None = None
    chunks: int = 1

    @property
    def around(self) -> bool:
        """Whether the last stage sends back to the first: the interleaved schedule."""
        return self.chunks > 1

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
    """One training step, all parts in one unit: seconds, or the ideal step of a job on one node.

    :param compute: with the idle slots of the pipeline and the slowest node.
    :param dp: reduction of gradients that is not hidden behind compute.
    :param pp: activations and their gradients between stages.
    :param ideal: the whole step without spread and without a slow node.
    """

    compute: float
    dp: float
    pp: float
    ideal: float

    @property
    def total(self) -> float:
        """The whole step."""
        return self.compute + self.dp + self.pp

    @property
    def relative(self) -> float:
        """By what the placement stretches the job: 1 = no spread and no slow node."""
        return self.total / self.ideal

    @property
    def communication(self) -> float:
        """Share of the step that is communication."""
        return (self.dp + self.pp) / self.total


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
        """Return a step of a job while others run.

        :param others: without the job itself; of no consequence unless ``shares_links``.
        """

    def step_times(self, running: Sequence[PlacedJob]) -> list[StepTime]:
        """Return a step of each of the jobs that run together, in their order: links are shared out once."""

    def relative_step_time(self, placed: PlacedJob, others: Sequence[PlacedJob] = ()) -> float:
        """By what the placement stretches the job, at least 1; see :attr:`StepTime.relative`."""


COMM_MODELS: PluginGroup[CommModel] = PluginGroup(
    "arnold.cost", unknown="no model of communication is called", where="--cost"
)
"""All installed models of communication."""
