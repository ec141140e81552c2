"""The mean of similar jobs that ended: a baseline that needs no library, and the predictor of the live queue."""

from __future__ import annotations

from scheduler.queue.run_times import UNKNOWN, Likeness, Prediction, RunTimeHistory, foreseen
from simulator.job_record import JobRecord


class SimilarJobs:
    """Means of run times over jobs of the same user, queue and size; over less alike ones where these are few."""

    name = "history"
    summary = "the mean of past jobs of the same user, queue and size"

    def __init__(self) -> None:
        self._past = RunTimeHistory()

    def learn(self, record: JobRecord) -> None:
        """Add a job that ended to all means that it belongs to."""
        self._past.learn(_likeness(record), record.duration)

    def predict(self, record: JobRecord) -> Prediction:
        """Return the mean over the most alike jobs of which there are enough."""
        return foreseen(_likeness(record), (self._past,)) or UNKNOWN


def _likeness(record: JobRecord) -> Likeness:
    return Likeness(record.user, record.queue, record.gpus)
