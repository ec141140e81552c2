"""What ``arnold stragglers --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from health.whatif.analysis_result import Cause
from health.whatif.blame import SlowWorker
from topology.flags import NodeFlag
from topology.json_record import JsonRecord

if TYPE_CHECKING:
    from health.whatif.analysis_result import Analysis, Share


@dataclass(frozen=True, slots=True)
class WorkerDoc(JsonRecord):
    """A worker: a data-parallel rank's tensor-parallel group in one pipeline stage."""

    dp: int
    """Number of its data-parallel rank."""
    stage: int
    """Its pipeline stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareDoc(JsonRecord):
    """What part of the loss some workers explain."""

    workers: tuple[WorkerDoc, ...]
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
    """Whether workers are ranked as for m_w, by min(S_dp, S_pp); else by S_w itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedJobDoc(JsonRecord):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StragglersDocument(JsonRecord):
    """The what-if analysis of one trace (arXiv 2505.05713)."""

    source: str
    """The trace."""
    verdict: str
    """The finding in one sentence."""
    slowdown: float
    """S: simulated step time over ideal step time."""
    waste: float
    """1 - 1/S."""
    step_seconds: float
    """T: mean simulated step time."""
    ideal_step_seconds: float
    """Mean step time with every operation ideal."""
    by_optype: Mapping[str, float]
    """S_t: slowdown if all but this type of operation were ideal."""
    worker_slowdown: list[list[float]]
    """S_w, one row for each data-parallel rank, one column for each stage: slowdown if all other workers were ideal."""
    m_w: float | None
    """Share of the loss that the slowest 3 % of workers explain; null below a slowdown of 1.03.  Not clamped."""
    m_s: float | None
    """The same for the last stage; null also where there is one stage only."""
    cause: Cause
    """What slows the job most: none below a slowdown of 1.03, unknown where no rule fits."""
    flags: tuple[NodeFlag, ...]
    """Nodes with evidence against them; empty without --nodes, and where no worker is the cause."""
    why: str
    """The numbers that led to the cause."""
    help: tuple[str, ...]
    """What would help."""
    slow_workers: tuple[SlowWorker, ...]
    """Workers with evidence against them, slowest first."""
    worker_slowdown_exact: bool
    """Whether worker_slowdown was replayed for each worker; else it is worker_slowdown_approximate."""
    worker_slowdown_approximate: list[list[float]]
    """min(S_dp, S_pp) of the worker's rank and stage, by which the published analysis ranks workers."""
    dp_slowdown: list[float]
    """Slowdown if all but this data-parallel rank were ideal."""
    stage_slowdown: list[float]
    """Slowdown if all but this stage were ideal."""
    slowest: ShareDoc | None
    """The workers behind m_w, or those that S_w itself ranks first where only they explain most of the loss."""
    last_stage: ShareDoc | None
    """Behind m_s."""
    steps: tuple[int, ...]
    """Numbers of the steps."""
    step_slowdown: list[float]
    """Simulated over ideal step time, step by step."""
    traced_step_seconds: float
    """Mean step time as traced."""
    replay_error: float
    """Traced over simulated step time, minus 1: what the replay leaves out."""
    job: TracedJobDoc
    """The traced job."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """With --lenient: rows left out, by reason."""
    notes: tuple[str, ...]
    """What is worth knowing about this run, one sentence each."""


def stragglers_document(
    analysis: Analysis,
    *,
    source: str,
    verdict: str,
    help_: Sequence[str],
    workers: Sequence[SlowWorker],
    flags: Sequence[NodeFlag],
    dropped: Mapping[str, int],
    notes: Sequence[str],
) -> StragglersDocument:
    """Return the document of an analysis."""
    return StragglersDocument(
        source=source,
        verdict=verdict,
        slowdown=analysis.slowdown,
        waste=analysis.waste,
        step_seconds=analysis.step_seconds,
        ideal_step_seconds=analysis.ideal_step_seconds,
        by_optype=analysis.by_optype,
        worker_slowdown=analysis.worker_slowdown.tolist(),
        m_w=analysis.m_w,
        m_s=analysis.m_s,
        cause=analysis.cause,
        flags=tuple(flags),
        why=analysis.why,
        help=tuple(help_),
        slow_workers=tuple(workers),
        worker_slowdown_exact=analysis.worker_slowdown_exact,
        worker_slowdown_approximate=analysis.approximate_worker_slowdown.tolist(),
        dp_slowdown=analysis.dp_slowdown.tolist(),
        stage_slowdown=analysis.stage_slowdown.tolist(),
        slowest=_share(analysis.slowest, analysis),
        last_stage=_share(analysis.last_stage, analysis),
        steps=analysis.steps,
        step_slowdown=analysis.step_slowdown.tolist(),
        traced_step_seconds=analysis.traced_step_seconds,
        replay_error=analysis.replay_error,
        job=TracedJobDoc(dp=analysis.dp, pp=analysis.pp, tp=analysis.tp, vpp=analysis.vpp, dp_ranks=analysis.dp_ranks),
        dropped=dropped,
        notes=tuple(notes),
    )


def _share(share: Share | None, analysis: Analysis) -> ShareDoc | None:
    if share is None:
        return None
    return ShareDoc(
        workers=tuple(WorkerDoc(analysis.dp_ranks[rank], stage) for rank, stage in share.workers),
        without_seconds=share.without_seconds,
        alone_seconds=share.alone_seconds,
        share=share.share,
        alone_share=share.alone_share,
        published=share.published,
    )
