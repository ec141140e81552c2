"""What makes a job slow that still runs: before a collective, or inside it.

*Before*: a member's own time is what passes between its last completion, of any collective, and its next launch, by its
own clock.  A member that waits for others waits inside a collective; own time is work.  It is compared with what its
peers take before the same collective of theirs: members of the same groups, with the same work (those of a pipeline
do not, and are no peers).  A member is blamed if it exceeds the median of its peers persistently, by more than it used
to, and by enough to explain a good part of what was lost.

*Inside*: the transfer time of a collective is the least time that any of its members spent in it: that of the last
to come.  Where it has grown, the flows' samples say what they wait for.  The flows that wait far more than the others
have one end in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from health.collectives.flow_progress import Condition, cover, shares
from health.collectives.recording import CollectiveRecording, Completions

SlowCause = Literal["slow-before", "slow-inside"]

PERSISTENT = 0.75  # Share of the times in which a member must take noticeably longer than its peers
NOTICEABLE = 1.25  # What is noticeably longer
TRIFLE = 0.001  # Seconds; work that takes its peers less is none: the launch of one collective right after another
MOST_PEERS = 64  # Peers that a member is compared with: their median is settled by then
PARTS = (1.0, 0.5, 0.25)
"""Parts of the time in question, its end, in which a member must be slow: it may have begun in the middle."""

FEWEST = 3  # Times or collectives that a judgement needs
GROWN = 1.5  # Growth of a transfer time that makes a group an affected one
EXPLAINS = 0.3  # Share of the lost time that a member's own time must explain
WAITING = 0.5  # Share of its samples that a flow which holds up the others spends waiting for the network or the GPU
APART = 2.0  # By how much it must exceed the flows that do not hold up any rank


@dataclass(frozen=True, slots=True)
class Slow:
    """Members that make the job slow."""

    cause: SlowCause
    suspects: tuple[int, ...]  # none = it is not known which
    groups: tuple[int, ...]
    factor: float  # by how much the suspects' work, or the transfer, takes longer
    unique: bool
    waiting: Condition | None = None  # for slow-inside: what the flows wait for


def find_slow(recording: CollectiveRecording, since: float, time: float) -> list[Slow]:
    """Return what has become slow between ``since`` and ``time``, the best explained first; empty = nothing is."""
    known = recording.completions.until(time)
    known = known.where(~np.isnan(known.start))
    work = _work_times(recording, known)
    old = [one for one in work if one.end <= since]
    late = known.end > since
    found = _inside(recording, known.where(~late), known.where(late), since, time)
    for part in PARTS:
        span = (time - since) * part
        slow = _before(recording, old, [one for one in work if one.end > time - span], span)
        if slow:
            found += slow
            break
    return sorted(found, key=lambda slow: (not slow.unique, slow.cause != "slow-before"))


Task = tuple[str, int, int, int]


class _Work(NamedTuple):
    """What a member did by itself before a collective."""

    member: int
    group: int
    # what tells one piece of work from another: kind of group, operation, size and number of the collective that
    # follows; peers count theirs alike
    task: Task
    seconds: float
    end: float


def _work_times(recording: CollectiveRecording, known: Completions) -> list[_Work]:
    """Return the time to each launch from the end of whatever the same member launched before."""
    found = []
    for member in np.unique(known.member).tolist():
        mine = known.where(known.member == member)
        mine = mine.where(np.lexsort((mine.seq, mine.start)))
        own = np.maximum(mine.start[1:] - np.maximum.accumulate(mine.end)[:-1], 0.0)
        # the first launch has no end before it
        for (end, _, group, _, seq, op, size), seconds in zip(
            mine.where(slice(1, None)).rows(), own.tolist(), strict=True
        ):
            found.append(_Work(member, group, (recording.groups[group].kind, op, size, seq), seconds, end))
    return found


def _peers(recording: CollectiveRecording) -> dict[int, list[int]]:
    """Return members that do the same work: those that share a group, pipelines left out; of many, a few of all."""
    peers: dict[int, set[int]] = defaultdict(set)
    for group in recording.groups:
        if group.kind != "pp":
            for member in group.members:
                peers[member].update(group.members)
    return {
        member: sorted(found - {member})[:: max(1, -(-(len(found) - 1) // MOST_PEERS))]
        for member, found in peers.items()
    }


@dataclass(slots=True)
class _Excess:
    """How much longer than its peers a member works."""

    seconds: float = 0.0  # by which it worked longer than its peers
    own: float = 0.0  # seconds that it worked, where its peers took usual
    usual: float = 0.0
    above: int = 0  # how often it took noticeably longer, of count times
    count: int = 0
    groups: set[int] = field(default_factory=set)


def _before(recording: CollectiveRecording, old: Sequence[_Work], new: Sequence[_Work], span: float) -> list[Slow]:
    """Return members that hold up the others by their own time."""
    before, after = _excess(recording, old), _excess(recording, new)
    ends = [work.end for work in old]
    length = max(ends) - min(ends) if ends else 0.0
    lost: dict[int, float] = {}
    for member, excess in after.items():
        usual = before[member].seconds / length * span if member in before and length > 0 else 0.0
        persistent = excess.count >= FEWEST and excess.above >= PERSISTENT * excess.count
        if persistent and excess.seconds - usual >= EXPLAINS * span:
            lost[member] = excess.seconds - usual
    if not lost:
        return []
    # what loses at least half of what the worst does is a suspect too
    suspects = tuple(sorted(member for member, seconds in lost.items() if seconds >= max(lost.values()) / 2))
    groups = set().union(*(after[member].groups for member in suspects))
    factor = max(1.0, *(after[member].own / after[member].usual for member in suspects))
    return [Slow("slow-before", suspects, tuple(sorted(groups)), factor, len(suspects) == 1)]


def _excess(recording: CollectiveRecording, work: Sequence[_Work]) -> dict[int, _Excess]:
    """Of each member, over all tasks that take it time; the yardstick is the median of its peers in the same task."""
    times: dict[Task, dict[int, list[_Work]]] = defaultdict(lambda: defaultdict(list))
    for one in work:
        times[one.task][one.member].append(one)
    found: dict[int, _Excess] = defaultdict(_Excess)
    peers = _peers(recording)
    for members in times.values():
        for member, mine in members.items():
            others = [one.seconds for peer in peers.get(member, ()) for one in members.get(peer, ())]
            usual = float(np.median(others)) if others else 0.0
            if usual <= TRIFLE:
                continue
            entry = found[member]
            entry.count += len(mine)
            entry.usual += usual * len(mine)
            entry.groups.update(one.group for one in mine)
            for one in mine:
                entry.own += one.seconds
                entry.seconds += max(one.seconds - usual, 0.0)
                entry.above += one.seconds > NOTICEABLE * usual
    return found


def _inside(
    recording: CollectiveRecording, old: Completions, new: Completions, since: float, time: float
) -> list[Slow]:
    """Return members that hold up transfers."""
    growth = _transfer_growth(recording, old, new)
    affected = tuple(sorted(group for group, ratio in growth.items() if ratio >= GROWN))
    if not affected:
        return []
    factor = max(growth[group] for group in affected)
    common = set.intersection(*(set(recording.groups[group].members) for group in affected))
    rows = recording.states.between(since, time)
    rows = rows.where(np.isin(rows.group, affected))
    waits: tuple[Condition, ...] = ("not-delivered", "not-transmitted", "gpu-not-ready")
    for condition in waits:
        if suspects := _apart(shares(rows, recording.groups, condition)):
            shared = tuple(member for member in suspects if member in common)
            unique = len(shared) == 1 and (len(suspects) == 1 or len(common) == 1)
            return [Slow("slow-inside", shared or suspects, affected, factor, unique, condition)]
    if len(common) == len(recording.groups[affected[0]].members):
        return [Slow("slow-inside", (), affected, factor, unique=False)]
    clear = {m for group, ratio in growth.items() if ratio < GROWN for m in recording.groups[group].members}
    return [Slow("slow-inside", tuple(sorted(common - clear or common)), affected, factor, unique=False)]


def _transfer_growth(recording: CollectiveRecording, old: Completions, new: Completions) -> dict[int, float]:
    """Group -> by how much its transfers of the same operation and size take longer, at the median."""
    usual, now = _transfers(recording, old), _transfers(recording, new)
    growth: dict[int, float] = {}
    for key, seconds in now.items():
        known = usual.get(key, [])
        before = float(np.median(known)) if len(known) >= FEWEST else 0.0
        if before > 0:
            growth[key[0]] = max(growth.get(key[0], 0.0), float(np.median(seconds)) / before)
    return growth


def _transfers(recording: CollectiveRecording, known: Completions) -> dict[tuple[int, int, int], list[float]]:
    """Return (group, operation, size) -> transfer time of each collective that all members completed."""
    inside = known.end - known.start
    found: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    for rows in known.by_collective():
        first = int(rows[0])
        number = int(known.group[first])
        if len(rows) == len(recording.groups[number].members):
            found[number, int(known.op[first]), int(known.bytes[rows].max())].append(float(inside[rows].min()))
    return found


def _apart(share: dict[tuple[int, int], float]) -> tuple[int, ...]:
    """Return the common ends of the flows that wait far more than all others; empty = none stand out."""
    if not share:
        return ()
    limit = max(WAITING, max(share.values()) / APART)
    pairs = [pair for pair, value in share.items() if value >= limit]
    return cover(pairs) if 0 < len(pairs) < len(share) else ()
