"""What could have been: the jobs of a period again, by the production queue policy and placement.

The engine of all replays goes on from the runs that had nodes when the period began, which keep them.  The others come
when they might have started by the accounting, and take as long as they took; the scheduler is told their time limits.
Nodes go and come as the snapshots have them; one that jobs used all the same counts as usable.  What comes out are runs
again, which :func:`simulator.usage_report.usage` weighs as those that happened.

Not in it: what nobody knows, how long a job would have taken that has not started (to its limit, or on and on), whether
one that was cancelled while it waited would have started, how long runs would have taken on other nodes; and what the
accounting does not say: which partitions and quotas held jobs back.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, isnan

import numpy as np

from ground.errors import ArnoldError, InvalidInput
from ground.quantities import HOUR
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.queue.policy import POLICIES
from scheduler.queue.run_times import Prediction
from simulator.engine import Engine, Held
from simulator.failures.cluster_failures import IncidentStream
from simulator.hooks import Incident
from simulator.job_record import JobRecord
from simulator.pools import Disagreement, NodePool
from simulator.sim_job import UNITS, JobState, Need, SimJob
from simulator.usage_report import NO_WAITS, Run, SpreadModel, Unknown, usable_gpus
from topology.cluster import BoolArray
from topology.load import LoadedTopology

PLACEMENT_SECONDS = 1.0  # Of counted work for each placement, as in other replays


@dataclass(frozen=True, slots=True)
class PeriodReplay:
    """The runs of a period as they would have been."""

    policy: str
    runs: Sequence[Run]
    unsure: float  # GPU-hours of jobs that started in it alone, so that nothing says how long they run
    notes: Sequence[str]  # what was assumed or left out, a sentence each


def replayed(
    snapshots: Sequence[LoadedTopology],
    runs: Sequence[Run],
    *,
    since: float,
    until: float,
    policy: str,
    solver: PlacementAlgorithm,
    limits: Limits,
    grids: SpreadModel,
) -> PeriodReplay | Unknown:
    """Replay a period, or say why it cannot be told.

    :param snapshots: of one cluster, in the order of their times; the first counts before its time, too.
    :param runs: that happened, or waited; seconds since 1970, as ``since`` and ``until``.
    :param limits: its progress is told how far it is.
    :raises InvalidInput: no queue policy is called so, or it gives GPUs in rounds.
    """
    cluster, decides = snapshots[0].cluster, POLICIES.load(policy)
    if decides.round_seconds is not None:
        problem, fix = "gives GPUs in rounds, and runs of the accounting are whole", "choose another policy"
        raise InvalidInput(problem, where=f"--policy {policy}", fix=fix)
    if any(isnan(run.wait_from) for run in runs):
        return NO_WAITS
    at_work = [run for run in runs if run.start <= since < run.end]
    waited = [run for run in runs if since < run.start and run.wait_from < until and run.end > since]
    coming = [run for run in waited if run.start < inf or run.end == inf]
    held = np.zeros(len(cluster))
    for run in at_work:
        if run.nodes is None:
            return "the trace does not say on which nodes jobs ran when the period began (NodeList)"
        held[run.nodes] += run.each
    if (held > cluster.gpus + 1.0 / UNITS).any():
        return f"by the trace, jobs have more GPUs of {cluster.names[int(np.argmax(held - cluster.gpus))]} than it has"

    slow = {node: flag for node, flag in cluster.flags.items() if np.isfinite(flag.slowdown)}
    shares = [int(np.ceil(round(run.each * UNITS, 6))) for run in at_work]
    names = [f"{i} {run.name}" for i, run in enumerate(at_work)]
    pool = NodePool(
        cluster.emptied().replace(flags=slow, kept_out={}, node_limit=None, upcoming=()),
        algorithm=solver,
        limits=replace(limits, seconds=min(limits.seconds, PLACEMENT_SECONDS), workers=1, told="spread", clock="work"),
        given={
            name: Need(run.wanted_nodes, units, units * run.wanted_nodes)
            for name, run, units in zip(names, at_work, shares, strict=True)
        },
    )
    records = [
        JobRecord(name, since, inf, run.gpus, run.wanted_nodes) for name, run in zip(names, at_work, strict=True)
    ]
    placed, misfits = [*at_work], list[Run]()
    for run in sorted(coming, key=lambda run: run.wait_from):
        record = _fitting(f"{len(records)} {run.name}", run, since, grids, pool)
        if record is None:
            misfits.append(run)
        else:
            placed.append(run)
            records.append(record)
    told = [inf if run.limit is None else run.limit for run in placed]
    incidents, opened = _incidents(snapshots, runs, since=since, until=until)
    engine = Engine(
        records,
        pool,
        decides,
        predictions={record.job_id: Prediction(limit, 0.0, limit) for record, limit in zip(records, told, strict=True)},
        incidents=IncidentStream(lambda: iter(incidents)),
        share_by="group",
    )
    engine.go_on_from(
        [Held(() if run.nodes is None else run.nodes.tolist(), run.end, run.start + limit)
         for run, limit in zip(at_work, told, strict=False)],
        now=since,
    )  # fmt: skip
    while engine.peek() < until:
        share = (engine.clock.now - since) / (until - since)
        limits.say(f"Replaying: {share:.0%} of the period, {len(engine.cluster.backlog):,} jobs wait")
        engine.step()
    lost = sum(run.gpus * max(0.0, min(run.end, until) - run.start) for run in misfits if run.start < inf) / HOUR
    came = zip(placed[len(at_work) :], engine.jobs[len(at_work) :], strict=True)
    begun = [*at_work, *(_as_replayed(run, job, pool) for run, job in came)]
    new = [again for run, again in zip(placed, begun, strict=True) if run.start == inf and again.start < until]
    notes = {
        "not replayed, as they were cancelled while they waited": len(waited) - len(coming),
        f"not replayed, as nodes of this cluster could never hold them ({lost:,.1f} GPU-hours)": len(misfits),
        "kept out or faulty by a snapshot and used all the same, so open in the replay": opened,
        "replayed without a time limit, as the trace says none (Timelimit)": sum(run.limit is None for run in placed),
        "started in the replay alone, where they run to their time limits, or on and on": len(new),
    }
    unsure = sum(run.gpus * (min(run.end, until) - run.start) for run in new) / HOUR
    return PeriodReplay(policy, begun, unsure, [f"{what}: {count:,}" for what, count in notes.items() if count])


def _fitting(name: str, run: Run, since: float, grids: SpreadModel, pool: NodePool) -> JobRecord | None:
    """Return a job that comes, with its grid where that is known and fits; ``None`` = it fits in no way."""
    length = run.end - run.start if run.start < inf else run.limit or inf
    bare = JobRecord(
        name, max(since, run.wait_from), max(1.0, length), run.gpus, run.wanted_nodes, group=run.account,
        priority=int(run.priority or 0),
    )  # fmt: skip
    shapes = [bare]
    with suppress(ArnoldError):
        job = grids.grid(run.live(pool.cluster)).job
        shapes = [replace(bare, parallelism=job.parallelism, alpha=job.alpha, microbatches=job.microbatches), bare]
    for record in shapes:
        with suppress(Disagreement, ArnoldError):
            pool.need(record)
            return record
    return None


def _incidents(
    snapshots: Sequence[LoadedTopology], runs: Sequence[Run], *, since: float, until: float
) -> tuple[list[Incident], int]:
    """Return when nodes go and come, and how many were in use while a snapshot has them as not usable."""
    cluster, times = snapshots[0].cluster, [snapshot.now.timestamp() for snapshot in snapshots]
    incidents, opened = list[Incident](), np.zeros(len(cluster), dtype=np.bool_)
    out: BoolArray = np.zeros(len(cluster), dtype=np.bool_)
    for begins, ends, snapshot in zip([-inf, *times[1:]], [*times[1:], inf], snapshots, strict=True):
        begin, end = max(since, begins), min(until, ends)
        if begin >= end:
            continue
        used = np.zeros(len(cluster), dtype=np.bool_)
        for run in runs:
            if run.nodes is not None and run.start < end and run.end > begin:
                used[run.nodes] = True
        lacks: BoolArray = usable_gpus(snapshot.cluster) < cluster.gpus
        opened |= lacks & used
        lacks = lacks & ~used
        incidents += [Incident(begin, "up", node) for node in np.flatnonzero(out & ~lacks).tolist()]
        incidents += [Incident(begin, "drain", node) for node in np.flatnonzero(lacks & ~out).tolist()]
        out = lacks
    return incidents, int(opened.sum())


def _as_replayed(run: Run, job: SimJob, pool: NodePool) -> Run:
    """Return a run that had no nodes before the period as the replay had it."""
    if job.first_start == inf:
        return replace(run, start=inf, end=inf, nodes=None)
    places = np.array(job.places, dtype=np.int32)
    if job.spread is not None:  # cells in rows, where runs have their nodes in the order of their ranks
        grid = pool.gang(job).grid
        places = places.reshape(grid.node_rank.shape)[grid.cell_of_rank]
    end = job.end if job.state is JobState.DONE else job.first_start + job.record.duration
    return replace(run, start=job.first_start, end=end, nodes=places)
