"""What the fields of a dataclass may hold, and their docstrings: from annotations and source, for options and JSON.

One annotation, ``Annotated[float, Interval(gt=0, le=60)]``, serves the constructor (:func:`check_bounds`), the options
of a command (``arnold.options.field_options``) and the JSON Schema (pydantic reads the same marks).
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import chain, pairwise
from math import inf
from textwrap import dedent
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, GroupedMetadata, Gt, Interval, Le, Lt

from topology.errors import InvalidInput

SIMPLE = (bool, int, float, str)

Count = Annotated[int, Ge(0)]
AtLeastOne = Annotated[int, Ge(1)]
NotNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Interval(ge=0, le=1)]
Seed = Annotated[int, Interval(ge=0, le=2**31 - 1)]


@dataclass(frozen=True, slots=True)
class FieldType:
    """What a field may hold: a bool, int, float or str within bounds."""

    kind: type
    many: bool = False  # any number of values, as a tuple
    optional: bool = False  # None is a value too
    choices: tuple[str, ...] = ()  # the only words that are taken; empty = any
    low: float = -inf
    high: float = inf
    low_open: bool = False  # the lower bound itself is no value
    high_open: bool = False  # the upper bound itself is no value

    @property
    def bounded(self) -> bool:
        """Whether there is any bound."""
        return (self.low, self.high) != (-inf, inf)

    def holds(self, number: float) -> bool:
        """Say whether a number is within the bounds; NaN never is."""
        above = self.low < number if self.low_open else self.low <= number
        below = number < self.high if self.high_open else number <= self.high
        return above and below

    @property
    def range(self) -> str:
        """The bounds in words: ``above 0 and at most 60``."""
        low = "" if self.low == -inf else f"{'above' if self.low_open else 'at least'} {self.low:,}"
        high = "" if self.high == inf else f"{'below' if self.high_open else 'at most'} {self.high:,}"
        return " and ".join(words for words in (low, high) if words)


@cache
def field_types(kind: type) -> Mapping[str, FieldType]:
    """Return what each field of a dataclass may hold, by name; fields of a type that is not known are left out."""
    hints = get_type_hints(kind, include_extras=True)
    found = {field.name: field_type(hints[field.name]) for field in fields(kind)}
    return MappingProxyType({name: one for name, one in found.items() if one is not None})


def field_type(hint: Any) -> FieldType | None:
    """Return what an annotation admits: a simple type, words, a tuple or ``None`` of these; ``None`` for others."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in SIMPLE:
        return FieldType(hint)
    if origin is Literal and all(isinstance(word, str) for word in parts):
        return FieldType(str, choices=parts)
    if origin is Annotated:
        inner, more = parts[0], _bounds(parts[1:])
    elif origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        inner, more = parts[0], {"many": True}
    elif origin in (Union, UnionType) and len(parts) == 2 and NoneType in parts:
        inner, more = next(part for part in parts if part is not NoneType), {"optional": True}
    else:
        return None
    found = field_type(inner)
    return None if found is None else replace(found, **more)


def check_bounds(record: Any, *, names: Mapping[str, str] = MappingProxyType({})) -> None:
    """Make sure that every number of a dataclass is within the bounds of its field.

    :param names: what people call a field, where that is not the name of the field.
    :raises InvalidInput: one is not; NaN never is, and infinity only where a field has no bound.
    """
    for name, admitted in field_types(record.__class__).items():
        if not admitted.bounded:
            continue
        value = getattr(record, name)
        for number in value if admitted.many else (value,):
            if number is not None and not admitted.holds(number):
                called = names.get(name, name)
                raise InvalidInput(f"{called} is {number}", where=called, fix=f"give a number {admitted.range}")


@cache
def field_docs(kind: type) -> Mapping[str, str]:
    """Return the docstrings under the fields of a dataclass, inherited ones too; none where there is no source."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if is_dataclass(base):
            found |= _own_docs(base)
    return MappingProxyType(found)


def _own_docs(kind: type) -> dict[str, str]:
    try:
        tree = ast.parse(dedent(inspect.getsource(kind))).body[0]
    except OSError:
        return {}
    found = {}
    for one, after in pairwise(getattr(tree, "body", ())):
        match one, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found


def _bounds(marks: Iterable[Any]) -> dict[str, Any]:
    """Return the arguments of :class:`FieldType` that marks of ``annotated_types`` stand for."""
    found: dict[str, Any] = {}
    # Interval(gt=0, le=1) is a group that stands for Gt(0), Le(1)
    for mark in chain.from_iterable(one if isinstance(one, GroupedMetadata) else (one,) for one in marks):
        match mark:
            case Ge(ge=low):
                found |= {"low": low}
            case Gt(gt=low):
                found |= {"low": low, "low_open": True}
            case Le(le=high):
                found |= {"high": high}
            case Lt(lt=high):
                found |= {"high": high, "high_open": True}
    return found
