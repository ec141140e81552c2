"""When must more nodes be ordered, if demand grows, jobs may not wait for long and hardware takes months to come?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import mean
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.quantities import MINUTE, number, plural, several
from simulator.capacity.affinity_question import spelled
from simulator.capacity.answer_range import AnswerRange, answer_range, percentiles
from simulator.capacity.capacity_question import AnswerFigure
from simulator.capacity.cluster_question import ShapesQuestion
from simulator.capacity.grow.grow_answer import DemandQuarter, GrowAnswer, GrownCluster, GrowthScenario
from simulator.capacity.grow.grow_sheet import grow_sheet, order_words, quarters_words
from simulator.capacity.grow.growing_demand import MONTHS, NOT_SOON, growth_input, quarters_until
from simulator.capacity.grow.grown_shapes import SHARE, GrownShapes
from simulator.capacity.hardware_prices import NodePrices
from simulator.capacity.uncertain_input import (
    HIGH,
    LOW,
    UncertainInput,
    chance_of,
    draw,
    numbered_input,
    option_input,
    range_words,
    source_of,
)
from simulator.replay_settings import QueueSettings
from simulator.sheet import Sheet

if TYPE_CHECKING:
    from simulator.capacity.grow.wait_curve import WaitCurve
    from topology.cluster import Cluster

RANGE = {"metavar": "SHARE|RANGE"}
CHANCES = (LOW, HIGH)  # Probabilities at which it is told how well a run knows its waits


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
        run = UncertainInput("run", "chance in a run (standard errors)", chance_of, "batch means")
        source = source_of(self, "growth")
        return tuple((growth_input(text, source=source), load, lead, jobs, run) for text in self.growth)

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
        from simulator.capacity.grow.wait_curve import HIGHEST, wait_curve

        draws = [draw(inputs, draws=self.draws, seed=self.seed) for inputs in self.inputs]
        objective = MINUTE * self.objective_wait
        least = min(at["load"] * min(1.0, 1.0 + at["growth"]) ** self.quarters for each in draws for at in each)
        curves = []
        for seed in range(self.seed, self.seed + self.workloads):
            step(f"workload {seed}")
            curves.append(wait_curve(self.empty, self, days=self.days, seed=seed, objective=objective, least=least))
        breaking = [curves[int(at["workload"])].breaks(objective, chance=at["run"]) for at in draws[0]]
        level, added = self._domains()
        rows = []
        for more in sorted({0, *self.more}):
            step(f"{more} more")
            rows.append(self._grown(more, level, added, curves))
        # how well a run knows the waits where they break the objective
        known = [float(curve.at(curve.breaks(objective), chance=chance_of(u))) for curve in curves for u in CHANCES]
        node_hour, load = self.node_hour(self.empty.node_size), percentiles(breaking)
        return GrowAnswer(
            ranges=(self._when_to_order(curves),),
            cluster=self.cluster_name,
            level=level,
            added_nodes=added,
            policy=self.policy,
            jobs=curves[0].jobs,
            objective_wait=self.objective_wait,
            load_at_objective=load,
            kept=sum(curve.kept(objective) for curve in curves) / len(curves),
            highest_load=HIGHEST,
            run_minutes=(mean(known[0::2]) / MINUTE, mean(known[1::2]) / MINUTE),
            cost_used_gpu_hour=None if node_hour is None else node_hour / self.empty.node_size / load[1],
            cost_domain_hour=None if node_hour is None else node_hour * added,
            alpha=self.alpha_of_all(self.shapes_compared.jobs),
            scenarios=tuple(
                self._scenario(growth, each, curves, added=added)
                for growth, each in zip(self.growth, draws, strict=True)
            ),
            rows=tuple(rows),
        )

    def _domains(self) -> tuple[str, int]:
        """Return the level of the domains that are added, and the nodes of each."""
        import numpy as np

        level = self.now.levels[self.now.level_index(self.level, where="--level")]
        return level.name, self.domain_nodes or int(np.bincount(np.bincount(level.domain_of)).argmax())

    def _grown(self, more: int, level: str, added: int, curves: Sequence[WaitCurve]) -> GrownCluster:
        """Return a cluster with more domains; demand reaches the load at which it breaks later by its size."""
        from topology.generate import with_domain

        grown: Cluster = self.now
        for _ in range(more):
            grown = with_domain(grown, added, level=level)
        size, draws = len(grown) / len(self.now), draw(self.inputs[0], draws=self.draws, seed=self.seed)
        lasts = [self._breaks(curves, at, size=size) for at in draws]
        return GrownCluster(more, len(grown), int(grown.idle.sum()), percentiles(lasts), self.shapes_compared.on(grown))

    def _breaks(self, curves: Sequence[WaitCurve], at: Mapping[str, float], *, size: float = 1.0) -> float:
        """Return the quarters until the waits break the objective, at values of the inputs, to a tenth: nine days.

        :param size: nodes of the cluster as a share of today's.
        """
        load = curves[int(at["workload"])].breaks(MINUTE * self.objective_wait, chance=at["run"])
        return round(quarters_until(load * size, today=at["load"], growth=at["growth"]), 1)

    def _order(self, curves: Sequence[WaitCurve], at: Mapping[str, float]) -> float:
        return round(self._breaks(curves, at) - at["lead_time"] / MONTHS, 1)

    def _when_to_order(self, curves: Sequence[WaitCurve]) -> AnswerRange:
        """Return when to order in the first scenario."""
        order, inputs = partial(self._order, curves), self.inputs[0]
        words = "quarters until the order"
        return replace(answer_range(words, order, inputs, draws=self.draws, seed=self.seed), beyond=NOT_SOON)

    def _scenario(
        self, growth: str, draws: Sequence[Mapping[str, float]], curves: Sequence[WaitCurve], *, added: int
    ) -> GrowthScenario:
        import numpy as np

        quarters = range(self.quarters + 1)
        # a row a draw, a column a quarter
        loads = np.array([[at["load"] * (1.0 + at["growth"]) ** quarter for quarter in quarters] for at in draws])
        whose = [curves[int(at["workload"])] for at in draws]
        chances = [at["run"] for at in draws]
        minutes = np.array(
            [curve.at(row, chance=run) / MINUTE for curve, row, run in zip(whose, loads, chances, strict=True)]
        )
        breaking = [
            curve.breaks(MINUTE * self.objective_wait, chance=run) for curve, run in zip(whose, chances, strict=True)
        ]
        # as many domains as bring the load below that which breaks the objective
        short = np.ceil((loads / np.array(breaking)[:, None] - 1.0) * len(self.now) / added)
        return GrowthScenario(
            growth,
            percentiles([self._breaks(curves, at) for at in draws]),
            percentiles([self._order(curves, at) for at in draws]),
            tuple(
                DemandQuarter(
                    quarter,
                    percentiles(loads[:, quarter].tolist()),
                    percentiles(minutes[:, quarter].tolist()),
                    float((minutes[:, quarter] > self.objective_wait).mean()),
                    percentiles(np.maximum(short[:, quarter], 0.0).tolist()),
                )
                for quarter in quarters
            ),
        )

    def title(self, found: GrowAnswer) -> str:
        """Return the question in words."""
        return f"When must more {several(found.level)} of {plural(found.added_nodes, 'node')} be ordered?"

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

    def figure(self, found: GrowAnswer) -> AnswerFigure:
        """Return when to order in the first scenario."""
        low, median, high = found.scenarios[0].order
        when, _, late = order_words(median).partition(", ")
        decides = f"; {found.ranges[0].decides} decides" if found.ranges[0].decides else ""
        return AnswerFigure(
            when,
            f"when to order more {several(found.level)}",
            f"{late}{'; ' if late else ''}P10 {order_words(low)}, P90 {order_words(high)}{decides}",
            ranged=True,
        )

    def assumptions(self, found: GrowAnswer) -> Sequence[str]:
        """Return what demand, waits and the new domains take for granted."""
        scenarios = ", ".join(map(range_words, self.growth))
        return (
            f"Demand: {range_words(self.load)} of today's cluster, growing by {scenarios} a quarter; ranges are "
            "P10 to P90, and the defaults are examples, no forecast. More is asked for by more jobs of the same sizes "
            "and run times.",
            f"Waits are of {plural(self.workloads, 'workload')} of about {found.jobs:,} jobs of the LLM workload "
            f"generator (debugging, fine-tuning and small training of Kalos), {self.days:g} days each, on the empty "
            f"cluster under {found.policy}; the first quarter of the jobs fills it and is not counted.",
            "Loads are replayed by the same jobs, whose times of submission come closer, in steps that are halved "
            f"where the objective breaks. Above a load of {found.highest_load:.0%}, the highest that is replayed, "
            f"waits have no answer, and the objective counts as broken{self._kept(found)}.",
            f"Runs of {self.days:g} days know their 95th percentile only so well: where it is {found.objective_wait:g} "
            f"min, {number(found.run_minutes[0])} to {number(found.run_minutes[1])} min (P10 to P90, batch means). The "
            "ranges hold that; --days makes runs longer.",
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

    @staticmethod
    def _kept(found: GrowAnswer) -> str:
        """Return for how many workloads the objective is not known to break where it is taken to."""
        words = f", though {found.kept:.0%} of the workloads keep it there: a shorter --objective-wait breaks below"
        return words if found.kept else ""

    def changes(self, found: GrowAnswer) -> Sequence[str]:
        """Return what would change the answer beside its inputs."""
        low, median, high = found.load_at_objective
        return (
            f"The objective: {found.objective_wait:g} min is kept up to a load of {median:.0%} ({low:.0%} to "
            f"{high:.0%} over workloads and runs); a longer one allows a higher load.",
            "The other scenarios of growth: "
            + "; ".join(f"{range_words(one.growth)}: order {order_words(one.order[1])}" for one in found.scenarios[1:])
            + ".",
        )[: 1 + bool(found.scenarios[1:])]

    def sheet(self, answer: GrowAnswer) -> Sheet:
        """Return demand, waits and orders by quarter and scenario, and what larger clusters hold."""
        return grow_sheet(answer)
