"""Column bands: the columns are cut into b <= R bands of widths w_1 >= ... >= w_b.

In each band every row lies in one domain, so a row touches at most b domains; with at most S domains in each band a
column touches at most S.  What is left to choose is how many rows each domain hosts in each band
(:mod:`scheduler.placement.exact.bands.tabu_bands`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

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


def lay_bands(rows: int, widths: Sequence[int], rows_in: IntArray) -> IntArray:
    """Return the domain of each cell, shape [rows, columns of all bands], from the rows of each domain in each band.

    :param rows_in: shape [domains, bands]; rows of a band beyond D are left out.
    """
    cells = np.empty((rows, sum(widths)), dtype=np.int32)
    left = 0
    for band, width in enumerate(widths):
        domains = np.repeat(np.arange(rows_in.shape[0], dtype=np.int32), rows_in[:, band])
        cells[:, left : left + width] = domains[:rows, None]
        left += width
    return cells
