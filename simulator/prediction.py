"""Predictors of run times, and the predictions for a whole trace, made before it is replayed.

When a job is submitted, the predictor knows those that had ended by then on the trace's own clock, each taken to run
from its submission.  A replay in which jobs wait would know a little less; in exchange nothing has to be told during
it, and a checkpoint has nothing to keep.

Some are told: by the trace itself (``oracle``), or by the user who submits the job (``estimate``).  Others learn from
jobs that ended: their mean over similar ones (``history``, a baseline that needs no library, and the predictor of the
live queue), or gradient boosting into 10-minute bins (``boosting``, the predictor of the Arnold paper, with a band
around it that goes on holding nine jobs of ten).
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from ground.errors import InvalidInput
from ground.plugins import PluginGroup
from scheduler.queue.run_times import TAIL, UNKNOWN, Likeness, Prediction, RunTimeHistory, foreseen
from simulator.job_record import JobRecord
from topology.cluster import FloatArray


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


def predict_all(records: Sequence[JobRecord], predictor: Predictor | str) -> dict[str, Prediction]:
    """Return the prediction of each job at its submission, by id.

    :param records: in order of submission.
    :param predictor: one that has learnt nothing yet, or its name.
    """
    if isinstance(predictor, str):
        predictor = PREDICTORS.load(predictor)
    # as if each had run from its submission
    ends = sorted(((record.submit + record.duration, place) for place, record in enumerate(records)), reverse=True)
    predictions = {}
    for record in records:
        while ends and ends[-1][0] <= record.submit:
            predictor.learn(records[ends.pop()[1]])
        predictions[record.job_id] = predictor.predict(record)
    return predictions


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


STEP = 0.02  # Of 0.01 to 0.05 the bands of Philly hold 89 to 91 %; larger ones swing, smaller ones come late
START = 2.0  # Logarithm of the factor at first: seven times as short, seven times as long


class RunningBand:
    """A band around predicted run times that goes on holding nine jobs of ten, whatever these are like.

    Each end of the band is a factor on the prediction, and moves when a job has ended that was told it: outwards by
    ``STEP * (1 - tail)`` in logarithms if the job missed that end, inwards by ``STEP * tail`` if not, with a tail of 5
    %.  That is adaptive conformal inference (Gibbs and Candès, NeurIPS 2021) as quantile tracking (Angelopoulos, Candès
    and Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023).  The share of T jobs that missed
    an end is the tail plus (how far the end has moved) / (STEP T), by adding up: nothing is assumed of the jobs.  Split
    conformal prediction takes future jobs to be like past ones, and they are not: with windows of 250 to 5,000 jobs its
    bands of 90 % held 85 to 87 % of Philly.

    An end is a sum: a part of all jobs, and a part of those of a like prediction (within a factor of two), so that the
    band holds for short jobs and for long ones.  Like the past of a predictor, it counts jobs when they end.
    """

    def __init__(self) -> None:
        # logarithms of the factors, of the lower and the upper end
        self._of_all = [START, START]
        self._of_class: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def around(self, seconds: float) -> Prediction:
        """Return a predicted run time, above 0 seconds, with its band."""
        low, high = self._ends(seconds)
        return Prediction(seconds, seconds / math.exp(low), seconds * math.exp(high))

    def learn(self, told: Prediction, seconds: float) -> None:
        """Take note of how long a job ran for which that was predicted.

        An end does not move inwards beyond the prediction itself, which may be a mean that hardly any job exceeds.
        """
        own = self._of_class[_class(told.seconds)]
        missed = seconds < told.low, seconds > told.high
        for end, now in enumerate(self._ends(told.seconds)):
            if missed[end] or now > 0.0:
                move = STEP * (missed[end] - TAIL)
                self._of_all[end] += move
                own[end] += move

    def _ends(self, seconds: float) -> tuple[float, float]:
        own = self._of_class[_class(seconds)]
        low, high = (max(0.0, self._of_all[end] + own[end]) for end in range(2))
        return low, high


def _class(seconds: float) -> int:
    return math.frexp(seconds)[1]


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
    """Gradient boosting into 10-minute bins: the predictor of the Arnold paper, with a band that holds.

    The paper (arXiv 2509.15940, section on the queue policy) does not say which losses or trees; here there are bags,
    each fitted to as many jobs as there are, drawn with replacement, of scikit-learn's histogram gradient boosting on
    the number of the bin, by squared error, the measure that it reports.  Of a request it takes CPUs, GPUs and drives,
    and the department of the owner.  Here: GPUs, nodes, CPUs, memory and the user's estimate as numbers (missing where
    a trace has none), and group (the department) and queue as categories.  The paper's band comes from the bags too: it
    says how sure the mean is, and holds few jobs where requests tell little (4 % of Philly's).  Here it is a
    :class:`RunningBand`.

    It learns from jobs that have ended, and from nothing else: the model is fitted anew when their number has grown by
    half.  Long jobs end late, so early models think that jobs are shorter than they are.

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
        self._open: dict[str, Prediction] = {}  # Of jobs that have not ended, by id

    def learn(self, record: JobRecord) -> None:
        """Remember a job that ended."""
        if (prediction := self._open.pop(record.job_id, None)) is not None:
            self._band.learn(prediction, record.duration)
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
            # fit all bags to what has ended
            self._encoder = Encoder(self._requests)
            features, bins = self._encoder.matrix(self._requests), np.array(self._bins, dtype=np.float64)
            generator = np.random.default_rng(self._seed)
            draws = [generator.integers(len(bins), size=len(bins)) for _ in range(self._bags)]
            self._models = [_Bag(features[drawn], bins[drawn], seed=self._seed) for drawn in draws]
            self._fitted = len(bins)
            self._predictions = self._ask(list(dict.fromkeys(self._requests)))
        request = request_of(record)
        if request not in self._predictions:
            self._predictions |= self._ask([request])
        self._open[record.job_id] = self._band.around(self._predictions[request])
        return self._open[record.job_id]

    def _ask(self, requests: Sequence[Request]) -> dict[Request, float]:
        """Return predicted seconds of some requests: asking for many at once costs hardly more than for one."""
        features = self._encoder.matrix(requests)
        bins = np.stack([model.bins(features) for model in self._models]).mean(axis=0)
        return dict(zip(requests, ((bins + 0.5) * BIN).tolist(), strict=True))


class _Bag:
    """Boosted trees over those features that say anything; without any, the mean."""

    def __init__(self, features: FloatArray, bins: FloatArray, *, seed: int) -> None:
        try:
            from sklearn.ensemble import HistGradientBoostingRegressor
        except ImportError:
            problem = "predicting by boosting needs scikit-learn, which is not installed"
            fix = "in a clone of Arnold: pip install '.[learn]', or use --predictor history"
            raise InvalidInput(problem, where="--predictor", fix=fix) from None
        self._mean = float(bins.mean())
        different = [np.unique(column[~np.isnan(column)]).size for column in features.T]
        self._columns = [column for column, values in enumerate(different) if values > 1]
        self._model = None
        if self._columns:
            model = HistGradientBoostingRegressor(
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


def _one_thread() -> AbstractContextManager[Any]:
    """Return a context without threads: trees this small lose by them where other processes are busy."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="openmp")
    return limits
