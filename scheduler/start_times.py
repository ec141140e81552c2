"""When a job starts where others run, and whom to stop so that it starts at once.

*Whom to stop*: preemptible jobs that lose the least GPU-hours since their last checkpoints, so that the job fits.  To
stop more never takes room away, so what does not make room gives a cut: of each set of jobs that makes none, one more
has to go.  An integer program chooses the cheapest set that frees enough nodes and heeds all cuts; whether the job fits
is asked of the search for placements; a set that makes no room is first grown as far as it makes none, so that its cut
says most.  The first set that does is the cheapest of all.  Where the priority of the job is said, only jobs of a lower
one are stopped: the highest among these is as low as it can be, and then the fewest GPU-hours are lost.

*When*: nodes come free as jobs end.  An end that somebody says is taken as it is.  Of a time limit the end is the
latest; a job may end at any time before, all as likely: requested times were found to be used so (Mu'alem and
Feitelson, 2001).  Where a history of jobs that ended is given, a job runs as long as those alike.  The start is the
first end at which the job fits, for each of many draws; behind jobs that wait a replay of their queue says it.  Of a
job of which no end is known there is none.  Nodes go away and come back as their flags say (maintenance), and a job
that says how long it runs is kept off those that go away before it ends.
"""

import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import inf, sqrt
from statistics import NormalDist
from typing import Protocol, Self

import numpy as np

from ground.quantities import HOUR
from scheduler.algorithm_run import fits, run
from scheduler.job import Job
from scheduler.job_on_cluster import at_no_time, at_time
from scheduler.objective import TOLERANCE
from scheduler.outcome import Outcome
from scheduler.placement import admission
from scheduler.placement.stop_program import StopProgram
from scheduler.placement.types import Limits, PlacementAlgorithm, Status
from scheduler.queue.run_times import Likeness, Prediction, RunTimeHistory, foreseen
from scheduler.work_clock import End, clock, cut_short, ended_at, interrupted, on_clock
from topology.cluster import Cluster
from topology.running_jobs import LiveJob, gpus_held

NORMAL = NormalDist()
# Share of the variance of run times, about their prediction, that jobs of one owner and group have in common: were each
# by itself, they would make up for one another.  Of starts in Philly, behind hundreds of jobs and predicted by those
# that ended, 8 % lay between the 10th and the 90th quantile without it, 25 % with a share of 0.05, and 83 % with this.
COMMON = 0.15
DRAWS = 99  # Of the ends of jobs with a time limit: the 10th, 50th and 90th are the quantiles


def without(cluster: Cluster, jobs: Collection[LiveJob]) -> Cluster:
    """Return the cluster, which shows the GPUs of running jobs as in use, after some have gone."""
    return cluster.replace(free_gpus=np.minimum(cluster.free_gpus + gpus_held(cluster, jobs), cluster.gpus))


@dataclass(frozen=True, slots=True)
class StopProposal:
    """Whom to stop so that a job starts at once."""

    status: Status  # optimal: nobody loses less; infeasible: not even without all that may be stopped
    jobs: tuple[LiveJob, ...]
    lost: Mapping[str, float]  # GPU-hours of each of them, by its name
    bound: float  # GPU-hours that are lost at least; infinite where the job fits in no way
    outcome: Outcome  # what the job has then; without a placement where it does not fit
    notes: tuple[str, ...]
    priority: float | None  # only jobs of lower ones are stopped; None = any
    stopped_at: End | None  # what ended the search; None = it ended by itself

    @property
    def gpu_hours(self) -> float:
        """GPU-hours lost in all."""
        return sum(self.lost.values())


