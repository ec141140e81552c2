"""The answer about growing, ready to be shown."""

from __future__ import annotations

from simulator.capacity.grow import GrowAnswer, GrowRow, assumptions
from simulator.capacity.sheet import Chart, Series, Sheet, Table
from topology.quantities import plural


def grow_sheet(answer: GrowAnswer) -> Sheet:
    """Verdict, tables, charts and assumptions."""
    return Sheet(
        title=f"What one more {answer.level} of {plural(answer.added, 'node')} buys",
        verdict=_verdict(answer),
        tables=(_waits(answer), _shapes(answer)),
        charts=(_chart_waits(answer), _chart_largest(answer)),
        assumptions=assumptions(answer),
    )


def _verdict(answer: GrowAnswer) -> str:
    today, one = answer.rows[0], answer.rows[1]
    waits = (
        f"jobs wait {_minutes(one.wait)} instead of {_minutes(today.wait)} on average"
        if today.wait is not None and one.wait is not None
        else "no job of the workload started"
    )
    last = len(answer.question.shapes) - 1
    before, after = today.shapes[last], one.shapes[last]
    words = (
        f"the largest job of shape {before.shape.name} with PP groups inside one {answer.level} grows from "
        f"{before.whole:,} to {after.whole:,} nodes"
    )
    worth = ""
    if before.objective is not None and after.objective is not None:
        worth = f", and the objective of one of {before.size:,} nodes goes from {before.objective:.2f} to "
        worth += f"{after.objective:.2f}"
    return f"With {plural(one.more, answer.level)} more, {waits}, {words}{worth}."


def _minutes(hours: float | None) -> str:
    return "-" if hours is None else f"{60 * hours:.1f} min"


def _waits(answer: GrowAnswer) -> Table:
    return Table(
        f"Waiting under {answer.question.policy}",
        (f"{answer.level}s more", "nodes", "free now", "mean wait", "95th percentile"),
        [
            (str(row.more), f"{row.nodes:,}", f"{row.free:,}", _minutes(row.wait), _minutes(row.wait_p95))
            for row in answer.rows
        ],
    )


def _shapes(answer: GrowAnswer) -> Table:
    return Table(
        "Largest job and objective, by shape",
        ("shape", f"{answer.level}s more", "largest job", "PP groups whole", "job of", "objective"),
        [
            (
                one.shape.name,
                str(row.more),
                f"{one.most:,}",
                f"{'' if one.whole_proved else '>= '}{one.whole:,}",
                f"{one.size:,}",
                "-" if one.objective is None else f"{one.objective:.2f}",
            )
            for i in range(len(answer.question.shapes))
            for row in answer.rows
            for one in (row.shapes[i],)
        ],
    )


def _ticks(rows: tuple[GrowRow, ...]) -> list[tuple[float, str]]:
    return [(float(row.more), "today" if not row.more else f"+{row.more}") for row in rows]


def _chart_waits(answer: GrowAnswer) -> Chart:
    return Chart(
        title="Waiting",
        x_label=f"{answer.level}s more",
        y_label="minutes",
        series=(
            Series("mean", [(float(row.more), None if row.wait is None else 60 * row.wait) for row in answer.rows]),
            Series(
                "95th percentile",
                [(float(row.more), None if row.wait_p95 is None else 60 * row.wait_p95) for row in answer.rows],
            ),
        ),
        floor=0.0,
        ticks=_ticks(answer.rows),
    )


def _chart_largest(answer: GrowAnswer) -> Chart:
    return Chart(
        title=f"Largest job with PP groups inside one {answer.level}",
        x_label=f"{answer.level}s more",
        y_label="nodes",
        series=[
            Series(f"shape {shape.name}", [(float(row.more), float(row.shapes[i].whole)) for row in answer.rows])
            for i, shape in enumerate(answer.question.shapes)
        ],
        floor=0.0,
        ticks=_ticks(answer.rows),
    )
