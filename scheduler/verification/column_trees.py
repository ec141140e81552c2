"""Row touches of a group of v domains and v - 1 columns: a tree, each column of which joins two domains.

Cut a column: one side is a set U of domains with |U| - 1 columns among them, so of the column cut it holds what its
domains have beyond these, its *share*, cap(U) - (|U| - 1) D; less, by no more than the waste of the group, where cells
stay free.  The domain at the other end holds the rest of the column.  A domain touches as many rows as it holds cells
of any one column, or more.
"""

from __future__ import annotations

from functools import cache

_NEVER = 1 << 40  # More row touches than any grid has


def fewest_tree_rows(capacities: tuple[int, ...], rows: int) -> int:
    """Return a lower bound on the row touches of all domains of a tree.

    :param rows: D, cells of a column.
    """
    every = (1 << len(capacities)) - 1
    waste = sum(capacities) - (len(capacities) - 1) * rows

    @cache
    def share(some: int) -> int:
        held = sum(capacity for k, capacity in enumerate(capacities) if some >> k & 1)
        return held - (some.bit_count() - 1) * rows

    @cache
    def least(some: int) -> int:
        """Return the row touches of the domains on one side of a column, whichever of them the column ends at."""
        own = max(0, share(some) - waste)
        return min(rooted(some ^ 1 << k, own) for k in range(len(capacities)) if some >> k & 1)

    @cache
    def rooted(others: int, own: int) -> int:
        """Return the row touches of a domain with ``own`` or more and of the others, in branches that end at it."""
        if not others:
            return own
        first, best = others & -others, _NEVER
        rest = others ^ first
        more = rest
        while True:
            branch = first | more
            if 0 <= share(branch) <= rows + waste:
                # the largest share of the branch leaves the domain the fewest cells of the column
                best = min(best, least(branch) + rooted(others ^ branch, max(own, rows - share(branch))))
            if not more:
                return best
            more = (more - 1) & rest

    return rooted(every ^ 1, 0)