def whom_to_stop(
    cluster: Cluster,
    job: Job,
    running: Sequence[LiveJob],
    *,
    now: float,
    solver: PlacementAlgorithm,
    limits: Limits,
    priority: float | None = None,
) -> StopProposal:
    """Return the cheapest set of jobs to stop so that a job fits.

    :param cluster: with the GPUs of the running jobs in use.
    :param now: seconds since 1970.
    :param priority: of the job, for which only jobs of lower priorities are stopped, the lowest first; ``None`` = any.
    """
    may_stop = [other for other in running if other.preemptible]
    notes = []
    if protected := len(running) - len(may_stop):
        notes.append(f"not said to be preemptible, and so not stopped: {protected} of {len(running)} jobs")
    if priority is not None:
        below = [other for other in may_stop if other.priority is not None and other.priority < priority]
        if others := len(may_stop) - len(below):
            notes.append(f"of no priority that is known to be below {priority:g}, and so not stopped: {others} jobs")
        may_stop = below
    costs = {other.name: other.lost_gpu_hours(cluster, now) for other in may_stop}
    silent = [name for name, cost in costs.items() if cost is None]
    choices = [other for other in may_stop if costs[other.name] is not None]
    lost = {name: cost for name, cost in costs.items() if cost is not None}
    if silent:
        unknown = f"{len(silent)} preemptible jobs that say neither their start nor a checkpoint"
        notes.append(f"what they would lose is not known, so they are not stopped: {unknown}")

    def settled(chosen: Sequence[LiveJob], bound: float, *, proved: bool) -> StopProposal:
        outcome = run(solver, without(cluster, chosen), job, limits)
        status: Status = "optimal" if proved else "feasible"
        if outcome.evaluation is None:
            status = outcome.status
        ordered = tuple(sorted(chosen, key=running.index))
        losses = {other.name: lost[other.name] for other in ordered}
        stopped_at = ended_at(limits.seconds) if ((not proved and bound < inf) or interrupted()) else None
        return StopProposal(status, ordered, losses, bound, outcome, tuple(notes), priority, stopped_at)

    def room(chosen: Sequence[LiveJob]) -> bool | None:
        return fits(without(cluster, chosen), job, solver=solver, limits=limits)

    if room([]):
        return settled([], 0.0, proved=True)
    if not choices or room(choices) is False:
        return replace(settled(choices, inf, proved=False), jobs=(), lost={})
    unsure = False
    if priority is not None:
        levels = sorted({other.priority for other in choices if other.priority is not None})

        def makes_room_up_to(level: float) -> bool:
            nonlocal unsure
            fitting = room([other for other in choices if other.priority is not None and other.priority <= level])
            unsure |= fitting is None
            return bool(fitting)

        highest = levels[min(bisect_left(levels, True, key=makes_room_up_to), len(levels) - 1)]
        choices = [other for other in choices if other.priority is not None and other.priority <= highest]
        notes.append(f"of priorities below {priority:g}, those up to {highest:g} are enough, and no lower ones")
    emptier = without(cluster, choices)
    holders: dict[str, list[int]] = {}
    for number, other in enumerate(choices):
        for name in other.nodes:
            holders.setdefault(name, []).append(number)
    ways = []
    for of_type in admission.choices(cluster, job):
        before, after = (admission.admissible(of_jobs, of_type) for of_jobs in (cluster, emptier))
        # nodes with the same jobs on them come free together
        freed = Counter(tuple(holders[cluster.names[node]]) for node in np.flatnonzero(after & ~before).tolist())
        ways.append((freed, of_type.grid.cells - int(np.count_nonzero(before))))
    seconds = [round(lost[other.name] * HOUR) for other in choices]
    program = StopProgram(seconds, ways)
    bound = 0.0
    with on_clock(limits.clock, limits.seconds):
        end = clock() + limits.seconds
        while clock() < end:
            answer = program.cheapest(end - clock(), seed=limits.seed)
            if answer is None:
                break
            chosen = [choices[number] for number in answer]
            bound = sum(seconds[number] for number in answer) / HOUR
            makes_room = room(chosen)
            if makes_room:
                return settled(chosen, bound, proved=not unsure)
            # one that was not settled in time is passed over: what comes after it is not proved
            unsure |= makes_room is None
            barren = [*chosen]
            for other in sorted(choices, key=lambda other: (-lost[other.name], running.index(other))):
                if other not in barren and clock() < end and room([*barren, other]) is False:
                    barren.append(other)
            program.cut({number for number, other in enumerate(choices) if other in barren})
        # out of time: all, but for those, the dearest first, without whom there is room still
        chosen = [*choices]
        for other in sorted(choices, key=lambda other: -lost[other.name]):
            rest = [kept for kept in chosen if kept is not other]
            if clock() < end + limits.seconds and room(rest):
                chosen = rest
    return settled(chosen, bound, proved=False)


