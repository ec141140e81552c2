"""Kinds of jobs of an LLM cluster, and the numbers of each, solved from the published figures.

Published are figures of the whole and two shares for evaluation and pretraining.  The rest is chosen here, and said:

- *sizes* of each kind are powers of two; their mean over all kinds is the published one;
- *run times* are log-normal.  Those of pretraining and of the other jobs (debugging, fine-tuning) depend on how the job
  ends, such that both the shares of jobs and the shares of GPU time come out by status; those of evaluation do not, and
  have the median that gives the published one of the whole;
- how wide run times of pretraining and others are is assumed (``SIGMA``): no figure says it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

from simulator.job_record import Status
from simulator.workload.published import STATUSES, Published

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
