"""A parcel: the blocks that one domain holds, shared out among the children of the domain; and the best way for all.

A group's spread over racks is the sum over the domains it touches of the racks it touches there.  The score of the job
counts the worst group of each family, so domains are improved one at a time against the sums of all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler.job import Family
from scheduler.placement.seating.shelves import back_and_forth, extent, pieces_of, shelves
from scheduler.rank_groups import CellGroups
from topology.cluster import IntArray

_MOST_WHOLE = 8  # Fillings in whole segments are tried up to this number of shelves


@dataclass(frozen=True, slots=True)
class ParcelGroups:
    """The communication groups of one family that have cells in a parcel."""

    ids: IntArray  # shape [groups], their numbers in the whole job
    pairs: CellGroups  # of a cell of the parcel and an index into `ids`

    def touched(self, child_of_cell: IntArray, children: int) -> IntArray:
        """Return how many children each group touches, shape [groups]."""
        touches = np.zeros((len(self.ids), children), dtype=np.bool_)
        touches[self.pairs.paired(child_of_cell)] = True
        count: IntArray = np.count_nonzero(touches, axis=1).astype(np.int32)
        return count


@dataclass(frozen=True)
class Parcel:
    """What one domain has to share out among its children."""

    rows: IntArray  # shape [blocks], the block row of each block
    columns: IntArray  # shape [blocks], the block column of each block
    capacities: IntArray  # shape [children], blocks each child can take; descending, none of them zero
    block_of_cell: IntArray  # shape [cells], the block each cell of the parcel belongs to
    groups: Mapping[Family, ParcelGroups]  # the communication groups whose spread matters

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def shape(self) -> tuple[bytes, ...]:
        """Equal for parcels that differ only in where they lie: they have the same fillings."""
        groups = (array for groups in self.groups.values() for array in (groups.pairs.cell, groups.pairs.group))
        return tuple(array.tobytes() for array in (*self.pieces, self.capacities, self.block_of_cell, *groups))

    @cached_property
    def pieces(self) -> tuple[IntArray, IntArray, IntArray]:
        """Its rectangles; see :func:`pieces_of`."""
        return pieces_of(self.rows, self.columns)

    @cached_property
    def turns(self) -> tuple[IntArray, ...]:
        """Permutations of the blocks that leave the spread of a filling as it is and change which row or column bears
        it: rows, or columns, of every piece mirrored, or moved on by half of them.

        :returns: shape [blocks] each: each block takes the place of the block named; the first changes nothing.
        """
        piece, row, column = self.pieces
        height, width = extent(piece, row), extent(piece, column)
        positions = (
            (row, column),
            (height - 1 - row, column),
            (row, width - 1 - column),
            ((row + height // 2) % height, column),
            (row, (column + width // 2) % width),
        )
        places = np.lexsort((column, row, piece))
        turns = []
        for new_row, new_column in positions:
            turn = np.empty(len(self), dtype=np.int32)
            turn[np.lexsort((new_column, new_row, piece))] = places
            turns.append(turn)
        return tuple(turns)


def shelf_fillings(parcel: Parcel) -> Iterator[IntArray]:
    """Yield fillings that need no search, shape [blocks] each: the child of each block.

    A shelf is a band of rows.  It is filled column after column, back and forth in turn, so that a child of c nodes
    takes about c / height columns of it.  One shelf for each row is the row-by-row fill, one shelf of all rows the
    column-by-column fill; the same with rows and columns exchanged.  Filled to the brim, children straddle shelves and
    columns; filled in whole segments (a column within a shelf), they waste a little room and no spread.
    """
    piece = parcel.pieces[0]
    for bands, band, along, across in shelves(parcel.pieces):
        yield _to_the_brim(parcel, back_and_forth(piece, band, along, across))
        if bands <= _MOST_WHOLE and (whole := _in_segments(parcel, piece, band, along)) is not None:
            yield whole


def _to_the_brim(parcel: Parcel, order: npt.NDArray[np.int64]) -> IntArray:
    child = np.empty(len(parcel), dtype=np.int32)
    child[order] = np.searchsorted(np.cumsum(parcel.capacities), np.arange(len(parcel)), side="right")
    return child


def _in_segments(parcel: Parcel, piece: IntArray, band: IntArray, along: IntArray) -> IntArray | None:
    """Put each segment whole in one child; ``None`` when the children have not that many segments."""
    child = np.empty(len(parcel), dtype=np.int32)
    left = parcel.capacities.copy()
    shelf = piece * (int(band.max()) + 1) + band
    for one in np.unique(shelf):
        members = np.flatnonzero(shelf == one)
        width = int(along[members].max()) + 1
        height = len(members) // width
        done = 0
        while done < width:
            fits = left // height
            enough = np.flatnonzero(fits >= width - done)
            chosen = int(enough[fits[enough].argmin()]) if enough.size else int(fits.argmax())
            taken = min(int(fits[chosen]), width - done)
            if not taken:
                return None
            child[members[(along[members] >= done) & (along[members] < done + taken)]] = chosen
            left[chosen] -= taken * height
            done += taken
    return child


_ROUNDS = 3  # Rounds of improvement; two settle nearly all instances


@dataclass(frozen=True, slots=True)
class Weights:
    """What spread at one level costs."""

    # family -> weight of the job's soft terms at this level: part of the job's objective, so it comes first
    soft: Mapping[Family, float]
    affinity: Mapping[Family, float]  # family -> alpha and beta: Eq. 2 one level down


@dataclass(frozen=True, slots=True)
class Filling:
    """One way to share a parcel out."""

    child: IntArray  # shape [blocks], the child of each block
    touched: Mapping[Family, IntArray]  # family -> shape [groups of the parcel], children each group touches
    used: int  # number of children in use


def measure(parcel: Parcel, child: IntArray) -> Filling:
    """Measure the spread of a filling."""
    child_of_cell, children = child[parcel.block_of_cell], len(parcel.capacities)
    touched = {family: groups.touched(child_of_cell, children) for family, groups in parcel.groups.items()}
    return Filling(child, touched, len(np.unique(child)))


def local_score(filling: Filling, weights: Weights) -> tuple[float, ...]:
    """Return how good a filling is when nothing is known of the other domains; less is better."""
    worst = {family: float(touched.max()) for family, touched in filling.touched.items()}
    mean = {family: float(touched.mean()) for family, touched in filling.touched.items()}
    return _rated(worst, mean, filling.used, weights)


def without_twins(fillings: Iterable[Filling]) -> list[Filling]:
    """Return the fillings that differ in spread; the first of each kind."""
    distinct: dict[tuple[bytes, ...], Filling] = {}
    for filling in fillings:
        distinct.setdefault(tuple(touched.tobytes() for touched in filling.touched.values()), filling)
    return list(distinct.values())


def choose_fillings(
    parcels: Sequence[Parcel],
    options: Sequence[Sequence[Filling]],
    *,
    weights: Weights,
    group_counts: Mapping[Family, int],
) -> list[Filling]:
    """Choose one filling for each parcel.

    :param options: for each parcel its fillings, the best by :func:`local_score` first.
    :param group_counts: family -> number of groups of the whole job.
    """
    chosen = [fillings[0] for fillings in options]
    totals = {family: np.zeros(count, dtype=np.int32) for family, count in group_counts.items()}
    for parcel, filling in zip(parcels, chosen, strict=True):
        _add(totals, parcel, filling, 1)
    open_parcels = [i for i, fillings in enumerate(options) if len(fillings) > 1]
    for _ in range(_ROUNDS):
        changed = False
        for i in open_parcels:
            _add(totals, parcels[i], chosen[i], -1)
            # without the parcel: what the other domains cost whatever it does
            worst = {family: int(total.max()) for family, total in totals.items()}
            best = min(options[i], key=lambda filling: _score(totals, worst, parcels[i], filling, weights))
            changed |= best is not chosen[i]
            chosen[i] = best
            _add(totals, parcels[i], best, 1)
        if not changed:
            break
    return chosen


def _add(totals: Mapping[Family, IntArray], parcel: Parcel, filling: Filling, sign: int) -> None:
    for family, total in totals.items():
        total[parcel.groups[family].ids] += sign * filling.touched[family]


def _score(
    totals: Mapping[Family, IntArray], others: Mapping[Family, int], parcel: Parcel, filling: Filling, weights: Weights
) -> tuple[float, ...]:
    """Return the score of the whole job with this filling; ``others`` is the worst spread without the parcel."""
    worst, mean = {}, {}
    for family, total in totals.items():
        touched = filling.touched[family]
        worst[family] = float(max(others[family], int((total[parcel.groups[family].ids] + touched).max())))
        mean[family] = float(touched.sum()) / len(total)
    return _rated(worst, mean, filling.used, weights)


def _rated(
    worst: Mapping[Family, float], mean: Mapping[Family, float], used: int, weights: Weights
) -> tuple[float, ...]:
    """Return the score of spreads: soft terms, Eq. 2 of the worst, then of the mean, then touches and children."""

    def weighed(by: Mapping[Family, float], spreads: Mapping[Family, float]) -> float:
        return sum(weight * spreads[family] for family, weight in by.items())

    return (
        weighed(weights.soft, worst),
        weighed(weights.affinity, worst),
        weighed(weights.affinity, mean),
        sum(mean.values()),
        used,
    )
