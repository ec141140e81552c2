"""A layout as SVG elements, and a cluster as one self-contained HTML page of them: tooltips, light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from topology.cluster import Cluster, IntArray
from topology.drawing.elements import circle, label, number, rect, svg
from topology.drawing.layout import Layout, free_of, labels, slices
from topology.drawing.simplify import Shape
from topology.drawing.templates import OWN, render
from topology.flags import NodeFlag
from topology.states import State, legend, node_states

MOST_SCALE = 1.4  # How much larger than laid out a page may show a drawing: a small cluster stays small


def svg_drawing(
    cluster: Cluster,
    layout: Layout,
    paint: IntArray,
    classes: Sequence[str],
    *,
    title: str,
    note: Callable[[Shape], str],
    marks: Mapping[int, str] | None = None,
) -> str:
    """Return the drawing as one ``<svg>`` element.

    A node is a ``<rect class="n ...">``, in the order of ``layout.nodes``; boxes and bars carry ``data-tip``, a
    sentence on their domain, notes beside labels the number of their frame.

    :param paint: shape [nodes], index into ``classes`` of the style sheet.
    :param marks: node -> class of a mark drawn on its square.
    """
    tip, marked, side = _domain_tip(cluster), marks or {}, layout.side
    squares = list(zip(layout.nodes.tolist(), layout.x, layout.y, strict=True))
    cuts = [(bar, *cut) for bar in layout.bars for cut in slices(bar, paint, len(classes))]
    words = list(labels(layout, note))
    corner = min(2.5, side / 6) if side >= 5 else None
    parts = [
        *(
            rect(box.x, box.y, box.width, box.height, f"box {kind}", tip=tip(box.shape), rx=rounded)
            for box in layout.frames
            for kind, rounded in [("broad", 5) if box.broad else ("inner", 2)]
        ),
        *(rect(x, y, side, side, f"n {classes[paint[node]]}", rx=corner) for node, x, y in squares),
        *(rect(x, bar.y, wide, bar.height, classes[kind], tip=tip(bar.shape)) for bar, kind, x, wide in cuts),
        *(
            circle(x + side / 2, y + side / 2, max(1.2, side * 0.24), f"mark {marked[node]}")
            for node, x, y in squares
            if node in marked
        ),
        *(
            label(word.x, word.y, word.text, kind=kind, size=word.size, anchor=anchor, data_frame=frame)
            for word in words
            for kind, frame in [("name", None) if word.name else ("note", word.frame)]
            for anchor in ["end" if word.right else ""]
        ),
    ]
    width = layout.width + 2
    style = f"--drawn:{number(width)}px;max-width:{number(MOST_SCALE * layout.width)}px"
    return svg("cluster", width, layout.height + 2, parts, title=title, corner=-1, style=style)


def cluster_page(cluster: Cluster, layout: Layout, *, title: str, subtitle: str) -> str:
    """Return the page, its subtitle a line below the title.  Same input, same text."""
    states = node_states(cluster)
    entries = legend(states)
    drawing = svg_drawing(
        cluster,
        layout,
        states,
        [state.name.lower() for state in State],
        title=f"{title}: {', '.join(f'{count:,} {state.label}' for state, count in entries)}",
        note=free_of(cluster),
    )
    return render(
        OWN,
        "cluster.html.j2",
        raw={"drawing": drawing},
        scripts=("zoom.js",),
        title=title,
        subtitle=subtitle,
        legend=[(state.name.lower(), f"{count:,}", state.label) for state, count in entries],
        data=node_data(cluster, layout),
    )


def _domain_tip(cluster: Cluster) -> Callable[[Shape], str]:
    """Return what gives the tooltip of a box: its name, and how many nodes are in which state."""
    states = node_states(cluster)

    def tip(shape: Shape) -> str:
        name = " / ".join(f"{level} {name}" for level, name in zip(shape.levels, shape.names, strict=True))
        counts = ", ".join(f"{count:,} {state.label}" for state, count in legend(states[shape.nodes]))
        types = np.bincount(cluster.gpu_type_of[shape.nodes], minlength=len(cluster.gpu_types)).tolist()
        named = [f"{n:,} of {of}" for of, n in zip(cluster.gpu_types, types, strict=True) if of and n]
        kinds = f"\nGPUs: {', '.join(named)}" if named else ""
        return f"{name or 'cluster'}\n{len(shape.nodes):,} nodes: {counts}{kinds}"

    return tip


def node_data(cluster: Cluster, layout: Layout) -> dict[str, Any]:
    """Return what the script of a page knows of each square, in the order of the squares.

    Keys: ``names``, ``places`` (distinct paths of domains), ``place`` (which path), ``gpus``, ``free``, ``types``
    (of GPU) and ``type`` (which of them), ``flags`` (square -> sentence about its flag, or why it is kept out).
    """
    columns = [[level.domains[i] for i in level.domain_of[layout.nodes]] for level in cluster.levels]
    paths = [" / ".join(dict.fromkeys(path)) for path in zip(*columns, strict=True)] or [""] * len(layout.nodes)
    places = list(dict.fromkeys(paths))
    number = {path: i for i, path in enumerate(places)}
    return {
        "names": [cluster.names[i] for i in layout.nodes],
        "places": places,
        "place": [number[path] for path in paths],
        "gpus": cluster.gpus[layout.nodes].tolist(),
        "free": cluster.free_gpus[layout.nodes].tolist(),
        "types": cluster.gpu_types,
        "type": cluster.gpu_type_of[layout.nodes].tolist(),
        "flags": {
            str(i): "; ".join(said)
            for i, node in enumerate(layout.nodes.tolist())
            if (said := [*_said_of(cluster, node)])
        },
    }


def _said_of(cluster: Cluster, node: int) -> Iterator[str]:
    """Yield why a node is kept out, and its flag."""
    if node in cluster.kept_out:
        yield f"kept out: {cluster.kept_out[node]}"
    if node in cluster.flags:
        yield flag_sentence(cluster.flags[node])


def flag_sentence(flag: NodeFlag) -> str:
    """Return a flag in one line: ``"straggler, 1.35x slower (cluster file)"``."""
    degree = "faulty" if flag.kind == "faulty" else f"{flag.kind}, {flag.slowdown:g}x the time"
    source = f" ({flag.source})" if flag.source else ""
    evidence = f": {flag.evidence}" if flag.evidence else ""
    return f"{degree}{source}{evidence}"
