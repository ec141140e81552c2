"""What the engine needs of a cluster: which job fits, where, and what is free."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from scheduler.outcome import Outcome
from scheduler.queue.policy import Keep, Waiting
from simulator.job_record import JobRecord
from simulator.sim_job import Need, SimJob
from topology.cluster import BoolArray, IntArray


class Disagreement(Exception):
    """A job that could not run even if the cluster were empty; caught where its file and line are known.

    ``reason`` is one of a few kinds, to count by; ``sentence`` says what it asks for and what there is.
    """

    def __init__(self, reason: str, sentence: str, *, fix: str = "give a cluster that can hold it") -> None:
        super().__init__(f"{reason}: {sentence}")
        self.reason, self.sentence, self.fix = reason, sentence, fix


class NoSuchNodes(Disagreement):
    """A job that wants more nodes, or larger ones, than the cluster has; its sentence names the job."""

    def __init__(self, sentence: str) -> None:
        super().__init__("larger than the cluster", sentence)


class Unplaced(Disagreement):
    """A gang for which placement found nothing on the empty cluster.

    :param wanted: its nodes, in words.
    :param held: whether it has something to keep; else it refuses slow nodes.
    """

    def __init__(self, wanted: str, outcome: Outcome, *, held: bool) -> None:
        why = "no placement was found on the empty cluster, which does not prove that there is none"
        if outcome.status == "infeasible":
            kept = "its constraints cannot be kept" if held else "there are too few nodes that are not slow"
            why = f"{kept}, even if the cluster were empty"
        fix = "ask for less (`arnold explain` says what would help), or give a cluster that can keep them"
        super().__init__("constraints", f"{wanted}; {why}", fix=fix)


@dataclass(frozen=True, slots=True)
class Found:
    """Nodes for a job."""

    places: Sequence[int]
    spread: tuple[int, int] | None = None  # DP and PP spread, of a gang that was placed
    objective: float = inf  # of a gang of whole nodes; infinite = nothing was minimised


class Pool(Protocol):
    """A cluster with what jobs hold of it.  Two: one that counts GPUs, one that places on nodes."""

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
        """Return what a job asks for; raises Disagreement if it could not run even if the cluster were empty."""

    @property
    def domains(self) -> Sequence[IntArray]:
        """For each level from broad to close: shape [nodes], the domain of each node."""

    def compartments(self, *, mix_types: bool) -> IntArray | None:
        """Shape [nodes], the compartment of each, where a job must lie in one; ``None`` = it may span the cluster."""

    def usable(self, job: Waiting) -> BoolArray:
        """Shape [nodes], which could host a part of the job if the cluster were empty."""

    def possible(self, job: SimJob) -> bool:
        """Return whether the job would fit if the cluster were empty, without the nodes that are out."""

    def may_fit(self, job: SimJob) -> bool:
        """Return whether enough is free; quick, true more often than :meth:`find` finds something."""

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Return where the job goes; ``None`` = it has no room."""

    def take(self, job: SimJob) -> None:
        """Give the job its places."""

    def give(self, job: SimJob) -> None:
        """Take the job's places back."""

    def zone(self, job: SimJob, taken: Collection[int]) -> tuple[int, ...]:
        """Return nodes to reserve for an announced job, besides those that are taken; empty = there are none."""

    def take_out(self, node: int) -> None:
        """Let no job use a node any more; one that is still on it goes on there."""

    def bring_back(self, node: int) -> None:
        """Let jobs use a node again."""

    def flag(self, node: int, slowdown: float) -> None:
        """Tell the scheduler of a slow node; 1.0 = of a healthy one again."""
