"""The driver of a dispatch pass: what becomes of its questions; and what a policy in rounds is told besides."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from math import inf

from ground.errors import InvalidInput
from scheduler.queue.dispatch import Allocation, Candidate
from scheduler.queue.rounds import RoundDispatch
from simulator.engine.simulated_cluster import EventPhase, SimulatedCluster
from simulator.pools import Found, NodePool
from simulator.sim_job import JobState, SimJob


class RoundCluster(SimulatedCluster):
    """A simulated cluster that answers candidates; under a policy in rounds it is a ``RoundState``."""

    def answer(self, candidate: Candidate[SimJob]) -> None:
        """Place a job if there is room for it now, or once others are stopped."""
        job, pool, live = candidate.job, self.pool, self.dispatch.live
        victims = [one for one in candidate.victims if isinstance(one, SimJob)] if candidate.victims else ()
        for victim in victims:
            pool.give(victim)
        found, way = self._room(candidate)
        for victim in victims:
            pool.take(victim)
        candidate.found, candidate.objective = found is not None, inf if found is None else found.objective
        if found is not None and not candidate.trial:
            for victim in victims:
                wanted = victim is job or not set(victim.places).isdisjoint(found.places)
                if wanted and not victim.leaving:
                    self.stop(victim, "preemption")
            if way is not None:
                job.allocation = way
            if not (victims and live):
                self.start(job, found)
        elif live:
            candidate.possible = pool.possible(job)

    def _room(self, candidate: Candidate[SimJob]) -> tuple[Found | None, Allocation | None]:
        """Return where a job has room, and in rounds also how it lies there; what it holds now stays as it is."""
        job, pool = candidate.job, self.pool
        for keep in candidate.offers:
            if (found := pool.find(job, keep)) is not None:
                return found, None
        before = job.nodes, job.gpus, job.gpu_types, job.mix_types
        try:
            for way in candidate.allocations:
                job.allocation = way
                if (found := pool.find(job, None)) is not None:
                    return found, way
        finally:
            job.nodes, job.gpus, job.gpu_types, job.mix_types = before
        return None, None

    # What a policy in rounds is told

    @cached_property
    def _nodes(self) -> NodePool:
        """The pool, which places."""
        if not isinstance(self.pool, NodePool) or not self.pool.cluster.nodes_of_type:
            raise InvalidInput(
                f"{self.policy.name} chooses types of GPU, and this run has none",
                where=f"--policy {self.policy.name}",
                fix="choose an --algorithm that places, and give the nodes of the cluster a gpu_type",
            )
        return self.pool

    @property
    def nodes_by_type(self) -> Mapping[str, Sequence[int]]:
        """Nodes of each type of GPU."""
        return self._nodes.types.by_name

    @property
    def units_by_type(self) -> Mapping[str, int]:
        """Units that jobs may use, by type of GPU."""
        return {name: int(self.total[nodes].sum()) for name, nodes in self._nodes.types.by_name.items()}

    def allocations(self, job: SimJob) -> Mapping[str, Sequence[Allocation]]:
        """Return how a job may lie by type of GPU, on fewest nodes first."""
        return self._nodes.types.allocations(job.record, self._nodes.need)

    def work_left(self, job: SimJob) -> float:
        """Return the seconds of work that it is predicted to have left; one that is overdue has a second."""
        return max(1.0, job.prediction.seconds - self.done(job))

    def starting(self, job: SimJob) -> bool:
        """Return whether a job has nodes and has not worked on them as long as its start takes."""
        return job.state is JobState.RUNNING and self.now < job.started + 2.0 * job.delay

    def owe(self, shares: Mapping[Hashable, Mapping[str, float]]) -> None:
        """Add a round's shares to what jobs were owed."""
        seconds = self.policy.round_seconds or 0.0
        for key, by_type in shares.items():
            owed = self.jobs[key].owed if isinstance(key, int) else {}
            for name, share in by_type.items():
                owed[name] = owed.get(name, 0.0) + share * seconds

    def begin_round(self, arrives: float) -> None:
        """Let a round begin, and put the next one into the queue of events: where all is idle, when a job comes.

        :param arrives: when the next job is submitted; infinite after the last.
        """
        for job in self.active.values():
            job.count(self.now)
        if isinstance(self.dispatch, RoundDispatch):
            self.dispatch.begins = True
        following = self.now + (self.policy.round_seconds or inf)
        if not self.active and not len(self.backlog):
            following = max(following, arrives)
        if following < inf:
            self.queue.add(following, EventPhase.ROUND, 0)

    def leave(self, job: SimJob) -> None:
        """Take a job's nodes back."""
        if self.policy.round_seconds is not None:
            job.count(self.now)
        super().leave(job)
