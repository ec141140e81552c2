"""Predictors of run time: what they know, and what they must not."""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.prediction_errors import by_predicted, last_of, score
from ground.errors import InvalidInput, UnknownName
from scheduler.queue.run_times import BAND, UNKNOWN, Prediction
from simulator.job_record import JobRecord
from simulator.prediction import (
    BIN,
    FEWEST,
    MOST_WORDS,
    PREDICTORS,
    Boosting,
    Encoder,
    Oracle,
    SimilarJobs,
    UserEstimate,
    predict_all,
    request_of,
)


def job(
    name: str,
    duration: float,
    *,
    submit: float = 0.0,
    user: str = "u",
    queue: str = "q",
    gpus: float = 1.0,
    estimate: float | None = None,
) -> JobRecord:
    """A job of some length."""
    return JobRecord(name, submit, duration, gpus, user=user, queue=queue, estimate=estimate)


class Listener:
    """Remembers what it was told and asked, in order."""

    name = "listener"
    summary = ""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def learn(self, record: JobRecord) -> None:
        """Remember."""
        self.heard.append(f"learn {record.job_id}")

    def predict(self, record: JobRecord) -> Prediction:
        """Remember, and answer something."""
        self.heard.append(f"predict {record.job_id}")
        return Prediction(1.0, 1.0, 1.0)


def test_predictors_are_found_by_name() -> None:
    """Each is new, and carries its own name; a misspelt one is corrected."""
    assert {"boosting", "estimate", "history", "oracle"} <= set(PREDICTORS.names())
    for name in PREDICTORS.names():
        assert PREDICTORS.load(name).name == name
        assert PREDICTORS.load(name) is not PREDICTORS.load(name)
    with pytest.raises(UnknownName) as error:
        PREDICTORS.load("histroy")
    assert "did you mean 'history'?" in error.value.fix


def test_oracle_and_estimate() -> None:
    """The truth; and the user's word, which is a limit, or the mean of the past."""
    assert Oracle().predict(job("a", 42.0)) == Prediction(42.0, 42.0, 42.0)
    estimate = UserEstimate()
    assert estimate.predict(job("a", 42.0, estimate=60.0)) == Prediction(60.0, 0.0, 60.0)
    assert estimate.predict(job("a", 42.0)) == UNKNOWN


def test_history_asks_the_most_alike() -> None:
    """Five jobs of the user, queue and size; of the queue for another user; of all for another queue."""
    history = SimilarJobs()
    for i in range(5):
        history.learn(job(f"a{i}", 100.0))
    for i in range(5):
        history.learn(job(f"b{i}", 300.0, user="v", gpus=8.0))
    assert history.predict(job("x", 1.0)).seconds == pytest.approx(100)
    assert history.predict(job("x", 1.0, gpus=8.0)).seconds == pytest.approx(100)
    assert history.predict(job("x", 1.0, user="w", gpus=8.0)).seconds == pytest.approx(300)
    assert history.predict(job("x", 1.0, user="w", gpus=2.0)).seconds == pytest.approx(200)
    assert history.predict(job("x", 1.0, queue="other")).seconds == pytest.approx(200)


def test_the_band_of_history_holds_nine_tenths() -> None:
    """Of log-normal run times; 4,000 draws, standard error of the share 0.5 %."""
    seconds = np.exp(np.random.default_rng(1).normal(5, 1.5, 4000))
    history = SimilarJobs()
    for value in seconds:
        history.learn(job("a", float(value)))
    band = history.predict(job("x", 1.0))
    assert np.mean((seconds >= band.low) & (seconds <= band.high)) == pytest.approx(BAND, abs=0.015)
    assert band.low <= band.seconds <= band.high


def requests(count: int, *, seed: int = 1) -> list[JobRecord]:
    """Jobs of one GPU that take 5 minutes and of eight that take 105, one a minute."""
    generator = np.random.default_rng(seed)
    large = generator.random(count) < 0.5
    return [
        job(f"j{i}", 6300.0 if large[i] else 300.0, submit=60.0 * i, gpus=8.0 if large[i] else 1.0)
        for i in range(count)
    ]


def test_boosting_learns_what_requests_tell() -> None:
    """Run times follow from the size alone: both are predicted within their bin of 10 minutes."""
    boosting = Boosting(bags=3)
    for record in requests(400):
        boosting.learn(record)
    # The middles of bins 0 and 10.
    assert boosting.predict(job("x", 1.0)).seconds == pytest.approx(0.5 * BIN, abs=10)
    assert boosting.predict(job("x", 1.0, gpus=8.0)).seconds == pytest.approx(10.5 * BIN, abs=10)


