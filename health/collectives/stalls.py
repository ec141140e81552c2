"""Collectives that stand still, the members that have not come to them, and which stall came first.

A stalled collective waits for each member that has not launched it.  If that member stands in another stalled
collective, the first waits for the second.  The strongly connected parts of this graph that wait for nothing else are
the roots: all other stalls follow from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from health.collectives.recording import CollectiveRecording, Member, RankGroup, States
from topology.cluster import IntArray

Disagreement = Literal["crossed-order", "other-size"]  # Mistakes of the program: other operations, other sizes
RootKind = Literal["not-launched", "transfer"] | Disagreement


@dataclass(frozen=True, slots=True)
class Stall:
    """A collective that some members have launched and not all have completed."""

    group: int
    seq: int
    op: str
    standing: frozenset[int]  # members that launched it and did not complete it
    absent: frozenset[int]  # members that did not launch it
    since: float | None = None  # when anything last moved in it; None = unknown


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Members that launched another operation under a number than most of their group, or one of another size."""

    group: int
    seq: int
    op: str
    others: tuple[tuple[int, str], ...]  # member -> what it launched
    kind: Disagreement = "crossed-order"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job at one instant."""

    members: tuple[Member, ...]
    groups: tuple[RankGroup, ...]
    stalls: tuple[Stall, ...]
    mismatches: tuple[Mismatch, ...] = ()
    settled: bool = True  # whether the stalls are known to stand still, not merely to be under way
    gone: frozenset[int] = frozenset()  # members that are known to be dead or unreachable
    unseen: frozenset[int] = frozenset()  # members without records: what they did is unknown
    # members in a collective that is under way: what waits for them does not wait for a fault of theirs
    busy: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Root:
    """Stalls that explain others."""

    # a member never came; all came and the data do not move; members wait for one another in a circle, or called
    # different things
    kind: RootKind
    stalls: tuple[Stall, ...]  # the stalls of the root; more than one in a circle
    suspects: tuple[int, ...]  # members that did not come, or went another way than most; empty for a transfer
    victims: tuple[int, ...]


def stalls_at(recording: CollectiveRecording, time: float, *, quiet: float, back: float) -> Snapshot:
    """Return the stalls of a recording at an instant.

    :param quiet: seconds in which nothing moved: less is not a stall.  A member that is in no collective is given twice
        the longest time it ever took between two.
    :param back: seconds of history to look at; state lines come every 100 ms while a collective runs.
    """
    recent = recording.states.between(time - back, time)
    last = _last_completed(recording, time)
    found: list[Stall] = []
    mismatches: list[Mismatch] = []
    busy = _lively(recording, time, quiet=quiet)
    for group in np.unique(recent.group).tolist():
        rows = recent.where(recent.group == group)
        members = frozenset(recording.groups[group].members)
        waiting = _waiting(rows, group, members, last)
        if waiting is None:
            continue
        seq, standing, absent = waiting
        rows = rows.where(rows.seq == seq)
        since = max(_moved(recent, rows), *_each(min, rows.member, rows.time).values())
        if time - since < quiet:
            busy |= standing
            continue
        launched = {member: int(op) for member, op in zip(rows.member.tolist(), rows.op.tolist(), strict=True)}
        op, others = _majority(launched)
        found.append(Stall(group, seq, recording.ops[op], standing, absent, since))
        if others:
            strangers = tuple((member, recording.ops[launched[member]]) for member in others)
            mismatches.append(Mismatch(group, seq, recording.ops[op], strangers))
    gone = _silent(recent, found, time, quiet=quiet)
    return Snapshot(
        recording.members, recording.groups, tuple(found), tuple(mismatches), gone=gone, busy=frozenset(busy)
    )


def _last_completed(recording: CollectiveRecording, time: float) -> dict[tuple[int, int], int]:
    """Return (group, member) -> number of the last collective it completed."""
    last: dict[tuple[int, int], int] = {}
    for _, _, group, member, seq, _, _ in recording.completions.until(time).rows():
        last[group, member] = max(seq, last.get((group, member), seq))
    return last


def _waiting(
    rows: States, group: int, members: frozenset[int], last: dict[tuple[int, int], int]
) -> tuple[int, frozenset[int], frozenset[int]] | None:
    """Return the first collective that a member launched and did not complete, the members in it and those absent."""
    nothing = -1
    launched = _each(max, rows.member, rows.seq)
    completed = {member: last.get((group, member), nothing) for member in members}
    unfinished = {member: seq for member, seq in launched.items() if seq > completed[member]}
    if not unfinished:
        return None
    first = min(unfinished.values())
    absent = {m for m in members if max(launched.get(m, nothing), completed[m]) < first}
    return first, frozenset(m for m, seq in unfinished.items() if seq == first), frozenset(absent)


def _moved(recent: States, rows: States) -> float:
    """Return when a counter of these rows last changed."""
    key = np.stack([rows.member, rows.channel, rows.peer, rows.way], axis=1)
    order = np.lexsort((rows.time, *key.T))
    ordered = rows.where(order)
    same = (key[order][1:] == key[order][:-1]).all(axis=1)
    progress = ordered.ready + ordered.transmitted + ordered.done
    changed = same & (progress[1:] != progress[:-1])
    times = ordered.time[1:][changed]
    return float(times.max()) if len(times) else float(recent.time[0])


def _each(best: Callable[[float, float], float], members: IntArray, values: npt.NDArray[Any]) -> dict[int, Any]:
    """Return the least or greatest value of each member, in the order in which members appear."""
    found: dict[int, Any] = {}
    for member, value in zip(members.tolist(), values.tolist(), strict=True):
        found[member] = best(value, found.get(member, value))
    return found


def _majority(launched: dict[int, int]) -> tuple[int, list[int]]:
    """Return the operation most launched, and the members that launched another."""
    ops = list(launched.values())
    most = max(sorted(set(ops)), key=ops.count)
    return most, sorted(member for member, op in launched.items() if op != most)


def _lively(recording: CollectiveRecording, time: float, *, quiet: float) -> set[int]:
    """Return members that completed something so recently that they may well be computing."""
    known = recording.completions.until(time)
    lively = set()
    for member in np.unique(known.member).tolist():
        ends = known.end[known.member == member]
        longest = float(np.diff(ends).max()) if len(ends) > 1 else 0.0
        if time - float(ends[-1]) < max(quiet, 2 * longest):
            lively.add(member)
    return lively


def _silent(recent: States, found: Sequence[Stall], time: float, *, quiet: float) -> frozenset[int]:
    """Return members that launched a collective, did not complete it, and write no more state lines."""
    silent: set[int] = set()
    for stall in found:
        rows = recent.where((recent.group == stall.group) & (recent.seq == stall.seq))
        newest_of = _each(max, rows.member, rows.time)
        newest = max(newest_of.values())
        if time - newest <= quiet:
            silent |= {member for member, last in newest_of.items() if newest - last > quiet}
    return frozenset(silent)


def find_roots(snapshot: Snapshot) -> list[Root]:
    """Return the roots of all stalls, the one with most victims first."""
    stalls = snapshot.stalls
    edges = [_waits_for(stalls, i) for i in range(len(stalls))]
    reach = [_reachable(edges, i) for i in range(len(stalls))]
    roots = []
    for i in range(len(stalls)):
        if any(i not in reach[j] for j in reach[i]) or min(reach[i] | {i}) < i:
            continue
        circle = sorted(reach[i] | {i})
        if len(circle) == 1 and stalls[i].absent & snapshot.busy:
            continue
        victims = [stalls[j].group for j in range(len(stalls)) if i in reach[j] and j not in circle]
        roots.append(_root(snapshot, [stalls[j] for j in circle], victims))
    return sorted(roots, key=lambda root: -len(root.victims))


def _root(snapshot: Snapshot, stalls: Sequence[Stall], victims: Sequence[int]) -> Root:
    out = tuple(sorted(set(victims)))
    if len(stalls) > 1:
        return Root("crossed-order", tuple(stalls), _crossing(stalls), out)
    (stall,) = stalls
    mismatch = [m for m in snapshot.mismatches if m.group == stall.group and m.seq == stall.seq]
    if mismatch:
        return Root(mismatch[0].kind, (stall,), tuple(member for member, _ in mismatch[0].others), out)
    return Root("not-launched" if stall.absent else "transfer", (stall,), tuple(sorted(stall.absent)), out)


def _waits_for(stalls: Sequence[Stall], i: int) -> set[int]:
    """Return stalls in which a member stands that stall ``i`` waits for."""
    return {j for j, other in enumerate(stalls) if j != i and stalls[i].absent & other.standing}


def _reachable(edges: Sequence[set[int]], start: int) -> set[int]:
    seen: set[int] = set()
    front = set(edges[start])
    while front:
        seen |= front
        front = {after for before in front for after in edges[before]} - seen
    return seen


def _crossing(stalls: Sequence[Stall]) -> tuple[int, ...]:
    """Return members that stand where fewest of the circle stand; of all such stalls where two are equal."""
    shared = Counter(member for stall in stalls for member in (stall.standing | stall.absent))
    standing = sorted((sorted(member for member in stall.standing if shared[member] > 1) for stall in stalls), key=len)
    fewest = [members for members in standing if len(members) == len(standing[0])]
    return tuple(sorted({member for members in fewest for member in members}))
