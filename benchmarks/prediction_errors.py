"""How well a predictor does on a trace, asked about each job when it is submitted, from those that ended by then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.queue.run_times import Prediction
from simulator.job_record import JobRecord
from simulator.prediction import BIN

LAST = 0.1  # Part of a trace, the last, over which errors are taken: as in the paper


@dataclass(frozen=True, slots=True)
class Score:
    """Errors over some jobs."""

    jobs: int  # How many these are
    rmse: float  # Root of the mean squared error, in bins of 10 minutes
    mae: float  # Mean of the absolute error, in bins
    covered: float  # Share of jobs whose run time lies in the band
    above: float  # Share of jobs that ran longer than the upper end of the band


def score(
    records: Sequence[JobRecord], predictions: Mapping[str, Prediction], *, horizon: float | None = None
) -> Score:
    """Return the errors of predictions, by id, over some jobs.

    :param records: one job at least.
    :param horizon: for the errors, true and predicted run times above so many seconds count as so many.
    """
    told = [predictions[record.job_id] for record in records]
    true = np.array([record.duration for record in records])
    guess = np.array([one.seconds for one in told])
    most = inf if horizon is None else horizon
    error = (np.minimum(guess, most) - np.minimum(true, most)) / BIN
    below, above = true < [one.low for one in told], true > [one.high for one in told]
    return Score(
        jobs=len(records),
        rmse=float(np.sqrt(np.mean(error**2))),
        mae=float(np.abs(error).mean()),
        covered=float(1.0 - np.mean(below | above)),
        above=float(above.mean()),
    )


def last_of(records: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """Return the last tenth of a trace."""
    return records[int(len(records) * (1.0 - LAST)) :]


def by_predicted(
    records: Sequence[JobRecord], predictions: Mapping[str, Prediction], bounds: Sequence[float]
) -> list[Score | None]:
    """Return the same of the jobs predicted to run up to each bound, and longer than the one before; none = no job.

    :param bounds: seconds, rising, the last infinite.
    """
    classes: list[list[JobRecord]] = [[] for _ in bounds]
    for record in records:
        classes[int(np.searchsorted(bounds, predictions[record.job_id].seconds))].append(record)
    return [score(jobs, predictions) if jobs else None for jobs in classes]
