"""Typed fields of rows from elsewhere, and the ranks that dropped rows leave in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.rows import BadRow
from health.collectives.json_fields import (
    LARGEST,
    LATEST,
    BadRowOfRank,
    TaintedRanks,
    integer,
    listed,
    moment,
    nested,
    number,
    text,
)
from tests.facts import saying

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)
READERS: list[tuple[Callable[..., Any], Callable[[Any], bool]]] = [
    (integer, lambda value: type(value) is int and 0 <= value <= LARGEST),
    (number, lambda value: type(value) in (int, float) and 0 <= value < 1.8e308),
    (moment, lambda value: type(value) in (int, float) and 0 <= value <= LATEST),
    (text, lambda value: isinstance(value, str) and value != ""),
    (nested, lambda value: isinstance(value, dict)),
    (listed, lambda value: isinstance(value, list)),
]


@pytest.mark.parametrize(("read", "good"), READERS, ids=lambda one: getattr(one, "__name__", ""))
@given(value=ANY)
def test_a_field_is_what_it_should_be_or_refused(
    read: Callable[..., Any], good: Callable[[Any], bool], value: object
) -> None:
    """Exactly the values of the kind are read, as they are; all others are bad rows that name the field."""
    if good(value):
        assert read({"x": value}, "x") == value
    else:
        with pytest.raises(BadRow, match="'x' is"):
            read({"x": value}, "x")


@pytest.mark.parametrize("read", [read for read, _ in READERS])
def test_a_field_that_is_missing(read: Callable[..., Any]) -> None:
    """Said by its name."""
    with pytest.raises(BadRow, match="'x' is missing"):
        read({"y": 1}, "x")


def test_limits_and_units() -> None:
    """A least number may be asked for; times in microseconds are seconds; digits without end are not spelled out."""
    assert integer({"n": 2}, "n", low=2) == 2
    with pytest.raises(BadRow, match=saying("'n'", "1", "2")):
        integer({"n": 1}, "n", low=2)
    assert moment({"t": 2_000_000}, "t", unit=1e-6) == pytest.approx(2.0)
    with pytest.raises(BadRow, match="is its unit right"):
        moment({"t": 1.7e12}, "t")
    with pytest.raises(BadRow, match="a number of about 5,000 digits"):
        integer({"n": 10**5_000}, "n")


@given(st.lists(st.tuples(st.sampled_from(["late", "early"]), st.none() | st.integers(0, 9)), max_size=12))
def test_ranks_of_dropped_rows_are_noted(rows: list[tuple[str, int | None]]) -> None:
    """Each row is counted by its reason, and either its rank or every rank is in doubt."""
    taken = TaintedRanks(lenient=True)
    for reason, rank in rows:
        taken.refuse(BadRow(reason) if rank is None else BadRowOfRank(reason, rank), "t:1")
    assert taken.tainted == {rank for _, rank in rows if rank is not None}
    assert taken.all_tainted == any(rank is None for _, rank in rows)
    counts = {reason: [one for one, _ in rows].count(reason) for reason, _ in rows}
    assert set(taken.counted()) == {f"dropped {count} rows: {reason}" for reason, count in counts.items()}


def test_strict_reading_notes_nothing() -> None:
    """The first wrong row is an error with its place."""
    with pytest.raises(InvalidInput, match="late") as caught:
        TaintedRanks(lenient=False).refuse(BadRowOfRank("late", 3), "t.jsonl:7")
    assert caught.value.where == "t.jsonl:7"
