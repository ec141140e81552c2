"""The state of an engine as plain values; and the file of ``--checkpoint``, written whole and refused by other runs.

A run that goes on from it is the run that was never stopped; what follows from its inputs is not in it.  A file that a
run uses is locked: another is refused as long as the first goes on, and not after it crashed.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ground.errors import InvalidInput
from ground.files import not_writable, write_file
from scheduler.queue.policy import CapacityReservation
from simulator.engine import Engine, Event
from simulator.hooks import Incident
from simulator.replay import Replay
from simulator.sim_job import JobProgress, JobState
from simulator.traces import JobTrace
from topology.cluster import Cluster


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
    seen: tuple[Incident, ...]  # all so far, and it
    out: tuple[int, ...]  # nodes that no job may use
    flags: dict[int, float]  # slowdowns that the scheduler knows of, by node
    freed: bool  # whether room was given back since the last dispatch pass
    stuck: int | None  # key of the first job that had no room in it
    hooks: dict[str, Any]  # states of pace, incidents and what else is kept


def snapshot(engine: Engine) -> EngineSnapshot:
    """Return the state of an engine between two instants."""
    engine.begin()
    clock, cluster = engine.clock, engine.cluster
    stuck = cluster.dispatch.stuck
    return EngineSnapshot(
        now=clock.now,
        events=engine.events,
        completed=engine.completed,
        policy_seconds=engine.driver.seconds,
        sequence=clock.sequence,
        queue=tuple(clock.heap),
        jobs=tuple(job.progress for job in engine.jobs[: engine.arrived]),
        active=tuple(cluster.active),
        announced=tuple(job.key for job in engine.jobs if job.reservation),
        reservations=tuple(cluster.reservations),
        incident=engine.incident,
        seen=tuple(engine.seen),
        out=tuple(sorted(cluster.out)),
        flags=dict(sorted(cluster.flags.items())),
        freed=cluster.dispatch.freed,
        stuck=None if stuck is None else stuck.key,
        hooks={
            "pace": None if cluster.pace is None else cluster.pace.state(),
            "incidents": None if engine.incidents is None else engine.incidents.state(),
            "kept": [part.state() for part in engine.kept],
        },
    )


def restore(engine: Engine, saved: EngineSnapshot) -> None:
    """Bring an engine that has not begun to where a snapshot was taken of another with the same inputs."""
    clock, cluster, jobs = engine.clock, engine.cluster, engine.jobs
    engine.begun = True
    engine.events, engine.completed, engine.arrived = saved.events, saved.completed, len(saved.jobs)
    engine.driver.seconds, engine.incident, engine.seen = saved.policy_seconds, saved.incident, list(saved.seen)
    clock.now, clock.heap, clock.sequence = saved.now, list(saved.queue), saved.sequence
    for key in saved.announced:
        jobs[key].reservation = jobs[key].record.job_id
    for progress in saved.jobs:
        jobs[progress.key].progress = progress
    for node in saved.out:
        cluster.out.add(node)
        cluster.pool.take_out(node)
    for node, slowdown in saved.flags.items():
        cluster.flags[node] = slowdown
        cluster.pool.flag(node, slowdown)
    for key in saved.active:
        cluster.activate(jobs[key])
    for job in jobs:
        if job.state is JobState.WAITING:
            cluster.backlog.join(job)
    cluster.reservations = list(saved.reservations)
    cluster.dispatch.freed = saved.freed
    cluster.dispatch.stuck = None if saved.stuck is None else jobs[saved.stuck]
    if cluster.pace is not None:
        cluster.pace.restore(saved.hooks["pace"], cluster.active.values())
    if engine.incidents is not None:
        engine.incidents.restore(saved.hooks["incidents"])
    for part, state in zip(engine.kept, saved.hooks["kept"], strict=True):
        part.restore(state)


FORMAT = "arnold-checkpoint-7"


class Checkpoint(BaseModel):
    """A run that can go on, and what it is a run of."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    format: str = Field(pattern=f"^{FORMAT}$")
    """Name and version of this format."""
    inputs: str
    """SHA-256 of trace, cluster and settings: a checkpoint goes on with these and no others."""
    wall_seconds: float = Field(ge=0)
    """Wall time of the run so far."""
    state: EngineSnapshot
    """The engine."""


