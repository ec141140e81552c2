"""How long jobs run, learnt from those that ended: the predictor ``history`` of replays and of the live queue.

Jobs are alike by their owner, by what else they share (a pattern: the queue of a trace's job, the name of a gang
without its digits) and by their size.  Past run times are kept as running sums, so a history takes as much room as
there are kinds of jobs, however many of each have ended.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from statistics import NormalDist
from typing import NamedTuple, Self

FEWEST = 5  # Jobs that a mean is taken of; with fewer, jobs that are less similar are asked
BAND = 0.9  # Share of the jobs whose run times are to lie in their bands
TAIL = (1.0 - BAND) / 2.0  # Share that is to end sooner, and that is to run longer
Z = 1.6448536  # Normal quantile of 1 - TAIL


@dataclass(frozen=True, slots=True)
class Prediction:
    """How long a job is expected to run."""

    seconds: float  # the expectation
    # ends of its band, which is to hold a share of BAND of such jobs: one of twenty ends sooner, and one runs longer
    low: float  # at most seconds
    high: float  # at least seconds
    jobs: int = 0  # ended jobs that it is the mean of; 0 = it is from elsewhere

    def quantile(self, share: float, *, beyond: float = 0.0) -> float:
        """Return the seconds that a share of such jobs does not exceed, by log-normal run times with this band.

        :param beyond: of those alone that have run so many seconds already.
        """
        low, high = math.log(max(1.0, self.low)), math.log(max(1.0, self.high))
        # a band without width is no distribution: a millionth of a logarithm
        normal = NormalDist((low + high) / 2.0, max(1e-6, (high - low) / (2.0 * Z)))
        before = normal.cdf(math.log(beyond)) if beyond > 0.0 else 0.0
        place = before + share * (1.0 - before)
        return math.exp(normal.inv_cdf(place)) if 0.0 < place < 1.0 else beyond


UNKNOWN = Prediction(600.0, 0.0, 86_400.0)  # Of a replay when no job has ended yet: ten minutes, or up to a day


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Run times of some jobs that ended, as running sums."""

    jobs: int = 0
    seconds: float = 0.0  # mean of the run times
    logs: float = 0.0  # mean of their natural logarithms
    squares: float = 0.0  # sum of the squared distances of the logarithms from their mean

    def with_one(self, seconds: float) -> Self:
        """Return the sums with one more run time, above 0 seconds (Welford)."""
        jobs, log = self.jobs + 1, math.log(seconds)
        before = log - self.logs
        logs = self.logs + before / jobs
        mean = self.seconds + (seconds - self.seconds) / jobs
        return type(self)(jobs, mean, logs, self.squares + before * (log - logs))

    def with_those(self, other: Self) -> Self:
        """Return the sums over the jobs of both (Chan, Golub and LeVeque 1979)."""
        if not self.jobs or not other.jobs:
            return self if self.jobs else other
        jobs = self.jobs + other.jobs
        part, apart = other.jobs / jobs, other.logs - self.logs
        mean = self.seconds + (other.seconds - self.seconds) * part
        squares = self.squares + other.squares + apart * apart * self.jobs * part
        return type(self)(jobs, mean, self.logs + apart * part, squares)

    @property
    def prediction(self) -> Prediction:
        """The mean, and the band in which the next of log-normal run times lies.

        That is Student's: few jobs tell neither the mean nor the variance of the logarithms well.
        """
        degrees = max(1, self.jobs - 1)
        width = student_quantile(Z, degrees) * math.sqrt(self.squares / degrees * (1.0 + 1.0 / self.jobs))
        low, high = math.exp(self.logs - width), math.exp(self.logs + width)
        return Prediction(self.seconds, min(low, self.seconds), max(high, self.seconds), self.jobs)


def student_quantile(z: float, degrees: int) -> float:
    """Return the quantile of Student's t with the probability of z, a normal one: the Cornish-Fisher expansion
    (Abramowitz and Stegun, 26.7.5), right to 0.1 % from four degrees of freedom on for 95 %, from six on for 97.5 %.
    """
    parts = degrees * 4.0
    first, second = (z**3 + z) / parts, (5 * z**5 + 16 * z**3 + 3 * z) / (6 * parts**2)
    return z + first + second + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (6 * parts**3)


_Key = tuple[object, ...]


class Likeness(NamedTuple):
    """What makes jobs alike."""

    owner: str  # who submits them: a user, or a namespace
    pattern: str  # what else they share: a queue, or a name without digits
    gpus: float  # in all

    @property
    def keys(self) -> tuple[_Key, ...]:
        """Keys of jobs like this one, the most alike first."""
        owner, pattern, gpus = self
        return ("opg", owner, pattern, gpus), ("op", owner, pattern), ("pg", pattern, gpus), ("p", pattern), ()


class RunTimeHistory:
    """Run times of jobs that ended, by all that makes them alike."""

    def __init__(self) -> None:
        self._by_key: dict[_Key, RunTimes] = {}

    def learn(self, job: Likeness, seconds: float) -> None:
        """Add a job that ended to all sums that it belongs to."""
        for key in job.keys:
            self._by_key[key] = self._by_key.get(key, _NONE).with_one(seconds)

    def add(self, job: Likeness, run_times: RunTimes) -> None:
        """Add jobs that are alike and ended."""
        for key in job.keys:
            self._by_key[key] = self._by_key.get(key, _NONE).with_those(run_times)

    def known(self, key: _Key) -> RunTimes:
        """Return the sums over the jobs with a key; of no job where there are none."""
        return self._by_key.get(key, _NONE)


def foreseen(job: Likeness, histories: Collection[RunTimeHistory]) -> Prediction | None:
    """Return the mean over the most alike jobs of which there are :data:`FEWEST`; ``None`` = there are too few of any.

    :param histories: parts of the past, each with other jobs; the order decides the last digit of the sums.
    """
    for key in job.keys:
        alike = reduce(RunTimes.with_those, (history.known(key) for history in histories), _NONE)
        if alike.jobs >= FEWEST:
            return alike.prediction
    return None


_NONE = RunTimes()
