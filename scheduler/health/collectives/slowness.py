"""Who makes a job slow that still runs: before a collective, or inside it.

*Before*: a member's own time is what passes between its last completion, of any collective, and its next launch, by its
own clock.  Whoever waits for others waits inside a collective; own time is work.  It is compared with that of the other
members of the same group in the same collective, who have the same work (pipeline groups are left out: their members do
not).  A member is blamed if its own time exceeds its group's median persistently, by more than it used to, and by
enough to explain a good part of what was lost.

*Inside*: the transfer time of a collective is the least time that any of its members spent in it: that of the last
to come.  Where it has grown, the flows' samples say what they wait for.  The flows that wait far more than the others
have one end in common.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from scheduler.health.collectives.flows import Condition, cover, shares
from scheduler.health.collectives.recording import Completions, Recording

SlowCause = Literal["slow-before", "slow-inside"]

PERSISTENT = 0.75
"""Share of a group's collectives in which a member must be the last to be called persistently late."""

FEWEST = 3
"""Collectives of a group that a judgement needs."""

GROWN = 1.5
"""Growth of a transfer time that makes a group an affected one."""

EXPLAINS = 0.3
"""Share of the lost time that a member's own time must explain."""

WAITING = 0.5
"""Share of its samples that a flow which holds up the others spends waiting for the network or the GPU."""

APART = 2.0
"""By how much it must exceed the median flow."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Who is slow.

    :param suspects: members; one = the evidence leaves no other.
    :param groups: where it shows.
    :param factor: by how much the suspects' work, or the transfer, takes longer.
    :param waiting: for ``slow-inside``: what the flows wait for.
    """

    cause: SlowCause
    suspects: tuple[int, ...]
    groups: tuple[int, ...]
    factor: float
    unique: bool
    waiting: Condition | None = None


@dataclass(frozen=True, slots=True)
class _Instance:
    """One collective of a group that all members completed, with start and end."""

    group: int
    members: npt.NDArray[np.int32]
    own: npt.NDArray[np.float64]
    inside: npt.NDArray[np.float64]
    size: int
    end: float


def find_slow(recording: Recording, since: float, time: float) -> list[Slow]:
    """Who has become slow between ``since`` and ``time``, the best explained first; nobody where nothing stands out."""
    instances = _instances(recording, time)
    before = [instance for instance in instances if instance.end <= since]
    after = [instance for instance in instances if instance.end > since]
    found = [*_late(recording, before, after, time - since), *_inside(recording, before, after, since, time)]
    return sorted(found, key=lambda slow: (not slow.unique, -slow.factor))


def _instances(recording: Recording, time: float) -> list[_Instance]:
    known = recording.completions.until(time)
    known = known.where(~np.isnan(known.start))
    own = _own_times(known)
    order = np.lexsort((known.member, known.seq, known.group))
    group, seq = known.group[order], known.seq[order]
    cuts = np.flatnonzero((group[1:] != group[:-1]) | (seq[1:] != seq[:-1])) + 1
    found = []
    for rows in np.split(order, cuts):
        if len(rows) < 2 or len(rows) < len(recording.groups[known.group[rows[0]]].members):
            continue
        inside = known.end[rows] - known.start[rows]
        last = float(known.end[rows].max())
        size = int(known.bytes[rows].max())
        found.append(_Instance(int(known.group[rows[0]]), known.member[rows], own[rows], inside, size, last))
    return found


def _own_times(known: Completions) -> npt.NDArray[np.float64]:
    """Seconds from the last completion of the same member to each launch; NaN for a member's first."""
    own = np.full(len(known), np.nan)
    for member in np.unique(known.member).tolist():
        rows = np.flatnonzero(known.member == member)
        ends = np.sort(known.end[rows])
        earlier = np.searchsorted(ends, known.start[rows], side="right") - 1
        own[rows] = np.where(earlier >= 0, known.start[rows] - ends[np.maximum(earlier, 0)], np.nan)
    return own


