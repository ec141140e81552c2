"""Few moves from one placement to another as good, by domains alone: renamed lines, and bands moved in segments.

Spread does not change when rows change places, or columns, or domains that can take each other's cells
(:func:`relabel`).  And most good placements have bands, columns that lie in the same domain as each other in nearly
every row: with b bands a row touches b domains at most, and a column those that its band uses.  To keep the bands and
move whole *segments* (the cells of one row in one band) between domains (:func:`move_segments`) is a problem of counts,
small whatever the number of nodes:

    h[j, k] = kept[j, k] + new[j, k]         segments of band j in domain k: some have cells there that stay, some not
    sum_k h[j, k] = rows,  sum_j width_j * h[j, k] <= room_k,  h[j, k] > 0 for at most S domains of each band
    max  cells that stay
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.placement.solver_clock import limit_time, work_of
from scheduler.placement.types import Limits
from scheduler.work_clock import spend
from topology.cluster import BoolArray, IntArray

_MOST_LINES = 2_000  # More rows than this are matched as they come: the assignment has rows squared arcs
_NEARLY = 0.5
"""Columns are of one band when they agree in more than this part of the rows; losses and repairs blur the bands."""


def relabel(new: IntArray, old: IntArray, *, room: IntArray) -> IntArray:
    """Rename the rows, columns and domains of the new placement so that it agrees with the old one.

    Each renaming that keeps most cells where they are is a linear assignment; the three take turns until nothing
    improves.

    :param new: shape [rows, columns], the domain of each cell.
    :param old: same shape, the domain of each cell before; -1 where the cell must move anyway.
    :param room: shape [domains], cells each domain can take.
    :returns: same shape: as good in spread as ``new``, and with at least as many cells as before.
    """
    best, kept = new, _kept(new, old)
    while True:
        renamed = _rename_domains(best, old, room)
        renamed = _rename_rows(renamed.T, old.T).T
        renamed = _rename_rows(renamed, old)
        if _kept(renamed, old) <= kept:
            return best
        best, kept = renamed, _kept(renamed, old)


def _kept(new: IntArray, old: IntArray) -> int:
    return int((new == old).sum())


def _rename_rows(new: IntArray, old: IntArray) -> IntArray:
    rows = len(new)
    if rows > _MOST_LINES:
        return new
    agreement = np.zeros((rows, rows), dtype=np.int64)
    for column in range(new.shape[1]):
        agreement += old[:, column, None] == new[None, :, column]
    return new[_assign(agreement, np.ones_like(agreement, dtype=np.bool_))]


def _rename_domains(new: IntArray, old: IntArray, room: IntArray) -> IntArray:
    """Rename domain k of the new placement to the domain that keeps most of its cells and can take them all."""
    used = np.bincount(new.ravel(), minlength=len(room))
    stays = old >= 0
    agreement = np.zeros((len(room), len(room)), dtype=np.int64)
    np.add.at(agreement, (new[stays], old[stays]), 1)
    renamed: IntArray = _assign(agreement, used[:, None] <= room[None, :]).astype(np.int32)[new]
    return renamed


def _assign(gain: npt.NDArray[np.int64], allowed: BoolArray) -> npt.NDArray[np.int64]:
    """Return the column of each row in a matching of greatest gain; each row may keep its own number."""
    from ortools.graph.python import linear_sum_assignment

    left, right = np.nonzero(allowed)
    assignment = linear_sum_assignment.SimpleLinearSumAssignment()
    assignment.add_arcs_with_cost(left, right, -gain[left, right])
    assignment.solve()
    return np.array([assignment.right_mate(i) for i in range(len(gain))], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Segments:
    """Rows of one band with like segments; domain -> cells of each that stay when the segment goes, or is, there."""

    band: int
    rows: IntArray
    staying: Mapping[int, int]


def bands_of(old: IntArray) -> IntArray:
    """Return the band of each column, shape [columns], from the domain of each cell, shape [rows, columns]."""
    band_of: list[int] = []
    firsts: list[int] = []
    for column in range(old.shape[1]):
        agree = (float((old[:, column] == old[:, first]).mean()) for first in firsts)
        band = next((band for band, share in enumerate(agree) if share > _NEARLY), len(firsts))
        if band == len(firsts):
            firsts.append(column)
        band_of.append(band)
    return np.array(band_of, dtype=np.int32)


def move_segments(
    old: IntArray, stays: BoolArray, *, band_of: IntArray, room: IntArray, most: int, limits: Limits
) -> IntArray | None:
    """Find the fewest moves that keep the bands, each in at most so many domains.

    :param old: shape [rows, columns], the domain of each cell before.
    :param most: S, domains that a band may use.
    :returns: shape [rows, columns], the domain of each cell; ``None`` when the bands cannot be kept, or time runs out.
    """
    from ortools.sat.python import cp_model

    rows, domains = len(old), range(len(room))
    widths = np.bincount(band_of).tolist()
    segments = list(_segments(old, stays, band_of))
    model = cp_model.CpModel()
    new = [[model.new_int_var(0, rows, "") for _ in domains] for _ in widths]
    kept = [{k: model.new_int_var(0, len(one.rows), "") for k in one.staying} for one in segments]
    held = [[cp_model.LinearExpr.sum([count]) for count in counts] for counts in new]
    for one, at in zip(segments, kept, strict=True):
        # those of a kind that go nowhere they have cells are among the new ones
        model.add(sum(at.values()) <= len(one.rows))
        for k, count in at.items():
            held[one.band][k] += count
    for counts in held:
        used = [model.new_bool_var("") for _ in domains]
        for segments_here, use in zip(counts, used, strict=True):
            model.add(segments_here <= rows * use)
        model.add(sum(used) <= most)  # a column touches the domains of its band
        model.add(sum(counts) == rows)  # every row of the band lies in one domain
    for k in domains:
        # segments of all bands within what the domain can take
        model.add(sum(width * counts[k] for width, counts in zip(widths, held, strict=True)) <= int(room[k]))
    pairs = list(zip(segments, kept, strict=True))
    model.maximize(sum(one.staying[k] * count for one, at in pairs for k, count in at.items()))
    solver = cp_model.CpSolver()
    limit_time(solver, limits.seconds)
    # threads that take turns: the answer is the same with any number of them
    solver.parameters.interleave_search = True
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    status = solver.solve(model)
    spend(work_of(solver, model))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    stay = [{k: solver.value(count) for k, count in at.items()} for at in kept]
    come = [[solver.value(count) for count in counts] for counts in new]
    return _domains_of_cells(rows, band_of, segments, stay=stay, come=come)


def _domains_of_cells(
    rows: int,
    band_of: IntArray,
    segments: Sequence[_Segments],
    *,
    stay: Sequence[Mapping[int, int]],
    come: Sequence[Sequence[int]],
) -> IntArray:
    """Return the domain of each cell, shape [rows, columns].

    :param stay: for each kind of segments, domain -> how many of them lie there, where they have cells.
    :param come: for each band and domain, how many segments lie there that have no cells there.
    """
    answer = np.empty((rows, len(band_of)), dtype=np.int32)
    for band, coming in enumerate(come):
        domain = np.empty(rows, dtype=np.int32)
        leaving = []
        for one, at in zip(segments, stay, strict=True):
            if one.band == band:
                places = np.repeat(list(at), list(at.values()))
                domain[one.rows[: len(places)]] = places
                leaving += one.rows[len(places) :].tolist()
        domain[sorted(leaving)] = np.repeat(np.arange(len(coming)), coming)
        answer[:, band_of == band] = domain[:, None]
    return answer


def _segments(old: IntArray, stays: BoolArray, band_of: IntArray) -> Iterator[_Segments]:
    """Yield the segments of all bands, band by band."""
    for band in range(int(band_of.max()) + 1):
        inside = np.where(stays, old, -1)[:, band_of == band]
        rows_of: dict[tuple[int, ...], list[int]] = {}
        for row, cells in enumerate(np.sort(inside, axis=1).tolist()):
            rows_of.setdefault(tuple(cells), []).append(row)
        for cells, rows in rows_of.items():
            staying = Counter(cell for cell in cells if cell >= 0)
            yield _Segments(band, np.array(rows, dtype=np.int32), staying)
