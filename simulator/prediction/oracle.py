"""Predictors that are told: by the trace itself, or by the user who submits the job."""

from __future__ import annotations

from scheduler.queue.run_times import Prediction
from simulator.job_record import JobRecord
from simulator.prediction.similar_jobs import SimilarJobs


class Oracle:
    """The true duration: what no scheduler knows, and the best that a predictor could do."""

    name = "oracle"
    summary = "the true duration, which no real scheduler knows"

    def learn(self, record: JobRecord) -> None:
        """Learn nothing."""

    def predict(self, record: JobRecord) -> Prediction:
        """Return the duration in the trace."""
        return Prediction(record.duration, record.duration, record.duration)


class UserEstimate:
    """What the user said; the mean of the past where a trace does not tell."""

    name = "estimate"
    summary = "the user's own estimate, or the mean of the past where there is none"

    def __init__(self) -> None:
        self._history = SimilarJobs()

    def learn(self, record: JobRecord) -> None:
        """Remember it for jobs without an estimate."""
        self._history.learn(record)

    def predict(self, record: JobRecord) -> Prediction:
        """Return the estimate, which is a limit: the job may end at any time before."""
        if record.estimate is None:
            return self._history.predict(record)
        return Prediction(record.estimate, 0.0, record.estimate)
