"""Watching a few ranks: has the job stopped, or become slow?

After Mycroft (arXiv 2509.03018): every 10 s, on at most 10 ranks, one of each data-parallel group.  A rank that
completed nothing in the window while it stands in a collective: failure.  Throughput halved, or the mean interval
between completions doubled: straggler.

Each look judges the window and its second half: the half sees what stopped a moment ago, the whole what became slower.
Four guards keep a healthy job quiet.  A rank must have been silent for twice the longest pause it has had before,
so that steps longer than the window are no failure.  A rate must have halved against its median and lie below all that
was seen before, so that a window which happens to hold one step less than others is no straggler.  And a rhythm must be
known before anything can break it: until the rank has been through the collective of its group a few times, no rate is
judged, and a failure takes several windows of silence.  The half is too short for a rate where it holds less than most
of a round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple

import numpy as np

from health.collectives.recording import CollectiveRecording, Seconds
from health.collectives.trigger_settings import TriggerSettings

MOST_RANKS = 10

ROUND = 2 / 3  # How much of a round the second half of a window must hold for a rate
PAUSE = 1.2  # A pause of so many windows holds a whole empty window, wherever the grid of a tenth of a window lies
FORGOTTEN = 3.0
"""Windows without any record after which a look raises no alarm: the pause is then one that the rate had before, and a
failure needs a rank that stands in a collective now."""

AlarmKind = Literal["failure", "straggler"]


@dataclass(frozen=True, slots=True)
class Alarm:
    """A rank that is worth a closer look."""

    time: float
    kind: AlarmKind
    member: int
    ratio: float  # by how much its interval has grown, or its rate has fallen; inf for a failure
    since: float  # the last instant at which all was well, as far as this rank shows


@dataclass(frozen=True, slots=True)
class _Life:
    """What a watched rank did: completions, and when it stood in a collective."""

    member: int
    rhythm: Seconds  # its completions in the group by which it is watched
    ends: Seconds
    bytes: Seconds
    standing: Seconds


def watched_members(recording: CollectiveRecording) -> dict[int, int]:
    """Return one member of each data-parallel group (without such groups, of the groups there are) -> that group.

    Members, at most :data:`MOST_RANKS`, are from the middle of their groups, evenly over the groups where there are
    more.
    """
    numbered = list(enumerate(recording.groups))
    kinds = [[i for i, group in numbered if group.kind == "dp" and len(group.members) > 1], [i for i, _ in numbered]]
    groups = next((found for found in kinds if found), [])
    chosen: dict[int, int] = {}
    for i in groups:
        members = recording.groups[i].members
        chosen.setdefault(members[len(members) // 2], i)
    distinct = list(chosen.items())
    if len(distinct) <= MOST_RANKS:
        return chosen
    return dict(distinct[round(i * (len(distinct) - 1) / (MOST_RANKS - 1))] for i in range(MOST_RANKS))


class Look(NamedTuple):
    """A look that raised alarms."""

    time: float
    number: int  # how many looks there were up to this one, itself included
    alarms: list[Alarm]


def looks(recording: CollectiveRecording, settings: TriggerSettings) -> int:
    """Return how many looks the whole recording takes; the last one is at its end."""
    return max(1, ceil((recording.end - recording.start) / settings.period - 1e-9))


def alarms(recording: CollectiveRecording, settings: TriggerSettings) -> Iterator[Look]:
    """Yield the looks that raise alarms, in order of time."""
    lives = [_life(recording, member, group) for member, group in watched_members(recording).items()]
    events = np.sort(
        np.concatenate([np.zeros(0), *(column for life in lives for column in (life.ends, life.standing))])
    )
    reach = max(FORGOTTEN * settings.window, settings.quiet)
    last, number = looks(recording, settings), 1
    while number <= last:
        time = recording.end if number == last else recording.start + settings.period * number
        known = int(np.searchsorted(events, time, side="right"))
        if known == 0 or time - events[known - 1] > reach:
            if known == len(events):
                return
            # One less than the quotient, as it is rounded.
            ahead = int((events[known] - recording.start) / settings.period) - 1
            number = max(number + 1, min(ahead, last))
            continue
        raised = [alarm for life in lives if (alarm := _judge(life, time, settings)) is not None]
        if raised:
            yield Look(time, number, raised)
        number += 1


def too_short(recording: CollectiveRecording, settings: TriggerSettings) -> bool:
    """Return whether the rhythm of no watched rank is known by the end: only a long silence could have been noticed."""
    lives = (_life(recording, member, group) for member, group in watched_members(recording).items())
    return not any(len(life.rhythm) >= settings.history for life in lives)


def _life(recording: CollectiveRecording, member: int, group: int) -> _Life:
    ends = recording.completions.where(recording.completions.member == member)
    standing = recording.states.time[recording.states.member == member]
    return _Life(member, ends.end[ends.group == group], ends.end, ends.bytes.astype(np.float64), standing)


def _judge(life: _Life, time: float, settings: TriggerSettings) -> Alarm | None:
    known = int(np.searchsorted(life.ends, time, side="right"))
    ends = life.ends[:known]
    first = min((column[0] for column in (ends, life.standing) if len(column)), default=time)
    if first >= time:
        return None
    pauses = np.diff(ends)
    longest = float(pauses.max()) if len(pauses) else 0.0
    last = float(ends[-1]) if known else float(first)
    rhythm = life.rhythm[: int(np.searchsorted(life.rhythm, time, side="right"))]
    regular = len(rhythm) >= max(settings.history, 2)
    patience = settings.window / 2 if regular else settings.window * settings.history
    if time - last >= max(patience, 2 * longest) and _stands(life, time, settings):
        return Alarm(time, "failure", life.member, np.inf, last)
    if not regular:
        return None
    found = _slower(life, ends, time, settings.window, settings)
    if found is None and ROUND * float(np.median(np.diff(rhythm))) <= settings.window / 2:
        found = _slower(life, ends, time, settings.window / 2, settings)
    return found


def _stands(life: _Life, time: float, settings: TriggerSettings) -> bool:
    """Return whether the rank is inside a collective."""
    seen = int(np.searchsorted(life.standing, time, side="right"))
    return bool(seen) and time - float(life.standing[seen - 1]) < settings.quiet


def _slower(life: _Life, ends: Seconds, time: float, window: float, settings: TriggerSettings) -> Alarm | None:
    if _had_an_empty_window(ends, time, window):
        return None
    starts = np.arange(float(ends[0]) if len(ends) else time, time - 2 * window, window / 10)
    if len(starts) < 10 * (settings.history - 1) + 1:
        return None
    total = np.concatenate([[0.0], np.cumsum(life.bytes[: len(ends)])])
    ratios = []
    for amount in (total, np.arange(len(total), dtype=np.float64)):
        before = _within(ends, amount, starts, window)
        now = float(_within(ends, amount, np.array([time - window]), window)[0])
        usual = float(np.median(before))
        if usual > 0 and now * settings.factor <= usual and now < 0.9 * float(before.min()):
            ratios.append(usual / now if now else np.inf)
    if not ratios:
        return None
    return Alarm(time, "straggler", life.member, max(ratios), time - window)


def _had_an_empty_window(ends: Seconds, time: float, window: float) -> bool:
    """Return whether a rate of nothing is one that the rank had before, so that no rate is below all of them."""
    pauses = np.diff(ends, append=time)
    return bool(np.any((pauses > PAUSE * window) & (ends + PAUSE * window <= time - window)))


def _within(ends: Seconds, amount: Seconds, starts: Seconds, window: float) -> Seconds:
    """Return how much of a running total falls into each window."""
    first, last = (np.searchsorted(ends, edge, side="right") for edge in (starts, starts + window))
    return np.asarray(amount[last] - amount[first])
