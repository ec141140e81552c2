"""A run put together: a trace, a cluster, and the production policy and placement that decide."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.queue_policy import POLICIES
from simulator.comm_pace import CommPace
from simulator.cost.types import COMM_MODELS
from simulator.engine.engine import Engine
from simulator.engine.hooks import Pace
from simulator.engine.node_pool import NodePool
from simulator.engine.pools import Disagreement, GpuPool, Pool
from simulator.failures.cluster_failures import CheckpointPace, ClusterFailures, FailureSettings
from simulator.prediction import predict_all
from simulator.replay_settings import COUNT_ONLY, NO_COST, ReplaySettings
from simulator.traces import JobTrace, check_against
from simulator.traces.cluster_fit import usable_gpus
from topology.cluster import Cluster
from topology.errors import InvalidInput, TraceFormatError
from topology.flags import HEALTHY


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """A run before it begins, while it goes on and after it."""

    trace: JobTrace  # with what was dropped because cluster and trace disagree
    cluster: Cluster
    settings: ReplaySettings
    engine: Engine

    @property
    def places(self) -> Cluster | None:
        """The cluster if jobs have places in it; ``None`` = GPUs are only counted."""
        return None if self.settings.algorithm == COUNT_ONLY else self.cluster


def prepare(trace: JobTrace, cluster: Cluster, settings: ReplaySettings, *, lenient: bool = False) -> Replay:
    """Put a run together.

    :param lenient: leave out jobs that the cluster could never hold, and count them.
    :raises ArnoldError: no policy, algorithm, predictor or model of communication is called that; the cluster has no
        node that a job could use; a job could never run; or nodes are asked for where GPUs are only counted.
    """
    policy = POLICIES.load(settings.policy)
    room = make_room(cluster, settings)
    # nodes that wait for others to fail, so that no job may count on them
    spares = () if settings.failures is None else settings.failures.spares_of(_sound(cluster))
    if settings.algorithm == COUNT_ONLY:
        usable_gpus(cluster)
    else:
        trace = check_against(trace, cluster.with_busy(spares), lenient=lenient)
    for node in spares:
        room.take_out(node)
    trace = _fitting(trace, room, lenient=lenient)
    announced = next((record for record in trace.records if record.announced is not None), None)
    if policy.reserving and settings.algorithm == COUNT_ONLY and announced is not None:
        raise InvalidInput(
            f"job {announced.job_id} was announced, a zone is of nodes, and this run only counts GPUs",
            where=f"--policy {settings.policy}",
            fix="choose an --algorithm that places, or --policy arnold-no-reserve",
        )
    failures = make_failures(cluster, settings, start=trace.records[0].submit)
    engine = Engine(
        trace.records,
        room,
        policy,
        predictions=predict_all(trace.records, settings.predictor),
        recovery=failures,
        pace=make_pace(settings, room),
        incidents=failures,
    )
    for node in spares:
        room.bring_back(node)
    return Replay(trace, cluster, settings, engine)


def fingerprint(settings: object, trace: JobTrace, clusters: Mapping[str, Cluster]) -> str:
    """Return the SHA-256 of what runs follow from: their settings, jobs and clusters, by name."""
    digest = hashlib.sha256(repr(settings).encode())
    for record in trace.records:
        digest.update(repr(record).encode())
    for name, cluster in sorted(clusters.items()):
        digest.update(repr((name, cluster.names, sorted(cluster.flags.items()))).encode())
        for level in cluster.levels:
            digest.update(repr((level.name, level.domains)).encode() + level.domain_of.tobytes())
        digest.update(cluster.gpus.tobytes() + cluster.free_gpus.tobytes())
    return digest.hexdigest()


def make_room(cluster: Cluster, settings: ReplaySettings) -> Pool:
    """Return the cluster as the engine uses it."""
    if settings.algorithm == COUNT_ONLY:
        return GpuPool(cluster)
    limits = Limits(seconds=settings.placement_seconds, seed=settings.seed, workers=1)
    return NodePool(cluster, algorithm=ALGORITHMS.load(settings.algorithm), limits=limits, level=settings.level)


def make_failures(cluster: Cluster, settings: ReplaySettings, *, start: float) -> ClusterFailures | None:
    """Return what goes wrong with the cluster's nodes from the replay's start on; ``None`` = nothing.

    :raises InvalidInput: GPUs are only counted, or there are too many spares.
    """
    if settings.failures is None:
        return None
    if settings.algorithm == COUNT_ONLY:
        raise InvalidInput(
            "nodes fail, and this run only counts GPUs", where="--failures", fix="choose an --algorithm that places"
        )
    return ClusterFailures(settings.failures, _sound(cluster), start=start, seed=settings.seed)


def _sound(cluster: Cluster) -> list[int]:
    """Return nodes that may fail: those that have not."""
    nodes: list[int] = np.flatnonzero(np.isfinite(cluster.slowdown)).tolist()
    return nodes


def make_pace(settings: ReplaySettings, room: Pool) -> Pace | None:
    """Return how fast jobs run: slowed by communication, slow nodes and checkpoints; ``None`` = as in the trace.

    :raises InvalidInput: a model of communication is asked for where GPUs are only counted.
    """
    failures = settings.failures
    if settings.cost == NO_COST and not _slow_nodes(failures, room):
        return CheckpointPace(failures) if failures is not None else None
    if not isinstance(room, NodePool):
        raise InvalidInput(
            f"{settings.cost!r} asks where jobs lie, and without placement they lie nowhere",
            where="--cost",
            fix="choose an --algorithm that places, or --cost none",
        )
    inner = CommPace(COMM_MODELS.load(settings.cost), room)
    return inner if failures is None else CheckpointPace(failures, inner)


def _slow_nodes(failures: FailureSettings | None, room: Pool) -> bool:
    """Return whether a job may lie on a slow node: one that is flagged at the start, or one that becomes slow."""
    if failures is not None and failures.model.slowness.per_thousand_node_days > 0.0:
        return True
    return isinstance(room, NodePool) and any(flag.slowdown > HEALTHY for flag in room.cluster.flags.values())


def _fitting(trace: JobTrace, room: Pool, *, lenient: bool) -> JobTrace:
    """Return the trace without jobs that could never run in that room, counted by reason."""
    misfits: dict[str, str] = {}
    for record in trace.records:
        try:
            room.need(record)
        except Disagreement as error:
            if not lenient:
                raise TraceFormatError(
                    f"job {record.job_id} could never run: {error}",
                    where=trace.source,
                    fix=f"{error.fix}, or leave such jobs out with --lenient",
                ) from error
            misfits[record.job_id] = error.reason
    if len(misfits) == len(trace):
        raise TraceFormatError(
            "none of its jobs could ever run on this cluster",
            where=trace.source,
            fix="give a cluster that can hold them, or another trace",
        )
    return trace.without(misfits) if misfits else trace
