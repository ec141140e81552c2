"""What the analysis finds: numbers (:class:`Analysis`) and, on demand, every operation's times (:class:`Timeline`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Cause = Literal["worker", "last-stage", "sequence-length", "garbage-collection", "none", "unknown"]
"""What slows the job most; ``none`` below a slowdown of 1.03, ``unknown`` when no rule fits."""

Stream = Literal["compute", "dp-comm", "forward-send", "forward-recv", "backward-send", "backward-recv"]
"""One of the six serial queues of a worker."""


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """Result of the what-if analysis of one trace.  A worker is a (data-parallel rank, pipeline stage).

    :param dp: data-parallel ranks.
    :param pp: pipeline stages.
    :param tp: tensor-parallel ranks of a worker.
    :param vpp: model chunks of a stage.
    :param steps: numbers of the sampled steps, as in the trace.
    :param slowdown: S = T / T_ideal, both simulated and both a mean over steps.
    :param waste: 1 - 1/S, the share of the time that stragglers cost.
    :param step_seconds: T.
    :param ideal_step_seconds: T_ideal.
    :param traced_step_seconds: mean step time as traced; against ``step_seconds`` it is the error of the replay.
    :param by_optype: S_t: slowdown left if all but this type of operation were ideal.
    :param worker_slowdown: S_w, float [dp, pp]: slowdown left if all but this worker were ideal.
    :param worker_slowdown_exact: False = min(S_dp(w), S_pp(w)) stands for S_w.
    :param dp_slowdown: float [dp]: slowdown left if all but this data-parallel rank were ideal.
    :param stage_slowdown: float [pp]: slowdown left if all but this stage were ideal.
    :param m_w: M_W, share of the loss that the slowest 3 % of workers explain; may leave 0..1.  None below S = 1.03.
    :param m_s: M_S, the same for the last stage.
    :param step_slowdown: float [steps]: step time over ideal step time.
    :param cause: see :data:`Cause`.
    :param why: one sentence with the numbers that led to the cause.
    """

    dp: int
    pp: int
    tp: int
    vpp: int
    steps: tuple[int, ...]
    slowdown: float
    waste: float
    step_seconds: float
    ideal_step_seconds: float
    traced_step_seconds: float
    by_optype: Mapping[str, float]
    worker_slowdown: NDArray[np.float64]
    worker_slowdown_exact: bool
    dp_slowdown: NDArray[np.float64]
    stage_slowdown: NDArray[np.float64]
    m_w: float | None
    m_s: float | None
    step_slowdown: NDArray[np.float64]
    cause: Cause
    why: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of every data-parallel rank and step: a node of the graph.

    :param optype: as in the trace: ``forward-compute``, ``grads-reduce-scatter``, ...
    :param stage: pipeline stage.
    :param chunk: model chunk of the stage, -1 = none.
    :param microbatch: number of the microbatch, -1 = none.
    :param stream: the queue of the worker that it stands in.
    """

    optype: str
    stage: int
    chunk: int
    microbatch: int
    stream: Stream


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """When every operation ran, or would have run, in seconds since the start of its step.

    :param operations: in an order in which each follows those it waits for.
    :param steps: numbers of the steps, as in the trace.
    :param start: float [operations, dp, steps]; of a transfer: when its rank launched it.
    :param end: float [operations, dp, steps].
    """

    operations: tuple[Operation, ...]
    steps: tuple[int, ...]
    start: NDArray[np.float64]
    end: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Timelines:
    """The same operations three times: as traced, replayed with traced durations, replayed with ideal durations."""

    traced: Timeline
    simulated: Timeline
    ideal: Timeline
