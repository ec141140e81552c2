"""LLM workloads made from a seed, fitted to what is published of a real cluster.

What is published of kinds of jobs are two shares for evaluation and pretraining.  The rest is chosen here, and said:

- *sizes* of each kind are powers of two; their mean over all kinds is the published one;
- *run times* are log-normal.  Those of pretraining and of the other jobs (debugging, fine-tuning) depend on how the job
  ends, such that shares of jobs and of GPU time come out by status; those of evaluation do not, and have the median
  that gives the published one of the whole;
- how wide run times of pretraining and others are is assumed (``SIGMA``): no figure says it;
- *models* are those of the Acme paper (7B and 123B, tp 8 and pp 4 for the large one; NSDI 2024, section 4) and of
  InternLM (20B); ``scheduler.affinity.NAMED_MODELS`` has their shapes.

Beyond the fit a few things are assumed, for studies of prediction and queues:

- *users have habits*: of users of a kind, one runs rather short jobs and another long ones.  A job's user is drawn from
  the quantile of its run time, blurred (``HABIT``), so that run times keep exactly their distribution.  Users with like
  habits share a group;
- *estimates*: users ask for the next usual limit above a generous guess;
- CPUs and memory go by the GPU, as in the published rows of Kalos (960 CPUs and 1,000 GB a node, 64 GPUs).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge, Interval, MinLen

from ground.errors import InvalidInput, TooLarge
from ground.quantities import DAY, HOUR
from ground.records import AtLeastOne, Count, FiniteFloat, JsonRecord, check_fields
from scheduler.job import Parallelism
from simulator.job_record import JobRecord, Status
from topology.cluster import FloatArray

STATUSES: tuple[Status, ...] = ("completed", "cancelled", "failed")


@dataclass(frozen=True, slots=True)
class Published:
    """Figures of one cluster, of its jobs with GPUs."""

    name: str
    jobs: int
    days: float  # length of the trace
    gpus_mean: float
    gpus_median: float
    gpus_max: int
    seconds_mean: float  # of run times, as the two below
    seconds_median: float
    seconds_max: float
    job_share: Mapping[Status, float]  # of jobs, by how they ended; sums to 1
    gpu_time_share: Mapping[Status, float]  # of GPU time, by how its job ended; sums to 1
    gpu_time_mean: float  # GPU seconds of a job
    evaluation_share: tuple[float, float]  # evaluation jobs among all, and their share of GPU time
    pretraining_share: tuple[float, float]  # the same of pretraining


KALOS = Published(
    name="kalos",
    jobs=19_907,
    days=184.0,
    gpus_mean=26.77,
    gpus_median=1.0,
    gpus_max=1_024,
    seconds_mean=1_259.689,
    seconds_median=124.0,
    seconds_max=625_740.0,
    job_share={"completed": 0.541, "cancelled": 0.062, "failed": 0.397},
    gpu_time_share={"completed": 0.313, "cancelled": 0.607, "failed": 0.080},
    gpu_time_mean=(1_667_685_146 + 3_239_202_064 + 426_292_851) / 19_907,
    evaluation_share=(0.929, 0.008),
    pretraining_share=(0.032, 0.940),
)
"""Kalos, a cluster of 2,416 A100 GPUs, March to August 2023.

Source: cluster_summary.csv of github.com/InternLM/AcmeTrace (CC-BY-4.0), the columns of jobs with GPUs; the last two
from section 3.2 of Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024.
"""


SIGMA = 1.3
"""Standard deviation of the logarithm of run times of pretraining and other jobs: 90 % lie within a factor of 8.5."""

EVALUATION_SIZES = {1: 0.65, 2: 0.05, 4: 0.04, 8: 0.26}
OTHER_SIZES = {8: 0.30, 16: 0.15, 32: 0.15, 64: 0.15, 128: 0.15, 256: 0.10}
PRETRAINING_SIZES = {128: 0.07, 256: 0.15, 512: 0.34, 1024: 0.44}

PRETRAINING_STATUS: Mapping[Status, float] = {"completed": 0.25, "cancelled": 0.35, "failed": 0.40}
OTHER_STATUS: Mapping[Status, float] = {"completed": 0.45, "cancelled": 0.25, "failed": 0.30}
"""Shares of jobs; those of evaluation follow from the whole."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A log-normal distribution of seconds."""

    median: float  # exp(mu)
    sigma: float  # standard deviation of the logarithm

    @property
    def mean(self) -> float:
        """``median * exp(sigma^2 / 2)``."""
        return self.median * math.exp(self.sigma**2 / 2)

    def below(self, seconds: float) -> float:
        """Return the share of run times below so many seconds."""
        return NormalDist().cdf(math.log(seconds / self.median) / self.sigma)

    @classmethod
    def of_mean(cls, mean: float, sigma: float) -> Self:
        """Return the one with that mean."""
        return cls(mean * math.exp(-(sigma**2) / 2), sigma)


