"""A layout as SVG elements for a page, coloured by classes of its style sheet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from topology.cluster import IntArray
from topology.drawing.elements import circle, label, number, rect, svg
from topology.drawing.labels import labels
from topology.drawing.layout import Bar, Layout
from topology.drawing.simplify import Shape

MOST_SCALE = 1.4  # How much larger than laid out a page may show a drawing: a small cluster stays small


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
    """Return the drawing as one ``<svg>`` element.

    A node is a ``<rect class="n ...">``, in the order of ``layout.nodes``; boxes and bars carry ``data-tip``, a
    sentence on their domain, notes beside labels the number of their frame.

    :param paint: shape [nodes], index into ``classes`` of the style sheet.
    :param marks: node -> class of a mark drawn on its square.
    """
    width = layout.width + 2
    parts = [
        *_frames(layout, tip),
        *_squares(layout, paint, classes),
        *(
            rect(x, bar.y, wide, bar.height, classes[kind], tip=tip(bar.shape))
            for bar in layout.bars
            for kind, x, wide in slices(bar, paint, len(classes))
        ),
        *_marks(layout, marks or {}),
        *_labels(layout, note),
    ]
    style = f"--drawn:{number(width)}px;max-width:{number(MOST_SCALE * layout.width)}px"
    return svg("cluster", width, layout.height + 2, parts, title=title, corner=-1, style=style)


def _frames(layout: Layout, tip: Callable[[Shape], str]) -> Iterator[str]:
    for frame in layout.frames:
        kind, corner = ("box broad", 5) if frame.broad else ("box inner", 2)
        yield rect(frame.x, frame.y, frame.width, frame.height, kind, tip=tip(frame.shape), rx=corner)


def _squares(layout: Layout, paint: IntArray, classes: Sequence[str]) -> Iterator[str]:
    side = layout.side
    corner = min(2.5, side / 6) if side >= 5 else None
    for node, x, y in zip(layout.nodes, layout.x, layout.y, strict=True):
        yield rect(x, y, side, side, f"n {classes[paint[node]]}", rx=corner)


def slices(bar: Bar, paint: IntArray, kinds: int) -> Iterator[tuple[int, float, float]]:
    """Yield upright slices of a bar: the kind, the left edge and the width of each."""
    counts = np.bincount(paint[bar.shape.own], minlength=kinds)
    x = bar.x
    for kind in np.flatnonzero(counts):
        width = bar.width * float(counts[kind]) / len(bar.shape.own)
        yield int(kind), x, width
        x += width


def _marks(layout: Layout, marks: Mapping[int, str]) -> Iterator[str]:
    for node, x, y in zip(layout.nodes, layout.x, layout.y, strict=True):
        if (kind := marks.get(int(node))) is not None:
            yield circle(x + layout.side / 2, y + layout.side / 2, max(1.2, layout.side * 0.24), f"mark {kind}")


def _labels(layout: Layout, note: Callable[[Shape], str]) -> Iterator[str]:
    for one in labels(layout, note):
        kind, frame = ("name", None) if one.name else ("note", one.frame)
        anchor = "end" if one.right else ""
        yield label(one.x, one.y, one.text, kind=kind, size=one.size, anchor=anchor, data_frame=frame)
