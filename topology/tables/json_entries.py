"""The entries of a list in a JSON document, each with its line: a document that is a list, or has one under a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from topology.errors import InvalidInput
from topology.files import Source, decode_source
from topology.parsing import json_text
from topology.tables.bad_rows import BadRow
from topology.tables.byte_stream import ByteStream


def json_document(source: ByteStream) -> tuple[Source, Any]:
    """Return the text and the data of a whole document; raise InvalidInput where it is damaged or no JSON."""
    text = decode_source(source.name, source.content().getvalue())
    return text, json_text.parse(text)


def entries(source: Source, data: Any, *, key: str = "") -> Iterator[tuple[int, Any]]:
    """Yield the entries of a list with their lines.

    :param data: that of the text.
    :param key: the key that holds the list; empty = the document is the list.
    :raises InvalidInput: there is no such list.
    """
    found = data.get(key) if key and isinstance(data, dict) else data
    if not isinstance(found, list):
        what = f"has no list {key!r}" if key else "is no list"
        raise InvalidInput(what, where=source.at(1), fix="give the whole document as it was written")
    yield from zip(json_text.lines_of_entries(source.text, key), found, strict=True)


def inside(value: Any, *path: str) -> Any:
    """Return what stands under keys of an entry; ``None`` = one of them is not there.

    :raises BadRow: what should hold a key is no object.
    """
    for done, key in enumerate(path):
        if value is None and done:
            return None
        if not isinstance(value, dict):
            where = ".".join(path[:done]) or "the entry"
            raise BadRow("not an object", f"{where} is {str(value)[:60]!r}, not an object", fix="correct that entry")
        value = value.get(key)
    return value
