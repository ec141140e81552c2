"""How many spares make the useful hours of a job cheapest, and how many reach an ETTR?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.quantities import HOUR, plural
from ground.records import Seed
from health.recovery.restarts import standby_pool
from simulator.capacity.answer_range import AnswerRange, InputPoints
from simulator.capacity.capacity_question import AnswerFigure, CapacityQuestion
from simulator.capacity.hardware_prices import HOURS_OF_A_YEAR, HardwarePrices
from simulator.capacity.spares.spares_answer import FailureDomain, SourcedSpares, SparesAnswer, SparesRow
from simulator.capacity.spares.spares_inputs import (
    PUBLISHED,
    REPAIR,
    RESTART,
    failures_input,
    repair_input,
    restart_input,
)
from simulator.capacity.spares.spares_model import SparesModel, rows_of
from simulator.capacity.spares.spares_sheet import (
    NEVER,
    as_asked,
    assumed_of,
    changes_of,
    figure_of,
    spares_sheet,
    verdict_on,
)
from simulator.capacity.spares.stated_domains import OPTION, StatedDomain, stated_domain
from simulator.failures.expected_ettr import first_order_ettr
from simulator.failures.rates import MEASURED_MTTF_GPUS, MEASURED_MTTF_HOURS, RATES, FailureRate, mttf
from simulator.sheet import Sheet

if TYPE_CHECKING:
    from topology.cluster import Cluster
else:
    # no option is made of a cluster, and reading the options imports no numpy
    Cluster = Any

ROWS = 12  # Rows of the answer, about
SECONDS = {"metavar": "SECONDS"}


@dataclass(frozen=True, kw_only=True)
class SparesQuestion(CapacityQuestion[SparesAnswer], HardwarePrices):
    """Say how many spares make the useful hours of a job cheapest, by formula and by Monte Carlo.

    Inputs may be ranges, P10..P90: the answer has one too.  Exits 3 if no number of spares reaches --target-ettr.
    """

    answer_type: ClassVar = SparesAnswer

    nodes: Annotated[int, Interval(ge=1, le=1_000_000)] = field(metadata={"metavar": "N"})
    """Nodes of the job."""
    target: Annotated[float | None, Interval(gt=0, lt=1)] = field(
        default=None, metadata={"option": "--target-ettr", "metavar": "SHARE"}
    )
    """ETTR to reach; the answer says how many spares that takes."""
    failures: str = field(
        default=PUBLISHED, metadata={"metavar": "RATE|NAME|RANGE", "default": "all four, as published"}
    )
    """Failures per 1,000 node-days: a number, or rsc-1, rsc-2, llama3, byterobust as measured there."""
    repair_hours: str = field(default=REPAIR, metadata={"metavar": "HOURS|RANGE"})
    """Hours until a failed node is back, on average."""
    restart: str = field(default=RESTART, metadata={"metavar": "SECONDS|NAME|RANGE"})
    """Seconds from a failure to training again; or requeue or hot-update, as ByteRobust measured."""
    failure_domains: tuple[str, ...] = field(
        default=(), metadata={"option": "--failure-domain", "metavar": "NAME[:NODES[:RATE[:HOURS]]]"}
    )
    """Nodes that fail at once, leaf:32, with failures per 1,000 domain-days and hours; without nodes a level of the
    cluster."""
    gpus_per_node: Annotated[int, Interval(ge=1, le=4096)] = field(default=8, metadata={"metavar": "N"})
    """GPUs of each node, where nothing else says it."""
    job_checkpoint_write: Annotated[float, Interval(gt=0, le=86_400)] = field(default=10.0, metadata=SECONDS)
    """Seconds for which writing a checkpoint keeps the job from training."""
    job_checkpoint_interval: Annotated[float | None, Interval(gt=0, le=1e9)] = field(
        default=None, metadata=SECONDS | {"default": "the best, sqrt(2 w / (N r))"}
    )
    """Seconds of training between the checkpoints of a job."""
    draws: Annotated[int | None, Interval(ge=10, le=10_000)] = field(
        default=None, metadata={"metavar": "N", "default": "1000, with failure domains 250"}
    )
    """Draws of the uncertain inputs."""
    days: Annotated[float, Interval(ge=1, le=3_660)] = field(default=180.0, metadata={"metavar": "DAYS"})
    """Simulated days of each run."""
    runs: Annotated[int, Interval(ge=2, le=10_000)] = 20
    """Runs of the Monte Carlo."""
    seed: Seed = 0
    """Seed of all that is drawn: same seed, same answer, where no clock ends a search."""
    cluster: Cluster | None = field(default=None, repr=False, compare=False, metadata={"option": False})
    """The cluster whose levels are failure domains."""
    source: str = field(default="the cluster", metadata={"option": False})
    """What the given cluster is called."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_prices()
        if self.price_switch_port is not None and self.price_node is None:
            fix = "give --price-node too, or --price-gpu-hour alone"
            wrong = "a switch port is only a part of what a node costs"
            if self.price_gpu_hour is not None:
                wrong = "a GPU-hour's price holds what --price-switch-port says"
            raise InvalidInput(wrong, where="--price-switch-port", fix=fix)
        if self.cluster is not None and not self.failure_domains:
            fix = "name the level whose domains fail at once: --failure-domain leaf"
            raise InvalidInput("nothing is asked of the cluster", where="--cluster", fix=fix)
        _ = self.model

    @property
    def gpu_hour(self) -> float | None:
        """What a GPU-hour costs, with a switch port a GPU if these have a price; ``None`` = no price says it."""
        node = self.node_hour(self.gpus_per_node)
        ports = self.an_hour(self.price_switch_port or 0.0)
        return None if node is None else node / self.gpus_per_node + ports

    @cached_property
    def domains(self) -> tuple[StatedDomain, ...]:
        """The kinds of domains that fail at once.

        :raises InvalidInput: one is stated badly, or twice.
        """
        found = tuple(stated_domain(text, self.cluster) for text in self.failure_domains)
        names = [one.name for one in found]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidInput(f"{twice[0][:40]} stands twice", where=OPTION, fix="name each kind once")
        return found

    @cached_property
    def model(self) -> SparesModel:
        """What each number of spares is worth at each point of the inputs."""
        of_domains = (one for domain in self.domains for one in (domain.rate, domain.hours))
        restart = restart_input(self.restart, gpus=self.nodes * self.gpus_per_node)
        inputs = (failures_input(self.failures), repair_input(self.repair_hours), restart, *of_domains)
        points = InputPoints(inputs, self.draws or (250 if self.domains else 1_000), self.seed)
        return SparesModel(self.nodes, self.job_checkpoint_write, self.job_checkpoint_interval, self.domains, points)

    @cached_property
    def ranges(self) -> tuple[AnswerRange, ...]:
        """The best number if all were known, cost and ETTR of the one that is best, and the fewest for the target."""
        model, unit = self.model, self.gpu_hour or 1.0
        spares = model.best
        costs = [unit * cost for cost in model.at(spares, model.costs)]
        named = f"with {plural(spares, 'spare')}"
        found = (
            model.where.range_of("best number of spares, inputs known", model.cheapest),
            replace(model.where.range_of(f"cost of a useful GPU-hour {named}", costs), beyond="without end"),
            model.where.range_of(f"ETTR {named}", model.at(spares, model.ettr), kind="share"),
        )
        if self.target is None:
            return found
        return (
            *found,
            model.where.range_of(f"spares for an ETTR of {as_asked(self.target)}", model.fewest(self.target)),
        )

    @cached_property
    def counts(self) -> list[int]:
        """Numbers of spares in the answer: from none to beyond the P90 of the best, and those that the answer names."""
        named = [self.model.best, *(int(one) for one in (self.needed,) if one is not None)]
        last = max(self.ranges[0].p90, self.model.about_as_good[1], *(number + 1 for number in named))
        return rows_of(self.model.numbers, int(last), named, rows=ROWS)

    @property
    def needed(self) -> int | None:
        """P50 of the fewest spares that reach the target; ``None`` = there is no target, or no number reaches it."""
        fewest = inf if self.target is None else self.ranges[-1].p50
        return None if fewest == inf else int(fewest)

    @property
    def steps(self) -> int:
        """One for each number of spares."""
        return len(self.counts)

    def compute(self, step: Callable[[str], None]) -> SparesAnswer:
        """Return the formulas and the Monte Carlo for every number of spares."""
        model = self.model
        point, losses = model.where.medians, model.losses[model.where.draws]
        node = self.rate
        ettr = model.at(model.best, model.ettr)[: model.where.draws]
        return SparesAnswer(
            ranges=self.ranges,
            nodes=self.nodes,
            gpus_per_node=self.gpus_per_node,
            spares=model.best,
            about_as_good=model.about_as_good,
            gpu_hour=self.gpu_hour,
            target=self.target,
            needed=self.needed,
            reached_share=None if self.target is None else sum(one >= self.target for one in ettr) / len(ettr),
            rate=node,
            restart_seconds=losses.restart,
            checkpoint_interval=losses.interval,
            checkpoint_write=self.job_checkpoint_write,
            repair_hours=point["repair"],
            mttf_hours=min(1.0 / (losses.failures * HOUR), NEVER) if losses.failures else NEVER,
            mttf_hours_at_1024_gpus=min(mttf(node, MEASURED_MTTF_GPUS / 8) / HOUR, NEVER),
            measured_mttf_hours_at_1024_gpus=MEASURED_MTTF_HOURS,
            nodes_away=float(model.median(model.single.away)),
            standby=standby_pool(self.nodes, rate=node.per_node_day),
            first_order_ettr=first_order_ettr(losses),
            ettr_with_unlimited_spares=float(model.median(model.ceiling)),
            domains=tuple(self._domain(i) for i in range(len(self.domains))),
            by_source=self._by_source(),
            best_without_domains=model.single_nodes_only.best,
            rows=tuple(self._row(number, step) for number in self.counts),
        )

    @cached_property
    def rate(self) -> FailureRate:
        """How often a node fails; of a range its median."""
        name, median = self.failures.strip().lower(), self.model.where.medians["failures"]
        return RATES.get(name) or FailureRate(name, median, self.model.where.inputs[0].source)

    def _by_source(self) -> tuple[SourcedSpares, ...]:
        """Return the number that each published rate asks for, where all of them are taken together."""
        if self.failures.strip().lower() != PUBLISHED:
            return ()
        _, *others = self.model.where.inputs
        found = []
        for name, rate in RATES.items():
            where = InputPoints((failures_input(name), *others), draws=1, seed=self.seed)
            # the second point has every input at its median
            cheapest = int(replace(self.model, where=where).cheapest[1])
            found.append(SourcedSpares(name, rate.per_thousand_node_days, cheapest))
        return tuple(found)

    def _row(self, spares: int, step: Callable[[str], None]) -> SparesRow:
        step(f"{spares} spares")
        model, unit = self.model, self.gpu_hour or 1.0
        at = model.numbers.index(spares)
        simulated = model.simulated(spares, days=self.days, runs=self.runs)
        formula = float(model.median(model.ettr)[at])
        (ettr_low, ettr_high), (low, high) = model.band(model.ettr), model.band(model.costs)
        return SparesRow(
            spares=spares,
            waiting=float(model.median(model.waits)[at]),
            formula=formula,
            formula_p10=float(ettr_low[at]),
            formula_p90=float(ettr_high[at]),
            simulated=simulated.mean,
            half_width=simulated.half_width,
            apart=abs(formula - simulated.mean) / simulated.mean if simulated.mean > 0.0 else 0.0,
            cost=unit * float(model.pooled_costs[at]),
            cost_at_medians=unit * float(model.median(model.costs)[at]),
            cost_p10=unit * float(low[at]),
            cost_p90=unit * float(high[at]),
        )

    def _domain(self, i: int) -> FailureDomain:
        stated, kind, model = self.domains[i], self.model.kinds[i], self.model
        return FailureDomain(
            stated.name,
            stated.nodes,
            max(1.0, self.nodes / stated.nodes),
            float(model.median(kind.failures)) * HOURS_OF_A_YEAR * HOUR,
            float(model.median(kind.repair)) / HOUR,
            model.waits_due_to(i, model.best),
        )

    def title(self, found: SparesAnswer) -> str:
        """Return the question in words."""
        target = "" if found.target is None else f", and how many reach an ETTR of {as_asked(found.target)}"
        return f"How many spares make the useful hours of a job of {plural(found.nodes, 'node')} cheapest{target}?"

    def verdict(self, found: SparesAnswer) -> str:
        """Return the number with its range, what it costs, what is safer, and what the target takes."""
        return verdict_on(found)

    def figure(self, found: SparesAnswer) -> AnswerFigure:
        """Return the number of spares to keep."""
        return figure_of(found)

    def assumptions(self, found: SparesAnswer) -> Iterator[str]:
        """Yield what rates, restart, repair, cost, draws and Monte Carlo take for granted."""
        yield from assumed_of(found)
        if self.job_checkpoint_interval is None:
            yield "The checkpoint interval is the best, sqrt(2 w / (N r)), at each draw."
        yield (
            f"Ranges: {self.model.where.draws:,} draws of the inputs, independent of each other, seed {self.seed}; a "
            "range of an input is its P10 and P90 of a log-normal distribution."
        )
        if (step := self.model.numbers[1]) > 1:
            yield f"Numbers of spares are looked at in steps of {step}, and around the nodes of each kind of domain."
        yield (
            f"Monte Carlo, inputs at their medians: {self.runs} runs of {self.days:g} days each, seed {self.seed}; ± "
            "is the 95% interval of the mean."
        )

    def changes(self, found: SparesAnswer) -> Iterator[str]:
        """Yield what would change the answer beside the inputs with a range."""
        yield from changes_of(found)

    def sheet(self, answer: SparesAnswer) -> Sheet:
        """Return the job, its domains, what each number of spares is worth, the curves of cost and ETTR."""
        return spares_sheet(answer)
