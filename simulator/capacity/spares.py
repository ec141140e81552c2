"""How many spares make the useful hours of a job cheapest, and how many reach an ETTR?

Failures, repairs and restarts are uncertain, and so are the domains whose nodes fail at once.  At each draw of them a
formula says how long the job waits with each number of spares, and so what a useful hour costs; a Monte Carlo stands
beside it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf, log
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput, UnknownName
from ground.quantities import DAY, HOUR, fixed, number, percent, plural
from ground.records import AtLeastOne, Count, FloatOrInfinity, JsonRecord, NotNegative, Seed, Share
from health.recovery.restarts import standby_pool
from simulator.capacity.hardware_prices import HOURS_OF_A_YEAR, HardwarePrices
from simulator.capacity.question import (
    AnswerFigure,
    AnswerRange,
    CapacityAnswer,
    CapacityQuestion,
    InputPoints,
    UncertainInput,
    gamma_of,
    given_input,
    lognormal,
)
from simulator.failures.ettr import (
    DomainFailures,
    EttrEstimate,
    Floats,
    Losses,
    Outages,
    RepairTimes,
    best_interval,
    erlang_b,
    exact_ettr,
    exponential,
    first_order_ettr,
    simulate_ettr,
    waiting_shares,
)
from simulator.failures.rates import (
    HIGHEST,
    MEASURED_MTTF_GPUS,
    MEASURED_MTTF_HOURS,
    RATES,
    FailureRate,
    failure_rate,
    mttf,
    parse_restart,
)
from simulator.sheet import Chart, Series, Sheet, TextTable, text_table

if TYPE_CHECKING:
    from topology.cluster import Cluster
else:
    # no option is made of a cluster, and reading the options imports no numpy
    Cluster = Any


class SparesRow(JsonRecord):
    """What a number of spares is worth: with every input at its median, but for the ends of ranges."""

    spares: Count
    """Spare nodes."""
    waiting: Share
    """Share of time in which the job waits for a repair, by formula."""
    formula: Share
    """ETTR by formula, of failures that come at random."""
    formula_p10: Share
    """P10 of the ETTR over the draws."""
    formula_p90: Share
    """P90 of the ETTR over the draws."""
    simulated: Share
    """Mean ETTR of the Monte Carlo."""
    half_width: NotNegative
    """Half of the 95 % interval of the mean ETTR, which is what chance leaves open, not what the inputs do."""
    apart: NotNegative
    """|formula - simulated| / simulated."""
    cost: FloatOrInfinity
    """Cost of a useful GPU-hour, that of all draws together: what is paid in them over what is useful; null = without
    end."""
    cost_at_medians: FloatOrInfinity
    """Cost with every input at its median; null = without end."""
    cost_p10: FloatOrInfinity
    """P10 of the cost over the draws; null = without end."""
    cost_p90: FloatOrInfinity
    """P90 of the cost over the draws; null = without end."""


class FailureDomain(JsonRecord):
    """A kind of domain whose nodes fail at once, with every input at its median."""

    name: str
    """What it is called."""
    nodes: AtLeastOne
    """Nodes of each."""
    in_the_job: float
    """How many of them the job's nodes fill, at least 1."""
    failures_a_year: NotNegative
    """Failures of all of them in a year."""
    repair_hours: NotNegative
    """Hours until the nodes are back, on average."""
    waiting: float
    """Share of time that the job waits because of them, with the spares of the answer."""


class SourcedSpares(JsonRecord):
    """What one published rate asks for, the other inputs at their medians."""

    name: str
    """Name of the rate."""
    per_thousand_node_days: NotNegative
    """Failures in 1,000 days of a node."""
    spares: Count
    """The number with the least cost."""


