"""How well a predictor does on a trace: learnt from its first 90 %, asked for the last 10 %, in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.job_record import JobRecord
from simulator.prediction.boosting import BIN
from simulator.prediction.predictor import Ends, Predictor

SPLIT = 0.9


@dataclass(frozen=True, slots=True)
class Score:
    """Errors over the jobs that were asked for.

    :param jobs: how many these are.
    :param learnt: jobs that had ended before the first question.
    :param rmse: root of the mean squared error, in bins of 10 minutes.
    :param mae: mean of the absolute error, in bins.
    :param covered: share of jobs whose run time lies in the band.
    """

    jobs: int
    learnt: int
    rmse: float
    mae: float
    covered: float


def evaluate(
    records: Sequence[JobRecord],
    predictor: Predictor,
    *,
    horizon: float | None = None,
    split: float = SPLIT,
    online: bool = False,
) -> Score:
    """Errors of a predictor on the last jobs of a trace, as if each ran from its submission.

    What has not ended when the first of the last jobs is submitted is not learnt from.

    :param records: in order of submission.
    :param horizon: true and predicted run times above so many seconds count as so many.
    :param online: go on learning from jobs that end while the last ones are asked for.
    """
    cut = int(len(records) * split)
    asked = records[cut:]
    learnt = 0
    most = np.inf if horizon is None else horizon
    rows = []
    ended = Ends(records)
    for place, record in enumerate(asked):
        if place == 0 or online:
            for past in ended.before(record.submit):
                predictor.learn(past)
                learnt += place == 0
        prediction = predictor.predict(record)
        rows.append((record.duration, prediction.seconds, prediction.low, prediction.high))
    true, guess, low, high = np.array(rows).T
    error = np.minimum(guess, most) / BIN - np.minimum(true, most) / BIN
    inside = (np.floor(true / BIN) >= np.floor(low / BIN)) & (np.floor(true / BIN) <= np.floor(high / BIN))
    return Score(
        len(asked), learnt, float(np.sqrt(np.mean(error**2))), float(np.abs(error).mean()), float(inside.mean())
    )
