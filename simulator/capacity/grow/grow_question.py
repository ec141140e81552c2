"""When must more nodes be ordered, if demand grows, jobs may not wait for long and hardware takes months to come?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from simulator.capacity.affinity_question import spelled
from simulator.capacity.answer_range import AnswerRange, answer_range, percentiles
from simulator.capacity.cluster_question import ShapesQuestion
from simulator.capacity.grow.grow_answer import DemandQuarter, GrowAnswer, GrownCluster, GrowthScenario
from simulator.capacity.grow.grow_sheet import grow_sheet, order_words, quarters_words
from simulator.capacity.grow.growing_demand import MONTHS, NOT_SOON, growth_input, quarters_until
from simulator.capacity.grow.grown_shapes import SHARE, GrownShapes
from simulator.capacity.hardware_prices import NodePrices
from simulator.capacity.uncertain_input import (
    UncertainInput,
    draw,
    numbered_input,
    option_input,
    range_words,
    source_of,
)
from simulator.replay_settings import QueueSettings
from simulator.sheet import Sheet
from topology.errors import InvalidInput
from topology.quantities import MINUTE, plural

if TYPE_CHECKING:
    from simulator.capacity.grow.wait_curve import WaitCurve
    from topology.cluster import Cluster

RANGE = {"metavar": "SHARE|RANGE"}


@dataclass(frozen=True, kw_only=True)
class GrowQuestion(ShapesQuestion[GrowAnswer], QueueSettings, NodePrices):
    """Say when to order more minipods: in which quarter jobs wait too long, less the time that hardware takes.

    The workload finds the cluster empty; what jobs hold of it now counts for the largest job alone.
    """

    answer_type: ClassVar = GrowAnswer

    load: str = field(default="0.65..0.75", metadata=RANGE)
    """GPU time that jobs ask for, as a share of what the cluster has."""
    growth: tuple[str, ...] = field(default=("0.05..0.12", "0..0.04", "0.15..0.3"), metadata=RANGE)
    """Growth of demand a quarter, a scenario each; the first makes the headline."""
    objective_wait: Annotated[float, Interval(gt=0, le=100_000)] = field(default=60.0, metadata={"metavar": "MINUTES"})
    """Longest wait, in minutes, that 95 % of the jobs may have."""
    lead_time: str = field(default="6..9", metadata={"metavar": "MONTHS|RANGE"})
    """Months from the order to nodes that run jobs."""
    quarters: Annotated[int, Interval(ge=1, le=40)] = field(default=8, metadata={"metavar": "N"})
    """Quarters in tables and figure."""
    more: tuple[Annotated[int, Interval(ge=1, le=1_000)], ...] = field(default=(1, 2), metadata={"metavar": "N"})
    """Domains to add."""
    domain_nodes: Annotated[int | None, Interval(ge=1, le=100_000)] = field(
        default=None, metadata={"metavar": "N", "default": "as many as most have"}
    )
    """Nodes of each domain that is added."""
    policy: str = field(default="fifo-backfill", metadata={"metavar": "NAME"})
    days: Annotated[float, Interval(gt=0, le=366)] = field(default=7.0, metadata={"metavar": "DAYS"})
    """Simulated days of each run."""
    workloads: Annotated[int, Interval(ge=1, le=1_000)] = field(default=5, metadata={"metavar": "N"})
    """Workloads to draw; more of them make the answer surer."""
    draws: Annotated[int, Interval(ge=10, le=100_000)] = field(default=1_000, metadata={"metavar": "N"})
    """Draws of the uncertain inputs."""
    time_limit: Annotated[float, Interval(gt=0, le=60)] = field(default=0.3, metadata={"metavar": "SECONDS"})
    """Seconds for each placement; then the best so far counts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        QueueSettings.__post_init__(self)
        self.check_prices()
        for given, option in ((self.more, "--more"), (self.growth, "--growth")):
            if not given:
                raise InvalidInput(f"there is no {option}", where=option, fix=f"give {option} at least once")
        _ = self.inputs

    @cached_property
    def inputs(self) -> tuple[tuple[UncertainInput, ...], ...]:
        """What is uncertain, for each scenario; all but the growth is the same, and drawn the same.

        :raises InvalidInput: an option is neither a number nor a range, or out of bounds.
        """
        load = option_input(self, "load", "load today", least=1e-3, most=100.0)
        lead = option_input(self, "lead_time", "months of lead time", most=120.0)
        jobs = numbered_input(self.workloads, "workload", "which jobs come")
        source = source_of(self, "growth")
        return tuple((growth_input(text, source=source), load, lead, jobs) for text in self.growth)

    @cached_property
    def shapes_compared(self) -> GrownShapes:
        """What compares shapes on the clusters."""
        return GrownShapes(self)

    @property
    def steps(self) -> int:
        """One for each workload and each cluster, today's among them."""
        return self.workloads + len({0, *self.more})

    def compute(self, step: Callable[[str], None]) -> GrowAnswer:
        """Return the curves of waits, what becomes of them in each scenario, and what the larger clusters hold."""
        from simulator.capacity.grow.wait_curve import wait_curve

        curves = []
        for seed in range(self.seed, self.seed + self.workloads):
            step(f"workload {seed}")
            curves.append(wait_curve(self.empty, self, days=self.days, seed=seed))
        breaking = [curve.breaks(MINUTE * self.objective_wait) for curve in curves]
        level, added = self._domains()
        rows = []
        for more in sorted({0, *self.more}):
            step(f"{more} more")
            rows.append(self._grown(more, level, added, breaking))
        node_hour, load = self.node_hour(self.empty.node_size), percentiles(breaking)
        return GrowAnswer(
            ranges=(self._when_to_order(breaking),),
            cluster=self.cluster_name,
            level=level,
            added_nodes=added,
            policy=self.policy,
            jobs=curves[0].jobs,
            objective_wait=self.objective_wait,
            load_at_objective=load,
            cost_used_gpu_hour=None if node_hour is None else node_hour / self.empty.node_size / load[1],
            cost_domain_hour=None if node_hour is None else node_hour * added,
            alpha=self.alpha_of_all(self.shapes_compared.jobs),
            scenarios=tuple(
                self._scenario(*one, curves, breaking, added=added)
                for one in zip(self.growth, self.inputs, strict=True)
            ),
            rows=tuple(rows),
        )

    def _domains(self) -> tuple[str, int]:
        """Return the level of the domains that are added, and the nodes of each."""
        import numpy as np

        level = self.now.levels[self.now.level_index(self.level, where="--level")]
        return level.name, self.domain_nodes or int(np.bincount(np.bincount(level.domain_of)).argmax())

    def _grown(self, more: int, level: str, added: int, breaking: Sequence[float]) -> GrownCluster:
        """Return a cluster with more domains; demand reaches the load at which it breaks later by its size."""
        from topology.generate import with_domain

        grown: Cluster = self.now
        for _ in range(more):
            grown = with_domain(grown, added, level=level)
        larger = [one * len(grown) / len(self.now) for one in breaking]
        lasts = [self._breaks(larger, at) for at in draw(self.inputs[0], draws=self.draws, seed=self.seed)]
        return GrownCluster(more, len(grown), int(grown.idle.sum()), percentiles(lasts), self.shapes_compared.on(grown))

    @staticmethod
    def _breaks(breaking: Sequence[float], at: Mapping[str, float]) -> float:
        """Return the quarters until the waits break the objective, at values of the inputs, to a tenth: nine days."""
        return round(quarters_until(breaking[int(at["workload"])], today=at["load"], growth=at["growth"]), 1)

    @classmethod
    def _order(cls, breaking: Sequence[float], at: Mapping[str, float]) -> float:
        return round(cls._breaks(breaking, at) - at["lead_time"] / MONTHS, 1)

    def _when_to_order(self, breaking: Sequence[float]) -> AnswerRange:
        """Return when to order in the first scenario."""
        order, inputs = partial(self._order, breaking), self.inputs[0]
        words = "quarters until the order"
        return replace(answer_range(words, order, inputs, draws=self.draws, seed=self.seed), beyond=NOT_SOON)

    def _scenario(
        self,
        growth: str,
        inputs: Sequence[UncertainInput],
        curves: Sequence[WaitCurve],
        breaking: Sequence[float],
        *,
        added: int,
    ) -> GrowthScenario:
        draws = draw(inputs, draws=self.draws, seed=self.seed)
        quarters = tuple(
            self._quarter(quarter, draws, curves, breaking, added=added) for quarter in range(self.quarters + 1)
        )
        return GrowthScenario(
            growth,
            percentiles([self._breaks(breaking, at) for at in draws]),
            percentiles([self._order(breaking, at) for at in draws]),
            quarters,
        )

    def _quarter(
        self,
        quarter: int,
        draws: Sequence[Mapping[str, float]],
        curves: Sequence[WaitCurve],
        breaking: Sequence[float],
        *,
        added: int,
    ) -> DemandQuarter:
        import numpy as np

        loads = np.array([at["load"] * (1.0 + at["growth"]) ** quarter for at in draws])
        whose = np.array([int(at["workload"]) for at in draws])
        waits = np.empty(len(loads))
        for i, curve in enumerate(curves):
            waits[whose == i] = curve.at(loads[whose == i]) / MINUTE
        # as many domains as bring the load below that which breaks the objective
        short = np.ceil((loads / np.array(breaking)[whose] - 1.0) * len(self.now) / added)
        return DemandQuarter(
            quarter,
            percentiles(loads.tolist()),
            percentiles(waits.tolist()),
            float((waits > self.objective_wait).mean()),
            percentiles(np.maximum(short, 0.0).tolist()),
        )

    def title(self, found: GrowAnswer) -> str:
        """Return the question in words."""
        return f"When must more {found.level}s of {plural(found.added_nodes, 'node')} be ordered?"

    def verdict(self, found: GrowAnswer) -> str:
        """Return when to order, when the waits break the objective, and what the first domains more buy."""
        first, one = found.scenarios[0], found.rows[1]
        low, median, high = map(order_words, first.order)
        return (
            f"Order {median} (P10 {low}; P90 {high}): with demand that grows by {range_words(first.growth)} a quarter, "
            f"the 95th percentile of the waits is above {found.objective_wait:g} min "
            f"{quarters_words(first.breaks)}, and hardware takes {range_words(self.lead_time)} months. "
            f"With {plural(one.more, found.level)} more, it is {quarters_words(one.lasts)}."
        )

    def assumptions(self, found: GrowAnswer) -> Sequence[str]:
        """Return what demand, waits and the new domains take for granted."""
        scenarios = ", ".join(map(range_words, self.growth))
        return (
            f"Demand: {range_words(self.load)} of today's cluster, growing by {scenarios} a quarter; ranges are "
            "P10 to P90, and the defaults are examples, no forecast. More is asked for by more jobs of the same sizes "
            "and run times.",
            f"Waits are of {self.workloads} workloads of about {found.jobs:,} jobs of the LLM workload generator "
            f"(debugging, fine-tuning and small training of Kalos), {self.days:g} days each, on the empty cluster "
            f"under {found.policy}; the first quarter of the jobs fills it and is not counted.",
            "Loads are replayed by the same jobs, whose times of submission come closer; between them the wait times "
            "(1 - load) goes straight, as in heavy traffic. At a load of 1 or more the queue grows without end: the "
            "wait has no answer, and the objective is broken.",
            "GPUs are counted, not placed: for gangs of whole nodes on one type of GPU in one trunk it is the same. "
            "Larger clusters have the curve of today's at their own load; nothing fails.",
            f"The cluster is {found.cluster}; each new {found.level} has {found.added_nodes:,} nodes, is empty, and "
            "hangs on the network like the others.",
            "Largest job and objective are of the cluster as it is at one moment, placed by the exact algorithm; >= "
            "marks a size beyond which it ran out of time.",
            f"The objective (Eq. 2, {spelled(found.alpha)}) is of a job of {SHARE:.0%} of the nodes that are free "
            "today, the same job on all clusters.",
            *self.where_alpha_is_from(self.shapes_compared.jobs),
        )

    def changes(self, found: GrowAnswer) -> Sequence[str]:
        """Return what would change the answer beside its inputs."""
        low, median, high = found.load_at_objective
        return (
            f"The objective: {found.objective_wait:g} min is kept up to a load of {median:.0%} ({low:.0%} to "
            f"{high:.0%} over the workloads); a longer one allows a higher load.",
            "The other scenarios of growth: "
            + "; ".join(f"{range_words(one.growth)}: order {order_words(one.order[1])}" for one in found.scenarios[1:])
            + ".",
        )[: 1 + bool(found.scenarios[1:])]

    def sheet(self, answer: GrowAnswer) -> Sheet:
        """Return demand, waits and orders by quarter and scenario, and what larger clusters hold."""
        return grow_sheet(answer)
