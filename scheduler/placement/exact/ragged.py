"""Ragged bands: for clusters so full that whole rows of a band cannot be cut out of the domains.

As with column bands, but a domain gives a band any number of cells, laid row after row, so that two domains may share
a row of the band.  Nothing is wasted, at the price of one: with b bands a row touches b domains, and one more where a
boundary falls into it.  Turning each band's rows against the others keeps two boundaries out of one row: R = b + 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.placement.exact.cpsat import Slice, solve
from scheduler.placement.exact.problem import GridProblem
from topology.cluster import IntArray


def ragged_bands(problem: GridProblem, *, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """A placement with these column bands and at most ``dp`` domains in each.

    :param widths: widths of the bands, sum = columns.
    :returns: shape [rows, columns], the domain of each cell; ``None`` when none was found.
    """
    cells_in = _share_out(problem, dp, widths, limit)
    if cells_in is None:
        return None
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    domains_in_row = np.zeros(problem.rows, dtype=np.int32)
    left = 0
    for band, width in enumerate(widths):
        used = np.flatnonzero(cells_in[:, band]).astype(np.int32)
        laid = np.repeat(used, cells_in[used, band]).reshape(problem.rows, width)
        touched = 1 + (np.diff(laid, axis=1) != 0).sum(axis=1).astype(np.int32)
        turn = _best_turn(domains_in_row, touched)
        domains_in_row += np.roll(touched, turn)
        cells[:, left : left + width] = np.roll(laid, turn, axis=0)
        left += width
    return cells


def _best_turn(so_far: IntArray, touched: IntArray) -> int:
    """Rows by which to turn a band so that the fullest row is least full, and few rows are."""
    rows = len(so_far)
    steps = np.unique(np.linspace(0, rows - 1, min(rows, 64)).astype(int))
    totals = [np.sort(so_far + np.roll(touched, step))[::-1] for step in steps]
    return int(steps[min(range(len(steps)), key=lambda i: tuple(totals[i][:8]))])


def _share_out(problem: GridProblem, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """Cells that each domain gives to each band, shape [domains, bands], in as few pieces as the model finds."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    capacities = problem.capacities[: dp * len(widths)]
    gives = [[model.new_int_var(0, capacity, "") for _ in widths] for capacity in capacities]
    uses = [[model.new_bool_var("") for _ in widths] for _ in capacities]
    for k, capacity in enumerate(capacities):
        model.add(sum(gives[k]) <= capacity)
        for cells, use in zip(gives[k], uses[k], strict=True):
            model.add(cells <= capacity * use)
    for band, width in enumerate(widths):
        model.add(sum(cells[band] for cells in gives) == problem.rows * width)
        model.add(sum(use[band] for use in uses) <= dp)
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    return np.array([[solver.value(cells) for cells in row] for row in gives], dtype=np.int32)
