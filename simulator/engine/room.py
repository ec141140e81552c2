"""What the engine needs of a cluster: who fits, where, and what is free."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from scheduler.queue.types import BoolArray, Keep, Waiting
from simulator.engine.job import SimJob
from simulator.job_record import JobRecord
from topology.cluster import IntArray


@dataclass(frozen=True, slots=True)
class Need:
    """What a job asks the room for.

    :param nodes: how many.
    :param gpus: units on each.
    :param units: units in all.
    """

    nodes: int
    gpus: int
    units: int


@dataclass(frozen=True, slots=True)
class Found:
    """Nodes for a job.

    :param spread: DP and PP spread, of a gang that was placed.
    """

    places: Sequence[int]
    spread: tuple[int, int] | None = None


class Room(Protocol):
    """A cluster with what jobs hold of it.  Two: one that counts GPUs, one that places."""

    @property
    def capacity(self) -> int:
        """Units of all nodes, those included that are out at the moment."""

    @property
    def total(self) -> IntArray:
        """Shape [nodes], units that jobs may use now."""

    @property
    def free(self) -> IntArray:
        """Shape [nodes], units that no job holds."""

    def need(self, record: JobRecord) -> Need:
        """What a job asks for.

        :raises Disagreement: it could not run even if the cluster were empty.
        """

    @property
    def trunk_of(self) -> IntArray | None:
        """Shape [nodes], the trunk of each, where a job must lie in one; ``None`` = it may span the cluster."""

    def usable(self, job: Waiting) -> BoolArray:
        """Shape [nodes], which could host a part of the job if the cluster were empty."""

    def may_fit(self, job: SimJob) -> bool:
        """Whether enough is free; quick, true more often than :meth:`find` finds something."""

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Where the job goes; ``None`` = it has no room."""

    def take(self, job: SimJob) -> None:
        """The job has its places."""

    def give(self, job: SimJob) -> None:
        """The job leaves its places."""

    def zone(self, job: SimJob, taken: Collection[int]) -> tuple[int, ...]:
        """Nodes to reserve for a job that was announced, besides those that are taken; empty = there are none."""

    def take_out(self, node: int) -> None:
        """No job may use a node any more; those on it have left."""

    def bring_back(self, node: int) -> None:
        """Jobs may use a node again."""

    def flag(self, node: int, slowdown: float) -> None:
        """The scheduler knows of a slow node; 1.0 = of a healthy one again."""
