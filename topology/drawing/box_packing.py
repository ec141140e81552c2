"""How many columns, and where each block goes: the arithmetic of tidy rectangles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log

SHELF_WASTE = 1.25
"""Blocks stand in rows as long as that takes at most this much more height than stacking them in columns."""


def best_columns(count: int, *, aspect: float = 1.5, width: float = 1.0, height: float = 1.0) -> int:
    """Return columns of a grid of ``count`` cells that is about ``aspect`` times as wide as high and has few holes.

    :param width: width of a cell.
    :param height: height of a cell.
    """

    def cost(columns: int) -> float:
        rows = ceil(count / columns)
        holes = (columns * rows - count) / count
        return abs(log(columns * width / (rows * height * aspect))) + 3.0 * holes + (0.15 if holes else 0.0)

    around = (count * aspect * height / width) ** 0.5
    low, high = max(1, int(around / 2.5)), min(count, int(around * 2.5) + 2)
    return min(range(min(low, high), high + 1), key=cost)


@dataclass(frozen=True, slots=True)
class Packing:
    """Where blocks stand.

    :param spots: x and y of each block.
    """

    spots: tuple[tuple[float, float], ...]
    width: float
    height: float


def pack(sizes: Sequence[tuple[float, float]], *, columns: int, unit: float, gap: float) -> Packing:
    """Place blocks on a grid of columns, in order.

    Blocks of about one height stand in rows; where heights differ much, each goes to the columns that are lowest so
    far.  A block wider than a column takes several.

    :param sizes: width and height of each block.
    :param columns: columns of the grid.
    :param unit: width of a column.
    :param gap: between blocks.
    """
    spans = [min(columns, max(1, ceil((width + gap - 1e-6) / (unit + gap)))) for width, _ in sizes]
    in_rows, stacked = _rows(sizes, spans, columns, gap), _stacks(sizes, spans, columns, gap)
    rows_height, stacks_height = (
        max(y + size[1] for (_, y), size in zip(s, sizes, strict=True)) for s in (in_rows, stacked)
    )
    chosen = in_rows if rows_height <= SHELF_WASTE * stacks_height else stacked
    spots = tuple((column * (unit + gap), y) for column, y in chosen)
    return Packing(
        spots,
        width=max(x + width for (x, _), (width, _) in zip(spots, sizes, strict=True)),
        height=max(y + height for (_, y), (_, height) in zip(spots, sizes, strict=True)),
    )


def _rows(
    sizes: Sequence[tuple[float, float]], spans: Sequence[int], columns: int, gap: float
) -> list[tuple[int, float]]:
    """Return column and y of each block, row by row."""
    spots: list[tuple[int, float]] = []
    column, y, tallest = 0, 0.0, 0.0
    for (_, height), span in zip(sizes, spans, strict=True):
        if column + span > columns:
            column, y, tallest = 0, y + tallest + gap, 0.0
        spots.append((column, y))
        column, tallest = column + span, max(tallest, height)
    return spots


def _stacks(
    sizes: Sequence[tuple[float, float]], spans: Sequence[int], columns: int, gap: float
) -> list[tuple[int, float]]:
    """Return column and y of each block: each lies as high on the page as it can, there leftmost."""
    filled = [0.0] * columns
    spots: list[tuple[int, float]] = []
    for (_, height), span in zip(sizes, spans, strict=True):
        starts = range(columns - span + 1)
        column = min(starts, key=lambda start: max(filled[start : start + span]))
        y = max(filled[column : column + span])
        filled[column : column + span] = [y + height + gap] * span
        spots.append((column, y))
    return spots
