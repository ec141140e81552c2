"""YAML and JSON from untrusted hands: plain data, and the line on which each piece of it stands.

YAML is read by the core schema of YAML 1.2 (``no`` is a word, ``1e-3`` a number), in one pass over the parser's events
and without recursion; keys are always strings, as in JSON.  What a data file does not need and a hostile one does is
refused: anchors and aliases ("billion laughs"), tags, several documents where one is expected, a key twice, deep
nesting.  NaN and infinities pass: what gives the data a meaning refuses them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar, cast

import yaml

from ground import json_text
from ground.errors import InvalidInput, TooLarge, did_you_mean
from ground.files import Source
from ground.records import NotPlainError, json_schema, read_json, read_plain

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
            if not awaits_key:
                self._put(self._scalar(event, line), line)
                return
            key, mapping = event.value, self.open[-1]
            if key in mapping:
                first = self.lines[id(mapping)][key]
                self._refuse(f"has the key {key!r} twice (first in line {first})", line, "keep one of the two")
            self.keys[-1] = key
            self.lines[id(mapping)][key] = line
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


T = TypeVar("T")
Path = Sequence[str | int]

_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
"""An unknown key in the words of pydantic, of a model and of a dataclass."""

_BEGINS_LIKE_JSON = re.compile(r'\s*[\[{][\s\[{]*(?:["\]}]|$)')


@dataclass(frozen=True, slots=True)
class Document:
    """Data of a YAML or JSON file."""

    source: Source
    data: Any  # dictionaries with string keys, lists, str, int, float, bool, None
    locate: Callable[[Path], int]  # line (from 1) of a path that exists in data

    def where(self, *path: str | int) -> str:
        """Return where a key or list entry stands, ``"job.yaml:12"``: as much of the path as there is."""
        return self.source.at(self.locate(_existing(self.data, path)))

    def part(self, *path: str | int) -> Self:
        """Return what stands at a path that exists, as a document of its own with the same lines."""
        data = self.data
        for key in path:
            data = data[key]
        return type(self)(self.source, data, lambda inside: self.locate([*path, *inside]))

    def parse(self, shape: type[T], *, error: type[InvalidInput] = InvalidInput) -> T:
        """Return the data as a record, a pydantic model, or any other type pydantic knows (``list[Model]``).

        :raises InvalidInput: (or ``error``) data of another shape, true or false for a number among it; for an unknown
            key says which was probably meant.
        """
        with suppress(NotPlainError, TypeError, ValueError):
            return cast("T", read_plain(shape, self.data))
        from pydantic import ValidationError

        self._check_truth_values(shape, error)
        try:
            return read_json(shape, self.data)
        except ValidationError as invalid:
            problems = invalid.errors(include_url=False)

        def rank(problem: Mapping[str, Any]) -> tuple[int, bool]:
            """Return the line; of one line a misspelled key comes before the one that is missing for it."""
            return self.locate(_existing(self.data, problem["loc"])), problem["type"] not in _UNKNOWN_KEY

        first = min(problems[:20], key=rank)
        if first["type"] == "missing":
            # a key that is there under another name is more to the point than that it is not there under its own
            beside = (
                problem
                for problem in problems
                if problem["type"] in _UNKNOWN_KEY and problem["loc"][:-1] == first["loc"][:-1]
            )
            first = next(beside, first)
        message, fix = _explain(first, shape)
        others = f" ({len(problems) - 1} more after this one)" if len(problems) > 1 else ""
        raise error(message + others, where=self.where(*first["loc"]), fix=fix)

    def _check_truth_values(self, shape: type, error: type[InvalidInput]) -> None:
        """Refuse true and false where a number is wanted: to pydantic, and to Python, they are 1 and 0."""
        paths: list[Path] = []
        inside: list[tuple[Path, Any]] = [((), self.data)]
        while inside:
            path, value = inside.pop()
            if isinstance(value, bool):
                paths.append(path)
            elif isinstance(value, dict | list):
                entries = value.items() if isinstance(value, dict) else enumerate(value)
                inside += [((*path, key), entry) for key, entry in entries if isinstance(entry, bool | dict | list)]
        for path in paths:
            wanted = {node["type"] for node in _nodes_at(shape, path) if "type" in node}
            if wanted & {"number", "integer"} and "boolean" not in wanted:
                what = "number" if "number" in wanted else "integer"
                message = f"{_dotted(path)}: input should be a valid {what}, not {self.part(*path).data!r}"
                raise error(message, where=self.where(*path), fix=f"correct {_dotted(path)}")


def load_document(source: Source, *, syntax: Literal["yaml", "any"] = "any", several: bool = False) -> Document:
    """Read YAML or JSON, whichever the text is; refuse what is broken, truncated, empty or too large.

    :param syntax: ``yaml`` reads JSON with the YAML parser too: slower, and every line is known at no further cost.
    :param several: whether the text may hold several documents; the data are a list of them, then, also of one.
    """
    if syntax == "any" and source.text.lstrip()[:1] in ("{", "["):
        try:
            if several:
                return Document(source, *json_text.parse_several(source))
            return Document(source, json_text.parse(source), lambda path: json_text.line_of(source.text, path))
        except InvalidInput:
            if _BEGINS_LIKE_JSON.match(source.text):
                raise
    data, line_of = parse(source, several=several)
    if data is None or (several and all(document is None for document in data)):
        raise InvalidInput("holds no data", where=source.name, fix="give a file with content")
    return Document(source, data, line_of)


def _existing(data: Any, path: Path) -> list[str | int]:
    """Return the longest beginning of a path that leads somewhere."""
    for depth, key in enumerate(path):
        is_key = isinstance(data, dict) and key in data
        if not is_key and not (isinstance(data, list) and isinstance(key, int) and 0 <= key < len(data)):
            return [*path[:depth]]
        data = data[key]
    return [*path]


def _explain(problem: Mapping[str, Any], shape: type) -> tuple[str, str]:
    """Return the message and fix for one problem that pydantic found in data that are no such shape."""
    path = tuple(problem["loc"])
    name = _dotted(path)
    match problem["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            keys = [key for node in _nodes_at(shape, path[:-1]) for key in node.get("properties", {})]
            return f"unknown key {name!r}", f"{did_you_mean(str(path[-1]), keys)}known keys: {', '.join(keys)}"
        case "missing":
            inside = f" in {_dotted(path[:-1])}" if len(path) > 1 else ""
            return f"the key {path[-1]!r} is missing{inside}", f"add {path[-1]!r}"
        case "string_type" if isinstance(problem["input"], int | float):
            return f"{name} must be text, not {problem['input']!r}", "put the value in quotes"
        case "model_type" | "dataclass_type" | "dict_type":
            reason = f"keys with values are expected here, not {_short(problem['input'])}"
        case "tuple_type":
            reason = f"input should be a valid list, not {_short(problem['input'])}"
        case "too_long" if isinstance(problem["input"], list):
            reason = f"at most {problem['ctx']['max_length']} entries are expected here, not {len(problem['input']):,}"
        case "too_short" if isinstance(problem["input"], list):
            reason = f"at least {problem['ctx']['min_length']} entries are expected here, not {len(problem['input']):,}"
        case "value_error" | "assertion_error":
            reason = str(problem["ctx"]["error"])
        case _:
            reason = f"{problem['msg'][:1].lower()}{problem['msg'][1:]}, not {_short(problem['input'])}"
    if path:
        return f"{name}: {reason}", f"correct {name}"
    return reason, "correct the file, or give another; it is read as YAML or JSON"


def _dotted(path: Path) -> str:
    words = (key if isinstance(key, int) or key.isprintable() else repr(key) for key in path)
    return "".join(f"[{word}]" if isinstance(word, int) else f".{word[:60]}" for word in words).lstrip(".")


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**18 else "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _nodes_at(shape: type, path: Path) -> list[dict[str, Any]]:
    """Return what the JSON Schema of a shape says of a path, all its alternatives."""
    schema = json_schema(shape, written=False)
    here = [schema]
    for key in path:
        steps: list[dict[str, Any] | None] = []
        for node in _alternatives(schema, here):
            if isinstance(key, int):
                first = node.get("prefixItems", ())
                steps.append(first[key] if key < len(first) else node.get("items"))
            else:
                others = node.get("additionalProperties")
                steps.append(node.get("properties", {}).get(key, others if isinstance(others, dict) else None))
        here = [step for step in steps if step is not None]
    return _alternatives(schema, here)


def _alternatives(schema: dict[str, Any], nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    resolved: list[dict[str, Any]] = []
    for node in nodes:
        choices = node.get("anyOf") or node.get("oneOf") or node.get("allOf")
        if "$ref" in node:
            resolved += _alternatives(schema, [schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]])
        elif choices:
            resolved += _alternatives(schema, choices)
        else:
            resolved.append(node)
    return resolved
