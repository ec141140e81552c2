"""Kinds of jobs of an LLM cluster with their numbers, solved from the published figures, and the models they train.

What is published of kinds are two shares for evaluation and pretraining.  The rest is chosen here, and said:

- *sizes* of each kind are powers of two; their mean over all kinds is the published one;
- *run times* are log-normal.  Those of pretraining and of the other jobs (debugging, fine-tuning) depend on how the job
  ends, such that shares of jobs and of GPU time come out by status; those of evaluation do not, and have the median
  that gives the published one of the whole;
- how wide run times of pretraining and others are is assumed (``SIGMA``): no figure says it;
- *models* are those of the Acme paper (7B and 123B, tp 8 and pp 4 for the large one; NSDI 2024, section 4) and of
  InternLM (20B); ``scheduler.job_affinity.NAMED_MODELS`` has their shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from scheduler.job import Parallelism
from simulator.job_record import JobRecord, Status

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


def summary(records: Sequence[JobRecord], *, name: str = "generated") -> Published:
    """Return figures of jobs with GPUs; shares by kind are those of the queues ``evaluation`` and ``pretraining``."""
    gpus = np.array([record.gpus for record in records])
    seconds = np.array([record.duration for record in records])
    submit = np.array([record.submit for record in records])
    gpu_time = gpus * seconds
    status, queue = (np.array([getattr(record, name) for record in records]) for name in ("status", "queue"))

    def shares(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[float, float]:
        return float(mask.mean()), float(gpu_time[mask].sum() / gpu_time.sum())

    by_status = {each: shares(status == each) for each in STATUSES}
    return Published(
        name=name,
        jobs=len(records),
        days=float(np.ptp(submit)) / 86_400,
        gpus_mean=float(gpus.mean()),
        gpus_median=float(np.median(gpus)),
        gpus_max=int(gpus.max()),
        seconds_mean=float(seconds.mean()),
        seconds_median=float(np.median(seconds)),
        seconds_max=float(seconds.max()),
        job_share={each: jobs for each, (jobs, _) in by_status.items()},
        gpu_time_share={each: time for each, (_, time) in by_status.items()},
        gpu_time_mean=float(gpu_time.mean()),
        evaluation_share=shares(queue == "evaluation"),
        pretraining_share=shares(queue == "pretraining"),
    )


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
    def of_mean(cls, mean: float, sigma: float) -> LogNormal:
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
    seconds = dict.fromkeys(STATUSES, _evaluation_seconds(published, pretraining, other, evaluation_share))
    evaluation = JobKind("evaluation", evaluation_share, EVALUATION_SIZES, evaluation_status, seconds, priority=0)
    return evaluation, other, pretraining


def _seconds_by_status(
    gpu_time: float, sizes: Mapping[int, float], status: Mapping[Status, float], parts: Mapping[Status, float]
) -> dict[Status, LogNormal]:
    """Return run times of a kind with jobs of ``gpu_time`` GPU seconds each, divided by status as ``parts``."""
    mean = gpu_time / sum(gpus * part for gpus, part in sizes.items())
    return {each: LogNormal.of_mean(mean * parts[each] / status[each], SIGMA) for each in STATUSES}


def _evaluation_seconds(published: Published, pretraining: JobKind, other: JobKind, share: float) -> LogNormal:
    """Return run times of evaluation that give the mean and the median of the whole.

    With z the normal quantile at which the published median m lies among them: ``ln m = mu + sigma z`` and
    ``ln mean = mu + sigma^2 / 2`` give ``sigma = z + sqrt(z^2 + 2 ln(mean / m))``.
    """
    rest = pretraining.share * pretraining.seconds_mean + other.share * other.seconds_mean
    mean = (published.seconds_mean - rest) / share
    median = published.seconds_median
    below = 0.5 - pretraining.share * pretraining.below(median) - other.share * other.below(median)
    z = NormalDist().inv_cdf(below / share)
    sigma = z + math.sqrt(z**2 + 2 * math.log(mean / median))
    return LogNormal(median * math.exp(-sigma * z), sigma)


TP = 8  # Tensor parallelism fills a node


@dataclass(frozen=True, slots=True)
class Trained:
    """How a model is trained."""

    pp: tuple[int, ...]  # pipeline stages, tried in this order
    least_gpus: int  # fewest GPUs that a job trains it on


TRAINED: dict[str, Trained] = {
    "llm-7b": Trained((1,), 8),
    "llm-20b": Trained((2, 4), 128),
    "llm-123b": Trained((4, 8), 256),
}
"""Names of models -> how they are trained."""


def grids(gpus: int) -> list[tuple[str, Parallelism]]:
    """Return every model and grid that a job of so many GPUs may have; none below a node of 8."""
    return [
        (name, Parallelism(tp=TP, pp=pp, dp=gpus // TP // pp))
        for name, trained in TRAINED.items()
        for pp in trained.pp
        if gpus >= trained.least_gpus and gpus % (TP * pp) == 0
    ]
