"""What does one more minipod buy: in waiting, in the largest job that fits, in the worth of a job of a given size?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from scheduler.placement.types import ALGORITHMS, Limits
from simulator.capacity.affinity_question import SizedShape, spelled
from simulator.capacity.capacity_question import CapacityAnswer
from simulator.capacity.cluster_question import DAY, BackgroundJobs, ShapesQuestion, background_jobs
from simulator.capacity.job_shape import JobShape, LargestJob, Prober
from simulator.capacity.sheet import Chart, Series, Sheet, known, text_table
from simulator.replay_settings import QueueSettings
from topology.errors import InvalidInput
from topology.field_types import AtLeastOne, Count, Share
from topology.json_record import JsonRecord
from topology.quantities import plural

if TYPE_CHECKING:
    from simulator.results.run_summary import Distribution
    from topology.cluster import Cluster

SHARE = 0.9  # Size of the job whose objective is compared, as a share of the nodes that are free today


@dataclass(frozen=True, slots=True)
class GrownShape(JsonRecord):
    """One shape on one cluster."""

    shape: str
    """tp x pp."""
    most_nodes: Count
    """Nodes of the largest job, whatever its spread."""
    whole_nodes: Count
    """Nodes of the largest job with every PP group in one domain."""
    whole_proved: bool
    """No larger one fits; false = the algorithm ran out of time on a larger one."""
    job_nodes: AtLeastOne
    """Nodes of the job whose objective is compared, the same on all clusters."""
    alpha: Share
    """DP affinity of that job."""
    objective: float | None
    """Objective of that job, Eq. 2; null = nothing valid was found."""


@dataclass(frozen=True, slots=True)
class GrownCluster(JsonRecord):
    """One cluster."""

    more: Count
    """Domains that were added."""
    nodes: AtLeastOne
    """Nodes in all."""
    free: Count
    """Nodes that are idle and not faulty."""
    wait_hours: float | None
    """Mean wait of the workload; null = no job started."""
    wait_hours_p95: float | None
    """95th percentile of the waits; null = no job started."""
    shapes: tuple[GrownShape, ...]
    """By shape."""

    @property
    def tick(self) -> tuple[float, str]:
        """Place and word of the cluster on the axis of a chart."""
        return float(self.more), f"+{self.more}" if self.more else "today"


@dataclass(frozen=True, kw_only=True)
class GrowAnswer(CapacityAnswer):
    """What more domains buy."""

    cluster: str
    """What the cluster is called."""
    level: str
    """Level of the domains that are added."""
    added_nodes: AtLeastOne
    """Nodes of each domain that is added."""
    policy: str
    """Queue policy of the workload's replay."""
    jobs: Count
    """Jobs of the workload."""
    load: float
    """GPU time that they ask for, as a share of today's cluster."""
    alpha: float | None
    """DP affinity of the jobs; null = they differ, as their model has it."""
    rows: tuple[GrownCluster, ...]
    """Today's cluster first."""


