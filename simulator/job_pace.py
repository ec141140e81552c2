"""How fast jobs run on the nodes they have: communication, slow nodes, types of GPU and own checkpoints, as a pace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import mul
from typing import Any

import numpy as np

from simulator.cost.types import COMM_MODELS, CommModel, PlacedJob
from simulator.engine.hooks import Pace
from simulator.failures.flag_incidents import FlagSpan
from simulator.pools import NodePool
from simulator.replay_settings import NO_COST, ReplaySettings
from simulator.shared_data import DataCaches
from simulator.sim_job import SimJob
from topology.flags import HEALTHY, NodeFlag


class CommPace:
    """Relative step times of the jobs that run in a room.

    Slow nodes are those that are slow, whether the scheduler knows it or not: at the start those that the cluster
    flags.  A job on one node sends nothing to others: only its node's slowdown counts.
    """

    def __init__(self, model: CommModel, room: NodePool) -> None:
        self._model = model
        self._room = room
        self._truth = room.cluster
        self._placed: dict[int, PlacedJob] = {}
        self._singles: dict[int, int] = {}
        self._slowed: dict[int, float] = {}

    def started(self, job: SimJob) -> Mapping[int, float]:
        """Return the pace of the job; and that of all that share links with it."""
        self._add(job)
        if job.key in self._singles:
            return {job.key: self._of_single(job.key)}
        return self._all() if self._model.shares_links else {job.key: self._alone(job.key)}

    def stopped(self, job: SimJob) -> Mapping[int, float]:
        """Return the pace of all that shared links with it."""
        if self._singles.pop(job.key, None) is not None:
            return {}
        del self._placed[job.key]
        return self._all() if self._model.shares_links else {}

    def slowed(self, node: int, slowdown: float) -> Mapping[int, float]:
        """Return the pace of the jobs on a node which has become slow, or healthy again."""
        self._slowed[node] = slowdown
        self._set(node, slowdown)
        there = [key for key, placed in self._placed.items() if (placed.nodes == node).any()]
        for key in there:
            old = self._placed[key]
            self._placed[key] = PlacedJob(old.job, self._truth, old.nodes, old.model, old.chunks)
        singles = {key: self._of_single(key) for key, place in self._singles.items() if place == node}
        if self._model.shares_links and there:
            return {**singles, **self._all()}
        return {**singles, **{key: self._alone(key) for key in there}}

    def state(self) -> Any:
        """Return nodes whose slowdown has changed."""
        return sorted(self._slowed.items())

    def restore(self, state: Any, running: Iterable[SimJob]) -> None:
        """Go on with those."""
        for node, slowdown in state:
            self._slowed[node] = slowdown
            self._set(node, slowdown)
        for job in running:
            self._add(job)

    def _add(self, job: SimJob) -> None:
        if job.nodes == 1:
            self._singles[job.key] = job.places[0]
            return
        gang = self._room.gang(job)
        nodes = np.asarray(job.places, dtype=np.int32).reshape(gang.grid.rows, gang.grid.columns)
        self._placed[job.key] = PlacedJob(gang, self._truth, nodes, job.record.known_model)

    def _set(self, node: int, slowdown: float) -> None:
        flags = {i: flag for i, flag in self._truth.flags.items() if i != node}
        if slowdown > 1.0:
            flags[node] = NodeFlag(self._truth.names[node], "straggler", slowdown, source="simulator")
        self._truth = self._truth.replace(flags=flags)

    def _of_single(self, key: int) -> float:
        return float(self._truth.slowdown[self._singles[key]])

    def _alone(self, key: int) -> float:
        return max(1.0, self._model.relative_step_time(self._placed[key]))

    def _all(self) -> dict[int, float]:
        steps = self._model.step_times(list(self._placed.values()))
        return {key: max(1.0, step.relative) for key, step in zip(self._placed, steps, strict=True)}


class OwnPace:
    """The pace of jobs by something of their own, over an inner one that says what else slows them.

    :param told: called when a job has its places (``True``), and when it leaves them; returns the jobs whose own pace
        is another from then on.
    :param inner: ``None`` = nothing else slows jobs.
    :param both: makes one of the two, such as their product.
    """

    def __init__(
        self,
        told: Callable[[SimJob, bool], Mapping[int, float]],
        inner: Pace | None,
        both: Callable[[float, float], float],
    ) -> None:
        self._told, self._inner, self._both = told, inner, both
        self._others: dict[int, float] = {}  # inner pace of the jobs that run
        self._own: dict[int, float] = {}

    def started(self, job: SimJob) -> Mapping[int, float]:
        """Return the pace of the job, and of those that its start changes."""
        changes = {job.key: 1.0, **(self._inner.started(job) if self._inner else {})}
        return self._changed(changes, self._told(job, True))

    def stopped(self, job: SimJob) -> Mapping[int, float]:
        """Return the paces that its end changes."""
        changes = self._inner.stopped(job) if self._inner else {}
        del self._others[job.key]
        self._own.pop(job.key, None)
        return self._changed(changes, self._told(job, False))

    def slowed(self, node: int, slowdown: float) -> Mapping[int, float]:
        """Return what changes by the inner pace."""
        return self._changed(self._inner.slowed(node, slowdown) if self._inner else {}, {})

    def state(self) -> Any:
        """Return that of the inner pace, and what it said of the jobs that run; their own follow from them."""
        return [self._inner.state() if self._inner else None, sorted(self._others.items())]

    def restore(self, state: Any, running: Iterable[SimJob]) -> None:
        """Go on with those."""
        jobs = list(running)
        if self._inner:
            self._inner.restore(state[0], jobs)
        self._others = dict(state[1])
        for job in jobs:
            self._own |= self._told(job, True)

    def _changed(self, others: Mapping[int, float], own: Mapping[int, float]) -> dict[int, float]:
        self._others |= others
        self._own |= own
        return {key: self._both(self._others[key], self._own.get(key, 1.0)) for key in sorted({*others, *own})}


def scaled_pace(factor: Callable[[SimJob], float], inner: Pace | None = None) -> OwnPace:
    """Return the pace of jobs that a factor of their own slows, asked when each has its places."""
    return OwnPace(lambda job, runs: {job.key: factor(job)} if runs else {}, inner, mul)


def slowed_by_type(pool: NodePool) -> Callable[[SimJob], float]:
    """Return how much slower a job is on the types of GPU of its nodes, also where it lies on more than hold it."""
    names, type_of = pool.cluster.gpu_types, pool.cluster.gpu_type_of

    def factor(job: SimJob) -> float:
        if not job.record.speed:
            return 1.0
        types = {names[type_of[node]] for node in job.places}
        ways = pool.types.allocations(job.record, pool.need)
        least = [ways[name][0].nodes for name in types if name in ways]
        return 1.0 / job.record.speed_on(types, apart=len(job.places) > min(least, default=len(job.places)))

    return factor


def job_pace(settings: ReplaySettings, pool: NodePool, spans: Sequence[FlagSpan]) -> Pace | None:
    """Return how fast jobs run: by communication, slow nodes, types, data, checkpoints; ``None`` = as in the trace.

    Where jobs read data, gangs prefer nodes near jobs that read the same.

    :param spans: flags that come and go.
    """
    failures = settings.failures
    slow = bool(spans) or any(flag.slowdown > HEALTHY for flag in pool.cluster.flags.values())
    slow = slow or (failures is not None and failures.model.slowness.per_thousand_node_days > 0.0)
    inner: Pace | None = None
    if slow or settings.cost_model != NO_COST:
        inner = CommPace(COMM_MODELS.load(settings.cost_model), pool)
    if settings.throughputs is not None:
        inner = scaled_pace(slowed_by_type(pool), inner)
    if settings.data is not None:
        caches = DataCaches(settings.data, pool.cluster)
        pool.node_costs += (lambda job: -caches.near(job),)
        # jobs load while they compute: a step takes as long as the longer of the two
        inner = OwnPace(caches.paces, inner, max)
    return inner if failures is None else scaled_pace(failures.overhead, inner)
