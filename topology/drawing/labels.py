"""What is written where: labels of boxes, cut to fit, and the counts of a legend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from topology.cluster import Cluster, IntArray
from topology.drawing.layout import Layout
from topology.drawing.simplify import Shape
from topology.drawing.sizing import text_width
from topology.quantities import plural
from topology.states import State, count_states

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


def legend(states: IntArray) -> tuple[tuple[State, int], ...]:
    """Return states that occur and how many nodes are in each, from best to worst."""
    return tuple((State(i), count) for i, count in enumerate(count_states(states)) if count)


def free_of(cluster: Cluster) -> Callable[[Shape], str]:
    """Return what gives the note beside a domain's name: nodes free for a gang, of all its nodes."""
    return lambda shape: f"{int(cluster.idle[shape.nodes].sum()):,}/{len(shape.nodes):,}"


def inventory(cluster: Cluster) -> str:
    """Return one line on the size of a cluster: ``"22 minipods, 528 racks, 2,046 nodes, 16,368 GPUs"``."""
    counts = [(int((~level.implicit).sum()), level.name) for level in cluster.levels]
    return ", ".join(plural(n, noun) for n, noun in [*counts, (len(cluster), "node"), (int(cluster.gpus.sum()), "GPU")])
