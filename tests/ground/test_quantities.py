"""Numbers as a person reads them: one form for each kind, wherever they stand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.quantities import capitalised, decimal, duration, fixed, label_of, number, percent, plural, seconds, times


def test_times_have_the_unit_that_suits_them() -> None:
    """Microseconds to days, three digits; what is set in seconds stays in seconds."""
    assert [duration(t) for t in (0.0, 59.0, 5400.0, 172_800.0, None)] == ["0 s", "59 s", "1.5 h", "2 d", "-"]
    assert [seconds(t) for t in (0.000123, 0.0312, 1.5, 60.0)] == ["123 µs", "31.2 ms", "1.5 s", "60 s"]
    assert [seconds(t) for t in (123.4, 46.34, 0.0035, 2e-6)] == ["123 s", "46.3 s", "3.5 ms", "2 µs"]
    assert [duration(-90.0), duration(math.inf)] == ["-1.5 min", "-"]


def test_numbers_have_the_digits_they_deserve() -> None:
    """Three, or all of the whole part, with commas; a power of ten where nobody would count them."""
    assert [number(value) for value in (1234.5, 0.1234, 42.0, 1e8, 6.1e10)] == [
        "1,234",
        "0.123",
        "42",
        "100,000,000",
        "6.1e+10",
    ]
    assert [decimal(value) for value in (3.0, 2.25, 5 / 3)] == ["3.0", "2.25", "1.667"]
    assert [times(1.973), times(1234.0)] == ["1.97x", "1,234x"]


def test_shares_are_percent() -> None:
    """One digit; beside an axis none where it is zero."""
    assert [percent(0.5), percent(None), percent(0.0312)] == ["50.0%", "-", "3.1%"]
    assert [label_of(0.5, "share"), label_of(0.125, "share")] == ["50%", "12.5%"]
    assert [label_of(90.0, "seconds"), label_of(12_345.0, "count")] == ["1.5 min", "12,345"]


def test_zero_has_no_sign() -> None:
    """However it came about."""
    assert [fixed(-0.001), fixed(-0.4), percent(-0.00001), number(-0.0)] == ["0.00", "-0.40", "0.0%", "0"]


@pytest.mark.parametrize("form", [number, fixed, percent, duration, seconds])
def test_what_is_not_known_is_a_dash(form: object) -> None:
    """``None``, NaN and infinity."""
    assert callable(form)
    assert {form(value) for value in (None, math.nan, math.inf)} == {"-"}


@given(st.floats(1e-6, 1e9))
def test_no_digit_that_counts_is_lost(value: float) -> None:
    """Read back, a number is within half a unit of its third digit: 0.5 %."""
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


def test_plurals_follow_the_rules() -> None:
    """Names of levels: minipods, switches, boxes."""
    assert [plural(2, noun) for noun in ("minipod", "switch", "box")] == ["2 minipods", "2 switches", "2 boxes"]
    assert [plural(1, "switch"), plural(1200, "node")] == ["1 switch", "1,200 nodes"]


def test_levels_that_readers_number_read_well() -> None:
    """Those of Slurm's switches, of fabrics and of Slurm's blocks; a name that only looks like them stays."""
    names = ("level-1", "tier-0", "block-120", "level-a", "node-1")
    read = ["2 switches of level 1", "2 domains of tier 0", "2 blocks of 120", "2 level-as", "2 node-1s"]
    assert [plural(2, name) for name in names] == read
    assert plural(1, "level-1") == "1 switch of level 1"
    assert plural(5, "leaf") == "5 leaves"
    assert plural(22, "example.com/tier-1") == "22 domains of example.com/tier-1"


def test_words_begin_a_sentence() -> None:
    """With a capital; acronyms stay, and no words are none."""
    assert [capitalised(words) for words in ("seconds of a step", "GPU time", "")] == [
        "Seconds of a step",
        "GPU time",
        "",
    ]
