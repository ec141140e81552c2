"""A cluster as a picture file, PNG or SVG: the one door of matplotlib."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

from topology.cluster import Cluster, IntArray
from topology.drawing.elements import XY
from topology.drawing.layout import Layout, free_of, labels, slices
from topology.drawing.palette import LIGHT
from topology.drawing.sizing import text_width
from topology.states import State, legend, node_states

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN = 24.0
LEAST_WIDTH = 640.0
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
    keys = list(_legend_spots(legend(states), width - 2 * MARGIN))
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
        for label in labels(layout, free_of(cluster)):
            colour, weight = (INK, "bold") if label.name else (MUTED, "normal")
            side = "right" if label.right else "left"
            _text(axes, label.x, label.y, label.text, label.size, color=colour, weight=weight, ha=side)
        target = BytesIO()
        metadata = {"Date": None, "Creator": "arnold"} if kind == "svg" else {"Software": "arnold"}
        figure.savefig(target, format=kind, dpi=96 * (SCALE if kind == "png" else 1), metadata=metadata)
    return target.getvalue()


def _legend_spots(entries: tuple[tuple[State, int], ...], room: float) -> Iterator[tuple[float, float, State, str]]:
    """Yield x, y, state and text of each entry, broken into lines."""
    x = y = 0.0
    for state, count in entries:
        text = f"{count:,} {state.label}"
        need = 18 + text_width(text, KEY) + 14
        if x and x + need > room:
            x, y = 0.0, y + KEY + 10
        yield x, y, state, text
        x += need


def _draw_legend(axes: Axes, keys: list[tuple[float, float, State, str]], top: float) -> None:
    from matplotlib.patches import Rectangle

    for x, y, state, text in keys:
        axes.add_patch(Rectangle((x, top + y), 12, 12, facecolor=LIGHT[state], linewidth=0))
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


def _corners(x: float, y: float, width: float, height: float) -> list[XY]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _text(axes: Axes, x: float, y: float, text: str, size: float, *, color: str = INK, **look: Any) -> None:
    axes.text(x, y, text, fontsize=size * POINTS, va="baseline", parse_math=False, color=color, **look)
