"""A trace made ready for replay: its graph, its durations, and a look at the clocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from health.whatif.operation_graph import Graph, build_graph
from health.whatif.step_replay import Durations, Scenarios, durations_of
from health.whatif.trace import Trace
from topology.errors import TraceFormatError

SKEW = 0.01
"""Disagreement of the clocks, as a share of the step time, from which on the replay is not good to a per cent.  In
the published traces no transfer ends too early at all."""


class Replayed(NamedTuple):
    """A trace with what is needed to replay it."""

    trace: Trace
    graph: Graph
    durations: Durations

    @property
    def scenarios(self) -> Scenarios:
        """Its what-ifs."""
        return Scenarios(self.graph, self.durations)


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
