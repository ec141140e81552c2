"""Moments of a trace as a person writes them: ``2017-10-03``, ``3600``, ``+2d``."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from simulator.traces.job_trace import JobTrace
from topology.errors import InvalidInput

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

_AFTER_FIRST = re.compile(r"\+([0-9.]+)([smhdw]?)")

FIX = (
    "give START..END (or START:END without times of day); each a number or date on the clock of the trace, "
    "or +2d after the first submission, or nothing"
)


def parse_window(text: str, trace: JobTrace) -> tuple[float, float]:
    """Return beginning and end of ``START..END`` on the clock of the trace; either may be left out.

    ``START:END`` is understood where there is one colon, which then belongs to no time of day.

    >>> parse_window("+1d..+8d", trace)  # doctest: +SKIP
    (86400.0, 691200.0)

    :raises InvalidInput: not two moments.
    """
    between = ".." if ".." in text or text.count(":") != 1 else ":"
    start, found, end = text.partition(between)
    if not found:
        raise InvalidInput(f"the window is {text!r}", where="--window", fix=FIX)
    return (
        moment(start, trace) if start.strip() else -math.inf,
        moment(end, trace) if end.strip() else math.inf,
    )


def moment(text: str, trace: JobTrace) -> float:
    """Return a moment on the clock of the trace: a number, a date (UTC where it has no zone), or ``+`` after the first
    job.

    :raises InvalidInput: none of these.
    """
    text = text.strip()
    try:
        if after := _AFTER_FIRST.fullmatch(text):
            return trace.records[0].submit + float(after[1]) * UNITS[after[2]]
        if re.fullmatch(r"-?[0-9.]+(?:e[0-9]+)?", text):
            return float(text)
        date = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text[:60]!r} is no moment of a trace", where="--window", fix=FIX) from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