@dataclass(frozen=True, slots=True)
class JobKind:
    """Jobs of one purpose."""

    name: str
    share: float  # of all jobs
    sizes: Mapping[int, float]  # GPUs -> share of the kind's jobs
    status: Mapping[Status, float]  # how they end -> share of the kind's jobs
    seconds: Mapping[Status, LogNormal]  # run times by how they end
    priority: int  # of the queue, higher first

    @property
    def gpus_mean(self) -> float:
        """Mean number of GPUs."""
        return sum(gpus * share for gpus, share in self.sizes.items())

    @property
    def seconds_mean(self) -> float:
        """Mean run time."""
        return sum(share * self.seconds[status].mean for status, share in self.status.items())

    def below(self, seconds: float) -> float:
        """Return the share of jobs that run less than so many seconds."""
        return sum(share * self.seconds[status].below(seconds) for status, share in self.status.items())

    @property
    def gpu_time_mean(self) -> float:
        """Mean GPU seconds of a job: sizes and run times of a kind do not depend on each other."""
        return self.gpus_mean * self.seconds_mean


def kinds_of(published: Published) -> tuple[JobKind, ...]:
    """Return evaluation, other and pretraining jobs such that the whole has the published figures."""
    evaluation_share, evaluation_time = published.evaluation_share
    pretraining_share, pretraining_time = published.pretraining_share
    other_share = 1 - evaluation_share - pretraining_share
    other_time = 1 - evaluation_time - pretraining_time
    evaluation_status: dict[Status, float] = {
        status: (
            published.job_share[status]
            - pretraining_share * PRETRAINING_STATUS[status]
            - other_share * OTHER_STATUS[status]
        )
        / evaluation_share
        for status in STATUSES
    }
    # Evaluation runs equally long whatever its end, so its GPU time divides as its jobs do; the other jobs divide it as
    # the whole; what is left is pretraining.
    pretraining_parts: dict[Status, float] = {
        status: (published.gpu_time_share[status] * (1 - other_time) - evaluation_time * evaluation_status[status])
        / pretraining_time
        for status in STATUSES
    }
    total = published.gpu_time_mean
    sizes, status, times = PRETRAINING_SIZES, PRETRAINING_STATUS, pretraining_parts
    seconds = _seconds_by_status(total * pretraining_time / pretraining_share, sizes, status, times)
    pretraining = JobKind("pretraining", pretraining_share, sizes, status, seconds, priority=2)
    seconds = _seconds_by_status(total * other_time / other_share, OTHER_SIZES, OTHER_STATUS, published.gpu_time_share)
    other = JobKind("other", other_share, OTHER_SIZES, OTHER_STATUS, seconds, priority=1)
    # Run times of evaluation that give the mean and the median of the whole.  With z the normal quantile at which the
    # published median m lies among them, ln m = mu + sigma z and ln mean = mu + sigma^2 / 2 give
    # sigma = z + sqrt(z^2 + 2 ln(mean / m)).
    rest = pretraining.share * pretraining.seconds_mean + other.share * other.seconds_mean
    mean, median = (published.seconds_mean - rest) / evaluation_share, published.seconds_median
    below = 0.5 - pretraining.share * pretraining.below(median) - other.share * other.below(median)
    z = NormalDist().inv_cdf(below / evaluation_share)
    sigma = z + math.sqrt(z**2 + 2 * math.log(mean / median))
    seconds = dict.fromkeys(STATUSES, LogNormal(median * math.exp(-sigma * z), sigma))
    evaluation = JobKind("evaluation", evaluation_share, EVALUATION_SIZES, evaluation_status, seconds, priority=0)
    return evaluation, other, pretraining


def _seconds_by_status(
    gpu_time: float, sizes: Mapping[int, float], status: Mapping[Status, float], parts: Mapping[Status, float]
) -> dict[Status, LogNormal]:
    """Return run times of a kind with jobs of ``gpu_time`` GPU seconds each, divided by status as ``parts``."""
    mean = gpu_time / sum(gpus * part for gpus, part in sizes.items())
    return {end: LogNormal.of_mean(mean * parts[end] / status[end], SIGMA) for end in STATUSES}


TP = 8  # Tensor parallelism fills a node


TRAINED = {"llm-7b": ((1,), 8), "llm-20b": ((2, 4), 128), "llm-123b": ((4, 8), 256)}
"""Name of a model -> pipeline stages, tried in this order, and the fewest GPUs that a job trains it on."""