def _late(recording: Recording, before: list[_Instance], after: list[_Instance], span: float) -> list[Slow]:
    """Members whose own time holds up their groups."""
    old, new = _excess(recording, before), _excess(recording, after)
    found = []
    for member, late in new.items():
        usual = old.get(member)
        rate = usual.seconds / usual.span if usual is not None and usual.span else 0.0
        gained = late.seconds - rate * span
        persistent = late.last >= PERSISTENT * late.count and late.count >= FEWEST
        if persistent and gained >= EXPLAINS * span:
            found.append((gained, member, late))
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    if not found:
        return []
    best = found[0][0]
    close = [entry for entry in found if entry[0] >= best / 2]
    suspects = tuple(sorted(member for _, member, _ in close))
    groups = tuple(sorted({group for _, _, late in close for group in late.groups}))
    return [Slow("slow-before", suspects, groups, close[0][2].factor, len(suspects) == 1)]


@dataclass(slots=True)
class _Excess:
    """How much own time a member has above the median of its groups."""

    seconds: float = 0.0
    own: float = 0.0
    median: float = 0.0
    span: float = 0.0
    last: int = 0
    count: int = 0
    groups: tuple[int, ...] = ()

    @property
    def factor(self) -> float:
        return max(1.0, self.own / self.median) if self.median > 0 else 1.0


def _excess(recording: Recording, instances: list[_Instance]) -> dict[int, _Excess]:
    """Of each member: summed excess, and how often it was the last, in groups whose members have the same work.

    An instance counts once for a member even if its time shows in several groups: each launch is in one group only.
    """
    found: dict[int, _Excess] = defaultdict(_Excess)
    ends = [instance.end for instance in instances]
    span = max(ends) - min(ends) if ends else 0.0
    for instance in instances:
        if recording.groups[instance.group].kind == "pp" or np.isnan(instance.own).any():
            continue
        others = _median_of_others(instance.own)
        excess = np.maximum(instance.own - others, 0.0)
        slowest = int(np.argmax(instance.own))
        for i, member in enumerate(instance.members.tolist()):
            entry = found[member]
            entry.span = span
            entry.count += 1
            entry.seconds += float(excess[i])
            entry.own += float(instance.own[i])
            entry.median += float(others[i])
            if i == slowest:
                entry.last += 1
                entry.groups = tuple(sorted({*entry.groups, instance.group}))
    return found


def _median_of_others(own: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.array([np.median(np.delete(own, i)) for i in range(len(own))])


def _inside(
    recording: Recording, before: list[_Instance], after: list[_Instance], since: float, time: float
) -> list[Slow]:
    """Members that hold up transfers."""
    growth = _transfer_growth(before, after)
    affected = tuple(sorted(group for group, ratio in growth.items() if ratio >= GROWN))
    if not affected:
        return []
    factor = max(growth[group] for group in affected)
    common = set.intersection(*(set(recording.groups[group].members) for group in affected))
    rows = recording.states.between(since, time)
    rows = rows.where(np.isin(rows.group, affected))
    waits: tuple[Condition, ...] = ("not-delivered", "not-transmitted", "gpu-not-ready")
    for condition in waits:
        suspects = _apart(shares(rows, recording.groups, condition))
        if suspects:
            shared = tuple(member for member in suspects if member in common)
            unique = len(suspects) == 1 and suspects == shared
            return [Slow("slow-inside", shared or suspects, affected, factor, unique, condition)]
    clear = {m for group, ratio in growth.items() if ratio < GROWN for m in recording.groups[group].members}
    narrowed = tuple(sorted(common - clear)) if len(affected) > 1 else ()
    return [Slow("slow-inside", narrowed, affected, factor, False)]


def _transfer_growth(before: list[_Instance], after: list[_Instance]) -> dict[int, float]:
    """Group -> by how much its transfers of the same size take longer, at the median."""
    old: dict[tuple[int, int], list[float]] = defaultdict(list)
    new: dict[tuple[int, int], list[float]] = defaultdict(list)
    for times, instances in ((old, before), (new, after)):
        for instance in instances:
            times[instance.group, instance.size].append(float(instance.inside.min()))
    growth: dict[int, float] = {}
    for key, seconds in new.items():
        usual = float(np.median(old[key])) if len(old[key]) >= FEWEST else 0.0
        if usual > 0:
            growth[key[0]] = max(growth.get(key[0], 0.0), float(np.median(seconds)) / usual)
    return growth


def _apart(share: dict[tuple[int, int], float]) -> tuple[int, ...]:
    """The common ends of the flows that wait far more than the others; nobody where they do not stand out."""
    if not share:
        return ()
    limit = max(WAITING, APART * float(np.median(list(share.values()))))
    pairs = [pair for pair, value in share.items() if value >= limit]
    return cover(pairs) if pairs else ()
