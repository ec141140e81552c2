"""The clock that limits of time are read from: that of the wall, or one that counts work.

On the wall clock the same question may have another answer beside another program.  Where the same seed must give the
same bytes, as in replays, searches run on *counted work*: each part of a search says what it has done (:func:`spend`),
in seconds that this takes on one core of a 2.x GHz server, about, and limits end it after so much of that.  A look at
the clock counts too, so that whatever looks comes to its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Literal

ClockKind = Literal["wall", "work"]

_LOOK = 2e-5  # Seconds of work that a look at the clock counts as: what is done between two looks, at least

LEAST_SECONDS = 0.05  # Time that a part of the question gets when the others have used all of it up


@dataclass(slots=True)
class _Work:
    """Work counted so far, in seconds."""

    seconds: float = 0.0


_WORK: ContextVar[_Work | None] = ContextVar("work", default=None)


def clock() -> float:
    """Return seconds on the clock; differences count, and ends are compared with it."""
    work = _WORK.get()
    if work is None:
        return perf_counter()
    work.seconds += _LOOK
    return work.seconds


def share_until(end: float, parts: int = 1) -> float:
    """Return the seconds of one of so many parts of a question that are left until an end, never quite none."""
    return max(LEAST_SECONDS, (end - clock()) / parts)


def spend(seconds: float) -> None:
    """Count work of so many seconds; nothing on the wall clock, which goes by itself."""
    if (work := _WORK.get()) is not None:
        work.seconds += seconds


def counts_work() -> bool:
    """Return whether the clock counts work, so that no solver may look at the wall clock."""
    return _WORK.get() is not None


@contextmanager
def on_clock(kind: ClockKind) -> Iterator[None]:
    """Read limits from this clock inside; what counts work already goes on counting."""
    if kind == "wall" or counts_work():
        yield
        return
    token = _WORK.set(_Work())
    try:
        yield
    finally:
        _WORK.reset(token)
