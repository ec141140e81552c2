"""A cluster as a picture file, PNG or SVG: the one door of matplotlib."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from topology.cluster import Cluster, IntArray
from topology.drawing.elements import XY
from topology.drawing.layout import Layout, free_of, labels, slices
from topology.drawing.palette import LIGHT, tones
from topology.drawing.sizing import text_width
from topology.states import State, legend, node_states

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    as they should be on the page (:mod:`~topology.drawing.cluster_page`).
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    states = node_states(cluster)
    width = max(layout.width, LEAST_WIDTH) + 2 * MARGIN
    strips = _type_tones(cluster)
    keys = list(_legend_spots(*_legend_entries(cluster, states, strips), room=width - 2 * MARGIN))
    top = MARGIN + TITLE + SUBTITLE + 34 + (keys[-1][1] if keys else 0.0) + 20
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
        _draw_legend(axes, keys, -top + MARGIN + TITLE + SUBTITLE + 22)
        _draw_boxes(axes, layout)
        _draw_nodes(axes, layout, states)
        _draw_types(axes, layout, cluster.gpu_type_of, strips)
        for label in labels(layout, free_of(cluster)):
            colour, weight = (INK, "bold") if label.name else (MUTED, "normal")
            side = "right" if label.right else "left"
            _text(axes, label.x, label.y, label.text, label.size, color=colour, weight=weight, ha=side)
        target = BytesIO()
        metadata = {"Date": None, "Creator": "arnold"} if kind == "svg" else {"Software": "arnold"}
        figure.savefig(target, format=kind, dpi=96 * (SCALE if kind == "png" else 1), metadata=metadata)
    return target.getvalue()


def _legend_entries(cluster: Cluster, states: IntArray, colour_of: Mapping[int, str]) -> list[list[tuple[str, str]]]:
    """Return colours and what they mean: states of nodes, then types of GPU."""
    nodes = cluster.nodes_of_type
    named = [(colour, cluster.gpu_types[kind]) for kind, colour in colour_of.items()]
    return [
        [(LIGHT[state], f"{count:,} {state.label}") for state, count in legend(states)],
        [(colour, f"{nodes[name]:,} with {name}") for colour, name in named],
    ]


def _legend_spots(*groups: Sequence[tuple[str, str]], room: float) -> Iterator[tuple[float, float, str, str]]:
    """Yield x, y, colour and text of each entry, broken into lines; each group begins a line."""
    y = -KEY_LINE
    for group in filter(None, groups):
        x, y = 0.0, y + KEY_LINE
        for colour, text in group:
            need = 18 + text_width(text, KEY) + 14
            if x and x + need > room:
                x, y = 0.0, y + KEY_LINE
            yield x, y, colour, text
            x += need


def _draw_legend(axes: Axes, keys: Sequence[tuple[float, float, str, str]], top: float) -> None:
    from matplotlib.patches import Rectangle

    for x, y, colour, text in keys:
        axes.add_patch(Rectangle((x, top + y), 12, 12, facecolor=colour, linewidth=0))
        _text(axes, x + 18, top + y + 10, text, KEY)


def _draw_boxes(axes: Axes, layout: Layout) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import FancyBboxPatch

    for frame in layout.frames:
        if frame.broad:
            box = FancyBboxPatch((frame.x, frame.y), frame.width, frame.height, boxstyle="round,pad=0,rounding_size=5")
            box.set(facecolor=BROAD[0], edgecolor=BROAD[1], linewidth=POINTS, zorder=1 + frame.depth / 100)
            axes.add_patch(box)
    inner: dict[int, list[list[XY]]] = defaultdict(list)
    for frame in layout.frames:
        if not frame.broad:
            inner[frame.depth].append(_corners(frame.x, frame.y, frame.width, frame.height))
    for depth, corners in sorted(inner.items()):
        boxes = PolyCollection(corners, facecolors=INNER[0], edgecolors=INNER[1], linewidths=POINTS * 0.6)
        boxes.set_zorder(1 + depth / 100)
        axes.add_collection(boxes)


def _draw_nodes(axes: Axes, layout: Layout, states: IntArray) -> None:
    from matplotlib.collections import PolyCollection

    corners = [_corners(x, y, layout.side, layout.side) for x, y in zip(layout.x, layout.y, strict=True)]
    kinds = [State(int(states[node])) for node in layout.nodes]
    for bar in layout.bars:
        for kind, x, width in slices(bar, states, len(State)):
            corners.append(_corners(x, bar.y, width, bar.height))
            kinds.append(State(kind))
    axes.add_collection(PolyCollection(corners, facecolors=[LIGHT[kind] for kind in kinds], linewidths=0, zorder=2))


def _type_tones(cluster: Cluster) -> dict[int, str]:
    """Return the colour of each type of GPU whose name is known, by number; none where all nodes are alike."""
    types = np.unique(cluster.gpu_type_of).tolist()
    named = [kind for kind in types if cluster.gpu_types[kind]]
    return dict(zip(named, tones(len(named)), strict=True)) if len(types) > 1 else {}


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
