"""Where the groups of a placed job leave their domains, level by level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topology.cluster import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GroupCrossings:
    """What the groups of one family touch at one level.

    :param touched: shape [groups], number of domains.
    :param fewest: shape [groups], cells in the domain that has fewest of them, at least 1.
    """

    touched: IntArray
    fewest: IntArray


def columns_at(domains: IntArray) -> GroupCrossings:
    """Return DP groups at a level.

    :param domains: shape [rows, columns], domain of each cell.
    """
    columns = domains.shape[1]
    pairs = domains.T.astype(np.int64) + np.arange(columns)[:, None] * (int(domains.max()) + 1)
    found, cells = np.unique(pairs.ravel(), return_counts=True)
    group = found // (int(domains.max()) + 1)
    fewest = np.full(columns, domains.shape[0], dtype=np.int32)
    np.minimum.at(fewest, group, cells.astype(np.int32))
    return GroupCrossings(np.bincount(group, minlength=columns).astype(np.int32), fewest)


def hops_of(cells: IntArray, *, around: bool) -> tuple[IntArray, IntArray]:
    """Return the two ends of each hop of each PP group.

    :param cells: shape [rows, columns], anything of each cell.
    :param around: with the hop from the last column back to the first (interleaved schedule).
    :returns: twice shape [rows, hops].
    """
    if cells.shape[1] == 1:
        return cells[:, :0], cells[:, :0]
    if around:
        return cells, np.roll(cells, -1, axis=1)
    return cells[:, :-1], cells[:, 1:]


def spread_of_rows(domains: IntArray) -> IntArray:
    """Shape [rows]: number of domains that each PP group touches."""
    ordered = np.sort(domains, axis=1)
    return np.asarray(1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1), dtype=np.int32)


def stretch_of_hops(
    tiers: Iterable[tuple[IntArray, FloatArray | float]], shape: tuple[int, int], *, around: bool
) -> FloatArray:
    """By what each hop is slower than inside one domain: as much as the broadest boundary that it crosses says.

    :param tiers: from the broadest to the closest: shape [rows, columns], the domain of each cell; and the stretch of
        crossing, shape [rows] or one number.
    :param shape: (rows, columns).
    :returns: shape [rows, hops].
    """
    hops = shape[1] if around and shape[1] > 1 else shape[1] - 1
    stretch = np.ones((shape[0], hops))
    for domains, factor in reversed(list(tiers)):
        one, other = hops_of(domains, around=around)
        of_row = np.broadcast_to(np.reshape(factor, (-1, 1)), stretch.shape)
        stretch = np.where(one != other, np.maximum(stretch, of_row), stretch)
    return stretch
