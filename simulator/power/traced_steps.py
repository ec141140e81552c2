"""Step time and compute share of a job, from the op trace of a what-if analysis."""

from __future__ import annotations

import numpy as np

from health.whatif.optypes import COMPUTE
from health.whatif.trace import read_trace


def traced_step(file: str) -> tuple[float, float]:
    """Return the mean seconds of a step of a traced job, and the share of it in which a worker computes.

    Waits between compute operations, bubbles of a pipeline among them, do not count as computing.

    :raises InvalidInput: the file is no op trace.
    """
    trace = read_trace(file)
    seconds = (trace.start + trace.duration).max(axis=(0, 1)).astype(np.float64)
    computing = [operation.optype in COMPUTE for operation in trace.operations]
    stages = len({operation.stage for operation in trace.operations})
    busy = trace.duration[computing].sum(axis=(0, 1)).astype(np.float64) / (stages * len(trace.dp_ranks))
    return float(seconds.mean()), float(np.clip(busy / seconds, 0.0, 1.0).mean())
