"""One type for each fact that is printed, stored or sent: frozen dataclasses that are their own JSON.

A class that inherits :class:`JsonRecord` is such a dataclass without a decorator, and needs no second class for its
JSON: the names of its fields are the keys, and the docstrings under them are the descriptions in the JSON Schema.
pydantic reads and writes it, and is imported by the first call: computing with such a dataclass never loads it.

One annotation, ``Annotated[float, Interval(gt=0, le=60)]``, serves the constructor (:func:`check_fields`), the options
of a command (``arnold.options.field_options``) and the JSON Schema (pydantic reads the same marks).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial, wraps
from itertools import chain, pairwise
from math import inf, isfinite, isinf
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, GroupedMetadata, Gt, Interval, Le, Lt, MaxLen, MinLen

from ground.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter

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
def field_hints(kind: type) -> Mapping[str, Any]:
    """Return the annotation of each field of a dataclass, with its marks, by name."""
    return MappingProxyType(get_type_hints(kind, include_extras=True))


@cache
def field_types(kind: type) -> Mapping[str, FieldType]:
    """Return what each field of a dataclass may hold, by name; fields of a type that is not known are left out."""
    hints = field_hints(kind)
    types = ((field.name, field_type(hints[field.name])) for field in fields(kind))
    return MappingProxyType({name: admitted for name, admitted in types if admitted is not None})


def field_type(hint: Any) -> FieldType | None:
    """Return what an annotation admits: a simple type, words, a tuple or ``None`` of these; ``None`` for others."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in SIMPLE:
        return FieldType(hint)
    if origin is Literal and all(isinstance(word, str) for word in parts):
        return FieldType(str, choices=parts)
    if origin is Annotated:
        inner, more = parts[0], dict[str, Any]()
        for mark in _single_marks(parts[1:]):
            match mark:
                case Ge(ge=low):
                    more |= {"low": low}
                case Gt(gt=low):
                    more |= {"low": low, "low_open": True}
                case Le(le=high):
                    more |= {"high": high}
                case Lt(lt=high):
                    more |= {"high": high, "high_open": True}
    elif origin is tuple and len(parts) == 2 and parts[1] is Ellipsis:
        inner, more = parts[0], {"many": True}
    elif origin in (Union, UnionType) and len(parts) == 2 and NoneType in parts:
        inner, more = next(part for part in parts if part is not NoneType), {"optional": True}
    else:
        return None
    admitted = field_type(inner)
    return None if admitted is None else replace(admitted, **more)


class FieldCheck(NamedTuple):
    """What is looked at in a value, made once for each annotation: rows of nodes are many."""

    name: str
    hint: Any
    test: Callable[[Any], bool]  # whether it is of the type
    admitted: FieldType | None  # with its bounds, where it has any

    def check(self, value: Any, *, where: str, error: type[InvalidInput] = InvalidInput) -> None:
        """Make sure that a value is what the annotation says, and every number in it within the bounds.

        :raises InvalidInput: it is not, as an error of this class; NaN never is, infinity only where there is no bound.
        """
        admitted = self.admitted
        if not self.test(value):
            wanted = f"{kind_in_words(self.hint)} {admitted.range if admitted else ''}".rstrip()
            raise error(f"{self.name} is {ascii(value)[:60]}", where=where, fix=f"give {wanted}")
        if admitted is not None:
            for number in value if admitted.many else (value,):
                if number is not None and not admitted.holds(number):
                    raise error(f"{self.name} is {number}", where=where, fix=f"give a number {admitted.range}")


def _field_check(name: str, hint: Any) -> FieldCheck:
    admitted = field_type(hint)
    return FieldCheck(name, hint, _test_of(hint), admitted if admitted and admitted.bounded else None)


@cache
def _field_checks(kind: type) -> tuple[FieldCheck, ...]:
    """Return the checks of the fields of a dataclass or named tuple, of any other type none."""
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else getattr(kind, "_fields", ())
    hints = dict[str, Any]()
    for base in reversed(kind.__mro__) if names else ():  # annotations of other types are nobody's to read
        with suppress(NameError):  # somebody's own, with a type that is imported for type checkers alone
            hints |= field_hints(base)
    return tuple(_field_check(name, hints[name]) for name in names if name in hints)


