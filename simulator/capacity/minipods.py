"""How large should minipods be, and what does oversubscription between them cost?

Jobs are placed, each alone, on clusters with minipods of each size that are partly in use; a model of communication
predicts how much of the throughput of a flat network each keeps under each oversubscription.

The model is ``anchored`` (:mod:`simulator.cost.models`) on links that oversubscription narrows.  It says what spread
costs where crossing traffic has its bandwidth: a family whose groups touch n minipods costs ``j * lambda(n) /
lambda(2)`` of the step, so that its traffic inside one takes ``j / lambda(2)``.  If nodes send a share u of their
bandwidth out of their minipod at once, links upwards with a ratio r carry it at ``1 / (r u)`` of its speed, where that
is below 1

    relative step = 1 + sum over families with n > 1 of  j / lambda(2) * (max(1, r u) * (1 + lambda(n)) - 1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from math import fsum, inf
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.records import AtLeastOne, JsonRecord, Share
from scheduler.placement.types import ALGORITHMS, Limits
from simulator.capacity.cluster_question import GRID, AffinityQuestion, JobShape, parse_job, spelled
from simulator.capacity.hardware_prices import HardwarePrices
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
from simulator.sheet import Chart, Series, Sheet, known, text_table

if TYPE_CHECKING:
    from scheduler.job import Job
    from scheduler.outcome import Outcome
    from topology.cluster import Cluster


Percentiles = tuple[float, float, float]  # P10, P50, P90


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


class CheapestRatio(JsonRecord):
    """The oversubscription that costs least for one size of minipod, placed by the first algorithm."""

    minipod_nodes: AtLeastOne
    """Nodes of a minipod."""
    choice: float
    """The oversubscription with the least mean cost of a useful GPU-hour: what to build, not knowing what comes."""
    ratio: Percentiles
    """The oversubscription that would cost least if what comes were known: P10, P50, P90."""


class MinipodsAnswer(CapacityAnswer, kw_only=True):
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
        return next(cell for cell in self.of(algorithm, ratio) if cell.minipod_nodes == size)

    def of(self, algorithm: str, ratio: float) -> list[MinipodCell]:
        """Return the cells of one algorithm and one oversubscription, by size."""
        return [cell for cell in self.cells if (cell.algorithm, cell.oversubscription) == (algorithm, ratio)]


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

        worth = outcome.evaluation
        if worth is None:
            return None
        families = (
            (job.spread_cost * job.alpha, PUBLISHED.collective_curve, worth.dp),
            (job.spread_cost * job.beta, PUBLISHED.send_recv_curve, worth.pp),
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
    from simulator.cost.step import PlacedJob

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
    from simulator.cost.step import COMM_MODELS

    lines = (
        *(f"Model {MODEL}: {line}" for line in COMM_MODELS.load(MODEL).assumptions),
        f"Nodes send {range_words(crossing)} of their bandwidth out of their minipods at once; an oversubscription "
        "slows what crosses only where it leaves less than that. The range is an assumption: what the links upwards of "
        "a spine carry at their busiest, as a share of the nodes' bandwidth below, replaces it (--crossing).",
    )
    return tuple(" ".join(line.split()) for line in lines)


SIZES = (32, 64, 128, 256, 512, 1024)  # Usual nodes of a minipod
_HARDLY = 0.01  # Share of the throughput that is no reason for a larger minipod, as of costs in other answers
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
            problem = f"a job of {largest:,} nodes does not fit: {free:,} of {self.nodes:,} nodes are free"
            fix = "choose smaller jobs, a larger cluster or a smaller --busy-share"
            raise InvalidInput(problem, where="--grid", fix=fix)
        if beyond := [size for size in self.sizes or SIZES[:1] if size > self.nodes]:
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
        ranges: list[AnswerRange] = []
        for size in self.minipod_sizes:
            step(f"minipods of {size} nodes")
            # a single minipod has no links to narrow, and no ports for them
            count = max(1, round(self.nodes / size))
            empty = minipods(minipods=count, nodes=self.nodes)
            states = [fragment(empty, self.busy_share, seed) for seed in range(self.seeds)]
            # what a node costs an hour with its ports between minipods; nothing where prices are missing
            hours: dict[float, float] = {}
            if (node := self.node_hour(GPUS)) is not None and self.price_switch_port is not None:
                port = self.an_hour(self.price_switch_port)
                hours = {ratio: node + (ENDS * GPUS / ratio if count > 1 else 0.0) * port for ratio in self.columns}
            for name in self.algorithms:
                algorithm = ALGORITHMS.load(name)
                placed = [[(state, job, run(algorithm, state, job, limits)) for job in jobs] for state in states]
                spread = [[SpreadJob.of(job, outcome) for _, job, outcome in state] for state in placed]
                kept = {
                    ratio: [
                        throughput(spread[int(at["state"])], ratio=ratio if count > 1 else 1.0, crossing=at["crossing"])
                        for at in self.points.values
                    ]
                    for ratio in self.columns
                }
                outcomes = [outcome for state in placed for _, _, outcome in state]
                spreads = [outcome.evaluation for outcome in outcomes if outcome.evaluation is not None]
                for ratio, shares in kept.items():
                    there, hour = [share for share in shares[: self.draws] if share is not None], hours.get(ratio)
                    cells.append(
                        MinipodCell(
                            algorithm=name,
                            minipod_nodes=size,
                            minipods=count,
                            oversubscription=ratio,
                            throughput=percentiles(there) if there else None,
                            cost=percentiles(_costs(hour, there)) if there and hour is not None else None,
                            hierarchical=by_hierarchical([*chain(*placed)], ratio),
                            dp_spread=fmean(worth.dp for worth in spreads) if spreads else None,
                            pp_spread=fmean(worth.pp for worth in spreads) if spreads else None,
                            placed=len(spreads) / len(outcomes),
                            cut_short=fmean(outcome.stopped_at is not None for outcome in outcomes),
                        )
                    )
                if name != self.algorithms[0]:
                    continue
                costs = {ratio: _costs(hour, kept[ratio]) for ratio, hour in hours.items()}
                # the oversubscription that costs least at each point, where there are prices and every job has a place
                table = [[(cost, ratio) for cost in values] for ratio, values in costs.items()]
                best = [min(at) for at in zip(*table, strict=True)]
                is_headline, highest = size == self.told, self.columns[-1]
                if best and all(cost < inf for cost, _ in best):
                    ratios = [ratio for _, ratio in best]
                    choice = min(costs, key=lambda ratio: fsum(costs[ratio][: self.draws]))
                    cheapest.append(CheapestRatio(size, choice, percentiles(ratios[: self.draws])))
                    if is_headline:
                        words = f"best oversubscription, inputs known, minipods of {size:,}"
                        ranges.append(self.points.range_of(words, ratios))
                elif is_headline and None not in kept[highest]:
                    words = f"throughput at {highest:g}:1, minipods of {size:,}"
                    ranges.append(self.points.range_of(words, [share or 0.0 for share in kept[highest]], kind="share"))
        # stable: sizes and oversubscriptions stay in their order
        cells.sort(key=lambda cell: (self.algorithms.index(cell.algorithm), cell.minipod_nodes))
        return MinipodsAnswer(
            ranges=tuple(ranges),
            nodes=self.nodes,
            busy_share=self.busy_share,
            seeds=self.seeds,
            alpha=self.alpha_of_all(self.sized_jobs),
            jobs=tuple(
                StudiedJob(shape.name, rows, rows * shape.pp, affinity.alpha) for shape, rows, affinity in sized
            ),
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

    def title(self, answer: MinipodsAnswer) -> str:  # noqa: ARG002
        """Return the question in words."""
        return "How large should minipods be, and what does oversubscription between them cost?"

    def verdict(self, answer: MinipodsAnswer) -> str:
        """Return the oversubscription that costs least, or what the highest leaves; and what placement gains there."""
        first, *others = self.algorithms
        cheap, cell = self._headline(answer)
        if cell.throughput is None:
            return f"{first} found no place for any of the jobs."
        low, median, high = cell.throughput
        ratio, least, size = cell.oversubscription, self.columns[0], f"{self.told:,} nodes"
        keep = f"{median:.1%} of a flat network's throughput (P10 {low:.1%}, P90 {high:.1%})"
        gain = ""
        for name in others:
            if (other := answer.cell(name, self.told, ratio).throughput) is not None:
                gain = f" Placing with {first} instead of {others[0]} gains {median / other[1] - 1.0:.1%} there."
                break
        # which size is large enough: with a larger one jobs keep hardly more
        kept = {row.minipod_nodes: row.throughput[1] for row in answer.of(first, ratio) if row.throughput is not None}
        if len(kept) > 1:
            enough = min(nodes for nodes, share in kept.items() if share >= (1 - _HARDLY) * max(kept.values()))
            gain += (
                f" Of the sizes, {enough:,} nodes are the smallest with which jobs keep within {_HARDLY:.0%} of the "
                f"most ({kept[enough]:.1%})."
            )
        if cheap is None:
            return (
                f"By the model {MODEL}, jobs keep {keep} with minipods of {size} and an oversubscription of "
                f"{ratio:g}.{gain} Which one costs least hangs on --price-node and --price-switch-port."
            )
        full = cost_words(answer.cell(first, self.told, least))
        against = f", against {full} at {least:g}:1" if ratio > least else ""
        return (
            f"By the model {MODEL}, the oversubscription that costs least with minipods of {size} is {ratio:g}:1, at "
            f"{cost_words(cell)} a useful GPU-hour{against}. Jobs then keep {keep}.{gain}"
        )

    def _headline(self, answer: MinipodsAnswer) -> tuple[CheapestRatio | None, MinipodCell]:
        """Return the oversubscription that costs least at the size of the headline, ``None`` without prices, and the
        cell of the first algorithm there; without prices that of the highest oversubscription.
        """
        cheap = next((row for row in answer.cheapest if row.minipod_nodes == self.told), None)
        ratio = self.columns[-1] if cheap is None else cheap.choice
        return cheap, answer.cell(self.algorithms[0], self.told, ratio)

    def figure(self, answer: MinipodsAnswer) -> AnswerFigure:
        """Return the oversubscription that costs least; without prices, the throughput that the highest leaves."""
        cheap, cell = self._headline(answer)
        if cell.throughput is None:
            return AnswerFigure("none", f"of the jobs found a place with {self.algorithms[0]}", "")
        low, median, high = cell.throughput
        ratio, size = f"{cell.oversubscription:.3g}:1", f"minipods of {self.told:,} nodes"
        if cheap is None:
            words = f"of a flat network's throughput at {ratio}, {size}"
            return AnswerFigure(f"{median:.1%}", words, f"P10 {low:.1%}, P90 {high:.1%}")
        words = f"oversubscription that costs least, {size}"
        return AnswerFigure(ratio, words, f"{cost_words(cell)} a useful GPU-hour")

    def assumptions(self, answer: MinipodsAnswer) -> Iterator[str]:
        """Yield what clusters, jobs, time limit and models of communication take for granted."""
        jobs = ", ".join(f"{job.rows} x {job.shape} ({job.nodes} nodes)" for job in answer.jobs)
        yield (
            f"{answer.nodes:,} nodes of 8 GPUs in racks of 4, minipods as even as can be; {answer.busy_share:.0%} of "
            f"the nodes are used by other jobs, whole gangs and scattered small ones, in {answer.seeds} states made by "
            "seeds."
        )
        alpha = spelled(answer.alpha)
        yield f"Jobs (PP groups x tp x pp): {jobs}; each is placed alone on the same state, with {alpha}."
        yield from self.where_alpha_is_from(self.sized_jobs)
        yield "The other jobs hold nodes; what they send is in the share that crosses, not counted one by one."
        yield "Throughput is 1 over the predicted relative step time, a mean weighted by nodes: 100% = a flat network."
        yield (
            f"Each GPU has a port; {ENDS} more ports for each link between minipods, as many links as GPUs over the "
            "oversubscription. The price of a node holds all else; what larger minipods cost inside is not weighed."
        )
        for name in self.algorithms:
            share = fmean(answer.cell(name, size, self.columns[0]).cut_short for size in self.minipod_sizes)
            if share:
                yield (
                    f"{name} was stopped after {self.time_limit:g} s of counted work in {share:.1%} of its placements, "
                    "on any machine; with a longer --time-limit these may come out a little better."
                )
        yield from model_assumptions(self.crossing)

    def changes(self, answer: MinipodsAnswer) -> Sequence[str]:
        """Return what would change the answer."""
        cells = [answer.cell(self.algorithms[0], self.told, ratio) for ratio in self.columns]
        kept = ", ".join(known(cell.hierarchical, ".1%") for cell in cells)
        ratios = ", ".join(f"{ratio:g}:1" for ratio in self.columns)
        return (
            "What spread costs the jobs: --model, or --records from `arnold calibrate`.",
            "The model: by hierarchical, where every node sends at once and flows collide on links, jobs keep "
            f"{kept} with minipods of {self.told:,} nodes at {ratios}.",
        )

    def sheet(self, answer: MinipodsAnswer) -> Sheet:
        """Return a table and a chart for each algorithm; cost by oversubscription first, where there are prices."""
        first = self.algorithms[0]
        tables, charts = [], []
        medians = [cell.throughput[1] for cell in answer.cells if cell.throughput is not None]

        def kept(name: str, ratio: float, cell: MinipodCell) -> str:
            shares = answer.cell(name, cell.minipod_nodes, ratio).throughput
            return "-" if shares is None else " / ".join(f"{100 * share:.1f}" for share in shares)

        for name in self.algorithms:
            columns: dict[str, Callable[[MinipodCell], str]] = {
                "minipod": lambda cell: f"{cell.minipod_nodes:,}",
                "minipods": lambda cell: f"{cell.minipods:,}",
                "DP spread": lambda cell: known(cell.dp_spread, ".1f"),
                "PP spread": lambda cell: known(cell.pp_spread, ".1f"),
                "placed": lambda cell: f"{cell.placed:.0%}",
            } | {f"{ratio:.3g}:1": partial(kept, name, ratio) for ratio in self.columns}
            title = f"Throughput with {name}, % of a flat network, by minipod size and oversubscription"
            cells = answer.of(name, self.columns[0])
            tables.append(text_table(f"{title}: P10 / P50 / P90", cells, columns))
            series = [
                Series(
                    f"{ratio:.3g}:1",
                    [
                        (float(i), cell.throughput and cell.throughput[1])
                        for i, cell in enumerate(answer.of(name, ratio))
                    ],
                )
                for ratio in self.columns
            ]
            charts.append(
                Chart(
                    title=f"Throughput with {name}, P50",
                    x_label="nodes of a minipod",
                    y_label="of a flat network",
                    series=series,
                    # a twentieth below the least value, or it would lie on the axis
                    floor=max(0.0, int(20 * min(medians, default=0.0) - 0.5) / 20),
                    ceiling=1.0,
                    ticks=[(float(i), f"{cell.minipod_nodes:,}") for i, cell in enumerate(cells)],
                    kind="share",
                )
            )
        if not answer.cheapest:
            return Sheet(tables, charts)
        by_size: dict[str, Callable[[CheapestRatio], str]] = {
            "minipod": lambda row: f"{row.minipod_nodes:,}",
            "oversubscription": lambda row: f"{row.choice:.3g}:1",
            "a useful GPU-hour": lambda row: cost_words(answer.cell(first, row.minipod_nodes, row.choice)),
            "best if known": lambda row: " / ".join(f"{ratio:.3g}:1" for ratio in row.ratio),
        }
        cheapest = text_table(f"Least mean cost with {first}: P10 / P50 / P90", answer.cheapest, by_size)
        # a line for each size; the band and the optimum are those of the headline
        lines, marks = [], []
        for row in answer.cheapest:
            costs = [answer.cell(first, row.minipod_nodes, ratio).cost or (inf, inf, inf) for ratio in self.columns]
            points: list[tuple[float, float | None]] = [(float(i), cost[1]) for i, cost in enumerate(costs)]
            is_headline = row.minipod_nodes == self.told
            band = ([cost[0] for cost in costs], [cost[2] for cost in costs]) if is_headline else None
            lines.append(Series(f"minipods of {row.minipod_nodes:,}", points, band=band))
            marks += [(float(self.columns.index(row.choice)), "least mean cost")] * is_headline
        cost = Chart(
            title=f"Median cost of a useful GPU-hour; band: P10 to P90, minipods of {self.told:,}",
            x_label="oversubscription between minipods",
            y_label="cost",
            series=lines,
            ticks=[(float(i), f"{ratio:.3g}:1") for i, ratio in enumerate(self.columns)],
            lines=marks,
        )
        return Sheet((cheapest, *tables), (cost, *charts))


def _costs(hour: float, kept: Sequence[float | None]) -> list[float]:
    """Return what a useful GPU-hour costs, where a node's hour costs so much and jobs keep such shares of it."""
    return [hour / (GPUS * share) if share else inf for share in kept]


def cost_words(cell: MinipodCell) -> str:
    """Return the cost of a useful GPU-hour with its range: ``1.26 (P10 1.25, P90 1.30)``."""
    low, median, high = cell.cost or (inf, inf, inf)
    return f"{median:,.2f} (P10 {low:,.2f}, P90 {high:,.2f})"
