"""The standby pool against exact fractions, and the published pools."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from health.recovery.restarts import standby_pool
from tests.case_counts import examples

PUBLISHED = {128: 2, 256: 2, 512: 3, 1024: 4}
"""Machines of a job -> P99 pool (arXiv 2509.16293)."""


def exact(machines: int, rate: Fraction, pool: int) -> Fraction:
    """Probability of at most ``pool`` failures, summed in fractions."""
    return sum((comb(machines, k) * rate**k * (1 - rate) ** (machines - k) for k in range(pool + 1)), start=Fraction(0))


@examples(80)
@given(st.integers(1, 40), st.integers(0, 1000), st.integers(1, 999))
def test_the_quantile_is_that_of_exact_fractions(machines: int, rate: int, quantile: int) -> None:
    """The fewest failures that cover the quantile, for rates and quantiles of three decimals, ties included."""
    p, q = Fraction(rate, 1000), Fraction(quantile, 1000)
    brute = next(k for k in range(machines + 1) if exact(machines, p, k) >= q)
    assert standby_pool(machines, rate=rate / 1000, quantile=quantile / 1000) == brute


def test_a_tie_is_covered() -> None:
    """One machine that fails every other day: on half of the days none does, and a quantile of 0.5 needs no pool."""
    assert standby_pool(1, rate=0.5, quantile=0.5) == 0
    assert standby_pool(1, rate=0.5, quantile=0.51) == 1


def test_published_pools() -> None:
    """2/2/3/4 machines for 128/256/512/1024, for the rates of 1.17e-3 to 1.25e-3 and not beside them.

    The ends, by bisection of exact fractions: 128 machines need a second from 1.1645e-3 on, 1,024 a fifth from
    1.2508e-3 on.
    """
    for rate, same in ((1.16e-3, False), (1.17e-3, True), (1.2e-3, True), (1.25e-3, True), (1.26e-3, False)):
        pools = {machines: standby_pool(machines, rate=rate) for machines in PUBLISHED}
        assert (pools == PUBLISHED) == same


@pytest.mark.parametrize(("rate", "pool"), [(0.0, 0), (1.0, 100_000), (0.5, 50_368)])
def test_ends_and_size(rate: float, pool: int) -> None:
    """No failures, all fail, and 100,000 machines of which half fail: mean 50,000, deviation 158.1, P99 at 2.326 of
    them, 367.8 more; (1 - 0.5)^100000 is smaller than any float.
    """
    assert standby_pool(100_000, rate=rate) == pool


@pytest.mark.parametrize(
    ("machines", "rate", "quantile"),
    [(0, 0.1, 0.9), (2_000_000, 0.1, 0.9), (5, -0.1, 0.9), (5, float("nan"), 0.9), (5, 0.1, 0.0), (5, 0.1, 1.0)],
)
def test_out_of_range(machines: int, rate: float, quantile: float) -> None:
    """Each is refused."""
    with pytest.raises(InvalidInput):
        standby_pool(machines, rate=rate, quantile=quantile)
