"""A run put together: a trace and a cluster that belong together, how fast jobs run there, and who decides.

A job that no state of the cluster can hold would wait for ever, and under first-in-first-out all behind it too: that is
said before anything runs.  Communication, slow nodes, types of GPU, data and own checkpoints become the *pace* of jobs.
The production policy and placement decide.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np

from ground.errors import InvalidInput, InvalidTopology, TraceFormatError, few
from ground.records import checked
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.power_caps import power_caps
from scheduler.queue.policy import POLICIES
from simulator.cost.step import COMM_MODELS, CommModel, PlacedJob
from simulator.engine import Engine
from simulator.failures.cluster_failures import ClusterFailures
from simulator.failures.flag_incidents import incidents_of, lay_out
from simulator.history import AttemptLog, run_history
from simulator.hooks import FlagSpan, Pace, SavedByRound
from simulator.pools import CappedPool, Disagreement, GpuPool, NodePool, NoSuchNodes, Pool, flagged
from simulator.prediction import predict_all
from simulator.replay_settings import COUNT_ONLY, NO_COST, ReplaySettings
from simulator.results import RunSummary, run_summary
from simulator.shared_data import DataCaches
from simulator.sim_job import SimJob
from simulator.site_power import node_watts
from simulator.start_ups import StartUps, start_ups
from simulator.traces import JobTrace, read_trace
from simulator.traces.throughput_files import with_speeds
from topology.cluster import Cluster
from topology.flags import HEALTHY
from topology.load import load_topology

NAMED = 3  # Jobs that the message names


def check_against(trace: JobTrace, pool: Pool, *, nodes: int, lenient: bool = False) -> JobTrace:
    """Return the trace, once it is sure that every job of it fits into the pool when no other is there.

    :param nodes: of the cluster that the pool is of.
    :param lenient: leave out jobs that do not fit, and count them by reason.
    :raises TraceFormatError: some do not fit and reading is strict, or none is left; names the first.
    :raises InvalidTopology: the cluster has no node that a job could ever use, or no level, and there is a gang.
    """
    if not pool.total.any():
        problem = f"none of the {nodes:,} nodes of the cluster can be used: they are all faulty or busy"
        raise InvalidTopology(problem, fix="give a cluster with nodes that have free GPUs and are not faulty")
    too_large: dict[str, Disagreement] = {}
    others: dict[str, Disagreement] = {}
    no_level: InvalidTopology | None = None
    for record in trace.records:
        if not (0.0 <= record.duration < inf and isfinite(record.submit)):
            problem = f"job {record.job_id} is submitted at {record.submit} and runs {record.duration} s"
            raise TraceFormatError(problem, where=trace.source, fix="give finite seconds, and a duration of 0 or more")
        try:
            pool.need(record)
        except NoSuchNodes as error:
            too_large[record.job_id] = error
        except Disagreement as error:
            others[record.job_id] = error
        except InvalidTopology as error:
            no_level = error
    if too_large and (not lenient or len(too_large) == len(trace)):
        count, reasons = len(too_large), [error.sentence for error in too_large.values()]
        jobs = "a job of the trace does" if count == 1 else f"{count:,} jobs of the trace do"
        raise TraceFormatError(
            f"{jobs} not fit into the cluster: {few(reasons, most=NAMED, separator='; ')}",
            where=trace.source,
            fix="give a larger cluster, leave large jobs out with --max-gpus, or drop those that do not fit with "
            "--lenient",
        )
    if no_level is not None:
        raise no_level
    if others and not lenient:
        job, first = next(iter(others.items()))
        fix = f"{first.fix}, or leave such jobs out with --lenient"
        raise TraceFormatError(f"job {job} could never run: {first}", where=trace.source, fix=fix) from first
    misfits = {job: error.reason for job, error in {**too_large, **others}.items()}
    if len(misfits) == len(trace):
        fix = "give a cluster that can hold them, or another trace"
        raise TraceFormatError("none of its jobs could ever run on this cluster", where=trace.source, fix=fix)
    return trace.without(misfits) if misfits else trace


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
        return self._paces([job.key])

    def stopped(self, job: SimJob) -> Mapping[int, float]:
        """Return the pace of all that shared links with it."""
        if self._singles.pop(job.key, None) is not None:
            return {}
        del self._placed[job.key]
        return self._paces([*self._placed]) if self._model.shares_links else {}

    def slowed(self, node: int, slowdown: float) -> Mapping[int, float]:
        """Return the pace of the jobs on a node which has become slow, or healthy again."""
        self._slowed[node] = slowdown
        self._truth = flagged(self._truth, node, slowdown)
        there = [key for key, placed in self._placed.items() if (placed.nodes == node).any()]
        for key in there:
            self._placed[key] = replace(self._placed[key], cluster=self._truth)
        return self._paces([*(key for key, place in self._singles.items() if place == node), *there])

    def state(self) -> Any:
        """Return nodes whose slowdown has changed."""
        return sorted(self._slowed.items())

    def restore(self, state: Any, running: Iterable[SimJob]) -> None:
        """Go on with those."""
        for node, slowdown in state:
            self._slowed[node] = slowdown
            self._truth = flagged(self._truth, node, slowdown)
        for job in running:
            self._add(job)

    def _add(self, job: SimJob) -> None:
        if job.nodes == 1:
            self._singles[job.key] = job.places[0]
            return
        gang = self._room.gang(job)
        nodes = np.asarray(job.places, dtype=np.int32).reshape(gang.grid.rows, gang.grid.columns)
        self._placed[job.key] = PlacedJob(gang, self._truth, nodes, job.record.known_model)

    def _paces(self, keys: Sequence[int]) -> dict[int, float]:
        """Return the paces of some jobs; where links are shared, and one of them is on several nodes, of all gangs."""
        paces = {key: float(self._truth.slowdown[self._singles[key]]) for key in keys if key in self._singles}
        gangs = [key for key in keys if key in self._placed]
        if self._model.shares_links and gangs:
            steps = self._model.step_times(list(self._placed.values()))
            return paces | {key: max(1.0, step.relative) for key, step in zip(self._placed, steps, strict=True)}
        return paces | {key: max(1.0, self._model.relative_step_time(self._placed[key])) for key in gangs}


class OwnPace:
    """The pace of jobs by something of their own, over an inner one that says what else slows them.

    :param own_paces: called when a job has its places (``True``), and when it leaves them; returns the jobs whose own
        pace is another from then on.
    :param inner: ``None`` = nothing else slows jobs.
    :param both: makes one of the two, such as their product.
    """

    def __init__(
        self,
        own_paces: Callable[[SimJob, bool], Mapping[int, float]],
        inner: Pace | None,
        both: Callable[[float, float], float],
    ) -> None:
        self._own_paces, self._inner, self._both = own_paces, inner, both
        self._others: dict[int, float] = {}  # inner pace of the jobs that run
        self._own: dict[int, float] = {}

    def started(self, job: SimJob) -> Mapping[int, float]:
        """Return the pace of the job, and of those that its start changes."""
        changes = {job.key: 1.0, **(self._inner.started(job) if self._inner else {})}
        return self._changed(changes, self._own_paces(job, True))

    def stopped(self, job: SimJob) -> Mapping[int, float]:
        """Return the paces that its end changes."""
        changes = self._inner.stopped(job) if self._inner else {}
        del self._others[job.key]
        self._own.pop(job.key, None)
        return self._changed(changes, self._own_paces(job, False))

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
            self._own |= self._own_paces(job, True)

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
        pool.node_costs += (lambda job: -caches.affinity(job),)
        # jobs load while they compute: a step takes as long as the longer of the two
        inner = OwnPace(caches.paces, inner, max)
    return inner if failures is None else scaled_pace(failures.overhead, inner)


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A run before it begins, while it goes on and after it."""

    trace: JobTrace  # with what was dropped because cluster and trace disagree
    cluster: Cluster
    settings: ReplaySettings
    engine: Engine
    log: AttemptLog  # of its engine
    startups: StartUps | None = None  # of its engine; None = jobs work as soon as they have their nodes

    @property
    def places(self) -> Cluster | None:
        """The cluster if jobs have places in it; ``None`` = GPUs are only counted."""
        return None if self.settings.algorithm == COUNT_ONLY else self.cluster


