"""JSON of ``arnold stragglers`` and ``arnold health op-trace``, and of ``arnold anonymise``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ground.records import JsonRecord, record_of
from health.whatif.analysis import with_nodes
from health.whatif.analysis_result import Analysis, Cause, LinkShare, Share, TracedJob
from health.whatif.conversion import Arrivals, ConversionStatement, StepBreakdown, verdict_with
from health.whatif.slow_workers import SlowWorker
from topology.flags import NodeFlag

if TYPE_CHECKING:
    from health.whatif.conversion import Conversion
    from health.whatif.trace import RankLayout

# -- straggler_answers --
# What ``arnold stragglers --json`` prints.


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
    by_optype: dict[str, float]
    """S_t: slowdown if all but this type of operation were ideal."""
    worker_slowdown: list[list[float]]
    """S_w, one row for each data-parallel rank, one column for each stage: slowdown if all other workers were ideal."""
    m_w: float | None
    """Share of the loss that the slowest 3 % of workers explain; null below a slowdown of 1.03.  Not clamped."""
    m_s: float | None
    """Share of the loss that the last stage explains; null below a slowdown of 1.03, and where there is one stage only.
    Not clamped.
    """
    cause: Cause
    """What slows the job most: none below a slowdown of 1.03, link where transfers between two workers are slow, stage
    where one data-parallel rank cannot tell a slow node from more work, late-rank where the others wait for one rank in
    collectives, unknown where no rule fits."""
    flags: tuple[NodeFlag, ...]
    """Nodes with evidence against them; empty without --node-map, and where no worker is the cause."""
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
    slowest: Share | None
    """The workers behind m_w, or others where only they explain most of the loss: those that S_w itself ranks first, or
    the fewest that compute longer than their peers and explain it together."""
    last_stage: Share | None
    """The last stage, which `m_s` is about."""
    links: LinkShare | None
    """Slow links between two stages of a rank; null where none is slow, or below a slowdown of 1.03."""
    steps: tuple[int, ...]
    """Numbers of the steps."""
    step_slowdown: list[float]
    """Simulated over ideal step time, step by step."""
    traced_step_seconds: float
    """Mean step time as traced."""
    replay_error: float
    """Traced over simulated step time, minus 1: what the replay leaves out."""
    job: TracedJob
    """The traced job."""
    arrivals: Arrivals | None
    """Ranks that come last to collectives; null = the trace was not made from profiles, or the job has a pipeline."""
    breakdown: tuple[StepBreakdown, ...]
    """Where the steps of each rank go; empty = the trace was not made from profiles."""
    dropped: dict[str, int] = field(default_factory=dict)
    """With --lenient: rows left out, by reason."""
    notes: tuple[str, ...]
    """What is worth knowing about this run, one sentence each."""


def stragglers_document(
    analysis: Analysis,
    *,
    source: str,
    statement: ConversionStatement | None,
    help: Sequence[str],
    slow_workers: Sequence[SlowWorker],
    flags: Sequence[NodeFlag],
    dropped: Mapping[str, int],
    notes: Sequence[str],
    nodes: Mapping[tuple[int, int], str],
) -> StragglersDocument:
    """Return the document of an analysis, with what was made of it, and what a conversion stated of its trace."""
    arrivals, breakdown = (statement.arrivals, statement.breakdown) if statement else (None, ())
    return record_of(
        StragglersDocument,
        analysis,
        source=source,
        links=with_nodes(analysis.links, nodes),
        verdict=verdict_with(analysis, arrivals, breakdown),
        arrivals=arrivals,
        breakdown=breakdown,
        by_optype=dict(analysis.by_optype),
        flags=tuple(flags),
        help=tuple(help),
        slow_workers=tuple(slow_workers),
        job=TracedJob(analysis.dp, analysis.pp, analysis.tp, analysis.vpp, analysis.dp_ranks),
        dropped=dict(dropped),
        notes=tuple(notes),
    )


# -- traces_answer --
# JSON of ``arnold health op-trace`` and ``arnold anonymise``: what became of a trace, what could not be recovered.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTraceDocument(ConversionStatement):
    """What ``arnold health op-trace --json`` prints."""

    files: tuple[str, ...]
    """Files that were written: the op trace, its metadata, and this statement."""
    workers: int
    """Data-parallel ranks times pipeline stages."""
    steps: int
    """Steps of the op trace."""
    rows: int
    """Operations in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnonymiseDocument(JsonRecord):
    """What ``arnold anonymise --json`` prints."""

    output: str
    """The file that was written."""
    replaced: Mapping[str, int]
    """How many different names became pseudonyms: `user`, `group`, `job`, and `text` that may repeat them."""
    kept_key: bool
    """Whether the key is of a file: then other files made with it have the same pseudonyms."""
    still_named: Sequence[str]
    """Users and groups after whom something that was kept is called: a partition, a QOS, a job id."""


def op_trace_document(conversion: Conversion, layout: RankLayout, files: Sequence[str]) -> OpTraceDocument:
    """Return the document of a conversion."""
    return record_of(
        OpTraceDocument,
        conversion,
        files=tuple(files),
        workers=layout.dp * layout.pp - len(conversion.absent),
        steps=len({op.step for op in conversion.ops}),
        rows=len(conversion.ops),
    )
