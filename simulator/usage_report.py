"""What became of the GPU-hours of a cluster: used, idle and why, lost to spread, slow nodes and restarts, by account.

The accounting of Slurm says which jobs ran and waited, when, and on which nodes; snapshots say which nodes there were
and which could be used, each until the next one.  Without accounting the jobs of snapshots are all that is known.  Time
is cut where a job starts, ends or begins to wait, and where a snapshot follows; in each piece the GPUs of the cluster
are

- *used* by jobs;
- *unusable*: faulty, or kept out by reservations and partitions, and used by no job;
- *fragmented*: idle, and a job waits that asks for no more GPUs than are idle, but for more whole nodes (or for more of
  one node) than are: as many as the largest such job asks for;
- *passed over*: of the other idle ones as many as the largest waiting job asks for that would fit;
- *unwanted*: the rest.

Lost are parts of the used ones: to *spread*, by the predicted step time of a job on its nodes beside the best placement
on the empty cluster (:func:`scheduler.objective.step_time`); to *slow nodes*, as the slowest node sets the pace; to
*restarts*, at most what runs had used that the system ended, as nothing says what was in their last checkpoints.

Of what nothing says it is not known, and never 0: :data:`Unknown` is the reason in words.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf, isnan, nan
from typing import Any

import numpy as np

from ground.errors import ArnoldError, InvalidInput, some
from ground.files import open_stream
from ground.groups import grouped
from ground.quantities import HOUR
from scheduler.job import Job
from scheduler.job_files.grids_file import running_nodes
from scheduler.job_files.job_file import JobFile
from scheduler.job_on_cluster import on_nodes
from scheduler.objective import evaluate, step_time
from simulator.traces.cells import TraceRows
from simulator.traces.readers.slurm_accounting import gpus_in, sacct_runs
from topology.cluster import Cluster, FloatArray, IntArray
from topology.load import LoadedTopology
from topology.node_names import NodeNames, expand_hostlist
from topology.running_jobs import SKEW, LiveJob, asked_in_comment

ENDED_BY_SYSTEM = ("NODE_FAIL", "PREEMPTED", "REQUEUED", "BOOT_FAIL", "REVOKED")
"""States of runs that no job of a user, and no time limit, has ended: sacct(1), job state codes."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a job on the cluster; times in seconds since 1970."""

    name: str  # number and name, as of running jobs
    account: str  # or the user, where none is said
    wait_from: float  # when it might have started; NaN = not known
    start: float  # infinite = it has not started
    end: float  # infinite = it runs on
    state: str
    gpus: float  # in all
    wanted_nodes: int
    nodes: IntArray | None  # indices, in the order of ranks where that is known; None = not said
    where: str
    limit: float | None = None  # seconds that it might run; None = not said
    priority: float | None = None
    asks: Mapping[str, Any] | None = None  # as of running jobs

    @property
    def each(self) -> float:
        """GPUs on each of its nodes."""
        return self.gpus / self.wanted_nodes

    def live(self, cluster: Cluster) -> LiveJob:
        """Return it as a running job, on any nodes where it has none.

        :raises InvalidInput: it has parts of GPUs, so it has no grid.
        """
        nodes = range(self.wanted_nodes) if self.nodes is None else self.nodes.tolist()
        if not self.each.is_integer():
            raise InvalidInput("it has not as many GPUs on each of its nodes", where=self.where)
        names = tuple(cluster.names[node] for node in nodes)
        return LiveJob(self.name, names, self.where, gpus=int(self.each), group=self.account, asks=self.asks)


Unknown = str  # Why something is not known
NOBODY = "(nobody)"  # Whose runs are of which neither account nor user is said


