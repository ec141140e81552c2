"""Forgetting old history, so that a store does not grow for ever: what was decided stays as it was decided.

What must stay of a track is what :class:`~health.flags.tracks.Track` remembers: its last line with steps and
all that came after it.  What goes is what most of a store is made of: findings that were found again later.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from health.flags.rules import MOST_FINDINGS
from topology.flag_log import FlagLog, Line


def compacted(log: FlagLog, before: datetime, *, because: str) -> tuple[Line, ...]:
    """The lines of a store without those before an instant that nothing depends on.

    From that instant on the store answers and decides as it did: the same flags at any time, the same relapses.  Of the
    time before, :attr:`~topology.flag_log.FlagLog.forgotten` says that it is not whole.

    :param before: timezone-aware.
    :param because: where the rest is, for whoever asks.
    """
    first, *rest = log.lines
    old = [i for i, line in enumerate(rest) if line.time < before]
    kept = {*range(len(old), len(rest)), *_needed(rest[: len(old)])}
    if len(kept) == len(rest):
        return log.lines
    since = before if first.forgotten is None else max(first.forgotten, before)
    opened = first.model_copy(update={"forgotten": since, "because": because})
    return (opened, *(rest[i] for i in sorted(kept)))


def _needed(lines: Sequence[Line]) -> set[int]:
    """Numbers of the lines on which the present state depends."""
    tracks: dict[tuple[str, str], list[int]] = {}
    needed: set[int] = set()
    for i, line in enumerate(lines):
        if not line.node:
            continue
        if line.steps:
            tracks[line.track] = [i]
        else:
            tracks.setdefault(line.track, []).append(i)
    for numbers in tracks.values():
        noted = [i for i in numbers if lines[i].event == "noted"]
        needed.update(i for i in numbers if lines[i].event != "noted" or lines[i].steps)
        needed.update(noted[-MOST_FINDINGS - 1 :])
    rules = [i for i, line in enumerate(lines) if line.event == "rules"]
    return needed | set(rules[-1:])
