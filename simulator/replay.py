"""A run put together: a trace, a cluster, and the production policy and placement that decide."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ground.errors import InvalidInput
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.power_caps import power_caps
from scheduler.queue.policy import POLICIES, QueuePolicy
from simulator.cluster_fit import check_against
from simulator.engine.engine import Engine
from simulator.engine.hooks import SavedByRound
from simulator.failures.cluster_failures import ClusterFailures
from simulator.failures.flag_incidents import incidents_of, lay_out
from simulator.job_pace import job_pace
from simulator.pools import CappedPool, GpuPool, NodePool, Pool
from simulator.prediction import predict_all
from simulator.replay_settings import COUNT_ONLY, ReplaySettings
from simulator.results.run_history import AttemptLog, run_history
from simulator.results.run_summary import RunSummary, run_summary
from simulator.site_power import node_watts
from simulator.start_ups import StartUps, start_ups
from simulator.traces import JobTrace, read_trace
from simulator.traces.throughput_files import with_speeds
from topology.cluster import Cluster
from topology.readers import load_topology


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
    trace = _with_types(trace, settings, policy, cluster, lenient=lenient)
    pool = _pool(cluster, settings)
    pace = job_pace(settings, pool, spans) if isinstance(pool, NodePool) else None
    # nodes that wait for others to fail, so that no job may count on them
    spares = () if failing is None else failing.spares_of(sound)
    for node in spares:
        pool.take_out(node)
    trace = check_against(trace, pool, nodes=len(cluster), lenient=lenient)
    announced = next((record for record in trace.records if record.announced is not None), None)
    if policy.reserving and settings.algorithm == COUNT_ONLY and announced is not None:
        raise InvalidInput(
            f"job {announced.job_id} was announced, a zone is of nodes, and this run only counts GPUs",
            where=f"--policy {settings.policy}",
            fix="choose an --algorithm that places, or --policy arnold-no-reserve",
        )
    failures = None
    if failing is not None:
        failures = ClusterFailures(failing, sound, start=start, seed=settings.seed, spares=spares)
    told = predict_all(trace.records, settings.predictor)
    recovery = failures if policy.round_seconds is None else SavedByRound(failures, settings.resume_delay)
    log = AttemptLog(recovery, incidents_of(failures, spans, cluster, start=start))
    startups = start_ups(settings.startup, pool, seed=settings.seed)
    engine = Engine(
        trace.records,
        pool,
        policy,
        predictions=told,
        recovery=log,
        pace=pace,
        incidents=log.nodes,
        observers=[log] if startups is None else [log, startups],
        start_up=startups,
        weights=settings.weight_of,
        share_by=settings.share_by,
    )
    for node in spares:
        pool.bring_back(node)
    return Replay(trace, cluster, settings, engine, log, startups)


def _with_types(
    trace: JobTrace, settings: ReplaySettings, policy: QueuePolicy, cluster: Cluster, *, lenient: bool
) -> JobTrace:
    """Return the trace with how fast its jobs are on each type of GPU; what decides in rounds must know it."""
    if settings.throughputs is not None:
        return with_speeds(trace, settings.throughputs, cluster, lenient=lenient)
    if policy.round_seconds is not None:
        wrong, fix = "gives types of GPU by throughput, and none is known", "give --throughputs FILE"
        raise InvalidInput(wrong, where=f"--policy {settings.policy}", fix=fix)
    return trace


def _pool(cluster: Cluster, settings: ReplaySettings) -> Pool:
    """Return the cluster as the engine uses it."""
    if settings.algorithm == COUNT_ONLY:
        return GpuPool(cluster)
    limits = Limits(seconds=settings.placement_seconds, seed=settings.seed, workers=1, told="spread", clock="work")
    algorithm = ALGORITHMS.load(settings.algorithm)
    asked: dict[str, Any] = {
        "algorithm": algorithm,
        "limits": limits,
        "level": settings.level,
        "records": settings.records,
    }
    power = settings.power
    if power is None or not power.capped:
        return NodePool(cluster, **asked)
    caps = power_caps(cluster.level(power.level), each=power.cap_watts, named=power.caps)
    idle, peak = node_watts(cluster, power)
    return CappedPool(cluster, caps=caps, idle=idle, peak=peak, **asked)
