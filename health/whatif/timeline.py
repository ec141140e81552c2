"""Every operation's times, three ways, for those who draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from health.whatif import replay
from health.whatif.prepare import Replayed
from health.whatif.result import Timeline, Timelines


def timelines_of(replayed: Replayed, steps: Sequence[int] | None = None) -> Timelines:
    """The traced, the simulated and the ideal run of some steps.

    :param steps: places of the steps in ``Analysis.steps``; ``None`` = all, which takes six arrays of the trace's size.
    """
    trace, durations = replayed.trace, replayed.durations
    chosen = list(range(len(trace.steps)) if steps is None else steps)
    start, duration = trace.start[:, :, chosen], trace.duration[:, :, chosen]
    traced = _timeline(replayed, chosen, start.astype(np.float64), (start + duration).astype(np.float64))
    simulated = _replayed(replayed, chosen, lambda i: durations.traced[i][:, chosen])
    ideal = _replayed(replayed, chosen, durations.ideal.__getitem__)
    return Timelines(traced, simulated, ideal)


def _replayed(replayed: Replayed, steps: Sequence[int], durations: replay.Durations) -> Timeline:
    shape = (len(replayed.trace.operations), len(replayed.trace.dp_ranks), len(steps))
    start, end = np.empty(shape), np.empty(shape)
    for event in replay.replay(replayed.graph, durations):
        start[event.operation], end[event.operation] = event.start, event.end
    return _timeline(replayed, steps, start, end)


def _timeline(replayed: Replayed, steps: Sequence[int], start: replay.Array, end: replay.Array) -> Timeline:
    trace = replayed.trace
    return Timeline(trace.operations, tuple(trace.steps[i] for i in steps), start, end)
