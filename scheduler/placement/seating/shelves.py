"""Ways to share a parcel out that need no search.

A shelf is a band of rows.  It is filled column after column, back and forth in turn, so that a child of c nodes takes
about c / height columns of it.  One shelf for each row is the row-by-row fill, one shelf of all rows the
column-by-column fill; the same with rows and columns exchanged.  Filled to the brim, children straddle shelves and
columns; filled in whole segments (a column within a shelf), they waste a little room and no spread.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.placement.seating.parcel import Parcel, extent
from topology.cluster import IntArray

_MOST_BANDS = 24
"""Numbers of shelves tried in either direction: all small ones, then ever fewer."""

_MOST_WHOLE = 8
"""Fillings in whole segments are tried up to this number of shelves."""


def shelf_fillings(parcel: Parcel) -> Iterator[IntArray]:
    """Yield fillings of the children, shape [blocks] each: the child of each block."""
    piece, row, column = parcel.pieces
    for across, along in ((row, column), (column, row)):
        depth = extent(piece, across)
        for bands in _band_counts(int(depth.max())):
            band = across * np.minimum(bands, depth) // depth
            yield _to_the_brim(parcel, piece, band, along, across)
            if bands <= _MOST_WHOLE and (whole := _in_segments(parcel, piece, band, along)) is not None:
                yield whole


def _band_counts(most: int) -> list[int]:
    """Return the numbers of bands that cut ``most`` lines in really different ways: one for each height of a band."""
    counts = sorted({-(-most // -(-most // bands)) for bands in range(1, most + 1)})
    if len(counts) <= _MOST_BANDS:
        return counts
    return sorted({counts[i] for i in np.geomspace(1, len(counts), _MOST_BANDS).astype(int) - 1})


def _to_the_brim(parcel: Parcel, piece: IntArray, band: IntArray, along: IntArray, across: IntArray) -> IntArray:
    order = np.lexsort((across, np.where(band % 2, -along, along), band, piece))
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