@cache
def grids(gpus: int) -> list[tuple[str, Parallelism]]:
    """Return every model and grid that a job of so many GPUs may have; none below a node of 8."""
    return [
        (name, Parallelism(tp=TP, pp=pp, dp=gpus // TP // pp))
        for name, (stages, least) in TRAINED.items()
        for pp in stages
        if gpus >= least and gpus % (TP * pp) == 0
    ]


KindName = Literal["evaluation", "other", "pretraining"]
KINDS: tuple[KindName, ...] = ("evaluation", "other", "pretraining")

PEAK = 15.0  # Hour of the day with most submissions: the afternoon
USERS = 24  # Users of a kind
GROUPS = 6  # Groups of users of a kind
HABIT = 0.7  # Correlation of a job's run time with the habit of its user, both as normal scores
LIMITS = np.array([600, 1800, 3600, 4 * 3600, 12 * 3600, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 28 * DAY])
"""Limits that users ask for, in seconds."""
GENEROSITY = 1.0  # Standard deviation of the logarithm of how much more than needed a user guesses (never less)
MAX_JOBS = 10_000_000

CPUS_PER_GPU = 15.0
MEMORY_PER_GPU = 125e9


class Announcements(JsonRecord):
    """Large jobs that are announced before they are submitted."""

    gpus: AtLeastOne
    """Jobs from this size on."""
    seconds: Annotated[FiniteFloat, Ge(0)] = 4 * HOUR
    """Seconds before its submission."""


class WorkloadSpec(JsonRecord, kw_only=True):
    """An LLM workload that is made when it is read."""

    workload: Literal["kalos"] = "kalos"
    """The cluster whose published figures it is fitted to."""
    days: Annotated[float, Interval(gt=0, le=36_500)] = KALOS.days
    """Days for which jobs are submitted."""
    per_day: Annotated[float, Interval(gt=0, le=1e7)] | None = None
    """Jobs submitted a day; default: as many as in the published trace, or as `load` needs."""
    gpus: AtLeastOne | None = None
    """GPUs of the cluster, for `load`."""
    load: Annotated[float, Interval(gt=0, le=10)] | None = None
    """GPU time asked for, as a share of what `gpus` have; sets the rate in place of `per_day`."""
    seed: Count = 0
    """Same seed, same jobs."""
    rhythm: Annotated[float, Interval(ge=0, lt=1)] = 0.0
    """How much the rate of submission swings over the day."""
    max_gpus: AtLeastOne = KALOS.gpus_max
    """Larger jobs are not made; the smaller sizes of their kind take their place."""
    kinds: Annotated[tuple[KindName, ...], MinLen(1)] = KINDS
    """The kinds of jobs that are made."""
    preemptible: tuple[KindName, ...] = ()
    """The kinds whose jobs may be stopped and queued again."""
    announce: Announcements | None = None
    """Which jobs are announced; default: none."""


def generate(spec: WorkloadSpec) -> tuple[JobRecord, ...]:
    """Return the jobs, in order of submission, on a clock that starts at 0.

    :raises InvalidInput: a number of the specification is out of range, or no kind has jobs that small.
    :raises TooLarge: more than :data:`MAX_JOBS` would be made.
    """
    check(spec)
    kinds = []
    for kind in kinds_of(KALOS):
        # without sizes that are too large
        sizes = {gpus: share for gpus, share in kind.sizes.items() if gpus <= spec.max_gpus}
        if kind.name in spec.kinds and sizes:
            total = sum(sizes.values())
            kinds.append(replace(kind, sizes={gpus: share / total for gpus, share in sizes.items()}))
    if not kinds:
        problem = f"no job of {' or '.join(spec.kinds)} has at most {spec.max_gpus} GPUs"
        raise InvalidInput(problem, where="max_gpus", fix="raise max_gpus, or ask for other kinds")
    seeds = np.random.SeedSequence(spec.seed).spawn(2 + len(kinds))
    when, which, *generators = (np.random.default_rng(seed) for seed in seeds)
    per_day = KALOS.jobs / KALOS.days if spec.per_day is None else spec.per_day
    if spec.load is not None and spec.gpus is not None:
        gpu_time = sum(kind.share * kind.gpu_time_mean for kind in kinds) / sum(kind.share for kind in kinds)
        per_day = spec.load * spec.gpus * DAY / gpu_time
    if per_day * spec.days > MAX_JOBS:
        problem = f"about {per_day * spec.days:,.0f} jobs are wanted; up to {MAX_JOBS:,} are made"
        raise TooLarge(problem, where="days", fix="lower days, per_day or load, or leave evaluation out of kinds")
    times = arrivals(when, per_day=per_day, days=spec.days, rhythm=spec.rhythm)
    share = np.array([kind.share for kind in kinds])
    kind_of = which.choice(len(kinds), size=len(times), p=share / share.sum())
    records: list[JobRecord | None] = [None] * len(times)
    for index, (kind, generator) in enumerate(zip(kinds, generators, strict=True)):
        places = np.flatnonzero(kind_of == index)
        submits = dict(zip(places.tolist(), times[places].tolist(), strict=True))
        for place, record in zip(submits, _jobs(kind, submits, generator, spec), strict=True):
            records[place] = record
    return tuple(record for record in records if record is not None)


def check(spec: WorkloadSpec) -> None:
    """Make sure that a workload can be made; InvalidInput says which number is out of range."""
    for part in filter(None, (spec.announce, spec)):
        check_fields(part)
    names = [kind.name for kind in kinds_of(KALOS)]
    unknown = [name for name in (*spec.kinds, *spec.preemptible) if name not in names]
    if unknown or not spec.kinds:
        problem = f"there is no kind of job called {unknown[0]!r}" if unknown else "no kind of job is wanted"
        raise InvalidInput(problem, where="kinds", fix=f"choose among {', '.join(names)}")
    if (spec.gpus is None) != (spec.load is None):
        fix = "give gpus and load together, or neither"
        raise InvalidInput(f"gpus is {spec.gpus}, and load {spec.load}", where="gpus", fix=fix)


def arrivals(generator: np.random.Generator, *, per_day: float, days: float, rhythm: float = 0.0) -> FloatArray:
    """Return times of submission in seconds from 0, ascending.

    The rate is ``per_day * (1 + rhythm * cos(2 pi (t - peak) / day))``, rhythm below 1; times of a process with the
    largest rate are thinned to it (Lewis and Shedler, 1979).
    """
    most = per_day * (1 + rhythm)
    times = np.sort(generator.random(generator.poisson(most * days)) * days * DAY)
    rate = 1 + rhythm * np.cos(2 * np.pi * (times / DAY - PEAK / 24))
    kept: FloatArray = times[generator.random(len(times)) * (1 + rhythm) < rate]
    return kept


def _jobs(
    kind: JobKind, submits: dict[int, float], generator: np.random.Generator, spec: WorkloadSpec
) -> list[JobRecord]:
    """Return the jobs of one kind, by their places among the jobs of all kinds and their times of submission."""
    count = len(submits)
    sizes = generator.choice(list(kind.sizes), size=count, p=list(kind.sizes.values()))
    ends = generator.choice(len(STATUSES), size=count, p=[kind.status[status] for status in STATUSES])
    score = generator.standard_normal(count)
    median = np.array([kind.seconds[status].median for status in STATUSES])
    sigma = np.array([kind.seconds[status].sigma for status in STATUSES])
    seconds = np.clip(np.round(median[ends] * np.exp(sigma[ends] * score)), 1.0, KALOS.seconds_max)
    # by the blurred quantile of its run time; names in no order of habits
    blurred = HABIT * score + np.sqrt(1 - HABIT**2) * generator.standard_normal(count)
    habit = np.searchsorted([NormalDist().inv_cdf(i / USERS) for i in range(1, USERS)], blurred)
    users = generator.permutation(USERS)[habit].tolist()
    groups = generator.permutation(GROUPS)[habit * GROUPS // USERS].tolist()
    guess = seconds * np.exp(np.abs(generator.standard_normal(count)) * GENEROSITY)
    estimates = LIMITS[np.minimum(np.searchsorted(LIMITS, guess), len(LIMITS) - 1)]
    chosen = generator.random(count)
    records = []
    for i, ((place, time), gpus) in enumerate(zip(submits.items(), sizes.tolist(), strict=True)):
        choices = grids(gpus) if kind.name != "evaluation" else []
        model, parallelism = choices[int(chosen[i] * len(choices))] if choices else ("", None)
        announced = None
        if spec.announce is not None and gpus >= spec.announce.gpus:
            announced = max(0.0, time - spec.announce.seconds)
        records.append(
            JobRecord(
                job_id=f"{kind.name}-{place + 1}",
                submit=time,
                duration=float(seconds[i]),
                gpus=float(gpus),
                user=f"{kind.name}-u{users[i]:02d}",
                queue=kind.name,
                group=f"{kind.name}-g{groups[i]}",
                cpus=CPUS_PER_GPU * gpus,
                memory=MEMORY_PER_GPU * gpus,
                status=STATUSES[ends[i]],
                priority=kind.priority,
                preemptible=kind.name in spec.preemptible,
                announced=announced,
                estimate=float(estimates[i]),
                parallelism=parallelism,
                model=model,
            )
        )
    return records
