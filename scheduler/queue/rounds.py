"""Policies in rounds: at the end of each, which job has which GPUs in the next is decided anew.

Jobs that have another turn, or none while their nodes are wanted, are stopped and go on later with the work they have
done.  Jobs that have not worked as long as their start takes keep what they have: else those whose start takes about a
round would be stopped again and again before they work.  Between two rounds no job starts.  The driver says how a job
may lie, and how fast it is so; the policy says which comes first, and on what; which nodes those are is the business of
placement.  For simulation alone.
"""

from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from scheduler.queue.dispatch import Allocation, Candidate, Dispatch, J
from scheduler.queue.policy import BasePolicy, ClusterState, QueuePolicy, Waiting

ROUND = 360.0  # Seconds of a round, as Gavel's simulator has it


class RoundJob(Waiting, Protocol):
    """A job that waits or has nodes, at the end of a round."""

    @property
    def places(self) -> Sequence[int]:
        """Its nodes; empty = it waits."""

    @property
    def allocation(self) -> Allocation:
        """How it lies, if it has nodes."""

    @property
    def standing(self) -> Mapping[str, tuple[float, float]]:
        """Seconds on each type that it was owed so far, and that it had; types without any may be missing."""


class RoundState(ClusterState, Protocol):
    """The cluster at the end of a round."""

    @property
    def units_by_type(self) -> Mapping[str, int]:
        """Units that jobs may use, by type of GPU."""

    @property
    def nodes_by_type(self) -> Mapping[str, Sequence[int]]:
        """Nodes of each type of GPU."""

    def allocations(self, job: Any) -> Mapping[str, Sequence[Allocation]]:
        """Return how a job may lie by type of GPU, on one at least: on each of them on fewest nodes first."""

    def work_left(self, job: Any) -> float:
        """Return the seconds of work that a job is predicted to have left at speed 1, above 0."""

    def starting(self, job: Any) -> bool:
        """Return whether a job has nodes and has not worked on them as long as its start takes: it keeps them."""

    def owe(self, shares: Mapping[Hashable, Mapping[str, float]]) -> None:
        """Note which share of the coming round jobs are owed on types of GPU, by key of the job."""


@dataclass(frozen=True, slots=True, eq=False)
class RoundTurn:
    """What a job is given in the next round."""

    job: RoundJob
    allocations: Sequence[Allocation]  # the first that has room counts


@dataclass(frozen=True, slots=True, eq=False)
class RoundPlan:
    """What a policy decides at the end of a round."""

    turns: Sequence[RoundTurn]  # the one placed first comes first
    owed: Mapping[Hashable, Mapping[str, float]] = field(default_factory=dict)  # as :meth:`RoundState.owe` takes it


class RoundPolicy(QueuePolicy, Protocol):
    """A policy with a ``round_seconds``."""

    def turns(self, jobs: Sequence[RoundJob], cluster: RoundState) -> RoundPlan:
        """Return the jobs that have a turn in the next round.

        :param jobs: all that wait, by rank, and all that have nodes; those that are starting keep what they have,
            whatever is returned for them.
        """


class InRounds(BasePolicy):
    """What policies in rounds have in common."""

    stops_any_time = True
    round_seconds: float | None = ROUND


class RoundDispatch(Dispatch[J]):
    """The pass at the end of a round.

    Jobs whose turn is what they have already stay, and those that are starting.  The others are asked in the order of
    their turns: first for what is free, then as if all had left that have no place in the next round yet.
    """

    begins = False  # Whether a round ends now; the driver sets it

    @property
    def due(self) -> bool:
        """Whether a round ends."""
        return self.begins

    def candidates(self) -> Generator[Candidate[J], None, None]:
        """Ask all that have a turn."""
        self.begins = self.freed = False
        self._fresh.clear()
        cluster = cast(RoundState, self.cluster)
        units, everybody = cluster.units_by_type, [*self.backlog, *cluster.running]
        # where nothing is left of the types of a job, nothing can be shared with it
        there = [job for job in everybody if any(units[name] for name in cluster.allocations(job))]
        jobs = cast(Sequence[RoundJob], there)
        plan = cast(RoundPolicy, self.policy).turns(jobs, cluster) if jobs else RoundPlan(())
        cluster.owe(plan.owed)
        placed = {job.key for job in everybody if cluster.starting(job)}
        stay = (turn for turn in plan.turns if turn.job.places and turn.job.allocation == turn.allocations[0])
        placed.update(turn.job.key for turn in stay)
        for turn in plan.turns:
            job, ways = turn.job, turn.allocations
            if job.key in placed:
                continue
            stays = bool(job.places) and job.allocation in ways
            for everyone in (False, True):
                candidate = Candidate(cast(J, job), ())
                candidate.allocations = ways[: ways.index(job.allocation)] if stays else ways
                candidate.victims = [
                    other for other in cluster.running if other.key == job.key or (everyone and other.key not in placed)
                ]
                yield candidate
                if candidate.found:
                    break
            if candidate.found or (stays and job.places):
                placed.add(job.key)
