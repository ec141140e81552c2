"""The page of all schemas: fields of what commands print with `--json`, and of the files that users write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from arnold.commands.schema import schema_names, schema_of
from docs.generate.markdown import prose, table

HEADING = """\
# Schemas

Fields of the JSON documents that commands print with `--json`, and of the files that you write. `arnold schema NAME`
prints each as a JSON Schema, for programs. A record that stands in several documents has its own table
[below](#records). Units are in the meaning or in the field's name.

"""

Schema = Mapping[str, Any]


def schemas_text() -> str:
    """Return the page: a section for each document, then one for each record that they share."""
    parts: list[str] = []
    records: dict[str, Schema] = {}
    for name in schema_names():
        schema = schema_of(name)
        for record, described in schema.get("$defs", {}).items():
            records.setdefault(record, described)
        parts += _section(f"## {name}", schema)
    parts.append("## Records")
    for record in sorted(records):
        parts += _section(f"### {record}", records[record])
    return HEADING + "\n\n".join(parts) + "\n"


def _section(heading: str, schema: Schema) -> Iterator[str]:
    """Yield heading, description and fields of one object, or what it is if it has none."""
    yield heading
    if description := schema.get("description"):
        yield prose(description)
    if fields := schema.get("properties"):
        rows = [(f"`{name}`", _type(field), prose(field.get("description", ""))) for name, field in fields.items()]
        yield table(("field", "type", "meaning"), rows).rstrip()
    else:
        yield f"Type: {_type(schema)}."


def _type(schema: Schema) -> str:
    """Return the type of a value in words: with its limits, choices and default, links to records."""
    words = _kind(schema) + _limits(schema)
    default = schema.get("default")
    return (
        words
        if default is None
        else f"{words}, default `{str(default).lower() if default in (True, False) else default}`"
    )


def _kind(schema: Schema) -> str:
    if "$ref" in schema:
        record = schema["$ref"].rpartition("/")[2]
        return f"[{record}](#{record.lower()})"
    if either := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(one) for one in either))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return _list(schema)
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"map to {_type(schema['additionalProperties'])}"
    return {"string": "text", "date-time": "time"}.get(schema.get("format", kind), kind)


def _list(schema: Schema) -> str:
    """Return the type of a list: of the same, or of one thing after the other."""
    if items := schema.get("prefixItems"):
        return f"list: {', '.join(_type(one) for one in items)}"
    return f"list of {_type(schema['items'])}" if schema.get("items") else "list"


LIMITS: Sequence[tuple[str, str]] = (
    ("exclusiveMinimum", "above {}"),
    ("minimum", "at least {}"),
    ("exclusiveMaximum", "below {}"),
    ("maximum", "at most {}"),
)
"""Keys of JSON Schema -> words."""


def _limits(schema: Schema) -> str:
    found = [words.format(f"{schema[key]:g}") for key, words in LIMITS if key in schema]
    return f" ({', '.join(found)})" if found else ""
