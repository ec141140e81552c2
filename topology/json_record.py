"""One type for each fact that is printed, stored or sent: frozen dataclasses that are their own JSON.

A dataclass that inherits :class:`JsonRecord` needs no second class for its JSON: the names of its fields are the keys,
and the docstrings under them are the descriptions in the JSON Schema.  pydantic reads and writes it, and is imported by
the first call: computing with such a dataclass never loads it.
"""

from __future__ import annotations

from functools import cache
from math import inf, isinf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class JsonRecord:
    """Base of frozen dataclasses that are printed, stored or sent as JSON: documented fields, no unknown keys."""

    __slots__ = ()
    __pydantic_config__: ClassVar = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        # an infinity that no NullForInfinity stands for reaches the writer, who refuses it, instead of turning to null
        "ser_json_inf_nan": "constants",
    }


class NullForInfinity:
    """Mark of a float whose infinity is null in JSON, which has no word for it."""

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


FloatOrInfinity = Annotated[float, NullForInfinity()]
"""A number, or infinity, which JSON has as null."""


def json_data(kind: Any, value: Any) -> Any:
    """Return a value of a JSON record, model or union of them as lists, dicts, strings and numbers.

    :param kind: the type of the value, as :func:`json_schema` is asked for it.
    """
    return _adapter(kind).dump_python(value, mode="json")


def read_json(kind: type[T], data: Any) -> T:
    """Return the value that lists, dicts, strings and numbers stand for.

    :raises pydantic.ValidationError: a key is missing or unknown, or a value is of another type.
    """
    adapter: TypeAdapter[T] = _adapter(cast("Any", kind))
    return adapter.validate_python(data)


def json_schema(kind: Any, *, written: bool) -> dict[str, Any]:
    """Return the JSON Schema of a type.

    :param written: of what is written; otherwise of what is read, where fields with defaults may be missing.
    """
    return _adapter(kind).json_schema(mode="serialization" if written else "validation")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
