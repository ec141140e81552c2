"""Which queue policy makes the most of several GPU generations, and which kind of job should wait for which?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.files import read_source
from ground.quantities import HOUR
from simulator.capacity.generations_answer import (
    BATCH,
    NODE_GPUS,
    GenerationsAnswer,
    GenerationsCell,
    GenerationsKind,
    PublishedGain,
    family_of,
    kind_of,
)
from simulator.capacity.question import AnswerFigure, CapacityQuestion
from simulator.confidence import Band
from simulator.cost.calibration import PEAK
from simulator.sheet import Chart, Series, Sheet, known, text_table
from simulator.throughputs import Throughputs

if TYPE_CHECKING:
    from simulator.capacity.generations_replay import GenerationsRun

Runs = dict[tuple[float, str], list["GenerationsRun"]]
"""Load and policy -> a run for each seed."""

LLM = "LLM gang, at most"  # The kind of job whose speeds are peaks of data sheets

PUBLISHED = (
    ("mean JCT, Gavel against policies that know no types (OSDI 2020)", 3.5, "gavel", "fifo", "jct"),
    ("makespan, Gavel against policies that know no types (OSDI 2020)", 1.4, "gavel", "fifo", "makespan"),
    ("total time, read as makespan, Hadar against Gavel (arXiv 2503.10918)", 1.2, "hadar", "gavel", "makespan"),
    ("total time, read as mean JCT, Hadar against Gavel (arXiv 2503.10918)", 1.2, "hadar", "gavel", "jct"),
)
"""What abstracts say: words, how often as long, and what of ours stands beside: policy, the other, time.  The abstract
does not say what the total time is."""


@dataclass(frozen=True, kw_only=True)
class GenerationsQuestion(CapacityQuestion[GenerationsAnswer]):
    """Compare queues on several generations of GPUs, and say which kind of job should wait for which."""

    answer_type: ClassVar = GenerationsAnswer

    throughputs: str | None = field(default=None, metadata={"file": True, "default": "as Gavel measured"})
    """Speed of jobs on each type of GPU: Gavel's JSON, or a CSV."""
    policies: tuple[str, ...] = field(
        default=("fifo", "gavel-agnostic", "gavel", "hadar"),
        metadata={"option": "--policy", "metavar": "NAME[,..]", "separator": ","},
    )
    """Queue policy, such as fifo, fifo-backfill, priority-age, fair-share or arnold; in replays also gavel or hadar."""
    loads: tuple[Annotated[float, Interval(ge=0.01, le=10)], ...] = field(
        default=(0.5, 1.0, 2.0), metadata={"option": "--load", "metavar": "SHARE", "default": "0.5, 1, 2"}
    )
    """GPU time that jobs ask for, as a share of what the cluster has."""
    gpus: Annotated[int, Interval(ge=8, le=10_000)] = 36
    """GPUs of each type, on nodes of four."""
    jobs: Annotated[int, Interval(ge=2, le=100_000)] = field(default=100, metadata={"option": "--trace-jobs"})
    """Jobs of each run."""
    seeds: Annotated[int, Interval(ge=2, le=1_000)] = 5
    """Number of seeds, 0 to N-1, each of which draws anew."""
    resume_seconds: Annotated[float, Interval(ge=0, le=360)] = field(default=0.0, metadata={"metavar": "SECONDS"})
    """Seconds from the start of a job that a queue policy in rounds had stopped until it works again."""

    def __post_init__(self) -> None:
        from scheduler.queue.policy import POLICIES

        super().__post_init__()
        if self.gpus % NODE_GPUS:
            wrong = f"{self.gpus} GPUs are no whole nodes of {NODE_GPUS}"
            raise InvalidInput(wrong, where="--gpus", fix=f"give a multiple of {NODE_GPUS}")
        for name in self.policies:
            POLICIES.load(name, where="--policy")
        if len(set(self.policies)) < max(2, len(self.policies)):
            wrong = f"{','.join(self.policies)} are not two or more different policies"
            raise InvalidInput(wrong, where="--policy", fix="give two or more, each once, as in fifo,gavel")

    @cached_property
    def known(self) -> Throughputs:
        """How fast jobs are."""
        from simulator.throughputs import GAVEL
        from simulator.traces.throughput_files import read_throughputs

        return GAVEL if self.throughputs is None else read_throughputs(read_source(self.throughputs))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Types of GPU, the reference first."""
        named = dict.fromkeys([self.known.reference, *(name for rates in self.known.rates.values() for name in rates)])
        if len(named) < 2:
            wrong, fix = "throughputs on one type of GPU alone", "give rows of two types or more"
            raise InvalidInput(wrong, where=self.known.source, fix=fix)
        return tuple(named)

    @property
    def steps(self) -> int:
        """One for each run."""
        return (len(self.loads) + 1) * self.seeds * len(self.policies)

    def compute(self, step: Callable[[str], None]) -> GenerationsAnswer:
        """Return every policy at every load."""
        runs = self._runs(step)
        return GenerationsAnswer(
            types=self.types,
            gpus=self.gpus,
            jobs=self.jobs,
            seeds=self.seeds,
            cells=tuple(self._cell(runs, load, policy) for load in (*self.loads, BATCH) for policy in self.policies),
            kinds=tuple(self._kinds(runs.get((max(self.loads), "gavel"), []))),
            published=tuple(self._published(runs)),
        )

    def _runs(self, step: Callable[[str], None]) -> Runs:
        from simulator.capacity.generations_replay import generations_run, job_hours, mixed_cluster, workload

        cluster, runs = mixed_cluster(self.types, self.gpus), Runs()
        rate = self.gpus * len(self.types) / job_hours(self.known, self.types)
        for load, seed in product((*self.loads, BATCH), range(self.seeds)):
            trace = workload(self.known, self.types, count=self.jobs, per_hour=load * rate or None, seed=seed)
            for policy in self.policies:
                step(f"{policy}, {_at(load)}, seed {seed}")
                run = generations_run(trace, cluster, self.known, policy=policy, seed=seed, resume=self.resume_seconds)
                runs.setdefault((load, policy), []).append(run)
        return runs

    def _cell(self, runs: Runs, load: float, policy: str) -> GenerationsCell:
        """Return a policy at a load, compared seed by seed with the first."""
        mine, first = runs[load, policy], runs[load, self.policies[0]]
        return GenerationsCell(
            policy=policy,
            load=load or None,
            jct_hours=Band.of([one.jct / HOUR for one in mine]),
            jct_gain=_gain(mine, first, "jct"),
            makespan_hours=Band.of([one.makespan / HOUR for one in mine]),
            makespan_gain=_gain(mine, first, "makespan"),
            stops=fmean(one.stops for one in mine) / self.jobs,
        )

    def _published(self, runs: Runs) -> Iterator[PublishedGain]:
        """Yield what papers say, beside ours: of JCT the largest over loads, of makespan that of the batch."""
        for name, published, policy, other, time in PUBLISHED:
            there = {policy, other} <= {*self.policies}
            loads = (self.loads if time == "jct" else (BATCH,)) if there else ()
            ours = [_gain(runs[load, policy], runs[load, other], time) for load in loads]
            most = max(ours, key=lambda band: band.mean, default=None)
            yield PublishedGain(name=name, published=published, ours=most)

    def _kinds(self, runs: Sequence[GenerationsRun]) -> Iterator[GenerationsKind]:
        """Yield the families of models, those that gain most from their fastest type first; runs say where each was."""
        had = Counter[tuple[str, str]]()
        for run in runs:
            had.update(run.on)
        families = defaultdict[str, dict[int, list[dict[str, float]]]](dict)  # Throughputs of each by GPUs
        for model, gpus in self.known.rates:
            if any((rates := self.known.together(model, gpus)).values()):
                families[family_of(model)].setdefault(gpus, []).append(rates)
        found = [kind_of(LLM, {name: PEAK[name] / PEAK["H100"] for name in ("H100", "A100")}, {})]
        for family, by_gpus in families.items():
            total = sum(had[family, name] for name in self.types)
            shares = {name: had[family, name] / total for name in self.types} if total else {}
            found.append(kind_of(family, self._speeds(by_gpus[min(by_gpus)]), shares))
        yield from sorted(found, key=lambda one: (-one.wait_hours, one.kind))

    def _speeds(self, jobs: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Return speeds relative to the fastest type, a mean over kinds of jobs, from their throughputs."""
        means = {name: fmean(job.get(name, 0.0) / max(job.values()) for job in jobs) for name in self.types}
        return {name: mean / max(means.values()) for name, mean in means.items()}

    def title(self, found: GenerationsAnswer) -> str:
        """Return the question in words."""
        made = " + ".join(f"{found.gpus} {name}" for name in found.types)
        return f"Queues on {made} GPUs, {found.jobs:,} jobs: what does knowing them buy?"

    def verdict(self, found: GenerationsAnswer) -> str:
        """Return what knowing the types buys, and which jobs should wait."""
        best = max((cell for cell in found.cells if cell.load is not None), key=lambda one: one.jct_gain.mean)
        said = f"Mean completion time is up to {best.jct_gain:.2f} times shorter than under "
        said += f"{self.policies[0]}: under {best.policy} at {_at(best.load)}."
        first = next(kind for kind in found.kinds if kind.kind != LLM)
        if not first.instead_of:
            return said
        return (
            f"{said} Of the kinds of jobs that ran, {first.kind} has most to wait for: up to {first.wait_hours:.2f} h "
            f"for an hour on {first.waits_for} rather than go to {first.instead_of}."
        )

    def figure(self, found: GenerationsAnswer) -> AnswerFigure:
        """Return how much shorter completion times are under the policy that gains most."""
        best = max((cell for cell in found.cells if cell.load is not None), key=lambda cell: cell.jct_gain.mean)
        words = f"as short a mean completion time under {best.policy} at {_at(best.load)} as under {self.policies[0]}"
        return AnswerFigure(f"{best.jct_gain.mean:.2f}x", words, f"{best.jct_gain:.2f}, 95 % interval")

    def assumptions(self, found: GenerationsAnswer) -> Iterator[str]:
        """Return what was taken for granted."""
        yield f"Throughputs {self.known.source}; run times are those on {self.known.reference}, and known to the queue."
        yield "The workload is that of Gavel's public simulator: sizes 1, 2, 4, 8 at 70, 10, 15, 5%, Poisson arrivals."
        yield f"All {found.jobs:,} jobs of a run count, from the empty cluster to the last end: no steady state."
        yield "How long to wait is by run times alone: the queues of all types move on, and no job is stopped."
        yield f"{LLM}: as fast as the peak of dense bf16 of the data sheets; what communication takes makes it less."

    def changes(self, found: GenerationsAnswer) -> Iterator[str]:  # noqa: ARG002
        """Return what would change the answer."""
        yield "Jobs that are stopped pay for it: --resume-seconds 30."
        yield "Own jobs: --throughputs FILE with a row for each model, number of GPUs and type."

    def sheet(self, answer: GenerationsAnswer) -> Sheet:
        """Return the answer as a person reads it."""
        cells = text_table(
            f"Hours, mean over {answer.seeds} seeds ± half of its 95% interval; times shorter than under "
            f"{self.policies[0]}",
            answer.cells,
            {
                "load": lambda one: _at(one.load),
                "policy": lambda one: one.policy,
                "mean JCT": lambda one: f"{one.jct_hours:.1f}",
                "times shorter": lambda one: f"{one.jct_gain:.2f}",
                "makespan": lambda one: f"{one.makespan_hours:.0f}",
                "times shorter ": lambda one: f"{one.makespan_gain:.2f}",
                "stops of a job": lambda one: f"{one.stops:.1f}",
            },
        )
        published = text_table(
            "Beside the papers",
            answer.published,
            {
                "": lambda one: one.name,
                "published": lambda one: f"{one.published:.2f}",
                "here": lambda one: known(one.ours, ".2f"),
            },
        )
        kinds = text_table(
            "Which kind of job should wait for which type, and how long for an hour there",
            answer.kinds,
            {
                "kind of job": lambda one: one.kind,
                "speeds": lambda one: _words(one.speeds, ".2f"),
                "waits for": lambda one: (
                    f"{one.waits_for}, {one.wait_hours:.2f} h" if one.instead_of else one.waits_for
                ),
                "instead of": lambda one: one.instead_of or "-",
                "where gavel had it": lambda one: _words(one.shares, ".0%"),
            },
        )
        return Sheet([cells, published, kinds], [self._chart(answer)])

    def _chart(self, answer: GenerationsAnswer) -> Chart:
        series = []
        for policy in self.policies:
            mine = [
                (cell.load, cell.jct_hours) for cell in answer.cells if cell.policy == policy and cell.load is not None
            ]
            ends = [band.mean - band.half for _, band in mine], [band.mean + band.half for _, band in mine]
            series.append(Series(policy, [(load, band.mean) for load, band in mine], band=ends))
        return Chart("Mean time from submission to end", "load", "hours", series, floor=0.0)


def _gain(mine: Sequence[GenerationsRun], others: Sequence[GenerationsRun], time: str) -> Band:
    """Return how often as long a time is in other runs, seed by seed."""
    return Band.of([getattr(other, time) / getattr(one, time) for one, other in zip(mine, others, strict=True)])


def _words(values: Mapping[str, float], spec: str) -> str:
    """Return values by name in a cell."""
    return ", ".join(f"{name} {value:{spec}}" for name, value in values.items()) or "-"


def _at(load: float | None) -> str:
    return f"load {load:g}" if load else "all at once"
