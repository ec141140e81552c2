"""One replay of a busy cluster around the announcement of a large job, with a watch on the nodes that it is to have.

A search that ends with its time limit answers by the speed of the machine; a rule does not.  So that replays can be
repeated, small jobs go by ``gpu-packing``, which packs each into as few minipods as possible, as production schedulers
do; the large one by the exact algorithm with time enough to finish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from ground.quantities import HOUR
from ground.records import Count, JsonRecord, Share
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm, Proposal
from simulator.engine.hooks import Setback, Why
from simulator.sim_job import UNITS, SimJob

if TYPE_CHECKING:
    from scheduler.job import Job
    from simulator.engine.engine import Engine
    from simulator.engine.simulated_cluster import SimulatedCluster
    from simulator.job_record import JobRecord
    from topology.cluster import Cluster


SAMPLE = 300.0  # Seconds between two samples
WATCHED = 2 * HOUR  # Seconds before the announcement at which samples begin


@dataclass(frozen=True, slots=True)
class ReserveSample(JsonRecord):
    """One sample, of what was until then."""

    hours: float
    """Hours since the announcement."""
    allocation: Share
    """Share of the GPUs that jobs hold."""
    zone_held: Count
    """Nodes of the zone that others hold."""
    waiting: Count
    """Jobs in the queue."""


@dataclass(frozen=True, slots=True)
class ReservePolicy(JsonRecord):
    """What a policy makes of the large job."""

    policy: str
    """Name of the queue policy."""
    starts_hours: float | None
    """Hours after its arrival at which the large job starts; null = not before the others are submitted no more: what
    it finds then says nothing."""
    dp_spread: int | None
    """Domains that a DP group of the large job touches where it starts; null = it does not."""
    pp_spread: int | None
    """Domains that a PP group of the large job touches where it starts; null = it does not."""
    allocation_before: float
    """Mean allocation in the hour before the announcement."""
    allocation_at_arrival: float
    """Allocation when the large job arrives, before it starts."""
    zone_held_at_arrival: int
    """Nodes of the zone that others hold when the large job arrives."""
    idle_node_hours: float
    """Node-hours that no job held from the announcement until the large job started, or others submitted no more."""
    wait_hours: float
    """Mean wait of others submitted between announcement and arrival: the price of notice."""
    wait_hours_after: float
    """Mean wait of others submitted between the arrival and the end of submissions: the price of the job itself."""
    stopped: Count
    """Times that others were stopped for the large job."""
    lost_node_hours: float
    """Node-hours of work that was done again, as they went back to their last checkpoints."""
    remaining_hours: float
    """P95 of the time that jobs in the zone still ran when the large job was announced, by nodes; 0 = none did."""
    last_hours: float
    """Hours until the last of them ended."""
    free_outside: Count
    """Nodes outside the zone that no job held when the large job arrived: as many could move there."""
    line: tuple[ReserveSample, ...]
    """Samples over time."""

    @property
    def late(self) -> float:
        """Hours after its arrival at which the large job starts; infinite where :attr:`starts_hours` is null."""
        return inf if self.starts_hours is None else self.starts_hours


@dataclass(frozen=True, slots=True)
class LargeAndSmall:
    """A placement algorithm made of two: one for large jobs, a rule for small ones."""

    least: int
    """Nodes from which on a job is large."""
    large: PlacementAlgorithm = field(default_factory=partial(ALGORITHMS.load, "exact"))
    small: PlacementAlgorithm = field(default_factory=partial(ALGORITHMS.load, "gpu-packing"))
    name: str = "by-size"
    summary: str = "large jobs exactly, small ones packed into as few minipods as possible"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Place the job as one of the two does."""
        chosen = self.large if job.grid.cells >= self.least else self.small
        return chosen.place(cluster, job, limits)


@dataclass(slots=True)
class CheckpointEvery:
    """What a stopped job has left: the work up to its last checkpoint."""

    interval: float
    """Seconds of work between checkpoints, above 0."""
    lost: float = 0.0
    """Node-seconds of work that was lost so far."""

    def saved(self, job: SimJob, *, done: float) -> float:  # noqa: ARG002
        """Return what the last checkpoint holds."""
        return done // self.interval * self.interval

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:  # noqa: ARG002
        """Go back to the last checkpoint."""
        kept = self.saved(job, done=done)
        self.lost += job.nodes * (done - kept)
        return Setback(kept, 0.0)


