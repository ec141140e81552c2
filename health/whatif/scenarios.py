"""Replays with some operations traced and all others ideal.

Where only one data-parallel rank is traced, all other ranks do the same: one of them stands for all, and all scenarios
"only rank k" run in one replay over arrays [k, (k itself, another rank), steps].  So the slowdown of every single
worker costs two replays for each stage, however many ranks there are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from health.whatif.durations import Durations
from health.whatif.graph import Graph
from health.whatif.replay import step_seconds

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scenarios:
    """The what-ifs of one trace.  All results are step times in seconds."""

    graph: Graph
    durations: Durations

    @property
    def shape(self) -> tuple[int, int, int]:
        """Operations, data-parallel ranks, steps."""
        operations, ranks, steps = self.durations.traced.shape
        return operations, ranks, steps

    def only(self, operations: Collection[int]) -> Array:
        """[steps]: these operations traced, all others ideal."""
        traced, ideal = self.durations.traced, self.durations.ideal
        chosen = np.zeros(len(ideal), dtype=np.bool_)
        chosen[list(operations)] = True

        def duration(i: int) -> Array | float:
            return _of(traced, i) if chosen[i] else float(ideal[i])

        return self._steps(step_seconds(self.graph, duration))

    def ideal(self) -> float:
        """All operations ideal: the same for all steps."""
        return float(step_seconds(self.graph, self.durations.ideal.__getitem__))

    def mixed(self, traced_here: NDArray[np.bool_]) -> Array:
        """[steps]: traced where ``traced_here`` [operations, dp] says so, ideal elsewhere."""
        traced, ideal = self.durations.traced, self.durations.ideal

        def duration(i: int) -> Array | float:
            here = traced_here[i]
            if here.all():
                return _of(traced, i)
            return np.where(here[:, None], _of(traced, i), ideal[i]) if here.any() else float(ideal[i])

        return self._steps(step_seconds(self.graph, duration))

    def replaced(self, others: Mapping[int, Array]) -> Array:
        """[steps]: all operations traced, but these with other durations [dp, steps]."""
        traced = self.durations.traced
        return self._steps(step_seconds(self.graph, lambda i: others[i] if i in others else _of(traced, i)))

    def each_rank(self, operations: Collection[int]) -> Array:
        """[dp, steps]: for each rank, these operations of this rank traced, everything else ideal."""
        traced, ideal = self.durations.traced, self.durations.ideal
        _, ranks, steps = self.shape
        chosen = np.zeros(len(ideal), dtype=np.bool_)
        chosen[list(operations)] = True

        def duration(i: int) -> Array | float:
            if not chosen[i]:
                return float(ideal[i])
            both = np.full((ranks, min(ranks, 2), steps), ideal[i])
            both[:, 0] = traced[i]
            return both

        return np.broadcast_to(step_seconds(self.graph, duration), (ranks, steps))

    def _steps(self, seconds: Array) -> Array:
        return np.broadcast_to(seconds, (self.shape[2],))


def _of(traced: Array, operation: int) -> Array:
    """[dp, steps]: durations of one operation."""
    durations: Array = traced[operation]
    return durations
