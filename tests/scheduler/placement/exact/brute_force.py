"""What pairs (S, R) a tiny grid can have, by trying every assignment: the judge of bounds, searches and constructions.

It shares no code with the solver.  The only shortcut: rows are interchangeable, so an assignment is a multiset of rows
(a row says the domain of each of its cells).  One enumeration of all assignments of D x P cells to K domains answers
for every capacity at once: an assignment fits when, both sorted, no domain holds more cells than it has room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, islice, product

import numpy as np
import numpy.typing as npt

Pair = tuple[int, int]
Usage = tuple[int, ...]

_CHUNK = 50_000


def feasible(rows: int, columns: int, capacities: Sequence[int], pair: Pair) -> bool:
    """Whether some assignment fits the capacities with columns on at most S and rows on at most R domains."""
    return any(s <= pair[0] and r <= pair[1] for s, r in corners(rows, columns, tuple(capacities)))


def least_cost(rows: int, columns: int, capacities: Sequence[int], alpha: float) -> float:
    """Least ``alpha * S + (1 - alpha) * R`` over all assignments that fit."""
    return min(alpha * s + (1 - alpha) * r for s, r in corners(rows, columns, tuple(capacities)))


@cache
def corners(rows: int, columns: int, capacities: Usage) -> frozenset[Pair]:
    """Pairs of the assignments that fit, without those that another one is as good as in both; empty: nothing fits."""
    if columns > rows:
        return frozenset((s, r) for r, s in corners(columns, rows, capacities))
    room = np.sort(np.asarray(capacities))[::-1]
    pairs: set[Pair] = set()
    for usage, of_usage in _pairs_by_usage(rows, columns, len(capacities)).items():
        if (np.asarray(usage) <= room).all():
            pairs |= of_usage
    return frozenset(p for p in pairs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in pairs))


@cache
def _pairs_by_usage(rows: int, columns: int, domains: int) -> dict[Usage, set[Pair]]:
    """(S, R) of all assignments, by how many cells the domains hold, in descending order."""
    patterns = np.array(list(product(range(domains), repeat=columns)))
    cells_in = np.stack([(patterns == k).sum(axis=1) for k in range(domains)], axis=1)
    bits = 1 << patterns
    row_spread = np.bitwise_count(np.bitwise_or.reduce(bits, axis=1))
    base = rows * columns + 1
    found: dict[Usage, set[Pair]] = {}
    for chosen in _chunks(len(patterns), rows):
        usage = np.sort(cells_in[chosen].sum(axis=1), axis=1)[:, ::-1]
        dp = np.bitwise_count(np.bitwise_or.reduce(bits[chosen], axis=1)).max(axis=1)
        pp = row_spread[chosen].max(axis=1)
        codes = np.column_stack([usage, dp, pp]) @ base ** np.arange(domains + 2)
        for i in np.unique(codes, return_index=True)[1]:
            found.setdefault(tuple(usage[i].tolist()), set()).add((int(dp[i]), int(pp[i])))
    return found


def _chunks(patterns: int, rows: int) -> Iterator[npt.NDArray[np.int64]]:
    """All multisets of rows, shape [some, rows] at a time."""
    every = combinations_with_replacement(range(patterns), rows)
    while some := list(islice(every, _CHUNK)):
        yield np.array(some)


def instances(*, rows: int, columns: int, domains: int, largest: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """All grids of up to that size on up to that many domains of up to that capacity, that have room for all cells."""
    for d, p, k in product(range(1, rows + 1), range(1, columns + 1), range(1, domains + 1)):
        for capacities in combinations_with_replacement(range(largest, 0, -1), k):
            if sum(capacities) >= d * p:
                yield d, p, capacities
