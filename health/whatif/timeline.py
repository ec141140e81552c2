"""Every operation's times, three ways, for those who draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from health.whatif import step_replay
from health.whatif.analysis_result import Timeline, Timelines
from health.whatif.prepare import Replayed


def timelines_of(replayed: Replayed, steps: Sequence[int] | None = None) -> Timelines:
    """Return the traced, the simulated and the ideal run of some steps.

    :param steps: places of the steps in ``Analysis.steps``; ``None`` = all, which takes six arrays of the trace's size.
    """
    trace, durations = replayed.trace, replayed.durations
    chosen = list(range(len(trace.steps)) if steps is None else steps)
    start, duration = trace.start[:, :, chosen], trace.duration[:, :, chosen]
    traced = _timeline(replayed, chosen, start.astype(np.float64), (start + duration).astype(np.float64))
    simulated = _replayed(replayed, chosen, lambda i: durations.traced[i][:, chosen])
    ideal = _replayed(replayed, chosen, durations.ideal.__getitem__)
    return Timelines(traced, simulated, ideal)


def _replayed(replayed: Replayed, steps: Sequence[int], durations: step_replay.DurationOf) -> Timeline:
    shape = (len(replayed.trace.operations), len(replayed.trace.dp_ranks), len(steps))
    start, end = np.empty(shape), np.empty(shape)
    for event in step_replay.replay(replayed.graph, durations):
        start[event.operation], end[event.operation] = event.start, event.end
    return _timeline(replayed, steps, start, end)


def _timeline(replayed: Replayed, steps: Sequence[int], start: step_replay.Array, end: step_replay.Array) -> Timeline:
    trace = replayed.trace
    return Timeline(trace.operations, tuple(trace.steps[i] for i in steps), start, end)