@dataclass(frozen=True, slots=True)
class StartTimes:
    """When a job starts, seconds since 1970; infinite = not before a job ends of which no end is known."""

    earliest: float
    p10: float
    p50: float
    p90: float
    now: Outcome  # what it has at once; without a placement where it has to wait
    later: Outcome  # the best that waiting for ends that are known can give
    later_at: float  # from when on
    # names of the running jobs at whose end it starts, where all end in the middle of what is possible; none where it
    # starts at once, or after others that wait
    after: tuple[str, ...]
    notes: tuple[str, ...]
    stopped_at: End | None  # what ended the search; None = it ended by itself
    never: str = ""  # why it does not fit, whatever ends; empty = it does, or that is not known


class Queue(Protocol):
    """Jobs that wait for the same nodes, and their policy (``simulator.start_forecast``)."""

    @property
    def waiting(self) -> Sequence[LiveJob]:
        """The jobs, in the order of the queue."""

    @property
    def before(self) -> int:
        """How many of them have their turn before the job."""

    def start(self, ends: Mapping[str, float], lengths: Sequence[float]) -> float:
        """Return when the job starts, seconds since 1970; infinite = not before a job ends of which no end is known,
        or before the clock ended the replay.

        :param ends: of running jobs by name, seconds since 1970; one that is missing never ends.
        :param lengths: seconds that each of those that wait will run; infinite = for ever.
        """


