"""Column bands: the columns are cut into b <= R bands of widths w_1 >= ... >= w_b.

In each band every row lies in one domain, so a row touches at most b domains; with at most S domains in each band a
column touches at most S.  What is left to choose is how many rows each domain hosts in each band: K * b integers,
milliseconds for CP-SAT, whatever the number of nodes.  Most bands are found without it
(:mod:`scheduler.placement.exact.tabu_bands`); here any domain may serve several bands, with all its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.placement.exact.cpsat import Slice, solve
from scheduler.placement.exact.problem import GridProblem
from topology.cluster import IntArray


def partitions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as that many positive parts in descending order, the most even first."""

    def with_largest(left: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
        if parts == 1:
            if left <= largest:
                yield (left,)
            return
        for first in range(-(-left // parts), min(largest, left - parts + 1) + 1):
            for rest in with_largest(left - first, parts - 1, first):
                yield (first, *rest)

    return with_largest(total, parts, total)


def shared_bands(problem: GridProblem, *, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """Return a placement with these column bands and at most ``dp`` domains in each; a domain may serve several.

    :param widths: widths of the bands, sum = columns.
    :returns: shape [rows, columns], the domain of each cell; ``None`` when none was found.
    """
    rows_in = _share_out(problem, dp, widths, limit)
    return None if rows_in is None else lay_bands(problem, widths, rows_in)


def lay_bands(problem: GridProblem, widths: Sequence[int], rows_in: IntArray) -> IntArray:
    """Return the domain of each cell, shape [rows, columns], from the rows of each domain in each band.

    :param rows_in: shape [domains, bands]; rows of a band beyond D are left out.
    """
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    left = 0
    for band, width in enumerate(widths):
        domains = np.repeat(np.arange(rows_in.shape[0], dtype=np.int32), rows_in[:, band])
        cells[:, left : left + width] = domains[: problem.rows, None]
        left += width
    return cells


def _share_out(problem: GridProblem, dp: int, widths: Sequence[int], limit: Slice) -> IntArray | None:
    """Return the rows that each domain hosts in each band, shape [domains, bands]; a domain may serve several bands."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    # S domains in each of b bands are at most S * b, and the largest do as well as any
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
        # every row of the band lies in a domain
        model.add(sum(hosts[k, band] for k in range(len(capacities)) if (k, band) in hosts) == problem.rows)
        # a column of the band touches all domains of the band
        model.add(sum(uses) <= dp)
    for k, capacity in enumerate(capacities):
        load = [width * hosts[k, band] for band, width in enumerate(widths) if (k, band) in hosts]
        # one band alone is within the capacity by the bound of its variable
        if len(load) > 1:
            model.add(sum(load) <= capacity)
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    rows_in = np.zeros((len(capacities), len(widths)), dtype=np.int32)
    for (k, band), variable in hosts.items():
        rows_in[k, band] = solver.value(variable)
    return rows_in