@checked
def replay_trace(
    trace: str | Path, cluster: str | Path, settings: ReplaySettings | None = None, *, lenient: bool = False
) -> RunSummary:
    """Replay a file of jobs on the cluster of another, from the first job to the last, and return what it was like.

    :param settings: policy ``fifo`` and algorithm ``exact`` where not given.
    :param lenient: leave out rows that are no jobs, and jobs that the cluster could never hold.
    :raises ArnoldError: as :func:`prepare`, or a file is unusable.
    """
    jobs = read_trace(trace, lenient=lenient)
    replay = prepare(jobs, load_topology(cluster).cluster, settings or ReplaySettings(), lenient=lenient)
    replay.engine.run()
    return run_summary(run_history(replay.engine, replay.log, replay.cluster))


@checked
def prepare(trace: JobTrace, cluster: Cluster, settings: ReplaySettings, *, lenient: bool = False) -> Replay:
    """Put a run together.

    :param lenient: leave out jobs that the cluster could never hold, and count them.
    :raises ArnoldError: no policy, algorithm, predictor or model of communication is called that; the cluster has no
        node that a job could use; or a job could never run.
    """
    policy, failing = POLICIES.load(settings.policy), settings.failing
    start = trace.records[0].submit
    epoch = settings.epoch if settings.epoch is not None else trace.epoch
    cluster, spans = lay_out(cluster, settings.flags, epoch=epoch, start=start)
    present = np.isfinite(cluster.slowdown)
    present[list(cluster.kept_out)] = False
    sound = np.flatnonzero(present).tolist()  # nodes that may fail: those of the run that have not
    if settings.throughputs is not None:
        trace = with_speeds(trace, settings.throughputs, cluster, lenient=lenient)
    elif policy.round_seconds is not None:
        problem, fix = "gives types of GPU by throughput, and none is known", "give --throughputs FILE"
        raise InvalidInput(problem, where=f"--policy {settings.policy}", fix=fix)
    pool = _pool(cluster, settings)
    pace = job_pace(settings, pool, spans) if isinstance(pool, NodePool) else None
    # nodes that wait for others to fail, so that no job may count on them
    spares = () if failing is None else failing.spares_of(sound)
    for node in spares:
        pool.take_out(node)
    trace = check_against(trace, pool, nodes=len(cluster), lenient=lenient)
    announced = next((record for record in trace.records if record.announced is not None), None)
    if policy.reserving and settings.algorithm == COUNT_ONLY and announced is not None:
        problem = f"job {announced.job_id} was announced, a zone is of nodes, and this run only counts GPUs"
        fix = "choose an --algorithm that places, or --policy arnold-no-reserve"
        raise InvalidInput(problem, where=f"--policy {settings.policy}", fix=fix)
    failures = None
    if failing is not None:
        failures = ClusterFailures(failing, sound, start=start, seed=settings.seed, spares=spares)
    recovery = failures if policy.round_seconds is None else SavedByRound(failures, settings.resume_delay)
    log = AttemptLog(recovery)
    startups = start_ups(settings.startup, pool, seed=settings.seed)
    engine = Engine(
        trace.records,
        pool,
        policy,
        predictions=predict_all(trace.records, settings.predictor),
        recovery=log,
        pace=pace,
        incidents=incidents_of(failures, spans, cluster, start=start),
        kept=[log] if startups is None else [log, startups],
        start_up=None if startups is None else startups.started,
        weights=settings.weight_of,
        share_by=settings.share_by,
    )
    for node in spares:
        pool.bring_back(node)
    return Replay(trace, cluster, settings, engine, log, startups)


def _pool(cluster: Cluster, settings: ReplaySettings) -> Pool:
    """Return the cluster as the engine uses it."""
    if settings.algorithm == COUNT_ONLY:
        return GpuPool(cluster)
    limits = Limits(seconds=settings.placement_seconds, seed=settings.seed, workers=1, told="spread", clock="work")
    algorithm, level, records = ALGORITHMS.load(settings.algorithm), settings.level, settings.records
    if (power := settings.power) is None or not power.capped:
        return NodePool(cluster, algorithm=algorithm, limits=limits, level=level, records=records)
    caps = power_caps(cluster.level(power.level), each=power.cap_watts, named=power.caps)
    idle, peak = node_watts(cluster, power)
    return CappedPool(
        cluster, algorithm=algorithm, limits=limits, level=level, records=records, caps=caps, idle=idle, peak=peak
    )
