"""A grid inside a job whose stages share nodes: rows in PP groups, columns in DP groups, no node twice.

A part of a group touches no more domains than the group.  So what the search of pairs refutes of the grid is refuted of
the job; and a good placement of the grid is most of one of the job, as few nodes are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.node_grid import Grid
from topology.cluster import IntArray

_MOST = 0.9  # Part of the cells in a grid from which no other choice of columns is looked at


def embedded_grid(grid: Grid) -> IntArray:
    """Return the cells of a large grid, shape [rows, columns], both at least 1."""
    columns_of: dict[int, list[int]] = {}
    columns = grid.groups["dp"].members
    for column, members in enumerate(columns):
        for cell in members:
            columns_of.setdefault(cell, []).append(column)
    lines = grid.groups["pp"].members
    best = _rows(lines, columns_of, range(len(columns)))
    if np.size(best) < _MOST * grid.cells:
        # one column after another, each if the grid gets larger by it
        chosen, found = list[int](), list[list[int]]()
        for column in range(len(columns)):
            rows = _rows(lines, columns_of, [*chosen, column])
            if np.size(rows) > np.size(found):
                chosen, found = [*chosen, column], rows
        best = max(best, found, key=np.size)
    return np.array(best, dtype=np.int32)


def _rows(
    lines: Sequence[tuple[int, ...]], columns_of: Mapping[int, Sequence[int]], columns: Sequence[int]
) -> list[list[int]]:
    """Return rows, one cell of a line for each column, for as many lines as have cells that no row before has."""
    wanted, used = set(columns), set[int]()
    rows = []
    for line in lines:
        free = {cell: [column for column in columns_of[cell] if column in wanted] for cell in line if cell not in used}
        cell_in = _matched(free)
        if len(cell_in) == len(columns):
            rows.append([cell_in[column] for column in columns])
            used.update(cell_in.values())
    return rows


def _matched(columns_of: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return a largest matching of columns to cells: column -> cell."""
    cell_in: dict[int, int] = {}

    def settle(cell: int, tried: set[int]) -> bool:
        for column in columns_of[cell]:
            if column in tried:
                continue
            tried.add(column)
            # a cell that is there already goes to another of its columns, if that can be had
            if column not in cell_in or settle(cell_in[column], tried):
                cell_in[column] = cell
                return True
        return False

    for cell in columns_of:
        settle(cell, set())
    return cell_in
