"""When would a large job fit, and what does reserving for it cost the others?

A busy cluster is replayed around the announcement of a large job, with and without Algorithm 1 of the Arnold paper
(arXiv 2509.15940); watched is the zone that production placement would give the large job on the empty cluster.

A search that ends with its time limit answers by the speed of the machine; a rule does not.  So that replays can be
repeated, small jobs go by ``gpu-packing``, which packs each into as few minipods as possible, as production schedulers
do; the large one by the exact algorithm with time enough to finish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil, inf, isfinite
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.quantities import HOUR, fixed, plural
from ground.records import AtLeastOne, Count, JsonRecord, Share
from scheduler.placement.types import ALGORITHMS, Limits, PlacementAlgorithm, Proposal
from simulator.capacity.cluster_question import (
    GRID,
    NO_OPTION,
    BackgroundJobs,
    ClusterQuestion,
    JobShape,
    Sampler,
    background_jobs,
    parse_job,
)
from simulator.capacity.hardware_prices import NodePrices
from simulator.capacity.question import (
    FEWEST,
    AnswerFigure,
    CapacityAnswer,
    InputPoints,
    Percentiles,
    numbered_input,
    option_input,
    percentile_names,
    percentiles,
    range_words,
)
from simulator.hooks import Setback, Why
from simulator.job_record import JobRecord
from simulator.sheet import Chart, Series, Sheet, known, text_table
from simulator.sim_job import UNITS, SimJob

if TYPE_CHECKING:
    from scheduler.job import Job
    from simulator.engine import Engine, SimulatedCluster
    from topology.cluster import Cluster

LARGE = "large job"
SAMPLE = 300.0  # Seconds between two samples
SHOWN = 4.0  # Hours that charts go on after the last start
WATCHED = 2 * HOUR  # Seconds before the announcement at which samples begin

HOURS = {"metavar": "HOURS"}
Hours = Annotated[float, Interval(gt=0, le=720)]
Runs = tuple[tuple[int, float], ...]  # Workload and load of each


class ReserveSample(JsonRecord):
    """One sample, of what was until then."""

    hours: float
    """Hours since the announcement."""
    allocation: Share
    """Share of the GPUs that jobs hold."""
    zone_held: Count
    """Nodes of the zone that others hold."""
    waiting: Count
    """Jobs in the queue."""


class ReservePolicy(JsonRecord):
    """What a policy makes of the large job."""

    policy: str
    """Name of the queue policy."""
    starts_hours: float | None
    """Hours after its arrival at which the large job starts; null = not before the others are submitted no more: what
    it finds then says nothing."""
    dp_spread: int | None
    """Domains that a DP group of the large job touches where it starts; null = it does not."""
    pp_spread: int | None
    """Domains that a PP group of the large job touches where it starts; null = it does not."""
    allocation_before: float
    """Mean allocation in the hour before the announcement."""
    allocation_at_arrival: float
    """Allocation when the large job arrives, before it starts."""
    zone_held_at_arrival: int
    """Nodes of the zone that others hold when the large job arrives."""
    idle_node_hours: float
    """Node-hours that no job held from the announcement until the large job started, or others submitted no more."""
    wait_hours: float
    """Mean wait of others submitted between announcement and arrival: the price of notice."""
    wait_hours_after: float
    """Mean wait of others submitted between the arrival and the end of submissions: the price of the job itself."""
    stopped: Count
    """Times that others were stopped for the large job."""
    lost_node_hours: float
    """Node-hours of work that was done again, as they went back to their last checkpoints."""
    remaining_hours: float
    """P95 of the time that jobs in the zone still ran when the large job was announced, by nodes; 0 = none did."""
    last_hours: float
    """Hours until the last of them ended."""
    free_outside: Count
    """Nodes outside the zone that no job held when the large job arrived: as many could move there."""
    line: tuple[ReserveSample, ...]
    """Samples over time."""

    @property
    def late(self) -> float:
        """Hours after its arrival at which the large job starts; infinite where :attr:`starts_hours` is null."""
        return inf if self.starts_hours is None else self.starts_hours


class ReserveCase(JsonRecord):
    """A policy under some conditions: P10, P50, P90 over the workloads, of fewer than ten the least, the middle and the
    most; null = not while others are submitted.
    """

    name: str
    """What is done, in words."""
    policy: str
    """Name of the queue policy."""
    notice_hours: float
    """Hours from announcement to arrival."""
    preemptible: Share
    """Share of the others that may be stopped."""
    late: Percentiles
    """Hours after its arrival at which the large job starts."""
    spread: Percentiles
    """Domains that its DP and PP groups touch then, added up; null = it does not start."""
    wait_hours_after: Percentiles
    """Mean wait of others submitted after the arrival: the price of the job itself, and of a zone that is held."""
    zone_held: Percentiles
    """Nodes of the zone that others hold when the large job arrives."""
    idle_node_hours: Percentiles
    """Node-hours that no job held from the announcement until the large job started, or others submitted no more."""
    lost_node_hours: Percentiles
    """Node-hours of work that was done again."""
    wait_hours: Percentiles
    """Mean wait of others submitted between announcement and arrival."""
    stopped: Percentiles
    """Times that others were stopped."""
    cost: float | None
    """Median price of the idle and the lost node-hours; null = no price was given."""


def case_of_runs(
    name: str, notice: float, share: float, runs: Sequence[ReservePolicy], *, node_hour: float | None
) -> ReserveCase:
    """Return a case over what its replays came to.

    :param notice: hours from announcement to arrival; ``share`` = of the others, that may be stopped.
    :param node_hour: price of a node-hour; ``None`` = none is given.
    """

    def over(value: Callable[[ReservePolicy], float]) -> Percentiles:
        return percentiles([value(run) for run in runs])

    wasted = over(lambda run: run.idle_node_hours + run.lost_node_hours)[1]
    return ReserveCase(
        name=name,
        policy=runs[0].policy,
        notice_hours=notice,
        preemptible=share,
        late=over(lambda run: run.late),
        spread=over(lambda run: (run.dp_spread or inf) + (run.pp_spread or inf)),
        wait_hours_after=over(lambda run: run.wait_hours_after),
        zone_held=over(lambda run: run.zone_held_at_arrival),
        idle_node_hours=over(lambda run: run.idle_node_hours),
        lost_node_hours=over(lambda run: run.lost_node_hours),
        wait_hours=over(lambda run: run.wait_hours),
        stopped=over(lambda run: run.stopped),
        cost=None if node_hour is None else node_hour * wasted,
    )


class Migration(JsonRecord):
    """What moving running jobs out of the zone at the arrival comes to, by workload."""

    held: Count
    """Nodes of the zone that others hold."""
    free_outside: Count
    """Nodes outside it that no job holds."""


class ReserveAnswer(CapacityAnswer, kw_only=True):
    """When a large job would fit, and what reserving for it costs the others."""

    cluster_nodes: AtLeastOne
    """Nodes of the cluster."""
    nodes: AtLeastOne
    """Nodes of the large job."""
    zone: Count
    """Nodes of its zone."""
    notice_hours: float
    """Hours from announcement to arrival."""
    jobs: int
    """Jobs of the others, of the first workload."""
    load: float
    """GPU time that they ask for, as a share of the cluster's."""
    remaining_hours: Percentiles
    """P95 of the time that jobs in the zone still run at the announcement, by nodes."""
    last_hours: Percentiles
    """Hours until the last of them ends: with as much notice and known run times, the large job starts on arrival."""
    cases: tuple[ReserveCase, ...]
    """The policies, then the remedies under the first policy."""
    migrations: tuple[Migration, ...]
    """Moves of jobs out of the zone under the first policy, by workload."""
    policies: tuple[ReservePolicy, ...]
    """Results by policy, of the first workload."""