class SparesAnswer(CapacityAnswer, kw_only=True):
    """The number of spares with which useful GPU-hours cost least; numbers without a range have every input at its
    median.
    """

    nodes: AtLeastOne
    """Nodes of the job."""
    gpus_per_node: AtLeastOne
    """GPUs of a node."""
    spares: Count
    """The number with the least cost of a useful GPU-hour, bought before the inputs are known: that of all draws
    together."""
    about_as_good: tuple[Count, Count]
    """Least and largest number of spares with a cost within 1 % of the least."""
    gpu_hour: float | None
    """Cost of a GPU-hour that is paid; null = no price is given, and costs are in GPU-hours paid for a useful one."""
    target: float | None
    """ETTR to reach; null = none is asked for."""
    needed: Count | None
    """P50 of the fewest spares that reach the target; null = none is asked for, or no number does."""
    reached_share: Share | None
    """Share of the draws in which the spares of the answer reach the target; null = none is asked for."""
    rate: FailureRate
    """Failures of a node."""
    restart_seconds: NotNegative
    """Time from a failure to training again, seconds, with a spare at hand."""
    checkpoint_interval: FloatOrInfinity
    """Productive seconds between checkpoints; null = none is ever written, as nothing fails."""
    checkpoint_write: float
    """Seconds that a checkpoint takes."""
    repair_hours: float
    """Hours until a failed node is back, on average."""
    mttf_hours: float
    """Mean time to failure of the job, hours."""
    mttf_hours_at_1024_gpus: float
    """Mean time to failure of a job of 1,024 GPUs by the rate, to be read beside what was measured."""
    measured_mttf_hours_at_1024_gpus: float
    """Mean time to failure that jobs of 1,024 GPUs on RSC-1 measured."""
    nodes_away: float
    """Nodes in repair on average, of those that fail one by one: N r T."""
    standby: Count
    """P99 of a day's failures at this rate: a pool that is filled up again every day."""
    first_order_ettr: float
    """ETTR with a spare always at hand, to the first order."""
    ettr_with_unlimited_spares: float
    """ETTR with a spare always at hand, which no number of spares exceeds."""
    by_source: tuple[SourcedSpares, ...]
    """Answers by published rate; empty = they are not taken together."""
    domains: tuple[FailureDomain, ...]
    """Kinds of domains that fail at once; empty = none is stated."""
    best_without_domains: Count
    """The number with the least cost if nodes failed one by one only."""
    rows: tuple[SparesRow, ...]
    """Results by number of spares."""

    @property
    def reached(self) -> bool:
        """Whether some number of spares reaches the target, if there is one."""
        return self.target is None or self.needed is not None


PUBLISHED = "published"
REPAIR = "6..72"
RESTART = "100..900"
MOST_RESTART = 86_400.0  # Seconds


def failures_input(text: str) -> UncertainInput:
    """Return failures per 1,000 node-days: of one source, of all four, or as given.

    :raises UnknownName: no rate has that name.
    :raises InvalidInput: a number or a range out of bounds.
    """
    name, words = text.strip().lower(), "failures per 1,000 node-days"
    if name == PUBLISHED:
        rates = [rate.per_thousand_node_days for rate in RATES.values()]
        source = f"a Gamma distribution over the rates of {', '.join(RATES)}"
        return UncertainInput("failures", words, gamma_of(rates), source)
    if ".." in name:
        return given_input(name, "failures", words, where="--failures", most=HIGHEST)
    try:
        rate = failure_rate(text)
    except UnknownName as error:
        fix = f"{error.fix}, a range of these such as 1.2..6.5, or {PUBLISHED}"
        raise UnknownName(error.message, where=error.where, fix=fix) from None
    per_thousand = rate.per_thousand_node_days
    return UncertainInput("failures", words, lognormal(per_thousand, per_thousand), rate.source)


def repair_input(text: str) -> UncertainInput:
    """Return the mean hours of a repair; raise :class:`InvalidInput` where they are out of bounds."""
    source = "assumed: no publication says" if text == REPAIR else "given"
    words, where = "hours of a node's repair", "--repair-hours"
    return given_input(text, "repair", words, where=where, least=1e-3, most=HOURS_OF_A_YEAR, source=source)


def restart_input(text: str, *, gpus: int) -> UncertainInput:
    """Return seconds from a failure to training again, of a job of so many GPUs, by name or as given.

    :raises InvalidInput: no way to restart has that name, or seconds out of bounds.
    """
    words = "seconds of a restart"
    try:
        source = "from a hot update to a requeue after a hang, ByteRobust" if text == RESTART else "given"
        return given_input(text, "restart", words, where="--restart", most=MOST_RESTART, source=source)
    except InvalidInput:
        if ".." in text:
            raise
    seconds = parse_restart(text).mean_seconds(gpus=gpus)
    return UncertainInput("restart", words, lognormal(seconds, seconds), f"ByteRobust's {text.strip().lower()}")


OPTION = "--failure-domain"

PER_MONTH = 1_000.0 * 0.00051 / 30.0
"""Switches below the nodes that crash, per 1,000 switch-days: 0.051 % a month (HPN, SIGCOMM 2024, section 2.3)."""
IN_THREE_MONTHS = 1_000.0 * -log(1.0 - 0.02) / 91.0
"""The same: 2 % fail within three months, of 180,000 switches (Singh and others, SIGCOMM CCR 51(2), 2021)."""

