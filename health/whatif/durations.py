"""How long each operation took by itself, and how long it should take.

A traced transfer lasts from its launch, waiting included; the transfer alone begins when the last member of its group
has launched.  Ideal is the mean of an operation type for compute, where work moves from one worker to another, and the
median for transfers, where outliers are faults (arXiv 2505.05713).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from health.whatif.graph import Graph
from health.whatif.optypes import COMPUTE, SENDS
from health.whatif.trace import Trace

Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Durations of all operations, without waiting.

    :param traced: [operations, dp, steps], seconds.
    :param ideal: [operations], seconds.
    :param early: [steps], seconds: by how much a transfer seems to have ended before its last member was launched, at
        most; zero where the clocks of the ranks agree.  A send does not count: a small message is sent once it is
        buffered, whether or not anybody receives yet.
    :param earliest: [steps], the operation that shows it.
    """

    traced: Seconds
    ideal: Seconds
    early: Seconds
    earliest: NDArray[np.int64]


def durations_of(trace: Trace, graph: Graph) -> Durations:
    """Durations of a trace.

    An end is start + duration in the precision of the file, as in the published analysis.
    """
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


def _ideal(trace: Trace, traced: Seconds) -> Seconds:
    """Per operation the mean or median of its type over steps, microbatches, stages and ranks together."""
    kinds: dict[str, list[int]] = defaultdict(list)
    for place, operation in enumerate(trace.operations):
        kinds[operation.optype].append(place)
    ideal = np.empty(len(traced))
    for optype, places in kinds.items():
        values = traced[places]
        ideal[places] = values.mean() if optype in COMPUTE else np.median(values)
    return ideal
