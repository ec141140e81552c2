"""Ranges of answers: percentiles, swings in order, infinities, and the words of all that."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.records import json_data, read_json
from simulator.capacity.question import (
    MOST_SEEDS,
    AnswerRange,
    InputPoints,
    given_input,
    percentiles,
    seed_input,
)
from tests.case_counts import examples

WIDE, NARROW = (given_input(text, text, text, where="--x") for text in ("1..100", "4..9"))


@examples(30)
@given(values=st.lists(st.floats(0.0, 1e6) | st.just(inf), min_size=1, max_size=60))
def test_percentiles_are_values(values: list[float]) -> None:
    """At least a tenth, half and nine tenths of the values are no larger, and no smaller value has that."""
    for share, found in zip((0.1, 0.5, 0.9), percentiles(values), strict=True):
        assert found in values
        assert sum(value <= found for value in values) >= share * len(values) - 1e-9
        assert sum(value < found for value in values) < share * len(values)


def test_swings_by_hand() -> None:
    """A product of two log-normals: medians 10 and 6; each alone from its P10 to its P90, the wider first."""
    found = InputPoints((NARROW, WIDE), 4000, 0).range_over("pieces", lambda at: at["1..100"] * at["4..9"])
    assert found.at_medians == pytest.approx(60.0)
    assert found.decides == "1..100"
    ends = [(swing.at_low, swing.at_high) for swing in found.swings]
    assert ends == [pytest.approx((6.0, 600.0)), pytest.approx((40.0, 90.0))]
    # logs add: the product's P90 is 60 exp(sqrt(ln(10)^2 + ln(1.5)^2)) = 60 * 10.36
    assert found.p90 == pytest.approx(621.6, rel=0.1)
    assert found.p50 == pytest.approx(60.0, rel=0.05)
    assert next(found.sentences()) == "1..100 1 to 100 (given): pieces 6 to 600."
    assert found.table().rows[0] == ("1..100", "1", "100", "6", "600")


def test_what_is_certain_has_no_swing() -> None:
    """Then every draw is the same, and nothing decides."""
    sure = given_input("5", "x", "x", where="--x")
    found = InputPoints((sure,), 7, 0).range_over("pieces", lambda at: at["x"])
    assert (found.p10, found.p50, found.p90, found.swings, found.decides) == (5.0, 5.0, 5.0, (), "")


def test_no_number_is_enough() -> None:
    """Infinity is null in JSON and words to a person; an input that leads there decides."""
    found = InputPoints((NARROW, WIDE), 40, 0).range_over("spares", lambda at: inf if at["1..100"] > 50 else 3.0)
    assert (found.p50, found.p90, found.decides) == (3.0, inf, "1..100")
    assert found.words == "P10 3, P50 3, P90 none is enough"
    assert replace(found, beyond="never").words == "P10 3, P50 3, P90 never"
    data = json_data(AnswerRange, found)
    assert data["p90"] is None
    assert read_json(AnswerRange, data) == found


def test_chance_as_an_input() -> None:
    """A seed has no P10: its swing goes from the P10 to the P90 of the answer over 16 evenly spread seeds."""
    found = InputPoints((seed_input(),), 10, 0).range_over("pieces", lambda at: at["seed"])
    swing = found.swings[0]
    assert (swing.low, swing.high) == (None, None)
    # the second and the fifteenth of 16 seeds at (i + 1/2) / 16 of 2^31
    assert (swing.at_low, swing.at_high) == (1.5 / 16 * 2**31, 14.5 / 16 * 2**31)
    assert found.table().rows[0][1:3] == ("-", "-")


@pytest.mark.parametrize(("count", "ends"), [(3, ("least", "most")), (9, ("least", "most")), (10, ("P10", "P90"))])
def test_a_few_values_have_no_tenth(count: int, ends: tuple[str, str]) -> None:
    """Of fewer than ten draws the ends are the least and the most, and are called so."""
    found = InputPoints((seed_input(),), count, 0).range_of("hours", [float(i) for i in range(count + 1 + MOST_SEEDS)])
    assert (found.p10, found.p90) == (0.0, float(count - 1) if count < 10 else 8.0)
    assert [word in found.sentence for word in ends] == [True, True]
    assert ("P10" in found.sentence) is (ends[0] == "P10")