def test_boosting_needs_a_past() -> None:
    """Before 100 jobs have ended it gives the mean of the past; then it is fitted, and again when half as many more
    have ended.
    """
    boosting, history = Boosting(bags=1), SimilarJobs()
    past = requests(FEWEST)
    for record in past[:-1]:
        boosting.learn(record)
        history.learn(record)
    asked = job("x", 1.0, gpus=8.0)
    assert boosting.predict(asked) == history.predict(asked)
    boosting.learn(past[-1])
    fitted = boosting.predict(asked).seconds
    assert fitted == pytest.approx(10.5 * BIN, abs=20)
    # From now on jobs of eight GPUs are short, which the model does not know until it is fitted with 150.
    for i in range(FEWEST // 2 - 1):
        boosting.learn(job(f"new{i}", 300.0, gpus=8.0))
    assert boosting.predict(asked).seconds == fitted
    boosting.learn(job("last", 300.0, gpus=8.0))
    assert boosting.predict(asked).seconds < fitted - BIN


def test_boosting_never_looks_at_the_answer() -> None:
    """Two jobs that request the same get the same, however long they run."""
    boosting = Boosting(bags=2)
    for record in requests(200):
        boosting.learn(record)
    assert boosting.predict(job("x", 1.0)) == boosting.predict(job("y", 1e6))


def test_boosting_is_the_same_for_the_same_seed() -> None:
    """Bit by bit, in another process or not: it runs on one thread."""
    answers = []
    for _ in range(2):
        boosting = Boosting(bags=2, seed=5)
        generator = np.random.default_rng(2)
        for record in requests(FEWEST):
            noisy = job(record.job_id, float(generator.lognormal(6, 1)), gpus=record.gpus)
            boosting.learn(noisy)
        answers.append([boosting.predict(one) for one in requests(10)])
    assert answers[0] == answers[1]


def test_boosting_with_nothing_to_go_by() -> None:
    """All requests alike: the mean bin."""
    boosting = Boosting(bags=4)
    for i in range(200):
        boosting.learn(job(f"j{i}", 300.0 if i % 2 else 1500.0))
    # Bins 0 and 2 in equal numbers: 1 on average; 4 bags of 200 draws have a standard error of 1 / sqrt(800).
    assert boosting.predict(job("x", 1.0)).seconds == pytest.approx(1.5 * BIN, abs=3 * BIN / 800**0.5)


def test_a_horizon_cuts_long_jobs() -> None:
    """Run times above it count as so many."""
    boosting = Boosting(bags=1, horizon=3600.0)
    for record in requests(200):
        boosting.learn(record)
    assert boosting.predict(job("x", 1.0, gpus=8.0)).seconds == pytest.approx(6.5 * BIN, abs=10)


def test_without_the_library_there_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, or what to use instead."""
    real = builtins.__import__

    def missing(name: str, *rest: object, **named: object) -> object:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *rest, **named)  # type: ignore[arg-type]

    boosting = Boosting(bags=1)
    for record in requests(FEWEST):
        boosting.learn(record)
    for name in [name for name in sys.modules if name.startswith("sklearn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InvalidInput, match="needs scikit-learn") as error:
        boosting.predict(job("x", 1.0))
    assert "--predictor history" in error.value.fix


def test_rare_words_count_as_unknown() -> None:
    """The library takes 255 categories: the most frequent are kept, and what was never seen is unknown too."""
    past = [request_of(job(f"{i}-{j}", 1.0, queue=f"q{i}")) for i in range(MOST_WORDS + 50) for j in range(2)]
    past += [request_of(job("often", 1.0, queue="often"))] * 9
    encoder = Encoder(past)
    codes = encoder.matrix([request_of(job("x", 1.0, queue=name)) for name in ("often", "q0", "never")])[:, -1]
    assert codes[0] == 0
    assert np.isnan(codes[2])
    everything = encoder.matrix(past)[:, -1]
    assert np.nanmax(everything) == MOST_WORDS - 1


def test_jobs_are_learnt_from_once_and_in_the_order_of_their_ends() -> None:
    """A job that ends at the very moment counts as ended."""
    listener = Listener()
    first = [job("a", 100.0), job("b", 10.0), job("c", 50.0)]
    predict_all([*first, job("d", 1.0, submit=50.0), job("e", 1.0, submit=99.0)], listener)
    assert listener.heard[3:] == ["learn b", "learn c", "predict d", "learn d", "predict e"]


def past_of(heard: Sequence[str]) -> list[set[str]]:
    """For each question the jobs that had been learnt from."""
    known: set[str] = set()
    states = []
    for line in heard:
        verb, name = line.split()
        if verb == "learn":
            known.add(name)
        else:
            states.append(set(known))
    return states


def test_predictions_beforehand_know_only_what_has_ended() -> None:
    """At every submission exactly the jobs that ended by then were learnt."""
    records = [job(f"j{i}", 97.0 * (i % 7 + 1), submit=60.0 * i) for i in range(40)]
    listener = Listener()
    predictions = predict_all(records, listener)
    assert list(predictions) == [record.job_id for record in records]
    expected = [{past.job_id for past in records if past.submit + past.duration <= record.submit} for record in records]
    assert past_of(listener.heard) == expected


def test_errors_by_hand() -> None:
    """Predicted 1 s where 1 s, 1,201 s and 7,201 s are true: 0, 2 and 12 bins, rmse sqrt((4 + 144) / 3).  Two of three
    are above the band, and none below.
    """
    records = [job("a", 1.0), job("b", 1201.0), job("c", 7201.0)]
    told = {one.job_id: Prediction(1.0, 1.0, 1.0) for one in records}
    found = score(records, told)
    assert (found.jobs, found.rmse, found.mae) == (3, pytest.approx((148 / 3) ** 0.5), pytest.approx(14 / 3))
    assert (found.covered, found.above) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    # With a horizon of an hour the last error is 3,599 s.
    assert score(records, told, horizon=3600.0).mae == pytest.approx((2 + 3599 / 600) / 3)


def test_scores_by_predicted_time() -> None:
    """A job of exactly the bound is below it; a class without jobs has no score."""
    records = [job("a", 1.0), job("b", 1.0), job("c", 1.0)]
    told = {name: Prediction(at, 0.0, at) for name, at in (("a", 600.0), ("b", 601.0), ("c", 5.0))}
    found = by_predicted(records, told, [600.0, 900.0, 1800.0, math.inf])
    assert [None if one is None else one.jobs for one in found] == [2, 1, None, None]


def test_the_oracle_makes_no_error() -> None:
    """Zero, and always inside its band; the last tenth of 50 jobs are 5."""
    records = requests(50)
    found = score(last_of(records), predict_all(records, Oracle()))
    assert (found.jobs, found.rmse, found.covered) == (5, 0.0, 1.0)
