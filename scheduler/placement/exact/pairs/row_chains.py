"""Chains of domains: rows that touch at most R domains each, whatever the columns touch, by counting alone.

Where one spread has no affinity the other is all of the objective.  The m largest domains that hold all D * P cells
are enough for rows on R domains wherever m <= D (R - 1) + 1 (docs: exact.md), and the rows are made one after another.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

import numpy as np

from scheduler.placement.exact.grid.problem import GridProblem
from topology.cluster import IntArray

Part = tuple[int, int]
"""Cells, and the domain that they lie on."""


def chained_rows(problem: GridProblem) -> IntArray:
    """Return the domain of each cell, shape [rows, columns]: rows on the fewest domains that a single chain needs."""
    parts = shrunk([(c, k) for k, c in enumerate(problem.capacities)], problem.cells)
    most = max(1, 1 - (1 - len(parts)) // problem.rows)
    return laid_out(chain(parts, problem.rows, problem.columns, most), problem)


def shrunk(parts: Sequence[Part], cells: int) -> list[Part]:
    """Return the first parts that hold so many cells, the last of them as small as that allows."""
    kept: list[Part] = []
    for size, domain in parts:
        kept.append((min(size, cells), domain))
        cells -= size
        if cells <= 0:
            break
    return kept


def chain(parts: Sequence[Part], rows: int, width: int, most: int) -> list[list[Part]]:
    """Return the parts of each row: ``most`` of them at the most, ``width`` cells together.

    :param parts: ``rows * width`` cells together, and ``rows * (most - 1) + 1`` parts at the most.
    """
    made: list[list[Part]] = []
    left = sorted(parts)
    for rest in range(rows, 0, -1):
        first, inside = 0, sum(size for size, _ in left[: most - 1])
        if len(left) <= most or inside > width:
            return made + _one_by_one(left, rest, width)
        # a window of parts that is filled up from the largest, moved to larger ones until that is enough
        size, domain = left.pop()
        while inside + size < width:
            inside += left[first + most - 1][0] - left[first][0]
            first += 1
        last = first + most - 1
        made.append(left[first:last] + ([(width - inside, domain)] if inside < width else []))
        del left[first:last]
        if size > width - inside:
            insort(left, (size - width + inside, domain))
    return made


def _one_by_one(parts: Sequence[Part], rows: int, width: int) -> list[list[Part]]:
    """Return the parts of each row where one part is used up after another."""
    made: list[list[Part]] = [[] for _ in range(rows)]
    row, free = 0, width
    for part, domain in parts:
        size = part
        while size:
            here = min(size, free)
            made[row].append((here, domain))
            size, free = size - here, free - here
            if not free:
                row, free = row + 1, width
    return made


def laid_out(rows: Sequence[Sequence[Part]], problem: GridProblem) -> IntArray:
    """Return the domain of each cell, shape [rows, columns], where a column touches few domains.

    Each row puts its parts on columns that their domains touch already, of equal ones on those that touch the fewest.
    """
    columns = problem.columns
    touched: dict[int, set[int]] = {}
    load = [0] * columns
    cells = np.empty((problem.rows, columns), dtype=np.int32)
    for i, row in enumerate(sorted(rows, key=len)):
        free = list(range(columns))
        # domains that all columns touch take what the others leave
        order = sorted(row, key=lambda part: len(touched.get(part[1], ())) == columns)
        for number, (size, domain) in enumerate(order):
            own = touched.setdefault(domain, set())
            others = [touched.get(other, set()) for _, other in order[number + 1 :]]
            free.sort(key=lambda j: ((j not in own) - any(j not in one for one in others), load[j]))
            for j in free[:size]:
                cells[i, j] = domain
                if j not in own:
                    own.add(j)
                    load[j] += 1
            free = free[size:]
    return cells
