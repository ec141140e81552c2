"""When would a large job fit, and what does reserving for it cost the others?

A busy cluster is replayed around the announcement of a large job, with and without Algorithm 1 of the Arnold paper
(arXiv 2509.15940); watched is the zone that production placement would give the large job on the empty cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.quantities import HOUR, plural
from scheduler.placement.types import Limits
from simulator.capacity.answer_range import AnswerRange, InputPoints, percentiles
from simulator.capacity.capacity_question import AnswerFigure
from simulator.capacity.cluster_question import NO_OPTION, BackgroundJobs, ClusterQuestion, background_jobs
from simulator.capacity.hardware_prices import NodePrices
from simulator.capacity.job_shape import GRID, JobShape, parse_job
from simulator.capacity.reserve.reserve_answer import Migration, ReserveAnswer, case_over
from simulator.capacity.reserve.reserve_replay import (
    WATCHED,
    CheckpointEvery,
    LargeAndSmall,
    ReservePolicy,
    replay_policy,
)
from simulator.capacity.reserve.reserve_sheet import late_words, migration_words, reserve_sheet
from simulator.capacity.uncertain_input import numbered_input, option_input, range_words
from simulator.job_record import JobRecord
from simulator.prediction import predict_all
from simulator.sheet import Sheet

if TYPE_CHECKING:
    from simulator.engine.engine import Engine

LARGE = "large job"
HOURS = {"metavar": "HOURS"}

Hours = Annotated[float, Interval(gt=0, le=720)]
Runs = tuple[tuple[int, float], ...]  # Workload and load of each


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
        _ = self.inputs

    @cached_property
    def inputs(self) -> InputPoints:
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
            raise InvalidInput(
                f"the large job has {nodes:,} nodes of {size} GPUs, the cluster {usable:,}",
                where="--grid",
                fix="choose a smaller job or a larger cluster",
            )
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
        found = [(int(at["workload"]), at["load"]) for at in self.inputs.points]
        return tuple(dict.fromkeys([*sorted(found[: self.workloads]), *found]))

    def compute(self, step: Callable[[str], None]) -> ReserveAnswer:
        """Return what the replays came to, by policy and by remedy under the first policy."""
        others, drawn = {run: self.others(*run) for run in self._runs}, self._runs[: self.workloads]
        zone: tuple[int, ...] = ()

        def replays(policy: str, notice: float, share: float, runs: Runs = drawn) -> list[ReservePolicy]:
            nonlocal zone
            found = []
            for run in runs:
                step(f"{policy}, workload {run[0]}")
                engine, large = self._engine(policy, others[run], notice=notice, share=share, seed=self.seed + run[0])
                zone = zone or engine.pool.zone(next(one for one in engine.jobs if one.record.job_id == LARGE), ())
                found.append(replay_policy(engine, policy, large, zone=zone, horizon=self.horizon))
            return found

        by_policy = [replays(policy, self.notice_hours, 0.0) for policy in self.policies]
        first = by_policy[0]
        rest = replays(self.policies[0], self.notice_hours, 0.0, self._runs[self.workloads :])
        case = partial(case_over, node_hour=self.node_hour(self.empty.node_size))
        cases = [case(one, self.notice_hours, 0.0, found) for one, found in zip(self.policies, by_policy, strict=True)]
        remaining = percentiles([one.remaining_hours for one in first])
        # whole hours; announced when the watch begins at the earliest
        notice = min(max(self.notice_hours, float(ceil(remaining[2]))), (self.arrives - WATCHED) / HOUR)
        for words, hours, share in (
            (f"notice of {notice:g} h", notice, 0.0),
            (f"{self.preemptible:.0%} preemptible", self.notice_hours, self.preemptible),
        ):
            cases.append(case(words, hours, share, replays(self.policies[0], hours, share)))
        return ReserveAnswer(
            ranges=(self._range([*first, *rest]),),
            cluster_nodes=len(self.empty),
            nodes=int(self.large.gpus) // self.empty.node_size,
            zone=len(zone),
            notice_hours=self.notice_hours,
            jobs=len(others[drawn[0]].records),
            load=others[drawn[0]].asked,
            remaining_hours=remaining,
            last_hours=percentiles([one.last_hours for one in first]),
            cases=tuple(cases),
            migrations=tuple(Migration(one.zone_held_at_arrival, one.free_outside) for one in first),
            policies=tuple(found[0] for found in by_policy),
        )

    def _engine(
        self, policy: str, others: BackgroundJobs, *, notice: float, share: float, seed: int
    ) -> tuple[Engine, JobRecord]:
        """Return a replay and its large job, announced so many hours ahead, with a share of the others preemptible."""
        import numpy as np

        from scheduler.queue.policy import POLICIES
        from simulator.engine.engine import Engine
        from simulator.pools.node_pool import NodePool

        may_stop = np.random.default_rng((seed, 2)).random(len(others.records)) < share
        marked = [replace(one, preemptible=bool(may)) for one, may in zip(others.records, may_stop, strict=True)]
        large = replace(self.large, announced=self.arrives - notice * HOUR)
        records = sorted([*marked, large], key=lambda record: record.submit)
        limits = Limits(seconds=self.time_limit, seed=self.seed, workers=1, told="placement", clock="work")
        shape, rows = self.shape_and_rows
        room = NodePool(self.empty, algorithm=LargeAndSmall(shape.pp * rows), limits=limits)
        engine = Engine(
            records,
            room,
            POLICIES.load(policy),
            predictions=predict_all(records, self.predictor),
            recovery=CheckpointEvery(self.checkpoint_hours * HOUR),
        )
        return engine, large

    def _range(self, found: Sequence[ReservePolicy]) -> AnswerRange:
        """Return the range of the start under the first policy over what is uncertain."""
        late = {run: one.late for run, one in zip(self._runs, found, strict=True)}
        hours = [late[int(at["workload"]), at["load"]] for at in self.inputs.points]
        beyond = f"not within {self.after_hours:g} h"
        return replace(self.inputs.range_of("hours from arrival to start", hours), beyond=beyond)

    def title(self, found: ReserveAnswer) -> str:
        """Return the question in words."""
        return f"When would a job of {found.nodes:,} nodes fit, and what does reserving cost the others?"

    def verdict(self, found: ReserveAnswer) -> str:
        """Return when the large job starts by policy, and what each remedy makes of that."""
        first, *others = found.cases
        *baselines, notice, stopped = others
        drawn = len(found.migrations)
        brief = "".join(f"; {one.name} starts it {late_words(one, drawn)}" for one in baselines)
        return (
            f"With {found.notice_hours:g} h of notice {first.name} starts it {late_words(first, drawn)}{brief}. "
            f"Remedies: {notice.name} (P95 of what jobs in the zone still ran): {late_words(notice, drawn)}, "
            f"{notice.idle_node_hours[1]:,.0f} node-hours idle; {stopped.name}: {late_words(stopped, drawn)}, "
            f"{stopped.stopped[1]:,.0f} jobs stopped, {stopped.lost_node_hours[1]:,.0f} node-hours done again; "
            f"moving jobs away: {migration_words(found)}."
        )

    def figure(self, found: ReserveAnswer) -> AnswerFigure:
        """Return when the large job starts under the first policy."""
        first = found.cases[0]
        value, _, ends = late_words(first, len(found.migrations)).partition(" (")
        words = f"start of the job of {found.nodes:,} nodes under {first.name}"
        decides = f"; {found.ranges[0].decides} decides" if found.ranges[0].decides else ""
        return AnswerFigure(value, words, f"{ends.removesuffix(')')}{decides}".removeprefix("; "), ranged=True)

    def assumptions(self, found: ReserveAnswer) -> Sequence[str]:
        """Return what cluster, jobs, predictions and placement take for granted."""
        level = self.empty.default_level()
        predictions = "Run times are known without error, but to the policy without predictions."
        if self.predictor != "oracle":
            predictions = f"Run times are foreseen by {self.predictor}, from jobs that had ended before."
        return (
            f"{found.cluster_nodes:,} nodes in {plural(len(level), level.name)}; the large job has {found.nodes:,} of "
            f"them, is announced {found.notice_hours:g} h before it arrives, comes first in the queue and runs "
            f"{self.run_hours:g} h.",
            f"The others: {found.jobs:,} jobs of the LLM workload generator (debugging, fine-tuning and small training "
            f"of Kalos, 8 to 256 GPUs), asking for {range_words(self.load)} of the GPU time of the cluster, none "
            f"longer than {self.longest_hours:g} h; {plural(self.workloads, 'workload')}, over which the percentiles "
            "are. What runs longer than the notice and may not be stopped is still in the zone when the large job "
            "arrives.",
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

    def changes(self, found: ReserveAnswer) -> Sequence[str]:
        """Return what would change the answer."""
        low, median, high = found.last_hours
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
        return reserve_sheet(answer, announced_at=self.announced_at)
