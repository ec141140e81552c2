"""A layout drawn: as SVG elements in one self-contained HTML page, and as a picture file, PNG or SVG, by matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from ground.groups import grouped
from topology.cluster import Cluster, IntArray, State, legend, node_states
from topology.drawing.layout import Layout, Shape, free_of, labels, slices, text_width
from topology.drawing.page_kit import LIGHT, OWN, XY, circle, label, rect, render, svg, svg_number, tones
from topology.flags import NodeFlag

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    counted: bool = True,
) -> str:
    """Return the drawing as one ``<svg>`` element.

    A node is a ``<rect class="n ...">``, in the order of ``layout.nodes``; boxes and bars carry ``data-tip``, a
    sentence on their domain, notes beside labels the number of their frame.

    :param paint: shape [nodes], index into ``classes`` of the style sheet.
    :param marks: node -> class of a mark drawn on its square.
    :param counted: whether tips say how many nodes of a domain are in which state; not where states change.
    """
    states, marked, side = node_states(cluster), marks or {}, layout.side

    def tip(shape: Shape) -> str:
        """Return the name of a box, how many nodes it has, in which state and with which type of GPU."""
        name = " / ".join(f"{level} {name}" for level, name in zip(shape.levels, shape.names, strict=True))
        of_states = ", ".join(f"{count:,} {state.label}" for state, count in legend(states[shape.nodes]))
        counts = f": {of_states}" if counted else ""
        types = np.bincount(cluster.gpu_type_of[shape.nodes], minlength=len(cluster.gpu_types)).tolist()
        named = [f"{n:,} of {of}" for of, n in zip(cluster.gpu_types, types, strict=True) if of and n]
        kinds = f"\nGPUs: {', '.join(named)}" if named else ""
        return f"{name or 'cluster'}\n{len(shape.nodes):,} nodes{counts}{kinds}"

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
    style = f"--drawn:{svg_number(width)}px;max-width:{svg_number(MOST_SCALE * layout.width)}px"
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


def node_data(cluster: Cluster, layout: Layout) -> dict[str, Any]:
    """Return what the script of a page knows of each square, in the order of the squares.

    Keys: ``names``, ``places`` (distinct paths of domains), ``place`` (which path), ``gpus``, ``free``, ``types``
    (of GPU) and ``type`` (which of them), ``flags`` (square -> sentence about its flag, or why it is kept out).
    """
    columns = [[level.domains[i] for i in level.domain_of[layout.nodes]] for level in cluster.levels]
    paths = [" / ".join(dict.fromkeys(path)) for path in zip(*columns, strict=True)] or [""] * len(layout.nodes)
    places = list(dict.fromkeys(paths))
    number = {path: i for i, path in enumerate(places)}
    notes: dict[str, str] = {}
    for i, node in enumerate(layout.nodes.tolist()):
        kept_out = [f"kept out: {cluster.kept_out[node]}"] if node in cluster.kept_out else []
        flagged = [flag_sentence(cluster.flags[node])] if node in cluster.flags else []
        if kept_out or flagged:
            notes[str(i)] = "; ".join(kept_out + flagged)
    return {
        "names": [cluster.names[i] for i in layout.nodes],
        "places": places,
        "place": [number[path] for path in paths],
        "gpus": cluster.gpus[layout.nodes].tolist(),
        "free": cluster.free_gpus[layout.nodes].tolist(),
        "types": cluster.gpu_types,
        "type": cluster.gpu_type_of[layout.nodes].tolist(),
        "flags": notes,
    }


def flag_sentence(flag: NodeFlag) -> str:
    """Return a flag in one line: ``"straggler, 1.35x slower (cluster file)"``."""
    degree = "faulty" if flag.kind == "faulty" else f"{flag.kind}, {flag.slowdown:g}x the time"
    source = f" ({flag.source})" if flag.source else ""
    evidence = f": {flag.evidence}" if flag.evidence else ""
    return f"{degree}{source}{evidence}"


MARGIN = 24.0
LEAST_WIDTH = 640.0
STRIP = 0.3  # Height of the strip that says the type of GPU, as a share of that of a node's square
KEY_LINE = 21.0  # Height of a line of the legend
TITLE, SUBTITLE, KEY = 18.0, 12.0, 11.0  # Sizes of type of the title, the line below it, and the legend

INK, MUTED, GROUND = "#1d2329", "#68727d", "#ffffff"
BROAD, INNER = ("#f4f5f6", "#d5d9dd"), ("#fbfbfc", "#dfe3e6")  # Fill and border of boxes
POINTS = 0.75  # Points in a pixel: matplotlib sizes type and lines in points
SCALE = 2  # Pixels of a PNG for each pixel of the layout, for sharp screens


def figure_bytes(cluster: Cluster, layout: Layout, kind: str, *, title: str, subtitle: str) -> bytes:
    """Draw a cluster into the bytes of a picture.  Same input, same bytes.

    The font that comes with the library knows no Chinese or Japanese: such letters are drawn as empty boxes here, and
    as they should be on the page (:mod:`~topology.drawing.renderers`).
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    states = node_states(cluster)
    width = max(layout.width, LEAST_WIDTH) + 2 * MARGIN
    # each type of GPU whose name is known has a colour, unless all nodes are alike
    types = np.unique(cluster.gpu_type_of).tolist()
    named = [kind for kind in types if cluster.gpu_types[kind]] if len(types) > 1 else []
    type_tones = dict(zip(named, tones(len(named)), strict=True))
    of_types = [(colour, cluster.gpu_types[kind]) for kind, colour in type_tones.items()]
    legends = [
        [(LIGHT[state], f"{count:,} {state.label}") for state, count in legend(states)],
        [(colour, f"{cluster.nodes_of_type[name]:,} with {name}") for colour, name in of_types],
    ]
    # x, y, colour and text of each entry of the legend, broken into lines; states and types begin one
    keys: list[tuple[float, float, str, str]] = []
    y = -KEY_LINE
    for entries in filter(None, legends):
        x, y = 0.0, y + KEY_LINE
        for colour, text in entries:
            need = 18 + text_width(text, KEY) + 14
            if x and x + need > width - 2 * MARGIN:
                x, y = 0.0, y + KEY_LINE
            keys.append((x, y, colour, text))
            x += need
    squares = [_corners(x, y, layout.side, layout.side) for x, y in zip(layout.x, layout.y, strict=True)]
    colours = [LIGHT[State(int(states[node]))] for node in layout.nodes]
    for bar in layout.bars:
        for state, x, wide in slices(bar, states, len(State)):
            squares.append(_corners(x, bar.y, wide, bar.height))
            colours.append(LIGHT[State(state)])
    top = MARGIN + TITLE + SUBTITLE + 34 + max(0.0, y) + 20
    height = top + layout.height + MARGIN
    with (
        matplotlib.rc_context({"svg.hashsalt": "arnold", "svg.fonttype": "path", "font.family": "DejaVu Sans"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width / 96, height / 96), dpi=96, facecolor=GROUND)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(-MARGIN, width - MARGIN)
        axes.set_ylim(height - top, -top)
        axes.set_axis_off()
        _text(axes, 0, -top + MARGIN + TITLE * 0.8, title, TITLE, weight="bold")
        _text(axes, 0, -top + MARGIN + TITLE + 8 + SUBTITLE * 0.8, subtitle, SUBTITLE, color=MUTED)
        for x, y, colour, text in keys:
            key_top = -top + MARGIN + TITLE + SUBTITLE + 22 + y
            axes.add_patch(Rectangle((x, key_top), 12, 12, facecolor=colour, linewidth=0))
            _text(axes, x + 18, key_top + 10, text, KEY)
        _draw_boxes(axes, layout)
        axes.add_collection(PolyCollection(squares, facecolors=colours, linewidths=0, zorder=2))
        _draw_types(axes, layout, cluster.gpu_type_of, type_tones)
        for label in labels(layout, free_of(cluster)):
            colour, weight = (INK, "bold") if label.name else (MUTED, "normal")
            side = "right" if label.right else "left"
            _text(axes, label.x, label.y, label.text, label.size, color=colour, weight=weight, ha=side)
        target = BytesIO()
        metadata = {"Date": None, "Creator": "arnold"} if kind == "svg" else {"Software": "arnold"}
        figure.savefig(target, format=kind, dpi=96 * (SCALE if kind == "png" else 1), metadata=metadata)
    return target.getvalue()


def _draw_boxes(axes: Axes, layout: Layout) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import FancyBboxPatch

    for frame in layout.frames:
        if frame.broad:
            box = FancyBboxPatch((frame.x, frame.y), frame.width, frame.height, boxstyle="round,pad=0,rounding_size=5")
            box.set(facecolor=BROAD[0], edgecolor=BROAD[1], linewidth=POINTS, zorder=1 + frame.depth / 100)
            axes.add_patch(box)
    inner = (frame for frame in layout.frames if not frame.broad)
    by_depth = grouped((frame.depth, _corners(frame.x, frame.y, frame.width, frame.height)) for frame in inner)
    for depth, corners in sorted(by_depth.items()):
        boxes = PolyCollection(corners, facecolors=INNER[0], edgecolors=INNER[1], linewidths=POINTS * 0.6)
        boxes.set_zorder(1 + depth / 100)
        axes.add_collection(boxes)


def _draw_types(axes: Axes, layout: Layout, types: IntArray, colour_of: Mapping[int, str]) -> None:
    """Draw a strip at the foot of each square, or of the slices of a bar, that says the type of GPU."""
    from matplotlib.collections import PolyCollection

    foot = STRIP * layout.side
    squares = zip(types[layout.nodes].tolist(), layout.x, layout.y + layout.side - foot, strict=True)
    strips = [(kind, _corners(x, y, layout.side, foot)) for kind, x, y in squares if kind in colour_of]
    for bar in layout.bars:
        foot = STRIP * bar.height
        cuts = slices(bar, types, int(types.max()) + 1)
        strips += [
            (kind, _corners(x, bar.y + bar.height - foot, wide, foot)) for kind, x, wide in cuts if kind in colour_of
        ]
    if strips:
        colours = [colour_of[kind] for kind, _ in strips]
        drawn = PolyCollection([corners for _, corners in strips], facecolors=colours, linewidths=0, zorder=3)
        axes.add_collection(drawn)


def _corners(x: float, y: float, width: float, height: float) -> list[XY]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _text(axes: Axes, x: float, y: float, text: str, size: float, *, color: str = INK, **look: Any) -> None:
    axes.text(x, y, text, fontsize=size * POINTS, va="baseline", parse_math=False, color=color, **look)
