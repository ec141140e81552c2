"""What a cache holds by form, and how fast a node loads from it: by hand, and against every split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.shared_data import all_splits, samples_by_form, seconds_a_sample
from tests.case_counts import examples

SHARES = st.tuples(st.integers(0, 100), st.integers(0, 100)).map(lambda two: (min(two), max(two)))


def test_a_cache_by_hand() -> None:
    """100 bytes hold 4 augmented samples of 10 bytes, 3 decoded ones and 15 encoded ones of 2 bytes; 8 of 30 are left.

    At 10, 5, 4 and 1 a second these take (.4 + .6 + 3.75 + 8) / 30 seconds each.
    """
    counts = samples_by_form(np.array([0.4, 0.3, 0.3]), cache=100.0, samples=30.0, encoded=2.0, prepared=10.0)
    assert [float(one) for one in counts] == pytest.approx([4, 3, 15, 8])
    assert float(seconds_a_sample(counts, (10, 5, 4, 1))) == pytest.approx(12.75 / 30)


def test_every_split_once() -> None:
    """In steps of 1 % there are 101 * 102 / 2 of them; each adds up to the whole cache."""
    splits = all_splits()
    assert splits.shape == (3, 5_151)
    assert len({tuple(one) for one in splits.T.tolist()}) == 5_151
    assert splits.sum(axis=0) == pytest.approx(1.0)


@examples(60)
@given(cuts=SHARES, cache=st.floats(1.0, 1e6), samples=st.floats(1.0, 1e4), encoded=st.floats(1.0, 50.0))
def test_what_is_held_fits(cuts: tuple[int, int], cache: float, samples: float, encoded: float) -> None:
    """No form has more bytes than its share, no sample is held twice, and a larger cache holds no fewer samples."""
    split = np.array([cuts[0], cuts[1] - cuts[0], 100 - cuts[1]]) / 100
    sizes = (3 * encoded, 3 * encoded, encoded)
    counts = samples_by_form(split, cache=cache, samples=samples, encoded=encoded, prepared=3 * encoded)
    assert sum(counts) == pytest.approx(samples)
    assert all(count >= 0 for count in counts)
    for count, share, size in zip(counts, split, sizes, strict=False):
        assert count * size <= share * cache * (1 + 1e-9)
    larger = samples_by_form(split, cache=2 * cache, samples=samples, encoded=encoded, prepared=3 * encoded)
    assert larger[-1] <= counts[-1] + 1e-6


def test_the_best_of_all_splits() -> None:
    """Encoded samples as fast as prepared ones take the whole cache, as they are the smallest; and all of them fit
    augmented, the fastest form, into a cache that is large enough.
    """
    splits = all_splits()

    def best(cache: float, rates: tuple[float, ...]) -> list[float]:
        counts = samples_by_form(splits, cache=cache, samples=100.0, encoded=1.0, prepared=5.0)
        return splits[:, int(seconds_a_sample(counts, rates).argmin())].tolist()

    assert best(50.0, (10, 10, 10, 1)) == [0.0, 0.0, 1.0]
    assert best(500.0, (10, 5, 2, 1)) == [1.0, 0.0, 0.0]
