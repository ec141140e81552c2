"""Predictions for a whole trace, made before it is replayed: the same whatever the scheduler does.

When a job is submitted, the predictor knows those that had ended by then on the trace's own clock, each taken to run
from its submission.  A replay in which jobs wait would know a little less; in exchange nothing has to be told during
it, and a checkpoint has nothing to keep.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from simulator.job_record import JobRecord
from simulator.prediction.types import PREDICTORS, Prediction, Predictor


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
    :raises UnknownName: there is none of that name.
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