def check_fields(record: Any, *, error: type[InvalidInput] = InvalidInput, within: str = "") -> None:
    """Make sure that every field of a dataclass or named tuple, and of the records in it, holds what it may.

    :param error: what is raised where one does not, as :meth:`FieldCheck.check` says.
    :param within: the fields that the record stands in, with a dot behind each, for the place in the error.
    """
    for field_check in _field_checks(cast("Any", type(record))):
        value = getattr(record, field_check.name)
        field_check.check(value, where=within + field_check.name, error=error)
        if value is None or type(value) in SIMPLE:  # as most are: nothing is in it
            continue
        held = value.values() if isinstance(value, Mapping) else value
        for part in held if held is not value or type(value) in (tuple, list) else (value,):
            check_fields(part, error=error, within=f"{within}{field_check.name}.")


def checked(function: Callable[P, R], *, error: type[InvalidInput] = InvalidInput) -> Callable[P, R]:
    """Make a function of the face of a package refuse arguments that are not what they may be, by an error."""
    order, checks = inspect.signature(function), cache(partial(_argument_check, function))

    @wraps(function)
    def asked(*given: P.args, **named: P.kwargs) -> R:
        for name, value in order.bind(*given, **named).arguments.items():
            checks(name).check(value, where=name, error=error)
        return function(*given, **named)

    return asked


def _argument_check(function: Callable[..., Any], name: str) -> FieldCheck:
    """Return the check of an argument; a type that is imported for type checkers alone is any."""
    hint = function.__annotations__[name]
    with suppress(NameError):
        return _field_check(name, eval(hint, function.__globals__) if isinstance(hint, str) else hint)
    return _field_check(name, Any)


def _test_of(hint: Any) -> Callable[[Any], bool]:
    """Return what tells whether a value is of the type of an annotation, whose bounds are no matter; any is, where that
    is not known.  A truth value or NaN is no number, a text no list, a time without a time zone none.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _test_of(parts[0])
    if origin in (Union, UnionType):
        tests = [_test_of(part) for part in parts]
        return lambda value: any(test(value) for test in tests)
    if origin is Literal:
        return lambda value: isinstance(value, str | int) and value in parts
    if origin is Mapping:
        keys, values = map(_test_of, parts)
        return lambda value: isinstance(value, Mapping) and all(map(keys, value)) and all(map(values, value.values()))
    if isinstance(origin, type):
        kind = Sequence if origin is tuple else origin
        each = _test_of(parts[0] if kind in (Sequence, Iterable) and parts[1:] in ((), (Ellipsis,)) else Any)

        def admitted(value: Any) -> bool:
            array = origin is Sequence and getattr(value, "ndim", 0) == 1
            if not array and (isinstance(value, str) or not isinstance(value, kind)):
                return False
            return not (array or isinstance(value, Sequence)) or all(map(each, value))  # an iterator is read once

        return admitted
    if hint in (int, float):
        numbers: Any = (int, Integral) if hint is int else (float, Real)  # the usual ones are told soonest
        return lambda value: isinstance(value, numbers) and not isinstance(value, bool) and -inf <= value <= inf
    if hint is bool:  # one of NumPy's too
        return lambda value: (
            isinstance(value, bool) or (str(getattr(value, "dtype", "")) == "bool" and value.shape == ())
        )
    if hint is datetime:
        return lambda value: isinstance(value, datetime) and value.tzinfo is not None
    if isinstance(hint, type) and hint is not Any and not getattr(hint, "_is_protocol", False):
        return lambda value: isinstance(value, PathLike if hint is Path else hint)
    return lambda _: True


def kind_in_words(hint: Any) -> str:
    """Return the type of an annotation in words: ``a whole number or None``."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return kind_in_words(parts[0])
    if origin in (Union, UnionType):
        return " or ".join(kind_in_words(part) for part in sorted(parts, key=lambda part: part is not NoneType))
    if origin is Literal:
        return f"one of {', '.join(parts)}"
    if origin in (tuple, Sequence, Iterable):
        return f"a {'tuple' if origin is tuple else 'list'}, each of its entries {kind_in_words(parts[0])}"
    words = {
        int: "a whole number", float: "a number", str: "a text", bool: "True or False", NoneType: "None",
        datetime: "a time with its time zone",
    }  # fmt: skip
    return words.get(hint) or f"a {getattr(origin or hint, '__name__', 'value of its type')}"


