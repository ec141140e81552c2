"""Why was n0123 avoided on Tuesday?  What held against a node in a span of time, by what source, and what was done."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ground.quantities import utc_minute
from ground.records import AwareTime, JsonRecord
from topology.flag_sources import FlagLog, time_text
from topology.flags import FlagEvent, NodeFlag, in_words, merged, worst_of_each


class Spell(JsonRecord):
    """A time in which the same was held against a node by the same sources."""

    begin: AwareTime
    """Begin, also where that lies before the span that was asked for."""
    end: AwareTime | None
    """End; null = it goes on at the end of the span."""
    flag: NodeFlag
    """What was held against it, merged over the sources."""
    ended: str
    """Why it ended; empty = it did not, or something else took its place."""
    sentence: str
    """The spell in words."""


@dataclass(frozen=True, slots=True)
class FlagHistory:
    """What a store knows of one node in a span of time."""

    spells: tuple[Spell, ...]
    events: tuple[FlagEvent, ...]


def history(log: FlagLog, node: str, *, since: datetime | None, until: datetime) -> FlagHistory:
    """Return what was held against a node from one instant (``None`` = the first event) to another, not after now."""
    own = tuple(log.events("node = ? AND time <= ?", node, time_text(until)))
    spells = (spell for spell in _spells(own, until) if since is None or spell.end is None or spell.end > since)
    return FlagHistory(tuple(spells), tuple(event for event in own if since is None or event.time >= since))


def _spells(events: Sequence[FlagEvent], until: datetime) -> list[Spell]:
    """Return all spells of the one node that the events are about, up to an instant."""
    ends = {step.until for event in events for step in event.steps}
    changes = sorted({time for time in {event.time for event in events} | ends if time <= until})
    spells: list[Spell] = []
    begin, flag = until, None  # of the spell that goes on
    held_by: dict[str, list[NodeFlag]] = {}
    written = 0
    for time in changes:
        while written < len(events) and events[written].time <= time:
            held_by[events[written].source] = events[written].flags
            written += 1
        by_source = held_by.values()
        active = worst_of_each(flag for flags in by_source for flag in flags if flag.active(time))
        held = merged(active) if active else None
        if flag and held and (flag.kind, flag.slowdown, flag.source) == (held.kind, held.slowdown, held.source):
            continue
        if flag is not None:
            # an end that is not written down yet came with the quiet time
            endings = (
                f"{event.event}{f' by {event.by}' if event.by else ''}, {event.because}"
                for event in reversed(events[:written])
                if event.time == time and event.event in ("cleared", "expired")
            )
            ended = "" if held is not None else next(endings, "nothing was found for the quiet time")
            spells.append(_spell(begin, time, flag, ended))
        begin, flag = time, held
    return spells if flag is None else [*spells, _spell(begin, None, flag)]


def _spell(begin: datetime, end: datetime | None, flag: NodeFlag, ended: str = "") -> Spell:
    """Return a spell with its sentence."""
    words = f"{in_words(flag)}, said {flag.source or 'an unnamed source'}"
    if flag.evidence:
        words += f": {flag.evidence}"
    span = f"since {utc_minute(begin)}" if end is None else f"{utc_minute(begin)} to {utc_minute(end)}"
    return Spell(begin, end, flag, ended, f"{span}: {words}{f' (ended: {ended})' if ended else ''}")