@dataclass(frozen=True, slots=True)
class LargeAndSmall:
    """A placement algorithm made of two: one for large jobs, a rule for small ones."""

    least: int  # Nodes from which on a job is large
    large: PlacementAlgorithm = field(default_factory=partial(ALGORITHMS.load, "exact"))
    small: PlacementAlgorithm = field(default_factory=partial(ALGORITHMS.load, "gpu-packing"))
    name: str = "by-size"
    summary: str = "large jobs exactly, small ones packed into as few minipods as possible"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Place the job as one of the two does."""
        chosen = self.large if job.grid.cells >= self.least else self.small
        return chosen.place(cluster, job, limits)


@dataclass(slots=True)
class CheckpointEvery:
    """What a stopped job has left: the work up to its last checkpoint."""

    interval: float  # Seconds of work between checkpoints, above 0
    lost: float = 0.0  # Node-seconds of work that was lost so far

    def saved(self, job: SimJob, *, done: float) -> float:  # noqa: ARG002
        """Return what the last checkpoint holds."""
        return done // self.interval * self.interval

    def interrupted(self, job: SimJob, *, done: float, why: Why) -> Setback:  # noqa: ARG002
        """Go back to the last checkpoint."""
        kept = self.saved(job, done=done)
        self.lost += job.nodes * (done - kept)
        return Setback(kept, 0.0)


def zone_sampler(zone: Sequence[int], *, owner: str, announced: float, end: float) -> Sampler[tuple[float, int, int]]:
    """Return an observer of allocation, nodes of a zone that others than its owner hold, and length of the queue.

    :param zone: nodes, by their indices.
    :param owner: id of the job whose zone it is, and ``announced`` the time of its announcement: samples begin
        :data:`WATCHED` before it.
    """
    import numpy as np

    def look(cluster: SimulatedCluster) -> tuple[float, int, int]:
        held = cluster.pool.total - cluster.pool.free
        others = np.zeros(len(held), dtype=np.bool_)
        for job in cluster.active.values():
            if job.record.job_id != owner:
                others[list(job.places)] = True
        in_zone = int(others[np.array(zone, dtype=np.int64)].sum())
        return float(held.sum()) / cluster.pool.capacity, in_zone, len(cluster.backlog)

    return Sampler(look, announced - WATCHED, end, SAMPLE)


def replay_policy(
    engine: Engine, policy: str, large: JobRecord, *, zone: Sequence[int], horizon: float
) -> ReservePolicy:
    """Run a replay, and return what became of the large job, its zone and the others.

    :param engine: with a :class:`CheckpointEvery`, where others may be stopped.
    :param zone: nodes to watch, by their indices.
    :param horizon: time at which the others stop submitting, seconds.
    """
    import numpy as np

    arrives = large.submit
    announced = arrives if large.announced is None else large.announced
    sampler = zone_sampler(zone, owner=large.job_id, announced=announced, end=horizon)
    engine.observers = (sampler.elapsed,)
    engine.run()
    line = [ReserveSample((SAMPLE * i - WATCHED) / HOUR, *seen) for i, seen in enumerate(sampler.samples)]
    itself = next(job for job in engine.jobs if job.record.job_id == large.job_id)
    early = [sample.allocation for sample in line if -1.0 <= sample.hours < 0.0]
    # 1e-9: the sample at the arrival itself counts, whatever the rounding of its time
    notice = [sample for sample in line if 0.0 <= sample.hours <= (arrives - announced) / HOUR + 1e-9]
    in_time = itself.first_start <= horizon
    until = (min(itself.first_start, horizon) - announced) / HOUR - 1e-9
    idle = [sample.allocation for sample in line if 0.0 <= sample.hours < until]
    others = [job for job in engine.jobs if job is not itself]

    def mean_wait(begin: float, end: float) -> float:
        """Return the mean hours that others submitted in a stretch of time waited; 0 where there are none."""
        waits = [
            (job.first_start - job.submitted) / HOUR
            for job in others
            if begin <= job.submitted < end and job.first_start < inf
        ]
        return float(np.mean(waits)) if waits else 0.0

    nodes = engine.cluster.pool.capacity / UNITS / (large.gpus / itself.nodes)
    held = round(notice[-1].allocation * nodes) - notice[-1].zone_held
    remaining, last = still_running(others, zone, announced)
    return ReservePolicy(
        policy=policy,
        starts_hours=(itself.first_start - arrives) / HOUR if in_time else None,
        dp_spread=itself.spread[0] if in_time and itself.spread else None,
        pp_spread=itself.spread[1] if in_time and itself.spread else None,
        allocation_before=float(np.mean(early)),
        allocation_at_arrival=notice[-1].allocation,
        zone_held_at_arrival=notice[-1].zone_held,
        idle_node_hours=sum((1.0 - allocation) * nodes * SAMPLE / HOUR for allocation in idle),
        wait_hours=mean_wait(announced, arrives),
        wait_hours_after=mean_wait(arrives, horizon),
        stopped=sum(len(job.runs) for job in others),
        lost_node_hours=getattr(engine.cluster.recovery, "lost", 0.0) / HOUR,
        remaining_hours=remaining,
        last_hours=last,
        free_outside=max(0, round(nodes) - len(zone) - held),
        line=tuple(line),
    )


def still_running(others: Sequence[SimJob], zone: Sequence[int], moment: float) -> tuple[float, float]:
    """Return P95, by nodes, and the most of the hours that jobs in a zone still ran, of those that nothing stopped."""
    there = [job for job in others if not job.runs and job.first_start <= moment < job.end]
    ends = sorted(((job.end - moment) / HOUR, len(set(zone).intersection(job.places))) for job in there)
    ends = [(hours, nodes) for hours, nodes in ends if nodes]
    total, seen = sum(nodes for _, nodes in ends), 0
    for hours, nodes in ends:
        seen += nodes
        if seen >= 0.95 * total:
            return hours, ends[-1][0]
    return 0.0, 0.0


@dataclass(frozen=True, kw_only=True)
class ReserveQuestion(ClusterQuestion[ReserveAnswer], NodePrices):
    """Replay a busy cluster around the announcement of a large job, with and without reserving for it.

    The replay finds the cluster empty, and others fill it.
    """

    answer_type: ClassVar = ReserveAnswer

    made: str = field(default="11x93", metadata={"metavar": "MxN"})
    """Synthetic cluster where none is given: minipods x nodes of each."""
    job: str = field(default="8x8x75", metadata=GRID)
    """Job: tensor-parallel degree x pipeline stages x rows, which are PP groups."""
    notice_hours: Hours = field(default=4.0, metadata=HOURS)
    """Hours from the announcement of the large job to its arrival."""
    run_hours: Hours = field(default=24.0, metadata=HOURS)
    """Hours for which the large job runs."""
    after_hours: Hours = field(default=48.0, metadata=HOURS)
    """Hours for which others are submitted after the arrival."""
    workloads: Annotated[int, Interval(ge=1, le=1_000)] = field(default=3, metadata={"metavar": "N"})
    """Workloads to draw; more of them make the answer surer."""
    load: str = field(default="0.9", metadata={"metavar": "SHARE|RANGE"})
    """GPU time that jobs ask for, as a share of what the cluster has."""
    longest_hours: Hours = field(default=168.0, metadata=HOURS)
    """Hours that any of the others runs at most; the longest of Kalos ran a week."""
    preemptible: Annotated[float, Interval(gt=0, le=1)] = field(default=1.0, metadata={"metavar": "SHARE"})
    """Share of the others that may be stopped, as a remedy."""
    checkpoint_hours: Hours = field(default=1.0, metadata=HOURS)
    """Hours between the checkpoints of jobs that are stopped."""
    policies: tuple[str, ...] = field(
        default=("arnold", "fifo-backfill"), metadata={"option": "--policy", "metavar": "NAME[,..]", "separator": ","}
    )
    """Queue policy, such as fifo, fifo-backfill, priority-age, fair-share or arnold; in replays also gavel or hadar."""
    predictor: str = field(default="oracle", metadata={"metavar": "NAME"})
    """What the scheduler knows of run times: oracle (all), estimate, history or boosting."""
    time_limit: Annotated[float, Interval(gt=0, le=60)] = field(default=10.0, metadata={"metavar": "SECONDS"})
    """Seconds for each placement; then the best so far counts."""
    warm_hours: Hours = field(default=48.0, metadata=NO_OPTION)
    """How long the replay runs before the announcement."""
    announced_at: float = field(default=18.0, metadata=NO_OPTION)
    """Hour of the day of the announcement, for the figure."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_prices()
        _ = self.points

    @cached_property
    def points(self) -> InputPoints:
        """Which jobs come, and how much they ask for: as many draws as workloads.

        :raises InvalidInput: the load is neither a number nor a range, or out of bounds.
        """
        jobs = numbered_input(self.workloads, "workload", "which jobs come")
        load = option_input(self, "load", "load of the others", least=1e-3, most=2.0)
        return InputPoints((jobs, load), self.workloads, self.seed)

    @cached_property
    def shape_and_rows(self) -> tuple[JobShape, int]:
        """Shape and PP groups of the large job, on nodes of the cluster's usual size."""
        return parse_job(self.job, gpus_per_node=self.empty.node_size)

    @property
    def arrives(self) -> float:
        """Seconds from the beginning of the replay to the arrival of the large job."""
        return (self.warm_hours + self.notice_hours) * HOUR

    @property
    def horizon(self) -> float:
        """Seconds from the beginning of the replay until the others stop submitting."""
        return self.arrives + self.after_hours * HOUR

    @cached_property
    def large(self) -> JobRecord:
        """The large job.

        :raises InvalidInput: it does not fit even on the empty cluster.
        """
        from scheduler.placement.admission import admissible
        from topology.cluster import most_together

        shape, rows = self.shape_and_rows
        nodes, size = shape.pp * rows, shape.gpus_per_node
        usable = most_together(self.empty, admissible(self.empty, shape.job(1)))
        if nodes > usable:
            problem = f"the large job has {nodes:,} nodes of {size} GPUs, the cluster {usable:,}"
            raise InvalidInput(problem, where="--grid", fix="choose a smaller job or a larger cluster")
        return JobRecord(
            LARGE,
            self.arrives,
            self.run_hours * HOUR,
            float(size * nodes),
            priority=100,
            announced=self.arrives - self.notice_hours * HOUR,
            parallelism=shape.job(rows).parallelism,
        )

    def others(self, workload: int, load: float) -> BackgroundJobs:
        """Draw the jobs that fill the cluster, those of a workload thinned out or more to a load."""
        longest, seed = self.longest_hours * HOUR, self.seed + workload
        return background_jobs(self.empty, load=load, seconds=self.horizon, seed=seed, longest=longest)

    @property
    def steps(self) -> int:
        """One for each draw under each policy and remedy, and for each other point where the start has to be known."""
        return self.workloads * (len(self.policies) + 2) + len(self._runs) - self.workloads

    @cached_property
    def _runs(self) -> Runs:
        """Workload and load of each run under the first policy: those drawn, by workload, then those of the range."""
        runs = [(int(at["workload"]), at["load"]) for at in self.points.values]
        return tuple(dict.fromkeys([*sorted(runs[: self.workloads]), *runs]))

    def compute(self, step: Callable[[str], None]) -> ReserveAnswer:
        """Return what the replays came to, by policy and by remedy under the first policy."""
        import numpy as np

        from scheduler.queue.policy import POLICIES
        from simulator.engine import Engine
        from simulator.pools import NodePool
        from simulator.prediction import predict_all

        others, drawn = {run: self.others(*run) for run in self._runs}, self._runs[: self.workloads]
        shape, rows = self.shape_and_rows
        limits = Limits(seconds=self.time_limit, seed=self.seed, workers=1, told="placement", clock="work")
        zone: tuple[int, ...] = ()

        def replays(policy: str, notice: float, share: float, runs: Runs = drawn) -> list[ReservePolicy]:
            """Replay runs with the large job announced so many hours ahead, and a share of the others preemptible."""
            nonlocal zone
            replayed = []
            large = replace(self.large, announced=self.arrives - notice * HOUR)
            for workload, load in runs:
                step(f"{policy}, workload {workload}")
                jobs = others[workload, load].records
                may_stop = np.random.default_rng((self.seed + workload, 2)).random(len(jobs)) < share
                marked = [replace(job, preemptible=bool(may)) for job, may in zip(jobs, may_stop, strict=True)]
                records = sorted([*marked, large], key=lambda record: record.submit)
                engine = Engine(
                    records,
                    NodePool(self.empty, algorithm=LargeAndSmall(shape.pp * rows), limits=limits),
                    POLICIES.load(policy),
                    predictions=predict_all(records, self.predictor),
                    recovery=CheckpointEvery(self.checkpoint_hours * HOUR),
                )
                zone = zone or engine.cluster.pool.zone(
                    next(job for job in engine.jobs if job.record.job_id == LARGE), ()
                )
                replayed.append(replay_policy(engine, policy, large, zone=zone, horizon=self.horizon))
            return replayed

        by_policy = [replays(policy, self.notice_hours, 0.0) for policy in self.policies]
        first = by_policy[0]
        rest = replays(self.policies[0], self.notice_hours, 0.0, self._runs[self.workloads :])
        late = {run: replay.late for run, replay in zip(self._runs, [*first, *rest], strict=True)}
        starts = [late[int(at["workload"]), at["load"]] for at in self.points.values]
        start = self.points.range_of("hours from arrival to start", starts)
        case = partial(case_of_runs, node_hour=self.node_hour(self.empty.node_size))
        cases = [case(runs[0].policy, self.notice_hours, 0.0, runs) for runs in by_policy]
        remaining = percentiles([run.remaining_hours for run in first])
        # whole hours; announced when the watch begins at the earliest
        notice = min(max(self.notice_hours, float(ceil(remaining[2]))), (self.arrives - WATCHED) / HOUR)
        for words, hours, share in (
            (f"notice of {notice:g} h", notice, 0.0),
            (f"{self.preemptible:.0%} preemptible", self.notice_hours, self.preemptible),
        ):
            cases.append(case(words, hours, share, replays(self.policies[0], hours, share)))
        return ReserveAnswer(
            ranges=(replace(start, beyond=f"not within {self.after_hours:g} h"),),
            cluster_nodes=len(self.empty),
            nodes=int(self.large.gpus) // self.empty.node_size,
            zone=len(zone),
            notice_hours=self.notice_hours,
            jobs=len(others[drawn[0]].records),
            load=others[drawn[0]].load,
            remaining_hours=remaining,
            last_hours=percentiles([run.last_hours for run in first]),
            cases=tuple(cases),
            migrations=tuple(Migration(run.zone_held_at_arrival, run.free_outside) for run in first),
            policies=tuple(runs[0] for runs in by_policy),
        )

    def title(self, answer: ReserveAnswer) -> str:
        """Return the question in words."""
        return f"When would a job of {plural(answer.nodes, 'node')} fit, and what does reserving cost the others?"

    def verdict(self, answer: ReserveAnswer) -> str:
        """Return when the large job starts by policy, and what each remedy makes of that."""
        first, *others = answer.cases
        *baselines, notice, stopped = others
        drawn = len(answer.migrations)
        brief = "".join(f"; {case.name} starts it {late_words(case, drawn)}" for case in baselines)
        return (
            f"With {answer.notice_hours:g} h of notice {first.name} starts it {late_words(first, drawn)}{brief}. "
            f"Remedies: {notice.name} (P95 of what jobs in the zone still ran): {late_words(notice, drawn)}, "
            f"{notice.idle_node_hours[1]:,.0f} node-hours idle; {stopped.name}: {late_words(stopped, drawn)}, "
            f"{plural(round(stopped.stopped[1]), 'job')} stopped, "
            f"{stopped.lost_node_hours[1]:,.0f} node-hours done again; moving jobs away: {migration_words(answer)}."
        )

    def figure(self, answer: ReserveAnswer) -> AnswerFigure:
        """Return when the large job starts under the first policy."""
        first = answer.cases[0]
        value, _, ends = late_words(first, len(answer.migrations)).partition(" (")
        words = f"start of the job of {answer.nodes:,} nodes under {first.name}"
        decides = f"; {answer.ranges[0].decides} decides" if answer.ranges[0].decides else ""
        return AnswerFigure(value, words, f"{ends.removesuffix(')')}{decides}".removeprefix("; "), ranged=True)

    def assumptions(self, answer: ReserveAnswer) -> Sequence[str]:
        """Return what cluster, jobs, predictions and placement take for granted."""
        level = self.empty.default_level()
        predictions = "Run times are known without error, but to the policy without predictions."
        if self.predictor != "oracle":
            predictions = f"Run times are foreseen by {self.predictor}, from jobs that had ended before."
        return (
            f"{answer.cluster_nodes:,} nodes in {plural(len(level), level.name)}; the large job has {answer.nodes:,} "
            f"of them, is announced {answer.notice_hours:g} h before it arrives, comes first in the queue and runs "
            f"{self.run_hours:g} h.",
            f"The others: {answer.jobs:,} jobs of the LLM workload generator (debugging, fine-tuning and small "
            f"training of Kalos, 8 to 256 GPUs), asking for {range_words(self.load)} of the GPU time of the cluster, "
            f"none longer than {self.longest_hours:g} h; {plural(self.workloads, 'workload')}, over which the "
            "percentiles are. What runs longer than the notice and may not be stopped is still in the zone when the "
            "large job arrives.",
            f"{predictions} The paper's predictor is off by 1.61 bins of ten minutes.",
            "Production queue and placement decide: the exact algorithm for the large job, gpu-packing for the others; "
            "nothing fails and nothing is slow.",
            "The zone watched is the same for all: where placement puts the large job on the empty cluster.",
            f"Idle node-hours count until the large job starts, or others submit no more, {self.after_hours:g} h after "
            f"its arrival; a job that is stopped goes back to its last checkpoint, one every {self.checkpoint_hours:g} "
            "h of work, and Algorithm 1 stops jobs only when no other is left in the zone.",
            "Moving jobs away needs a free node outside the zone for each node of it that is held; `arnold defragment` "
            "finds the fewest moves.",
        )

    def changes(self, answer: ReserveAnswer) -> Sequence[str]:
        """Return what would change the answer."""
        low, median, high = answer.last_hours
        return (
            f"Notice: the last job in the zone ends {median:.0f} h after the announcement ({low:.0f} to {high:.0f} "
            "over the workloads); announced so long ahead, the large job starts on arrival.",
            "How long the others run, against the notice (--longest-hours, --notice-hours); how much they ask for "
            "(--load): below it, there is room to move jobs to.",
            "What is known of run times (--predictor): generous estimates keep jobs out that would have ended, learnt "
            "ones let some in that do not.",
        )

    def sheet(self, answer: ReserveAnswer) -> Sheet:
        """Return a line for each policy and remedy; the first workload hour by hour, allocation and zone drawn."""
        starts: dict[str, Callable[[ReserveCase], str]] = {
            "": lambda case: case.name,
            "hours late": lambda case: _three(case.late, digits=1),
            "DP + PP spread": lambda case: _three(case.spread),
            "zone held by others": lambda case: _three(case.zone_held),
            "jobs stopped": lambda case: _three(case.stopped),
        }
        costs: dict[str, Callable[[ReserveCase], str]] = {
            "": lambda case: case.name,
            "idle node-hours": lambda case: _three(case.idle_node_hours),
            "done again": lambda case: _three(case.lost_node_hours),
            "wait before, min": lambda case: _three(case.wait_hours, scale=60),
            "wait after, min": lambda case: _three(case.wait_hours_after, scale=60),
        }
        if any(case.cost is not None for case in answer.cases):
            costs["cost"] = lambda case: known(case.cost, ",.0f")
        drawn = len(answer.migrations)
        over = f"{' / '.join(percentile_names(drawn))} of {plural(drawn, 'workload')}"
        timeline: dict[str, Callable[[ReserveSample], str]] = {
            "time": lambda sample: self._clock(sample.hours),
            "allocation": lambda sample: f"{sample.allocation:.0%}",
            "zone held by others": lambda sample: f"{sample.zone_held:,}",
            "waiting": lambda sample: f"{sample.waiting:,}",
        }
        first = answer.policies[0]
        half_hours = first.line[:: round(0.5 * HOUR / SAMPLE)]
        near = [sample for sample in half_hours if -1.0 <= sample.hours <= answer.notice_hours + 1.0]
        allocation = self._chart(answer, "Allocation", "of the cluster", lambda sample: sample.allocation)
        title = "Nodes of the zone that others hold"
        zone = self._chart(answer, title, "nodes", lambda sample: float(sample.zone_held))
        return Sheet(
            tables=(
                text_table(f"By policy and remedy: {over}", answer.cases, starts),
                text_table(f"What it costs the others: {over}", answer.cases, costs),
                text_table(f"Hour by hour with {first.policy}, first workload", near, timeline),
            ),
            charts=(replace(allocation, ceiling=1.0, kind="share"), zone),
        )

    def _clock(self, hours: float) -> str:
        """Return the time of day so many hours after the announcement."""
        minutes = round(60 * (self.announced_at + hours)) % (24 * 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"

    def _chart(self, answer: ReserveAnswer, title: str, label: str, value: Callable[[ReserveSample], float]) -> Chart:
        # a few hours after the last start, or all
        started = [run.starts_hours for run in answer.policies if run.starts_hours is not None]
        last_seen = answer.notice_hours + max(started) + SHOWN if len(started) == len(answer.policies) else inf
        hours = [sample.hours for sample in answer.policies[0].line if sample.hours <= last_seen]
        first, last = round(min(hours)), round(max(hours))
        # about eight words fit below the axis
        stride = max(1, round((last - first) / 8))
        lines = [(0.0, "announced"), (answer.notice_hours, "arrives")]
        run = answer.policies[0]
        # a late start within the picture
        if run.starts_hours is not None and 0.5 < run.starts_hours <= last - answer.notice_hours:
            lines.append((answer.notice_hours + run.starts_hours, f"starts ({run.policy})"))
        return Chart(
            title=f"{title}, first workload",
            x_label="time of day",
            y_label=label,
            series=[
                Series(run.policy, [(sample.hours, value(sample)) for sample in run.line[: len(hours)]], shape="step")
                for run in answer.policies
            ],
            floor=0.0,
            ticks=[(float(hour), self._clock(hour)) for hour in range(first, last + 1, stride)],
            lines=tuple(lines),
        )


def late_words(case: ReserveCase, workloads: int) -> str:
    """Return when the large job starts: ``on arrival``, ``18.8 h late (of 3: 16.7 to 26.4)``, ``not while others ..``.

    :param workloads: how many were drawn; of ten or more P10 and P90 are told.
    """
    low, median, high = case.late
    if high == 0.0:
        return "on arrival"
    if not isfinite(median):
        return "not while others come"
    words = f"{median:.1f} h late" if median > 0.0 else "on arrival"
    most = f"{high:.1f}" if isfinite(high) else "not while others come"
    if workloads < FEWEST:
        return f"{words} (of {workloads}: {low:.1f} to {most})"
    return f"{words} (P10 {low:.1f}, P90 {most})"


def migration_words(answer: ReserveAnswer) -> str:
    """Return for how many workloads there was room to move jobs out of the zone, and how much."""
    moves = answer.migrations
    possible = [move for move in moves if move.held <= move.free_outside]
    if not any(move.held for move in moves):
        return "nothing to move"
    if len(possible) == len(moves):
        return f"at most {max(move.held for move in possible):,} nodes, for which there is room"
    short = max(moves, key=lambda move: move.held - move.free_outside)
    where = f" in {len(moves) - len(possible)} of {len(moves)} workloads" if possible else ""
    return f"no room{where}, {plural(short.held, 'node')} to move and {short.free_outside:,} free outside the zone"


def _three(values: Percentiles, *, digits: int = 0, scale: float = 1.0) -> str:
    return "0" if set(values) == {0.0} else " / ".join(fixed(scale * value, digits=digits) for value in values)