@dataclass(slots=True)
class ZoneRecorder:
    """Observer of an engine that samples how many nodes of a zone other jobs hold."""

    zone: Sequence[int]
    """Nodes, by their indices."""
    owner: str
    """Id of the job whose zone it is."""
    announced: float
    """Time of the announcement of that job."""
    end: float
    """Time of the last sample, at most."""
    samples: list[ReserveSample] = field(default_factory=list)

    def elapsed(self, cluster: SimulatedCluster, until: float) -> None:
        """Take the samples of a stretch of time in which nothing changes."""
        import numpy as np

        begin = self.announced - WATCHED + SAMPLE * len(self.samples)
        if begin > min(until, self.end):
            return
        held = cluster.pool.total - cluster.pool.free
        others = np.zeros(len(held), dtype=np.bool_)
        for job in cluster.active.values():
            if job.record.job_id != self.owner:
                others[list(job.places)] = True
        in_zone = int(others[np.array(self.zone, dtype=np.int64)].sum())
        allocation = float(held.sum()) / cluster.pool.capacity
        while begin <= min(until, self.end):
            self.samples.append(
                ReserveSample((begin - self.announced) / HOUR, allocation, in_zone, len(cluster.backlog))
            )
            begin += SAMPLE

    def state(self) -> Any:
        """Return nothing: a study is not resumed in the middle of a replay."""

    def restore(self, state: Any) -> None:
        """Do nothing, as :meth:`state` keeps nothing."""


def replay_policy(
    engine: Engine, policy: str, large: JobRecord, *, zone: Sequence[int], horizon: float
) -> ReservePolicy:
    """Run a replay, and return what became of the large job, its zone and the others.

    :param engine: with a :class:`CheckpointEvery`, where others may be stopped.
    :param zone: nodes to watch, by their indices.
    :param horizon: time at which the others stop submitting, seconds.
    """
    import numpy as np

    arrives = large.submit
    announced = arrives if large.announced is None else large.announced
    recorder = ZoneRecorder(zone, owner=large.job_id, announced=announced, end=horizon)
    engine.observers = (recorder,)
    engine.run()
    itself = next(job for job in engine.jobs if job.record.job_id == large.job_id)
    early = [one.allocation for one in recorder.samples if -1.0 <= one.hours < 0.0]
    # 1e-9: the sample at the arrival itself counts, whatever the rounding of its time
    notice = [one for one in recorder.samples if 0.0 <= one.hours <= (arrives - announced) / HOUR + 1e-9]
    in_time = itself.first_start <= horizon
    until = (min(itself.first_start, horizon) - announced) / HOUR - 1e-9
    idle = [one.allocation for one in recorder.samples if 0.0 <= one.hours < until]
    others = [job for job in engine.jobs if job is not itself]
    nodes = engine.pool.capacity / UNITS / (large.gpus / itself.nodes)
    held = round(notice[-1].allocation * nodes) - notice[-1].zone_held
    remaining, last = still_running(others, zone, announced)
    return ReservePolicy(
        policy=policy,
        starts_hours=(itself.first_start - arrives) / HOUR if in_time else None,
        dp_spread=itself.spread[0] if in_time and itself.spread else None,
        pp_spread=itself.spread[1] if in_time and itself.spread else None,
        allocation_before=float(np.mean(early)),
        allocation_at_arrival=notice[-1].allocation,
        zone_held_at_arrival=notice[-1].zone_held,
        idle_node_hours=sum((1.0 - one) * nodes * SAMPLE / HOUR for one in idle),
        wait_hours=_wait(others, announced, arrives),
        wait_hours_after=_wait(others, arrives, horizon),
        stopped=sum(len(job.runs) for job in others),
        lost_node_hours=getattr(engine.recovery, "lost", 0.0) / HOUR,
        remaining_hours=remaining,
        last_hours=last,
        free_outside=max(0, round(nodes) - len(zone) - held),
        line=tuple(recorder.samples),
    )


def still_running(others: Sequence[SimJob], zone: Sequence[int], moment: float) -> tuple[float, float]:
    """Return P95, by nodes, and the most of the hours that jobs in a zone still ran, of those that nothing stopped."""
    there = [job for job in others if not job.runs and job.first_start <= moment < job.end]
    ends = sorted(((job.end - moment) / HOUR, len(set(zone).intersection(job.places))) for job in there)
    ends = [(hours, nodes) for hours, nodes in ends if nodes]
    total, seen = sum(nodes for _, nodes in ends), 0
    for hours, nodes in ends:
        seen += nodes
        if seen >= 0.95 * total:
            return hours, ends[-1][0]
    return 0.0, 0.0


def _wait(others: Sequence[SimJob], begin: float, end: float) -> float:
    """Return the mean hours that jobs submitted in a stretch of time waited; 0 where there are none."""
    import numpy as np

    waits = [
        (job.first_start - job.submitted) / HOUR
        for job in others
        if begin <= job.submitted < end and job.first_start < inf
    ]
    return float(np.mean(waits)) if waits else 0.0
