"""Which size of minipods and which oversubscription give useful time at the least cost?

The answer, the question, how fast the studied job is on each network, and the sheet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from math import fsum, inf
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.records import AtLeastOne, JsonRecord, Share
from scheduler.placement.types import ALGORITHMS, Limits
from simulator.capacity.cluster_question import GRID, AffinityQuestion, JobShape, parse_job, spelled
from simulator.capacity.hardware_prices import HardwarePrices, cost_per_useful_hour
from simulator.capacity.question import (
    AnswerFigure,
    AnswerRange,
    CapacityAnswer,
    InputPoints,
    numbered_input,
    option_input,
    percentiles,
    range_words,
)
from simulator.sheet import Chart, Series, Sheet, TextTable, known, text_table

if TYPE_CHECKING:
    from scheduler.job import Job
    from scheduler.outcome import Outcome
    from topology.cluster import Cluster

# -- minipods_answer --
# What minipod sizes and oversubscriptions are worth: jobs, cells, the answer.


Percentiles = tuple[float, float, float]
"""P10, P50, P90."""


@dataclass(frozen=True, slots=True)
class StudiedJob(JsonRecord):
    """A job that is placed on every cluster."""

    shape: str
    """tp x pp."""
    rows: AtLeastOne
    """PP groups."""
    nodes: AtLeastOne
    """Nodes."""
    alpha: Share
    """DP affinity."""


@dataclass(frozen=True, slots=True)
class MinipodCell(JsonRecord):
    """One algorithm on clusters of one size of minipod under one oversubscription."""

    algorithm: str
    """Name of the placement algorithm."""
    minipod_nodes: AtLeastOne
    """Nodes of a minipod, rounded so that minipods are as even as can be."""
    minipods: AtLeastOne
    """Minipods of the cluster."""
    oversubscription: float
    """Oversubscription between minipods; 1 = none, the network on which spread was measured."""
    throughput: Percentiles | None
    """Share of the throughput of a flat network that the jobs keep, weighted by their nodes: P10, P50, P90 over states
    and crossing traffic; null = no job was placed."""
    cost: Percentiles | None
    """Cost of a useful GPU-hour, with the ports between minipods; null = no prices, or no job was placed."""
    hierarchical: float | None
    """Share of the throughput by the model `hierarchical`, a mean over states: how much the model decides; null = no
    job was placed.
    """
    dp_spread: float | None
    """Mean DP spread of the jobs; null = no job was placed."""
    pp_spread: float | None
    """Mean PP spread of the jobs; null = no job was placed."""
    placed: Share
    """Share of the jobs that found a place."""
    cut_short: Share
    """Share of the jobs for which the algorithm ran into its time limit, of counted work: a longer one may place them
    better."""


@dataclass(frozen=True, slots=True)
class CheapestRatio(JsonRecord):
    """The oversubscription that costs least for one size of minipod, placed by the first algorithm."""

    minipod_nodes: AtLeastOne
    """Nodes of a minipod."""
    choice: float
    """The oversubscription with the least mean cost of a useful GPU-hour: what to build, not knowing what comes."""
    ratio: Percentiles
    """The oversubscription that would cost least if what comes were known: P10, P50, P90."""


@dataclass(frozen=True, kw_only=True)
class MinipodsAnswer(CapacityAnswer):
    """Minipod size and oversubscription against throughput."""

    nodes: AtLeastOne
    """Nodes of each cluster."""
    busy_share: float
    """Share of the nodes that other jobs use."""
    seeds: AtLeastOne
    """States of each cluster."""
    alpha: float | None
    """DP affinity of the jobs; null = they differ, as their model has it."""
    jobs: tuple[StudiedJob, ...]
    """The jobs."""
    cells: tuple[MinipodCell, ...]
    """Results by algorithm, size and oversubscription."""
    cheapest: tuple[CheapestRatio, ...]
    """Oversubscription at least cost, by size; empty without prices of nodes and ports."""

    def cell(self, algorithm: str, size: int, ratio: float) -> MinipodCell:
        """Return one cell."""
        wanted = (algorithm, size, ratio)
        return next(
            cell for cell in self.cells if (cell.algorithm, cell.minipod_nodes, cell.oversubscription) == wanted
        )


# -- minipods_question --
# How large should minipods be, and what does oversubscription between them cost?
#
# Jobs are placed, each alone, on clusters with minipods of each size that are partly in use; a model of communication
# predicts how much of the throughput of a flat network each keeps under each oversubscription.


SIZES = (32, 64, 128, 256, 512, 1024)  # Usual nodes of a minipod
GPUS = 8  # Of a node, each with a port of its own
ENDS = 2  # Ports of a link between minipods: at the minipod's own switches, and at those between minipods


@dataclass(frozen=True, kw_only=True)
class MinipodsQuestion(AffinityQuestion[MinipodsAnswer], HardwarePrices):
    """Say what throughput is left by size of minipod and oversubscription between them."""

    answer_type: ClassVar = MinipodsAnswer

    nodes: Annotated[int, Interval(ge=8, le=100_000)] = field(default=2048, metadata={"option": "--cluster-nodes"})
    """Nodes of each synthetic cluster."""
    sizes: tuple[AtLeastOne, ...] = field(
        default=(), metadata={"option": "--size", "metavar": "N", "default": "32, 64 .. 1024 as far as there are nodes"}
    )
    """Nodes of a minipod."""
    ratios: tuple[Annotated[float, Interval(ge=1, le=1_000)], ...] = field(
        default=(1.0, 2.0, 4.0, 8.0),
        metadata={"option": "--oversubscription", "metavar": "RATIO", "default": "1, 2, 4, 8"},
    )
    """Oversubscription between minipods; 1 is none."""
    crossing: str = field(default="0.1..0.5", metadata={"metavar": "SHARE|RANGE"})
    """Share of their bandwidth that nodes send out of their minipods at once."""
    busy_share: Share = field(default=0.6, metadata={"metavar": "SHARE"})
    """Share of the nodes of a synthetic cluster that other jobs use."""
    jobs: tuple[str, ...] = field(default=("8x4x16", "8x8x32", "8x8x75"), metadata=GRID)
    """Job: tensor-parallel degree x pipeline stages x rows, which are PP groups."""
    algorithms: tuple[str, ...] = field(
        default=("exact", "best-fit"), metadata={"option": "--algorithm", "metavar": "NAME[,..]", "separator": ","}
    )
    """Placement algorithm, one that `arnold compare --list` names."""
    seeds: Annotated[int, Interval(ge=1, le=1_000)] = 5
    """Number of seeds, 0 to N-1, each of which draws anew."""
    time_limit: Annotated[float, Interval(gt=0, le=3_600)] = field(default=0.5, metadata={"metavar": "SECONDS"})
    """Seconds for each placement; then the best so far counts."""
    draws: Annotated[int, Interval(ge=10, le=100_000)] = field(default=200, metadata={"metavar": "N"})
    """Draws of the uncertain inputs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_prices()
        if self.price_switch_port is not None and self.node_hour(GPUS) is None:
            fix = "give --price-node or --price-gpu-hour too"
            raise InvalidInput("a port has a price, a node has none", where="--price-switch-port", fix=fix)
        _ = self.points
        largest = max(shape.pp * rows for shape, rows in self.sized_jobs)
        free = self.nodes - round(self.busy_share * self.nodes)
        if largest > free:
            raise InvalidInput(
                f"a job of {largest:,} nodes does not fit: {free:,} of {self.nodes:,} nodes are free",
                where="--grid",
                fix="choose smaller jobs, a larger cluster or a smaller --busy-share",
            )
        if beyond := [size for size in self.sizes if size > self.nodes]:
            fix = f"choose from 1 to {self.nodes:,} nodes"
            raise InvalidInput(f"a minipod of {beyond[0]:,} nodes", where="--size", fix=fix)

    @cached_property
    def sized_jobs(self) -> tuple[tuple[JobShape, int], ...]:
        """Shape and PP groups of each job."""
        return tuple(parse_job(job) for job in self.jobs)

    @property
    def minipod_sizes(self) -> tuple[int, ...]:
        """Each size once: those that are named, or the usual ones that the clusters have nodes for."""
        return tuple(dict.fromkeys(self.sizes)) or tuple(size for size in SIZES if size <= self.nodes)

    @cached_property
    def points(self) -> InputPoints:
        """Where the answer has to be known: crossing traffic, and which nodes are busy.

        :raises InvalidInput: the crossing traffic is neither a share nor a range of shares.
        """
        words = "share of the bandwidth that leaves minipods at once"
        crossing = option_input(self, "crossing", words, least=1e-3, most=1.0)
        return InputPoints((crossing, numbered_input(self.seeds, "state", "which nodes are busy")), self.draws, 0)

    @property
    def steps(self) -> int:
        """One for each size."""
        return len(self.minipod_sizes)

    def compute(self, step: Callable[[str], None]) -> MinipodsAnswer:
        """Return every algorithm on every cluster."""
        from scheduler.algorithm_run import run
        from topology.generate import fragment, minipods

        sized = [(shape, rows, self.affinity(shape, rows)) for shape, rows in self.sized_jobs]
        jobs = [shape.job(rows, alpha=a.alpha, spread_cost=a.spread_cost, level=LEVEL) for shape, rows, a in sized]
        limits = Limits(seconds=self.time_limit, workers=1, clock="work")
        cells: list[MinipodCell] = []
        cheapest: list[CheapestRatio] = []
        ranges: list[AnswerRange | None] = []
        for size in self.minipod_sizes:
            step(f"minipods of {size} nodes")
            empty = minipods(minipods=max(1, round(self.nodes / size)), nodes=self.nodes)
            states = [fragment(empty, self.busy_share, seed) for seed in range(self.seeds)]
            for name in self.algorithms:
                placed = [
                    [(state, job, run(ALGORITHMS.load(name), state, job, limits)) for job in jobs] for state in states
                ]
                spread = [[SpreadJob.of(job, outcome) for _, job, outcome in state] for state in placed]
                kept = {ratio: self._kept(spread, size, ratio) for ratio in self.columns}
                cells += [self._cell(name, size, [*chain(*placed)], ratio, kept[ratio]) for ratio in kept]
                if name == self.algorithms[0]:
                    cheapest += self._cheapest(size, kept)
                    ranges += [self._range(size, kept)] * (size == self.told)
        # stable: sizes and oversubscriptions stay in their order
        cells.sort(key=lambda cell: (self.algorithms.index(cell.algorithm), cell.minipod_nodes))
        return MinipodsAnswer(
            ranges=tuple(range_ for range_ in ranges if range_ is not None),
            nodes=self.nodes,
            busy_share=self.busy_share,
            seeds=self.seeds,
            alpha=self.alpha_of_all(self.sized_jobs),
            jobs=tuple(StudiedJob(shape.name, rows, rows * shape.pp, known.alpha) for shape, rows, known in sized),
            cells=tuple(cells),
            cheapest=tuple(cheapest),
        )

    @property
    def columns(self) -> tuple[float, ...]:
        """Each oversubscription once, ascending."""
        return tuple(sorted(set(self.ratios)))

    @property
    def told(self) -> int:
        """The size of minipod of the headline: the middle one."""
        return sorted(self.minipod_sizes)[(len(self.minipod_sizes) - 1) // 2]

    def _kept(self, spread: Sequence[Sequence[SpreadJob | None]], size: int, ratio: float) -> list[float | None]:
        """Return the throughput at each point; a single minipod has no links to narrow."""
        narrowed = ratio if round(self.nodes / size) > 1 else 1.0
        return [
            throughput(spread[int(at["state"])], ratio=narrowed, crossing=at["crossing"]) for at in self.points.points
        ]

    def _costs(self, size: int, ratio: float, kept: Sequence[float | None]) -> list[float] | None:
        """Return what a useful GPU-hour costs at each point; ``None`` = prices are missing."""
        node = self.node_hour(GPUS)
        if node is None or self.price_switch_port is None:
            return None
        ports = ENDS * GPUS / ratio if round(self.nodes / size) > 1 else 0.0
        hour = node + ports * self.an_hour(self.price_switch_port)
        return [cost_per_useful_hour(hour, paid=1.0, useful=GPUS * (one or 0.0)) for one in kept]

    def _cheapest(self, size: int, kept: Mapping[float, Sequence[float | None]]) -> Iterator[CheapestRatio]:
        """Yield the oversubscription that costs least; nothing without prices, or where no job is placed."""
        if best := self._best(size, kept):
            costs = {ratio: self._costs(size, ratio, values) or () for ratio, values in kept.items()}
            choice = min(costs, key=lambda ratio: fsum(costs[ratio][: self.draws]))
            yield CheapestRatio(size, choice, percentiles([ratio for _, ratio in best[: self.draws]]))

    def _best(self, size: int, kept: Mapping[float, Sequence[float | None]]) -> list[tuple[float, float]]:
        """Return the least cost at each point and the oversubscription that has it; empty without prices or places."""
        costs = {ratio: self._costs(size, ratio, values) for ratio, values in kept.items()}
        table = [[(cost, ratio) for cost in values] for ratio, values in costs.items() if values is not None]
        best = [min(at) for at in zip(*table, strict=True)]
        return best if all(cost < inf for cost, _ in best) else []

    def _range(self, size: int, kept: Mapping[float, Sequence[float | None]]) -> AnswerRange | None:
        """Return the range of the cheapest oversubscription; without prices of the throughput at the highest."""
        if best := self._best(size, kept):
            words = f"best oversubscription, inputs known, minipods of {size:,}"
            return self.points.range_of(words, [ratio for _, ratio in best])
        ratio = self.columns[-1]
        if None in kept[ratio]:
            return None
        words = f"throughput at {ratio:g}:1, minipods of {size:,}"
        return self.points.range_of(words, [one or 0.0 for one in kept[ratio]], kind="share")

    def _cell(
        self, name: str, size: int, placed: Sequence[Placed], ratio: float, kept: Sequence[float | None]
    ) -> MinipodCell:
        """Return the cell of one algorithm, from its placements and what jobs keep at each point."""
        import numpy as np

        outcomes = [outcome for _, _, outcome in placed]
        spreads = [found for outcome in outcomes if (found := outcome.evaluation) is not None]
        there = [one for one in kept[: self.draws] if one is not None]
        costs = self._costs(size, ratio, there)
        return MinipodCell(
            algorithm=name,
            minipod_nodes=size,
            minipods=max(1, round(self.nodes / size)),
            oversubscription=ratio,
            throughput=percentiles(there) if there else None,
            cost=percentiles(costs) if costs else None,
            hierarchical=by_hierarchical(placed, ratio),
            dp_spread=float(np.mean([spread.dp for spread in spreads])) if spreads else None,
            pp_spread=float(np.mean([spread.pp for spread in spreads])) if spreads else None,
            placed=len(spreads) / len(outcomes),
            cut_short=float(np.mean([outcome.stopped_at is not None for outcome in outcomes])),
        )

    def title(self, found: MinipodsAnswer) -> str:  # noqa: ARG002
        """Return the question in words."""
        return "How large should minipods be, and what does oversubscription between them cost?"

    def verdict(self, found: MinipodsAnswer) -> str:
        """Return the oversubscription that costs least, or what the highest leaves; and what placement gains there."""
        return verdict_of(found, self.algorithms, self.columns, told=self.told)

    def figure(self, found: MinipodsAnswer) -> AnswerFigure:
        """Return the oversubscription that costs least, or what the highest leaves."""
        return figure_of(found, self.algorithms, self.columns, told=self.told)

    def assumptions(self, found: MinipodsAnswer) -> Sequence[str]:
        """Return what clusters, jobs, time limit and models of communication take for granted."""
        jobs = ", ".join(f"{job.rows} x {job.shape} ({job.nodes} nodes)" for job in found.jobs)
        return (
            f"{found.nodes:,} nodes of 8 GPUs in racks of 4, minipods as even as can be; {found.busy_share:.0%} of the "
            f"nodes are used by other jobs, whole gangs and scattered small ones, in {found.seeds} states made by "
            "seeds.",
            f"Jobs (PP groups x tp x pp): {jobs}; each is placed alone on the same state, with {spelled(found.alpha)}.",
            *self.where_alpha_is_from(self.sized_jobs),
            "The other jobs hold nodes; what they send is in the share that crosses, not counted one by one.",
            "Throughput is 1 over the predicted relative step time, a mean weighted by nodes: 100% = a flat network.",
            f"Each GPU has a port; {ENDS} more ports for each link between minipods, as many links as GPUs over the "
            "oversubscription. The price of a node holds all else; what larger minipods cost inside is not weighed.",
            *self._cut_short(found),
            *model_assumptions(self.crossing),
        )

    def _cut_short(self, found: MinipodsAnswer) -> Iterator[str]:
        """Yield a sentence for each algorithm that ran out of time."""
        import numpy as np

        for name in self.algorithms:
            share = float(np.mean([found.cell(name, size, self.columns[0]).cut_short for size in self.minipod_sizes]))
            if share:
                yield (
                    f"{name} was stopped after {self.time_limit:g} s of counted work in {share:.1%} of its placements, "
                    "on any machine; with a longer --time-limit these may come out a little better."
                )

    def changes(self, found: MinipodsAnswer) -> Sequence[str]:
        """Return what would change the answer."""
        cells = [found.cell(self.algorithms[0], self.told, ratio) for ratio in self.columns]
        kept = ", ".join(known(cell.hierarchical, ".1%") for cell in cells)
        ratios = ", ".join(f"{ratio:g}:1" for ratio in self.columns)
        return (
            "What spread costs the jobs: --model, or --records from `arnold calibrate`.",
            "The model: by hierarchical, where every node sends at once and flows collide on links, jobs keep "
            f"{kept} with minipods of {self.told:,} nodes at {ratios}.",
        )

    def sheet(self, answer: MinipodsAnswer) -> Sheet:
        """Return a table and a chart for each algorithm; cost by oversubscription first, where there are prices."""
        return minipods_sheet(answer, self.algorithms, self.columns, told=self.told)


# -- minipods_throughput --
# What jobs keep of a flat network's throughput, by the model ``anchored`` on links that oversubscription narrows.
#
# ``anchored`` (:mod:`simulator.cost.models`) says what spread costs where crossing traffic has its bandwidth: a family
# whose groups touch n minipods costs ``j * lambda(n) / lambda(2)`` of the step, so that its traffic inside one takes
# ``j / lambda(2)``.  If nodes send a share u of their bandwidth out of their minipod at once, links upwards with a
# ratio r carry it at ``1 / (r u)`` of its speed, where that is below 1
#
#     relative step = 1 + sum over families with n > 1 of  j / lambda(2) * (max(1, r u) * (1 + lambda(n)) - 1)


LEVEL = "minipod"
MODEL = "anchored"  # Name of the model, for headlines

Placed: TypeAlias = "tuple[Cluster, Job, Outcome]"  # A job on one state of a cluster, and where an algorithm put it


@dataclass(frozen=True, slots=True)
class SpreadJob:
    """A job that has a place: its nodes, and by what its two families lengthen the step."""

    nodes: int
    families: tuple[tuple[float, float], ...]
    """Of each family that touches several minipods: time of its traffic inside one, as a share of the step, and
    lambda(n)."""

    @classmethod
    def of(cls, job: Job, outcome: Outcome) -> SpreadJob | None:
        """Return a job where an algorithm put it; ``None`` = nowhere."""
        from simulator.cost.calibration import PUBLISHED

        found = outcome.evaluation
        if found is None:
            return None
        families = (
            (job.spread_cost * job.alpha, PUBLISHED.collective_curve, found.dp),
            (job.spread_cost * job.beta, PUBLISHED.send_recv_curve, found.pp),
        )
        return cls(
            job.grid.cells,
            tuple((cost / curve.extra_time(2), curve.extra_time(n)) for cost, curve, n in families if n > 1),
        )

    def relative_step(self, stretch: float) -> float:
        """Return by what the placement lengthens the step, at least 1.

        :param stretch: by what crossing traffic takes longer, at least 1; 1 = as ``anchored``.
        """
        return 1.0 + sum(inside * (stretch * (1.0 + extra) - 1.0) for inside, extra in self.families)


def throughput(jobs: Sequence[SpreadJob | None], *, ratio: float, crossing: float) -> float | None:
    """Return the share of a flat network's throughput that jobs keep, by nodes; ``None`` = no job has a place.

    :param ratio: oversubscription between minipods, at least 1.
    :param crossing: u, share of their bandwidth that nodes send out of their minipods at once.
    """
    there = [job for job in jobs if job is not None]
    if not there:
        return None
    stretch = max(1.0, ratio * crossing)
    return sum(job.nodes / job.relative_step(stretch) for job in there) / sum(job.nodes for job in there)


def by_hierarchical(placed: Sequence[Placed], ratio: float) -> float | None:
    """Return the same share by the model ``hierarchical``, to compare; ``None`` = no job has a place."""
    from simulator.cost.models import hierarchical
    from simulator.cost.types import PlacedJob

    model = hierarchical(oversubscription={LEVEL: ratio})
    kept = weight = 0.0
    for cluster, job, outcome in placed:
        if outcome.proposal.nodes is not None and outcome.evaluation is not None:
            kept += job.grid.cells / model.relative_step_time(PlacedJob(job, cluster, outcome.proposal.nodes))
            weight += job.grid.cells
    return kept / weight if weight else None


def model_assumptions(crossing: str) -> tuple[str, ...]:
    """Return what the model takes for granted, each line once.

    :param crossing: u as it was given.
    """
    from simulator.cost.types import COMM_MODELS

    lines = (
        *(f"Model {MODEL}: {line}" for line in COMM_MODELS.load(MODEL).assumptions),
        f"Nodes send {range_words(crossing)} of their bandwidth out of their minipods at once; an oversubscription "
        "slows what crosses only where it leaves less than that. The range is an assumption: what the links upwards of "
        "a spine carry at their busiest, as a share of the nodes' bandwidth below, replaces it (--crossing).",
    )
    return tuple(" ".join(line.split()) for line in lines)


# -- minipods_sheet --
# How the answer about minipods looks: throughput by size and oversubscription, and what a useful GPU-hour costs.


_HARDLY = 0.01  # Share of the throughput that is no reason for a larger minipod, as of costs in other answers


def minipods_sheet(answer: MinipodsAnswer, algorithms: Sequence[str], ratios: Sequence[float], *, told: int) -> Sheet:
    """Return a table and a chart for each algorithm; cost by oversubscription first, where there are prices.

    :param told: size of minipod of the headline.
    """
    tables = [_table(answer, name, ratios) for name in algorithms]
    charts = [_chart(answer, name, ratios) for name in algorithms]
    if not answer.cheapest:
        return Sheet(tables, charts)
    columns: dict[str, Callable[[CheapestRatio], str]] = {
        "minipod": lambda row: f"{row.minipod_nodes:,}",
        "oversubscription": lambda row: f"{row.choice:.3g}:1",
        "a useful GPU-hour": lambda row: cost_words(answer.cell(algorithms[0], row.minipod_nodes, row.choice)),
        "best if known": lambda row: " / ".join(f"{ratio:.3g}:1" for ratio in row.ratio),
    }
    cheapest = text_table(f"Least mean cost with {algorithms[0]}: P10 / P50 / P90", answer.cheapest, columns)
    return Sheet((cheapest, *tables), (_costs(answer, algorithms[0], ratios, told), *charts))


def verdict_of(found: MinipodsAnswer, algorithms: Sequence[str], ratios: Sequence[float], *, told: int) -> str:
    """Return the oversubscription that costs least, or what the highest leaves; and what placement gains there."""
    first, *others = algorithms
    cheap = next((one for one in found.cheapest if one.minipod_nodes == told), None)
    ratio = ratios[-1] if cheap is None else cheap.choice
    cell, full = found.cell(first, told, ratio), found.cell(first, told, ratios[0])
    if cell.throughput is None:
        return f"{first} found no place for any of the jobs."
    low, median, high = cell.throughput
    keep = f"{median:.1%} of a flat network's throughput (P10 {low:.1%}, P90 {high:.1%})"
    gains = [
        median / other[1] - 1.0 for name in others if (other := found.cell(name, told, ratio).throughput) is not None
    ]
    gain = f" Placing with {first} instead of {others[0]} gains {gains[0]:.1%} there." if gains else ""
    gain += _size_words(found, first, ratio)
    if cheap is None:
        return (
            f"By the model {MODEL}, jobs keep {keep} with minipods of {told:,} nodes and an oversubscription of "
            f"{ratio:g}.{gain} Which one costs least hangs on --price-node and --price-switch-port."
        )
    against = f", against {cost_words(full)} at {ratios[0]:g}:1" if ratio > ratios[0] else ""
    return (
        f"By the model {MODEL}, the oversubscription that costs least with minipods of {told:,} nodes is "
        f"{ratio:g}:1, at {cost_words(cell)} a useful GPU-hour{against}. Jobs then keep {keep}.{gain}"
    )


def figure_of(found: MinipodsAnswer, algorithms: Sequence[str], ratios: Sequence[float], *, told: int) -> AnswerFigure:
    """Return the oversubscription that costs least; without prices, the throughput that the highest leaves."""
    cheap = next((one for one in found.cheapest if one.minipod_nodes == told), None)
    ratio = ratios[-1] if cheap is None else cheap.choice
    cell = found.cell(algorithms[0], told, ratio)
    if cell.throughput is None:
        return AnswerFigure("none", f"of the jobs found a place with {algorithms[0]}", "")
    low, median, high = cell.throughput
    keep = f"P10 {low:.1%}, P90 {high:.1%}"
    if cheap is None:
        words = f"of a flat network's throughput at {ratio:.3g}:1, minipods of {told:,} nodes"
        return AnswerFigure(f"{median:.1%}", words, keep)
    words = f"oversubscription that costs least, minipods of {told:,} nodes"
    return AnswerFigure(f"{ratio:.3g}:1", words, f"{cost_words(cell)} a useful GPU-hour")


def _size_words(found: MinipodsAnswer, algorithm: str, ratio: float) -> str:
    """Return which size of minipod is large enough: with a larger one jobs keep hardly more."""
    there = [cell for cell in found.cells if (cell.algorithm, cell.oversubscription) == (algorithm, ratio)]
    kept = {one.minipod_nodes: one.throughput[1] for one in there if one.throughput is not None}
    if len(kept) < 2:
        return ""
    enough = min(size for size, median in kept.items() if median >= (1 - _HARDLY) * max(kept.values()))
    return (
        f" Of the sizes, {enough:,} nodes are the smallest with which jobs keep within {_HARDLY:.0%} of the most "
        f"({kept[enough]:.1%})."
    )


def cost_words(cell: MinipodCell) -> str:
    """Return the cost of a useful GPU-hour with its range: ``1.26 (P10 1.25, P90 1.30)``."""
    low, median, high = cell.cost or (inf, inf, inf)
    return f"{median:,.2f} (P10 {low:,.2f}, P90 {high:,.2f})"


def _table(answer: MinipodsAnswer, name: str, ratios: Sequence[float]) -> TextTable:
    def kept(ratio: float, cell: MinipodCell) -> str:
        found = answer.cell(name, cell.minipod_nodes, ratio).throughput
        return "-" if found is None else " / ".join(f"{100 * one:.1f}" for one in found)

    columns: dict[str, Callable[[MinipodCell], str]] = {
        "minipod": lambda cell: f"{cell.minipod_nodes:,}",
        "minipods": lambda cell: f"{cell.minipods:,}",
        "DP spread": lambda cell: known(cell.dp_spread, ".1f"),
        "PP spread": lambda cell: known(cell.pp_spread, ".1f"),
        "placed": lambda cell: f"{cell.placed:.0%}",
    } | {f"{ratio:.3g}:1": partial(kept, ratio) for ratio in ratios}
    title = f"Throughput with {name}, % of a flat network, by minipod size and oversubscription: P10 / P50 / P90"
    return text_table(title, _cells(answer, name, ratios[0]), columns)


def _cells(answer: MinipodsAnswer, name: str, ratio: float) -> list[MinipodCell]:
    """Return the cells of one algorithm and one oversubscription, by size."""
    return [cell for cell in answer.cells if (cell.algorithm, cell.oversubscription) == (name, ratio)]


def _chart(answer: MinipodsAnswer, name: str, ratios: Sequence[float]) -> Chart:
    least = min((cell.throughput[1] for cell in answer.cells if cell.throughput is not None), default=0.0)
    series = []
    for ratio in ratios:
        cells = _cells(answer, name, ratio)
        points = [(float(i), cell.throughput and cell.throughput[1]) for i, cell in enumerate(cells)]
        series.append(Series(f"{ratio:.3g}:1", points))
    return Chart(
        title=f"Throughput with {name}, P50",
        x_label="nodes of a minipod",
        y_label="of a flat network",
        series=series,
        # a twentieth below the least value, or it would lie on the axis
        floor=max(0.0, int(20 * least - 0.5) / 20),
        ceiling=1.0,
        ticks=[(float(i), f"{cell.minipod_nodes:,}") for i, cell in enumerate(_cells(answer, name, ratios[0]))],
        kind="share",
    )


def _costs(answer: MinipodsAnswer, name: str, ratios: Sequence[float], told: int) -> Chart:
    """Return cost by oversubscription, a line for each size; the band and the optimum are those of the headline."""
    series = []
    for cheap in answer.cheapest:
        cells = [answer.cell(name, cheap.minipod_nodes, ratio) for ratio in ratios]
        costs = [cell.cost or (inf, inf, inf) for cell in cells]
        band = ([cost[0] for cost in costs], [cost[2] for cost in costs]) if cheap.minipod_nodes == told else None
        points: list[tuple[float, float | None]] = [(float(i), cost[1]) for i, cost in enumerate(costs)]
        series.append(Series(f"minipods of {cheap.minipod_nodes:,}", points, band=band))
    best = next(cheap for cheap in answer.cheapest if cheap.minipod_nodes == told)
    return Chart(
        title=f"Median cost of a useful GPU-hour; band: P10 to P90, minipods of {told:,}",
        x_label="oversubscription between minipods",
        y_label="cost",
        series=series,
        ticks=[(float(i), f"{ratio:.3g}:1") for i, ratio in enumerate(ratios)],
        lines=[(float(ratios.index(best.choice)), "least mean cost")],
    )
