"""S = 2: components that are trees, the fewest rows that these touch, exactly, and columns with which they do.

A tree of v domains has v - 1 columns.  Cut the column between a subtree and the rest: what the subtree holds of it is
its *share* s, and the rest holds D - s.  Colour the domains in two classes and give one class the top rows of each of
its columns, the other the bottom rows: then the rows of a domain are nested, and it touches as many as its largest
share.  No domain touches fewer, so the least sum of largest shares is exact.

Domains of equal capacity are not told apart: a subtree is known by its capacities and its share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from scheduler.placement.exact.components.component_columns import Columns
from scheduler.placement.exact.components.component_heights import NEVER, Touches
from scheduler.placement.exact.grid.problem import GridProblem
from topology.cluster import IndexArray

_TABLES = 2000  # Tables kept at a time, some ten kilobytes each

Domains = tuple[int, ...]  # capacities of domains, descending


class TreeShares:
    """Trees on domains of one grid; what is known of subtrees is kept from one tree to the next."""

    def __init__(self, problem: GridProblem) -> None:
        self._height = problem.rows
        # most cells that a subtree leaves free, and that a domain holds
        self._spare = sum(problem.capacities) - problem.cells
        self._largest = problem.capacities[0]
        self._branch = lru_cache(_TABLES)(self._make_branch)
        self._hung = lru_cache(_TABLES)(self._make_hung)

    def work(self, capacities: Domains) -> int:
        """Return about how many array elements a tree on these domains takes: parts, parts of them, and shares."""
        parts = prod((many + 1) * (many + 2) // 2 for many in Counter(capacities).values())
        return parts * min(self._spare + 1, self._height) * self._height * self._largest

    def least(self, capacities: Domains) -> Touches:
        """Return the least row touches of all trees on these domains, and the columns of one that has them."""
        root, others = capacities[0], capacities[1:]
        rows = self._hung(others)[:, root] + np.arange(self._height + 1)
        height = int(rows.argmin())
        if rows[height] >= NEVER:
            return Touches(NEVER)
        free: dict[int, list[int]] = {}
        for place, capacity in enumerate(capacities):
            free.setdefault(capacity, []).append(place)
        return Touches(int(rows[height]), self._columns(free[root].pop(), others, height, root, free))

    def _shares(self, domains: Domains) -> range:
        """Return the shares that a subtree may have: its other columns are full, and it leaves little free."""
        most = sum(domains) - (len(domains) - 1) * self._height
        return range(max(0, most - self._spare), min(most, self._height) + 1)

    def _make_branch(self, domains: Domains) -> IndexArray:
        """Return the least row touches of a subtree, of all its domains as the root the best, shape [shares]."""
        return np.array([self._best_root(domains, share)[0] for share in self._shares(domains)], dtype=np.int64)

    def _best_root(self, domains: Domains, share: int) -> tuple[int, int, int]:
        """Return the least row touches of a subtree with this share, and the capacity and height of its root."""
        best = (NEVER, 0, 0)
        for root in dict.fromkeys(domains):
            if share <= root:
                # it touches as many rows as its share of the column above, or more
                rows = self._hung(_without(domains, (root,)))[share:, root - share] + np.arange(share, self._height + 1)
                height = int(rows.argmin())
                best = min(best, (int(rows[height]), root, share + height))
        return best

    def _make_hung(self, domains: Domains) -> IndexArray:
        """Return the least row touches of subtrees that hang on a root, shape [height of the root + 1, cells + 1].

        The root touches at most so many rows, and holds at most so many cells in the columns above the subtrees.
        """
        best = np.full((self._height + 1, self._largest + 1), 0 if not domains else NEVER, dtype=np.int64)
        for part, share, needed in self._hangings(domains):
            rows = int(self._branch(part)[share])
            if rows < NEVER:
                rest = self._hung(_without(domains, part))[needed:, : self._largest + 1 - needed] + rows
                np.minimum(best[needed:, needed:], rest, out=best[needed:, needed:])
        return best

    def _hangings(self, domains: Domains) -> Iterator[tuple[Domains, int, int]]:
        """Yield subtrees with the first of some domains, the place of a share, and what the root holds beside it."""
        for part in _parts(domains):
            for i, share in enumerate(self._shares(part)):
                if self._height - share <= self._largest:
                    yield part, i, self._height - share

    def _columns(self, root: int, domains: Domains, height: int, cells: int, free: dict[int, list[int]]) -> Columns:
        """Return the columns of the best subtrees that hang on a root, by its place, and take places for them."""
        if not domains:
            return ()
        least = self._hung(domains)[height, cells]
        for part, i, needed in self._hangings(domains):
            if needed > min(height, cells):
                continue
            rest = _without(domains, part)
            if self._branch(part)[i] + self._hung(rest)[height, cells - needed] == least:
                _, below, tall = self._best_root(part, share := self._height - needed)
                place = free[below].pop()
                inside = self._columns(place, _without(part, (below,)), tall, below - share, free)
                return ((root, place), *inside, *self._columns(root, rest, height, cells - needed, free))
        raise AssertionError("the least is that of one of them")


def _without(domains: Domains, part: Domains) -> Domains:
    """Return the domains of a set without some of them, descending."""
    left = Counter(domains)
    left.subtract(part)
    return tuple(left.elements())


def _parts(domains: Domains) -> Iterator[Domains]:
    """Yield the sets of domains with the first one, each once."""
    if not domains:
        return
    many = Counter(domains)
    for taken in product(*(range(count + 1) for count in many.values())):
        if taken[0]:
            yield tuple(c for c, count in zip(many, taken, strict=True) for _ in range(count))
