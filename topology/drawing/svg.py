"""A layout as SVG elements for a page, coloured by classes of its style sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

import numpy as np

from topology.cluster import IntArray
from topology.drawing.labels import labels
from topology.drawing.layout import Bar, Layout
from topology.drawing.simplify import Shape

MOST_SCALE = 1.4
"""How much larger than laid out a page may show a drawing: a small cluster stays small."""


def svg_drawing(
    layout: Layout,
    paint: IntArray,
    classes: Sequence[str],
    *,
    title: str,
    note: Callable[[Shape], str],
    tip: Callable[[Shape], str],
    marks: Mapping[int, str] | None = None,
) -> str:
    """The drawing as one ``<svg>`` element.

    A node is a ``<rect class="n ...">``, in the order of ``layout.nodes``; boxes and bars carry ``data-tip``, notes the
    number of their frame.

    :param paint: shape [nodes], index into ``classes``.
    :param classes: style-sheet classes.
    :param title: what a screen reader says.
    :param note: a few characters beside the label of a domain.
    :param tip: a sentence on a domain, shown when the pointer rests on its box.
    :param marks: node -> class of a mark drawn on its square.
    """
    width, height = number(layout.width + 2), number(layout.height + 2)
    parts = [
        f'<svg class="cluster" viewBox="-1 -1 {width} {height}" width="{width}" height="{height}" role="img" '
        f'style="--drawn:{width}px;max-width:{number(MOST_SCALE * layout.width)}px" aria-label="{escape(title)}">',
        *_frames(layout, tip),
        *_squares(layout, paint, classes),
        *(piece for bar in layout.bars for piece in _bar(bar, paint, classes, tip)),
        *_marks(layout, marks or {}),
        *_labels(layout, note),
        "</svg>",
    ]
    return "\n".join(parts)


def number(value: float) -> str:
    """A length with at most two digits behind the point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _frames(layout: Layout, tip: Callable[[Shape], str]) -> Iterator[str]:
    for frame in layout.frames:
        kind = "broad" if frame.broad else "inner"
        yield (
            f'<rect class="box {kind}" x="{number(frame.x)}" y="{number(frame.y)}" width="{number(frame.width)}" '
            f'height="{number(frame.height)}" rx="{5 if frame.broad else 2}" data-tip="{escape(tip(frame.shape))}"/>'
        )


def _squares(layout: Layout, paint: IntArray, classes: Sequence[str]) -> Iterator[str]:
    side = number(layout.side)
    round_corner = f' rx="{number(min(2.5, layout.side / 6))}"' if layout.side >= 5 else ""
    for node, x, y in zip(layout.nodes, layout.x, layout.y, strict=True):
        yield (
            f'<rect class="n {classes[paint[node]]}" x="{number(x)}" y="{number(y)}" width="{side}" '
            f'height="{side}"{round_corner}/>'
        )


def slices(bar: Bar, paint: IntArray, kinds: int) -> Iterator[tuple[int, float, float]]:
    """Upright slices of a bar: the kind, the left edge and the width of each."""
    counts = np.bincount(paint[bar.nodes], minlength=kinds)
    x = bar.x
    for kind in np.flatnonzero(counts):
        width = bar.width * float(counts[kind]) / len(bar.nodes)
        yield int(kind), x, width
        x += width


def _bar(bar: Bar, paint: IntArray, classes: Sequence[str], tip: Callable[[Shape], str]) -> Iterator[str]:
    for kind, x, width in slices(bar, paint, len(classes)):
        yield (
            f'<rect class="{classes[kind]}" x="{number(x)}" y="{number(bar.y)}" width="{number(width)}" '
            f'height="{number(bar.height)}" data-tip="{escape(tip(bar.shape))}"/>'
        )


def _marks(layout: Layout, marks: Mapping[int, str]) -> Iterator[str]:
    for node, x, y in zip(layout.nodes, layout.x, layout.y, strict=True):
        if (kind := marks.get(int(node))) is not None:
            centre = layout.side / 2
            yield (
                f'<circle class="mark {kind}" cx="{number(x + centre)}" cy="{number(y + centre)}" '
                f'r="{number(max(1.2, layout.side * 0.24))}"/>'
            )


def _labels(layout: Layout, note: Callable[[Shape], str]) -> Iterator[str]:
    for label in labels(layout, note):
        anchor = ' text-anchor="end"' if label.right else ""
        kind = 'class="name"' if label.name else f'class="note" data-frame="{label.frame}"'
        yield (
            f'<text {kind} x="{number(label.x)}" y="{number(label.y)}" '
            f'font-size="{number(label.size)}"{anchor}>{escape(label.text)}</text>'
        )
