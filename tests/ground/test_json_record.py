"""Frozen dataclasses that are their own JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ground.records import FloatOrInfinity, JsonRecord, json_data, json_schema, read_json, record_of


class Reading(JsonRecord, kw_only=True):
    """A measured value."""

    node: str
    """Name of the node."""
    slowdown: FloatOrInfinity = inf
    """Factor on compute time; null = never use."""
    since: datetime | None = None
    """When it began."""


class Readings(JsonRecord):
    """Measured values of a day."""

    rows: tuple[Reading, ...]
    """In order of time."""


VALUES = st.builds(
    Reading,
    node=st.text(),
    slowdown=st.floats(min_value=1.0),
    since=st.none() | st.datetimes(timezones=st.just(UTC)),
)


@given(st.lists(VALUES))
def test_what_is_written_is_read_back(rows: list[Reading]) -> None:
    """Any record, infinities and dates included, comes back as it was."""
    readings = Readings(tuple(rows))
    assert read_json(Readings, json_data(Readings, readings)) == readings


def test_keys_are_the_fields_in_their_order() -> None:
    """JSON has the fields in their order; infinity is null, and a time names its zone."""
    reading = Reading(node="n1", since=datetime(2026, 3, 1, tzinfo=UTC))
    data = json_data(Reading, reading)
    assert list(data.items()) == [("node", "n1"), ("slowdown", None), ("since", "2026-03-01T00:00:00Z")]


def test_schema_describes_every_field() -> None:
    """Descriptions are the docstrings, nested records included; unknown keys are forbidden; infinity is a null."""
    schema = json_schema(Readings, written=True)
    reading = schema["$defs"]["Reading"]
    assert schema["properties"]["rows"]["description"] == "In order of time."
    assert reading["description"] == "A measured value."
    assert reading["additionalProperties"] is False
    assert reading["properties"]["slowdown"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert {key: field["description"] for key, field in reading["properties"].items()} == {
        "node": "Name of the node.",
        "slowdown": "Factor on compute time; null = never use.",
        "since": "When it began.",
    }


@pytest.mark.parametrize("data", [{}, {"node": "n", "nodes": 1}, {"node": "n", "slowdown": "fast"}], ids=str)
def test_what_is_no_record_is_refused(data: dict[str, object]) -> None:
    """A missing key, an unknown one and a value of another type are errors."""
    with pytest.raises(ValidationError):
        read_json(Reading, data)


def test_a_number_that_is_none_stays_one() -> None:
    """NaN does not turn into null: the writer of the text refuses it."""
    assert json_data(Reading, Reading(node="n", slowdown=nan))["slowdown"] is not None


class Measured(JsonRecord, kw_only=True):
    """What is printed of a measurement."""

    name: str
    """Its name."""
    values: tuple[float, ...] | list[float]
    """The numbers."""
    mean: float
    """Their mean."""


def test_a_record_takes_what_it_shares_with_what_it_is_about() -> None:
    """Attributes and properties of the same names, arrays as lists; what is given wins, what is nowhere is an error."""

    class Measurement:
        name = "watts"
        values = np.array([1.0, 2.0])

        @property
        def mean(self) -> float:
            return float(self.values.mean())

    assert record_of(Measured, Measurement()) == Measured(name="watts", values=[1.0, 2.0], mean=1.5)
    assert record_of(Measured, Measurement(), mean=2.0).mean == 2.0
    with pytest.raises(AttributeError, match="mean"):
        record_of(Measured, "a text", name="x", values=())
