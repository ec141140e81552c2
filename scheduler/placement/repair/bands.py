"""Few moves where a placement has bands: columns that lie in the same domain as each other, in nearly every row.

Most good placements are made so: with b bands a row touches b domains at most, and a column those that its band uses.
To keep the bands and move whole *segments* (the cells of one row in one band) between domains is a problem of counts,
small whatever the number of nodes:

    h[j, k] = kept[j, k] + new[j, k]                   segments of band j in domain k
    sum_k h[j, k] = rows,  sum_j width_j * h[j, k] <= room_k,  h[j, k] > 0 for at most S domains of each band
    min  sum width_j * new[j, k]  +  lost cells of the segments that are kept
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.placement.admission import BoolArray
from scheduler.placement.types import Limits
from topology.cluster import IntArray

_NEARLY = 0.5
"""Columns are of one band when they agree in more than this part of the rows; losses and repairs blur the bands."""


@dataclass(frozen=True, slots=True)
class _Segments:
    """Segments of one band that have the same home and the same number of lost cells."""

    band: int
    home: int
    lost: int
    rows: IntArray


def bands_of(old: IntArray) -> IntArray:
    """The band of each column, shape [columns].

    :param old: shape [rows, columns], the domain of each cell.
    """
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
    """The fewest moves that keep the bands, each in at most so many domains.

    :param old: shape [rows, columns], the domain of each cell before.
    :param stays: same shape, the cells whose node is still good.
    :param band_of: shape [columns].
    :param room: shape [domains], cells each domain can take.
    :param most: S, domains that a band may use.
    :param limits: seconds, workers and seed of the solver.
    :returns: shape [rows, columns], the domain of each cell; ``None`` when the bands cannot be kept, or time runs out.
    """
    from ortools.sat.python import cp_model

    rows, domains = len(old), range(len(room))
    widths = np.bincount(band_of).tolist()
    segments = list(_segments(old, stays, band_of))
    model = cp_model.CpModel()
    kept = [model.new_int_var(0, len(one.rows), "") for one in segments]
    new = [[model.new_int_var(0, rows, "") for _ in domains] for _ in widths]
    held = [[cp_model.LinearExpr.sum([count]) for count in counts] for counts in new]
    for one, stay in zip(segments, kept, strict=True):
        held[one.band][one.home] += stay
    for counts in held:
        used = [model.new_bool_var("") for _ in domains]
        for count, use in zip(counts, used, strict=True):
            model.add(count <= rows * use)
        model.add(sum(used) <= most)
        model.add(sum(counts) == rows)
    for k in domains:
        model.add(sum(width * counts[k] for width, counts in zip(widths, held, strict=True)) <= int(room[k]))
    model.minimize(
        sum(width * sum(counts) for width, counts in zip(widths, new, strict=True))
        + sum(one.lost * stay for one, stay in zip(segments, kept, strict=True))
    )
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limits.seconds
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    answer = np.empty_like(old)
    for j, coming in enumerate(new):
        mine = [(one, solver.value(stay)) for one, stay in zip(segments, kept, strict=True) if one.band == j]
        domain = np.empty(rows, dtype=np.int32)
        for one, staying in mine:
            domain[one.rows[:staying]] = one.home
        leaving = np.sort(np.concatenate([one.rows[staying:] for one, staying in mine]))
        domain[leaving] = np.repeat(np.arange(len(room)), [solver.value(count) for count in coming])
        answer[:, band_of == j] = domain[:, None]
    return answer


def _segments(old: IntArray, stays: BoolArray, band_of: IntArray) -> Iterator[_Segments]:
    """The segments of all bands; the home of one is where most of its cells were."""
    for band in range(int(band_of.max()) + 1):
        inside = old[:, band_of == band]
        votes = (inside[:, :, None] == inside[:, None, :]).sum(axis=2)
        home = inside[np.arange(len(old)), votes.argmax(axis=1)]
        lost = ((inside != home[:, None]) | ~stays[:, band_of == band]).sum(axis=1)
        kinds, kind_of = np.unique(np.stack([home, lost], axis=1), axis=0, return_inverse=True)
        for kind, (domain, cells) in enumerate(kinds.tolist()):
            yield _Segments(band, domain, cells, np.flatnonzero(kind_of.ravel() == kind).astype(np.int32))