@cache
def field_docs(kind: type) -> Mapping[str, str]:
    """Return the docstrings under the fields of a dataclass; none where there is no source.

    Those of its bases hold too, also of a base that is no dataclass and declares fields for others to have.
    """
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        docs |= _docs_of_module(base.__module__).get(base.__qualname__, {})
    return MappingProxyType(docs)


@cache
def _docs_of_module(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings under the fields of each class of a module, by the qualified name of the class and the name
    of the field: its source is parsed once for all of them.  What is built in has no source, and no classes here.
    """
    import ast

    docs: dict[str, dict[str, str]] = {}

    def read(body: Iterable[ast.stmt], within: str) -> None:
        """Take note of the classes in a body, and of those in the body of each class and function."""
        for statement in body:
            match statement:
                case ast.ClassDef(name=name, body=inner):
                    texts = docs[within + name] = {}
                    for field, after in pairwise(inner):
                        match field, after:
                            case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                                texts[key] = inspect.cleandoc(text)
                    read(inner, f"{within}{name}.")
                case ast.FunctionDef(name=name, body=inner):
                    read(inner, f"{within}{name}.<locals>.")

    try:
        read(ast.parse(inspect.getsource(sys.modules[module])).body, "")
    except (KeyError, OSError, TypeError):  # built in, or made without a file
        return {}
    return docs


T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class RecordType(type):
    """Type of JSON records: each is a frozen dataclass with slots, without a decorator that says so."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: bool) -> Any:
        """Make the class, by options of ``dataclass``, which makes it again with ``__slots__``."""
        made = super().__new__(cls, name, bases, body)
        return made if "__slots__" in body else dataclass(frozen=True, slots=True, **options)(made)


class JsonRecord(metaclass=RecordType):
    """Base of what is printed, stored or sent as JSON: documented fields, no unknown keys."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        # an infinity that no NullForInfinity stands for reaches the writer, and is refused, instead of turning to null
        "ser_json_inf_nan": "constants",
    }

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        """Return the JSON Schema with docstrings of inherited fields, where pydantic reads those of one class only."""
        return described(cast("Any", cls), core, handler)


def described(kind: type, core: Any, handler: Any) -> dict[str, Any]:
    """Return the JSON Schema of a dataclass or model, with the docstrings under its fields as descriptions."""
    schema: dict[str, Any] = handler(core)
    # in JSON a field of a model may go by an alias
    aliases = {name: field.alias or name for name, field in getattr(kind, "model_fields", {}).items()}
    docs = {aliases.get(name, name): text for name, text in field_docs(kind).items()}
    for name, content in handler.resolve_ref_schema(schema).get("properties", {}).items():
        if name in docs:
            content.setdefault("description", docs[name])
    return schema


class NullForInfinity:
    """Mark of a float: infinity is null in JSON, which has no word for it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Build pydantic's schema: null is read as infinity, infinity is written as null."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(
            lambda value: inf if value is None else value,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: None if isinf(value) else value,
                return_schema=core_schema.nullable_schema(core_schema.float_schema()),
            ),
        )


class AsWritten:
    """Mark of a number or truth value that is read as it is written: no text, no fraction for a whole number."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Build pydantic's schema of the number, strict."""
        return {**handler(source), "strict": True}


FloatOrInfinity = Annotated[float, NullForInfinity()]  # A number, or infinity, which JSON has as null


class Checked:
    """Mark of a number or time that pydantic checks by more than its type, by the words of ``pydantic_core``."""

    def __init__(self, kind: Literal["float", "datetime"], **constraints: Any) -> None:
        self._kind = kind
        self._constraints = constraints

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Build pydantic's schema."""
        from pydantic_core import core_schema

        return getattr(core_schema, f"{self._kind}_schema")(**self._constraints)


FiniteFloat = Annotated[float, Checked("float", allow_inf_nan=False)]  # A number, and neither infinity nor NaN
EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
# A time with a time zone, and one in UTC, too
AwareTime = Annotated[datetime, Checked("datetime", tz_constraint="aware", strict=False, ge=EARLIEST, le=LATEST)]


class Prepared:
    """Mark of a value that is looked at before it is read, and may stand for another."""

    def __init__(self, prepare: Callable[[Any], Any], given: Any = None) -> None:
        """Read what ``prepare`` returns, or refuse the value by the ValueError that it raises.

        :param given: what may stand for it in JSON, as a type; ``None`` = what it is.
        """
        self.prepare = prepare
        self._given = given

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Build pydantic's schema."""
        from pydantic_core import core_schema

        given = None if self._given is None else handler.generate_schema(self._given)
        return core_schema.no_info_before_validator_function(
            self.prepare, handler(source), json_schema_input_schema=given
        )


