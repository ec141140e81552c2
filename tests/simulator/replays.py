"""Small runs whose history is known, for tests of what is shown of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from simulator.history import RunHistory, run_history
from simulator.hooks import Incident, Setback, Why
from simulator.job_record import JobRecord
from simulator.replay import Replay, prepare
from simulator.replay_settings import COUNT_ONLY, ReplaySettings
from simulator.sim_job import SimJob
from simulator.traces import JobTrace
from tests.simulator.clusters import racks
from tests.simulator.runs import log_attempts
from topology.cluster import Cluster


@dataclass
class Planned:
    """Incidents as written down."""

    rows: Sequence[Incident]
    place: int = 0

    def next(self) -> Incident | None:
        """The next of the list."""
        self.place += 1
        return self.rows[self.place - 1] if self.place <= len(self.rows) else None

    def state(self) -> int:
        """How far the list is read."""
        return self.place

    def restore(self, state: Any) -> None:
        """Go on there."""
        self.place = state


@dataclass
class KeepsHalf:
    """Half of what was done is safe; a restart takes so many seconds."""

    delay: float = 30.0

    def saved(self, job: SimJob, *, done: float) -> float:
        """Half of it."""
        return done / 2

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:
        """Half of it."""
        return Setback(done / 2, self.delay)


@dataclass
class Twice:
    """Gangs on several racks take two seconds for one of work."""

    seen: dict[int, float] = field(default_factory=dict)

    def started(self, job: SimJob) -> Mapping[int, float]:
        """2 for a DP spread above 1."""
        return {job.key: 2.0 if job.spread is not None and job.spread[0] > 1 else 1.0}

    def stopped(self, job: SimJob) -> Mapping[int, float]:
        """Nobody else is touched."""
        return {}

    def slowed(self, node: int, slowdown: float) -> Mapping[int, float]:
        """Nobody is touched."""
        return {}

    def state(self) -> None:
        """Nothing is kept."""

    def restore(self, state: Any, running: Iterable[SimJob]) -> None:
        """Nothing to do."""


def random_records(seed: int, count: int = 60, *, most: int = 32) -> list[JobRecord]:
    """Jobs of 1 to so many GPUs that crowd a few nodes, some of high priority."""
    rng = Random(seed)
    time = 0.0
    records = []
    for number in range(count):
        time += rng.expovariate(1 / 40)
        gpus = rng.choice([g for g in (1, 1, 2, 4, 8, 16, 32) if g <= most])
        records.append(
            JobRecord(
                f"job-{number}", time, rng.uniform(10, 400), gpus, user=rng.choice(["ann", "bob"]),
                priority=rng.choice([0, 0, 3]), preemptible=rng.random() < 0.5,
            )
        )  # fmt: skip
    return records


def replayed(
    records: Sequence[JobRecord],
    cluster: Cluster | None = None,
    *,
    policy: str = "fifo-backfill",
    algorithm: str = "gpu-packing",
    incidents: Sequence[Incident] = (),
    recovery: Any = None,
    pace: Any = None,
) -> tuple[Replay, RunHistory]:
    """A run to its end, and its history."""
    made = prepare(
        JobTrace(tuple(records), source="jobs.csv"), cluster or racks(8), ReplaySettings(policy, algorithm, cost="none")
    )
    engine = made.engine
    if pace is not None:
        engine.cluster.pace = pace
    if recovery is not None:
        engine.cluster.recovery = recovery
    if incidents:
        engine.incidents = Planned(incidents)
    log = log_attempts(engine)
    engine.run()
    return made, run_history(engine, log, None if algorithm == COUNT_ONLY else made.cluster)
