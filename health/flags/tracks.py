"""What is known of one node by one source, and what a finding or the passing of time makes of it.

Deciding and remembering are apart: :func:`found` and :func:`ended` look at a track and write the next line of the log,
:meth:`Track.after` takes a line and nothing else.  What is remembered is therefore what is in the file, and reading the
file again gives the same state.

Of one source the latest finding counts: upwards at once, downwards only when nothing worse was found for a while.  What
it held before stays as a *step* until then, so that a slowdown that is measured as 1.5, 1.2, 1.5, ... is 1.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from health.flags.rules import MOST_FINDINGS, Rule, in_words
from topology.flag_log import EventName, Line, Step
from topology.flag_rows import Finding
from topology.flags import FAULTY, HEALTHY, NodeFlag

LAST = datetime(9999, 12, 1, tzinfo=UTC)
"""No flag ends later."""


@dataclass(frozen=True, slots=True)
class Track:
    """What is known of a node by a source.

    :param steps: what the source holds against it; the slower come first and end first.
    :param noted: times of findings that did not suffice.
    :param relapses: how often it was flagged anew soon after its flag had ended.
    :param ended: when its last flag ended.
    """

    steps: tuple[Step, ...] = ()
    noted: tuple[datetime, ...] = ()
    relapses: int = 0
    ended: datetime | None = None

    def after(self, line: Line) -> Track:
        """What is known after an event."""
        if line.steps:
            return Track(line.steps, (), line.relapses, self.ended)
        match line.event:
            case "noted" if line.finding is not None and line.finding.factor > HEALTHY:
                return replace(self, steps=(), noted=(*self.noted[-MOST_FINDINGS:], line.time))
            case "cleared" | "expired":
                return Track((), (), self.relapses, line.time)
        return replace(self, steps=(), noted=())


def found(track: Track, flag: NodeFlag, now: datetime, rule: Rule, *, stamp: str = "") -> Line | None:
    """What a finding makes of a track of which nothing has ended unnoticed.

    :param now: not before any time that the track knows.
    :returns: the next line; ``None`` = nothing new, the source takes back what it does not say.
    """
    if flag.slowdown == HEALTHY:
        return _taken_back(track, flag, now, rule, stamp)
    recent = [time for time in track.noted if now - time <= rule.within]
    enough = flag.slowdown == FAULTY or (rule.score is not None and flag.score is not None and flag.score >= rule.score)
    if not track.steps and not enough and len(recent) + 1 < rule.raise_after:
        because = f"{len(recent) + 1} of {rule.raise_after} findings within {in_words(rule.within)}"
        return _line(flag, now, "noted", finding=finding_of(flag), stamp=stamp, because=because)
    relapses = track.relapses if track.steps else _relapses(track, now, rule)
    step = _step(flag, now, rule.quiet_after(relapses))
    kept = (_cut(old, now, rule.all_clear_after(relapses)) for old in track.steps if old.factor > step.factor)
    steps = (*(old for old in kept if old.until > now), step)
    because = _why(track, step, relapses, recent)
    event: EventName = "raised" if not track.steps or step.factor > track.steps[0].factor else "renewed"
    return _line(flag, now, event, steps=steps, stamp=stamp, because=because, relapses=relapses)


def ended(node: str, source: str, track: Track, now: datetime) -> Iterator[Line]:
    """What has ended by now, each with the time at which it did, in order."""
    steps = track.steps
    while steps and steps[0].until <= now:
        over, steps = steps[0], steps[1:]
        event: EventName = "lowered" if steps else "expired" if over.stated else "cleared"
        because = "its source said that it holds until now" if over.stated else f"not found since {when(over.seen)}"
        yield Line(
            time=over.until,
            event=event,
            node=node,
            source=source,
            steps=steps,
            because=because,
            relapses=track.relapses,
        )


def finding_of(flag: NodeFlag) -> Finding:
    """A flag without its node and its source."""
    return Finding(
        kind=flag.kind,
        slowdown=None if flag.slowdown == FAULTY else flag.slowdown,
        score=flag.score,
        since=flag.since,
        until=flag.until,
        evidence=flag.evidence,
    )


def when(time: datetime) -> str:
    """A time for people: ``2026-11-17 14:20 UTC``."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _step(flag: NodeFlag, now: datetime, quiet: timedelta) -> Step:
    """A finding with its end: as its source says, and not before the quiet time is over."""
    end = min(LAST, now + quiet)
    stated = flag.until is not None and flag.until > end
    until = min(LAST, flag.until) if flag.until is not None and stated else end
    finding = finding_of(flag).model_dump(exclude={"until"})
    return Step(**finding, until=until, seen=now, stated=stated)


def _cut(step: Step, now: datetime, quiet: timedelta) -> Step:
    """What is left of a step of which its source now says less: a while since it last said so."""
    end = max(now, step.seen + quiet)
    return step if step.until <= end else step.model_copy(update={"until": end, "stated": False})


def _taken_back(track: Track, flag: NodeFlag, now: datetime, rule: Rule, stamp: str) -> Line | None:
    steps = tuple(_cut(step, now, rule.all_clear_after(track.relapses)) for step in track.steps)
    if steps == track.steps and not track.noted:
        return None
    because = (
        f"healthy, says its source; the flag ends {when(steps[-1].until)}" if steps else "healthy, says its source"
    )
    return _line(
        flag, now, "noted", steps=steps, finding=finding_of(flag), stamp=stamp, because=because, relapses=track.relapses
    )


def _relapses(track: Track, now: datetime, rule: Rule) -> int:
    return track.relapses + 1 if track.ended is not None and now - track.ended <= rule.memory else 0


def _why(track: Track, step: Step, relapses: int, recent: Sequence[datetime]) -> str:
    if track.steps:
        before = track.steps[0].factor
        return f"worse than {before:.4g}" if step.factor > before else "found again"
    words = f"finding {len(recent) + 1} in a row" if recent else "found"
    return words + (f"; relapse {relapses}, so its quiet time is longer" if relapses else "")


def _line(flag: NodeFlag, now: datetime, event: EventName, **fields: Any) -> Line:
    return Line(time=now, event=event, node=flag.node, source=flag.source, **fields)
