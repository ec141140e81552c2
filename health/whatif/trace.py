"""A trace as the analysis uses it: the same operations for every data-parallel rank and step, as dense arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from health.whatif.analysis_result import Operation
from health.whatif.metadata import JobSizes

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Operations of a traced job."""

    source: str  # name of the file
    sizes: JobSizes  # sizes of the job
    dp_ranks: tuple[int, ...]  # numbers of the data-parallel ranks, as in the trace
    steps: tuple[int, ...]  # numbers of the steps, as in the trace
    operations: tuple[Operation, ...]  # those of every rank and step, by stage, type and number within both
    sequence: NDArray[np.int64]  # int [operations], number within stage and type: the trace's seq_id
    row: NDArray[np.int32]  # int [operations, dp, steps], number of the row in the file, from 0
    start: Floats  # [operations, dp, steps], seconds since the first operation of the step, precision of the file
    duration: Floats  # [operations, dp, steps], seconds, precision of the file
    dropped: Mapping[str, int] = field(default_factory=dict)  # with lenient: reason -> rows left out

    def at(self, operation: int, rank: int = 0, step: int = 0) -> str:
        """Return where an operation stands in the file."""
        return f"{self.source}:row {self.row[operation, rank, step]}"

    def without_steps(self, bad: NDArray[np.bool_], reason: str) -> Trace:
        """Return the trace without some steps, and with their rows counted as dropped.

        :param bad: [steps].
        """
        keep = np.flatnonzero(~bad)
        return replace(
            self,
            steps=tuple(self.steps[i] for i in keep),
            row=self.row[:, :, keep],
            start=self.start[:, :, keep],
            duration=self.duration[:, :, keep],
            dropped={**self.dropped, reason: int(self.row[:, :, bad].size)},
        )
