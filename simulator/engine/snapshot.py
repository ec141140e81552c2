"""The state of an engine as plain values, and back: a run that goes on from it is the run that was never stopped.

What follows from the trace, the cluster and the settings is not in it.  Infinite times are ``None``, since JSON has no
word for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from scheduler.queue.types import CapacityReservation
from simulator.engine.agenda import Agenda
from simulator.engine.hooks import Incident
from simulator.engine.job import SimJob, State
from simulator.engine.loop import Engine

Time = float | None


@dataclass(frozen=True)
class JobState:
    """What has happened to a job; fields as in :class:`SimJob`."""

    key: int
    state: int
    left: float
    delay: float
    pace: float
    since: float
    places: tuple[int, ...]
    started: Time
    ends: Time
    first_start: Time
    end: Time
    version: int
    runs: tuple[tuple[float, float], ...]
    spread: tuple[int, int] | None
    predicted: float
    predicted_high: float


@dataclass(frozen=True)
class Snapshot:
    """An engine between two instants.

    :param jobs: those that have been submitted.
    :param running: keys, in the order in which they started.
    :param announced: keys of jobs that were announced.
    :param incident: the one that is expected.
    :param out: nodes that no job may use.
    :param flags: slowdowns that the scheduler knows of, by node.
    :param opened: whether room was given back since the last turn, as the turn knows.
    :param stuck: key of the first job that has no room.
    :param hooks: states of pace, incidents and observers.
    """

    now: float
    events: int
    completed: int
    policy_seconds: float
    sequence: int
    agenda: tuple[tuple[float, int, int, int, int], ...]
    jobs: tuple[JobState, ...]
    running: tuple[int, ...]
    announced: tuple[int, ...]
    reservations: tuple[CapacityReservation, ...]
    incident: Incident | None
    out: tuple[int, ...]
    flags: dict[int, float]
    opened: bool
    stuck: int | None
    hooks: dict[str, Any]


def snapshot(engine: Engine) -> Snapshot:
    """The state of an engine between two instants."""
    stuck = engine.turn.stuck
    return Snapshot(
        now=engine.now,
        events=engine.events,
        completed=engine.completed,
        policy_seconds=engine.policy_seconds,
        sequence=engine.agenda.sequence,
        agenda=tuple(engine.agenda.heap),
        jobs=tuple(_state(job) for job in engine.jobs if job.state is not State.COMING),
        running=tuple(engine.live),
        announced=tuple(job.key for job in engine.jobs if job.reservation),
        reservations=tuple(engine.reservations),
        incident=engine.incident,
        out=tuple(sorted(engine.out)),
        flags=dict(sorted(engine.flags.items())),
        opened=engine.turn.opened,
        stuck=None if stuck is None else stuck.key,
        hooks={
            "pace": None if engine.pace is None else engine.pace.state(),
            "incidents": None if engine.incidents is None else engine.incidents.state(),
            "observers": [observer.state() for observer in engine.observers],
        },
    )


def restore(engine: Engine, saved: Snapshot) -> None:
    """Bring an engine that has not begun to where a snapshot was taken of another with the same inputs."""
    engine.now, engine.events, engine.completed = saved.now, saved.events, saved.completed
    engine.policy_seconds = saved.policy_seconds
    engine.agenda = Agenda(saved.agenda, sequence=saved.sequence)
    for key in saved.announced:
        engine.jobs[key].reservation = engine.jobs[key].record.job_id
    for state in saved.jobs:
        _bring(engine.jobs[state.key], state)
    for node in saved.out:
        engine.out.add(node)
        engine.room.take_out(node)
    for node, slowdown in saved.flags.items():
        engine.flags[node] = slowdown
        engine.room.flag(node, slowdown)
    for key in saved.running:
        engine.enliven(engine.jobs[key])
        engine.room.take(engine.jobs[key])
    for job in engine.jobs:
        if job.state is State.WAITING:
            job.rank = engine.policy.rank(job)
            engine.line.join(job)
    engine.reservations = list(saved.reservations)
    engine.incident = saved.incident
    engine.turn.opened = saved.opened
    engine.turn.stuck = None if saved.stuck is None else engine.jobs[saved.stuck]
    if engine.pace is not None:
        engine.pace.restore(saved.hooks["pace"], engine.live.values())
    if engine.incidents is not None:
        engine.incidents.restore(saved.hooks["incidents"])
    for observer, kept in zip(engine.observers, saved.hooks["observers"], strict=True):
        observer.restore(kept)


def _state(job: SimJob) -> JobState:
    return JobState(
        key=job.key,
        state=int(job.state),
        left=job.left,
        delay=job.delay,
        pace=job.pace,
        since=job.since,
        places=tuple(job.places),
        started=_finite(job.started),
        ends=_finite(job.ends),
        first_start=_finite(job.first_start),
        end=_finite(job.end),
        version=job.version,
        runs=tuple(job.runs),
        spread=job.spread,
        predicted=job.predicted,
        predicted_high=job.predicted_high,
    )


def _bring(job: SimJob, state: JobState) -> None:
    job.state = State(state.state)
    job.left, job.delay, job.pace, job.since = state.left, state.delay, state.pace, state.since
    job.places, job.version, job.runs, job.spread = state.places, state.version, list(state.runs), state.spread
    job.started, job.ends = _time(state.started), _time(state.ends)
    job.first_start, job.end = _time(state.first_start), _time(state.end)
    job.predicted, job.predicted_high = state.predicted, state.predicted_high


def _finite(time: float) -> Time:
    return None if time == inf else time


def _time(saved: Time) -> float:
    return inf if saved is None else saved
