"""What pairs (S, R) a tiny grid can have, by trying every assignment: the judge of bounds, searches and constructions.

It shares no code with the solver.  The only shortcut: rows are interchangeable, so an assignment is a multiset of rows
(a row says the domain of each of its cells).  One enumeration of all assignments of D x P cells to K domains answers
for every capacity at once: an assignment fits when, both sorted, no domain holds more cells than it has room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, islice, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Pair = tuple[int, int]
Usage = tuple[int, ...]
IntArray = npt.NDArray[np.int64]

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


def width_profiles(rows: int, columns: int, capacities: Sequence[int], pair: Pair) -> set[tuple[tuple[int, int], ...]]:
    """How many columns each domain serves, in every assignment that fits with that S and R.

    :returns: for each assignment (capacity, columns served) of all domains, sorted: equal domains are the same.
    """
    found = set()
    for batch in _assignments(rows, columns, len(capacities)):
        fits = (batch.usage <= np.asarray(capacities)).all(axis=1) & (batch.dp <= pair[0]) & (batch.pp <= pair[1])
        for widths in np.unique(batch.widths[fits], axis=0).tolist():
            found.add(tuple(sorted(zip(capacities, widths, strict=True))))
    return found


class _Batch(NamedTuple):
    """Some assignments: cells in and columns served by each domain (shape [some, domains]), S and R (shape [some])."""

    usage: IntArray
    widths: IntArray
    dp: IntArray
    pp: IntArray


@cache
def _pairs_by_usage(rows: int, columns: int, domains: int) -> dict[Usage, set[Pair]]:
    """(S, R) of all assignments, by how many cells the domains hold, in descending order."""
    found: dict[Usage, set[Pair]] = {}
    for batch in _assignments(rows, columns, domains):
        usage = np.sort(batch.usage, axis=1)[:, ::-1]
        codes = np.column_stack([usage, batch.dp, batch.pp]) @ (rows * columns + 1) ** np.arange(domains + 2)
        for i in np.unique(codes, return_index=True)[1]:
            found.setdefault(tuple(usage[i].tolist()), set()).add((int(batch.dp[i]), int(batch.pp[i])))
    return found


def _assignments(rows: int, columns: int, domains: int) -> Iterator[_Batch]:
    """All of them, up to the order of rows."""
    patterns = np.array(list(product(range(domains), repeat=columns)))
    cells_in = np.stack([(patterns == k).sum(axis=1) for k in range(domains)], axis=1)
    bits = 1 << patterns
    row_spread = np.bitwise_count(np.bitwise_or.reduce(bits, axis=1))
    every = combinations_with_replacement(range(len(patterns)), rows)
    while some := list(islice(every, _CHUNK)):
        chosen = np.array(some)
        of_column = np.bitwise_or.reduce(bits[chosen], axis=1)
        yield _Batch(
            usage=cells_in[chosen].sum(axis=1),
            widths=np.stack([(of_column >> k & 1).sum(axis=1) for k in range(domains)], axis=1),
            dp=np.bitwise_count(of_column).max(axis=1).astype(np.int64),
            pp=row_spread[chosen].max(axis=1).astype(np.int64),
        )


def instances(*, rows: int, columns: int, domains: int, largest: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """All grids of up to that size on up to that many domains of up to that capacity, that have room for all cells."""
    for d, p, k in product(range(1, rows + 1), range(1, columns + 1), range(1, domains + 1)):
        for capacities in combinations_with_replacement(range(largest, 0, -1), k):
            if sum(capacities) >= d * p:
                yield d, p, capacities
