"""Where everything stands in a drawing of a cluster, and what is written there: pure geometry, one for all renderers.

Domains are nested boxes in the order of the tree, siblings on a grid of equal columns; nodes are squares of one size,
as large as the page allows, inside the box of their closest domain.  Lengths are in pixels, y grows downwards.

First it is decided what of the tree is worth a box.  Three things are left out.  Below the broadest level, a domain of
a single node says nothing that the node does not say.  A domain that holds one other domain and no more shares that
one's box.  And beyond :data:`DETAIL` nodes the closest domains become bars: one rectangle a domain, cut by state, so
that any cluster makes a picture of a few megabytes at most.  Then boxes get their sizes, from the closest level to the
broadest, and at last their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, log
from statistics import median, median_high

import numpy as np

from ground.quantities import plural
from topology.cluster import Cluster, FloatArray, IntArray
from topology.drawing.page_kit import XY
from topology.summary import Domain, domain_tree

DETAIL = 15_000  # Nodes up to which each has its own square
BARS = 3_000  # Most bars that a drawing may have


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A domain as it is drawn."""

    levels: tuple[str, ...]  # levels of the domains that share this box, from broad to close
    names: tuple[str, ...]  # their names
    nodes: IntArray  # nodes below
    children: tuple[Shape, ...]  # boxes inside
    own: IntArray  # nodes drawn right inside, as squares or as one bar

    @property
    def label(self) -> str:
        """Names as read from outside to inside."""
        return " / ".join(self.names)

    def walk(self) -> Iterator[Shape]:
        """Yield the shape itself and all inside, outer before inner."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True, eq=False)
class ShapeTree:
    """All that is drawn of a cluster."""

    root: Shape
    by_level: dict[str, list[Shape]]  # boxes of each level, from broad to close
    bars: bool  # whether nodes are merged into bars


def shapes(cluster: Cluster, *, detail: int = DETAIL) -> ShapeTree:
    """Return what to draw; more nodes than ``detail`` are bars."""
    bars = len(cluster) > detail
    fitting = [depth for depth, level in enumerate(cluster.levels, 1) if len(level) <= BARS]
    depth = max(fitting, default=0) if bars else len(cluster.levels)
    levels = {level.name for level in cluster.levels[:depth]}
    root = _shape(domain_tree(cluster), levels, keep_single=bars)
    boxes = [child for shape in root.walk() for child in shape.children]
    by_level = {level.name: [box for box in boxes if box.levels[0] == level.name] for level in cluster.levels}
    return ShapeTree(root, by_level, bars)


def _shape(domain: Domain, levels: set[str], *, keep_single: bool) -> Shape:
    own = [domain.own, *(child.nodes for child in domain.children if child.level not in levels)]
    children = []
    for child in domain.children:
        if child.level not in levels:
            continue
        shape = _shape(child, levels, keep_single=keep_single)
        if len(shape.nodes) == 1 and domain.level and not keep_single:
            own.append(shape.nodes)
        else:
            children.append(shape)
    levels_here, names = ((domain.level,), (domain.name,)) if domain.level else ((), ())
    nodes_here = np.concatenate(own)
    if domain.level and len(children) == 1 and not len(nodes_here):
        only = children[0]
        return Shape(levels_here + only.levels, names + only.names, only.nodes, only.children, only.own)
    return Shape(levels_here, names, domain.nodes, tuple(children), nodes_here)


NARROW, NORMAL, WIDE = 0.36, 0.62, 1.0
"""Widths of letters of a sans-serif face as shares of its size; generous, so that nothing runs over."""

_NARROW_LETTERS, _WIDE_LETTERS = frozenset("fijlrtI.,:;|!'()[]/ "), frozenset("mwMW@%")


@dataclass(frozen=True, slots=True)
class Style:
    """Distances of one kind of box."""

    padding: float
    gap: float
    font: float


BROAD = Style(padding=7, gap=10, font=11)
MIDDLE = Style(padding=5, gap=6, font=9)
CLOSE = Style(padding=2, gap=3, font=8)
TIGHT = Style(padding=1, gap=2, font=8)
"""For the closest boxes when squares are small, lest borders take more room than nodes."""

SMALL_SIDE = 8.0

SHELF_WASTE = 1.25
"""Blocks stand in rows as long as that takes at most this much more height than stacking them in columns."""

PAGE_ASPECT, BOX_ASPECT = 2.0, 1.4
"""Width by height that is aimed at: for boxes around those that divide the cluster, and for all others."""

ODD = 1.5  # A block wider than the usual one by more than this takes several columns
MUCH_LARGER = 2
"""A domain that holds more than this many times as much as is usual at its level gets its own number of columns."""

MOST_FOR_LABEL = 90.0  # Width that a box is given for the sake of its label at most
MOST_BROAD = 80
"""Domains of the level that divides the cluster up to which each is drawn with weight and always labelled."""

MOST_LABELS = 600  # Domains of any level up to which they are labelled where there is room


@dataclass(slots=True)
class SizedBox:
    """A box of known size, and the blocks in it with their places; its own place is not known yet."""

    shape: Shape
    width: float
    height: float
    style: Style
    header: float = 0.0
    columns: int = 0
    parts: list[tuple[SizedBox, float, float]] = field(default_factory=list)


MOST_HEIGHT = 0.8  # Height that a drawing should not exceed, as a share of its width
SIDES = (26, 22, 19, 16, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3)  # Sides of a node's square to try, the largest first
BAR_SIDES = (10.0, 8.0, 7.0, 6.0, 5.0, 4.5, 4.0, 3.5, 3.0, 2.5, 2.0, 1.6, 1.3, 1.0, 0.8, 0.6, 0.4)
"""The same for nodes merged into bars: the side of the area that one node adds to its bar."""


class Sizer:
    """Sizes of all boxes for one size of squares, found from the closest level to the broadest.  Boxes of one level
    share their number of columns, to look alike; only a domain much larger than is usual at its level gets more.
    """

    def __init__(self, tree: ShapeTree, *, side: float, gap: float) -> None:
        self.side, self.gap = side, gap
        self._root, self._by_level = tree.root, tree.by_level
        # the level that divides the cluster first: below boxes that hold just one box
        shape = tree.root
        while len(shape.children) == 1 and shape.children[0].children:
            shape = shape.children[0]
        self._broad = shape.children[0].levels[0] if shape.children else ""
        self._blocks: dict[int, SizedBox] = {}

    def root(self, width: float) -> SizedBox:
        """Return the whole drawing as a block without a box."""
        for siblings in filter(None, reversed(self._by_level.values())):
            self._measure(siblings)
        if not self._root.children:
            return self._nodes_block(self._root, best_columns(len(self._root.own), aspect=2.0), BROAD)
        inner = self._contents(self._root, BROAD)
        fitting = max(1, int((width + BROAD.gap) // (_unit(inner) + BROAD.gap)))
        columns = ceil(len(inner) / ceil(len(inner) / fitting))
        return self._filled(self._root, inner, columns, BROAD)

    def _measure(self, siblings: list[Shape]) -> None:
        """Find the blocks of all domains of one level."""
        least = 0.0
        if siblings[0].levels[0] == self._broad and len(siblings) <= MOST_BROAD:
            style = BROAD
            least = min(MOST_FOR_LABEL, median(text_width(shape.label, style.font) for shape in siblings))
        elif any(shape.children for shape in siblings):
            style = MIDDLE
        else:
            style = CLOSE if self.side > SMALL_SIDE else TIGHT
        # boxes must be so large that labels can be read and do not drown the nodes
        area = median(len(shape.nodes) for shape in siblings) * (self.side + self.gap) ** 2
        needed = 4.0 * style.font**2 * median(len(shape.label) for shape in siblings)
        labels = style is BROAD or (len(siblings) <= MOST_LABELS and area >= needed)
        header = style.font + 6.0 if labels else 0.0
        contents: list[SizedBox] = []
        if full := [shape for shape in siblings if not shape.children]:
            usual = median_high(len(shape.own) for shape in full)
            columns = best_columns(usual)
            for shape in full:
                odd = len(shape.own) > MUCH_LARGER * usual
                contents.append(self._nodes_block(shape, best_columns(len(shape.own)) if odd else columns, style))
        if nested := [shape for shape in siblings if shape.children]:
            contents += self._nests(nested, style)
        for content in contents:
            # a border, and a label if there are labels, around each
            width, height = max(content.width, least) + 2 * style.padding, content.height + 2 * style.padding + header
            inside = [(content, style.padding, style.padding + header)]
            self._blocks[id(content.shape)] = SizedBox(content.shape, width, height, style, header, parts=inside)

    def _nests(self, shapes: list[Shape], style: Style) -> Iterator[SizedBox]:
        """Yield contents of domains that hold other domains."""
        inner = [self._contents(shape, style) for shape in shapes]
        usual = median_high(len(blocks) for blocks in inner)
        # boxes around those that divide the cluster are as wide as the page
        depth = {level: i for i, level in enumerate(self._by_level)}
        around = self._broad and all(depth[shape.levels[0]] < depth[self._broad] for shape in shapes)
        aspect = PAGE_ASPECT if around else BOX_ASPECT
        for shape, blocks in zip(shapes, inner, strict=True):
            count = len(blocks) if len(blocks) > MUCH_LARGER * usual else usual
            height = median(block.height for block in blocks)
            columns = best_columns(count, aspect=aspect, width=_unit(blocks), height=height)
            yield self._filled(shape, blocks, columns, style)

    def _contents(self, shape: Shape, style: Style) -> list[SizedBox]:
        inner = [self._blocks[id(child)] for child in shape.children]
        if len(shape.own) and shape.children:
            inner.append(self._nodes_block(shape, best_columns(len(shape.own)), style))
        return inner

    def _nodes_block(self, shape: Shape, columns: int, style: Style) -> SizedBox:
        """Return the nodes that stand right in a domain, as a block."""
        columns = min(columns, len(shape.own))
        rows = ceil(len(shape.own) / columns)
        pitch = self.side + self.gap
        return SizedBox(shape, columns * pitch - self.gap, rows * pitch - self.gap, style, columns=columns)

    def _filled(self, shape: Shape, inner: list[SizedBox], columns: int, style: Style) -> SizedBox:
        """Return a block with other blocks inside."""
        sizes = [(block.width, block.height) for block in inner]
        spots = pack(sizes, columns=columns, unit=_unit(inner), gap=inner[0].style.gap)
        parts = [(block, x, y) for block, (x, y) in zip(inner, spots, strict=True)]
        width = max(x + block.width for block, x, _ in parts)
        return SizedBox(shape, width, max(y + block.height for block, _, y in parts), style, parts=parts)


def best_columns(count: int, *, aspect: float = 1.5, width: float = 1.0, height: float = 1.0) -> int:
    """Return columns of a grid of cells that is about ``aspect`` times as wide as high and has few holes."""

    def cost(columns: int) -> float:
        rows = ceil(count / columns)
        holes = (columns * rows - count) / count
        return abs(log(columns * width / (rows * height * aspect))) + 3.0 * holes + (0.15 if holes else 0.0)

    around = (count * aspect * height / width) ** 0.5
    low, high = max(1, int(around / 2.5)), min(count, int(around * 2.5) + 2)
    return min(range(min(low, high), high + 1), key=cost)


def pack(sizes: Sequence[XY], *, columns: int, unit: float, gap: float) -> list[XY]:
    """Return x and y of blocks (width, height) on a grid of columns ``unit`` wide and a gap apart, in order.

    Blocks of about one height stand in rows; where heights differ much, each goes to the columns that are lowest so
    far.  A block wider than a column takes several.
    """
    spans = [min(columns, max(1, ceil((width + gap - 1e-6) / (unit + gap)))) for width, _ in sizes]
    heights = [height for _, height in sizes]
    # row by row
    in_rows: list[tuple[int, float]] = []
    column, y, tallest = 0, 0.0, 0.0
    for height, span in zip(heights, spans, strict=True):
        if column + span > columns:
            column, y, tallest = 0, y + tallest + gap, 0.0
        in_rows.append((column, y))
        column, tallest = column + span, max(tallest, height)
    # each as high on the page as it can lie, there leftmost
    stacked: list[tuple[int, float]] = []
    filled = [0.0] * columns
    for height, span in zip(heights, spans, strict=True):
        column = min(range(columns - span + 1), key=lambda start: max(filled[start : start + span]))
        top = max(filled[column : column + span])
        filled[column : column + span] = [top + height + gap] * span
        stacked.append((column, top))
    row_height = y + tallest
    spots = in_rows if row_height <= SHELF_WASTE * (max(filled) - gap) else stacked
    return [(column * (unit + gap), y) for column, y in spots]


def _unit(blocks: list[SizedBox]) -> float:
    """Return the width of a column: that of the widest block that is not out of the ordinary."""
    widths = [block.width for block in blocks]
    return max(width for width in widths if width <= ODD * median_high(widths))


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is at a size of type."""
    narrow = sum(letter in _NARROW_LETTERS for letter in text)
    wide = sum(letter in _WIDE_LETTERS or letter >= "\u2e80" for letter in text)
    return size * (NARROW * narrow + WIDE * wide + NORMAL * (len(text) - narrow - wide))


WIDTH = 1200.0  # Default width of a drawing


@dataclass(frozen=True, slots=True, eq=False)
class Bar:
    """The area of nodes of a domain that are merged into one rectangle."""

    shape: Shape
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, eq=False)
class DomainFrame(Bar):
    """The box of a domain."""

    depth: int  # how many boxes it stands in, 0 for the outermost
    header: float  # height of the strip at its top that holds the label; 0 = no label
    style: Style

    @property
    def broad(self) -> bool:
        """Whether it belongs to the level that divides the cluster first: drawn with more weight."""
        return self.style is BROAD


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
    # nodes as large as the page allows, or else the smallest that there is
    sides: Sequence[float] = BAR_SIDES if tree.bars else SIDES
    for side in sides:
        gap = 0.0 if tree.bars else 3.0 if side >= 16 else 2.0 if side >= 9 else 1.0
        root = Sizer(tree, side=side, gap=gap).root(width)
        if root.width <= width and root.height <= MOST_HEIGHT * width:
            break
    pitch = side + gap
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
        side=float(side),
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
