"""What the analysis finds: numbers (:class:`Analysis`) and, on demand, every operation's times (:class:`Timeline`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ground.records import JsonRecord

Floats = NDArray[np.float64]

# What slows the job most; ``link`` where transfers between two workers are slow and neither end alone is to blame,
# ``stage`` where one rank alone was traced and cannot tell a slow node from more work, ``late-rank`` where profiles
# show that the others wait for it in collectives, ``none`` below a slowdown of 1.03, ``unknown`` when no rule fits
Cause = Literal[
    "worker", "link", "stage", "last-stage", "sequence-length", "garbage-collection", "late-rank", "none", "unknown"
]
# One of the six serial queues of a worker
Stream = Literal["compute", "dp-comm", "forward-send", "forward-recv", "backward-send", "backward-recv"]


@dataclass(frozen=True, slots=True, eq=False)
class PerStep:
    """The same slowdowns step by step; rows are in the order of :attr:`Analysis.steps`."""

    traced_seconds: Floats  # float [steps], as traced: the latest end of an optimizer
    seconds: Floats  # float [steps], replayed with traced durations; the ideal time is the same for all steps
    by_optype: Mapping[str, Floats]  # type -> float [steps]
    by_dp: Floats  # float [dp, steps]
    by_stage: Floats  # float [pp, steps]


class TracedWorker(JsonRecord):
    """A worker: a data-parallel rank's tensor-parallel group in one pipeline stage."""

    dp: int
    """Number of its data-parallel rank."""
    stage: int
    """Its pipeline stage."""


class Share(JsonRecord):
    """What part of the loss some workers explain."""

    workers: tuple[TracedWorker, ...]
    """The workers."""
    without_seconds: float
    """Mean step time with these workers ideal."""
    alone_seconds: float
    """Mean step time with all others ideal."""
    share: float
    """(T - without) / (T - T_ideal); not clamped to 0..1."""
    alone_share: float
    """(alone - T_ideal) / (T - T_ideal)."""
    published: bool
    """Whether workers are those of m_w, ranked by min(S_dp, S_pp); else they were found by S_w itself."""


class SlowLink(JsonRecord):
    """A link between two stages of one data-parallel rank whose transfers take longer than those of the other ranks."""

    dp: int
    """Number of the data-parallel rank."""
    stages: tuple[int, int]
    """The stages of both ends, the lower first."""
    factor: float
    """Median of its sends and receives over that of the other ranks, in the slower direction."""
    nodes: tuple[str | None, str | None] = (None, None)
    """Where both ends ran; null = not known."""


class LinkShare(JsonRecord):
    """What part of the loss slow links explain."""

    links: tuple[SlowLink, ...]
    """The links."""
    without_seconds: float
    """Mean step time with their transfers ideal."""
    share: float
    """(T - without) / (T - T_ideal); not clamped to 0..1."""


class TracedJob(JsonRecord):
    """Sizes of the traced job."""

    dp: int
    """Data-parallel ranks analysed."""
    pp: int
    """Pipeline stages."""
    tp: int
    """Tensor-parallel ranks of a worker."""
    vpp: int
    """Model chunks of a stage."""
    dp_ranks: tuple[int, ...]
    """Numbers of the data-parallel ranks, in the order of the rows of worker_slowdown."""


class Analysis(TracedJob, eq=False):
    """Result of the what-if analysis of one trace.  A worker is a (data-parallel rank, pipeline stage)."""

    steps: tuple[int, ...]  # numbers of the sampled steps, as in the trace
    slowdown: float  # S = T / T_ideal, both simulated and both a mean over steps
    waste: float  # 1 - 1/S, the share of the time that stragglers cost
    step_seconds: float  # T
    ideal_step_seconds: float  # T_ideal
    traced_step_seconds: float  # mean step time as traced
    replay_error: float  # traced over simulated step time, -1: what the graph leaves out, such as waiting for data
    by_optype: Mapping[str, float]  # S_t: slowdown left if all but this type of operation were ideal
    worker_slowdown: Floats  # S_w, float [dp, pp]: slowdown left if all but this worker were ideal
    worker_slowdown_exact: bool  # False = min(S_dp(w), S_pp(w)) stands for S_w
    dp_slowdown: Floats  # float [dp]: slowdown left if all but this data-parallel rank were ideal
    stage_slowdown: Floats  # float [pp]: slowdown left if all but this stage were ideal
    # M_W, share of the loss that the slowest 3 % of workers explain, ranked as published; may leave 0..1. None below S
    # = 1.03
    m_w: float | None
    m_s: float | None  # M_S, the same for the last stage; None also for a job of one stage and of a V schedule
    slowest: Share | None  # behind M_W, or workers that explain more; None where M_W is None
    last_stage: Share | None  # behind M_S; None where M_S is None
    links: LinkShare | None  # slow links; None where none is slow, or S is below 1.03
    step_slowdown: Floats  # float [steps]: step time over ideal step time
    per_step: PerStep  # the other slowdowns step by step
    cause: Cause  # see Cause
    why: str  # one sentence with the numbers that led to the cause

    # identity: those of TracedJob would look at the sizes of the job alone
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def places(self, share: Share | None) -> list[tuple[int, int]]:
        """Return where the workers of a share stand in :attr:`worker_slowdown`; none where it is None."""
        return [] if share is None else [(self.dp_ranks.index(worker.dp), worker.stage) for worker in share.workers]

    @property
    def worker_slowdown_approximate(self) -> Floats:
        """Float [dp, pp]: min(S_dp(w), S_pp(w)), which the published analysis ranks workers by."""
        return np.minimum(self.dp_slowdown[:, None], self.stage_slowdown[None, :])


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of every data-parallel rank and step: a node of the graph."""

    optype: str  # as in the trace: forward-compute, grads-reduce-scatter, ...
    stage: int  # pipeline stage
    chunk: int  # model chunk of the stage, -1 = none
    microbatch: int  # number of the microbatch, -1 = none
    stream: Stream  # the queue of the worker that it stands in


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """When every operation ran, or would have run, in seconds since the start of its step."""

    operations: tuple[Operation, ...]  # in an order in which each follows those it waits for
    steps: tuple[int, ...]  # numbers of the steps, as in the trace
    start: Floats  # float [operations, dp, steps]; of a transfer: when its rank launched it
    end: Floats  # float [operations, dp, steps]


class Timelines(NamedTuple):
    """The same operations three times: as traced, replayed with traced durations, replayed with ideal durations."""

    traced: Timeline
    simulated: Timeline
    ideal: Timeline
