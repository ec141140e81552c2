"""Our own trace as JSON lines: an object a line, its keys the columns of :mod:`simulator.traces.house`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulator.traces.house import REQUIRED, Rows, canonical, likeness
from simulator.traces.intake import BadRow, Intake
from simulator.traces.sifting import jobs_of
from simulator.traces.source import TraceSource
from simulator.traces.types import Numbered
from topology.errors import TraceFormatError


class HouseJsonl:
    """Reader of our own JSON lines."""

    name = "jsonl"
    summary = f"JSON lines with the keys {','.join(REQUIRED)}"

    def likeness(self, head: bytes) -> float:
        """Share of the required keys that the object in the first line has."""
        try:
            # Only keys matter here; of whole numbers Python reads no more than 4,300 digits.
            first = json.loads(head.decode("utf-8-sig").lstrip().split("\n", 1)[0], parse_int=float)
        except ValueError:
            return 0.0
        return likeness(first) if isinstance(first, dict) else 0.0

    def read(self, source: TraceSource, intake: Intake) -> Iterator[Numbered]:
        """The jobs with their lines, in the order of the file."""
        yield from jobs_of(_objects(source, intake), Rows(intake).job, source=source, intake=intake)


def _objects(source: TraceSource, intake: Intake) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects with the first names of their keys, which may differ from line to line; the first line must be right."""
    checked: dict[tuple[str, ...], list[str]] = {}
    for line, text in enumerate(source.lines(), 1):
        if not text.strip():
            continue
        try:
            values = json.loads(text)
            if not isinstance(values, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            if type(error) is ValueError and "digits" in str(error):
                error = ValueError("it holds a number of more than 4,300 digits")
            bad = BadRow("not JSON", f"the line is not a JSON object: {error}", fix="write one object a line")
            intake.refuse(bad, source.at(line))
            continue
        keys = tuple(values)
        try:
            if keys not in checked:
                checked[keys] = canonical(keys, where=source.at(line), intake=intake)
        except TraceFormatError as error:
            if not checked:
                raise
            intake.refuse(BadRow("keys missing", error.message, fix=error.fix), source.at(line))
            continue
        yield line, dict(zip(checked[keys], values.values(), strict=True))
