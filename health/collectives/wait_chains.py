"""Groups that wait for one another: which stall came first, and which are its victims.

A stalled collective waits for each member that has not launched it.  If that member stands in another stalled
collective, the first waits for the second.  The strongly connected parts of this graph that wait for nothing else are
the roots: all other stalls follow from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from health.collectives.stalls import Snapshot, Stall

RootKind = Literal["not-launched", "transfer", "crossed-order"]


@dataclass(frozen=True, slots=True)
class Root:
    """Stalls that explain others.

    :param kind: a member never came; all came and the data do not move; members wait for one another in a circle.
    :param stalls: the stalls of the root; more than one in a circle.
    :param suspects: who did not come, or went another way than most; empty for a transfer.
    :param victims: groups that wait for this root.
    """

    kind: RootKind
    stalls: tuple[Stall, ...]
    suspects: tuple[int, ...]
    victims: tuple[int, ...]


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
        return Root("crossed-order", (stall,), tuple(member for member, _ in mismatch[0].others), out)
    return Root("not-launched" if stall.absent else "transfer", (stall,), tuple(sorted(stall.absent)), out)


def _waits_for(stalls: Sequence[Stall], i: int) -> set[int]:
    """Return stalls in which somebody stands whom stall ``i`` waits for."""
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
