"""When must more nodes be ordered, if demand grows, jobs may not wait for long and hardware takes months to come?

Waits by load are replayed (:mod:`simulator.capacity.wait_curve`); demand that grows reaches the load that breaks the
objective some quarters from now, and hardware is ordered as much earlier as it takes to come.  What larger clusters
hold of jobs of several shapes is placed on them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite, log
from statistics import mean
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.quantities import MINUTE, fixed, number, plural, several
from ground.records import AtLeastOne, Count, JsonRecord, NotNegative, Share
from simulator.capacity.cluster_question import LargestJob, ShapesQuestion, SizedShape, spelled
from simulator.capacity.hardware_prices import NodePrices
from simulator.capacity.question import (
    HIGH,
    LOW,
    AnswerFigure,
    CapacityAnswer,
    InputPoints,
    Percentiles,
    UncertainInput,
    chance_of,
    lognormal,
    numbered_input,
    option_input,
    percentiles,
    range_words,
    source_of,
)
from simulator.replay_settings import QueueSettings
from simulator.sheet import Chart, Series, Sheet, TextTable, known, text_table

if TYPE_CHECKING:
    from simulator.capacity.wait_curve import WaitCurve
    from topology.cluster import Cluster


class DemandQuarter(JsonRecord):
    """The end of a quarter."""

    quarter: Count
    """Quarters from now; 0 = today."""
    load: Percentiles
    """GPU time that jobs ask for, as a share of today's cluster."""
    wait_minutes: Percentiles
    """95th percentile of the waits; null = a load above `highest_load`, which is not replayed."""
    broken: Share
    """Share of the draws in which the waits are above the objective."""
    minipods: Percentiles
    """Domains beyond today's with which the objective is kept."""


class GrowthScenario(JsonRecord):
    """What becomes of the waits if demand grows as one scenario says."""

    growth: str
    """Growth a quarter, as it was given."""
    breaks: Percentiles
    """Quarters from now in which the waits rise above the objective; 0 = they are above it; null = not in 10 years."""
    order: Percentiles
    """Quarters from now in which to order: those of `breaks` less the lead time; negative = so many quarters ago."""
    quarters: tuple[DemandQuarter, ...]
    """Waits by quarter, today first."""


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


class GrownCluster(JsonRecord):
    """One cluster."""

    more: Count
    """Domains that were added."""
    nodes: AtLeastOne
    """Nodes in all."""
    free: Count
    """Nodes that are idle and not faulty."""
    lasts: Percentiles
    """Quarters from now in which the waits on it rise above the objective, first scenario; null = not in 10 years."""
    shapes: tuple[GrownShape, ...]
    """Results by shape of job."""


class GrowAnswer(CapacityAnswer, kw_only=True):
    """When to order more domains, and what they buy."""

    cluster: str
    """What the cluster is called."""
    level: str
    """Level of the domains that are added."""
    added_nodes: AtLeastOne
    """Nodes of each domain that is added."""
    policy: str
    """Queue policy of the replays."""
    jobs: Count
    """Jobs of the workload of the first seed."""
    objective_wait: float
    """What the 95th percentile of the waits is to stay below, minutes."""
    load_at_objective: Percentiles
    """Load from which the waits are above it, over the workloads and what chance does in a run of each."""
    kept: Share
    """Share of the workloads whose waits keep the objective up to `highest_load`, where it is then taken to break."""
    highest_load: Share
    """The highest load that is replayed: above it waits have no answer."""
    run_minutes: tuple[float, float]
    """What the percentile may be where it is the objective, as a run knows it: P10 and P90 in minutes, batch means."""
    cost_used_gpu_hour: float | None
    """What a GPU-hour in use costs at the median of that load: idle GPUs are the price of short waits; null = no
    price was given."""
    cost_domain_hour: NotNegative | None
    """What each domain that is added costs an hour; null = no price was given."""
    alpha: float | None
    """DP affinity of the jobs of the shapes; null = they differ, as their model has it."""
    scenarios: tuple[GrowthScenario, ...]
    """Scenarios of growth in the order given; the first is that of the headline."""
    rows: tuple[GrownCluster, ...]
    """Today's cluster first."""


MONTHS = 3.0  # Of a quarter
FARTHEST = 40.0  # Quarters: nobody plans for what comes later
NOT_SOON = "not in 10 years"
SHOWN = 4.0  # Objectives that the axis of waits holds; longer waits are cut there
SHARE = 0.9  # Size of the job whose objective is compared, as a share of the nodes that are free today

_RATE = r"(-?[0-9]{1,6}(?:\.[0-9]{1,9})?)"
_GROWTH = re.compile(rf"{_RATE}(?:\.\.{_RATE})?")


