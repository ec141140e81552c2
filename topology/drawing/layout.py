"""Where everything stands in a drawing of a cluster, and what is written there: pure geometry, one for all renderers.

Domains are nested boxes in the order of the tree, siblings on a grid of equal columns; nodes are squares of one size,
as large as the page allows, inside the box of their closest domain.  Lengths are in pixels, y grows downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from topology.cluster import Cluster, FloatArray, IntArray
from topology.drawing.simplify import DETAIL, Shape, shapes
from topology.drawing.sizing import BROAD, SizedBox, Sizer, Style, text_width
from topology.quantities import plural

WIDTH = 1200.0  # Default width of a drawing
MOST_HEIGHT = 0.8  # Height that a drawing should not exceed, as a share of its width
SIDES = (26, 22, 19, 16, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3)  # Sides of a node's square to try, the largest first
BAR_SIDES = (10.0, 8.0, 7.0, 6.0, 5.0, 4.5, 4.0, 3.5, 3.0, 2.5, 2.0, 1.6, 1.3, 1.0, 0.8, 0.6, 0.4)
"""The same for nodes merged into bars: the side of the area that one node adds to its bar."""


@dataclass(frozen=True, slots=True, eq=False)
class DomainFrame:
    """The box of a domain."""

    shape: Shape
    x: float
    y: float
    width: float
    height: float
    depth: int  # how many boxes it stands in, 0 for the outermost
    header: float  # height of the strip at its top that holds the label; 0 = no label
    style: Style

    @property
    def broad(self) -> bool:
        """Whether it belongs to the level that divides the cluster first: drawn with more weight."""
        return self.style is BROAD


@dataclass(frozen=True, slots=True, eq=False)
class Bar:
    """The area of nodes of a domain that are merged into one rectangle."""

    shape: Shape
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A drawing without colours."""

    width: float
    height: float
    frames: tuple[DomainFrame, ...]  # boxes, outer before inner
    bars: tuple[Bar, ...]  # merged nodes; empty when nodes are squares
    nodes: IntArray  # shape [squares], which node each square is; empty when nodes are bars
    x: FloatArray  # shape [squares], left edge
    y: FloatArray  # shape [squares], top edge
    side: float


def layout(cluster: Cluster, *, width: float = WIDTH, detail: int = DETAIL) -> Layout:
    """Lay a cluster out, ``width`` wide at most; beyond so many nodes (``detail``) they are merged into bars."""
    tree = shapes(cluster, detail=detail)
    sides: Sequence[float] = BAR_SIDES if tree.bars else SIDES
    for side in sides:
        gap = 3.0 if side >= 16 else 2.0 if side >= 9 else 1.0
        sizer = Sizer(tree, side=side, gap=0.0 if tree.bars else gap)
        block = sizer.root(width)
        if block.width <= width and block.height <= MOST_HEIGHT * width:
            break
    return _settle(block, sizer, tree.bars)


def _settle(root: SizedBox, sizer: Sizer, bars: bool) -> Layout:
    """Give every block its place."""
    frames: list[DomainFrame] = []
    merged: list[Bar] = []
    order: list[IntArray] = [root.shape.nodes[:0]]
    xs: list[FloatArray] = [np.zeros(0)]
    ys: list[FloatArray] = [np.zeros(0)]
    pitch = sizer.side + sizer.gap

    def settle(block: SizedBox, x: float, y: float, depth: int, *, boxed: bool) -> None:
        if boxed:
            width, height = block.width, block.height
            frames.append(DomainFrame(block.shape, x, y, width, height, depth, block.header, block.style))
        for part, dx, dy in block.parts:
            settle(part, x + dx, y + dy, depth + boxed, boxed=part.shape is not block.shape)
        if block.columns and bars:
            merged.append(Bar(block.shape, x, y, block.width, block.height))
        elif block.columns:
            place = np.arange(len(block.shape.own))
            order.append(block.shape.own)
            xs.append((x + place % block.columns * pitch).astype(np.float64))
            ys.append((y + place // block.columns * pitch).astype(np.float64))

    settle(root, 0.0, 0.0, 0, boxed=False)
    return Layout(
        width=root.width,
        height=root.height,
        frames=tuple(frames),
        bars=tuple(merged),
        nodes=np.concatenate(order),
        x=np.concatenate(xs),
        y=np.concatenate(ys),
        side=float(sizer.side),
    )


def slices(bar: Bar, paint: IntArray, kinds: int) -> Iterator[tuple[int, float, float]]:
    """Yield upright slices of a bar: the kind, the left edge and the width of each."""
    counts = np.bincount(paint[bar.shape.own], minlength=kinds)
    x = bar.x
    for kind in np.flatnonzero(counts):
        width = bar.width * float(counts[kind]) / len(bar.shape.own)
        yield int(kind), x, width
        x += width


ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text in a drawing."""

    x: float  # left end, or right end when right; y is the base line
    y: float
    text: str
    size: float
    name: bool  # whether it is the name of a domain (drawn with weight) or a note beside it
    frame: int  # number of its box among the frames of the layout
    right: bool = False


def labels(layout: Layout, note: Callable[[Shape], str]) -> Iterator[Label]:
    """Yield labels of all boxes that have room for one: the name, and at the right a short note where both fit."""
    for number, frame in enumerate(layout.frames):
        if not frame.header:
            continue
        inside, font = frame.style.padding, frame.style.font
        room, y = frame.width - 2 * inside, frame.y + inside + font
        name = fit(frame.shape.label, font, room)
        yield Label(frame.x + inside, y, name, font, name=True, frame=number)
        text, size = note(frame.shape), font - 1
        if text_width(name + "  ", font) + text_width(text, size) <= room:
            yield Label(frame.x + frame.width - inside, y, text, size, name=False, frame=number, right=True)


def fit(text: str, size: float, room: float) -> str:
    """Return a text cut to the room there is, with an ellipsis for what was cut."""
    if text_width(text, size) <= room:
        return text
    for length in range(len(text) - 1, 0, -1):
        if text_width(text[:length] + ELLIPSIS, size) <= room:
            return text[:length] + ELLIPSIS
    return ""


def free_of(cluster: Cluster) -> Callable[[Shape], str]:
    """Return what gives the note beside a domain's name: nodes free for a gang, of all its nodes."""
    return lambda shape: f"{int(cluster.idle[shape.nodes].sum()):,}/{len(shape.nodes):,}"


def inventory(cluster: Cluster) -> str:
    """Return one line on the size of a cluster: ``"22 minipods, 528 racks, 2,046 nodes, 16,368 GPUs"``."""
    counts = [(int((~level.implicit).sum()), level.name) for level in cluster.levels]
    return ", ".join(plural(n, noun) for n, noun in [*counts, (len(cluster), "node"), (int(cluster.gpus.sum()), "GPU")])
