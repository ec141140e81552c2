"""Predictors of run times, and the predictions for a whole trace, made before it is replayed.

When a job is submitted, the predictor knows those that had ended by then on the trace's own clock, each taken to run
from its submission.  A replay in which jobs wait would know a little less; in exchange nothing has to be told during
it, and a checkpoint has nothing to keep.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Protocol

from ground.plugins import PluginGroup
from scheduler.queue.run_times import Prediction
from simulator.job_record import JobRecord


class Predictor(Protocol):
    """Predicts from the past: it is told of every job that has ended, and knows of no other.

    Registered as an entry point in the group ``arnold.predictors``: a class (or any callable without arguments) that
    makes an object with this face.  It holds what it has learnt: every run needs one of its own.
    """

    @property
    def name(self) -> str:
        """As in ``--predictor``."""

    @property
    def summary(self) -> str:
        """One line about the rule."""

    def learn(self, record: JobRecord) -> None:
        """Learn from a job that has ended; its ``duration`` is known from now on."""

    def predict(self, record: JobRecord) -> Prediction:
        """Return how long a job will run that has not ended.  Only the oracle looks at ``duration``."""


PREDICTORS: PluginGroup[Predictor] = PluginGroup(
    "arnold.predictors", unknown="no predictor is called", where="--predictor"
)
"""All installed predictors; each one loaded is new and has learnt nothing."""


class Ends:
    """Jobs in order of their ends, as if each had run from its submission; each is handed out once."""

    def __init__(self, records: Sequence[JobRecord]) -> None:
        self._heap = [(record.submit + record.duration, place) for place, record in enumerate(records)]
        heapq.heapify(self._heap)
        self._records = records

    def before(self, time: float) -> Iterator[JobRecord]:
        """Yield those that ended by ``time`` and were not handed out yet."""
        while self._heap and self._heap[0][0] <= time:
            yield self._records[heapq.heappop(self._heap)[1]]


def predict_all(records: Sequence[JobRecord], predictor: Predictor | str) -> dict[str, Prediction]:
    """Return the prediction of each job at its submission, by id.

    :param records: in order of submission.
    :param predictor: one that has learnt nothing yet, or its name.
    """
    if isinstance(predictor, str):
        predictor = PREDICTORS.load(predictor)
    ends = Ends(records)
    predictions = {}
    for record in records:
        for past in ends.before(record.submit):
            predictor.learn(past)
        predictions[record.job_id] = predictor.predict(record)
    return predictions