def start_times(
    cluster: Cluster,
    job: Job,
    running: Sequence[LiveJob],
    *,
    now: float,
    solver: PlacementAlgorithm,
    limits: Limits,
    queue: Queue | None = None,
    history: RunTimeHistory | None = None,
) -> StartTimes:
    """Return when a job starts as running ones end, and whether waiting gives it a better place.

    :param cluster: with the GPUs of the running jobs in use.
    :param now: seconds since 1970.
    :param queue: of those that wait for the same nodes; ``None`` = nobody does.
    :param history: of jobs that ended, by owner, group and GPUs: by it a job has a run time where nobody says its end.
    """
    future = Future(cluster, job, running, now)
    settled: dict[tuple[object, ...], bool | None] = {}

    def room(gone: Sequence[LiveJob], at: float) -> bool:
        key = (frozenset(other.name for other in gone), future.period(at))
        if key not in settled:
            settled[key] = fits(future.cluster(gone, at), job, solver=solver, limits=limits)
        return bool(settled[key])

    def start_at(ends: Mapping[str, float]) -> float:
        return future.first(ends, room)

    waiting = () if queue is None else queue.waiting
    # one that waits may be called as another, or as one that runs: a gang that lost some of its pods
    lengths = {other.name: Length.of(cluster, other, now, history) for other in running}
    turns = [(other, Length.of(cluster, other, now, history)) for other in waiting]
    generator = random.Random(limits.seed)

    def all_ends(part: Callable[[LiveJob], float]) -> dict[str, float]:
        """Return the ends that are known, where each job that may end at several times has its part of these."""
        ends = ((other.name, now + lengths[other.name].at(partial(part, other))) for other in running)
        return {name: end for name, end in ends if end < inf}

    def draw() -> float:
        common: dict[tuple[str, str], float] = {}

        def share(other: LiveJob) -> float:
            """Draw what part a job has: its own luck, and a little of what its owner's jobs have in common."""
            kind = other.owner, other.group
            if kind not in common:
                common[kind] = generator.gauss()
            return NORMAL.cdf(sqrt(COMMON) * common[kind] + sqrt(1.0 - COMMON) * generator.gauss())

        drawn = all_ends(share)
        if queue is None:
            return start_at(drawn)
        return queue.start(drawn, [length.at(partial(share, other)) for other, length in turns])

    known = [*lengths.values(), *(length for _, length in turns)]
    draws = DRAWS if any(length.uncertain for length in known) else 1
    starts = [draw()]
    with on_clock(limits.clock, limits.seconds):
        end = clock() + limits.seconds
        while len(starts) < draws and clock() < end and not cut_short():
            starts.append(draw())
        if cut_short() or interrupted():
            del starts[-1]  # it may have been ended
    starts.sort()
    p10, p50, p90 = (starts[len(starts) * share // 100] if starts else inf for share in (10, 50, 90))
    earliest = start_at(all_ends(lambda _: 0.0))  # of a job with a limit, at once
    outcome = run(solver, cluster, job, limits)
    middle = all_ends(lambda _: 0.5)
    later, later_at = _best(
        future, middle, lambda gone, at: run(solver, future.cluster(gone, at), job, limits), outcome
    )
    begins = start_at(middle) if queue is None else p50
    after = tuple(name for name, end in middle.items() if end == begins)
    stopped_at = ended_at(limits.seconds) if len(starts) < draws or interrupted() else None
    notes = [f"ends are known of {len(middle)} of {len(running)} running jobs"]
    if endless := len(running) - len(middle):
        notes = [f"{notes[0]}; of the others none is, so they never end here: {endless}"]
    by_limit = sum(length.uncertain and length.prediction is None for length in known)
    if len(starts) < draws:
        notes.append(f"time ran out after {len(starts)} of {draws} draws of ends")
    if by_limit:
        better = "" if history is not None else " (--history TRACE of jobs that ended tells more)"
        notes.append(f"a time limit is the latest end: {by_limit} jobs run any part of theirs, all as likely{better}")
    if foreseen_jobs := sum(length.prediction is not None for length in known):
        notes.append(f"run as long as jobs alike that ended, log-normal: {foreseen_jobs} jobs")
    if unsettled := sum(fitting is None for fitting in settled.values()):
        notes.append(
            f"not settled in time whether it fits, and taken as that it does not: {unsettled} of {len(settled)} times"
        )
    if queue is not None and queue.before:
        forever = sum(length.at(float) == inf for _, length in turns[: queue.before])
        never = f"; of {forever} nobody knows how long they run, so they never end" if forever else ""
        notes.append(f"{queue.before} jobs wait before it{never}")
    if future.changes and job.expected_hours is None:
        notes.append("how long it runs is not said (expected_hours), so it may start where maintenance begins later")
    notes.append("not counted: jobs that have yet to come")
    never, instants = "", (now, *(time for time in future.changes if time > now))
    if p50 == inf and stopped_at is None:
        emptied = [future.then(cluster.emptied(), time) for time in instants]
        if all(fits(empty, job, solver=solver, limits=limits) is False for empty in emptied):
            never = run(solver, emptied[0], job, limits).reason
    return StartTimes(earliest, p10, p50, p90, outcome, later, later_at, after, tuple(notes), stopped_at, never)


@dataclass(frozen=True, slots=True)
class Length:
    """How long a job runs from now on, or from its start where it waits; seconds."""

    most: float  # by what it says of its end, or its limit; infinite = nothing
    certain: bool = False  # whether it is that, and not only at most that
    prediction: Prediction | None = None  # of all its run time
    elapsed: float = 0.0  # how long it has been running

    @classmethod
    def of(cls, cluster: Cluster, job: LiveJob, now: float, history: RunTimeHistory | None) -> Self:
        """Return what is known of a job: an end that somebody says, else what jobs alike took, else its limit."""
        if job.wanted:
            most = inf if job.seconds is None else job.seconds
            gpus = job.wanted * (job.gpus if isinstance(job.gpus, int) else cluster.node_size)
        else:
            most = inf if job.ends is None else max(0.0, job.ends - now)
            gpus = int(gpus_held(cluster, [job]).sum())
        if job.ends_by == "said":
            return cls(most, certain=True)
        begun = bool(job.wanted) or job.started is not None
        if history is None or not begun:
            return cls(most)
        elapsed = max(0.0, now - job.started) if job.started is not None else 0.0
        return cls(most, prediction=foreseen(Likeness(job.owner, job.group, gpus), [history]), elapsed=elapsed)

    @property
    def uncertain(self) -> bool:
        """Whether it may be any of several."""
        return self.prediction is not None or (not self.certain and self.most < inf)

    def at(self, part: Callable[[], float]) -> float:
        """Return the length that a part of all cases does not reach; ``part`` is asked only where it is uncertain."""
        if not self.uncertain:
            return self.most
        share = part()
        if self.prediction is None:
            return share * self.most
        return min(self.most, max(0.0, self.prediction.quantile(share, beyond=self.elapsed) - self.elapsed))


class Future:
    """A cluster as running jobs end, and as flags of nodes begin and end: maintenance.

    :param cluster: with the GPUs of the running jobs in use.
    :param now: seconds since 1970.
    """

    def __init__(self, cluster: Cluster, job: Job, running: Sequence[LiveJob], now: float) -> None:
        self._cluster, self._job, self._running, self.now = cluster, job, running, now
        flags = at_no_time(cluster).upcoming
        # node, from when, until when, and whether for ever counts of a job that does not say how long it runs
        self._away = [
            (cluster.index_of[flag.node], _seconds(flag.since, -inf), _seconds(flag.until, inf), by_reservation)
            for windows, by_reservation in ((flags, False), (cluster.reserved, True))
            for flag in windows
            if flag.kind == "faulty" and flag.node in cluster.index_of
        ]
        times = {time for flag in (*flags, *cluster.reserved) for time in (flag.since, flag.until) if time is not None}
        # a job is also kept off nodes that go away before it ends: room comes and goes that much earlier
        earlier = (job.expected_hours or 0.0) * HOUR
        self.changes = sorted({time.timestamp() - seconds for time in times for seconds in (0.0, earlier)})

    def period(self, at: float) -> int:
        """Return a number that is the same for instants between which no flag begins or ends."""
        return bisect_right(self.changes, at)

    def cluster(self, gone: Sequence[LiveJob], at: float) -> Cluster:
        """Return the cluster at an instant, without some jobs."""
        return self.then(without(self._cluster, gone), at)

    def then(self, cluster: Cluster, at: float) -> Cluster:
        """Return a variant of the cluster with the flags of an instant."""
        return at_time(cluster, self._job, datetime.fromtimestamp(at, UTC)) if self.changes else cluster

    def away(self, at: float, seconds: float) -> list[int]:
        """Return the nodes that are faulty or reserved at an instant, or become so within some seconds; infinite = how
        long a job runs is not known: then nodes that become faulty later are not away.
        """
        return [
            node
            for node, since, until, by_reservation in self._away
            if at < until and since <= at + (seconds if seconds < inf or by_reservation else 0.0)
        ]

    def gone(self, ends: Mapping[str, float], at: float) -> list[LiveJob]:
        """Return the jobs that have ended by an instant."""
        return [other for other in self._running if ends.get(other.name, inf) <= at]

    def first(self, ends: Mapping[str, float], room: Callable[[Sequence[LiveJob], float], bool]) -> float:
        """Return the first instant at which there is room: now, an end, or a change of the flags; infinite = none."""
        instants = sorted({self.now, *ends.values(), *(time for time in self.changes if time > self.now)})

        def has_room(time: float) -> bool:
            return room(self.gone(ends, time), time)

        if self.changes:
            return next((time for time in instants if has_room(time)), inf)
        # nothing takes room away
        first = bisect_left(instants, True, key=has_room)
        return instants[first] if first < len(instants) else inf


def _seconds(time: datetime | None, unknown: float) -> float:
    return unknown if time is None else time.timestamp()


def _best(
    future: Future, ends: Mapping[str, float], ask: Callable[[Sequence[LiveJob], float], Outcome], at_once: Outcome
) -> tuple[Outcome, float]:
    """Return the best outcome that ends give, and the first instant at which it can be had."""
    last = max([future.now, *ends.values(), *future.changes[-1:]])
    best = ask(future.gone(ends, last), last)
    if best.objective is None:
        return at_once, future.now
    enough = best.objective + TOLERANCE
    if at_once.objective is not None and at_once.objective <= enough:
        return at_once, future.now

    def as_good(gone: Sequence[LiveJob], at: float) -> bool:
        nonlocal best
        outcome = ask(gone, at)
        if outcome.objective is None or outcome.objective > enough:
            return False
        best = outcome  # the instants at which it is as good come ever earlier
        return True

    return best, min(future.first(ends, as_good), last)