DEFAULT_RATE = f"{PER_MONTH:.2g}..{IN_THREE_MONTHS:.2g}"
RATE_SOURCE = "switches: HPN, SIGCOMM 2024, to Singh and others, SIGCOMM CCR 2021"
DEFAULT_HOURS = "2..24"
HOURS_SOURCE = "assumed: a switch is swapped in hours, a feed or a vendor's visit takes a day"


@dataclass(frozen=True, slots=True)
class StatedDomain:
    """A kind of domain, of which a job has as many as its nodes fill."""

    name: str
    nodes: int  # Nodes of each
    rate: UncertainInput  # Failures per 1,000 domain-days
    hours: UncertainInput  # Hours until its nodes are back


def stated_domain(text: str, cluster: Cluster | None) -> StatedDomain:
    """Read ``NAME[:NODES[:RATE[:HOURS]]]``; without nodes, as many as the cluster's level of that name has in each.

    :raises InvalidInput: it is nothing of the kind, or nothing says how many nodes.
    :raises UnknownName: the cluster has no such level.
    """
    name, *parts = (part.strip() for part in text.split(":"))
    if not name or len(parts) > 3:
        fix = "give NAME:NODES, NAME:NODES:RATE or NAME:NODES:RATE:HOURS, for example leaf:32:0.1"
        raise InvalidInput(f"{text[:40]!r} is no failure domain", where=OPTION, fix=fix)
    nodes, rate, hours = (*parts, "", "", "")[:3]
    if nodes.isascii() and nodes.isdigit() and 0 < int(nodes[:8]) <= 1_000_000:
        count = int(nodes[:8])
    elif nodes:
        fix = f"give a whole number from 1 to 1,000,000, as in {name[:20]}:32"
        raise InvalidInput(f"{nodes[:40]!r} is no number of nodes", where=OPTION, fix=fix)
    elif cluster is None:
        fix = f"give it as {name[:20]}:32, or a --cluster FILE with a level {name[:20]}"
        raise InvalidInput(f"how many nodes a {name[:40]} has is not said", where=OPTION, fix=fix)
    else:
        # as many as the level has on average
        count = max(1, round(len(cluster) / len(cluster.level(name, where=OPTION))))
    words, source = f"failures per 1,000 {name}-days", "given" if rate else RATE_SOURCE
    failures = given_input(rate or DEFAULT_RATE, f"{name} rate", words, where=OPTION, most=HIGHEST, source=source)
    words, source = f"hours of a {name}'s repair", "given" if hours else HOURS_SOURCE
    repair = given_input(
        hours or DEFAULT_HOURS, f"{name} hours", words, where=OPTION, least=1e-3, most=HOURS_OF_A_YEAR, source=source
    )
    return StatedDomain(name, count, failures, repair)


NEGLIGIBLE = 1e-6  # Share of time that a job waits from which on a further spare is worth nothing
NEARLY_ALL = 0.97  # Share of the points for which the largest number of spares is that many
SLACK = 0.01  # Costs nearer to each other than this share are about as good
MOST_NUMBERS = 512  # Numbers of spares that are looked at, at most; beside domains, whose shares take long, a tenth


