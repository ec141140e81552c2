"""The replay: what a step would have taken with other durations.

An operation is launched when all it waits for has ended; a compute operation ends its duration later, a transfer its
own duration after the last launch in its group.  Arrays are [..., dp, steps]; durations may leave axes out (a plain
number is the same for all ranks and steps), so that what no straggler touches costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from health.whatif.graph import Graph

Array = NDArray[np.float64]
Durations = Callable[[int], Array | float]
"""Operation -> its duration: a number or [..., dp, steps]."""


class Event(NamedTuple):
    """One operation, replayed."""

    operation: int
    start: Array
    end: Array


def replay(graph: Graph, durations: Durations) -> Iterator[Event]:
    """All operations, each after those it waits for."""
    ends: dict[int, Array] = {}
    zero: Array = np.zeros(())
    for group in graph.groups:
        starts = []
        for member in group.members:
            start = zero
            for waits in graph.predecessors[member]:
                start = ends[waits] if start is zero else np.maximum(start, ends[waits])
            starts.append(start)
        launched = starts[0]
        for start in starts[1:]:
            launched = np.maximum(launched, start)
        if group.joined and launched.ndim > 1:
            launched = launched.max(axis=-2, keepdims=True)
        for member, start in zip(group.members, starts, strict=True):
            end: Array = np.add(launched, durations(member))
            ends[member] = end
            yield Event(member, start, end)
        for operation in group.spent:
            del ends[operation]


def step_seconds(graph: Graph, durations: Durations) -> Array:
    """Time of each step: the latest end of an optimizer.  [..., steps], or a plain number if no duration has axes."""
    latest: Array = np.zeros(())
    for event in replay(graph, durations):
        if event.operation in graph.last:
            latest = np.maximum(latest, event.end)
    return latest.max(axis=-2) if latest.ndim > 1 else latest
