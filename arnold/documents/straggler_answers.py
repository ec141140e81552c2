"""Answers of ``arnold stragglers`` and ``arnold health op-trace``.

The text of an analysis begins with the verdict; then comes what would help, then the numbers.  Where the trace was made
from profiles it says where the step of each rank goes, and which rank comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from arnold.console.output import BAD, GOOD, SO_SO, Console, print_rows, print_sentences
from ground.errors import few
from ground.quantities import fixed, percent, plural, seconds
from ground.records import JsonRecord, record_of
from health.whatif.analysis import with_nodes
from health.whatif.analysis_result import Analysis, Cause, LinkShare, Share, TracedJob
from health.whatif.blame import SlowWorker
from health.whatif.conversion import Arrivals, ConversionStatement, StepBreakdown, verdict_with, whole_step
from topology.flags import NodeFlag

if TYPE_CHECKING:
    from health.whatif.conversion import Conversion
    from health.whatif.trace import RankLayout


class StragglersDocument(JsonRecord, kw_only=True):
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


LONGEST, LONGEST_OF_RANKS = 12, 16  # Most rows of a table
NOTICED = 1.0005  # Slowdowns that do not round to 1.000


def print_stragglers(out: Console, document: StragglersDocument) -> None:
    """Print all of an analysis."""
    from rich.text import Text

    job = document.job
    out.print(Text(document.verdict, {"none": GOOD, "worker": BAD}.get(document.cause, SO_SO)))
    out.print()
    out.print(
        f"{document.source}: dp {job.dp} x pp {job.pp} x tp {job.tp}"
        + (f", {job.vpp} chunks a stage" if job.vpp > 1 else "")
        + f"; {len(document.steps)} steps"
    )
    whole = whole_step(document.traced_step_seconds, document.breakdown)
    takes = "a step takes" if whole is None else "the operations of a step take"
    out.print(
        f"{takes} {seconds(document.step_seconds)} and could take {seconds(document.ideal_step_seconds)}: "
        f"{percent(max(document.waste, 0.0))} of the time is lost (traced {seconds(document.traced_step_seconds)})"
    )
    out.print(document.why)
    print_sentences(out, "What would help", document.help)
    if document.flags:
        flags = [
            (flag.node, "faulty" if flag.kind == "faulty" else fixed(flag.slowdown), flag.evidence)
            for flag in document.flags
        ]
        print_rows(out, ("node", "slowdown", "evidence"), flags, title="Flags", left=["evidence"])
    elif document.slow_workers:
        unknown = few(f"dp {worker.dp} / stage {worker.stage}" for worker in document.slow_workers if not worker.node)
        out.print()
        out.print(f"No node is flagged{f': --node-map FILE says where {unknown} ran' if unknown else ''}.")
    links = []
    for link in document.links.links[:LONGEST] if document.links else ():
        low, high = link.stages
        nodes = " - ".join(node or "unknown" for node in link.nodes)
        links.append((f"dp {link.dp}: stage {low} - {high}", fixed(link.factor), nodes))
    print_rows(out, ("link", "slowdown", "nodes"), links, title="Slow links", left=["nodes"])
    out.print()
    out.print("The slowdown that would be left if all else were ideal, by operation type, worker and stage:")
    optypes = sorted(document.by_optype.items(), key=lambda item: -item[1])
    operations = [(name, fixed(slowdown, digits=3)) for name, slowdown in optypes]
    print_rows(out, ("operation", "slowdown"), operations, title="Operations")
    slow_workers = {(worker.dp, worker.stage): worker for worker in document.slow_workers}
    cells = [
        (slowdown, job.dp_ranks[row], stage)
        for row, line in enumerate(document.worker_slowdown)
        for stage, slowdown in enumerate(line)
        if slowdown >= NOTICED
    ]
    workers = []
    for slowdown, rank, stage in sorted(cells, key=lambda cell: (-cell[0], *cell[1:])):
        slow = slow_workers.get((rank, stage))
        own = (fixed(slow.factor), slow.node or "") if slow else ("", "")
        workers.append((f"dp {rank} / stage {stage}", fixed(slowdown, digits=3), *own))
    _print_first_rows(out, ("worker", "slowdown", "own factor", "node"), workers, title="Workers", most=LONGEST)
    if job.pp > 1:
        stages = [(stage, fixed(slowdown, digits=3)) for stage, slowdown in enumerate(document.stage_slowdown)]
        # the last stage has the loss, and is looked at first
        print_rows(out, ("stage", "slowdown"), [*stages[:LONGEST], *stages[LONGEST:][-1:]], title="Stages")
    _print_profiles(out, document.arrivals, document.breakdown)
    print_sentences(out, "Notes", document.notes)


def _print_profiles(out: Console, arrivals: Arrivals | None, breakdown: Sequence[StepBreakdown]) -> None:
    """Print what profiles show beside the op trace, as far as it is known."""
    steps = []
    for rank in breakdown:
        parts = (rank.step, rank.forward, rank.backward, rank.optimizer, rank.waiting, rank.idle)
        steps.append((rank.rank, rank.steps, *map(seconds, parts)))
    headers = ("rank", "steps", "step", "forward", "backward", "optimizer", "waiting", "idle")
    _print_first_rows(out, headers, steps, title="Steps", most=LONGEST_OF_RANKS)
    if arrivals is not None:
        late = [
            (rank.rank, f"{rank.last} of {arrivals.collectives}", seconds(rank.seconds), percent(rank.share))
            for rank in arrivals.latecomers
        ]
        columns = ("rank", "came last", "others waited, a step", "share")
        _print_first_rows(out, columns, late, title="Latecomers to collectives", most=LONGEST_OF_RANKS)


def _print_first_rows(
    out: Console, headers: Sequence[str], rows: Sequence[Sequence[object]], *, title: str, most: int
) -> None:
    """Print the first rows of a table, and below it how many more there are."""
    print_rows(out, headers, rows[:most], title=title)
    if len(rows) > most:
        out.print(f"  and {len(rows) - most:,} more; --json has all of them")


class OpTraceDocument(ConversionStatement, kw_only=True):
    """What ``arnold health op-trace --json`` prints."""

    files: tuple[str, ...]
    """Files that were written: the op trace, its metadata, and this statement."""
    workers: int
    """Data-parallel ranks times pipeline stages."""
    steps: int
    """Steps of the op trace."""
    rows: int
    """Operations in it."""


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


def print_op_trace(out: Console, document: OpTraceDocument) -> None:
    """Print what became of a trace, and what could not be recovered."""
    gaps = plural(len(document.missing), "gap") if document.missing else "nothing missing"
    steps, workers = plural(document.steps, "step"), plural(document.workers, "worker")
    out.print(f"{document.rows:,} operations of {steps} on {workers}, {gaps}: {document.files[0]}", style="bold")
    rows = [(optype, f"{count:,}") for optype, count in document.recovered.items()]
    print_rows(out, ("operation", "rows"), rows, title="Recovered", gap=False)
    _print_profiles(out, document.arrivals, document.breakdown)
    if document.missing:
        out.print("\nNot recovered", style="bold")
        for entry in document.missing:
            out.print(f"- {entry.optype}: {entry.reason}. Disables {entry.disables}.")
    for note in document.notes:
        out.print(f"Note: {note}")
