"""Uncertain inputs: quantiles by closed forms, what users write, and draws that are common to all that is compared."""

from __future__ import annotations

from math import exp, log, sqrt
from statistics import mean, median

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from simulator.capacity.grow import GrowQuestion
from simulator.capacity.question import (
    chance_of,
    draw,
    gamma_of,
    given_input,
    lognormal,
    numbered_input,
    seed_input,
    source_of,
)
from tests.case_counts import examples


@examples(30)
@given(u=st.floats(0.001, 0.999), scale=st.floats(0.01, 100.0))
def test_gamma_by_closed_forms(u: float, scale: float) -> None:
    """Two values m - d, m + d have mean m, variance 2 d^2.

    With shape 1 it is the exponential distribution, -s ln(1 - u); with shape 2 it has 1 - (1 + x) e^-x below x.
    """
    # shape m^2 / (2 d^2) = 1 where d = m / sqrt(2), 2 where d = m / 2
    d = scale / sqrt(2)
    assert gamma_of([scale - d, scale + d])(u) == pytest.approx(-scale * log(1.0 - u), rel=1e-9)
    x = gamma_of([0.5 * scale, 1.5 * scale])(u) / (scale / 2)
    assert 1.0 - (1.0 + x) * exp(-x) == pytest.approx(u, abs=1e-9)


@examples(30)
@example(low=17.0, factor=1.0 + 2**-52)
@given(low=st.floats(0.01, 100.0), factor=st.floats(1.0, 100.0))
def test_a_range_has_its_ends_at_p10_and_p90(low: float, factor: float) -> None:
    """And its geometric mean as the median; equal ends are certain."""
    quantile = lognormal(low, low * factor)
    assert quantile(0.1) == pytest.approx(low)
    assert quantile(0.9) == pytest.approx(low * factor)
    assert quantile(0.5) == pytest.approx(low * sqrt(factor))


@pytest.mark.parametrize(
    ("text", "low", "high"), [("24", 24.0, 24.0), ("6..72", 6.0, 72.0), (" 0.5..1e2 ", 0.5, 100.0), ("0", 0.0, 0.0)]
)
def test_what_users_write(text: str, low: float, high: float) -> None:
    """A number is certain, a range is not."""
    one = given_input(text, "repair", "hours", where="--repair-hours")
    assert (one.quantile(0.1), one.quantile(0.9)) == pytest.approx((low, high))
    assert one.certain == (low == high)


@pytest.mark.parametrize("text", ["", "soon", "6..", "..6", "72..6", "0..6", "-1", "1..2..3", "nan", "6...72", "2000"])
def test_what_is_no_range(text: str) -> None:
    """Refused with the option's name and the form that is wanted."""
    with pytest.raises(InvalidInput, match=r"neither|out of bounds") as caught:
        given_input(text, "repair", "hours", where="--repair-hours", most=1000.0)
    assert (caught.value.where, "P10..P90" in caught.value.fix) == ("--repair-hours", True)


def test_draws_are_common() -> None:
    """Same seed, same draws; one more input leaves the others as they are; every tenth of the range has its share."""
    repair = given_input("6..72", "repair", "hours", where="--repair-hours")
    alone, both = (draw(some, draws=50, seed=3) for some in ([repair], [seed_input(), repair]))
    assert [one["repair"] for one in alone] == [one["repair"] for one in both]
    assert alone != draw([repair], draws=50, seed=4)
    # a Latin hypercube: a fiftieth of the distribution each, so 5 of 50 below P10
    assert sum(one["repair"] <= 6.0 for one in alone) == 5
    assert median(one["repair"] for one in alone) == pytest.approx(sqrt(6 * 72), rel=0.05)
    # seeds are whole numbers, evenly over their range
    assert all(one["seed"] == int(one["seed"]) for one in both)
    assert mean(one["seed"] for one in both) == pytest.approx(2**30, rel=0.02)


def test_where_an_input_is_from() -> None:
    """What has its default is assumed; all else was given."""
    assert source_of(GrowQuestion(growth=("0.1",)), "load") == "assumed"
    assert source_of(GrowQuestion(growth=("0.1",)), "growth") == "given"


def test_things_by_number() -> None:
    """Three of them have a third of the probability each, and no order."""
    one = numbered_input(3, "state", "which nodes are busy")
    assert [one.quantile(u) for u in (0.0, 0.33, 0.34, 0.67, 0.99)] == [0.0, 0.0, 1.0, 2.0, 2.0]
    assert not one.ordered


def test_what_chance_does_in_a_run() -> None:
    """Student's quantiles with four degrees of freedom, as tables have them (1.533 at P90), cut at two."""
    assert [chance_of(u) for u in (0.1, 0.25, 0.5, 0.9)] == pytest.approx([-1.533, -0.741, 0.0, 1.533], abs=1e-3)
    assert [chance_of(u) for u in (0.001, 0.01, 0.99, 0.999)] == [-2.0, -2.0, 2.0, 2.0]
