"""How large should minipods be, and what does oversubscription between them cost?

Jobs are placed, each alone, on clusters with minipods of each size that are partly in use; a model of communication
predicts how much of the throughput of a flat network each keeps under each oversubscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, ClassVar

from annotated_types import Interval

from scheduler.placement.types import ALGORITHMS, Limits
from simulator.capacity.affinity_question import AffinityQuestion, spelled
from simulator.capacity.job_shape import JobShape, parse_job
from simulator.capacity.minipods_answer import MinipodCell, MinipodsAnswer, StudiedJob
from simulator.capacity.minipods_throughput import EVEN, LEVEL, Placed, model_assumptions, throughput
from simulator.capacity.sheet import Chart, Series, Sheet, TextTable, known, text_table
from simulator.confidence import half_width
from topology.errors import InvalidInput
from topology.field_types import AtLeastOne, Share

SIZES = (32, 64, 128, 256, 512, 1024)  # Usual nodes of a minipod


@dataclass(frozen=True, kw_only=True)
class MinipodsQuestion(AffinityQuestion[MinipodsAnswer]):
    """Say what throughput is left by size of minipod and oversubscription between them."""

    answer_type: ClassVar = MinipodsAnswer

    nodes: Annotated[int, Interval(ge=8, le=100_000)] = 2048
    """Nodes of each cluster."""
    sizes: tuple[AtLeastOne, ...] = field(
        default=(), metadata={"option": "--size", "metavar": "N", "default": "32, 64 .. 1024 as far as there are nodes"}
    )
    """Nodes of a minipod; may be repeated."""
    ratios: tuple[Annotated[float, Interval(ge=1, le=1_000)], ...] = field(
        default=(EVEN, 2.0, 4.0, 7.0),
        metadata={"option": "--oversubscription", "metavar": "RATIO", "default": "1, 2, 4, 7"},
    )
    """Between minipods, 1 = none; may be repeated."""
    busy_share: Share = 0.6
    """Nodes that other jobs use."""
    jobs: tuple[str, ...] = field(
        default=("8x4x16", "8x8x32", "8x8x75"), metadata={"option": "--job", "metavar": "TPxPPxROWS"}
    )
    """A job, in PP groups; may be repeated."""
    algorithms: tuple[str, ...] = field(default=("exact", "best-fit"), metadata={"metavar": "A,B,..", "separator": ","})
    """Placement algorithms."""
    seeds: Annotated[int, Interval(ge=1, le=1_000)] = 5
    """States of each cluster."""
    time_limit: Annotated[float, Interval(gt=0, le=3_600)] = field(default=0.5, metadata={"metavar": "SECONDS"})
    """For each placement."""

    def __post_init__(self) -> None:
        super().__post_init__()
        largest = max(shape.pp * rows for shape, rows in self.sized_jobs)
        free = self.nodes - round(self.busy_share * self.nodes)
        if largest > free:
            raise InvalidInput(
                f"a job of {largest:,} nodes does not fit: {free:,} of {self.nodes:,} nodes are free",
                where="--job",
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

    @property
    def columns(self) -> dict[float | None, str]:
        """Oversubscriptions with their words; the last is the loss that was measured."""
        return {ratio: f"{ratio:.3g}:1" for ratio in self.ratios} | {None: "as measured"}

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
        cells = []
        for size in self.minipod_sizes:
            step(f"minipods of {size} nodes")
            empty = minipods(minipods=max(1, round(self.nodes / size)), nodes=self.nodes)
            states = [fragment(empty, self.busy_share, seed) for seed in range(self.seeds)]
            for name in self.algorithms:
                placed = [[(one, job, run(ALGORITHMS.load(name), one, job, limits)) for job in jobs] for one in states]
                cells += [self._cell(name, size, placed, ratio) for ratio in self.columns]
        # stable: sizes and oversubscriptions stay in their order
        cells.sort(key=lambda cell: (self.algorithms.index(cell.algorithm), cell.minipod_nodes))
        return MinipodsAnswer(
            nodes=self.nodes,
            busy_share=self.busy_share,
            seeds=self.seeds,
            alpha=self.alpha_of_all(self.sized_jobs),
            jobs=tuple(StudiedJob(shape.name, rows, rows * shape.pp, known.alpha) for shape, rows, known in sized),
            cells=tuple(cells),
        )

    def _cell(self, name: str, size: int, placed: Sequence[Sequence[Placed]], ratio: float | None) -> MinipodCell:
        """Return the cell of one algorithm, from its placements by seed."""
        import numpy as np

        count = max(1, round(self.nodes / size))
        throughputs = [kept for seed in placed if (kept := throughput(seed, ratio if count > 1 else 1.0)) is not None]
        outcomes = [outcome for seed in placed for _, _, outcome in seed]
        spreads = [found for outcome in outcomes if (found := outcome.evaluation) is not None]
        return MinipodCell(
            algorithm=name,
            minipod_nodes=size,
            minipods=count,
            oversubscription=ratio,
            throughput=float(np.mean(throughputs)) if throughputs else None,
            half_width=half_width(throughputs),
            dp_spread=float(np.mean([one.dp for one in spreads])) if spreads else None,
            pp_spread=float(np.mean([one.pp for one in spreads])) if spreads else None,
            placed=len(spreads) / len(outcomes),
            cut_short=float(np.mean([one.proposal.solve_seconds >= self.time_limit for one in outcomes])),
        )

    def title(self, found: MinipodsAnswer) -> str:  # noqa: ARG002
        """Return the question in words."""
        return "How large should minipods be, and what does oversubscription between them cost?"

    def verdict(self, found: MinipodsAnswer) -> str:
        """Return what the first algorithm keeps with the smallest and the largest minipods, and gains on the next."""
        first, *others = self.algorithms
        ratio = EVEN if EVEN in self.ratios else max(self.ratios)
        cells = [found.cell(first, size, ratio) for size in sorted(self.minipod_sizes)]
        kept = [(cell.minipod_nodes, cell.throughput) for cell in cells if cell.throughput is not None]
        if not kept:
            return f"{first} found no place for any of the jobs."
        words = ", ".join(f"{throughput:.1%} with minipods of {size}" for size, throughput in (kept[0], kept[-1]))
        gains = [
            throughput / other - 1.0
            for name in others
            for size, throughput in kept
            if (other := found.cell(name, size, ratio).throughput)
        ]
        gain = f" Placing with {first} instead of {others[0]} gains up to {max(gains):.1%}." if gains else ""
        return f"At an oversubscription of {ratio:.3g} jobs keep {words} nodes of a flat network's throughput.{gain}"

    def assumptions(self, found: MinipodsAnswer) -> Sequence[str]:
        """Return what clusters, jobs, time limit and models of communication take for granted."""
        jobs = ", ".join(f"{job.rows} x {job.shape} ({job.nodes} nodes)" for job in found.jobs)
        return (
            f"{found.nodes:,} nodes of 8 GPUs in racks of 4, minipods as even as can be; {found.busy_share:.0%} of the "
            f"nodes are used by other jobs, whole gangs and scattered small ones, in {found.seeds} states made by "
            "seeds.",
            f"Jobs (PP groups x tp x pp): {jobs}; each is placed alone on the same state, with {spelled(found.alpha)}.",
            *self.where_alpha_is_from(self.sized_jobs),
            "The other jobs hold nodes; what they send is in the model's assumption about a busy network, not counted "
            "one by one.",
            "Throughput is 1 over the predicted relative step time, a mean weighted by nodes: 100 % = a flat network.",
            "What larger minipods cost in switches and cables is not weighed.",
            *self._cut_short(found),
            *model_assumptions(),
        )

    def _cut_short(self, found: MinipodsAnswer) -> Iterator[str]:
        """Yield a sentence for each algorithm that ran out of time."""
        import numpy as np

        for name in self.algorithms:
            share = float(np.mean([found.cell(name, size, None).cut_short for size in self.minipod_sizes]))
            if share:
                yield (
                    f"{name} was stopped after {self.time_limit:g} s in {share:.1%} of its placements; these may come "
                    "out a little better or worse on a machine of another speed."
                )

    def changes(self, found: MinipodsAnswer) -> Sequence[str]:  # noqa: ARG002
        """Return what would change the answer."""
        return ("The model of communication, and how much of the network other jobs use.",)

    def sheet(self, answer: MinipodsAnswer) -> Sheet:
        """Return a table and a chart for each algorithm."""
        return Sheet(
            tables=[self._table(answer, name) for name in self.algorithms],
            charts=[self._chart(answer, name) for name in self.algorithms],
        )

    def _table(self, answer: MinipodsAnswer, name: str) -> TextTable:
        def kept(size: int, ratio: float | None) -> str:
            cell = answer.cell(name, size, ratio)
            return "-" if cell.throughput is None else f"{100 * cell.throughput:.1f} ± {100 * cell.half_width:.1f}"

        columns: dict[str, Callable[[MinipodCell], str]] = {
            "minipod": lambda cell: f"{cell.minipod_nodes:,}",
            "minipods": lambda cell: f"{cell.minipods:,}",
            "DP spread": lambda cell: known(cell.dp_spread, ".1f"),
            "PP spread": lambda cell: known(cell.pp_spread, ".1f"),
            "placed": lambda cell: f"{cell.placed:.0%}",
        }
        for ratio, word in self.columns.items():
            columns[word] = lambda cell, ratio=ratio: kept(cell.minipod_nodes, ratio)  # type: ignore[misc]
        title = f"Throughput with {name}, % of a flat network, by minipod size and oversubscription"
        return text_table(title, [answer.cell(name, size, None) for size in self.minipod_sizes], columns)

    def _chart(self, answer: MinipodsAnswer, name: str) -> Chart:
        least = min((cell.throughput for cell in answer.cells if cell.throughput is not None), default=0.0)
        series = []
        for ratio, word in self.columns.items():
            cells = [answer.cell(name, size, ratio) for size in self.minipod_sizes]
            points = [(float(i), cell.throughput) for i, cell in enumerate(cells)]
            series.append(Series(word, points, errors=[cell.half_width for cell in cells]))
        return Chart(
            title=f"Throughput with {name}",
            x_label="nodes of a minipod",
            y_label="of a flat network",
            series=series,
            # a twentieth below the least value, or it would lie on the axis
            floor=max(0.0, int(20 * least - 0.5) / 20),
            ceiling=1.0,
            ticks=[(float(i), f"{size:,}") for i, size in enumerate(self.minipod_sizes)],
            percent=True,
        )
