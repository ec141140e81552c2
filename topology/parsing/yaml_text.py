"""YAML without its dangers, with line numbers: one pass over the parser's events, no recursion."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from topology.errors import InvalidInput, TooLarge
from topology.files import Source

MAX_CHARACTERS = 16 * 1024 * 1024
"""Largest YAML text: the parser needs about a second for each megabyte or two; JSON has no such limit."""

MAX_DEPTH = 64  # Deepest nesting of lists and mappings
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"

_CORE_SCHEMA: tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...] = (
    ("null", re.compile(r"(?:null|Null|NULL|~|)\Z"), lambda _: None),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), lambda text: text[0] in "tT"),
    ("int", re.compile(r"[-+]?[0-9]+\Z"), int),
    ("int", re.compile(r"0o[0-7]+\Z"), lambda text: int(text[2:], 8)),
    ("int", re.compile(r"0x[0-9a-fA-F]+\Z"), lambda text: int(text[2:], 16)),
    ("float", re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"), float),
    ("float", re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z"), lambda text: float(text.replace(".", ""))),
    ("float", re.compile(r"\.(?:nan|NaN|NAN)\Z"), lambda _: float("nan")),
)
"""YAML 1.2.2, section 10.3.2: kind, spelling, value."""


def parse(source: Source, *, several: bool = False) -> tuple[Any, Callable[[Sequence[str | int]], int]]:
    """Return data of a YAML text, and a function from a path in it to its line (from 1); refuse broken syntax, an
    alias, a tag, a key twice, what is too deep or too large.

    :param several: whether the text may have several documents: the data are a list of them, then.
    """
    if len(source.text) > MAX_CHARACTERS:
        large = f"is larger than the {MAX_CHARACTERS // 2**20} MB that are read as YAML"
        raise TooLarge(large, where=source.name, fix="write it as JSON")
    composer = _Composer(source, several=several)
    try:
        for event in yaml.parse(source.text, Loader=_LOADER):
            composer.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else min(mark.line + 1, source.text.rstrip().count("\n") + 1)
        fix = "correct the line; a file that ends in the middle was truncated"
        raise InvalidInput(f"is not YAML: {error.problem or error.context}", where=source.at(line), fix=fix) from None
    except yaml.YAMLError as error:
        raise InvalidInput(f"is not YAML: {error}", where=source.name, fix="give a YAML or JSON text file") from None
    return composer.data, composer.line_of


class _Composer:
    """Builds data from events and remembers the line of every key and list entry."""

    def __init__(self, source: Source, *, several: bool) -> None:
        self.source = source
        documents: list[Any] = []
        self.data: Any = documents if several else None
        self.first_line = 1
        self.several = several
        self.documents = 0
        self.lines: dict[int, dict[str | int, int]] = {}
        self.open: list[dict[str, Any] | list[Any]] = []
        self.keys: list[str | None] = []
        if several:  # an open list around the documents
            self.lines[id(documents)] = {}
            self.open.append(documents)
            self.keys.append(None)

    def line_of(self, path: Sequence[str | int]) -> int:
        """Return the line of a path that exists."""
        here, line = self.data, self.first_line
        for key in path:
            line = self.lines[id(here)][key]
            here = here[key]
        return line

    def take(self, event: yaml.Event) -> None:
        """Take the next event of the parser."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1 and not self.several:
                self._refuse("holds several documents", line, "keep one; split the file at the lines '---'")
        elif isinstance(event, yaml.AliasEvent):
            self._refuse(f"has an alias, *{event.anchor}", line, "write the value out where it is used")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.open.pop()
            self.keys.pop()
        elif isinstance(event, yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if event.anchor is not None:
                self._refuse(f"has an anchor, &{event.anchor}", line, "write the value out where it is used")
            self._node(event, line)

    def _node(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, line: int) -> None:
        awaits_key = bool(self.open) and isinstance(self.open[-1], dict) and self.keys[-1] is None
        if isinstance(event, yaml.ScalarEvent):
            if awaits_key:
                self._key(event.value, line)
            else:
                self._put(self._scalar(event, line), line)
            return
        if awaits_key:
            self._refuse("has a list or mapping as a key", line, "use a plain word as the key")
        container: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.tag not in (None, f"{_TAG}map" if isinstance(container, dict) else f"{_TAG}seq"):
            self._refuse(f"has a tag, {event.tag}", line, "write plain data without tags")
        if len(self.open) >= MAX_DEPTH:
            self._refuse(f"is nested more than {MAX_DEPTH} deep", line, "flatten it")
        self._put(container, line)
        self.lines[id(container)] = {}
        self.open.append(container)
        self.keys.append(None)

    def _key(self, key: str, line: int) -> None:
        mapping = self.open[-1]
        if key in mapping:
            first = self.lines[id(mapping)][key]
            self._refuse(f"has the key {key!r} twice (first in line {first})", line, "keep one of the two")
        self.keys[-1] = key
        self.lines[id(mapping)][key] = line

    def _put(self, value: Any, line: int) -> None:
        if not self.open:
            self.data, self.first_line = value, line
            return
        container, key = self.open[-1], self.keys[-1]
        if isinstance(container, list):
            self.lines[id(container)][len(container)] = line
            container.append(value)
        elif key is not None:
            container[key] = value
            self.keys[-1] = None

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> Any:
        text: str = event.value
        if event.tag in ("!", f"{_TAG}str") or (event.tag is None and not event.implicit[0]):
            return text
        for kind, spelling, value in _CORE_SCHEMA:
            if event.tag in (None, _TAG + kind) and spelling.match(text):
                try:
                    return value(text)
                except ValueError:
                    self._refuse("has a number of thousands of digits", line, "use a number that fits")
        if event.tag is not None:
            self._refuse(f"has a tag, {event.tag}", line, "write plain data without tags")
        return text

    def _refuse(self, message: str, line: int, fix: str) -> None:
        raise InvalidInput(message, where=self.source.at(line), fix=fix)
