"""What profiles show beside the op trace, for a person: where the step of each rank goes, and who comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from arnold.commands.output import table
from topology.quantities import percent, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from health.whatif.step_findings import Arrivals, StepBreakdown

LONGEST = 16  # Most rows of a table


def print_findings(out: Console, arrivals: Arrivals | None, breakdown: Sequence[StepBreakdown]) -> None:
    """Print both, as far as they are known."""
    if breakdown:
        rows = table("rank", "steps", "step", "forward", "backward", "optimizer", "waiting", "idle", title="Steps")
        for one in breakdown[:LONGEST]:
            parts = (one.step, one.forward, one.backward, one.optimizer, one.waiting, one.idle)
            rows.add_row(f"{one.rank}", f"{one.steps}", *("-" if part is None else seconds(part) for part in parts))
        out.print()
        out.print(rows)
        _more(out, len(breakdown))
    if arrivals is not None and arrivals.latecomers:
        rows = table("rank", "came last", "others waited, a step", "share", title="Latecomers to collectives")
        for late in arrivals.latecomers[:LONGEST]:
            last = f"{late.last} of {arrivals.collectives}"
            rows.add_row(f"{late.rank}", last, seconds(late.seconds), percent(late.share))
        out.print()
        out.print(rows)
        _more(out, len(arrivals.latecomers))


def _more(out: Console, count: int) -> None:
    if count > LONGEST:
        out.print(f"  and {count - LONGEST:,} more; --json has all of them")