def growth_input(text: str, *, source: str = "given") -> UncertainInput:
    """Return the growth a quarter that a user's ``0.08`` or ``0.05..0.12`` stands for: 1 plus it is log-normal.

    :raises InvalidInput: it is neither, or demand would vanish or grow more than a hundredfold.
    """
    ends = _GROWTH.fullmatch(text.strip())
    fix = "give the growth a quarter, or its P10..P90, from above -1 (all is gone) to 100, as 0.05..0.12"
    if ends is None:
        raise InvalidInput(f"{text[:40]!r} is neither a rate of growth nor a range", where="--growth", fix=fix)
    low, high = float(ends[1]), float(ends[2] or ends[1])
    if not -1.0 < low <= high <= 100.0:
        raise InvalidInput(f"growth of {text[:40]} is out of bounds", where="--growth", fix=fix)
    factor = lognormal(1.0 + low, 1.0 + high)
    return UncertainInput("growth", "growth of demand a quarter", lambda u: factor(u) - 1.0, source)


def quarters_until(load: float, *, today: float, growth: float) -> float:
    """Return quarters until demand reaches a load: 0 where it is there already, infinity beyond :data:`FARTHEST`.

    Demand after t quarters is ``today * (1 + growth) ** t``.

    :param load: above 0, as ``today`` is.
    :param growth: a quarter, above -1.
    """
    if today >= load:
        return 0.0
    if growth <= 0.0:
        return inf
    quarters = log(load / today) / log(1.0 + growth)
    return quarters if quarters <= FARTHEST else inf


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
    def inputs(self) -> tuple[InputPoints, ...]:
        """What is uncertain, for each scenario; all but the growth is the same, and drawn the same.

        :raises InvalidInput: an option is neither a number nor a range, or out of bounds.
        """
        load = option_input(self, "load", "load today", least=1e-3, most=100.0)
        lead = option_input(self, "lead_time", "months of lead time", most=120.0)
        jobs = numbered_input(self.workloads, "workload", "which jobs come")
        run = UncertainInput("run", "chance in a run (standard errors)", chance_of, "batch means")
        source = source_of(self, "growth")
        return tuple(
            InputPoints((growth_input(text, source=source), load, lead, jobs, run), self.draws, self.seed)
            for text in self.growth
        )

    @cached_property
    def compared_jobs(self) -> list[SizedShape]:
        """The job of each shape whose objective is compared on all clusters."""
        today = self.prober(self.now)
        return [(shape, max(1, int(SHARE * today.most_rows(shape)))) for shape in self.job_shapes]

    @property
    def steps(self) -> int:
        """One for each workload and each cluster, today's among them."""
        return self.workloads + len({0, *self.more})

    def compute(self, step: Callable[[str], None]) -> GrowAnswer:
        """Return the curves of waits, what becomes of them in each scenario, and what the larger clusters hold."""
        import numpy as np

        from simulator.capacity.wait_curve import HIGHEST, wait_curve
        from topology.generate import with_domain

        # What cannot be asked of the cluster is refused before minutes of replays.
        now = self.now
        level = now.levels[now.level_index(self.level, where="--level")]
        _ = self.compared_jobs
        draws = [scenario.values[: self.draws] for scenario in self.inputs]
        objective = MINUTE * self.objective_wait
        least = min(at["load"] * min(1.0, 1.0 + at["growth"]) ** self.quarters for drawn in draws for at in drawn)
        curves = []
        for seed in range(self.seed, self.seed + self.workloads):
            step(f"workload {seed}")
            curves.append(wait_curve(self.empty, self, days=self.days, seed=seed, objective=objective, least=least))

        def breaks(at: Mapping[str, float], *, size: float = 1.0) -> float:
            """Return the quarters until the waits break the objective, to a tenth: nine days.

            :param size: nodes of the cluster as a share of today's: demand reaches the load later by it.
            """
            load = curves[int(at["workload"])].breaks(objective, chance=at["run"])
            return round(quarters_until(load * size, today=at["load"], growth=at["growth"]), 1)

        def order(at: Mapping[str, float]) -> float:
            return round(breaks(at) - at["lead_time"] / MONTHS, 1)

        added = self.domain_nodes or int(np.bincount(np.bincount(level.domain_of)).argmax())
        rows, grown = [], now
        for more in range(max(self.more) + 1):
            if more in {0, *self.more}:
                step(f"{more} more")
                lasts = [breaks(at, size=len(grown) / len(now)) for at in draws[0]]
                free = int(grown.idle.sum())
                rows.append(GrownCluster(more, len(grown), free, percentiles(lasts), self.shapes_on(grown)))
            if more < max(self.more):
                grown = with_domain(grown, added, level=level.name)
        # how well a run knows the waits where they break the objective
        at_the_objective = [
            [float(curve.at(curve.breaks(objective), chance=chance_of(share))) for curve in curves]
            for share in (LOW, HIGH)
        ]
        load = percentiles([curves[int(at["workload"])].breaks(objective, chance=at["run"]) for at in draws[0]])
        node_hour = self.node_hour(self.empty.node_size)
        return GrowAnswer(
            ranges=(replace(self.inputs[0].range_over("quarters until the order", order), beyond=NOT_SOON),),
            cluster=self.cluster_name,
            level=level.name,
            added_nodes=added,
            policy=self.policy,
            jobs=curves[0].jobs,
            objective_wait=self.objective_wait,
            load_at_objective=load,
            kept=sum(curve.kept(objective) for curve in curves) / len(curves),
            highest_load=HIGHEST,
            run_minutes=(mean(at_the_objective[0]) / MINUTE, mean(at_the_objective[1]) / MINUTE),
            cost_used_gpu_hour=None if node_hour is None else node_hour / self.empty.node_size / load[1],
            cost_domain_hour=None if node_hour is None else node_hour * added,
            alpha=self.alpha_of_all(self.compared_jobs),
            scenarios=tuple(
                GrowthScenario(
                    growth,
                    percentiles(list(map(breaks, drawn))),
                    percentiles(list(map(order, drawn))),
                    tuple(self._quarters(drawn, curves, added=added)),
                )
                for growth, drawn in zip(self.growth, draws, strict=True)
            ),
            rows=tuple(rows),
        )

    def _quarters(
        self, draws: Sequence[Mapping[str, float]], curves: Sequence[WaitCurve], *, added: int
    ) -> Iterator[DemandQuarter]:
        """Yield the quarters of a scenario, today first."""
        import numpy as np

        # a row a draw, a column a quarter
        quarters = range(self.quarters + 1)
        loads = np.array([[at["load"] * (1.0 + at["growth"]) ** quarter for quarter in quarters] for at in draws])
        runs = [(curves[int(at["workload"])], at["run"]) for at in draws]
        minutes = np.array([curve.at(row, chance=run) / MINUTE for (curve, run), row in zip(runs, loads, strict=True)])
        breaking = np.array([curve.breaks(MINUTE * self.objective_wait, chance=run) for curve, run in runs])
        # as many domains as bring the load below that which breaks the objective
        short = np.ceil((loads / breaking[:, None] - 1.0) * len(self.now) / added)
        for quarter in quarters:
            yield DemandQuarter(
                quarter,
                percentiles(loads[:, quarter].tolist()),
                percentiles(minutes[:, quarter].tolist()),
                float((minutes[:, quarter] > self.objective_wait).mean()),
                percentiles(np.maximum(short[:, quarter], 0.0).tolist()),
            )

    def shapes_on(self, cluster: Cluster) -> tuple[GrownShape, ...]:
        """Return every shape on a cluster that has grown: the largest job, and the worth of the job of today."""
        prober, shapes = self.prober(cluster), []
        for shape, rows in self.compared_jobs:
            most, alpha = prober.most_rows(shape), self.affinity(shape, rows).alpha
            # a PP group of one node is always whole: nothing to search for
            whole = prober.largest(shape, "pp", 1) if shape.pp > 1 else LargestJob("pp", 1, most, proved=True)
            shapes.append(
                GrownShape(
                    shape=shape.name,
                    most_nodes=most * shape.pp,
                    whole_nodes=whole.nodes,
                    whole_proved=whole.proved,
                    job_nodes=rows * shape.pp,
                    alpha=alpha,
                    objective=prober.place(shape, rows, alpha).objective if rows <= most else None,
                )
            )
        return tuple(shapes)

    def title(self, answer: GrowAnswer) -> str:
        """Return the question in words."""
        return f"When must more {several(answer.level)} of {plural(answer.added_nodes, 'node')} be ordered?"

    def verdict(self, answer: GrowAnswer) -> str:
        """Return when to order, when the waits break the objective, and what the first domains more buy."""
        first, larger = answer.scenarios[0], answer.rows[1]
        low, median, high = map(order_words, first.order)
        return (
            f"Order {median} (P10 {low}; P90 {high}): with demand that grows by {range_words(first.growth)} a quarter, "
            f"the 95th percentile of the waits is above {answer.objective_wait:g} min "
            f"{quarters_words(first.breaks)}, and hardware takes {range_words(self.lead_time)} months. "
            f"With {plural(larger.more, answer.level)} more, it is {quarters_words(larger.lasts)}."
        )

    def figure(self, answer: GrowAnswer) -> AnswerFigure:
        """Return when to order in the first scenario."""
        low, median, high = answer.scenarios[0].order
        when, _, late = order_words(median).partition(", ")
        decides = f"; {answer.ranges[0].decides} decides" if answer.ranges[0].decides else ""
        return AnswerFigure(
            when,
            f"when to order more {several(answer.level)}",
            f"{late}{'; ' if late else ''}P10 {order_words(low)}, P90 {order_words(high)}{decides}",
            ranged=True,
        )

    def assumptions(self, answer: GrowAnswer) -> Sequence[str]:
        """Return what demand, waits and the new domains take for granted."""
        scenarios = ", ".join(map(range_words, self.growth))
        low, high = map(number, answer.run_minutes)
        kept = f", though {answer.kept:.0%} of the workloads keep it there: a shorter --objective-wait breaks below"
        return (
            f"Demand: {range_words(self.load)} of today's cluster, growing by {scenarios} a quarter; ranges are "
            "P10 to P90, and the defaults are examples, no forecast. More is asked for by more jobs of the same sizes "
            "and run times.",
            f"Waits are of {plural(self.workloads, 'workload')} of about {answer.jobs:,} jobs of the LLM workload "
            f"generator (debugging, fine-tuning and small training of Kalos), {self.days:g} days each, on the empty "
            f"cluster under {answer.policy}; the first quarter of the jobs fills it and is not counted.",
            "Loads are replayed by the same jobs, whose times of submission come closer, in steps that are halved "
            f"where the objective breaks. Above a load of {answer.highest_load:.0%}, the highest that is replayed, "
            f"waits have no answer, and the objective counts as broken{kept if answer.kept else ''}.",
            f"Runs of {self.days:g} days know their 95th percentile only so well: where it is "
            f"{answer.objective_wait:g} min, {low} to {high} min (P10 to P90, batch means). The ranges hold that; "
            "--days makes runs longer.",
            "GPUs are counted, not placed: for gangs of whole nodes on one type of GPU in one trunk it is the same. "
            "Larger clusters have the curve of today's at their own load; nothing fails.",
            f"The cluster is {answer.cluster}; each new {answer.level} has {answer.added_nodes:,} nodes, is empty, and "
            "hangs on the network like the others.",
            "Largest job and objective are of the cluster as it is at one moment, placed by the exact algorithm; >= "
            "marks a size beyond which it ran out of time.",
            f"The objective (Eq. 2, {spelled(answer.alpha)}) is of a job of {SHARE:.0%} of the nodes that are free "
            "today, the same job on all clusters.",
            *self.where_alpha_is_from(self.compared_jobs),
        )

    def changes(self, answer: GrowAnswer) -> Iterator[str]:
        """Yield what would change the answer beside its inputs."""
        low, median, high = answer.load_at_objective
        yield (
            f"The objective: {answer.objective_wait:g} min is kept up to a load of {median:.0%} ({low:.0%} to "
            f"{high:.0%} over workloads and runs); a longer one allows a higher load."
        )
        others = [
            f"{range_words(scenario.growth)}: order {order_words(scenario.order[1])}"
            for scenario in answer.scenarios[1:]
        ]
        if others:
            yield f"The other scenarios of growth: {'; '.join(others)}."

    def sheet(self, answer: GrowAnswer) -> Sheet:
        """Return all scenarios, the first by quarter and what larger clusters hold; waits by quarter drawn."""
        first, domains = answer.scenarios[0], several(answer.level)
        growth = range_words(first.growth)
        scenarios: dict[str, Callable[[GrowthScenario], str]] = {
            "growth a quarter": lambda row: range_words(row.growth),
            "order": lambda row: _three(row.order, NOT_SOON),
            "waits break the objective": lambda row: _three(row.breaks, NOT_SOON),
            "load at the end": lambda row: _three(row.quarters[-1].load),
        }
        quarters: dict[str, Callable[[DemandQuarter], str]] = {
            "quarter": lambda row: str(row.quarter) if row.quarter else "today",
            "load": lambda row: " / ".join(f"{share:.2f}" for share in row.load),
            "95% wait at most, min": lambda row: _three(row.wait_minutes, "no answer"),
            "objective broken": lambda row: f"{row.broken:.0%}",
            f"{domains} to buy": lambda row: _three(row.minipods),
        }
        clusters: dict[str, Callable[[GrownCluster], str]] = {
            f"{domains} more": lambda row: str(row.more),
            "nodes": lambda row: f"{row.nodes:,}",
            "free now": lambda row: f"{row.free:,}",
            "waits break the objective": lambda row: _three(row.lasts, NOT_SOON),
        }
        demand = f"Demand and waits under {answer.policy}, growth {growth}: P10 / P50 / P90"
        tables = [
            text_table("By scenario, quarters from now: P10 / P50 / P90", answer.scenarios, scenarios),
            text_table(demand, first.quarters, quarters),
            text_table(f"With more {domains}, growth {growth}", answer.rows, clusters),
            shapes_table(answer.level, [(row.more, row.shapes) for row in answer.rows]),
        ]
        if answer.cost_domain_hour is not None:
            used = f"a GPU-hour in use at a load of {answer.load_at_objective[1]:.0%}"
            costs = [
                (f"a {answer.level} more, an hour", known(answer.cost_domain_hour, ",.0f")),
                (used, known(answer.cost_used_gpu_hour, ",.2f")),
            ]
            tables.append(TextTable("Money", ("", "cost"), costs))
        return Sheet(tables=tables, charts=(_waits(answer),))


