"""A trace made ready for replay: its graph, its durations, a look at the clocks, and the times of its operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from health.whatif.analysis_result import Timeline, Timelines
from health.whatif.operation_graph import Graph, build_graph
from health.whatif.step_replay import Array, DurationOf, Durations, durations_of, replay, step_seconds
from health.whatif.trace import Trace
from topology.errors import TraceFormatError

SKEW = 0.01
"""Disagreement of the clocks, as a share of the step time, from which on the replay is not good to a per cent.  In
the published traces no transfer ends too early at all."""


class Replayed(NamedTuple):
    """A trace with what is needed to replay it, and its what-ifs, whose results are step times in seconds.

    Where only one data-parallel rank is traced, all other ranks do the same: one of them stands for all, and all
    what-ifs "only rank k" run in one replay over arrays [k, (k itself, another rank), steps].  So the slowdown of every
    single worker costs two replays for each stage, however many ranks there are.
    """

    trace: Trace
    graph: Graph
    durations: Durations

    def ideal_step(self) -> float:
        """Return the step time with all operations ideal: the same for all steps."""
        return float(step_seconds(self.graph, self.durations.ideal.__getitem__))

    def steps_if(self, traced_here: NDArray[np.bool_]) -> Array:
        """Return [steps]: traced where ``traced_here``, [operations] or [operations, dp], says so, ideal elsewhere."""
        traced, ideal = self.durations.traced, self.durations.ideal
        here = traced_here.reshape(len(ideal), -1, 1)
        everywhere, anywhere = np.all(here, axis=(1, 2)), np.any(here, axis=(1, 2))

        def duration(i: int) -> Any:
            if everywhere[i]:
                return traced[i]
            return np.where(here[i], traced[i], ideal[i]) if anywhere[i] else float(ideal[i])

        return self._each_step(duration)

    def steps_with(self, others: Mapping[int, Array]) -> Array:
        """Return [steps]: all operations traced, but these with other durations [dp, steps]."""
        return self._each_step(lambda i: others[i] if i in others else self.durations.traced[i])

    def steps_of_each_rank(self, chosen: NDArray[np.bool_]) -> Array:
        """Return [dp, steps]: for each rank, the chosen operations of this rank traced, everything else ideal."""
        traced, ideal = self.durations.traced, self.durations.ideal
        _, ranks, steps = traced.shape

        def duration(i: int) -> Array | float:
            if not chosen[i]:
                return float(ideal[i])
            both = np.full((ranks, min(ranks, 2), steps), ideal[i])
            both[:, 0] = traced[i]
            return both

        return np.broadcast_to(step_seconds(self.graph, duration), (ranks, steps))

    def _each_step(self, duration: DurationOf) -> Array:
        return np.broadcast_to(step_seconds(self.graph, duration), self.durations.traced.shape[2:])


def prepare(trace: Trace, *, lenient: bool = False) -> Replayed:
    """Return graph and durations of a trace.

    :param lenient: leave out steps in which the clocks of the ranks disagree, and count their rows.
    :raises TraceFormatError: unpaired transfers; operations that wait for each other in a circle; clocks that disagree.
    """
    graph = build_graph(trace)
    durations = durations_of(trace, graph)
    ends = (trace.start + trace.duration).max(axis=(0, 1))
    skewed = durations.early > SKEW * ends
    if not skewed.any():
        return Replayed(trace, graph, durations)
    step = int(np.argmax(durations.early))
    place = int(durations.earliest[step])
    if not lenient or skewed.all():
        operation = trace.operations[place]
        raise TraceFormatError(
            f"clocks disagree by at least {durations.early[step]:.3f} s: in step {trace.steps[step]}, "
            f"{operation.optype} {trace.sequence[place]} of stage {operation.stage} ends before all its partners began",
            where=trace.at(place, step=step),
            fix="align the clocks of the ranks before converting the trace"
            + ("" if skewed.all() else ", or use --lenient to leave such steps out"),
        )
    trace = trace.without_steps(skewed, "step with clocks that disagree")
    return Replayed(trace, graph, durations_of(trace, graph))


def timelines_of(replayed: Replayed, steps: Sequence[int] | None = None) -> Timelines:
    """Return every operation's times in the traced, the simulated and the ideal run of some steps.

    :param steps: places of the steps in ``Analysis.steps``; ``None`` = all, which takes six arrays of the trace's size.
    """
    trace, durations = replayed.trace, replayed.durations
    chosen = list(range(len(trace.steps)) if steps is None else steps)
    start, duration = trace.start[:, :, chosen], trace.duration[:, :, chosen]

    def timeline(start: Array, end: Array) -> Timeline:
        return Timeline(trace.operations, tuple(trace.steps[i] for i in chosen), start, end)

    def replayed_with(seconds: DurationOf) -> Timeline:
        begin, end = np.empty(start.shape), np.empty(start.shape)
        for event in replay(replayed.graph, seconds):
            begin[event.operation], end[event.operation] = event.start, event.end
        return timeline(begin, end)

    return Timelines(
        traced=timeline(start.astype(np.float64), (start + duration).astype(np.float64)),
        simulated=replayed_with(lambda i: durations.traced[i][:, chosen]),
        ideal=replayed_with(durations.ideal.__getitem__),
    )
