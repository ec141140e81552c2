"""A layout as SVG elements, and a cluster as one self-contained HTML page of them: tooltips, light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from topology.cluster import Cluster, IntArray
from topology.drawing.elements import circle, label, number, rect, svg
from topology.drawing.layout import Bar, Layout, free_of, labels, legend
from topology.drawing.simplify import Shape
from topology.drawing.templates import OWN, render
from topology.flags import NodeFlag
from topology.states import State, node_states

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


def cluster_page(cluster: Cluster, layout: Layout, *, title: str, subtitle: str) -> str:
    """Return the page, its subtitle a line below the title.  Same input, same text."""
    states = node_states(cluster)
    entries = legend(states)
    drawing = svg_drawing(
        layout,
        states,
        [state.name.lower() for state in State],
        title=f"{title}: {', '.join(f'{count:,} {state.label}' for state, count in entries)}",
        note=free_of(cluster),
        tip=domain_tip(cluster),
    )
    return render(
        OWN,
        "cluster.html.j2",
        raw={"drawing": drawing},
        title=title,
        subtitle=subtitle,
        legend=[(state.name.lower(), f"{count:,}", state.label) for state, count in entries],
        data=node_data(cluster, layout),
    )


def domain_tip(cluster: Cluster) -> Callable[[Shape], str]:
    """Return what gives the tooltip of a box: its name, and how many nodes are in which state."""
    states = node_states(cluster)

    def tip(shape: Shape) -> str:
        name = " / ".join(f"{level} {name}" for level, name in zip(shape.levels, shape.names, strict=True))
        counts = ", ".join(f"{count:,} {state.label}" for state, count in legend(states[shape.nodes]))
        return f"{name or 'cluster'}\n{len(shape.nodes):,} nodes: {counts}"

    return tip


def node_data(cluster: Cluster, layout: Layout) -> dict[str, Any]:
    """Return what the script of a page knows of each square, in the order of the squares.

    Keys: ``names``, ``places`` (distinct paths of domains), ``place`` (which path), ``gpus``, ``free``, ``flags``
    (square -> sentence).
    """
    paths = [" / ".join(dict.fromkeys(cluster.node(int(i)).path)) for i in layout.nodes]
    places = list(dict.fromkeys(paths))
    number = {path: i for i, path in enumerate(places)}
    return {
        "names": [cluster.names[i] for i in layout.nodes],
        "places": places,
        "place": [number[path] for path in paths],
        "gpus": cluster.gpus[layout.nodes].tolist(),
        "free": cluster.free_gpus[layout.nodes].tolist(),
        "flags": {
            str(i): flag_sentence(cluster.flags[int(node)])
            for i, node in enumerate(layout.nodes)
            if int(node) in cluster.flags
        },
    }


def flag_sentence(flag: NodeFlag) -> str:
    """Return a flag in one line: ``"straggler, 1.35x slower (cluster file)"``."""
    degree = "faulty" if flag.kind == "faulty" else f"{flag.kind}, {flag.slowdown:g}x the time"
    source = f" ({flag.source})" if flag.source else ""
    evidence = f": {flag.evidence}" if flag.evidence else ""
    return f"{degree}{source}{evidence}"
