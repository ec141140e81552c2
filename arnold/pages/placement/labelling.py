"""Labels beside points so that none lies on another: each takes the first free place around its point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topology.drawing.sizing import text_width

BOLD = 1.13
"""How much wider bold type is."""

APART = 2.5
"""Least distance of a label from what stands beside it: half the width of a digit, so that two do not read as one."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class LabelledPoint:
    """A point that wants a label.

    :param radius: of the dot drawn there.
    :param size: of the type.
    :param kind: class of the style sheet for its label; ``name`` is bold.
    """

    x: float
    y: float
    radius: float
    text: str
    size: float
    kind: str


@dataclass(frozen=True, slots=True)
class PlacedLabel:
    """Where a label stands: left end and base line."""

    x: float
    y: float
    point: LabelledPoint


def place_labels(points: Sequence[LabelledPoint], *, within: Box, lines: Sequence[Box] = ()) -> Iterator[PlacedLabel]:
    """Place labels, the first points first; a label that finds no room is left out.

    :param within: where labels may stand.
    :param lines: which labels keep off, as boxes without width or height.
    """
    taken: list[Box] = [(p.x - p.radius, p.y - p.radius, p.x + p.radius, p.y + p.radius) for p in points]
    taken += lines
    for point in points:
        width = text_width(point.text, point.size) * (BOLD if point.kind == "name" else 1.0)
        for left, base in _places(point, width):
            box = (left, base - 0.8 * point.size, left + width, base + 0.25 * point.size)
            around = (box[0] - APART, box[1], box[2] + APART, box[3])
            if _inside(box, within) and not any(_overlap(around, other) for other in taken):
                taken.append(box)
                yield PlacedLabel(left, base, point)
                break


def _places(point: LabelledPoint, width: float) -> Iterator[tuple[float, float]]:
    """Yield left end and base line of the places around a point, the best first."""
    aside, low, high = point.radius + 3, point.size * 0.9 + point.radius + 2, point.radius + 5
    yield point.x + aside, point.y - high + 2
    yield point.x + aside, point.y + 0.35 * point.size
    yield point.x - width / 2, point.y - high
    yield point.x - width / 2, point.y + low
    yield point.x - width - aside, point.y - high + 2
    yield point.x - width - aside, point.y + 0.35 * point.size
    yield point.x + aside, point.y + low
    yield point.x - width - aside, point.y + low
    for further in (1, 2, 3):
        yield point.x - width / 2, point.y + low + further * point.size * 1.15
        yield point.x - width / 2, point.y - high - further * point.size * 1.15


def _inside(box: Box, within: Box) -> bool:
    return box[0] >= within[0] and box[1] >= within[1] and box[2] <= within[2] and box[3] <= within[3]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
