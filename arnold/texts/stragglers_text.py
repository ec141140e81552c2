"""The analysis of a trace for a person: the verdict first, then what would help, then the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from arnold.console.output import BAD, GOOD, SO_SO, print_rows, print_sentences
from arnold.texts.step_findings_text import print_findings, print_first_rows
from ground.quantities import fixed, percent, seconds

if TYPE_CHECKING:
    from arnold.documents.straggler_answers import StragglersDocument

LONGEST = 12  # Most rows of a table
NOTICED = 1.0005  # Slowdowns that do not round to 1.000


def print_stragglers(out: Console, document: StragglersDocument) -> None:
    """Print all of it."""
    job = document.job
    out.print(Text(document.verdict, {"none": GOOD, "worker": BAD}.get(document.cause, SO_SO)))
    out.print()
    out.print(
        f"{document.source}: dp {job.dp} x pp {job.pp} x tp {job.tp}"
        + (f", {job.vpp} chunks a stage" if job.vpp > 1 else "")
        + f"; {len(document.steps)} steps"
    )
    out.print(
        f"a step takes {seconds(document.step_seconds)} and could take {seconds(document.ideal_step_seconds)}: "
        f"{percent(max(document.waste, 0.0))} of the time is lost (traced {seconds(document.traced_step_seconds)})"
    )
    out.print(document.why)
    print_sentences(out, "What would help", document.help)
    _print_flags(out, document)
    _print_links(out, document)
    out.print()
    out.print("The slowdown that would be left if all else were ideal, by operation type, worker and stage:")
    types = sorted(document.by_optype.items(), key=lambda item: -item[1])
    rows = [(name, fixed(slowdown, digits=3)) for name, slowdown in types]
    print_rows(out, ("operation", "slowdown"), rows, title="Operations")
    _print_workers(out, document)
    _print_stages(out, document)
    print_findings(out, document.arrivals, document.breakdown)
    print_sentences(out, "Notes", document.notes)


def _print_flags(out: Console, document: StragglersDocument) -> None:
    if document.flags:
        rows = [
            (flag.node, "faulty" if flag.kind == "faulty" else fixed(flag.slowdown), flag.evidence)
            for flag in document.flags
        ]
        print_rows(out, ("node", "slowdown", "evidence"), rows, title="Flags", left=["evidence"])
    elif document.slow_workers:
        unknown = any(worker.node is None for worker in document.slow_workers)
        out.print()
        out.print(
            "No node is flagged: --node-map FILE says where these workers ran." if unknown else "No node is flagged."
        )


def _print_links(out: Console, document: StragglersDocument) -> None:
    if document.links is None:
        return
    rows = []
    for link in document.links.links[:LONGEST]:
        low, high = link.stages
        nodes = " - ".join(node or "unknown" for node in link.nodes)
        rows.append((f"dp {link.dp}: stage {low} - {high}", fixed(link.factor), nodes))
    print_rows(out, ("link", "slowdown", "nodes"), rows, title="Slow links", left=["nodes"])


def _print_workers(out: Console, document: StragglersDocument) -> None:
    ranks = document.job.dp_ranks
    factors = {(worker.dp, worker.stage): worker for worker in document.slow_workers}
    cells = [
        (slowdown, ranks[row], stage)
        for row, line in enumerate(document.worker_slowdown)
        for stage, slowdown in enumerate(line)
    ]
    cells.sort(key=lambda cell: (-cell[0], *cell[1:]))
    rows = []
    for slowdown, rank, stage in (cell for cell in cells if cell[0] >= NOTICED):
        slow = factors.get((rank, stage))
        own = (fixed(slow.factor), slow.node or "") if slow else ("", "")
        rows.append((f"dp {rank} / stage {stage}", fixed(slowdown, digits=3), *own))
    print_first_rows(out, ("worker", "slowdown", "own factor", "node"), rows, title="Workers", most=LONGEST)


def _print_stages(out: Console, document: StragglersDocument) -> None:
    if document.job.pp == 1:
        return
    stages = [(stage, fixed(slowdown, digits=3)) for stage, slowdown in enumerate(document.stage_slowdown)]
    # the last stage has the loss, and is looked at first
    shown = [*stages[:LONGEST], *stages[LONGEST:][-1:]]
    print_rows(out, ("stage", "slowdown"), shown, title="Stages")
