"""S = 2: components that are trees, v domains on v - 1 columns, and a quick lower bound on the rows that these touch.

:mod:`scheduler.placement.exact.components.tree_shares` has the number itself, which takes longer.

Cut the column between a subtree and the rest: what the subtree holds beyond its own columns is its *share* of that
column, so its domains alone determine it.  Colour the domains in two classes and give one class the top rows of each of
its columns, the other the bottom rows: then the rows of a domain are nested, and it touches as many as its largest
share, the fewest that it can.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from scheduler.placement.exact.components.component_heights import NEVER


def least_tree(capacities: tuple[int, ...], height: int, waste: int) -> int:
    """Return a lower bound on the row touches of all trees on these domains, exact where nothing is wasted.

    A subtree may waste nothing or all: its share is between s - waste and s, the least counts on the side of the
    subtree and the largest on the other.

    :param height: D, cells of a column.
    :param waste: cells of the domains that stay free.
    """
    room = [0] * (1 << len(capacities))
    for domains in range(1, len(room)):
        lowest = domains & -domains
        room[domains] = room[domains ^ lowest] + capacities[lowest.bit_length() - 1]

    def share(domains: int) -> int:
        """Return what a subtree without waste holds of the column that joins it to the rest."""
        return room[domains] - (domains.bit_count() - 1) * height

    @cache
    def branch(domains: int) -> int:
        """Return the row touches of a subtree: of all its domains as the root the best."""
        own = max(0, share(domains) - waste)
        return min(below(domains ^ 1 << k, own) for k in _places(domains))

    def below(domains: int, own: int) -> int:
        """Return the row touches of a root that touches so many rows or more, and of all branches that hang on it."""
        best = NEVER
        for branches in split(domains):
            root = max([own, *(height - share(part) for part in branches)])
            best = min(best, root + sum(branch(part) for part in branches))
        return best

    @cache
    def split(domains: int) -> tuple[tuple[int, ...], ...]:
        """Return all ways to split domains into branches, each with a share of a column."""
        if not domains:
            return ((),)
        lowest = domains & -domains
        ways = []
        for others in _subsets(domains ^ lowest):
            part = others | lowest
            if 0 <= share(part) <= height + waste:
                ways += [(part, *rest) for rest in split(domains ^ part)]
        return tuple(ways)

    return below((1 << len(capacities)) - 2, 0)


def _places(domains: int) -> Iterator[int]:
    """Yield the domains of a set, each by its place among the capacities."""
    while domains:
        lowest = domains & -domains
        yield lowest.bit_length() - 1
        domains ^= lowest


def _subsets(domains: int) -> Iterator[int]:
    """Yield all subsets, the set itself first."""
    some = domains
    while True:
        yield some
        if not some:
            return
        some = (some - 1) & domains