@dataclass(frozen=True, kw_only=True)
class GrowQuestion(ShapesQuestion[GrowAnswer], QueueSettings):
    """Say what one more minipod buys: waiting, the largest job, the objective of a job.

    What jobs hold of the cluster counts for the largest job and the objective; the workload finds it empty.
    """

    answer_type: ClassVar = GrowAnswer

    more: tuple[Annotated[int, Interval(ge=1, le=1_000)], ...] = field(default=(1, 2), metadata={"metavar": "N"})
    """Domains to add; may be repeated."""
    domain_nodes: Annotated[int | None, Interval(ge=1, le=100_000)] = field(
        default=None, metadata={"metavar": "N", "default": "as many as most have"}
    )
    """Nodes of each domain that is added."""
    policy: str = field(default="fifo-backfill", metadata={"metavar": "NAME"})
    load: Annotated[float, Interval(gt=0, le=2)] = field(default=1.1, metadata={"metavar": "SHARE"})
    """GPU time that the workload asks for, as a share of today's cluster."""
    days: Annotated[float, Interval(gt=0, le=366)] = 1.0
    """For how long jobs of the workload are submitted."""
    time_limit: Annotated[float, Interval(gt=0, le=60)] = field(default=0.3, metadata={"metavar": "SECONDS"})
    """For each placement by the exact algorithm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        QueueSettings.__post_init__(self)
        if not self.more:
            raise InvalidInput("no domain is added", where="--more", fix="give numbers of domains, at least 1")

    @cached_property
    def workload(self) -> BackgroundJobs:
        """The jobs that wait, the same for every cluster."""
        return background_jobs(self.now, load=self.load, seconds=self.days * DAY, seed=self.seed)

    @cached_property
    def jobs_compared(self) -> list[SizedShape]:
        """The job of each shape whose objective is compared."""
        today = self.prober(self.now)
        return [(shape, max(1, int(SHARE * today.most_rows(shape)))) for shape in self.job_shapes]

    @property
    def steps(self) -> int:
        """One for each cluster, today's among them."""
        return len({0, *self.more})

    def compute(self, step: Callable[[str], None]) -> GrowAnswer:
        """Return what each cluster holds, and how long jobs wait on it."""
        import numpy as np

        from topology.generate import with_domain

        level = self.now.levels[self.now.level_index(self.level, where="--level")]
        added = self.domain_nodes or int(np.bincount(np.bincount(level.domain_of)).argmax())
        rows = []
        for more in sorted({0, *self.more}):
            step(f"{more} more")
            grown = self.now
            for _ in range(more):
                grown = with_domain(grown, added, level=level.name)
            rows.append(self._grown(grown, more))
        return GrowAnswer(
            cluster=self.cluster_name,
            level=level.name,
            added_nodes=added,
            policy=self.policy,
            jobs=len(self.workload.records),
            load=self.workload.asked,
            alpha=self.alpha_of_all(self.jobs_compared),
            rows=tuple(rows),
        )

    def _grown(self, cluster: Cluster, more: int) -> GrownCluster:
        prober = self.prober(cluster)
        wait = self._waits(cluster)
        return GrownCluster(
            more=more,
            nodes=len(cluster),
            free=int(cluster.idle.sum()),
            wait_hours=None if wait is None else wait.mean / 3600.0,
            wait_hours_p95=None if wait is None else wait.p95 / 3600.0,
            shapes=tuple(self._shape(prober, *one) for one in self.jobs_compared),
        )

    def _shape(self, prober: Prober, shape: JobShape, rows: int) -> GrownShape:
        most, alpha = prober.most_rows(shape), self.affinity(shape, rows).alpha
        # a PP group of one node is always whole: nothing to search for
        whole = prober.largest(shape, "pp", 1) if shape.pp > 1 else LargestJob("pp", 1, most, proved=True)
        return GrownShape(
            shape=shape.name,
            most_nodes=most * shape.pp,
            whole_nodes=whole.nodes,
            whole_proved=whole.proved,
            job_nodes=rows * shape.pp,
            alpha=alpha,
            objective=prober.place(shape, rows, alpha).objective if rows <= most else None,
        )

    def _waits(self, cluster: Cluster) -> Distribution | None:
        """Return how long jobs of the workload wait on the empty cluster."""
        from scheduler.queue.queue_policy import POLICIES
        from simulator.engine.engine import Engine
        from simulator.engine.node_pool import NodePool
        from simulator.results.run_summary import wait_times

        limits, packing = Limits(seed=self.seed, workers=1), ALGORITHMS.load("gpu-packing")
        room = NodePool(cluster.emptied(), algorithm=packing, limits=limits, level=self.level)
        policy, records = POLICIES.load(self.policy), self.workload.records
        self.check_sharing([policy], records)
        engine = Engine(records, room, policy, weights=self.weight_of, share_by=self.share_by)
        engine.run()
        return wait_times(engine.jobs)

    def title(self, found: GrowAnswer) -> str:
        """Return the question in words."""
        return f"What does one more {found.level} of {plural(found.added_nodes, 'node')} buy?"

    def verdict(self, found: GrowAnswer) -> str:
        """Return what the first cluster that grew has over today's: waits, and the last shape's largest job."""
        today, one = found.rows[0], found.rows[1]
        waits = "no job of the workload started"
        if today.wait_hours is not None and one.wait_hours is not None:
            waits = f"jobs wait {_minutes(one.wait_hours)} instead of {_minutes(today.wait_hours)} on average"
        before, after = today.shapes[-1], one.shapes[-1]
        worth = ""
        if before.objective is not None and after.objective is not None:
            worth = (
                f", and the objective of one of {before.job_nodes:,} nodes goes from {before.objective:.2f} to "
                f"{after.objective:.2f}"
            )
        return (
            f"With {plural(one.more, found.level)} more, {waits}, the largest job of shape {before.shape} with PP "
            f"groups inside one {found.level} grows from {before.whole_nodes:,} to {after.whole_nodes:,} nodes{worth}."
        )

    def assumptions(self, found: GrowAnswer) -> Sequence[str]:
        """Return what the new domains, the search and the workload take for granted."""
        return (
            f"The cluster is {found.cluster}; each new {found.level} has {found.added_nodes:,} nodes, is empty, and "
            "hangs on the network like the others.",
            "Largest job and objective are of the cluster as it is at one moment, placed by the exact algorithm; >= "
            "marks a size beyond which it ran out of time.",
            f"The objective (Eq. 2, {spelled(found.alpha)}) is of a job of {SHARE:.0%} of the nodes that are free "
            "today, the same job on all clusters.",
            *self.where_alpha_is_from(self.jobs_compared),
            f"Waiting is of {found.jobs:,} jobs of the LLM workload generator (debugging, fine-tuning and small "
            f"training of Kalos), submitted over {self.days:g} days to the empty cluster under {found.policy} and "
            f"placed by gpu-packing; they ask for {found.load:.0%} of today's cluster, and for no more on a larger "
            "one.",
            "Nothing fails, and what a new minipod costs is not weighed.",
        )

    def changes(self, found: GrowAnswer) -> Sequence[str]:  # noqa: ARG002
        """Return what would change the answer."""
        return ("The workload: how much it asks for, and how jobs arrive, which another --seed draws otherwise.",)

    def sheet(self, answer: GrowAnswer) -> Sheet:
        """Return waits by cluster, largest job and objective by shape and cluster."""
        waits: dict[str, Callable[[GrownCluster], str]] = {
            f"{answer.level}s more": lambda row: str(row.more),
            "nodes": lambda row: f"{row.nodes:,}",
            "free now": lambda row: f"{row.free:,}",
            "mean wait": lambda row: _minutes(row.wait_hours),
            "95th percentile": lambda row: _minutes(row.wait_hours_p95),
        }
        shapes: dict[str, Callable[[tuple[int, GrownShape]], str]] = {
            "shape": lambda row: row[1].shape,
            f"{answer.level}s more": lambda row: str(row[0]),
            "largest job": lambda row: f"{row[1].most_nodes:,}",
            "PP groups whole": lambda row: f"{'' if row[1].whole_proved else '>= '}{row[1].whole_nodes:,}",
            "job of": lambda row: f"{row[1].job_nodes:,}",
            "objective": lambda row: known(row[1].objective, ".2f"),
        }
        rows = answer.rows
        # the same shape on every cluster, one shape after the other
        by_shape = [[(row.more, row.shapes[i]) for row in rows] for i in range(len(rows[0].shapes))]
        axis, ticks = f"{answer.level}s more", [row.tick for row in rows]
        waiting = (
            Series("mean", [(row.more, _times_60(row.wait_hours)) for row in rows]),
            Series("95th percentile", [(row.more, _times_60(row.wait_hours_p95)) for row in rows]),
        )
        largest = [
            Series(f"shape {pairs[0][1].shape}", [(more, one.whole_nodes) for more, one in pairs]) for pairs in by_shape
        ]
        inside = f"Largest job with PP groups inside one {answer.level}"
        return Sheet(
            tables=(
                text_table(f"Waiting under {answer.policy}", rows, waits),
                text_table(
                    "Largest job and objective, by shape", [pair for pairs in by_shape for pair in pairs], shapes
                ),
            ),
            charts=(
                Chart("Waiting", axis, "minutes", waiting, floor=0.0, ticks=ticks),
                Chart(inside, axis, "nodes", largest, floor=0.0, ticks=ticks),
            ),
        )


def _times_60(hours: float | None) -> float | None:
    return None if hours is None else 60 * hours


def _minutes(hours: float | None) -> str:
    return "-" if hours is None else f"{60 * hours:.1f} min"
