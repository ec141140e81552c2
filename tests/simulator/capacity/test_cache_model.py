"""Splits of a cache at every point of the inputs: counts of samples, limits, and more of a cache."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.capacity.cache import CacheModel
from simulator.capacity.question import InputPoints
from tests.case_counts import examples

POINT = {
    "encoded_kb": 100.0,
    "prepared_kb": 500.0,
    "cache_bandwidth": 4.0,
    "storage_bandwidth": 0.2,
    "decode_rate": 4_000.0,
    "augment_rate": 6_000.0,
}
"""A sample takes 100 kB encoded and 500 kB prepared."""


def cache(gb: float, *, samples: float = 1_000_000.0, fresh: bool = False, steps: int = 4) -> CacheModel:
    """A cache of that size, of which quarters are looked at."""
    return CacheModel(InputPoints((), 1, 0), gb, samples, fresh, steps)


def test_splits_of_quarters() -> None:
    """15 ways to give four quarters to three forms, all of it given away; behind them no cache at all."""
    splits = cache(10.0).splits
    assert splits.shape == (3, 16)
    assert splits[:, :-1].sum(axis=0).tolist() == [1.0] * 15
    assert len({*map(tuple, splits.T.tolist())}) == 16
    assert splits[:, -1].tolist() == [0.0] * 3


@pytest.mark.parametrize("shares", [(1.0, 0.0, 0.0), (0.25, 0.5, 0.25), (0.0, 0.0, 1.0)])
def test_a_split_is_found_by_its_shares(shares: tuple[float, float, float]) -> None:
    """The nearest of the splits that are looked at."""
    model = cache(10.0)
    assert tuple(model.splits[:, model.at(*shares)].tolist()) == shares
    near = [share + 0.05 * (i - 1) for i, share in enumerate(shares)]
    assert model.at(*near) == model.at(*shares)


def test_a_split_by_hand() -> None:
    """10 GB: a quarter augmented holds 5,000 samples, half decoded 10,000, a quarter encoded 25,000, of 100,000.

    Those wait for 4 GB/s (8,000 a second), for the augmenting (6,000), for the decoding (4,000) and for the storage
    (200 MB/s, 2,000 a second).
    """
    model = cache(10.0, samples=100_000.0)
    place = model.at(0.25, 0.5, 0.25)
    counts = [float(form[place]) for form in model.counts(POINT)]
    assert counts == pytest.approx([5_000, 10_000, 25_000, 60_000])
    seconds = sum(count / rate for count, rate in zip(counts, (8_000, 6_000, 4_000, 2_000), strict=True)) / 100_000
    assert model.seconds_at(POINT)[place] == pytest.approx(seconds)
    assert model.seconds_at(POINT)[-1] == pytest.approx(1 / 2_000)


@examples(48)
@given(gb=st.floats(0.01, 1_000.0), times=st.floats(1.0, 50.0), fresh=st.booleans(), samples=st.integers(1, 10**7))
def test_a_larger_cache_is_no_slower(*, gb: float, times: float, fresh: bool, samples: int) -> None:
    """Whatever the split: no sample is lost or counted twice, and none is slower than from storage.

    All cached forms are as fast as a miss at least, as the storage is the slowest part of this point.
    """
    model = cache(gb, samples=float(samples), fresh=fresh)
    assert np.sum(model.counts(POINT, times=times), axis=0) == pytest.approx(samples)
    now, larger = model.seconds_at(POINT), model.seconds_at(POINT, times=times)
    assert (now <= now[-1] * (1 + 1e-9)).all()
    if not fresh:
        # where forms are of use again, the best split of the larger cache is as good as that of the smaller
        assert larger.min() <= now.min() * (1 + 1e-9)


def test_augmented_samples_that_are_not_used_again_are_worth_nothing() -> None:
    """A cache of augmented samples alone is as slow as none, where each use needs a fresh one."""
    fresh = cache(10.0, fresh=True)
    seconds = fresh.seconds_at(POINT)
    assert seconds[fresh.at(1.0, 0.0, 0.0)] == pytest.approx(seconds[-1])
    kept = cache(10.0).seconds_at(POINT)
    assert kept[fresh.at(1.0, 0.0, 0.0)] < kept[-1]
