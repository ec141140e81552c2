"""Annotations of dataclass fields as kinds of values and bounds."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast
from unittest.mock import Mock

import numpy as np
import pandas
import pytest
from annotated_types import Ge, Gt, Interval, Le, Lt
from hypothesis import given
from hypothesis import strategies as st

from ground.errors import InvalidInput
from ground.records import (
    FieldType,
    JsonRecord,
    check_fields,
    checked,
    field_docs,
    field_type,
    field_types,
    json_schema,
)

if TYPE_CHECKING:
    from datetime import datetime

Share = Annotated[float, Interval(ge=0, lt=1)]


@dataclass(frozen=True)
class Sized:
    """A dataclass with a field of each sort."""

    nodes: Annotated[int, Ge(1)] = 1
    share: Share = 0.5
    limit: Annotated[float, Gt(0)] | None = None
    ratios: tuple[Annotated[float, Interval(ge=1, le=10)], ...] = ()
    name: str = "x"
    free: float = inf
    other: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Composed(Sized):
    """A dataclass with others in it."""

    way: Literal["in", "out"] = "in"
    part: Sized | None = None
    named: Mapping[str, Sized] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("hint", "admitted"),
    [
        (int, FieldType(int)),
        (bool, FieldType(bool)),
        (str | None, FieldType(str, optional=True)),
        (tuple[float, ...], FieldType(float, many=True)),
        (Literal["json", "text"], FieldType(str, choices=("json", "text"))),
        (Annotated[int, Ge(2), Le(9)], FieldType(int, low=2, high=9)),
        (Annotated[float, Interval(gt=0, lt=1)], FieldType(float, low=0, high=1, low_open=True, high_open=True)),
        (Annotated[float | None, Lt(5)], FieldType(float, optional=True, high=5, high_open=True)),
        (tuple[Annotated[int, Ge(1)], ...], FieldType(int, many=True, low=1)),
    ],
)
def test_known_types(hint: object, admitted: FieldType) -> None:
    """Each part of an annotation says one thing, wherever the marks stand."""
    assert field_type(hint) == admitted


@pytest.mark.parametrize("hint", [bytes, dict[str, int], tuple[int, int], int | str, Literal[1, 2], list[int], None])
def test_other_types(hint: object) -> None:
    """A type that no single word stands for is none of those known; a dataclass leaves such a field out."""
    assert field_type(hint) is None
    assert list(field_types(Sized)) == ["nodes", "share", "limit", "ratios", "name", "free"]


@given(st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.booleans())
def test_bounds_as_python_compares(number: float, low_open: bool, high_open: bool) -> None:
    """A number holds where both comparisons do, open or closed."""
    admitted = FieldType(float, low=-2.0, high=3.0, low_open=low_open, high_open=high_open)
    above = number > -2.0 if low_open else number >= -2.0
    below = number < 3.0 if high_open else number <= 3.0
    assert admitted.holds(number) == (above and below)


def test_ranges_in_words() -> None:
    """One bound, both, none; large numbers with commas."""
    assert field_types(Sized)["nodes"].range == "at least 1"
    assert field_types(Sized)["share"].range == "at least 0 and below 1"
    assert FieldType(int, low=0, low_open=True, high=1_000_000).range == "above 0 and at most 1,000,000"
    assert FieldType(int).range == ""


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 0}, "nodes is 0"),
        ({"share": 1.0}, "share is 1.0"),
        ({"share": nan}, "share is nan"),
        ({"limit": 0.0}, "limit is 0.0"),
        ({"ratios": (2.0, 0.5)}, "ratios is 0.5"),
    ],
)
def test_values_out_of_bounds(wrong: dict[str, object], message: str) -> None:
    """The message has the name, the value, and what is admitted."""
    with pytest.raises(InvalidInput, match=message) as caught:
        check_fields(Sized(**wrong))  # type: ignore[arg-type]
    assert caught.value.fix.startswith("give a number ")


@pytest.mark.parametrize(
    ("wrong", "place", "wanted"),
    [
        ({"nodes": 1.0}, "nodes", "a whole number at least 1"),
        ({"nodes": True}, "nodes", "a whole number at least 1"),
        ({"share": "0.5"}, "share", "a number at least 0 and below 1"),
        ({"limit": "1"}, "limit", "None or a number above 0"),
        ({"ratios": "12"}, "ratios", "a tuple"),
        ({"ratios": (2.0, None)}, "ratios", "a tuple"),
        ({"name": 5}, "name", "a text"),
        ({"free": nan}, "free", "a number"),
        ({"other": [1]}, "other", "dict"),
        ({"way": "up"}, "way", "one of in, out"),
        ({"part": "x"}, "part", "None or a Sized"),
        ({"part": Sized(nodes=0)}, "part.nodes", "a number at least 1"),
        ({"named": {"a": Sized(), "b": Sized(share=2.0)}}, "named.share", "below 1"),
    ],
)
def test_values_of_other_types(wrong: dict[str, object], place: str, wanted: str) -> None:
    """A text is no list and no number, a truth value no number; records and mappings are looked into."""
    with pytest.raises(InvalidInput) as caught:
        check_fields(Composed(**wrong))  # type: ignore[arg-type]
    assert caught.value.where == place
    assert wanted in caught.value.fix


def test_values_within_bounds() -> None:
    """None and infinity pass where a field admits them, several values one by one; numbers of NumPy, and lists."""
    check_fields(Sized(limit=None, ratios=(1.0, 10.0), free=inf))
    check_fields(Composed(nodes=np.int32(4), share=np.float32(0.5), ratios=[2, 3.0], part=Sized()))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Extended(Sized):
    """Somebody's own dataclass, with a type that only type checkers know."""

    until: datetime | None = None


