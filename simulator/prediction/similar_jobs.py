"""The mean of similar jobs that ended: a baseline that needs no library."""

from __future__ import annotations

import math
from dataclasses import dataclass

from simulator.job_record import JobRecord
from simulator.prediction.predictor import Prediction

FEWEST = 5  # Jobs that a mean is taken of; with fewer, jobs that are less similar are asked
UNKNOWN = Prediction(600.0, 0.0, 86_400.0)  # When no job has ended yet: ten minutes, or anything up to a day
Z = 1.2816  # Normal quantile of 0.9: the band holds 80 % of log-normal run times


@dataclass(slots=True)
class _Running:
    """Running sums over run times (Welford's for the logarithms)."""

    count: int = 0
    mean: float = 0.0
    log_mean: float = 0.0
    log_squares: float = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.mean += (seconds - self.mean) / self.count
        log = math.log(seconds)
        before = log - self.log_mean
        self.log_mean += before / self.count
        self.log_squares += before * (log - self.log_mean)

    def prediction(self) -> Prediction:
        sigma = math.sqrt(self.log_squares / self.count)
        low, high = math.exp(self.log_mean - Z * sigma), math.exp(self.log_mean + Z * sigma)
        return Prediction(self.mean, min(low, self.mean), max(high, self.mean))


class SimilarJobs:
    """Means of run times over jobs of the same user, queue and size; over less alike ones where these are few."""

    name = "history"
    summary = "the mean of past jobs of the same user, queue and size"

    def __init__(self) -> None:
        self._running: dict[tuple[object, ...], _Running] = {}

    def learn(self, record: JobRecord) -> None:
        """Add a job that ended to all means that it belongs to."""
        for key in _likeness(record):
            self._running.setdefault(key, _Running()).add(record.duration)

    def predict(self, record: JobRecord) -> Prediction:
        """Return the mean over the most alike jobs of which there are :data:`FEWEST`."""
        for key in _likeness(record):
            running = self._running.get(key)
            if running is not None and running.count >= FEWEST:
                return running.prediction()
        return UNKNOWN


def _likeness(record: JobRecord) -> tuple[tuple[object, ...], ...]:
    """Return keys of jobs like this one, the most alike first."""
    user, queue, gpus = record.user, record.queue, record.gpus
    return ("uqg", user, queue, gpus), ("uq", user, queue), ("qg", queue, gpus), ("q", queue), ()