def order_words(quarters: float) -> str:
    """Return when to order: ``in 1.3 quarters``, ``now``, ``now, 2.0 quarters late``, ``nothing yet``."""
    if not isfinite(quarters):
        return "nothing yet"
    words = f"{fixed(abs(quarters), digits=1)} quarters"
    if quarters > 0.0:
        return f"in {words}"
    return "now" if words == "0.0 quarters" else f"now, {words} late"


def quarters_words(found: Percentiles) -> str:
    """Return P50, and P10 and P90 behind it: ``in 3.5 quarters (P10 2.2, P90 6.2)``, ``not in 10 years``."""
    low, median, high = (fixed(value, digits=1) if isfinite(value) else NOT_SOON for value in found)
    if not isfinite(found[0]):
        return NOT_SOON
    ends = f"(P10 {low}, P90 {high})"
    if found[1] == 0.0:
        return f"today already {ends}"
    return f"in {median} quarters {ends}" if isfinite(found[1]) else f"{median} {ends}"


def shapes_table(level: str, grown: Sequence[tuple[int, Sequence[GrownShape]]]) -> TextTable:
    """Return a line for each shape on each cluster, one shape after the other.

    :param grown: domains that were added, and the shapes on that cluster.
    """
    columns: dict[str, Callable[[tuple[int, GrownShape]], str]] = {
        "shape": lambda row: row[1].shape,
        f"{several(level)} more": lambda row: str(row[0]),
        "largest job": lambda row: f"{row[1].most_nodes:,}",
        "PP groups whole": lambda row: f"{'' if row[1].whole_proved else '>= '}{row[1].whole_nodes:,}",
        "job of": lambda row: f"{row[1].job_nodes:,}",
        "objective": lambda row: known(row[1].objective, ".2f"),
    }
    rows = [(more, shapes[i]) for i in range(len(grown[0][1])) for more, shapes in grown]
    return text_table("Largest job and objective, by shape", rows, columns)


