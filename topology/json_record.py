"""One type for each fact that is printed, stored or sent: frozen dataclasses that are their own JSON.

A dataclass that inherits :class:`JsonRecord` needs no second class for its JSON: the names of its fields are the keys,
and the docstrings under them are the descriptions in the JSON Schema.  pydantic reads and writes it, and is imported by
the first call: computing with such a dataclass never loads it.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from functools import cache
from math import inf, isinf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast

from topology.field_types import field_docs

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class JsonRecord:
    """Base of frozen dataclasses that are printed, stored or sent as JSON: documented fields, no unknown keys."""

    __slots__ = ()
    __pydantic_config__: ClassVar = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        # an infinity that no NullForInfinity stands for reaches the writer, and is refused, instead of turning to null
        "ser_json_inf_nan": "constants",
    }

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        """Return the JSON Schema with docstrings of inherited fields, where pydantic reads those of one class only."""
        schema: dict[str, Any] = handler(core)
        docs = field_docs(cast("Any", cls))
        for name, described in handler.resolve_ref_schema(schema).get("properties", {}).items():
            if name in docs:
                described.setdefault("description", docs[name])
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
    """Mark of a number that is read as it is written: no text, no truth value, no fraction for a whole number."""

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
AwareTime = Annotated[datetime, Checked("datetime", tz_constraint="aware")]  # A time with a time zone


def record_of(kind: type[T], about: object, **given: Any) -> T:
    """Return a JSON record whose fields, but for those given, are the attributes of the same names of what it is about;
    arrays become lists.
    """
    named = (field.name for field in fields(cast("Any", kind)) if field.name not in given)
    found = ((name, getattr(about, name)) for name in named)
    return kind(**given, **{name: value.tolist() if hasattr(value, "tolist") else value for name, value in found})


def json_data(kind: Any, value: Any, *, without_defaults: bool = False) -> Any:
    """Return a value of a JSON record, model or union of them as lists, dicts, strings and numbers; without what
    :func:`read_json` fills in again, if so wished.
    """
    return _adapter(kind).dump_python(value, mode="json", exclude_defaults=without_defaults)


def read_json(kind: type[T], data: Any) -> T:
    """Return the value that lists, dicts, strings and numbers stand for; pydantic.ValidationError says why not."""
    adapter: TypeAdapter[T] = _adapter(cast("Any", kind))
    return adapter.validate_python(data)


def json_schema(kind: Any, *, written: bool) -> dict[str, Any]:
    """Return the JSON Schema of a type as it is written, or as it is read: fields with defaults may be missing then."""
    return _adapter(kind).json_schema(mode="serialization" if written else "validation")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
