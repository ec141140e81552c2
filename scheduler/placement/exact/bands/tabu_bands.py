"""Column bands by tabu search: every domain in one band, moved until each band has room for all rows.

With the widths given, a domain of c cells hosts min(D, floor(c / w)) rows of a band of width w.  A band has S slots for
domains, and a placement exists where the domains in its slots host D rows, for every band.  The search starts with
the domains dealt in order of size, the largest to the widest band, and swaps domains of two bands
(:mod:`scheduler.placement.exact.bands.slot_swaps`), for all partitions of the columns at once.

Where slots stay empty, a domain with room to spare in its band may serve a second one (:func:`_shared_rows`).
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from scheduler.placement.exact.bands.column_bands import lay_bands, partitions
from scheduler.placement.exact.bands.slot_swaps import SlotSwaps
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams, TabuEffort
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair
from topology.cluster import IntArray


def tabu_bands(
    problem: GridProblem, pair: Pair, *, effort: TabuEffort, seed: int, params: ExactParams = DEFAULTS
) -> IntArray | None:
    """Return a placement of whole rows in bands; shape [rows, columns], the domain of each cell.

    :param pair: at most that many domains in a band, at most that many bands.
    :returns: ``None`` when none was found, which proves nothing.
    """
    search = _dealt(problem, pair, params)
    search = search.take(_promising(search)[: min(effort.partitions, max(1, params.tabu_elements // search.swaps))])
    if not len(search):
        return None
    left = search.run(effort.steps, np.random.default_rng(seed))
    complete = np.flatnonzero(left == 0)
    for i in complete if len(complete) else range(len(search)):
        rows_in = _shared_rows(problem, search.widths[i], search.capacities[i], search.slots[i])
        if rows_in is not None:
            return lay_bands(problem.rows, search.widths[i], rows_in)
    return None


def _dealt(problem: GridProblem, pair: Pair, params: ExactParams) -> SlotSwaps:
    """Deal the largest domains, S to a band, the largest to the widest, for each partition of the columns."""
    dp, bands = pair[0], min(pair[1], problem.columns)
    listed = islice(partitions(problem.columns, bands), params.tabu_listed)
    widths = np.array(list(listed), dtype=np.int32)
    count = len(widths)
    capacities = np.zeros(dp * bands, dtype=np.int32)
    some = problem.capacities[: dp * bands]
    capacities[: len(some)] = some
    slots = np.arange(dp * bands, dtype=np.int32).reshape(1, bands, dp).repeat(count, axis=0)
    needs = np.full(widths.shape, problem.rows, dtype=np.int32)
    return SlotSwaps(
        needs, widths, capacities[None].repeat(count, axis=0), slots, np.zeros(slots.shape, dtype=np.bool_)
    )


def _promising(search: SlotSwaps) -> IntArray:
    """Return the partitions with the fewest cells without room first, without those too narrow or too wide for all.

    Of the latter domains do not hold all cells even if each goes to the band that suits it best.  Where slots stay
    empty domains may be shared, and that is not counted.
    """
    order = np.argsort(search.lacking().sum(axis=1), kind="stable").astype(np.int32)
    if not search.capacities[0, -1]:
        return order
    rows = np.minimum(search.needs[:, :, None], search.capacities[:, None] // search.widths[:, :, None])
    held = (rows * search.widths[:, :, None]).max(axis=1).sum(axis=1)
    enough: IntArray = order[(held >= (search.needs * search.widths).sum(axis=1))[order]]
    return enough


def _shared_rows(problem: GridProblem, widths: IntArray, capacities: IntArray, slots: IntArray) -> IntArray | None:
    """Return the rows of each domain in each band, shape [domains, bands]: D in each band.

    Where a band has a row without room and a slot without rows, a domain of another band serves it too, with the nodes
    that its own band leaves over: those for which a row is too wide, and the rows that the band hosts beyond D.

    :param slots: shape [bands, S], the domain in each slot.
    :returns: ``None`` where that is not enough.
    """
    bands = len(widths)
    rows_in = np.zeros((len(capacities), bands), dtype=np.int32)
    home = np.zeros(len(capacities), dtype=np.int32)
    for band in range(bands):
        home[slots[band]] = band
        rows_in[slots[band], band] = np.minimum(problem.rows, capacities[slots[band]] // widths[band])
    beyond = rows_in.sum(axis=0) - problem.rows
    for band in range(bands):
        free = slots.shape[1] - np.count_nonzero(rows_in[:, band])
        while beyond[band] < 0:
            if not free:
                return None
            spare = capacities - rows_in @ widths
            freed = widths[home] * np.minimum(rows_in[np.arange(len(home)), home], np.maximum(0, beyond[home]))
            hosts = np.where(rows_in[:, band] > 0, 0, np.minimum(-beyond[band], (spare + freed) // widths[band]))
            k = int(hosts.argmax())
            if not hosts[k]:
                return None
            rows_in[k, band] = hosts[k]
            beyond[band] += hosts[k]
            free -= 1
            # its own band gives up as many rows as it takes
            given = max(0, -int((spare[k] - hosts[k] * widths[band]) // widths[home[k]]))
            rows_in[k, home[k]] -= given
            beyond[home[k]] -= given
    return rows_in
