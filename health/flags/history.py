"""Why was n0123 avoided on Tuesday?  What held against a node in a span of time, who said so, and what was done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from health.flags.tracks import when
from topology.flag_log import FlagLog, Line, worst_of_each
from topology.flags import NodeFlag, in_words, merged


@dataclass(frozen=True, slots=True)
class Spell:
    """A time in which the same was held against a node by the same sources.

    :param begin: since when, also where that lies before the span that was asked for.
    :param end: until when; ``None`` = it goes on at the end of the span.
    :param flag: what was held against it, merged over the sources.
    :param ended: why it ended; empty = it did not, or something else took its place.
    """

    begin: datetime
    end: datetime | None
    flag: NodeFlag
    ended: str = ""

    @property
    def sentence(self) -> str:
        """In words."""
        words = f"{in_words(self.flag)}, said {self.flag.source or 'somebody unnamed'}"
        if self.flag.evidence:
            words += f": {self.flag.evidence}"
        if self.end is None:
            return f"since {when(self.begin)}: {words}"
        ending = f" (ended: {self.ended})" if self.ended else ""
        return f"{when(self.begin)} to {when(self.end)}: {words}{ending}"


@dataclass(frozen=True, slots=True)
class History:
    """What a store knows of one node in a span of time.

    :param spells: when it was flagged, in order.
    :param lines: what was written about it in the span, in order.
    """

    node: str
    since: datetime | None
    until: datetime
    spells: tuple[Spell, ...]
    lines: tuple[Line, ...]


def history(log: FlagLog, node: str, *, since: datetime | None, until: datetime) -> History:
    """What was held against a node.

    :param since: start of the span; ``None`` = from the first line.
    :param until: its end, which belongs to it; the present at the latest.
    """
    own = tuple(line for line in log.lines if line.node == node and line.time <= until)
    spells = [spell for spell in _spells(own, until) if since is None or spell.end is None or spell.end > since]
    return History(
        node=node,
        since=since,
        until=until,
        spells=tuple(spells),
        lines=tuple(line for line in own if since is None or line.time >= since),
    )


def _spells(lines: Sequence[Line], until: datetime) -> list[Spell]:
    """All spells of the one node that the lines are about, up to an instant."""
    ends = {step.until for line in lines for step in line.steps}
    changes = sorted({time for time in {line.time for line in lines} | ends if time <= until})
    spells: list[Spell] = []
    held_by: dict[str, list[NodeFlag]] = {}
    written = 0
    for time in changes:
        while written < len(lines) and lines[written].time <= time:
            held_by[lines[written].source] = lines[written].flags()
            written += 1
        held = _held(held_by.values(), time)
        last = spells[-1] if spells and spells[-1].end is None else None
        if last is not None and held is not None and _same(last.flag, held):
            continue
        if last is not None:
            spells[-1] = Spell(last.begin, time, last.flag, "" if held is not None else _ending(lines[:written], time))
        if held is not None:
            spells.append(Spell(time, None, held))
    return spells


def _held(by_source: Iterable[list[NodeFlag]], time: datetime) -> NodeFlag | None:
    active = worst_of_each(flag for flags in by_source for flag in flags if flag.active(time))
    return merged(active) if active else None


def _same(one: NodeFlag, other: NodeFlag) -> bool:
    return (one.kind, one.slowdown, one.source) == (other.kind, other.slowdown, other.source)


def _ending(lines: Sequence[Line], time: datetime) -> str:
    """Why nothing holds any more; an end that nobody has written down yet came with the quiet time."""
    for line in reversed(lines):
        if line.time == time and line.event in ("cleared", "expired"):
            return f"{line.event}{f' by {line.by}' if line.by else ''}, {line.because}"
    return "nothing was found for the quiet time"
