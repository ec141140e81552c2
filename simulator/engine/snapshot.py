"""The state of an engine as plain values, and back: a run that goes on from it is the run that was never stopped.

What follows from the trace, the cluster and the settings is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scheduler.queue.types import CapacityReservation
from simulator.engine.engine import Engine
from simulator.engine.event_queue import Event, EventQueue
from simulator.engine.hooks import Incident
from simulator.engine.sim_job import JobProgress, JobState


@dataclass(frozen=True)
class EngineSnapshot:
    """An engine between two instants."""

    now: float
    events: int
    completed: int
    policy_seconds: float
    sequence: int  # events that were ever added to the queue
    queue: tuple[Event, ...]
    jobs: tuple[JobProgress, ...]  # those that have been submitted
    active: tuple[int, ...]  # keys of those that have nodes, in the order in which they started
    announced: tuple[int, ...]  # keys of jobs that were announced
    reservations: tuple[CapacityReservation, ...]
    incident: Incident | None  # the one that is expected
    out: tuple[int, ...]  # nodes that no job may use
    flags: dict[int, float]  # slowdowns that the scheduler knows of, by node
    freed: bool  # whether room was given back since the last dispatch pass
    stuck: int | None  # key of the first job that had no room in it
    hooks: dict[str, Any]  # states of pace, incidents and observers


def snapshot(engine: Engine) -> EngineSnapshot:
    """Return the state of an engine between two instants."""
    engine.begin()
    stuck = engine.dispatch.stuck
    return EngineSnapshot(
        now=engine.now,
        events=engine.events,
        completed=engine.completed,
        policy_seconds=engine.policy_seconds,
        sequence=engine.queue.sequence,
        queue=tuple(engine.queue.heap),
        jobs=tuple(job.progress for job in engine.jobs[: engine.arrived]),
        active=tuple(engine.active),
        announced=tuple(job.key for job in engine.jobs if job.reservation),
        reservations=tuple(engine.reservations),
        incident=engine.incident,
        out=tuple(sorted(engine.out)),
        flags=dict(sorted(engine.flags.items())),
        freed=engine.dispatch.freed,
        stuck=None if stuck is None else stuck.key,
        hooks={
            "pace": None if engine.pace is None else engine.pace.state(),
            "incidents": None if engine.incidents is None else engine.incidents.state(),
            "observers": [observer.state() for observer in engine.observers],
        },
    )


def restore(engine: Engine, saved: EngineSnapshot) -> None:
    """Bring an engine that has not begun to where a snapshot was taken of another with the same inputs."""
    engine.begun = True
    engine.now, engine.events, engine.completed = saved.now, saved.events, saved.completed
    engine.policy_seconds = saved.policy_seconds
    engine.expect_arrival(after=len(saved.jobs))
    engine.queue = EventQueue(saved.queue, sequence=saved.sequence)
    for key in saved.announced:
        engine.jobs[key].reservation = engine.jobs[key].record.job_id
    for progress in saved.jobs:
        engine.jobs[progress.key].progress = progress
    for node in saved.out:
        engine.out.add(node)
        engine.pool.take_out(node)
    for node, slowdown in saved.flags.items():
        engine.flags[node] = slowdown
        engine.pool.flag(node, slowdown)
    for key in saved.active:
        engine.activate(engine.jobs[key])
    for job in engine.jobs:
        if job.state is JobState.WAITING:
            engine.backlog.join(job)
    engine.reservations = list(saved.reservations)
    engine.incident = saved.incident
    engine.dispatch.freed = saved.freed
    engine.dispatch.stuck = None if saved.stuck is None else engine.jobs[saved.stuck]
    if engine.pace is not None:
        engine.pace.restore(saved.hooks["pace"], engine.active.values())
    if engine.incidents is not None:
        engine.incidents.restore(saved.hooks["incidents"])
    for observer, kept in zip(engine.observers, saved.hooks["observers"], strict=True):
        observer.restore(kept)
