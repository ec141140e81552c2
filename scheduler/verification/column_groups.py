"""S = 2, recounted: can the domains fall into groups that have no column in common?

With S = 2 every column lies on one domain or on two, so columns join the domains that share them, and the domains in
use fall into *groups*: v domains joined by e columns, v <= e + 1, which hold the e D cells of these.  Every row touches
every group.  So what a placement needs is an exact cover of its domains by groups, with P columns in all and at most
R D row touches, of which a group needs D or more.  A larger domain can take the place of a smaller one: the domains in
use are the largest, however many they are; and as groups are R at most, there are P + R at most.

The fewest row touches of a group are bounded from below by shapes: domain k touches r rows and serves q of the e
columns, so it holds min(c_k, q r) cells or fewer, and all q come to 2 e at most.  Two domains that share a column touch
D rows together or more.  So of those lower than D / 2 no two share one, and their q come to e at most.  Groups that
are trees have a bound of their own (:mod:`scheduler.verification.column_trees`).

Equal domains are not told apart: a set of domains says how many it has of each capacity, as bits of one number.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import prod

import numpy as np

from scheduler.verification.column_trees import fewest_tree_rows
from scheduler.verification.effort import CALL, MOST_ENTRIES, Effort, TooMuch
from topology.cluster import IndexArray

MOST_SETS = 1 << 20  # Of domains in use, up to which all are looked at
GROUP, HEIGHT = 20_000, 200  # Steps that it takes to list a group, and to pass over a height
MOST_TREES, LARGEST_TREE = 200, 7  # Trees whose row touches are counted domain by domain, and their domains

Capacities = tuple[int, ...]
_NEVER = 1 << 40  # More row touches than any grid has


def can_be_covered(rows: int, columns: int, capacities: Capacities, most: int, effort: Effort) -> bool:
    """Return whether groups cover the domains in use with so much as ``most`` rows touched by each; raise TooMuch where
    that is too large to be tried.

    :param capacities: in descending order.
    :param most: R, domains that a row touches at most.
    """
    for used in range(1, min(len(capacities), columns + most) + 1):
        own = capacities[:used]
        if sum(own) >= rows * columns and _Cover(rows, columns, own, most, effort).exists():
            return True
    return False


class _Cover:
    """Exact covers of some domains by groups."""

    def __init__(self, rows: int, columns: int, capacities: Capacities, most: int, effort: Effort) -> None:
        self._rows, self._columns = rows, columns
        self._sets = _Sets(capacities)
        if self._sets.number > MOST_SETS:
            raise TooMuch
        self._budget = most * rows
        self._spare = sum(capacities) - rows * columns
        self._effort = effort
        self._shapes = _GroupShapes(rows, self._spare, effort)
        # by the largest capacity in a group: (domains, columns, row touches)
        self._groups: list[list[tuple[int, int, int]]] = [[] for _ in self._sets.kinds]
        self._list_groups()

    def exists(self) -> bool:
        """Return whether some cover has few enough row touches."""
        every = self._sets.every
        if self._least(every, self._columns, {}) > self._budget:
            return False
        return not self._raise_trees() or self._least(every, self._columns, {}) <= self._budget

    def _raise_trees(self) -> bool:
        """Raise the row touches of groups that are trees, as far as there are not too many; return whether any rose."""
        known: dict[Capacities, int] = {}
        rose = False
        for groups in self._groups:
            for i, (one, columns, touches) in enumerate(groups):
                own = self._sets.capacities(one)
                if len(own) != columns + 1 or len(own) > LARGEST_TREE:
                    continue
                if own not in known and len(known) < MOST_TREES:
                    known[own] = fewest_tree_rows(own, self._rows)
                if known.get(own, 0) > touches:
                    groups[i] = one, columns, known[own]
                    rose = True
        return rose

    def _list_groups(self) -> None:
        """Find every set of domains that can be a group, with each number of columns that it can have."""
        codes, room, size = self._sets.listed()
        for columns in range(1, self._columns + 1):
            self._effort.take(CALL + 5 * len(room))
            waste = room - columns * self._rows
            sets = np.flatnonzero((waste >= 0) & (waste <= self._spare) & (size <= columns + 1) & (size > 0))
            self._effort.take(GROUP * len(sets))
            for one in codes[sets].tolist():
                own = self._sets.capacities(one)
                touches = self._shapes.fewest_rows(own, columns)
                if touches <= self._budget:
                    self._groups[self._sets.largest(one)].append((one, columns, touches))

    def _least(self, domains: int, columns: int, known: dict[tuple[int, int], int]) -> int:
        """Return the fewest row touches of covers of some domains with so many columns in all."""
        if not domains or not columns:
            return 0 if not domains and not columns else _NEVER
        if (domains, columns) not in known:
            best = _NEVER
            for one, own, touches in self._groups[self._sets.largest(domains)]:
                self._effort.take(CALL)
                if own <= columns and self._sets.holds(domains, one):
                    best = min(best, touches + self._least(domains - one, columns - own, known))
            known[domains, columns] = best
        return known[domains, columns]


class _Sets:
    """Sets of some domains: of each capacity, the largest first, how many; a bit above each count is left free."""

    def __init__(self, capacities: Capacities) -> None:
        self.kinds = sorted(Counter(capacities).items(), reverse=True)
        self.number = prod(count + 1 for _, count in self.kinds)
        widths = [count.bit_length() + 1 for _, count in self.kinds]
        self._shifts = [sum(widths[:i]) for i in range(len(widths))]
        self._kind_of_bit = [i for i, width in enumerate(widths) for _ in range(width)]
        self._free = sum(1 << (shift + width - 1) for shift, width in zip(self._shifts, widths, strict=True))
        self.every = sum(count << shift for (_, count), shift in zip(self.kinds, self._shifts, strict=True))

    def listed(self) -> tuple[IndexArray, IndexArray, IndexArray]:
        """Return all sets, the cells of each and its number of domains."""
        codes, room, size = (np.zeros(1, dtype=np.int64) for _ in range(3))
        for (capacity, count), shift in zip(self.kinds, self._shifts, strict=True):
            some = np.arange(count + 1, dtype=np.int64)[:, None]
            codes, room, size = (
                (codes + (some << shift)).ravel(),
                (room + some * capacity).ravel(),
                (size + some).ravel(),
            )
        return codes, room, size

    def capacities(self, one: int) -> Capacities:
        """Return the capacities of a set, in descending order."""
        counts = [
            one >> shift & (1 << count.bit_length()) - 1
            for (_, count), shift in zip(self.kinds, self._shifts, strict=True)
        ]
        return tuple(c for (c, _), many in zip(self.kinds, counts, strict=True) for _ in range(many))

    def largest(self, one: int) -> int:
        """Return which capacity the largest domain of a set has, by its place."""
        return self._kind_of_bit[(one & -one).bit_length() - 1]

    def holds(self, domains: int, one: int) -> bool:
        """Return whether one set is part of another: no count borrows from the bit above it."""
        return (domains | self._free) - one & self._free == self._free


class _GroupShapes:
    """Least sums of heights of groups; tables are kept from one group to the next."""

    def __init__(self, rows: int, spare: int, effort: Effort) -> None:
        self._rows, self._spare, self._effort = rows, spare, effort
        self._entries = 0  # of all tables
        self._table = cache(self._make_table)

    def fewest_rows(self, capacities: Capacities, columns: int) -> int:
        """Return a lower bound on the row touches of all domains of a group."""
        waste = sum(capacities) - columns * self._rows
        table = self._table(capacities, columns)
        return max(self._rows, int(table[: 2 * columns + 1, : columns + 1, : waste + 1].min()))

    def _make_table(self, capacities: Capacities, columns: int) -> IndexArray:
        """Return the least sum of heights by the sum of widths, that of low domains, and cells given up, each at most
        as many, shape [2 * columns + 1, columns + 1, spare + 1].
        """
        shape = 2 * columns + 1, columns + 1, self._spare + 1
        self._entries += (entries := prod(shape))
        if self._entries > MOST_ENTRIES:
            raise TooMuch
        if not capacities:
            return np.zeros(shape, dtype=np.int64)
        before, capacity = self._table(capacities[:-1], columns), capacities[-1]
        table = np.full(shape, _NEVER, dtype=np.int64)
        for width in range(1, columns + 1):
            heights = min(self._rows, -(-capacity // width))
            self._effort.take(HEIGHT * heights)
            for height in range(1, heights + 1):
                given_up = max(0, capacity - width * height)
                if given_up > self._spare:
                    continue
                self._effort.take(CALL + entries)
                self._offer(table, before, width, height, given_up)
            # touched by more rows than its cells need, so that it may share columns with low domains
            half = -(-self._rows // 2)
            if -(-capacity // width) < half:
                self._offer(table, before, width, half, 0)
        return table

    def _offer(self, table: IndexArray, before: IndexArray, width: int, height: int, given_up: int) -> None:
        low = width if 2 * height < self._rows else 0
        rest = before[: max(0, len(before) - width), : max(0, before.shape[1] - low), : self._spare + 1 - given_up]
        part = table[width:, low:, given_up:]
        np.minimum(part, rest + height, out=part)