def record_of(kind: type[T], *about: object, **given: Any) -> T:
    """Return a record whose fields, but for those given, are the attributes of the same names of what it is about, of
    the first of several that has one; arrays become lists.
    """
    names = (field.name for field in fields(cast("Any", kind)) if field.name not in given)
    values = ((name, getattr(next((of for of in about[:-1] if hasattr(of, name)), about[-1]), name)) for name in names)
    return kind(**given, **{name: value.tolist() if hasattr(value, "tolist") else value for name, value in values})


def json_data(kind: Any, value: Any, *, without_defaults: bool = False) -> Any:
    """Return a value of a JSON record, model or union of them as lists, dicts, strings and numbers; without what
    :func:`read_json` fills in again, if so wished.
    """
    return _adapter(kind).dump_python(value, mode="json", exclude_defaults=without_defaults)


def read_json(kind: type[T], data: Any) -> T:
    """Return the value that lists, dicts, strings and numbers stand for; pydantic.ValidationError says why not."""
    adapter: TypeAdapter[T] = _adapter(cast("Any", kind))
    return adapter.validate_python(data)


@cache
def json_schema(kind: Any, *, written: bool) -> dict[str, Any]:
    """Return the JSON Schema of a type as it is written, or as it is read: fields with defaults may be missing then.

    It is made once for all, and not to be changed.
    """
    return _adapter(kind).json_schema(mode="serialization" if written else "validation")


class NotPlainError(Exception):
    """What only pydantic reads, or refuses."""


def read_plain(hint: Any, value: Any) -> Any:
    """Return what a value stands for that has the very types of an annotation: as :func:`read_json`, without pydantic,
    whose import takes longer than a small job.

    :raises NotPlainError: it has not, or the annotation is of a kind that is not known here.
    :raises ValueError: a record or a mark refuses it; TypeError: a key is missing.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if hint is float and type(value) in (int, float) and isfinite(value):
        return float(value)
    if hint in (bool, int, str, NoneType) and type(value) is hint:
        return value
    if origin is Literal and type(value) is str and value in parts:
        return value
    if origin in (Union, UnionType):
        read = []
        for part in parts:
            with suppress(NotPlainError):
                read.append(read_plain(part, value))
        if len(read) == 1:
            return read[0]
    if origin is tuple and isinstance(value, list) and parts[1:] == (Ellipsis,):
        return tuple(read_plain(parts[0], entry) for entry in value)
    if origin is dict and isinstance(value, dict):
        return {read_plain(parts[0], key): read_plain(parts[1], entry) for key, entry in value.items()}
    if isinstance(hint, type) and issubclass(hint, JsonRecord) and isinstance(value, hint):
        return value
    if isinstance(hint, type) and issubclass(hint, JsonRecord) and isinstance(value, dict):
        hints = field_hints(cast("Any", hint))
        return hint(**{name: read_plain(hints.get(name), entry) for name, entry in value.items()})
    if origin is Annotated:
        for mark in parts[1:]:
            value = mark.prepare(value) if isinstance(mark, Prepared) else value
        value = read_plain(parts[0], value)
        if all(_holds(mark, value) for mark in _single_marks(parts[1:])):
            return value
    raise NotPlainError


def _single_marks(marks: Iterable[Any]) -> Iterator[Any]:
    """Yield marks of an annotation one by one: Interval(gt=0, le=1) is a group that stands for Gt(0), Le(1)."""
    return chain.from_iterable(mark if isinstance(mark, GroupedMetadata) else (mark,) for mark in marks)


def _holds(mark: Any, value: Any) -> bool:
    """Return whether a mark is known to hold of a value of the right type."""
    match mark:
        case Ge(ge=low):
            return bool(value >= low)
        case Gt(gt=low):
            return bool(value > low)
        case Le(le=high):
            return bool(value <= high)
        case Lt(lt=high):
            return bool(value < high)
        case MinLen(min_length=low):
            return len(value) >= low
        case MaxLen(max_length=high):
            return len(value) <= high
    return isinstance(mark, AsWritten | Prepared)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
