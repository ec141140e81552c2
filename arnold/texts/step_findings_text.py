"""What profiles show beside the op trace, for a person: where the step of each rank goes, and which rank comes last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from arnold.console.output import print_rows
from ground.quantities import percent, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from health.whatif.conversion import Arrivals, StepBreakdown

LONGEST = 16  # Most rows of a table


def print_findings(out: Console, arrivals: Arrivals | None, breakdown: Sequence[StepBreakdown]) -> None:
    """Print both, as far as they are known."""
    steps = []
    for one in breakdown:
        parts = (one.step, one.forward, one.backward, one.optimizer, one.waiting, one.idle)
        steps.append((one.rank, one.steps, *map(seconds, parts)))
    headers = ("rank", "steps", "step", "forward", "backward", "optimizer", "waiting", "idle")
    print_first_rows(out, headers, steps, title="Steps", most=LONGEST)
    if arrivals is not None:
        late = [
            (
                latecomer.rank,
                f"{latecomer.last} of {arrivals.collectives}",
                seconds(latecomer.seconds),
                percent(latecomer.share),
            )
            for latecomer in arrivals.latecomers
        ]
        columns = ("rank", "came last", "others waited, a step", "share")
        print_first_rows(out, columns, late, title="Latecomers to collectives", most=LONGEST)


def print_first_rows(
    out: Console, headers: Sequence[str], rows: Sequence[Sequence[object]], *, title: str, most: int
) -> None:
    """Print the first rows of a table, and below it how many more there are."""
    print_rows(out, headers, rows[:most], title=title)
    if len(rows) > most:
        out.print(f"  and {len(rows) - most:,} more; --json has all of them")
