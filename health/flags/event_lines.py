"""The events of a flag store as JSON lines: what ``arnold flags export`` writes, and stores of earlier versions.

The first line says what the file is.  A writer of the earlier version that was killed left the beginning of a line at
the end: it is left out and told.  A broken line anywhere else is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ground.documents import Document
from ground.errors import InvalidInput
from ground.files import Source
from ground.records import read_json
from topology.flag_store import VERSION
from topology.flags import FlagEvent

_FIX = "restore the file from a copy; its lines are written by `arnold flags` alone"


def read_event_lines(source: Source) -> tuple[list[FlagEvent], int]:
    """Read the events of a store, and the bytes of an unfinished line at the end, which is left out.

    :raises InvalidInput: no store, of a later version, a broken line that is not the last, times that go back.
    """
    rows = source.text.split("\n")
    tail, torn = rows.pop(), 0
    try:
        if tail.strip():
            json.loads(tail)
            rows.append(tail)
    except ValueError:
        torn = len(tail.encode())
    events = list(_events(source, rows))
    if not events or events[0].event != "opened":
        raise InvalidInput("does not begin with the event 'opened'", where=source.at(1), fix="restore it from a copy")
    for number, (event, before) in enumerate(zip(events[1:], events, strict=False), 2):
        if event.event == "opened":
            raise InvalidInput("opens the store again", where=source.at(number), fix="keep one store a file")
        if event.time < before.time:
            wrong = f"is of {event.time.isoformat()}, before the line above it"
            raise InvalidInput(wrong, where=source.at(number), fix=_FIX)
    return events, torn


def _events(source: Source, rows: list[str]) -> Iterator[FlagEvent]:
    """Yield an event for each line; raise :class:`InvalidInput` for what is none, or no store's first."""
    version = 1
    relapses: dict[object, int] = {}
    for number, row in enumerate(rows, 1):
        try:
            data = json.loads(row)
        except ValueError as error:
            raise InvalidInput(f"is no JSON: {error}", where=source.at(number), fix=_FIX) from error
        if number == 1:
            version = _version(source, data)
        with suppress(TypeError, AttributeError):  # a line of another shape is refused below
            data = _of_version_1(data, relapses) if version == 1 else _without_mark(data)
        try:
            yield read_json(FlagEvent, data)
        except ValueError:
            _refuse(source, number, data)
            raise


def _refuse(source: Source, line: int, data: Any) -> None:
    """Say by an error what is wrong with a line, which takes longer than reading it."""
    Document(source, data, lambda _: line).parse(FlagEvent)


def _version(source: Source, first: Any) -> int:
    """Return the version that the first line names."""
    if not isinstance(first, dict) or first.get("arnold") != "flag-store":
        raise InvalidInput("is no flag store", where=source.at(1), fix="give a file that `arnold flags export` wrote")
    version = first.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        wrong = f"this is version {version} of the format, and {VERSION} is known"
        raise InvalidInput(wrong, where=source.at(1), fix="use the version of Arnold that wrote it, or a later one")
    return version


def _without_mark(data: dict[str, Any]) -> dict[str, Any]:
    """Return a line without what the first one says of the file."""
    return {key: value for key, value in data.items() if key not in ("arnold", "version")}


def _of_version_1(data: dict[str, Any], relapses: dict[object, int]) -> dict[str, Any]:
    """Return a line of version 1 as one of today: flags named neither node nor source, a lifted one no relapses, which
    are counted here by node and source.
    """
    about = {"node": data.get("node", ""), "source": data.get("source", "")}
    track = tuple(about.values())
    seen = ("seen", "stated")
    steps = [
        {"flag": about | {key: step[key] for key in step if key not in seen}}
        | {key: step[key] for key in seen if key in step}
        for step in data.get("steps", ())
    ]
    finding = None if data.get("finding") is None else about | data["finding"]
    relapses[track] = data.get("relapses", relapses.get(track, 0) if data.get("by") else 0)
    return _without_mark(data) | {"steps": steps, "finding": finding, "relapses": relapses[track]}
