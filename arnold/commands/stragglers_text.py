"""The analysis of a trace for a person: the verdict first, then what would help, then the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from arnold.commands.output import table
from arnold.commands.place_text import BAD, GOOD, SO_SO, print_sentences

if TYPE_CHECKING:
    from arnold.documents.stragglers import StragglersDocument

LONGEST = 12
"""Most rows of a table."""

NOTICED = 1.0005
"""Slowdowns that do not round to 1.000."""


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
        f"a step takes {document.step_seconds:.4g} s and could take {document.ideal_step_seconds:.4g} s: "
        f"{max(document.waste, 0.0):.1%} of the time is lost (traced {document.traced_step_seconds:.4g} s)"
    )
    out.print(document.why)
    print_sentences(out, "What would help", document.help)
    _print_flags(out, document)
    out.print()
    out.print("The slowdown that would be left if all else were ideal, by operation type, worker and stage:")
    _print_optypes(out, document)
    _print_workers(out, document)
    _print_stages(out, document)
    print_sentences(out, "Notes", document.notes)


def _print_flags(out: Console, document: StragglersDocument) -> None:
    if document.flags:
        rows = table("node", "slowdown", "evidence", title="Flags", left=["evidence"])
        for flag in document.flags:
            rows.add_row(flag.node, "faulty" if flag.slowdown is None else f"{flag.slowdown:.2f}", flag.evidence)
        out.print()
        out.print(rows)
    elif document.slow_workers:
        unknown = any(worker.node is None for worker in document.slow_workers)
        out.print()
        out.print("Nobody is flagged: --nodes FILE says where these workers ran." if unknown else "Nobody is flagged.")


def _print_optypes(out: Console, document: StragglersDocument) -> None:
    rows = table("operation", "slowdown", title="Operations")
    ordered = sorted(document.by_optype.items(), key=lambda item: -item[1])
    for name, slowdown in ordered:
        rows.add_row(name, f"{slowdown:.3f}")
    out.print()
    out.print(rows)


def _print_workers(out: Console, document: StragglersDocument) -> None:
    ranks = document.job.dp_ranks
    factors = {(worker.dp, worker.stage): worker for worker in document.slow_workers}
    cells = [
        (slowdown, ranks[row], stage)
        for row, line in enumerate(document.worker_slowdown)
        for stage, slowdown in enumerate(line)
    ]
    cells.sort(key=lambda cell: (-cell[0], *cell[1:]))
    noticed = [cell for cell in cells if cell[0] >= NOTICED]
    if not noticed:
        return
    rows = table("worker", "slowdown", "own factor", "node", title="Workers")
    for slowdown, rank, stage in noticed[:LONGEST]:
        slow = factors.get((rank, stage))
        rows.add_row(
            f"dp {rank} / stage {stage}",
            f"{slowdown:.3f}",
            f"{slow.factor:.2f}" if slow else "",
            (slow.node or "") if slow else "",
        )
    out.print()
    out.print(rows)
    if len(noticed) > LONGEST:
        out.print(f"  and {len(noticed) - LONGEST:,} more; --json has all of them")


def _print_stages(out: Console, document: StragglersDocument) -> None:
    if document.job.pp == 1:
        return
    rows = table("stage", "slowdown", title="Stages")
    for stage, slowdown in enumerate(document.stage_slowdown[:LONGEST]):
        rows.add_row(str(stage), f"{slowdown:.3f}")
    if len(document.stage_slowdown) > LONGEST:
        last = len(document.stage_slowdown) - 1
        rows.add_row(str(last), f"{document.stage_slowdown[-1]:.3f}")
    out.print()
    out.print(rows)
