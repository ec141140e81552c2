"""What is known of one node by one source, and what a finding or the passing of time makes of it.

Deciding and remembering are apart: :func:`found` and :func:`ended` look at a track and make the next event of the
store, :meth:`Track.after` takes an event and nothing else.  What is remembered is therefore what is in the store.

Of one source the latest finding counts: upwards at once, downwards only when nothing worse was found for a while.  What
it held before stays as a *step* until then, so that a slowdown that is measured as 1.5, 1.2, 1.5, ... is 1.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ground.quantities import duration
from health.flags.rules import MOST_FINDINGS, Rule
from topology.flag_store import FlagLog, time_text
from topology.flags import FAULTY, HEALTHY, LAST, EventName, FlagEvent, HeldFlag, NodeFlag


@dataclass(frozen=True, slots=True)
class Track:
    """What is known of a node by a source."""

    steps: tuple[HeldFlag, ...] = ()  # what the source holds against it; the slower come first and end first
    noted: tuple[datetime, ...] = ()  # times of findings that did not suffice
    relapses: int = 0
    ended: datetime | None = None  # when its last flag ended; None = never, or a flag holds

    def after(self, event: FlagEvent) -> Track:
        """Return what is known after an event."""
        if begins_anew(event):
            over = event.time if event.event in ("cleared", "expired") else None
            return Track(event.steps, (), event.relapses, over)
        if event.finding is not None and event.finding.slowdown > HEALTHY:
            return replace(self, noted=(*self.noted[-MOST_FINDINGS:], event.time))
        return replace(self, noted=())


def begins_anew(event: FlagEvent) -> bool:
    """Return whether a track after this event does not depend on what was before it."""
    return bool(event.steps) or event.event != "noted"


def track_of(log: FlagLog, node: str, source: str, at: datetime = LAST) -> Track:
    """Return what a store knows of a node by a source at an instant, timezone-aware."""
    recent: list[FlagEvent] = []
    newest_first = "node = ? AND source = ? AND time <= ? ORDER BY time DESC, number DESC"
    for event in log.events(newest_first, node, source, time_text(at)):
        recent.append(event)
        if begins_anew(event):
            break
    track = Track()
    for event in reversed(recent):
        track = track.after(event)
    return track


def found(track: Track, flag: NodeFlag, now: datetime, rule: Rule, *, stamp: str = "") -> FlagEvent | None:
    """Return the event that a finding makes of a track of which nothing has ended unnoticed by now; ``None`` = nothing
    new: the source takes back what it does not say.
    """
    if flag.slowdown == HEALTHY:
        return _taken_back(track, flag, now, rule, stamp)
    recent = [time for time in track.noted if now - time <= rule.within]
    enough = flag.slowdown == FAULTY or (rule.score is not None and flag.score is not None and flag.score >= rule.score)
    if not track.steps and not enough and len(recent) + 1 < rule.raise_after:
        because = f"{len(recent) + 1} of {rule.raise_after} findings within {duration(rule.within.total_seconds())}"
        return _event(flag, now, "noted", finding=flag, stamp=stamp, because=because)
    relapses = track.relapses if track.steps else _relapses(track, now, rule)
    step = _step(flag, now, rule.quiet_after(relapses))
    worse = (old for old in track.steps if old.flag.slowdown > flag.slowdown)
    # that a node with a broken device is only slow today is no repair
    kept = (old if old.flag.needs_repair else _cut(old, now, rule.all_clear_after(relapses)) for old in worse)
    steps = (*(old for old in kept if old.until > now), step)
    because = _why(track, step, relapses, recent)
    raised = not track.steps or flag.slowdown > track.steps[0].flag.slowdown
    name: EventName = "raised" if raised else "renewed"
    return _event(flag, now, name, steps=steps, stamp=stamp, because=because, relapses=relapses)


def refuted(event: FlagEvent, now: datetime, because: str) -> FlagEvent:
    """Return the event by which what a source holds against a node ends, as other evidence refutes it."""
    cleared = FlagEvent(time=now, event="cleared", node=event.node, source=event.source)
    return replace(cleared, because=because, relapses=event.relapses)


def ended(node: str, source: str, track: Track, now: datetime) -> Iterator[FlagEvent]:
    """Yield what has ended by now, each with the time at which it did, in order."""
    steps = track.steps
    while steps and steps[0].until <= now:
        over, steps = steps[0], steps[1:]
        name: EventName = "lowered" if steps else "expired" if over.stated else "cleared"
        because = "its source said that it holds until now" if over.stated else f"not found since {when(over.seen)}"
        yield FlagEvent(
            time=over.until, event=name, node=node, source=source, steps=steps, because=because, relapses=track.relapses
        )


def when(time: datetime) -> str:
    """Return a time for people: ``2026-11-17 14:20 UTC``."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _step(flag: NodeFlag, now: datetime, quiet: timedelta) -> HeldFlag:
    """Return a finding with its end: as its source says, and not before the quiet time is over; without one where a
    device is broken, as an avoided node shows no symptoms and no device mends by waiting.
    """
    if flag.needs_repair:
        return HeldFlag(replace(flag, until=None), seen=now)
    end = min(LAST, now + quiet)
    stated = flag.until is not None and flag.until > end
    until = min(LAST, flag.until) if flag.until is not None and stated else end
    return HeldFlag(replace(flag, until=until), seen=now, stated=stated)


def _cut(step: HeldFlag, now: datetime, quiet: timedelta) -> HeldFlag:
    """Return what is left of a step of which its source now says less: a while since it last said so."""
    end = max(now, step.seen + quiet)
    return step if step.until <= end else HeldFlag(replace(step.flag, until=end), seen=step.seen)


def _taken_back(track: Track, flag: NodeFlag, now: datetime, rule: Rule, stamp: str) -> FlagEvent | None:
    steps = tuple(_cut(step, now, rule.all_clear_after(track.relapses)) for step in track.steps)
    if steps == track.steps and not track.noted:
        return None
    because = (
        f"healthy, says its source; the flag ends {when(steps[-1].until)}" if steps else "healthy, says its source"
    )
    return _event(flag, now, "noted", steps=steps, finding=flag, stamp=stamp, because=because, relapses=track.relapses)


def _relapses(track: Track, now: datetime, rule: Rule) -> int:
    return track.relapses + 1 if track.ended is not None and now - track.ended <= rule.memory else 0


def _why(track: Track, step: HeldFlag, relapses: int, recent: Sequence[datetime]) -> str:
    if track.steps:
        before = track.steps[0].flag.slowdown
        return f"worse than {before:.4g}" if step.flag.slowdown > before else "found again"
    words = f"finding {len(recent) + 1} in a row" if recent else "found"
    return words + (f"; relapse {relapses}, so its quiet time is longer" if relapses else "")


def _event(flag: NodeFlag, now: datetime, name: EventName, **fields: Any) -> FlagEvent:
    return FlagEvent(time=now, event=name, node=flag.node, source=flag.source, **fields)
