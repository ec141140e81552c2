"""S = 2: which domains share a column, for given widths and heights of the domains of one component.

The columns are the edges of a graph, in which domain k has q_k of them; a loop is a column on one domain alone.  Two
domains can share a column if their heights reach D.  Then the one holds in it at least the rows that the other does not
touch, and what both touch goes to either.
"""

from __future__ import annotations

from collections.abc import Sequence

_MOST_DOMAINS = 12  # With more there are too many subsets to look at: that the columns can be filled is taken as given

Columns = tuple[tuple[int, ...], ...]  # the one or two domains of each column


def share_columns(
    capacities: Sequence[int], widths: Sequence[int], heights: Sequence[int], columns: int, height: int
) -> Columns | None:
    """Return columns that join all domains and may be filled within the capacities; ``None`` where there are none.

    :param height: D, cells of a column.
    """
    loops = 2 * columns - sum(widths)
    return _Graph(capacities, heights, height).extend(list(widths), list(capacities), loops, ())


class _Graph:
    """The search for one component: the lowest domain with columns left has the fewest partners, so it comes first."""

    def __init__(self, capacities: Sequence[int], heights: Sequence[int], height: int) -> None:
        self._capacities, self._heights, self._height = capacities, heights, height
        self._order = sorted(range(len(heights)), key=lambda k: heights[k])

    def extend(self, widths: list[int], room: list[int], loops: int, columns: Columns) -> Columns | None:
        """Go on for what is left.

        :param widths: columns that each domain still needs.
        :param room: cells of each domain beyond those that it must hold in the columns so far.
        :param loops: columns that lie on one domain alone.
        """
        lowest = next((k for k in self._order if widths[k]), None)
        if lowest is None:
            return columns if not loops and self._connected(columns) and self._filled(room, columns) else None
        tried = [(lowest, lowest)] if loops and self._heights[lowest] == self._height else []
        # columns of the same domain in the order of their partners
        first = columns[-1][-1] if columns and columns[-1][0] == lowest else lowest
        later = self._order[self._order.index(first) :]
        tried += [(lowest, k) for k in later if k != lowest and widths[k]]
        for one, other in tried:
            column = (one,) if one == other else (one, other)
            must = {k: self._height - self._heights[column[0] + column[-1] - k] for k in column}
            if one == other:
                must = {one: self._height}
            elif self._heights[one] + self._heights[other] < self._height:
                continue
            if any(room[k] < cells for k, cells in must.items()):
                continue
            less = [width - (k in column) for k, width in enumerate(widths)]
            rest = [cells - must.get(k, 0) for k, cells in enumerate(room)]
            found = self.extend(less, rest, loops - (one == other), (*columns, column))
            if found is not None:
                return found
        return None

    def _connected(self, columns: Columns) -> bool:
        """Return whether the columns join all domains."""
        part = list(range(len(self._heights)))
        for column in columns:
            one, other = part[column[0]], part[column[-1]]
            part = [one if k == other else k for k in part]
        return len(set(part)) == 1

    def _filled(self, room: list[int], columns: Columns) -> bool:
        """Return whether rows that both domains of a column touch find room in one of them: Hall's condition."""
        if len(room) > _MOST_DOMAINS:
            return True
        surplus = [
            (1 << one | 1 << other, self._heights[one] + self._heights[other] - self._height)
            for one, other in (column for column in columns if len(column) == 2)
        ]
        for some in range(1, 1 << len(room)):
            cells = sum(rows for both, rows in surplus if both & some == both)
            if cells > sum(c for k, c in enumerate(room) if some >> k & 1):
                return False
        return True
