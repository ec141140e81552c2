"""The file of a flag store: JSON lines, only ever appended to, that say what was found, decided and when.

The first line says what the file is.  Every other line is an event about one node and one source, and carries what that
source holds against the node from then on, its *steps*; so that whoever reads the lines up to some time knows what held
then, without the rules by which it was decided (those are in :mod:`health.flags`).

A crash while a line is written leaves its beginning at the end of the file: that line was never promised to anybody, is
left out and told (:attr:`FlagLog.torn`).  A broken line anywhere else is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from topology.errors import InvalidInput
from topology.files import Source
from topology.flag_rows import Finding
from topology.flags import NodeFlag, merged

VERSION = 1
"""Of the format; a file of a later one is refused."""

EventName = Literal["opened", "rules", "noted", "raised", "renewed", "lowered", "cleared", "expired"]
"""``opened``: the first line.  ``rules``: those by which is decided from here on.  ``noted``: a finding that does not
suffice to flag the node, or a source that takes a finding back.  ``raised``: flagged, or flagged as worse.
``renewed``: found again.  ``lowered``: less bad, as nothing worse was found for a while.  ``cleared``: nothing was
found for the quiet time, or somebody lifted it.  ``expired``: its source said until when, and that is past."""

_MARK = re.compile(r'\s*\{\s*"arnold"\s*:\s*"flag-store"')


class Step(Finding):
    """What a source holds against a node until some time.

    :param seen: when the source last said so.
    :param stated: the source itself said until when, and that is later than the quiet time would end.
    """

    until: AwareDatetime
    seen: AwareDatetime
    stated: bool = False


class Line(BaseModel):
    """One line of the file, an event.

    :param steps: what the source holds against the node from now on; of several the slower come first and end first.
    :param finding: what was found, where it is none of the steps.
    :param stamp: tells one version of a flag file from another, so that the same is taken in once only.
    :param by: who did it, if not the store by its rules.
    :param because: the reason in words.
    :param relapses: how often the node was flagged anew soon after its flag had ended.
    :param forgotten: of the first line: history before this is not whole any more.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    arnold: Literal["flag-store"] | None = None
    version: int | None = None
    time: AwareDatetime
    event: EventName
    node: str = ""
    source: str = ""
    steps: tuple[Step, ...] = ()
    finding: Finding | None = None
    stamp: str = ""
    by: str = ""
    because: str = ""
    relapses: int = Field(default=0, ge=0)
    rules: dict[str, Any] | None = None
    forgotten: AwareDatetime | None = None

    @model_validator(mode="after")
    def _says_what_it_is_about(self) -> Line:
        if self.event == "opened":
            if self.arnold is None or self.version is None:
                raise ValueError("the first line of a flag store says its version")
            if self.version > VERSION:
                raise ValueError(f"this is version {self.version} of the format, and {VERSION} is known")
        elif self.event == "rules":
            if self.rules is None:
                raise ValueError("an event 'rules' has rules")
        elif not self.node:
            raise ValueError(f"an event {self.event!r} names a node")
        return self

    @property
    def track(self) -> tuple[str, str]:
        """The node and the source."""
        return self.node, self.source

    def flags(self) -> list[NodeFlag]:
        """What the source holds against the node from now on."""
        return [step.flag_of(self.node, self.source) for step in self.steps]

    def text(self) -> str:
        """The line as it is written, with its end; ASCII, so that half of it is text too."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), separators=(",", ":")) + "\n"


@dataclass(frozen=True, slots=True)
class FlagLog:
    """All lines of a store.

    :param lines: the first is ``opened``; times never go back.
    :param torn: length in bytes of an unfinished line at the end, left out.
    """

    lines: tuple[Line, ...]
    torn: int = 0

    @property
    def forgotten(self) -> datetime | None:
        """History before this is not whole any more; ``None`` = all of it is there."""
        return self.lines[0].forgotten if self.lines else None

    def standing(self, at: datetime) -> list[NodeFlag]:
        """What each source holds against each node at an instant, by node and source.

        :param at: timezone-aware.
        """
        last: dict[tuple[str, str], Line] = {}
        for line in self.lines:
            if line.time > at:
                break
            if line.node:
                last[line.track] = line
        flags = (flag for _, line in sorted(last.items()) for flag in line.flags())
        return worst_of_each(flag for flag in flags if flag.active(at))

    def holding(self, at: datetime) -> list[NodeFlag]:
        """The flags of an instant, one a node, merged over the sources."""
        return merge_by_node(self.standing(at))


def worst_of_each(flags: Iterable[NodeFlag]) -> list[NodeFlag]:
    """Of each node and source the slowest flag."""
    worst: dict[tuple[str, str], NodeFlag] = {}
    for flag in flags:
        key = flag.node, flag.source
        if key not in worst or worst[key].slowdown < flag.slowdown:
            worst[key] = flag
    return list(worst.values())


def merge_by_node(flags: Iterable[NodeFlag]) -> list[NodeFlag]:
    """One flag a node, by name; see :func:`topology.flags.merged`."""
    by_node: dict[str, list[NodeFlag]] = {}
    for flag in flags:
        by_node.setdefault(flag.node, []).append(flag)
    return [merged(found) for _, found in sorted(by_node.items())]


def is_log(source: Source) -> bool:
    """Whether a text is that of a flag store: its first line says so."""
    return bool(_MARK.match(source.text))


def read_log(source: Source) -> FlagLog:
    """All lines of a store.

    :raises InvalidInput: not a flag store, of a later version, a broken line that is not the last, times that go back.
    """
    if not is_log(source):
        raise InvalidInput("is no flag store", where=source.at(1), fix="give a file that `arnold flags record` made")
    rows = source.text.split("\n")
    tail = rows.pop()
    lines = [_line(source, number, row) for number, row in enumerate(rows, 1)]
    torn = 0
    if tail.strip():
        try:
            lines.append(Line.model_validate_json(tail))
        except ValidationError:
            torn = len(tail.encode())
    _check(source, lines)
    return FlagLog(tuple(lines), torn)


def _line(source: Source, number: int, text: str) -> Line:
    try:
        return Line.model_validate_json(text)
    except ValidationError as invalid:
        problem = invalid.errors(include_url=False, include_context=False)[0]
    path = ".".join(str(key) for key in problem["loc"])
    raise InvalidInput(
        f"{path + ': ' if path else ''}{problem['msg'][:200]}",
        where=source.at(number),
        fix="restore the file from a copy; a store is written by `arnold flags` alone",
    )


def _check(source: Source, lines: Sequence[Line]) -> None:
    """The first line opens the store and no other does; times do not go back."""
    if not lines or lines[0].event != "opened":
        raise InvalidInput("does not begin with the event 'opened'", where=source.at(1), fix="restore it from a copy")
    for number, (line, before) in enumerate(zip(lines[1:], lines, strict=False), 2):
        if line.event == "opened":
            raise InvalidInput("opens the store again", where=source.at(number), fix="keep one store a file")
        if line.time < before.time:
            raise InvalidInput(
                f"is of {line.time.isoformat()}, before the line above it",
                where=source.at(number),
                fix="restore the file from a copy; its lines are in order of time",
            )