def fingerprint(settings: object, trace: JobTrace, clusters: Mapping[str, Cluster]) -> str:
    """Return the SHA-256 of what runs follow from: their settings, jobs and clusters, by name."""
    digest = hashlib.sha256(repr(settings).encode())
    for record in trace.records:
        digest.update(repr(record).encode())
    for name, cluster in sorted(clusters.items()):
        nodes = cluster.names, sorted(cluster.flags.items()), sorted(cluster.kept_out.items())
        digest.update(repr((name, *nodes)).encode())
        for level in cluster.levels:
            digest.update(repr((level.name, level.domains)).encode() + level.domain_of.tobytes())
        digest.update(cluster.gpus.tobytes() + cluster.free_gpus.tobytes())
    return digest.hexdigest()


class CheckpointFile:
    """The checkpoint of one run, at a path where it is or will be."""

    def __init__(self, path: str, replay: Replay) -> None:
        """Begin the run, or go on where the file says.

        :raises InvalidInput: the file is no checkpoint, or one of another run; or the place cannot be written to.
        """
        self._path = path
        self._inputs = fingerprint(replay.settings, replay.trace, {"": replay.cluster})
        self._wall = 0.0
        self.found = Path(path).is_file()  # Whether the run goes on
        self._since = perf_counter()
        if not self.found:
            self.save(replay.engine)
            return
        try:
            saved = Checkpoint.model_validate_json(Path(path).read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            problem = f"is no checkpoint of this version: {place}: {first['msg']}"
            raise InvalidInput(problem, where=path, fix="remove the file to begin anew, or name another one") from None
        if saved.inputs != self._inputs:
            problem = "is the checkpoint of a run with another trace, cluster or settings"
            raise InvalidInput(problem, where=path, fix="give the same inputs as then, or name another file")
        restore(replay.engine, saved.state)
        self._wall = saved.wall_seconds
        self._since = perf_counter()

    @property
    def wall_seconds(self) -> float:
        """Wall time of the run, from its very beginning."""
        return self._wall + perf_counter() - self._since

    def save(self, engine: Engine) -> None:
        """Write the checkpoint; what stood there before stands until it is whole.

        :raises InvalidInput: the place cannot be written to.
        """
        state = snapshot(engine)
        checkpoint = Checkpoint(format=FORMAT, inputs=self._inputs, wall_seconds=self.wall_seconds, state=state)
        write_file(self._path, checkpoint.model_dump_json().encode())


@contextmanager
def kept_in(path: str | None, replay: Replay) -> Iterator[CheckpointFile | None]:
    """Begin a run or go on with it, with a checkpoint that no other run uses; it is removed when all is done.

    :param path: of the checkpoint; ``None`` = there is to be none.
    :raises InvalidInput: as :class:`CheckpointFile`, or another run uses the file.
    """
    if path is None:
        yield None
        return
    with held_alone(path):
        yield CheckpointFile(path, replay)
        Path(path).unlink(missing_ok=True)


@contextmanager
def held_alone(path: str) -> Iterator[None]:
    """Hold a file for this run, by a lock on a neighbour of it that the kernel lifts when the process ends.

    The file itself cannot be locked: each saving replaces it.  Where the file system knows no locks nothing is held.

    :raises InvalidInput: another run holds it, or there is no folder to write to.
    """
    neighbour = Path(f"{path}.lock")
    while True:
        try:
            handle = os.open(neighbour, os.O_RDWR | os.O_CREAT, 0o644)
        except (OSError, ValueError) as error:
            raise not_writable(path, error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 20).decode(errors="replace").strip()
            os.close(handle)
            problem = f"another run is using it{f': process {holder}' if holder else ''}"
            raise InvalidInput(problem, where=path, fix="wait until it has ended, or name another file") from None
        except OSError:
            break
        # What held it before may have removed it just now: then the next one would lock another file.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), neighbour.stat()):
                os.truncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
                break
        os.close(handle)
    try:
        yield
    finally:
        neighbour.unlink(missing_ok=True)
        os.close(handle)
