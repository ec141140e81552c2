"""JSON with line numbers: parsed at full speed, positions looked up only when an error asks for one."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ground.errors import InvalidInput
from ground.files import Source

TWICE_FIX = "keep one of the two"
_SPACE = re.compile(r"[ \t\n\r]*")
_MARK = re.compile(r"---(?=[ \t\n\r])")  # Between documents of YAML, which texts of JSON are too


class KeyTwice(Exception):
    """An object has a key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"has the key {key!r} twice")
        self.key = key


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; raise :class:`KeyTwice`.  Decoders take it as ``object_pairs_hook``."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise KeyTwice(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return mapping


_STRICT = json.JSONDecoder(object_pairs_hook=unique)
_PLAIN = json.JSONDecoder()


def parse(source: Source) -> Any:
    """Return data of a JSON text; refuse broken syntax, a truncated text, a key twice, and what is nested too deep."""
    data, end = _decode(source, 0)
    if (more := _skip(source.text, end)) < len(source.text):
        line = _line(source.text, more)
        raise InvalidInput("is not JSON: extra data", where=source.at(line), fix=f"correct line {line}")
    return data


def parse_several(source: Source) -> tuple[list[Any], Callable[[Sequence[str | int]], int]]:
    """Return data of JSON texts one behind the other, as commands print them, and a function from a path in the list of
    them to its line (from 1); refuse as :func:`parse`.
    """
    documents: list[Any] = []
    starts: list[int] = []
    here = 0
    while not starts or here < len(source.text):
        starts.append(here)
        data, end = _decode(source, here)
        documents.append(data)
        here = _skip(source.text, end)
        if mark := _MARK.match(source.text, here):
            here = _skip(source.text, mark.end())
    return documents, lambda path: line_of(source.text, path[1:], starts[int(path[0])] if path else 0)


def _decode(source: Source, start: int) -> tuple[Any, int]:
    """Return the data of the JSON text that begins there, and where it ends."""
    try:
        return _STRICT.raw_decode(source.text, _skip(source.text, start))
    except KeyTwice as twice:
        where = source.at(_line(source.text, _second(source.text, twice.key, start)))
        raise InvalidInput(str(twice), where=where, fix=TWICE_FIX) from None
    except json.JSONDecodeError as error:
        message, fix = f"is not JSON: {error.msg.lower()}", f"correct line {error.lineno}, column {error.colno}"
        if error.pos >= len(source.text.rstrip()) or error.msg.startswith("Unterminated string"):
            message, fix = "is truncated: the JSON text ends in the middle", "get the whole file again"
        raise InvalidInput(message, where=source.at(error.lineno), fix=fix) from None
    except RecursionError:
        raise InvalidInput("is nested too deep", where=source.name, fix="flatten it") from None
    except ValueError:
        # Python refuses to read more than 4,300 digits, and does not say where they are.
        long = re.search(r"\d{4301}", source.text)
        where = source.at(_line(source.text, long.start()) if long else None)
        raise InvalidInput("has a number of thousands of digits", where=where, fix="use a number that fits") from None


def line_of(text: str, path: Sequence[str | int], start: int = 0) -> int:
    """Return the line (from 1) of a path that exists in the text that begins there; of a key, not of its value."""
    start = here = _skip(text, start)
    for wanted in path:
        here, start = next((key, value) for name, key, value in _members(text, start) if name == wanted)
    return _line(text, here)


def lines_of_entries(text: str, key: str = "") -> Iterator[int]:
    """Yield the line (from 1) of each entry of a list: of the document, or under one of its keys."""
    start = _skip(text, 0)
    if key:
        start = next(value for name, _, value in _members(text, start) if name == key)
    line, before = 1, 0
    for _, here, _ in _members(text, start):
        line, before = line + text.count("\n", before, here), here
        yield line


def _second(text: str, key: str, start: int) -> int:
    """Return the position of the second appearance of a key in the first object from there on that has it twice."""
    start = _skip(text, start)
    while True:
        positions = []
        for name, here, value in _members(text, start):
            if name == key:
                positions.append(here)
            try:
                _STRICT.raw_decode(text, value)
            except KeyTwice:
                start = value
                break
        else:
            return positions[1]


def _members(text: str, start: int) -> Iterator[tuple[str | int, int, int]]:
    """Yield key, position of the key and position of the value of each member of the object or list at ``start``."""
    in_object = text[start] == "{"
    here, number = _skip(text, start + 1), 0
    while text[here] not in "]}":
        name: str | int = number
        value = here
        if in_object:
            name, end = _PLAIN.raw_decode(text, here)
            value = _skip(text, _skip(text, end) + 1)
        yield name, here, value
        end = _PLAIN.raw_decode(text, value)[1]
        here, number = _skip(text, end), number + 1
        if text[here] == ",":
            here = _skip(text, here + 1)


def _skip(text: str, here: int) -> int:
    match = _SPACE.match(text, here)
    return here if match is None else match.end()


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
