"""The replay: what a step would have taken with other durations.

An operation is launched when all it waits for has ended; a compute operation ends its duration later, a transfer its
own duration after the last launch in its group.  Arrays are [..., dp, steps]; durations may leave axes out (a plain
number is the same for all ranks and steps), so that what no straggler touches costs next to nothing.

A traced transfer lasts from its launch, waiting included; the transfer alone begins when the last member of its group
has launched.  Ideal is the mean of an operation type for compute, where work moves from one worker to another, and the
median for transfers, where outliers are faults (arXiv 2505.05713).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from health.whatif.operation_graph import Graph
from health.whatif.optypes import COMPUTE, SENDS
from health.whatif.trace import Trace

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Durations of all operations, without waiting.

    :param traced: [operations, dp, steps], seconds.
    :param ideal: [operations], seconds.
    :param early: [steps], seconds: by how much a transfer seems to have ended before its last member was launched, at
        most; zero where the clocks of the ranks agree.  A send does not count: a small message is sent once it is
        buffered, received or not.
    :param earliest: [steps], the operation that shows it.
    """

    traced: Array
    ideal: Array
    early: Array
    earliest: NDArray[np.int64]


def durations_of(trace: Trace, graph: Graph) -> Durations:
    """Return durations of a trace; an end is start + duration in the file's precision, as in the published analysis."""
    traced = trace.duration.astype(np.float64)
    early, earliest = np.zeros(len(trace.steps)), np.zeros(len(trace.steps), dtype=np.int64)
    for group in graph.groups:
        members = list(group.members)
        if len(members) == 1 and not group.joined:
            continue
        start = trace.start[members]
        launched = start.max(axis=(0, 1)) if group.joined else start.max(axis=0)
        own = (start + trace.duration[members] - launched).astype(np.float64)
        for member, seconds in zip(members, own, strict=True):
            if trace.operations[member].optype in SENDS:
                continue
            too_early = -seconds.min(axis=0)
            earliest[too_early > early] = member
            np.maximum(early, too_early, out=early)
        traced[members] = np.maximum(own, 0.0)
    return Durations(traced=traced, ideal=_ideal(trace, traced), early=early, earliest=earliest)


def _ideal(trace: Trace, traced: Array) -> Array:
    """Return per operation the mean or median of its type over steps, microbatches, stages and ranks together."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for place, operation in enumerate(trace.operations):
        kinds[operation.optype].append(place)
    ideal = np.empty(len(traced))
    for optype, places in kinds.items():
        values = traced[places]
        ideal[places] = values.mean() if optype in COMPUTE else np.median(values)
    return ideal


DurationOf = Callable[[int], Array | float]
"""Operation -> its duration: a number or [..., dp, steps]."""


class Event(NamedTuple):
    """One operation, replayed."""

    operation: int
    start: Array
    end: Array


def replay(graph: Graph, durations: DurationOf) -> Iterator[Event]:
    """Yield all operations, each after those it waits for."""
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


def step_seconds(graph: Graph, durations: DurationOf) -> Array:
    """Return [..., steps], or a plain number if no duration has axes: the latest end of an optimizer in each step."""
    latest: Array = np.zeros(())
    for event in replay(graph, durations):
        if event.operation in graph.last:
            latest = np.maximum(latest, event.end)
    return latest.max(axis=-2) if latest.ndim > 1 else latest
