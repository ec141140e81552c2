"""Column bands, the workhorse among the constructions.

Cut the columns into b <= R bands of widths w_1 >= ... >= w_b.  In each band every row lies in one domain, so a row
touches at most b domains; with at most S domains in each band a column touches at most S.  What is left to choose is
how many rows each domain hosts in each band: K * b integers, milliseconds for CP-SAT, whatever the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.placement.exact.cpsat import Slice, solve
from scheduler.placement.exact.problem import GridProblem
from topology.cluster import IntArray


def partitions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as that many positive parts in descending order, the most even first."""

    def with_largest(left: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
        if parts == 1:
            if left <= largest:
                yield (left,)
            return
        for first in range(-(-left // parts), min(largest, left - parts + 1) + 1):
            for rest in with_largest(left - first, parts - 1, first):
                yield (first, *rest)

    return with_largest(total, parts, total)


def column_bands(
    problem: GridProblem, *, dp: int, widths: Sequence[int], limit: Slice, whole: bool = False
) -> IntArray | None:
    """A placement with these column bands and at most ``dp`` domains in each.

    :param widths: widths of the bands, sum = columns.
    :param whole: each domain serves one band only, with all the rows it can: faster on clusters of many nodes.
    :returns: shape [rows, columns], the domain of each cell; ``None`` when none was found.
    """
    rows_in = _binary(problem, dp, widths, limit) if whole else _shared(problem, dp, widths, limit)
    if rows_in is None:
        return None
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    left = 0
    for band, width in enumerate(widths):
        domains = np.repeat(np.arange(rows_in.shape[0], dtype=np.int32), rows_in[:, band])
        cells[:, left : left + width] = domains[:, None]
        left += width
    return cells


def _shared(problem: GridProblem, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """Rows that each domain hosts in each band, shape [domains, bands]; a domain may serve several bands."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    capacities = problem.capacities[: dp * len(widths)]
    hosts: dict[tuple[int, int], cp_model.IntVar] = {}
    for band, width in enumerate(widths):
        uses = []
        for k, capacity in enumerate(capacities):
            if top := min(problem.rows, capacity // width):
                hosts[k, band] = model.new_int_var(0, top, "")
                use = model.new_bool_var("")
                model.add(hosts[k, band] <= top * use)
                uses.append(use)
        if not uses:
            return None
        model.add(sum(hosts[k, band] for k in range(len(capacities)) if (k, band) in hosts) == problem.rows)
        model.add(sum(uses) <= dp)
    for k, capacity in enumerate(capacities):
        load = [width * hosts[k, band] for band, width in enumerate(widths) if (k, band) in hosts]
        if len(load) > 1:
            model.add(sum(load) <= capacity)
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    rows_in = np.zeros((len(capacities), len(widths)), dtype=np.int32)
    for (k, band), variable in hosts.items():
        rows_in[k, band] = solver.value(variable)
    return rows_in


def _binary(problem: GridProblem, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """The same with each domain in one band: a choice of band for each domain, equal bands in descending order."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    serves: dict[tuple[int, int], cp_model.IntVar] = {}
    for k, capacity in enumerate(problem.capacities):
        for band, width in enumerate(widths):
            if capacity >= width:
                serves[k, band] = model.new_bool_var("")
        model.add_at_most_one(serves[k, band] for band in range(len(widths)) if (k, band) in serves)
    for band, width in enumerate(widths):
        here = [k for k in range(len(problem.capacities)) if (k, band) in serves]
        if not here:
            return None
        rows = sum(min(problem.rows, problem.capacities[k] // width) * serves[k, band] for k in here)
        model.add(rows >= problem.rows)
        model.add(sum(serves[k, band] for k in here) <= dp)
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    rows_in = np.zeros((len(problem.capacities), len(widths)), dtype=np.int32)
    for band, width in enumerate(widths):
        left = problem.rows
        for k in range(len(problem.capacities)):
            if (k, band) in serves and solver.value(serves[k, band]):
                rows_in[k, band] = min(left, problem.capacities[k] // width)
                left -= int(rows_in[k, band])
    return rows_in
