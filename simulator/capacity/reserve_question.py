"""When would a large job fit, and what does reserving for it cost the others?

A busy cluster is replayed around the announcement of a large job, with and without Algorithm 1 of the Arnold paper
(arXiv 2509.15940); watched is the zone that production placement would give the large job on the empty cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar

from annotated_types import Interval

from scheduler.placement.types import Limits
from simulator.capacity.capacity_question import CapacityAnswer
from simulator.capacity.cluster_question import NO_OPTION, BackgroundJobs, ClusterQuestion, background_jobs
from simulator.capacity.job_shape import JobShape, parse_job
from simulator.capacity.reserve_replay import HOUR, SAMPLE, LargeAndSmall, ReservePolicy, ReserveSample, replay_policy
from simulator.capacity.sheet import Chart, Series, Sheet, TextTable, text_table
from simulator.job_record import JobRecord
from simulator.prediction import predict_all
from topology.errors import InvalidInput
from topology.field_types import AtLeastOne, Count
from topology.quantities import plural

LARGE = "large job"
HOURS = {"metavar": "HOURS"}

Hours = Annotated[float, Interval(gt=0, le=720)]


@dataclass(frozen=True, kw_only=True)
class ReserveAnswer(CapacityAnswer):
    """When a large job would fit, and what reserving for it costs the others."""

    cluster_nodes: AtLeastOne
    """Nodes of the cluster."""
    nodes: AtLeastOne
    """Nodes of the large job."""
    zone: Count
    """Nodes of its zone."""
    notice_hours: float
    """From announcement to arrival."""
    jobs: int
    """Jobs of the others."""
    load: float
    """GPU time that they ask for, as a share of the cluster's."""
    policies: tuple[ReservePolicy, ...]
    """By policy."""


