"""The split of a cache: golden numbers of sharing, limits that can be worked out, bad input."""

from __future__ import annotations

from typing import Any

import pytest

from ground.errors import InvalidInput
from simulator.capacity.cache import CacheQuestion
from tests.facts import says

CERTAIN = {"cache_bandwidth": "4", "storage_bandwidth": "0.3", "decode_rate": "4000", "augment_rate": "12000"}
"""Inputs without a range."""


def ask(**fields: Any) -> Any:
    """The answer with few draws."""
    return CacheQuestion(**{"draws": 20, **fields}).answer()


def test_four_jobs_share_their_loads() -> None:
    """40,000 samples an epoch are 13,333 (1 - .25^4) = 13,281 different ones, 3.01 times fewer."""
    answer = ask(samples=13_333.0, jobs=4, job_samples=10_000.0, cache_gb=1.0)
    assert (answer.loads, round(answer.shared_loads)) == (40_000, 13_281)
    assert says(answer.verdict, "4 jobs", "13,281 samples", "40,000", "3.01x fewer")


def test_a_cache_that_holds_all_by_hand() -> None:
    """771 GB hold all samples augmented: 4 GB/s are 6,645 a second; without a cache .3 GB/s are 2,727 encoded ones."""
    answer = ask(cache_gb=1_000.0, **CERTAIN | {"augment_rate": "6000"})
    best, *_, none = answer.rows
    assert (best.augmented, none.encoded, answer.cached) == (pytest.approx(0.78, abs=0.011), 0.0, 1.0)
    assert best.rate == pytest.approx(4e9 / 602e3)
    assert none.rate == pytest.approx(0.3e9 / 110e3)
    assert answer.ranges[1].p50 == pytest.approx(best.rate / none.rate)


def test_where_augmented_samples_are_not_used_again() -> None:
    """None of them is cached then: decoded ones, from which each use makes a new one, take their place."""
    assert ask(cache_gb=1_000.0, fresh=True, **CERTAIN).rows[0].decoded > 0.75


def test_a_slow_storage_wants_the_most_samples() -> None:
    """Where a miss costs far more than anything else, what counts is how many samples the cache holds: all encoded."""
    answer = ask(cache_gb=50.0, **CERTAIN | {"storage_bandwidth": "0.001"})
    assert answer.rows[0].encoded == 1.0
    # 50 GB of 141 GB
    assert answer.cached == pytest.approx(50e9 / 110e3 / 1_281_167)


def test_the_best_is_no_worse_than_any() -> None:
    """Of the ways that are shown, and of both curves."""
    answer = ask(cache_gb=300.0)
    certain = ask(cache_gb=300.0, **CERTAIN)
    assert max(rate for curve in certain.curves.values() for rate in curve) <= certain.rows[0].rate + 1e-6
    assert certain.rows[0].rate == max(row.rate for row in certain.rows)
    low, high = answer.about_as_good["encoded"]
    assert low <= answer.rows[0].encoded <= high


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"job_samples": 20.0, "samples": 10.0}, "--job-samples"),
        ({"encoded_kb": "-1"}, "--encoded-kb"),
        ({"decode_rate": "fast"}, "--decode-rate"),
        ({"cache_gb": -5.0}, "cache_gb"),
    ],
)
def test_bad_input(fields: dict[str, Any], where: str) -> None:
    """What no cache can be is refused, with the option."""
    with pytest.raises(InvalidInput) as caught:
        ask(**fields)
    assert caught.value.where == where
    assert caught.value.fix


def test_the_best_is_best_in_the_column_that_says_so() -> None:
    """The split with the least mean loading time over uncertain inputs has the largest mean rate of all rows."""
    answer = CacheQuestion(cache_gb=100.0, draws=50).answer()
    assert answer.rows[0].name == "best"
    assert answer.rows[0].mean_rate == max(row.mean_rate for row in answer.rows)