def test_of_a_type_that_only_type_checkers_know_the_rest_is_checked() -> None:
    """Somebody's own dataclass of ours is one of ours."""
    check_fields(Extended())
    with pytest.raises(InvalidInput, match="nodes is 0"):
        check_fields(Extended(nodes=0))


class Unreadable:
    """Somebody's own class with an annotation that says no type, as those of ``type`` cannot be read on Python 3.14."""

    size: "no type"  # type: ignore[valid-type] # noqa: F722


class Read(NamedTuple):
    """A record with what others hand over in place of ours."""

    file: Path = Path("jobs.csv")
    rows: Sequence[str] = ()
    lenient: bool = False
    seen: Any = None


@pytest.mark.parametrize(
    "same",
    [
        {"file": PurePath("jobs.csv")},
        {"rows": np.array(["a", "b"])},
        {"rows": pandas.Series(["a", "b"])},
        {"lenient": np.True_},
        {"seen": Mock()},
        {"seen": (Mock(), ast.parse("1"))},
        {"seen": (Unreadable(), Unreadable, type)},
    ],
)
def test_what_works_as_well_is_taken(same: dict[str, Any]) -> None:
    """Another kind of path, an array for a list, a truth value of NumPy; a stand-in for a record is not looked into."""
    check_fields(Read(**same))


@pytest.mark.parametrize(
    "other", [{"rows": np.array([1, 2])}, {"rows": np.zeros((2, 2))}, {"lenient": np.array([True])}]
)
def test_arrays_of_other_things_are_refused(other: dict[str, Any]) -> None:
    """What is in an array is looked at as what is in a list; a table is none."""
    with pytest.raises(InvalidInput):
        check_fields(Read(**other))


@checked
def _told(names: Sequence[str], *, most: Annotated[int, Ge(1)] = 1, later: datetime | None = None) -> int:
    """Return what a function with three arguments is told."""
    return len(names) * most


def test_arguments_are_checked() -> None:
    """By name and by place, each as its annotation says; a type that only type checkers know is any."""
    assert _told(["a", "b"], most=2, later=cast("Any", 5)) == 4
    for arguments, place in (({"names": "ab"}, "names"), ({"names": ["a"], "most": 0}, "most")):
        with pytest.raises(InvalidInput) as caught:
            _told(**arguments)
        assert caught.value.where == place
    with pytest.raises(TypeError):  # as Python says it
        _told()  # type: ignore[call-arg]


class Documented(JsonRecord):
    """A dataclass with documented fields."""

    nodes: int
    """Nodes
    in all."""
    bare: int
    name: str = "x"
    """What it is called."""


class Inheriting(Documented, kw_only=True):
    """A dataclass with a field of its own, and another docstring for one it inherits."""

    name: str = "y"
    """Another name."""
    own: int = 1
    """A number."""


def test_docs_of_fields() -> None:
    """Those of the class and of its bases, the class's own first; a class without source has none."""
    assert field_docs(Documented) == {"nodes": "Nodes\nin all.", "name": "What it is called."}
    assert field_docs(Inheriting) == {"nodes": "Nodes\nin all.", "name": "Another name.", "own": "A number."}
    assert field_docs(dataclass(type("Made", (), {"__annotations__": {"x": int}}))) == {}


def test_a_schema_describes_inherited_fields() -> None:
    """The JSON Schema of a JSON record has the docstrings of the fields that it inherits."""
    described = json_schema(Inheriting, written=True)["properties"]
    assert described["nodes"]["description"] == "Nodes\nin all."
    assert described["name"]["description"] == "Another name."
    assert "description" not in described["bare"]
