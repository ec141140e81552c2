"""What does a queue gain that knows how fast each job is on each generation of GPUs, and which job waits for which?

The workload is that of Gavel's public simulator (``generate_job`` of scheduler/utils.py at c4fa4009): sizes 1, 2, 4 and
8 at 70, 10, 15 and 5 %; run times of 10^U(1.5, 3) minutes for 80 % of the jobs and of 10^U(3, 4) for the others, on the
reference; a kind of job at random; arrivals of a Poisson process.  Nodes of four GPUs are ours, in turns of each type.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from ground.errors import InvalidInput
from ground.files import read_source
from ground.quantities import HOUR
from ground.records import AtLeastOne, JsonRecord, NotNegative
from simulator.capacity.question import AnswerFigure, CapacityAnswer, CapacityQuestion
from simulator.confidence import Band
from simulator.cost.calibration import PEAK
from simulator.job_record import JobRecord
from simulator.sheet import Chart, Series, Sheet, known, text_table
from simulator.throughputs import GAVEL, Throughputs

if TYPE_CHECKING:
    from simulator.traces import JobTrace
    from topology.cluster import Cluster

NODE_GPUS = 4  # Of each node
BATCH = 0.0  # The load of a run whose jobs are all there at the beginning
LLM = "LLM gang, at most"  # The kind of job whose speeds are peaks of data sheets

PUBLISHED = (
    ("mean JCT, Gavel against policies that know no types (OSDI 2020)", 3.5, "gavel", "fifo", "jct"),
    ("makespan, Gavel against policies that know no types (OSDI 2020)", 1.4, "gavel", "fifo", "makespan"),
    ("total time, read as makespan, Hadar against Gavel (arXiv 2503.10918)", 1.2, "hadar", "gavel", "makespan"),
    ("total time, read as mean JCT, Hadar against Gavel (arXiv 2503.10918)", 1.2, "hadar", "gavel", "jct"),
)
"""What abstracts say: words, how often as long, and what of ours stands beside: policy, the other, time.  The abstract
does not say what the total time is."""

SIZES = {1: 0.7, 2: 0.1, 4: 0.15, 8: 0.05}  # GPUs of a job -> share of the jobs

SPANS = {(1.5, 3.0): 0.8, (3.0, 4.0): 0.2}  # Ends of the decimal logarithm of run times in minutes -> share of the jobs


def family_of(model: object) -> str:
    """Return what a model is called without its batch size."""
    return str(model).partition(" (")[0]


class GenerationsCell(JsonRecord, kw_only=True):
    """A queue policy at one load."""

    policy: str
    """Queue policy."""
    load: NotNegative | None
    """GPU time asked for over what there is; null = all jobs are there at the beginning."""
    jct_hours: Band
    """Mean time from submission to end."""
    jct_gain: Band
    """How often as long it is under the first policy, seed by seed on the same jobs."""
    makespan_hours: Band
    """Hours from the first submission to the last end."""
    makespan_gain: Band
    """How often as long it is under the first policy."""
    stops: NotNegative
    """How often a job is stopped at the end of a round, on average."""


class GenerationsKind(JsonRecord, kw_only=True):
    """A kind of job: which generation it should wait for."""

    kind: str
    """Family of models, without batch sizes."""
    speeds: Mapping[str, float]
    """Type of GPU -> speed relative to the fastest, a mean over its jobs of one GPU, or of the fewest."""
    waits_for: str
    """The fastest type."""
    instead_of: str
    """The next fastest; empty = there is no other."""
    wait_hours: NotNegative
    """How much longer it may wait for the fastest than for the next, for each hour that it runs there."""
    shares: Mapping[str, float]
    """Type of GPU -> share of the GPU time that it had there under gavel at the highest load; empty = not run."""


class PublishedGain(JsonRecord, kw_only=True):
    """A number of a paper, beside ours."""

    name: str
    """What is compared with what, and in which number."""
    published: float
    """Factor that the abstract states."""
    ours: Band | None
    """The largest over loads; null = not run."""


class GenerationsAnswer(CapacityAnswer, kw_only=True):
    """Queues on several generations of GPUs."""

    types: tuple[str, ...]
    """Types of GPU, as many GPUs of each."""
    gpus: AtLeastOne
    """GPUs of each type."""
    jobs: AtLeastOne
    """Jobs of each run."""
    seeds: AtLeastOne
    """Workloads."""
    cells: tuple[GenerationsCell, ...]
    """Results by load, all jobs at once last, and by policy."""
    kinds: tuple[GenerationsKind, ...]
    """Kinds of jobs, the one that gains most from the fastest type first."""
    published: tuple[PublishedGain, ...]
    """Numbers of the papers."""


def kind_of(name: str, speeds: Mapping[str, float], shares: Mapping[str, float]) -> GenerationsKind:
    """Return which type a kind of job should wait for: an hour on the fastest is so much more on the next."""
    order = sorted((speed for speed in speeds if speeds[speed] > 0.0), key=lambda row: -speeds[row])
    following = order[1] if len(order) > 1 else ""
    return GenerationsKind(
        kind=name,
        speeds=speeds,
        waits_for=order[0],
        instead_of=following,
        wait_hours=speeds[order[0]] / speeds[following] - 1.0 if following else 0.0,
        shares=shares,
    )


@dataclass(frozen=True, slots=True)
class GenerationsRun:
    """What came out of one run."""

    jct: float  # mean seconds from submission to end
    makespan: float  # seconds from the first submission to the last end
    stops: int  # jobs that were stopped at the end of a round
    on: Mapping[tuple[str, str], float]  # family of models and type of GPU -> GPU seconds; empty without rounds


def mixed_cluster(types: tuple[str, ...], gpus: int) -> Cluster:
    """Return a cluster with so many GPUs of each type, a multiple of four, under one switch."""
    from topology.build import build_cluster
    from topology.cluster import Node

    nodes = [(number, name) for number in range(gpus // NODE_GPUS) for name in types]
    rows = (Node(f"{name}-{number:02d}", ("site",), NODE_GPUS, NODE_GPUS, gpu_type=name) for number, name in nodes)
    return build_cluster(("site",), rows)


def kinds(throughputs: Throughputs, types: tuple[str, ...]) -> dict[int, list[str]]:
    """Return the models of which jobs are made, by GPUs: those that run so large on the reference.

    :raises InvalidInput: no kind of job has a size of the workload.
    """
    models: dict[int, list[str]] = {gpus: [] for gpus in SIZES}
    for model, gpus in throughputs.rates:
        runs_on = {name for name, rate in throughputs.together(model, gpus).items() if rate > 0.0}
        if gpus in models and throughputs.reference in runs_on and runs_on.intersection(types):
            models[gpus].append(model)
    if not any(models.values()):
        message = f"no model runs on {', '.join(map(str, SIZES))} GPUs of type {throughputs.reference}"
        fix = "add a row with one of these sizes and a throughput above 0"
        raise InvalidInput(message, where=throughputs.source, fix=fix)
    return {gpus: of_size for gpus, of_size in models.items() if of_size}


def job_hours(throughputs: Throughputs, types: tuple[str, ...]) -> float:
    """Return the GPU-hours of a mean job where it is on each type as often as there are GPUs of it."""
    hours = sum(share * (10**b - 10**a) / ((b - a) * log(10.0)) / 60.0 for (a, b), share in SPANS.items())
    sizes, work = kinds(throughputs, types), 0.0
    for gpus, models in sizes.items():
        speeds = [throughputs.together(model, gpus) for model in models]
        slower = [speed[throughputs.reference] / fmean(speed.get(name, 0.0) for name in types) for speed in speeds]
        work += SIZES[gpus] * gpus * fmean(slower)
    return hours * work / sum(SIZES[gpus] for gpus in sizes)


def workload(
    throughputs: Throughputs, types: tuple[str, ...], *, count: int, per_hour: float | None, seed: int
) -> JobTrace:
    """Return the jobs; same seed, same jobs whatever the rate.

    :param per_hour: jobs submitted in an hour; ``None`` = all at the beginning.
    """
    import numpy as np

    from simulator.traces import JobTrace

    draw = np.random.default_rng(seed)
    models = kinds(throughputs, types)
    chances = np.array([SIZES[gpus] for gpus in models])
    spans = list(SPANS)
    records, time = [], 0.0
    for number in range(count):
        time += draw.exponential(1.0)
        gpus = int(draw.choice(list(models), p=chances / chances.sum()))
        low, high = spans[int(draw.random() >= SPANS[spans[0]])]
        seconds = 60.0 * 10.0 ** draw.uniform(low, high)
        model = models[gpus][int(draw.integers(len(models[gpus])))]
        submit = 0.0 if per_hour is None else time * 3600.0 / per_hour
        records.append(JobRecord(f"job-{number + 1}", submit, seconds, gpus, model=model))
    return JobTrace(tuple(records), source="the workload of the study")


def generations_run(
    trace: JobTrace, cluster: Cluster, throughputs: Throughputs, *, policy: str, seed: int, resume: float
) -> GenerationsRun:
    """Replay the workload under a policy."""
    from simulator.replay import prepare
    from simulator.replay_settings import ReplaySettings

    settings = ReplaySettings(policy=policy, cost="none", throughputs=throughputs, resume_seconds=resume, seed=seed)
    engine = prepare(trace, cluster, settings).engine
    engine.run()
    on = dict[tuple[str, str], float]()
    for job in engine.jobs:
        for name, seconds in job.had.items():
            kind = family_of(job.record.model), name
            on[kind] = on.get(kind, 0.0) + seconds * job.record.gpus
    return GenerationsRun(
        jct=fmean(job.end - job.submitted for job in engine.jobs),
        makespan=max(job.end for job in engine.jobs) - trace.records[0].submit,
        stops=sum(len(job.runs) for job in engine.jobs),
        on=on,
    )


Runs = dict[tuple[float, str], list["GenerationsRun"]]  # Load and policy -> a run for each seed


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
            message = f"{self.gpus} GPUs are no whole nodes of {NODE_GPUS}"
            raise InvalidInput(message, where="--gpus", fix=f"give a multiple of {NODE_GPUS}")
        for name in self.policies:
            POLICIES.load(name, where="--policy")
        if len(set(self.policies)) < max(2, len(self.policies)):
            message = f"{','.join(self.policies)} are not two or more different policies"
            raise InvalidInput(message, where="--policy", fix="give two or more, each once, as in fifo,gavel")

    @cached_property
    def known(self) -> Throughputs:
        """How fast jobs are."""
        from simulator.traces.throughput_files import read_throughputs

        return GAVEL if self.throughputs is None else read_throughputs(read_source(self.throughputs))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Types of GPU, the reference first."""
        named = dict.fromkeys([self.known.reference, *(name for rates in self.known.rates.values() for name in rates)])
        if len(named) < 2:
            message, fix = "throughputs on one type of GPU alone", "give rows of two types or more"
            raise InvalidInput(message, where=self.known.source, fix=fix)
        return tuple(named)

    @property
    def steps(self) -> int:
        """One for each run."""
        return (len(self.loads) + 1) * self.seeds * len(self.policies)

    def compute(self, step: Callable[[str], None]) -> GenerationsAnswer:
        """Return every policy at every load."""
        cluster, runs = mixed_cluster(self.types, self.gpus), Runs()
        rate = self.gpus * len(self.types) / job_hours(self.known, self.types)
        for load, seed in product((*self.loads, BATCH), range(self.seeds)):
            trace = workload(self.known, self.types, count=self.jobs, per_hour=load * rate or None, seed=seed)
            for policy in self.policies:
                step(f"{policy}, {_at(load)}, seed {seed}")
                run = generations_run(trace, cluster, self.known, policy=policy, seed=seed, resume=self.resume_seconds)
                runs.setdefault((load, policy), []).append(run)
        cells = []
        for load, policy in product((*self.loads, BATCH), self.policies):
            # compared seed by seed with the first policy
            mine, first = runs[load, policy], runs[load, self.policies[0]]
            cells.append(
                GenerationsCell(
                    policy=policy,
                    load=load or None,
                    jct_hours=Band.of([run.jct / HOUR for run in mine]),
                    jct_gain=_gain(mine, first, "jct"),
                    makespan_hours=Band.of([run.makespan / HOUR for run in mine]),
                    makespan_gain=_gain(mine, first, "makespan"),
                    stops=fmean(run.stops for run in mine) / self.jobs,
                )
            )
        published = []
        for name, factor, policy, other, time in PUBLISHED:
            # of JCT the largest over loads, of makespan that of the batch
            loads = self.loads if time == "jct" else (BATCH,)
            there = {policy, other} <= {*self.policies}
            ours = [_gain(runs[load, policy], runs[load, other], time) for load in loads] if there else []
            most = max(ours, key=lambda band: band.mean, default=None)
            published.append(PublishedGain(name=name, published=factor, ours=most))
        return GenerationsAnswer(
            types=self.types,
            gpus=self.gpus,
            jobs=self.jobs,
            seeds=self.seeds,
            cells=tuple(cells),
            kinds=tuple(self._kinds(runs.get((max(self.loads), "gavel"), []))),
            published=tuple(published),
        )

    def _kinds(self, runs: Sequence[GenerationsRun]) -> list[GenerationsKind]:
        """Return the families of models, those that gain most from the fastest type first; runs say where each was."""
        had = Counter[tuple[str, str]]()
        for run in runs:
            had.update(run.on)
        families = defaultdict[str, dict[int, list[dict[str, float]]]](dict)  # Throughputs of each by GPUs
        for model, gpus in self.known.rates:
            if any((rates := self.known.together(model, gpus)).values()):
                families[family_of(model)].setdefault(gpus, []).append(rates)
        kinds = [kind_of(LLM, {name: PEAK[name] / PEAK["H100"] for name in ("H100", "A100")}, {})]
        for family, by_gpus in families.items():
            jobs, total = by_gpus[min(by_gpus)], sum(had[family, name] for name in self.types)
            # relative to the fastest type, a mean over kinds of jobs
            means = {name: fmean(job.get(name, 0.0) / max(job.values()) for job in jobs) for name in self.types}
            speeds = {name: mean / max(means.values()) for name, mean in means.items()}
            shares = {name: had[family, name] / total for name in self.types} if total else {}
            kinds.append(kind_of(family, speeds, shares))
        return sorted(kinds, key=lambda kind: (-kind.wait_hours, kind.kind))

    def title(self, answer: GenerationsAnswer) -> str:
        """Return the question in words."""
        made = " + ".join(f"{answer.gpus} {name}" for name in answer.types)
        return f"Queues on {made} GPUs, {answer.jobs:,} jobs: what does knowing them buy?"

    def verdict(self, answer: GenerationsAnswer) -> str:
        """Return what knowing the types buys, and which jobs should wait."""
        best = max((cell for cell in answer.cells if cell.load is not None), key=lambda cell: cell.jct_gain.mean)
        gain = f"Mean completion time is up to {best.jct_gain:.2f} times shorter than under "
        gain += f"{self.policies[0]}: under {best.policy} at {_at(best.load)}."
        first = next(kind for kind in answer.kinds if kind.kind != LLM)
        if not first.instead_of:
            return gain
        return (
            f"{gain} Of the kinds of jobs that ran, {first.kind} has most to wait for: up to {first.wait_hours:.2f} h "
            f"for an hour on {first.waits_for} rather than go to {first.instead_of}."
        )

    def figure(self, answer: GenerationsAnswer) -> AnswerFigure:
        """Return how much shorter completion times are under the policy that gains most."""
        best = max((cell for cell in answer.cells if cell.load is not None), key=lambda cell: cell.jct_gain.mean)
        words = f"as short a mean completion time under {best.policy} at {_at(best.load)} as under {self.policies[0]}"
        return AnswerFigure(f"{best.jct_gain.mean:.2f}x", words, f"{best.jct_gain:.2f}, 95 % interval")

    def assumptions(self, answer: GenerationsAnswer) -> Iterator[str]:
        """Return what was taken for granted."""
        yield f"Throughputs {self.known.source}; run times are those on {self.known.reference}, and known to the queue."
        yield "The workload is that of Gavel's public simulator: sizes 1, 2, 4, 8 at 70, 10, 15, 5%, Poisson arrivals."
        yield f"All {answer.jobs:,} jobs of a run count, from the empty cluster to the last end: no steady state."
        yield "How long to wait is by run times alone: the queues of all types move on, and no job is stopped."
        yield f"{LLM}: as fast as the peak of dense bf16 of the data sheets; what communication takes makes it less."

    def changes(self, answer: GenerationsAnswer) -> Iterator[str]:  # noqa: ARG002
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
                "load": lambda row: _at(row.load),
                "policy": lambda row: row.policy,
                "mean JCT": lambda row: f"{row.jct_hours:.1f}",
                "times shorter": lambda row: f"{row.jct_gain:.2f}",
                "makespan": lambda row: f"{row.makespan_hours:.0f}",
                "times shorter ": lambda row: f"{row.makespan_gain:.2f}",
                "stops of a job": lambda row: f"{row.stops:.1f}",
            },
        )
        published = text_table(
            "Beside the papers",
            answer.published,
            {
                "": lambda row: row.name,
                "published": lambda row: f"{row.published:.2f}",
                "here": lambda row: known(row.ours, ".2f"),
            },
        )
        kinds = text_table(
            "Which kind of job should wait for which type, and how long for an hour there",
            answer.kinds,
            {
                "kind of job": lambda row: row.kind,
                "speeds": lambda row: _words(row.speeds, ".2f"),
                "waits for": lambda row: (
                    f"{row.waits_for}, {row.wait_hours:.2f} h" if row.instead_of else row.waits_for
                ),
                "instead of": lambda row: row.instead_of or "-",
                "where gavel had it": lambda row: _words(row.shares, ".0%"),
            },
        )
        series = []
        for policy in self.policies:
            of_policy = [cell for cell in answer.cells if cell.policy == policy]
            points = [(cell.load, cell.jct_hours) for cell in of_policy if cell.load is not None]
            ends = [band.ends[0] for _, band in points], [band.ends[1] for _, band in points]
            series.append(Series(policy, [(load, band.mean) for load, band in points], band=ends))
        chart = Chart("Mean time from submission to end", "load", "hours", series, floor=0.0)
        return Sheet([cells, published, kinds], [chart])


def _gain(mine: Sequence[GenerationsRun], others: Sequence[GenerationsRun], time: str) -> Band:
    """Return how often as long a time is in other runs, seed by seed."""
    return Band.of([getattr(other, time) / getattr(run, time) for run, other in zip(mine, others, strict=True)])


def _words(values: Mapping[str, float], spec: str) -> str:
    """Return values by name in a cell."""
    return ", ".join(f"{name} {value:{spec}}" for name, value in values.items()) or "-"


def _at(load: float | None) -> str:
    return f"load {load:g}" if load else "all at once"
