"""Gradient boosting into 10-minute bins: the predictor of the Arnold paper, with a band that holds.

The paper (arXiv 2509.15940, section on the queue policy) does not say which losses or trees; here each of the bags is
scikit-learn's histogram gradient boosting on the number of the bin, by squared error, the measure that it reports.  Of
a request it takes CPUs, GPUs and drives, and the department of the owner.  Here: GPUs, nodes, CPUs, memory and the
user's estimate as numbers (missing where a trace has none), and group (the department) and queue as categories.  The
paper's band comes from the bags too: it says how sure the mean is, and holds few jobs where requests tell little (4 %
of Philly's).  Here the band is that of :mod:`simulator.prediction.running_band`.

It learns from jobs that have ended, and from nothing else: the model is fitted anew when their number has grown by
half.  Long jobs end late, so early models think that jobs are shorter than they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ground.errors import InvalidInput
from scheduler.queue.run_times import Prediction
from simulator.job_record import JobRecord
from simulator.prediction.running_band import RunningBand
from simulator.prediction.similar_jobs import SimilarJobs
from topology.cluster import FloatArray

NUMBERS = ("gpus", "nodes", "cpus", "memory", "estimate")
WORDS = ("group", "queue")  # Fields of a job that are its features
Request = tuple[Any, ...]  # Values of NUMBERS, None = unknown, and of WORDS
MOST_WORDS = 250  # Categories of one feature (the library takes up to 255); rarer ones count as unknown
BIN = 600.0  # Seconds of a bin
FEWEST = 100  # Jobs that must have ended before the first model; until then the mean of the past is given
GROWTH = 1.5  # Times as many jobs have ended when the model is fitted anew


def request_of(record: JobRecord) -> Request:
    """Return the features of a job, before words become numbers."""
    return tuple(getattr(record, name) for name in (*NUMBERS, *WORDS))


class Encoder:
    """Words of past requests as numbers, from 0 for the most frequent; words never seen are unknown."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._codes: list[dict[str, int]] = []
        for column in range(len(NUMBERS), len(NUMBERS) + len(WORDS)):
            counts = Counter(request[column] for request in requests)
            ranked = sorted(counts, key=lambda word: (-counts[word], word))
            self._codes.append({word: code for code, word in enumerate(ranked[:MOST_WORDS])})

    def matrix(self, requests: Sequence[Request]) -> FloatArray:
        """Return shape [requests, features], NaN where unknown."""
        rows = []
        for request in requests:
            words = zip(self._codes, request[len(NUMBERS) :], strict=True)
            rows.append([*request[: len(NUMBERS)], *(codes.get(word) for codes, word in words)])
        return np.array(rows, dtype=np.float64).reshape(len(requests), len(NUMBERS) + len(WORDS))


class Boosting:
    """Bags of boosted trees over requests, each fitted to as many jobs as there are, drawn with replacement.

    :param horizon: run times above so many seconds are learnt as so many: a queue that asks whether a job ends before
        an announced one arrives needs no more; ``None`` = all as they are.  The band is of run times as they are.
    """

    name = "boosting"
    summary = "gradient boosting into 10-minute bins on what jobs request, as in the Arnold paper"

    def __init__(self, *, bags: int = 10, horizon: float | None = None, seed: int = 0) -> None:
        self._bags = bags
        self._horizon = np.inf if horizon is None else horizon
        self._seed = seed
        self._history = SimilarJobs()
        self._requests: list[Request] = []
        self._bins: list[int] = []
        self._fitted = 0
        self._encoder = Encoder(())
        self._models: list[_Bag] = []
        self._predictions: dict[Request, float] = {}
        self._band = RunningBand()
        self._told: dict[str, Prediction] = {}  # Of jobs that have not ended, by id

    def learn(self, record: JobRecord) -> None:
        """Remember a job that ended."""
        if (told := self._told.pop(record.job_id, None)) is not None:
            self._band.learn(told, record.duration)
        self._history.learn(record)
        self._requests.append(request_of(record))
        self._bins.append(int(min(record.duration, self._horizon) // BIN))

    def predict(self, record: JobRecord) -> Prediction:
        """Return the middle of the bin that the bags predict on average.

        :raises InvalidInput: scikit-learn is not installed.
        """
        if len(self._bins) < FEWEST:
            return self._history.predict(record)
        if len(self._bins) >= GROWTH * self._fitted:
            self._fit()
        request = request_of(record)
        if request not in self._predictions:
            self._predictions |= self._ask([request])
        self._told[record.job_id] = self._band.around(self._predictions[request])
        return self._told[record.job_id]

    def _fit(self) -> None:
        """Fit all bags to what has ended."""
        self._encoder = Encoder(self._requests)
        features = self._encoder.matrix(self._requests)
        bins = np.array(self._bins, dtype=np.float64)
        generator = np.random.default_rng(self._seed)
        draws = [generator.integers(len(bins), size=len(bins)) for _ in range(self._bags)]
        self._models = [_Bag(features[drawn], bins[drawn], seed=self._seed) for drawn in draws]
        self._fitted = len(bins)
        self._predictions = self._ask(list(dict.fromkeys(self._requests)))

    def _ask(self, requests: Sequence[Request]) -> dict[Request, float]:
        """Return predicted seconds of some requests: asking for many at once costs hardly more than for one."""
        features = self._encoder.matrix(requests)
        bins = np.stack([model.bins(features) for model in self._models]).mean(axis=0)
        return dict(zip(requests, ((bins + 0.5) * BIN).tolist(), strict=True))


class _Bag:
    """Boosted trees over those features that say anything; without any, the mean."""

    def __init__(self, features: FloatArray, bins: FloatArray, *, seed: int) -> None:
        boosting = _boosting()
        self._mean = float(bins.mean())
        different = [np.unique(column[~np.isnan(column)]).size for column in features.T]
        self._columns = [column for column, values in enumerate(different) if values > 1]
        self._model = None
        if self._columns:
            model = boosting(
                categorical_features=[column >= len(NUMBERS) for column in self._columns],
                early_stopping=False,
                random_state=seed,
            )
            with _one_thread():
                self._model = model.fit(features[:, self._columns], bins)

    def bins(self, features: FloatArray) -> FloatArray:
        """Return the bins predicted for requests, shape [requests]; never below 0."""
        if self._model is None:
            return np.full(len(features), self._mean)
        with _one_thread():
            bins: FloatArray = self._model.predict(features[:, self._columns])
        return np.maximum(0.0, bins)


def _boosting() -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError:
        raise InvalidInput(
            "predicting by boosting needs scikit-learn, which is not installed",
            where="--predictor",
            fix="in a clone of Arnold: pip install '.[learn]', or use --predictor history",
        ) from None
    return HistGradientBoostingRegressor


def _one_thread() -> AbstractContextManager[Any]:
    """Return a context without threads: trees this small lose by them where other processes are busy."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="openmp")
    return limits
