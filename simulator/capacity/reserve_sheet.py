"""The answer about reservations, ready to be shown."""

from __future__ import annotations

from simulator.capacity.reserve import PolicyRow, ReserveAnswer, assumptions
from simulator.capacity.sheet import Chart, Series, Sheet, Table


def reserve_sheet(answer: ReserveAnswer) -> Sheet:
    """Verdict, table, charts and assumptions."""
    q = answer.question
    return Sheet(
        title=f"When would a job of {q.nodes:,} nodes fit, and what does reserving cost the others?",
        verdict=_verdict(answer),
        tables=(_table(answer), *(_timeline(answer, row) for row in answer.rows[:1])),
        charts=(
            _chart(answer, "Allocation", "of the cluster", [[one.allocation for one in r.line] for r in answer.rows]),
            _chart(
                answer,
                "Nodes of the zone that others hold",
                "nodes",
                [[float(one.zone_held) for one in row.line] for row in answer.rows],
            ),
        ),
        assumptions=assumptions(answer),
    )


def _verdict(answer: ReserveAnswer) -> str:
    q, first = answer.question, answer.rows[0]
    start = (
        f"With {first.policy} it starts {_start(first.starts)} and finds {first.zone_held} of {answer.zone:,} nodes of "
        f"its zone held by others; allocation falls from {first.before:.2f} to {first.at_arrival:.2f}, "
        f"{first.idle:,.0f} node-hours stay idle in the {q.notice_hours:g} h before, and others wait "
        f"{60 * first.wait:.0f} min on average."
    )
    others = "; ".join(
        f"{row.policy}: starts {_start(row.starts)}, {row.idle:,.0f} node-hours idle, others wait "
        f"{60 * row.wait:.0f} min"
        for row in answer.rows[1:]
    )
    return f"{start} {others[:1].upper()}{others[1:]}." if others else start


def _start(hours: float | None) -> str:
    if hours is None:
        return "never"
    return "on arrival" if hours < 1e-6 else f"{hours:.1f} h late"


def _table(answer: ReserveAnswer) -> Table:
    return Table(
        "By policy: allocation, nodes of the zone that others hold, idle node-hours, waits in minutes",
        ("policy", "starts", "before", "at arrival", "zone", "idle", "wait before", "wait after", "stopped"),
        [
            (
                row.policy,
                _start(row.starts),
                f"{row.before:.2f}",
                f"{row.at_arrival:.2f}",
                f"{row.zone_held:,}",
                f"{row.idle:,.0f}",
                f"{60 * row.wait:.1f}",
                f"{60 * row.wait_after:.0f}",
                f"{row.stopped}",
            )
            for row in answer.rows
        ],
    )


def _timeline(answer: ReserveAnswer, row: PolicyRow) -> Table:
    q = answer.question
    every = max(1, round(0.5 / (row.line[1].hours - row.line[0].hours))) if len(row.line) > 1 else 1
    return Table(
        f"Hour by hour with {row.policy}",
        ("time", "allocation", "zone held by others", "waiting"),
        [
            (_clock(q.announced_at + one.hours), f"{one.allocation:.2f}", f"{one.zone_held:,}", f"{one.waiting:,}")
            for one in row.line[::every]
            if -1.0 <= one.hours <= q.notice_hours + 1.0
        ],
    )


def _clock(hours: float) -> str:
    minutes = round(60 * hours) % (24 * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _chart(answer: ReserveAnswer, title: str, label: str, values: list[list[float]]) -> Chart:
    q = answer.question
    hours = [one.hours for one in answer.rows[0].line]
    first, last = round(min(hours)), round(max(hours))
    stride = max(1, round((last - first) / 8))
    return Chart(
        title=title,
        x_label="time of day",
        y_label=label,
        series=[
            Series(row.policy, list(zip([one.hours for one in row.line], of_row, strict=True)), shape="step")
            for row, of_row in zip(answer.rows, values, strict=True)
        ],
        floor=0.0,
        ceiling=1.0 if title == "Allocation" else None,
        ticks=[(float(hour), _clock(q.announced_at + hour)) for hour in range(first, last + 1, stride)],
        lines=((0.0, "announced"), (q.notice_hours, "arrives")),
        percent=title == "Allocation",
    )
