"""Where everything stands in a drawing of a cluster, and what is written there: pure geometry, one for all renderers.

Domains are nested boxes in the order of the tree, siblings on a grid of equal columns; nodes are squares of one size,
as large as the page allows, inside the box of their closest domain.  Lengths are in pixels, y grows downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from topology.cluster import Cluster, FloatArray, IntArray
from topology.drawing.simplify import DETAIL, Shape, shapes
from topology.drawing.sizing import BROAD, SizedBox, Style, size_to_fit, text_width
from topology.quantities import plural

WIDTH = 1200.0  # Default width of a drawing


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
    sized = size_to_fit(tree, width)
    root, pitch = sized.root, sized.side + sized.gap
    frames: list[DomainFrame] = []
    merged: list[Bar] = []
    order: list[IntArray] = [root.shape.nodes[:0]]
    xs: list[FloatArray] = [np.zeros(0)]
    ys: list[FloatArray] = [np.zeros(0)]

    def settle(block: SizedBox, x: float, y: float, depth: int, *, boxed: bool) -> None:
        """Give a block and all in it their places."""
        if boxed:
            width, height = block.width, block.height
            frames.append(DomainFrame(block.shape, x, y, width, height, depth, block.header, block.style))
        for part, dx, dy in block.parts:
            settle(part, x + dx, y + dy, depth + boxed, boxed=part.shape is not block.shape)
        if block.columns and tree.bars:
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
        side=float(sized.side),
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
