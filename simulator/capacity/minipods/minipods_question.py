"""How large should minipods be, and what does oversubscription between them cost?

Jobs are placed, each alone, on clusters with minipods of each size that are partly in use; a model of communication
predicts how much of the throughput of a flat network each keeps under each oversubscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from math import fsum, inf
from typing import Annotated, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.records import AtLeastOne, Share
from scheduler.placement.types import ALGORITHMS, Limits
from simulator.capacity.affinity_question import AffinityQuestion, spelled
from simulator.capacity.answer_range import AnswerRange, InputPoints, percentiles
from simulator.capacity.capacity_question import AnswerFigure
from simulator.capacity.hardware_prices import HardwarePrices, cost_per_useful_hour
from simulator.capacity.job_shape import GRID, JobShape, parse_job
from simulator.capacity.minipods.minipods_answer import CheapestRatio, MinipodCell, MinipodsAnswer, StudiedJob
from simulator.capacity.minipods.minipods_sheet import figure_of, minipods_sheet, verdict_of
from simulator.capacity.minipods.minipods_throughput import (
    LEVEL,
    Placed,
    SpreadJob,
    by_hierarchical,
    model_assumptions,
    throughput,
)
from simulator.capacity.uncertain_input import numbered_input, option_input
from simulator.sheet import Sheet, known

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
                placed = [[(one, job, run(ALGORITHMS.load(name), one, job, limits)) for job in jobs] for one in states]
                spread = [[SpreadJob.of(job, outcome) for _, job, outcome in state] for state in placed]
                kept = {ratio: self._kept(spread, size, ratio) for ratio in self.columns}
                cells += [self._cell(name, size, [*chain(*placed)], ratio, kept[ratio]) for ratio in kept]
                if name == self.algorithms[0]:
                    cheapest += self._cheapest(size, kept)
                    ranges += [self._range(size, kept)] * (size == self.told)
        # stable: sizes and oversubscriptions stay in their order
        cells.sort(key=lambda cell: (self.algorithms.index(cell.algorithm), cell.minipod_nodes))
        return MinipodsAnswer(
            ranges=tuple(one for one in ranges if one is not None),
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
            dp_spread=float(np.mean([one.dp for one in spreads])) if spreads else None,
            pp_spread=float(np.mean([one.pp for one in spreads])) if spreads else None,
            placed=len(spreads) / len(outcomes),
            cut_short=float(np.mean([one.stopped_at is not None for one in outcomes])),
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
