"""What the scheduler is told of run times in a replay: predictions made beforehand, as the engine asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.engine.job import Prediction
from simulator.prediction import make_predictor
from simulator.prediction.beforehand import predict_all
from simulator.records import JobRecord


class Foreseen:
    """Predictions made beforehand, each from the trace's past alone.

    :param records: in order of submission.
    :param name: of the predictor.
    :raises UnknownName: there is none of that name.
    """

    def __init__(self, records: Sequence[JobRecord], name: str) -> None:
        self._predictions = predict_all(records, make_predictor(name))

    def predict(self, record: JobRecord) -> Prediction:
        """The prediction of a job."""
        found = self._predictions[record.job_id]
        return Prediction(found.seconds, found.high)