def _three(values: Percentiles, beyond: str = "-") -> str:
    return " / ".join(number(value) if isfinite(value) else beyond for value in values)


def _waits(answer: GrowAnswer) -> Chart:
    first, objective = answer.scenarios[0], answer.objective_wait
    top = SHOWN * objective
    series = []
    for scenario in answer.scenarios:
        # medians by quarter, up to the first that is cut
        points: list[tuple[float, float | None]] = []
        beyond = 0
        for row in scenario.quarters:
            beyond += row.wait_minutes[1] > top
            points.append((float(row.quarter), min(row.wait_minutes[1], top) if beyond <= 1 else None))
        series.append(Series(f"growth {range_words(scenario.growth)}", points))
    band = [(min(row.wait_minutes[0], top), min(row.wait_minutes[2], top)) for row in first.quarters]
    series[0] = replace(series[0], band=([low for low, _ in band], [high for _, high in band]))
    last = float(first.quarters[-1].quarter)
    series.append(Series("objective", [(0.0, objective), (last, objective)], shape="dashes"))
    order = [min(max(at, 0.0), last) for at in first.order]
    # a little above the axis, where it is seen
    series.append(Series("order, P10 to P90", [(at, 0.05 * top) for at in order]))
    return Chart(
        title=f"95th percentile of the waits; band: P10 to P90, growth {range_words(first.growth)}",
        x_label="quarters from now",
        y_label=f"minutes, cut at {top:g}",
        series=series,
        floor=0.0,
        ceiling=top,
        lines=((order[1], "order"), (min(first.breaks[1], last), "broken")),
    )
