"""R = 2 with S free, decided: domains in groups that rows join, which is a packing of bins.

A row on two domains joins them, so rows make groups of v domains with e >= v - 1 rows, which hold e P cells; and every
such group has rows on two domains each (:mod:`scheduler.placement.exact.pairs.row_chains`).  So D rows exist iff the K
domains fall into at most K - D groups with C_g >= (v_g - 1) P: the items P - c_k, negative for large domains, in as
many bins of size P (docs: exact.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain as joined

from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.row_chains import Part, chain, laid_out, shrunk
from scheduler.work_clock import spend
from topology.cluster import IntArray

Counts = tuple[int, ...]
"""Items of each size that are left."""

_NODE_SECONDS = 2e-6  # Of work to look at one count of one size


class OutOfNodes(Exception):
    """The packing is not decided within its limit."""


def rows_on_two(problem: GridProblem, nodes: int) -> IntArray | None:
    """Return the domain of each cell, shape [rows, columns], each row on two domains at most; ``None`` = there is none.

    :param nodes: of the search, at most; raises OutOfNodes beyond that.
    """
    width, domains = problem.columns, problem.capacities
    bins = len(domains) - problem.rows
    packed = [list(domains)] if bins < 1 else BinPacking(Counter(width - c for c in domains), width, nodes).pack(bins)
    if packed is None:
        return None
    groups = packed if bins < 1 else [[width - item for item in one] for one in packed]
    numbers = defaultdict[int, list[int]](list)
    for number, capacity in enumerate(domains):
        numbers[capacity].append(number)
    rows: list[list[Part]] = []
    for group in groups:
        parts = sorted(((c, numbers[c].pop()) for c in group), reverse=True)
        count = min(sum(group) // width, problem.rows - len(rows))
        rows += chain(shrunk(parts, count * width), count, width, 2) if count else []
    return laid_out(rows, problem)


class BinPacking:
    """Items of a few sizes, some of them negative, in bins of one size: bin by bin, the largest item left first."""

    def __init__(self, items: Counter[int], size: int, nodes: int) -> None:
        self._sizes = sorted(items, reverse=True)
        self._counts = tuple(items[item] for item in self._sizes)
        self._size = size
        self._nodes = nodes
        self._failed: set[tuple[Counts, int]] = set()

    def pack(self, bins: int) -> list[list[int]] | None:
        """Return the items of each bin; ``None`` = so many bins do not hold them; raises OutOfNodes."""
        return self._pack(self._counts, bins)

    def _pack(self, counts: Counts, bins: int) -> list[list[int]] | None:
        total = self._sum(counts)
        if total > bins * self._size or (counts, bins) in self._failed:
            return None
        if bins == 1:
            return [self._items(counts)]
        first = next(i for i, count in enumerate(counts) if count)
        for taken in self._bins(counts, first, bins * self._size - total):
            left = tuple(count - here for count, here in zip(counts, taken, strict=True))
            if not any(left):
                return [self._items(taken)]
            others = self._pack(left, bins - 1)
            if others is not None:
                return [self._items(taken), *others]
        self._failed.add((counts, bins))
        return None

    def _bins(self, counts: Counts, first: int, waste: int) -> Iterator[Counts]:
        """Yield what one bin takes, the largest item left in it, with no more waste than all bins may have."""
        above, below = [0], [0]  # what the sizes from the i-th on may add at most, and take away
        for item, count in zip(reversed(self._sizes), reversed(counts), strict=True):
            above.append(above[-1] + max(0, item * count))
            below.append(below[-1] + min(0, item * count))
        above.reverse()
        below.reverse()
        taken = [0] * len(counts)

        def fill(i: int, held: int) -> Iterator[Counts]:
            self._nodes -= 1
            if self._nodes < 0:
                raise OutOfNodes
            spend(_NODE_SECONDS)
            if held + above[i] < self._size - waste or held + below[i] > self._size:
                return
            if i == len(counts):
                yield tuple(taken)
                return
            for here in range(counts[i], (1 if i == first else 0) - 1, -1):
                taken[i] = here
                yield from fill(i + 1, held + here * self._sizes[i])
            taken[i] = 0

        yield from fill(first, 0)

    def _sum(self, counts: Counts) -> int:
        return sum(item * count for item, count in zip(self._sizes, counts, strict=True))

    def _items(self, counts: Counts) -> list[int]:
        pairs = zip(self._sizes, counts, strict=True)
        return list(joined.from_iterable([item] * count for item, count in pairs))