@dataclass(slots=True)
class Team:
    """What an account had."""

    used: float = 0.0  # GPU-hours, as all that follow but the last two
    spread: float = 0.0
    slow: float = 0.0
    restarts: float = 0.0
    jobs: int = 0  # that ran
    # seconds until it started, or the period ended, of each run that waited in it
    waits: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What became of the GPU-hours of a period."""

    since: float  # seconds since 1970
    until: float
    capacity: float  # GPU-hours, as all that follow
    used: float
    unusable: float | Unknown
    fragmented: float | Unknown
    passed_over: float | Unknown
    unwanted: float | Unknown
    spread: float | Unknown
    spread_known: float  # of how many used ones the loss to spread is known
    slow: float | Unknown
    restarts: float | Unknown  # at most
    teams: Mapping[str, Team]
    notes: tuple[str, ...]


def read_runs(path: str, cluster: Cluster) -> tuple[list[Run], list[str]]:
    """Read the accounting of Slurm, `sacct --parsable2` in UTC, and say what was left out.

    :raises TraceFormatError: it is none, or damaged.
    :raises InvalidInput: no row is of this cluster.
    """
    rows, names = TraceRows(), NodeNames(cluster.index_of)
    with open_stream(path) as source:
        recorded = list(sacct_runs(source, rows))
    notes = [*rows.notes]
    counted = any(gpus_in(run.resources) for _, run in recorded)
    if not counted:
        notes.append(
            "the accounting counts no GPUs (AccountingStorageTRES has no gres/gpu): all GPUs of a job's nodes are taken"
        )
    runs, elsewhere, without = list[Run](), set[str](), 0
    for where, run in recorded:
        nodes, share = None, 1.0
        if run.node_list:
            listed = expand_hostlist(run.node_list, where=where)
            inside = [names.find(name, where=where) for name in listed]
            if None in inside:
                elsewhere |= {name for name, own in zip(listed, inside, strict=True) if own is None}
            own = [name for name in inside if name is not None]
            if not own:
                continue
            share = len(own) / len(listed)
            nodes = np.array([cluster.index_of[name] for name in own], dtype=np.int32)
        gpus = share * run.gpus if counted else float(cluster.gpus[nodes].sum() if nodes is not None else 0)
        wanted = len(nodes) if nodes is not None else int(run.nodes or 1)
        gpus = gpus if gpus or counted else float(wanted * cluster.node_size)
        if not gpus:
            without += 1
            continue
        start = inf if run.start is None else run.start
        end = inf if run.elapsed is None or run.state.startswith("RUNNING") else start + run.elapsed
        if start == inf and not run.state.startswith("PENDING"):
            end = run.submit if run.end is None else run.end  # cancelled before it started: so long it waited
        name, waits = f"{run.job_id} {run.name}".strip(), max(run.submit, run.eligible or 0.0)
        state, account = run.state.split(" ", 1)[0], run.account or run.user or NOBODY
        runs.append(
            Run(
                name, account, waits, start, end, state, gpus, wanted, nodes, where, run.limit, run.priority,
                asked_in_comment(run.comment),
            )
        )  # fmt: skip
    if without:
        notes.append(f"jobs without GPUs, left out: {without:,} of {len(recorded):,} rows")
    if elsewhere:
        notes.append(f"nodes of jobs that the cluster does not have, left out: {some(sorted(elsewhere))}")
    if not runs:
        fix = "give the accounting of the cluster of the snapshots"
        raise InvalidInput("no row is of a job with GPUs on this cluster", where=path, fix=fix)
    return runs, notes


def check_clocks(snapshots: Iterable[LoadedTopology], runs: Sequence[Run]) -> None:
    """Raise InvalidInput where no job that runs in a snapshot began then by the accounting, too."""
    recorded = grouped((run.name.partition(" ")[0], run) for run in runs)
    apart: InvalidInput | None = None
    for loaded in snapshots:
        for job in () if loaded.jobs is None else loaded.jobs.running:
            same = recorded.get(job.name.partition(" ")[0], [])
            if job.started is None or not same:
                continue
            began = job.started
            nearest = min(same, key=lambda run: abs(run.start - began))
            if abs(nearest.start - began) <= SKEW:
                return
            times = (datetime.fromtimestamp(start, UTC) for start in (began, nearest.start) if start < inf)
            both = " and at ".join(f"{time:%Y-%m-%d %H:%M}" for time in times)
            problem = f"clocks differ: {job.name} began at {both}, by {loaded.source} and by the trace"
            apart = apart or InvalidInput(problem, where=nearest.where, fix="print the trace in UTC: TZ=UTC sacct ...")
    if apart is not None:
        raise apart


def seen_runs(snapshots: Sequence[LoadedTopology]) -> tuple[list[Run], list[str]]:
    """Return the runs of jobs that snapshots have, each until it was seen last, and what is not known of them.

    :param snapshots: of one cluster, in the order of their times.
    :raises InvalidInput: of one nobody said which jobs run.
    """
    cluster, seen, unsaid = snapshots[0].cluster, dict[tuple[str, float | None], Run](), 0
    for loaded in snapshots:
        time = loaded.now.timestamp()
        if loaded.jobs is None:
            fix = "give --trace, or save it with --running, from slurm: or from kube:"
            raise InvalidInput("it does not say which jobs run", where=loaded.source, fix=fix)
        last = loaded is snapshots[-1]
        for job in loaded.jobs.running:
            before = seen.get((job.name, job.started))
            nodes = np.array([cluster.index_of[name] for name in job.nodes], dtype=np.int32)
            unsaid += before is None and job.started is None
            start = before.start if before else time if job.started is None else job.started
            seen[job.name, job.started] = Run(
                job.name, job.group or job.owner or NOBODY, nan, start, inf if last else time, "RUNNING",
                float(job.gpus_on(cluster).sum()), len(nodes), nodes, job.source, asks=job.asks,
            )  # fmt: skip
    notes = ["without --trace jobs count until a snapshot saw them last, and those between two snapshots not at all"]
    if unsaid:
        notes.append(f"jobs of which no start is said count from when they were seen first: {unsaid:,}")
    return [*seen.values()], notes


NO_WAITS = "only the accounting says which jobs waited, and how runs ended (--trace)"


@dataclass(frozen=True, slots=True)
class SpreadModel:
    """How the loss of jobs to spread is found."""

    grid: Callable[[LiveJob], JobFile]  # of a running job; raises ArnoldError where it is not known
    best: Callable[[Job], float | None]  # objective on the empty cluster; None = it does not fit


def usage(
    snapshots: Sequence[LoadedTopology], runs: Sequence[Run], *, since: float, until: float, spread: SpreadModel
) -> Usage:
    """Return what became of the GPU-hours from one instant to another.

    :param snapshots: of one cluster, in the order of their times; the first counts before its time, too.
    """
    cluster = snapshots[0].cluster
    period, notes = (until - since) / HOUR, list[str]()
    capacity = float(cluster.gpus.sum()) * period
    teams: dict[str, Team] = {}
    running = [run for run in runs if run.start < until and run.end > since]
    for run in running:
        team = teams.setdefault(run.account, Team())
        team.used += _hours(run, since, until)
        team.jobs += 1
    for run in runs:
        # of one that was cancelled before it started it is not known when it would have started
        if run.start >= since and run.wait_from < until and (run.start < inf or run.end == inf):
            waits = teams.setdefault(run.account, Team()).waits
            waits.append(max(0.0, min(run.start, until) - run.wait_from))
    used = sum(team.used for team in teams.values())
    silent = [run for run in running if run.nodes is None]
    if silent:
        notes.append(f"jobs of which no nodes are known: {some([run.name for run in silent])}")
    parts: Sequence[float | Unknown] | Unknown = "the trace does not say on which nodes jobs ran (NodeList)"
    if not silent:
        *parts, twice = _idle_parts(snapshots, running, runs, since, until)
        if twice > 1e-6 * used:
            notes.append(f"GPU-hours that several jobs had at once, by the trace, count for each of them: {twice:,.1f}")
    spread_lost, known = _spread_lost(cluster, running, teams, spread, since=since, until=until)
    slow = _slow_lost(snapshots, running, teams, since, until)
    waits_known = not any(isnan(run.wait_from) for run in runs)
    if not waits_known and not isinstance(parts, str):
        parts = (parts[0], NO_WAITS, NO_WAITS, NO_WAITS)
    ended = [run for run in running if run.state in ENDED_BY_SYSTEM]
    for run in ended:
        teams[run.account].restarts += _hours(run, since, until)
    restarts: float | Unknown = sum(team.restarts for team in teams.values())
    if not ended:
        once = "no run was ended by the system (or the trace has only the last run of each: sacct --duplicates)"
        restarts = once if waits_known else NO_WAITS
    unusable, fragmented, passed_over, unwanted = parts if not isinstance(parts, str) else (parts,) * 4
    return Usage(
        since=since, until=until, capacity=capacity, used=used, unusable=unusable, fragmented=fragmented,
        passed_over=passed_over, unwanted=unwanted, spread=spread_lost, spread_known=known, slow=slow,
        restarts=restarts, teams=teams, notes=tuple(notes),
    )  # fmt: skip


def _hours(run: Run, since: float, until: float) -> float:
    """Return the GPU-hours of a run within a period."""
    return run.gpus * max(0.0, min(run.end, until) - max(run.start, since)) / HOUR


def _idle_parts(
    snapshots: Sequence[LoadedTopology], running: Sequence[Run], runs: Iterable[Run], since: float, until: float
) -> list[float]:
    """Return GPU-hours that were unusable, fragmented, passed over, and unwanted; and those that several jobs had."""
    cluster = snapshots[0].cluster
    events: list[tuple[float, int, Run]] = []  # instant, what happens (ends before starts), to whom
    for run in running:
        events += [(max(run.start, since), 2, run), (min(run.end, until), 0, run)]
    for run in runs:
        gone = min(run.start, run.end if run.start == inf else run.start)
        if run.wait_from < min(gone, until) and gone > since:
            events += [(max(run.wait_from, since), 3, run), (min(gone, until), 1, run)]
    events.sort(key=lambda event: event[:2])
    times = [snapshot.now.timestamp() for snapshot in snapshots]
    usable = [usable_gpus(snapshot.cluster) for snapshot in snapshots]
    changes = [time for time in times[1:] if since < time < until]
    size, hours = cluster.node_size, np.zeros(5)
    held = np.zeros(len(cluster))
    waiting: list[tuple[float, int, float]] = []  # GPUs, whole nodes (0 = a part of one), GPUs on each
    now, at, which = since, 0, 0
    for instant in sorted({since, until, *changes, *(event[0] for event in events)}):
        if instant > now:
            hours += _cut(cluster.gpus, held, usable[which], waiting) * (instant - now) / HOUR
            now = instant
        while which + 1 < len(times) and times[which + 1] <= instant:
            which += 1
        while at < len(events) and events[at][0] <= instant:
            _, what, run = events[at]
            at += 1
            if what in (0, 2):
                assert run.nodes is not None
                held[run.nodes] += run.gpus / len(run.nodes) * (1.0 if what == 2 else -1.0)
                continue
            row = (run.gpus, -(-int(run.gpus) // size) if run.each >= size else 0, run.each)
            if what == 3:
                insort(waiting, row)
            else:
                waiting.remove(row)
    return list(hours.tolist())


def usable_gpus(cluster: Cluster) -> IntArray:
    """Return the GPUs of each node that jobs may have, used or not, shape [nodes]."""
    gpus = np.where(np.isfinite(cluster.slowdown), cluster.gpus, 0)
    gpus[list(cluster.kept_out)] = 0
    return gpus.astype(np.int32)


def _cut(gpus: IntArray, held: FloatArray, usable: IntArray, waiting: Sequence[tuple[float, int, float]]) -> FloatArray:
    """Return the GPUs that are unusable, fragmented, passed over and unwanted at an instant, and held twice; [5]."""
    free = np.maximum(usable - held, 0.0)
    idle, whole = float(free.sum()), int(np.count_nonzero((free == gpus) & (gpus > 0)))
    unusable = float(np.maximum(gpus - np.maximum(held, usable), 0.0).sum())
    fragmented = fitting = 0.0
    for wanted, nodes, each in reversed(waiting):
        if wanted > idle:
            continue
        count = nodes or max(1, round(wanted / each))
        fits = nodes <= whole if nodes else int(np.count_nonzero(free >= each)) >= count
        if fits:
            fitting = wanted
            break
        fragmented = max(fragmented, wanted)
    passed = min(fitting, idle - fragmented)
    twice = float(np.maximum(held - gpus, 0.0).sum())
    return np.array([unusable, fragmented, passed, idle - fragmented - passed, twice])


def _spread_lost(
    cluster: Cluster,
    running: Sequence[Run],
    teams: Mapping[str, Team],
    spread: SpreadModel,
    *,
    since: float,
    until: float,
) -> tuple[float | Unknown, float]:
    """Return GPU-hours lost to spread, and of how many it is known."""
    known, excused = 0.0, cluster.emptied().excused({*range(len(cluster))})
    shares: dict[tuple[Job, bytes], float | None] = {}
    for run in running:
        if run.nodes is None:
            continue
        try:
            live = run.live(cluster)
            file = spread.grid(live)
            file.check_names(cluster)
            key = (file.job, run.nodes.tobytes())
            if key not in shares:
                nodes, best = running_nodes(live, file.job, cluster), spread.best(file.job)
                shares[key] = None
                if best is not None:
                    job = on_nodes(cluster, file.job, nodes.ravel().tolist())
                    now = step_time(job, objective=evaluate(excused, job, nodes).objective, slowest=1.0)
                    shares[key] = max(0.0, 1.0 - step_time(file.job, objective=best, slowest=1.0) / now)
        except ArnoldError:
            continue
        if (share := shares[key]) is not None:
            hours = _hours(run, since, until)
            known += hours
            teams[run.account].spread += share * hours
    if not known:
        return "of no job the grid is known: give --grids FILE", 0.0
    return sum(team.spread for team in teams.values()), known


def _slow_lost(
    snapshots: Sequence[LoadedTopology], running: Sequence[Run], teams: Mapping[str, Team], since: float, until: float
) -> float | Unknown:
    """Return GPU-hours lost as the slowest node of a job sets its pace."""
    slow = [np.where(np.isfinite(snapshot.cluster.slowdown), snapshot.cluster.slowdown, 1.0) for snapshot in snapshots]
    if all((factors == 1.0).all() for factors in slow):
        return "no snapshot has a slow node: save them with --flags FILE"
    times = [snapshot.now.timestamp() for snapshot in snapshots]
    spans = zip([-inf, *times[1:]], [*times[1:], inf], slow, strict=True)
    pieces = [(max(since, begin), min(until, end), factors) for begin, end, factors in spans]
    for run in running:
        if run.nodes is None:
            continue
        for begin, end, factors in pieces:
            pace = float(factors[run.nodes].max())
            if pace > 1.0 and end > begin:
                teams[run.account].slow += _hours(run, begin, end) * (1.0 - 1.0 / pace)
    return sum(team.slow for team in teams.values())