@dataclass(frozen=True, kw_only=True)
class ReserveQuestion(ClusterQuestion[ReserveAnswer]):
    """Replay a busy cluster around the announcement of a large job, with and without reserving for it.

    The replay finds the cluster empty, and others fill it.
    """

    answer_type: ClassVar = ReserveAnswer

    job: str = field(default="8x8x150", metadata={"metavar": "TPxPPxROWS"})
    """The large job, in PP groups."""
    notice_hours: Hours = field(default=4.0, metadata=HOURS)
    """From the announcement of the large job to its arrival."""
    run_hours: Hours = field(default=24.0, metadata=HOURS)
    """How long the large job runs."""
    after_hours: Hours = field(default=8.0, metadata=HOURS)
    """How long others are submitted after the arrival."""
    load: Annotated[float, Interval(gt=0, le=2)] = field(default=0.9, metadata={"metavar": "SHARE"})
    """GPU time that the others ask for, as a share of the cluster's."""
    longest_hours: Hours = field(default=4.0, metadata=HOURS)
    """How long any of the others runs at most."""
    policies: tuple[str, ...] = field(
        default=("arnold", "arnold-no-reserve", "arnold-no-jct"), metadata={"metavar": "A,B,..", "separator": ","}
    )
    """Queue policies."""
    predictor: str = field(default="oracle", metadata={"metavar": "NAME"})
    """What is known of run times: oracle (all), estimate, history, boosting."""
    time_limit: Annotated[float, Interval(gt=0, le=60)] = field(default=10.0, metadata={"metavar": "SECONDS"})
    """To place the large job; the others go by a rule that takes no time."""
    warm_hours: Hours = field(default=24.0, metadata=NO_OPTION)
    """How long the replay runs before the announcement."""
    announced_at: float = field(default=18.0, metadata=NO_OPTION)
    """Hour of the day of the announcement, for the figure."""

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
        from topology.capacity import most_together

        shape, rows = self.shape_and_rows
        nodes, size = shape.pp * rows, shape.gpus_per_node
        usable = most_together(self.empty, admissible(self.empty, shape.job(1)))
        if nodes > usable:
            raise InvalidInput(
                f"the large job has {nodes:,} nodes of {size} GPUs, the cluster {usable:,}",
                where="--job",
                fix="choose a smaller job or a larger cluster",
            )
        return JobRecord(
            LARGE,
            self.arrives,
            self.run_hours * HOUR,
            float(size * nodes),
            priority=100,
            announced=self.warm_hours * HOUR,
            parallelism=shape.job(rows).parallelism,
        )

    @cached_property
    def others(self) -> BackgroundJobs:
        """The jobs that fill the cluster."""
        longest = self.longest_hours * HOUR
        return background_jobs(self.empty, load=self.load, seconds=self.horizon, seed=self.seed, longest=longest)

    @property
    def steps(self) -> int:
        """One for each policy."""
        return len(self.policies)

    def compute(self, step: Callable[[str], None]) -> ReserveAnswer:
        """Return what one replay for each policy came to."""
        from scheduler.queue.queue_policy import POLICIES
        from simulator.engine.engine import Engine
        from simulator.engine.node_pool import NodePool

        (shape, rows), large = self.shape_and_rows, self.large
        records = sorted([*self.others.records, large], key=lambda record: record.submit)
        predictions = predict_all(records, self.predictor)
        limits = Limits(seconds=self.time_limit, seed=self.seed, workers=1, told="placement", clock="work")
        zone: tuple[int, ...] = ()
        policies = []
        for name in self.policies:
            step(name)
            room = NodePool(self.empty, algorithm=LargeAndSmall(shape.pp * rows), limits=limits)
            engine = Engine(records, room, POLICIES.load(name), predictions=predictions)
            zone = zone or engine.pool.zone(next(job for job in engine.jobs if job.record.job_id == LARGE), ())
            policies.append(replay_policy(engine, name, large, zone=zone, horizon=self.horizon))
        return ReserveAnswer(
            cluster_nodes=len(self.empty),
            nodes=shape.pp * rows,
            zone=len(zone),
            notice_hours=self.notice_hours,
            jobs=len(self.others.records),
            load=self.others.asked,
            policies=tuple(policies),
        )

    def title(self, found: ReserveAnswer) -> str:
        """Return the question in words."""
        return f"When would a job of {found.nodes:,} nodes fit, and what does reserving cost the others?"

    def verdict(self, found: ReserveAnswer) -> str:
        """Return what the first policy makes of the large job, in full, and the others in brief."""
        first, *others = found.policies
        start = (
            f"With {first.policy} it starts {_start(first)} and finds {first.zone_held_at_arrival} of {found.zone:,} "
            f"nodes of its zone held by others; allocation falls from {first.allocation_before:.2f} to "
            f"{first.allocation_at_arrival:.2f}, {first.idle_node_hours:,.0f} node-hours stay idle in the "
            f"{found.notice_hours:g} h before, and others wait {60 * first.wait_hours:.0f} min on average."
        )
        brief = "; ".join(
            f"{one.policy}: starts {_start(one)}, {one.idle_node_hours:,.0f} node-hours idle, others wait "
            f"{60 * one.wait_hours:.0f} min"
            for one in others
        )
        return f"{start} {brief[:1].upper()}{brief[1:]}." if brief else start

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
            f"of Kalos, 8 to 256 GPUs), asking for {found.load:.0%} of the cluster, none longer than "
            f"{self.longest_hours:g} h. What runs longer than the notice and may not be stopped is still in the zone "
            "when the large job arrives.",
            f"{predictions} The paper's predictor is off by 1.61 bins of ten minutes.",
            "Production queue and placement decide: the exact algorithm for the large job, gpu-packing for the others; "
            "nothing fails and nothing is slow.",
            "The zone watched is the same for all policies: where placement puts the large job on the empty cluster.",
            f"Waits until the arrival are the price of the notice; waits in the {self.after_hours:g} h after it are "
            "mostly what the large job itself takes from the others, and a policy that starts it later has not paid "
            "that yet.",
        )

    def changes(self, found: ReserveAnswer) -> Sequence[str]:  # noqa: ARG002
        """Return what would change the answer."""
        return ("How long the others run, against the notice: --longest-hours, --notice-hours.",)

    def sheet(self, answer: ReserveAnswer) -> Sheet:
        """Return a line for each policy, the first policy hour by hour, allocation and zone over time."""
        columns: dict[str, Callable[[ReservePolicy], str]] = {
            "policy": lambda row: row.policy,
            "starts": _start,
            "before": lambda row: f"{row.allocation_before:.2f}",
            "at arrival": lambda row: f"{row.allocation_at_arrival:.2f}",
            "zone": lambda row: f"{row.zone_held_at_arrival:,}",
            "idle": lambda row: f"{row.idle_node_hours:,.0f}",
            "wait before": lambda row: f"{60 * row.wait_hours:.1f}",
            "wait after": lambda row: f"{60 * row.wait_hours_after:.0f}",
            "stopped": lambda row: f"{row.stopped}",
        }
        title = "By policy: allocation, nodes of the zone that others hold, idle node-hours, waits in minutes"
        allocation = self._chart(answer, "Allocation", "of the cluster", lambda one: one.allocation)
        zone = self._chart(answer, "Nodes of the zone that others hold", "nodes", lambda one: float(one.zone_held))
        return Sheet(
            tables=(text_table(title, answer.policies, columns), self._timeline(answer.policies[0])),
            charts=(replace(allocation, ceiling=1.0, percent=True), zone),
        )

    def _timeline(self, row: ReservePolicy) -> TextTable:
        columns: dict[str, Callable[[ReserveSample], str]] = {
            "time": lambda one: self._clock(one.hours),
            "allocation": lambda one: f"{one.allocation:.2f}",
            "zone held by others": lambda one: f"{one.zone_held:,}",
            "waiting": lambda one: f"{one.waiting:,}",
        }
        half_hours = row.line[:: round(0.5 * HOUR / SAMPLE)]
        near = [one for one in half_hours if -1.0 <= one.hours <= self.notice_hours + 1.0]
        return text_table(f"Hour by hour with {row.policy}", near, columns)

    def _clock(self, hours: float) -> str:
        """Return the time of day so many hours after the announcement."""
        minutes = round(60 * (self.announced_at + hours)) % (24 * 60)
        return f"{minutes // 60:02d}:{minutes % 60:02d}"

    def _chart(self, answer: ReserveAnswer, title: str, label: str, value: Callable[[ReserveSample], float]) -> Chart:
        hours = [one.hours for one in answer.policies[0].line]
        first, last = round(min(hours)), round(max(hours))
        # about eight words fit below the axis
        stride = max(1, round((last - first) / 8))
        return Chart(
            title=title,
            x_label="time of day",
            y_label=label,
            series=[
                Series(row.policy, [(one.hours, value(one)) for one in row.line], shape="step")
                for row in answer.policies
            ],
            floor=0.0,
            ticks=[(float(hour), self._clock(hour)) for hour in range(first, last + 1, stride)],
            lines=((0.0, "announced"), (self.notice_hours, "arrives")),
        )


def _start(row: ReservePolicy) -> str:
    if row.starts_hours is None:
        return "never"
    return "on arrival" if row.starts_hours < 1e-6 else f"{row.starts_hours:.1f} h late"
