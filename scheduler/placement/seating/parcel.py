"""A parcel: the blocks that one domain holds, shared out among the children of the domain; and the best way for all.

A group's spread over racks is the sum over the domains it touches of the racks it touches there.  The score of the job
counts the worst group of each family, so domains are improved one at a time against the sums of all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.job import Family
from scheduler.placement.seating.shelves import back_and_forth, extent, pieces_of, shelves
from scheduler.rank_groups import CellGroups
from topology.cluster import IntArray

_MOST_WHOLE = 8  # Fillings in whole segments are tried up to this number of shelves
_MOST_TOUCHES = 2_000_000  # Array elements for which fillings are measured at once: those of a processor's cache


@dataclass(frozen=True, slots=True)
class ParcelGroups:
    """The communication groups of one family that have cells in a parcel."""

    ids: IntArray  # shape [groups], their numbers in the whole job
    pairs: CellGroups  # of a cell of the parcel and an index into `ids`

    def touched(self, child_of_cell: IntArray, children: int) -> IntArray:
        """Return how many children each group touches, shape [fillings, groups].

        :param child_of_cell: shape [fillings, cells].
        """
        fillings, groups = len(child_of_cell), len(self.ids)
        child = child_of_cell if self.pairs.one_each else child_of_cell[:, self.pairs.cell]
        touches = np.zeros(fillings * groups * children, dtype=np.bool_)
        first = np.arange(0, len(touches), groups * children)
        touches[child + (self.pairs.group.astype(np.int64) * children + first[:, None])] = True
        count: IntArray = np.add.reduce(touches.reshape(fillings, groups, children), axis=2, dtype=np.int32)
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


def measure(parcel: Parcel, fillings: Sequence[IntArray]) -> list[Filling]:
    """Measure the spread of some fillings, the child of each block, shape [blocks] each."""
    children = len(parcel.capacities)
    lines = 1 + max((len(groups.ids) for groups in parcel.groups.values()), default=0)
    together = max(1, _MOST_TOUCHES // (lines * children))
    found: list[Filling] = []
    for i in range(0, len(fillings), together):
        child = np.stack(fillings[i : i + together])
        child_of_cell = child[:, parcel.block_of_cell]
        touched = {family: groups.touched(child_of_cell, children) for family, groups in parcel.groups.items()}
        seen = np.zeros((len(child), children), dtype=np.bool_)
        seen[np.arange(len(child))[:, None], child] = True
        used = np.add.reduce(seen, axis=1, dtype=np.int32).tolist()
        found += (Filling(child[k], {f: of[k] for f, of in touched.items()}, used[k]) for k in range(len(child)))
    return found


def by_local_score(fillings: Sequence[Filling], weights: Weights) -> list[Filling]:
    """Return fillings of one parcel, the best first: by how good each is when nothing is known of the other domains."""
    return [fillings[i] for i in _Options.of(fillings).local_order(weights)]


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

    :param options: for each parcel its fillings, the best by :func:`by_local_score` first.
    :param group_counts: family -> number of groups of the whole job.
    """
    chosen = [0] * len(parcels)
    tables: dict[int, _Options] = {}
    for of_parcel in options:
        # parcels of one shape have the same fillings
        tables.setdefault(id(of_parcel), _Options.of(of_parcel))
    totals = {family: np.zeros(count, dtype=np.int32) for family, count in group_counts.items()}
    for parcel, fillings in zip(parcels, options, strict=True):
        _add(totals, parcel, fillings[0], 1)
    open_parcels = [i for i, fillings in enumerate(options) if len(fillings) > 1]
    for _ in range(_ROUNDS):
        changed = False
        for i in open_parcels:
            _add(totals, parcels[i], options[i][chosen[i]], -1)
            best = tables[id(options[i])].best(totals, parcels[i], weights)
            changed |= best != chosen[i]
            chosen[i] = best
            _add(totals, parcels[i], options[i][best], 1)
        if not changed:
            break
    return [fillings[i] for fillings, i in zip(options, chosen, strict=True)]


@dataclass(frozen=True, slots=True)
class _Options:
    """The fillings of one parcel side by side."""

    touched: Mapping[Family, IntArray]  # family -> shape [fillings, groups of the parcel]
    used: IntArray  # shape [fillings], number of children in use

    @classmethod
    def of(cls, fillings: Sequence[Filling]) -> _Options:
        """Return fillings side by side."""
        touched = {family: np.stack([one.touched[family] for one in fillings]) for family in fillings[0].touched}
        return cls(touched, np.array([one.used for one in fillings], dtype=np.int32))

    def local_order(self, weights: Weights) -> list[int]:
        """Return the fillings, the best first: by how good each is when nothing is known of the other domains."""
        worst = {family: of.max(axis=1) for family, of in self.touched.items()}
        mean = {family: of.mean(axis=1) for family, of in self.touched.items()}
        return _order(worst, mean, self.used, weights)

    def best(self, totals: Mapping[Family, IntArray], parcel: Parcel, weights: Weights) -> int:
        """Return the filling with which the whole job is best, given what all other parcels add up to."""
        worst, mean = {}, {}
        for family, total in totals.items():
            touched = self.touched[family]
            # what the other domains cost whatever it does
            others = int(total.max())
            worst[family] = np.maximum(others, (total[parcel.groups[family].ids] + touched).max(axis=1))
            mean[family] = touched.sum(axis=1) / len(total)
        return _order(worst, mean, self.used, weights)[0]


def _add(totals: Mapping[Family, IntArray], parcel: Parcel, filling: Filling, sign: int) -> None:
    for family, total in totals.items():
        total[parcel.groups[family].ids] += sign * filling.touched[family]


def _order(
    worst: Mapping[Family, npt.NDArray[Any]], mean: Mapping[Family, npt.NDArray[Any]], used: IntArray, weights: Weights
) -> list[int]:
    """Return fillings, the best first: by soft terms, Eq. 2 of the worst, then of the mean, then touches and children.

    :param worst: family -> shape [fillings], the most domains that a group touches; ``mean``: the same of the mean.
    """

    def weighed(by: Mapping[Family, float], spreads: Mapping[Family, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return sum((weight * spreads[family] for family, weight in by.items()), np.zeros(len(used)))

    keys = (
        weighed(weights.soft, worst),
        weighed(weights.affinity, worst),
        weighed(weights.affinity, mean),
        sum(mean.values(), np.zeros(len(used))),
        used,
    )
    # the first key decides; equals stay in their order
    order: list[int] = np.lexsort(keys[::-1]).tolist()
    return order