@dataclass(frozen=True, eq=False)
class SparesModel:
    """A job and its failures, at every point of the inputs ``failures``, ``repair``, ``restart`` and of its domains."""

    nodes: int
    write: float  # seconds of writing a checkpoint
    interval: float | None  # productive seconds between checkpoints; None = the best
    domains: tuple[StatedDomain, ...]
    points: InputPoints

    def column(self, name: str) -> Floats:
        """Return shape [points], the values of an input."""
        import numpy as np

        return np.array([values[name] for values in self.points.values])

    @cached_property
    def single(self) -> Outages:
        """Failures of one node."""
        return Outages(1, self.column("failures") * (self.nodes / 1_000.0 / DAY), self.column("repair") * HOUR)

    @cached_property
    def kinds(self) -> tuple[Outages, ...]:
        """Failures of domains, in their order; a job has as many of each kind as its nodes fill, whole or in part."""
        return tuple(
            Outages(
                min(domain.nodes, self.nodes),
                self.column(domain.rate.name) * (max(1.0, self.nodes / domain.nodes) / 1_000.0 / DAY),
                self.column(domain.hours.name) * HOUR,
            )
            for domain in self.domains
        )

    @cached_property
    def losses(self) -> list[Losses]:
        """Restarts and checkpoints at each point; a domain that fails costs a restart as a node does."""
        rates: Floats = self.single.failures + sum(kind.failures for kind in self.kinds)
        return [
            Losses(rate, restart, self.write, self.interval or best_interval(rate, self.write))
            for rate, restart in zip(rates.tolist(), self.column("restart").tolist(), strict=True)
        ]

    @cached_property
    def numbers(self) -> list[int]:
        """Numbers of spares that are looked at, in rising order; with domains also what holds one of each kind."""
        import numpy as np

        loads = self.single.away
        load = np.sort(loads)[[ceil(NEARLY_ALL * len(loads)) - 1]]
        most = next(i for i, share in enumerate(erlang_b(2**31, load)) if share[0] <= NEGLIGIBLE)
        # beyond, each spare only costs: as far as the cost is about as good
        most += ceil(SLACK * (self.nodes + most)) + 1
        step = ceil((most + 1) / (MOST_NUMBERS // 10 if self.kinds else MOST_NUMBERS))
        numbers = [*range(0, most + step, step)]
        coarse = numbers[:: max(1, len(numbers) // 6)]
        return sorted({*numbers, *(kind.nodes + number for kind in self.kinds for number in coarse)})

    @cached_property
    def waits(self) -> Floats:
        """Shape [points, numbers]: share of time in which the job waits for nodes."""
        return waiting_shares(self.numbers, self.single, self.kinds)

    @cached_property
    def ceiling(self) -> Floats:
        """Shape [points]: ETTR with a spare always at hand."""
        import numpy as np

        return np.array([exact_ettr(loss) for loss in self.losses])

    @cached_property
    def ettr(self) -> Floats:
        """Shape [points, numbers]."""
        shares: Floats = self.ceiling[:, None] * (1.0 - self.waits)
        return shares

    def _cost(self, ettr: Floats) -> Floats:
        """Return node-hours paid for a useful one, C(S) = (N + S) / (N ETTR(S)), of shape [.., numbers]."""
        import numpy as np

        with np.errstate(divide="ignore", over="ignore"):
            hours: Floats = (self.nodes + np.array(self.numbers)) / self.nodes / ettr
        return hours

    @cached_property
    def costs(self) -> Floats:
        """Shape [points, numbers]: node-hours paid for a useful one."""
        return self._cost(self.ettr)

    @cached_property
    def pooled_costs(self) -> Floats:
        """Shape [numbers]: node-hours paid in all draws together over the useful ones, (N + S) / (N E[ETTR]), which is
        what counts where the number is bought before the inputs are known.
        """
        return self._cost(self.ettr[: self.points.draws].mean(axis=0))

    @cached_property
    def best(self) -> int:
        """The number of spares with the least pooled cost."""
        return self.numbers[int(self.pooled_costs.argmin())]

    @property
    def about_as_good(self) -> tuple[int, int]:
        """The least and the largest number whose pooled cost is within :data:`SLACK` of the best."""
        near = self.pooled_costs <= (1.0 + SLACK) * self.pooled_costs.min()
        good = [number for number, is_near in zip(self.numbers, near.tolist(), strict=True) if is_near]
        return good[0], good[-1]

    @cached_property
    def cheapest(self) -> list[float]:
        """The number of spares with the least cost at each point: the best one if the inputs were known."""
        return [float(self.numbers[i]) for i in self.costs.argmin(axis=1)]

    def fewest(self, target: float) -> list[float]:
        """Return the fewest spares with which ETTR reaches a target, at each point; infinite where no number does."""
        reached = self.ettr >= target
        return [float(self.numbers[row.argmax()]) if row.any() else inf for row in reached]

    def at(self, number: int, of: Floats) -> list[float]:
        """Return a number of spares' column of a table, by points."""
        column: list[float] = of[:, self.numbers.index(number)].tolist()
        return column

    def band(self, of: Floats) -> tuple[Any, Any]:
        """Return P10 and P90 of a table over the draws, by number of spares."""
        import numpy as np

        low, high = np.quantile(of[: self.points.draws], (0.1, 0.9), axis=0, method="inverted_cdf")
        return low, high

    def median(self, of: Floats) -> Floats:
        """Return what a table, or a column of points, has where every input is at its median."""
        at_medians: Floats = of[self.points.draws]
        return at_medians

    def waits_due_to(self, i: int, spares: int) -> float:
        """Return the share of time that the job waits because of domains of the i-th kind, inputs at their medians."""
        import numpy as np

        def median_of(kind: Outages) -> Outages:
            return Outages(kind.nodes, *(np.array([self.median(column)]) for column in (kind.failures, kind.repair)))

        single, kinds = median_of(self.single), [median_of(kind) for kind in self.kinds]
        others = kinds[:i] + kinds[i + 1 :]
        return float((waiting_shares([spares], single, kinds) - waiting_shares([spares], single, others))[0, 0])

    def simulated(self, spares: int, *, days: float, runs: int) -> EttrEstimate:
        """Return the estimate of the Monte Carlo for a number of spares, every input at its median."""
        losses = self.losses[self.points.draws]

        def repair(kind: Outages) -> RepairTimes:
            return exponential(float(self.median(kind.repair)))

        domains = [
            DomainFailures(float(self.median(kind.failures)) / losses.failures, kind.nodes, repair(kind))
            for kind in self.kinds
            if losses.failures
        ]
        return simulate_ettr(
            losses,
            span=days * DAY,
            runs=runs,
            seed=self.points.seed,
            spares=spares,
            repair=repair(self.single),
            domains=domains,
        )


def rows_of(numbers: Sequence[int], last: int, chosen: Sequence[int], *, rows: int) -> list[int]:
    """Return about so many numbers up to the last, evenly, and those that are chosen."""
    shown = [number for number in numbers if number <= last]
    return sorted({*shown[:: max(1, round(len(shown) / rows))], *chosen})


NEVER = 8.766e9  # Hours, a million years: what JSON has as the mean time to failure of a job that never fails
NOTHING = 5e-4  # ETTR below which no time is useful: it is written as 0.0 %
MOST_DIGITS = 8  # Behind the point of a percentage: more is written by nobody
EXACT = 1e-9  # Percentages closer than this are the same number
DEAREST = 1.5  # Costs beyond so many times the least are not drawn, or the curve near the least would be flat
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
            message = "a switch port is only a part of what a node costs"
            if self.price_gpu_hour is not None:
                message = "a GPU-hour's price holds what --price-switch-port says"
            raise InvalidInput(message, where="--price-switch-port", fix=fix)
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
        stated = tuple(stated_domain(text, self.cluster) for text in self.failure_domains)
        names = [domain.name for domain in stated]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidInput(f"{twice[0][:40]} stands twice", where=OPTION, fix="name each kind once")
        return stated

    @cached_property
    def model(self) -> SparesModel:
        """What each number of spares is worth at each point of the inputs."""
        of_domains = (given for domain in self.domains for given in (domain.rate, domain.hours))
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
        ranges = [
            model.points.range_of("best number of spares, inputs known", model.cheapest),
            replace(model.points.range_of(f"cost of a useful GPU-hour {named}", costs), beyond="without end"),
            model.points.range_of(f"ETTR {named}", model.at(spares, model.ettr), kind="share"),
        ]
        if self.target is not None:
            words = f"spares for an ETTR of {as_asked(self.target)}"
            ranges.append(model.points.range_of(words, model.fewest(self.target)))
        return tuple(ranges)

    @cached_property
    def counts(self) -> list[int]:
        """Numbers of spares in the answer: from none to beyond the P90 of the best, and those that the answer names."""
        named = [self.model.best] if self.needed is None else [self.model.best, self.needed]
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
        model, unit = self.model, self.gpu_hour or 1.0
        medians, losses, node = model.points.medians, model.losses[model.points.draws], self.rate
        (ettr_low, ettr_high), (cost_low, cost_high) = model.band(model.ettr), model.band(model.costs)
        rows = []
        for spares in self.counts:
            step(f"{spares} spares")
            at = model.numbers.index(spares)
            simulated = model.simulated(spares, days=self.days, runs=self.runs)
            formula = float(model.median(model.ettr)[at])
            rows.append(
                SparesRow(
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
                    cost_p10=unit * float(cost_low[at]),
                    cost_p90=unit * float(cost_high[at]),
                )
            )
        by_source = []
        # each published rate alone, where all of them are taken together
        for name, rate in RATES.items() if self.failures.strip().lower() == PUBLISHED else ():
            points = InputPoints((failures_input(name), *model.points.inputs[1:]), draws=1, seed=self.seed)
            # the second point has every input at its median
            cheapest = int(replace(model, points=points).cheapest[1])
            by_source.append(SourcedSpares(name, rate.per_thousand_node_days, cheapest))
        domains = [
            FailureDomain(
                stated.name,
                stated.nodes,
                max(1.0, self.nodes / stated.nodes),
                float(model.median(kind.failures)) * HOURS_OF_A_YEAR * HOUR,
                float(model.median(kind.repair)) / HOUR,
                model.waits_due_to(i, model.best),
            )
            for i, (stated, kind) in enumerate(zip(self.domains, model.kinds, strict=True))
        ]
        drawn = model.at(model.best, model.ettr)[: model.points.draws]
        return SparesAnswer(
            ranges=self.ranges,
            nodes=self.nodes,
            gpus_per_node=self.gpus_per_node,
            spares=model.best,
            about_as_good=model.about_as_good,
            gpu_hour=self.gpu_hour,
            target=self.target,
            needed=self.needed,
            reached_share=None if self.target is None else sum(ettr >= self.target for ettr in drawn) / len(drawn),
            rate=node,
            restart_seconds=losses.restart,
            checkpoint_interval=losses.interval,
            checkpoint_write=self.job_checkpoint_write,
            repair_hours=medians["repair"],
            mttf_hours=min(1.0 / (losses.failures * HOUR), NEVER) if losses.failures else NEVER,
            mttf_hours_at_1024_gpus=min(mttf(node, MEASURED_MTTF_GPUS / 8) / HOUR, NEVER),
            measured_mttf_hours_at_1024_gpus=MEASURED_MTTF_HOURS,
            nodes_away=float(model.median(model.single.away)),
            standby=standby_pool(self.nodes, rate=node.per_node_day),
            first_order_ettr=first_order_ettr(losses),
            ettr_with_unlimited_spares=float(model.median(model.ceiling)),
            domains=tuple(domains),
            by_source=tuple(by_source),
            best_without_domains=replace(model, domains=()).best,
            rows=tuple(rows),
        )

    @cached_property
    def rate(self) -> FailureRate:
        """How often a node fails; of a range its median."""
        name, median = self.failures.strip().lower(), self.model.points.medians["failures"]
        return RATES.get(name) or FailureRate(name, median, self.model.points.inputs[0].source)

    def title(self, answer: SparesAnswer) -> str:
        """Return the question in words."""
        target = "" if answer.target is None else f", and how many reach an ETTR of {as_asked(answer.target)}"
        return f"How many spares make the useful hours of a job of {plural(answer.nodes, 'node')} cheapest{target}?"

    def verdict(self, answer: SparesAnswer) -> str:
        """Return the number with its range, what it costs, what is safer, and what the target takes."""
        best, cost, _, *fewest = answer.ranges
        if answer.ettr_with_unlimited_spares < NOTHING:
            return "With no number of spares is time useful: restarts and checkpoints alone leave nothing of it."
        unit = "for a useful GPU-hour" if answer.gpu_hour is not None else "GPU-hours paid for a useful one"
        low, high = answer.about_as_good
        near = (
            f"{low:,} to {high:,} spares cost within 1% of it" if low < high else "any other number costs over 1% more"
        )
        a_year = ""
        if answer.gpu_hour is not None:
            money = answer.spares * answer.gpus_per_node * answer.gpu_hour * HOURS_OF_A_YEAR
            a_year = f"; the spares cost {number(money)} a year"
        sentences = [
            f"Keep {plural(answer.spares, 'spare')} for {plural(answer.nodes, 'node')}: useful time costs least then, "
            f"{cost.value(cost.p50)} {unit} (P10 {cost.value(cost.p10)}, P90 {cost.value(cost.p90)}), and "
            f"{near}{a_year}."
        ]
        if (best.p10, best.p90) != (answer.spares, answer.spares):
            sentences.append(
                f"Were the inputs known, the best number would be {best.value(best.p50)} (P10 {best.value(best.p10)}, "
                f"P90 {best.value(best.p90)}): one spare too few stops the whole job, one too many costs a node."
            )
        if answer.target is not None and answer.needed is not None:
            sentences.append(
                f"An ETTR of {as_asked(answer.target)} takes {answer.needed} ({fewest[0].words}); {answer.spares} "
                f"reach it in {percent(answer.reached_share)} of the draws."
            )
        elif answer.target is not None:
            sentences.append(
                f"No number of spares gives an ETTR of {as_asked(answer.target)}: restarts and checkpoints alone leave "
                f"{as_asked(answer.ettr_with_unlimited_spares, below=answer.target)}."
            )
        return " ".join(sentences)

    def figure(self, answer: SparesAnswer) -> AnswerFigure:
        """Return the number of spares to keep."""
        if answer.ettr_with_unlimited_spares < NOTHING:
            return AnswerFigure("none", "number of spares with which time is useful", "")
        low, high = answer.about_as_good
        near = f"{low:,} to {high:,} cost within 1% of it" if low < high else "any other number costs over 1% more"
        return AnswerFigure(f"{answer.spares:,}", "spares to keep", near)

    def assumptions(self, answer: SparesAnswer) -> Iterator[str]:
        """Yield what rates, restart, repair, cost, draws and Monte Carlo take for granted."""
        by_rate = answer.mttf_hours_at_1024_gpus
        mean = f"a mean time to failure of {by_rate:.1f} h" if by_rate < NEVER else "no failure ever"
        yield (
            f"{number(answer.rate.per_thousand_node_days)} failures per 1,000 node-days at the median, the same for "
            f"every node and at random; source: {answer.rate.source}."
        )
        yield (
            f"At {MEASURED_MTTF_GPUS:,} GPUs this rate gives {mean}; jobs of that size on RSC-1 measured "
            f"{MEASURED_MTTF_HOURS} h, which no rate that is the same for all nodes explains: where nodes fail again "
            "and again, plan with a higher rate."
        )
        yield (
            f"A failure costs {answer.restart_seconds:.0f} s at the median (detection, requeue or hot update, reload) "
            f"and the work since the last checkpoint; one is written {every(answer)} and takes "
            f"{answer.checkpoint_write:g} s."
        )
        yield (
            f"A failed node is away for {number(answer.repair_hours)} h on average at the median; without domains the "
            "distribution does not matter. All failures take nodes away, and spares in waiting do not fail."
        )
        yield (
            "A spare takes the failed node's place at once and slows nothing; without enough of them the job waits for "
            "nodes that are repaired, and nothing fails meanwhile."
        )
        if answer.domains:
            names = ", ".join(f"{domain.name} of {plural(domain.nodes, 'node')}" for domain in answer.domains)
            yield (
                f"Nodes that fail at once: {names}; the job fills whole domains, its spares lie elsewhere, all nodes "
                "of a domain come back together, and repairs are exponential."
            )
        else:
            yield "Failures of several nodes at once are not in it: --failure-domain leaf:32 adds those of a switch."
        yield (
            "Cost: C(S) = (N + S) c / (N ETTR(S)). "
            + (f"A GPU-hour costs {number(answer.gpu_hour)}, idle or not. " if answer.gpu_hour is not None else "")
            + "What a node-hour costs scales the curve and leaves its least where it is: without prices a node is the "
            "unit."
        )
        if self.job_checkpoint_interval is None:
            yield "The checkpoint interval is the best, sqrt(2 w / (N r)), at each draw."
        yield (
            f"Ranges: {self.model.points.draws:,} draws of the inputs, independent of each other, seed {self.seed}; a "
            "range of an input is its P10 and P90 of a log-normal distribution."
        )
        if (step := self.model.numbers[1]) > 1:
            yield f"Numbers of spares are looked at in steps of {step}, and around the nodes of each kind of domain."
        yield (
            f"Monte Carlo, inputs at their medians: {self.runs} runs of {self.days:g} days each, seed {self.seed}; ± "
            "is the 95% interval of the mean."
        )

    def changes(self, answer: SparesAnswer) -> Iterator[str]:
        """Yield what would change the answer beside the inputs with a range."""
        if answer.domains:
            yield (
                f"Without failures of {' and '.join(domain.name for domain in answer.domains)}: "
                f"{plural(answer.best_without_domains, 'spare')} in place of {answer.spares}."
            )
        if answer.by_source:
            spares_by_rate = ", ".join(
                f"{case.name} ({number(case.per_thousand_node_days)}) {case.spares}" for case in answer.by_source
            )
            yield f"Failures per 1,000 node-days of one source alone, the rest at its median: {spares_by_rate}."
        yield "Failures and repairs counted on one's own nodes: --failures and --repair-hours take a number or a range."

    def sheet(self, answer: SparesAnswer) -> Sheet:
        """Return the job, its domains, what each number of spares is worth, the curves of cost and ETTR."""
        job = {
            "mean time to failure": _hours(answer.mttf_hours, digits=2),
            f"the same at {MEASURED_MTTF_GPUS:,} GPUs": (
                f"{_hours(answer.mttf_hours_at_1024_gpus, digits=1)} by the rate, {MEASURED_MTTF_HOURS} h measured on "
                "RSC-1"
            ),
            "nodes away on average": f"{answer.nodes_away:.2f}",
            "checkpoint interval": every(answer).removeprefix("every "),
            "ETTR with a spare always at hand": (
                f"{answer.ettr_with_unlimited_spares:.4f}, first order {answer.first_order_ettr:.4f}"
            ),
            "standby pool, P99 of a day's failures": f"{answer.standby} (filled up again within a day)",
        }
        domains: dict[str, Callable[[FailureDomain], str]] = {
            "domain": lambda row: row.name,
            "nodes": lambda row: f"{row.nodes:,}",
            "in the job": lambda row: f"{row.in_the_job:,.1f}",
            "failures a year": lambda row: f"{row.failures_a_year:.2f}",
            "hours away": lambda row: f"{row.repair_hours:.1f}",
            "job waits": lambda row: f"{row.waiting:.3%}",
        }
        marks = {answer.needed: " target", answer.spares: " at least cost"}
        numbers: dict[str, Callable[[SparesRow], str]] = {
            "spares": lambda row: f"{row.spares}{marks.get(row.spares, '')}",
            "waits": lambda row: f"{row.waiting:.2%}",
            "ETTR": lambda row: f"{row.formula:.4f}",
            "Monte Carlo": lambda row: f"{row.simulated:.4f} ± {row.half_width:.4f}",
            "apart": lambda row: f"{row.apart:.2%}",
            "cost": lambda row: fixed(row.cost, digits=3),
            "P10": lambda row: fixed(row.cost_p10, digits=3),
            "P90": lambda row: fixed(row.cost_p90, digits=3),
        }
        tables = [TextTable("The job, inputs at their medians", ("", "value"), list(job.items()))]
        if answer.domains:
            tables.append(text_table("Failure domains, inputs at their medians", answer.domains, domains))
        title = "By number of spares: ETTR with inputs at their medians; cost over all draws, with P10 and P90"
        tables.append(text_table(title, answer.rows, numbers))
        rows = answer.rows
        band = ([row.formula_p10 for row in rows], [row.formula_p90 for row in rows])
        simulated = [(row.spares, row.simulated) for row in rows]
        series = [
            Series("formula, band P10 to P90", [(row.spares, row.formula) for row in rows], band=band),
            Series("Monte Carlo", simulated, shape="dots", errors=[row.half_width for row in rows]),
        ]
        if answer.target is not None:
            series.append(
                Series("target", [(row.spares, answer.target) for row in (rows[0], rows[-1])], shape="dashes")
            )
        ettr = Chart("ETTR by number of spares", "spares", "ETTR", series, ceiling=1.0, kind="share")
        return Sheet(tables, [_cost_chart(answer), ettr] if any(row.cost < inf for row in rows) else [ettr])


def _cost_chart(answer: SparesAnswer) -> Chart:
    """Return the cost of a useful GPU-hour by number of spares: of all draws, P10 to P90, the least marked."""
    most = DEAREST * min(row.cost for row in answer.rows)
    rows = [row for row in answer.rows if row.cost_p10 <= most]
    band = ([row.cost_p10 for row in rows], [min(row.cost_p90, most) for row in rows])
    pooled = [(row.spares, row.cost if row.cost <= most else None) for row in rows]
    medians = [(row.spares, row.cost_at_medians if row.cost_at_medians <= most else None) for row in rows]
    series = (
        Series("all draws together, band P10 to P90", pooled, band=band),
        Series("inputs at their medians", medians, shape="dashes"),
    )
    best = answer.ranges[0]
    percentile_marks = [] if best.p10 == best.p90 else [(best.p10, "P10"), (best.p50, "P50"), (best.p90, "P90")]
    marks = [*percentile_marks, (float(answer.spares), plural(answer.spares, "spare"))]
    unit = "GPU-hours paid for a useful one" if answer.gpu_hour is None else "cost of a useful GPU-hour"
    return Chart(
        "Cost of useful time by number of spares", "spares", unit, series, floor=None, ceiling=most, lines=marks
    )


def as_asked(share: float, *, below: float | None = None) -> str:
    """Return a share with the digits that it was given with, at least one behind the point: ``99.99%``, never 100.0%.

    :param below: another share, below which it is to read, and no more digits than that takes.
    """
    for digits in range(1, MOST_DIGITS + 1):
        text = fixed(100 * share, digits=digits)
        if abs(float(text) - 100 * share) < EXACT or (below is not None and float(text) < 100 * below - EXACT):
            break
    return f"{text}%"


def _hours(hours: float, *, digits: int) -> str:
    return f"{hours:.{digits}f} h" if hours < NEVER else "never"


def every(answer: SparesAnswer) -> str:
    """Return how often a checkpoint is written, in words."""
    return "never" if answer.checkpoint_interval == inf else f"every {answer.checkpoint_interval:,.0f} s"
