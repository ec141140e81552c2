"""What still fits on a cluster in use, by shape of job, and what of the nodes that are free is lost to their lie?

Free nodes count for a gang only where enough of them are together.  A PP group inside one domain takes pp of its free
nodes: the largest job with whole groups has the sum of pp * floor(free / pp) over the domains, which needs no search,
so that it is told over many states too: the hours of a replay, or other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

from ground.errors import few
from ground.quantities import HOUR, one_of, plural, several
from ground.records import AtLeastOne, Count, JsonRecord, Share
from simulator.capacity.cluster_question import (
    FAMILIES,
    NO_OPTION,
    Family,
    JobShape,
    LargestJob,
    Sampler,
    ShapesQuestion,
    SizedShape,
    spelled,
)
from simulator.capacity.question import AnswerFigure, AnswerRange, CapacityAnswer, InputPoints, percentiles, seed_input
from simulator.sheet import Chart, Series, Sheet, known, text_table

if TYPE_CHECKING:
    from simulator.engine import SimulatedCluster
    from topology.cluster import Cluster, IntArray, Level


class SizedJob(JsonRecord):
    """A job of some size, now and on the empty cluster."""

    share: float
    """Size of the job, of the free nodes."""
    nodes: AtLeastOne
    """Nodes of the job."""
    dp: int | None
    """DP spread now; null = nothing valid was found."""
    pp: int | None
    """PP spread now; null = nothing valid was found."""
    objective: float | None
    """Eq. 2 now; null = nothing valid was found."""
    alpha: Share
    """DP affinity."""
    objective_if_empty: float | None
    """Eq. 2 on the empty cluster; null = nothing valid was found."""
    ratio: float | None
    """Objective now over that on the empty cluster: 1 = fragmentation costs nothing."""


class ShapeLeft(JsonRecord):
    """What is left for one shape."""

    shape: str
    """tp x pp."""
    tp: AtLeastOne
    """Tensor-parallel degree."""
    pp: AtLeastOne
    """Pipeline stages."""
    most_nodes: Count
    """Nodes of the largest job whatever its spread."""
    largest: tuple[LargestJob, ...]
    """Largest jobs, by family and spread."""
    too_small: Count
    """Free nodes in domains with fewer of them than one PP group has."""
    left_over: Count
    """Free nodes that remain when every domain is filled with whole PP groups."""
    sizes: tuple[SizedJob, ...]
    """Jobs of several sizes."""

    def fitting(self, family: Family, spread: int) -> LargestJob | None:
        """Return the largest job of a family and spread; ``None`` where the shape has no such groups."""
        return next((job for job in self.largest if (job.family, job.spread) == (family, spread)), None)


class FragmentationAnswer(CapacityAnswer, kw_only=True):
    """What fragmentation costs, by job shape."""

    cluster: str
    """What the cluster is called."""
    level: str
    """The level whose domains count."""
    nodes: AtLeastOne
    """Nodes in all."""
    free: Count
    """Nodes that a gang may use."""
    free_by_domain: tuple[int, ...]
    """Free nodes of each domain, the most first."""
    alpha: float | None
    """DP affinity of the jobs; null = they differ, as their model has it."""
    trace: str | None
    """The trace that was replayed; null = none."""
    states: Count
    """States of the cluster that the range is over; 0 = the one state alone."""
    shapes: tuple[ShapeLeft, ...]
    """Results by shape of job."""


SAMPLES = 1_000  # Samples of a replay, at most
DRAWS = 100  # States of a made cluster


@dataclass(frozen=True, eq=False)
class ShareKept:
    """The share of the free nodes that jobs with whole PP groups can use, by shape and state."""

    shapes: tuple[JobShape, ...]  # Shapes with pipeline stages
    shares: tuple[tuple[float | None, ...], ...]  # By shape and state; `None` = no node is free
    states: int
    source: str  # What the states are, in words
    how: str = ""  # How jobs were replayed and which were left out, in words; empty = there is no replay
    hours: tuple[float, ...] = ()  # When the states were, hours since the first job; empty = they are of no replay
    points: InputPoints | None = None  # The points of the states, where they are drawn

    @cached_property
    def ranges(self) -> tuple[AnswerRange, ...]:
        """By shape, the one that loses most first; of the states in which nodes are free."""
        ranges = []
        for shape, shares in zip(self.shapes, self.shares, strict=True):
            quantity = f"free nodes that whole PP groups of {shape.name} use"
            of_free = [share for share in shares if share is not None]
            if of_free and self.points is not None:
                ranges.append(self.points.range_of(quantity, of_free, kind="share"))
            elif of_free:
                p10, p50, p90 = percentiles(of_free)
                ranges.append(AnswerRange(quantity, "share", p10, p50, p90, p50, len(of_free), ()))
        return tuple(sorted(ranges, key=lambda number: number.p50))


def share_kept(free: IntArray, stages: int) -> float | None:
    """Return the share of free nodes, shape [domains], that whole groups of so many use; ``None`` = none is free."""
    total = int(free.sum())
    return float((free // stages * stages).sum()) / total if total else None


def kept_by_seed(cluster: Cluster, busy_share: float, level: str | None, shapes: Sequence[JobShape]) -> ShareKept:
    """Return the shares over states of a cluster, emptied and filled again as other seeds have it."""
    from topology.cluster import count_nodes
    from topology.generate import fragment

    points, empty = InputPoints((seed_input(),), DRAWS, 0), cluster.emptied()
    counted = cluster.levels[cluster.level_index(level, where="--level")]
    states = [fragment(empty, busy_share, int(values["seed"])) for values in points.values]
    kept = _by_shape([count_nodes(counted, state.idle) for state in states], shapes)
    return ShareKept(*kept, states=DRAWS, source=f"{DRAWS} states made by other seeds", points=points)


def kept_over_replay(trace: str, cluster: Cluster, level: Level, shapes: Sequence[JobShape]) -> ShareKept:
    """Return the shares hour by hour in a replay of a trace, from the first job to the last submission.

    :param cluster: without jobs.
    :raises ArnoldError: the trace cannot be read, or none of its jobs fits the cluster.
    """
    from simulator.replay import prepare
    from simulator.replay_settings import ReplaySettings
    from simulator.traces import read_trace

    settings = ReplaySettings("fifo-backfill", algorithm="gpu-packing", level=level.name)
    replay = prepare(read_trace(trace, lenient=True), cluster, settings, lenient=True)
    records = replay.trace.records
    first, last = records[0].submit, records[-1].submit
    sampler = free_sampler(level, first, last, step=max(HOUR, (last - first) / SAMPLES))
    replay.engine.observers = (sampler.elapsed,)
    replay.engine.run()
    states = len(sampler.samples)
    source = f"{plural(states, 'sample')} of a replay of {plural(len(records), 'job')}"
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in replay.trace.dropped.items() if count)
    how = f" under {settings.policy}, placed by {settings.algorithm}, --cost-model {settings.cost_model}" + (
        f", without {dropped}" if dropped else ""
    )
    hours = tuple(sampler.step / HOUR * i for i in range(states))
    return ShareKept(*_by_shape(sampler.samples, shapes), states=states, source=source, hours=hours, how=how)


def _by_shape(
    free: Sequence[IntArray], shapes: Sequence[JobShape]
) -> tuple[tuple[JobShape, ...], tuple[tuple[float | None, ...], ...]]:
    """Return the shapes with pipeline stages, and for each the share of the free nodes of each state."""
    piped = tuple(shape for shape in shapes if shape.pp > 1)
    return piped, tuple(tuple(share_kept(nodes, shape.pp) for nodes in free) for shape in piped)


def free_sampler(level: Level, begin: float, end: float, *, step: float) -> Sampler[IntArray]:
    """Return an observer of the free nodes of each domain of a level, shape [domains]."""

    def look(cluster: SimulatedCluster) -> IntArray:
        from topology.cluster import count_nodes

        return count_nodes(level, (cluster.pool.free == cluster.pool.total) & (cluster.pool.total > 0))

    return Sampler(look, begin, end, step)


@dataclass(frozen=True, kw_only=True)
class FragmentationQuestion(ShapesQuestion[FragmentationAnswer]):
    """Say what still fits, by job shape, and what fragmentation costs against an empty cluster."""

    answer_type: ClassVar = FragmentationAnswer

    trace: str | None = field(default=None, metadata={"file": True, "default": "none: one state is looked at"})
    """Jobs to replay, in any known format; - for standard input."""
    spreads: tuple[int, ...] = field(default=(1, 2, 4), metadata=NO_OPTION)
    """Numbers of domains that groups may touch."""
    shares: tuple[Share, ...] = field(default=(0.25, 0.5, 0.75, 0.9), metadata=NO_OPTION)
    """Sizes of the jobs that are placed, as shares of the free nodes."""

    @cached_property
    def domains(self) -> tuple[Level, IntArray]:
        """The level that counts, and the nodes of each of its domains that a gang may use."""
        from scheduler.placement.admission import admissible
        from topology.cluster import count_nodes

        level = self.now.levels[self.now.level_index(self.level, where="--level")]
        probe = self.job_shapes[0].job(1, level=self.level)
        return level, count_nodes(level, admissible(self.now, probe))

    @cached_property
    def kept(self) -> ShareKept | None:
        """What whole PP groups can use of the free nodes, in other states; ``None`` = there is the one state alone."""
        if self.trace is not None:
            return kept_over_replay(self.trace, self.now.emptied(), self.domains[0], self.job_shapes)
        if self.cluster is not None:
            return None
        return kept_by_seed(self.now, self.busy_share, self.level, self.job_shapes)

    @property
    def steps(self) -> int:
        """One for each shape, and one for other states."""
        return len(self.job_shapes) + 1

    def compute(self, step: Callable[[str], None]) -> FragmentationAnswer:
        """Return what the exact algorithm places now and on the empty cluster."""
        now, empty = self.prober(self.now), self.prober(self.empty)
        level, free = self.domains
        shapes = []
        for shape in self.job_shapes:
            step(f"shape {shape.name}")
            most, sizes = now.most_rows(shape), []
            for share in self.shares:
                if (rows := int(share * most)) < 1:
                    continue
                alpha = self.affinity(shape, rows).alpha
                placed, if_empty = now.place(shape, rows, alpha), empty.place(shape, rows, alpha).objective
                worth, objective = placed.evaluation, placed.objective
                sizes.append(
                    SizedJob(
                        share=share,
                        nodes=rows * shape.pp,
                        dp=None if worth is None else worth.dp,
                        pp=None if worth is None else worth.pp,
                        objective=objective,
                        alpha=alpha,
                        objective_if_empty=if_empty,
                        ratio=None if objective is None or if_empty is None else objective / if_empty,
                    )
                )
            families: tuple[Family, ...] = ("pp", "dp") if shape.pp > 1 else ("dp",)
            shapes.append(
                ShapeLeft(
                    shape=shape.name,
                    tp=shape.tp,
                    pp=shape.pp,
                    most_nodes=most * shape.pp,
                    largest=tuple(now.largest(shape, family, k) for family in families for k in self.spreads),
                    too_small=int(free[free < shape.pp].sum()),
                    left_over=int((free % shape.pp).sum()),
                    sizes=tuple(sizes),
                )
            )
        step("other states")
        kept = self.kept
        return FragmentationAnswer(
            cluster=self.cluster_name,
            level=level.name,
            nodes=len(self.now),
            free=int(free.sum()),
            free_by_domain=tuple(sorted(free.tolist(), reverse=True)),
            alpha=self.alpha_of_all(self._jobs(shapes)),
            trace=self.trace,
            states=0 if kept is None else kept.states,
            shapes=tuple(shapes),
            ranges=() if kept is None else kept.ranges,
        )

    def _jobs(self, shapes: Iterable[ShapeLeft]) -> list[SizedShape]:
        """Return the jobs whose objectives are compared."""
        return [
            (shape, size.nodes // shape.pp)
            for shape, left in zip(self.job_shapes, shapes, strict=True)
            for size in left.sizes
        ]

    def title(self, answer: FragmentationAnswer) -> str:  # noqa: ARG002
        """Return the question in words."""
        return "What still fits, and what does fragmentation cost, by job shape?"

    def verdict(self, answer: FragmentationAnswer) -> str:
        """Return what is free, and how much of it the shape that loses most can use."""
        in_use = plural(sum(count > 0 for count in answer.free_by_domain), answer.level)
        verb = "is" if answer.free == 1 else "are"
        start = f"{answer.free:,} of {plural(answer.nodes, 'node')} {verb} free, in {in_use}."
        if answer.free and (nowhere := [row.shape for row in answer.shapes if not row.most_nodes]):
            start += f" No job fits of shape {few(nowhere)}."
        worst, kept = self._worst(answer)
        if worst is None:
            return start
        over = ""
        if self.kept is not None and answer.ranges:
            over = f" Over {self.kept.source}: {answer.ranges[0].quantity} {answer.ranges[0].words}."
        ratios = [size.ratio for row in answer.shapes for size in row.sizes if size.ratio is not None]
        dearest = f" Objectives are up to {max(ratios):.2f} times those of an empty cluster." if ratios else ""
        return (
            f"{start} With PP groups inside one {one_of(answer.level)}, the largest job of shape {worst.shape} has "
            f"{kept:,} nodes, {kept / answer.free:.0%} of those free.{over}{dearest}"
        )

    @staticmethod
    def _worst(answer: FragmentationAnswer) -> tuple[ShapeLeft | None, int]:
        """Return the shape that loses most, and the nodes of its largest job with whole PP groups; none = none fits."""
        kept = {row: fit.nodes for row in answer.shapes if row.most_nodes and (fit := row.fitting("pp", 1))}
        worst = min(kept, key=lambda row: kept[row] / row.most_nodes, default=None)
        return worst, 0 if worst is None else kept[worst]

    def figure(self, answer: FragmentationAnswer) -> AnswerFigure:
        """Return the largest job of the shape that loses most."""
        worst, kept = self._worst(answer)
        if worst is None:
            return AnswerFigure(f"{answer.free:,}", "nodes that are free", f"of {plural(answer.nodes, 'node')}")
        words = f"nodes of the largest job of shape {worst.shape} with PP groups inside one {one_of(answer.level)}"
        return AnswerFigure(f"{kept:,}", words, f"{kept / answer.free:.0%} of the {answer.free:,} that are free")

    def assumptions(self, answer: FragmentationAnswer) -> Iterator[str]:
        """Yield what the moment, the shapes and the search take for granted."""
        from scheduler.placement.admission import admissible, typed

        free = admissible(self.now, self.job_shapes[0].job(1, level=self.level))
        counts = {name: int((free & typed(self.now, [name])).sum()) for name in self.now.gpu_types}
        if len(counts) > 1:
            listed = ", ".join(f"{name or 'no type that is said'} {count:,}" for name, count in counts.items())
            yield (
                f"A job lies on one type of GPU, the best for it; free nodes are {listed}. Free nodes of domains, and "
                "what is too small or left over, count all types together."
            )
        if self.kept is None:
            yield "All numbers are of one state, and have no range: --trace FILE gives one over the hours of a replay."
        else:
            yield (
                f"The range is over {self.kept.source}{self.kept.how}: whole PP groups in single domains, all types of "
                "GPU together. Everything else is of one state."
            )
        yield (
            f"The cluster is {answer.cluster}, as it is at one moment: nothing ends and nothing is moved to make room."
        )
        yield (
            "Gangs take whole nodes that are idle and not faulty, slow ones taken to be as fast as any; spread counts "
            f"{several(answer.level)}."
        )
        if (limit := self.now.node_limit) is not None:
            yield f"A job has at most {plural(limit.nodes, 'node')}: {limit.why}."
        yield "A shape is tp x pp; its jobs grow by whole PP groups (data-parallel replicas)."
        yield (
            "Every placement is the exact algorithm's; >= marks a size beyond which it ran out of time, so that a "
            "larger job may fit."
        )
        yield (
            f"Objective: Eq. 2 of the Arnold paper with {spelled(answer.alpha)}; the empty cluster has the same nodes "
            "and flags and no jobs."
        )
        yield from self.where_alpha_is_from(self._jobs(answer.shapes))

    def changes(self, answer: FragmentationAnswer) -> Sequence[str]:
        """Return what other pipelines would use, and how room is made."""
        whole = {row.shape: job.nodes for row in answer.shapes if (job := row.fitting("pp", 1)) and answer.free}
        shares = ", ".join(f"{name} {nodes / answer.free:.0%}" for name, nodes in whole.items())
        others = (f"Other pipelines: whole PP groups use of the nodes that are free now {shares}.",) if shares else ()
        return (*others, "Jobs that are moved: arnold defragment says which, and what that makes room for.")

    def sheet(self, answer: FragmentationAnswer) -> Sheet:
        """Return the largest jobs, jobs of several sizes, and the free nodes of each domain."""

        def cell(family: Family, spread: int, row: ShapeLeft) -> str:
            job = row.fitting(family, spread)
            return "-" if job is None else f"{'' if job.proved else '>= '}{job.nodes:,}"

        largest: dict[str, Callable[[ShapeLeft], str]] = {
            "shape": lambda row: row.shape,
            "any spread": lambda row: f"{row.most_nodes:,}",
            **{
                f"{family.upper()} <= {spread}": partial(cell, family, spread)
                for family in FAMILIES
                for spread in self.spreads
            },
            f"{one_of(answer.level)} too small": lambda row: f"{row.too_small:,}",
            "left over": lambda row: f"{row.left_over:,}",
        }
        sizes: dict[str, Callable[[tuple[str, SizedJob]], str]] = {
            "shape": lambda row: row[0],
            "of the free nodes": lambda row: f"{row[1].share:.0%}",
            "nodes": lambda row: f"{row[1].nodes:,}",
            "DP spread": lambda row: known(row[1].dp, "d"),
            "PP spread": lambda row: known(row[1].pp, "d"),
            "objective": lambda row: known(row[1].objective, ".2f"),
            "empty": lambda row: known(row[1].objective_if_empty, ".2f"),
            "ratio": lambda row: known(row[1].ratio, ".2f"),
        }
        sized = [(row.shape, size) for row in answer.shapes for size in row.sizes]
        # PP groups at the left, DP groups at the right, a place without points between them
        columns: list[tuple[Family, int] | None] = [("dp", spread) for spread in self.spreads]
        if any(job.family == "pp" for row in answer.shapes for job in row.largest):
            columns = [*(("pp", spread) for spread in self.spreads), None, *columns]
        fits = Chart(
            title="Largest job that still fits",
            x_label="domains that a PP or a DP group may touch",
            y_label="nodes",
            series=[
                Series(
                    f"shape {row.shape}",
                    [(x, job.nodes if at and (job := row.fitting(*at)) else None) for x, at in enumerate(columns)],
                )
                for row in answer.shapes
            ],
            floor=0.0,
            ceiling=float(max(answer.free, 1)),
            ticks=[(x, f"{at[0].upper()} <= {at[1]}") for x, at in enumerate(columns) if at],
        )
        domains = Chart(
            title=f"Free nodes of each {one_of(answer.level)}",
            x_label=f"{several(answer.level)}, the emptiest first",
            y_label="free nodes",
            series=(Series("free nodes", list(enumerate(answer.free_by_domain, start=1))),),
            floor=0.0,
        )
        charts = [fits, domains]
        if self.kept is not None and (hours := self.kept.hours):
            by_hour = [
                Series(f"shape {shape.name}", list(zip(hours, shares, strict=True)), shape="step")
                for shape, shares in zip(self.kept.shapes, self.kept.shares, strict=True)
            ]
            title, label = "Free nodes that whole PP groups use", "of the free nodes"
            charts.append(Chart(title, "hours of the replay", label, by_hour, floor=0.0, ceiling=1.0, kind="share"))
        return Sheet(
            tables=(
                text_table("Largest job that still fits, nodes", answer.shapes, largest),
                text_table("What a job is worth now and on the empty cluster", sized, sizes),
            ),
            charts=charts,
        )
