"""S = 2: the fewest rows that the domains of one component touch, and the columns that they share in it.

A domain of *width* q serves q of the e columns and touches as many rows as is its *height* r, so it holds q r cells or
fewer.  A column on two domains is full only if their heights reach D together.  So domains lower than D / 2 share no
column with each other, and those up to a height t share all their columns with domains of height D - t or more, which
serve as many columns and hold, with them, all cells of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import inf

import numpy as np

from scheduler.placement.exact.components.component_columns import Columns, share_columns
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, IndexArray, IntArray

# Of work: to look at a shape of a domain beside those before it, and to look for the columns of shapes
_STATE_SECONDS, _GRAPH_SECONDS = 2e-7, 1e-4

NEVER = 1 << 20  # More row touches than any placement has
_TABLES = 256  # Tables kept at a time: a loose cluster has large ones, some hundred kilobytes each


@dataclass(frozen=True, slots=True)
class Touches:
    """What is known of the row touches of a component."""

    rows: int  # at least
    columns: Columns | None = (
        None  # with which so few may be enough: the domains of each, by their place; None = unknown
    )


class ComponentHeights:
    """Least sums of rows of components of one grid; tables are kept from one to the next.

    :param height: D, cells of a column.
    :param waste: most cells that a component has to spare.
    """

    def __init__(self, height: int, waste: int) -> None:
        self._height, self._waste = height, waste
        self._table: Callable[[tuple[int, ...], int], IntArray] = lru_cache(_TABLES)(self._make_table)
        self._options: Callable[[int, int, int], IndexArray] = lru_cache(_TABLES)(self._make_options)

    def rectangles(self, capacities: tuple[int, ...], columns: int) -> int:
        """Return the least sum of rows with which rectangles cover the component, with two domains for each column."""
        waste = sum(capacities) - columns * self._height
        return max(self._height, int(self._table(capacities, columns)[2 * columns, columns, waste]))

    def touches(
        self,
        capacities: tuple[int, ...],
        columns: int,
        *,
        at_least: int,
        at_most: int,
        states: int,
        graphs: int,
        end: float = inf,
    ) -> Touches:
        """Return the least sum of rows from one number to another, ``at_most + 1`` where none is enough.

        :param states: widths and heights that are compared at a time; where there are more the search ends with what is
            known until then.
        :param graphs: most widths and heights for which columns are looked for.
        :param end: when it ends with what is known until then, on the clock: thousands of graphs take seconds.
        """
        for rows in range(at_least, at_most + 1):
            found = self._shapes(capacities, columns, rows, states)
            if found is None:
                return Touches(rows)
            for widths, heights in islice(zip(*found, strict=True), graphs):
                spend(_GRAPH_SECONDS)
                shared = share_columns(capacities, widths.tolist(), heights.tolist(), columns, self._height)
                if shared is not None:
                    return Touches(rows, shared)
                if clock() >= end:
                    return Touches(rows)
            if len(found[0]) > graphs:
                return Touches(rows)
        return Touches(max(at_least, at_most + 1))

    def _make_table(self, capacities: tuple[int, ...], columns: int) -> IntArray:
        """Return the least sum of rows within each sum of widths, of widths of domains lower than D / 2, and of waste.

        :returns: shape [2 * columns + 1, columns + 1, waste + 1].
        """
        if not capacities:
            return np.zeros((2 * columns + 1, columns + 1, self._waste + 1), dtype=np.int32)
        before = self._table(capacities[:-1], columns)
        table = np.full_like(before, NEVER)
        capacity, half = capacities[-1], (self._height + 1) // 2
        for width in range(1, min(columns, capacity) + 1):
            rows = min(self._height, -(-capacity // width))
            if rows < half <= capacity:
                # higher than its cells need, so that it may share columns with low ones
                part = table[width:]
                np.minimum(part, before[: len(before) - width] + half, out=part)
            # with fewer rows it wastes more; in each of its columns it holds a cell
            while rows and (waste := max(0, capacity - rows * width)) <= min(self._waste, capacity - width):
                low = width if 2 * rows < self._height else 0
                part = table[width:, low:, waste:]
                rest = before[: len(before) - width, : columns + 1 - low, : self._waste + 1 - waste]
                np.minimum(part, rest + rows, out=part)
                rows -= 1
        return table

    def _shapes(
        self, capacities: tuple[int, ...], columns: int, rows: int, states: int
    ) -> tuple[IndexArray, IndexArray] | None:
        """Return widths and heights of all domains with so many rows in all, shape [choices, domains] each.

        ``None`` where there are too many.  Domains join one by one from the smallest on, all choices side by side.
        """
        waste = sum(capacities) - columns * self._height
        # what is left: widths, widths of low domains, waste, rows
        left: IndexArray = np.array([[2 * columns, columns, waste, rows]], dtype=np.int64)
        widths: IndexArray = np.empty((1, 0), dtype=np.int64)
        heights = widths
        for i, capacity in reversed(list(enumerate(capacities))):
            table = self._table(capacities[:i], columns)
            options = self._options(capacity, columns, waste)
            # the other domains need some rows too
            options = options[options[:, 1] <= int(left[:, 3].max(initial=0) - table[-1, -1, waste])]
            if len(left) * len(options) > states:
                return None
            spend(_STATE_SECONDS * len(left) * len(options))
            new = left[:, None, :] - options[:, 2:][None, :, :]
            state, option = np.nonzero(new.min(axis=2) >= 0)
            left = new[state, option]
            # what the other domains need within that
            enough = table[left[:, 0], left[:, 1], left[:, 2]] <= left[:, 3]
            left, state, option = left[enough], state[enough], option[enough]
            widths = np.column_stack([options[option, 0], widths[state]])
            heights = np.column_stack([options[option, 1], heights[state]])
            joined = self._joined(widths, heights, left[:, 0])
            left, widths, heights = left[joined], widths[joined], heights[joined]
        whole = np.where(heights == self._height, widths, 0).sum(axis=1)
        # widths not used are columns on one domain alone, which touches all rows; v - 1 others join the domains
        good = (left[:, 3] == 0) & (left[:, 0] <= np.minimum(whole, columns - len(capacities) + 1))
        good[good] &= self._filled(np.asarray(capacities), widths[good], heights[good])
        return widths[good], heights[good]

    def _make_options(self, capacity: int, columns: int, waste: int) -> IndexArray:
        """Return the shapes of one domain: width, height, and what they take of widths, low widths, waste and rows."""
        shapes = []
        for width in range(1, min(columns, capacity) + 1):
            for height in range(-(-(capacity - waste) // width), min(self._height, capacity) + 1):
                if height > 0:
                    low = width if 2 * height < self._height else 0
                    shapes.append((width, height, width, low, max(0, capacity - width * height), height))
        table: IndexArray = np.array(shapes, dtype=np.int64).reshape(-1, 6)
        return table

    def _joined(self, widths: IndexArray, heights: IndexArray, left: IndexArray) -> BoolArray:
        """Return where low domains find partners enough for their columns, those that are to come included.

        :param left: shape [choices], widths of domains to come.
        """
        good = np.ones(len(widths), dtype=np.bool_)
        for low in heights.T:
            lower = np.where(heights <= low[:, None], widths, 0).sum(axis=1)
            partners = np.where(heights >= self._height - low[:, None], widths, 0).sum(axis=1)
            good &= (2 * low >= self._height) | (lower <= partners + left)
        return good

    def _filled(self, capacities: IndexArray, widths: IndexArray, heights: IndexArray) -> BoolArray:
        """Return where low domains and their partners hold the cells of the columns of the low ones."""
        good = np.ones(len(widths), dtype=np.bool_)
        cells = np.minimum(capacities, widths * heights)
        for low in heights.T:
            lower, partners = heights <= low[:, None], heights >= self._height - low[:, None]
            wanted = self._height * np.where(lower, widths, 0).sum(axis=1)
            good &= (2 * low >= self._height) | (wanted <= np.where(lower | partners, cells, 0).sum(axis=1))
        return good
