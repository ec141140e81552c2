"""How the answer about a large job looks: policies and remedies, and one workload hour by hour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf, isfinite

from ground.quantities import HOUR, fixed, plural
from simulator.capacity.answer_range import FEWEST, Percentiles, percentile_names
from simulator.capacity.reserve.reserve_answer import ReserveAnswer, ReserveCase
from simulator.capacity.reserve.reserve_replay import SAMPLE, ReservePolicy, ReserveSample
from simulator.sheet import Chart, Series, Sheet, TextTable, known, text_table

SHOWN = 4.0  # Hours that charts go on after the last start


def reserve_sheet(answer: ReserveAnswer, *, announced_at: float) -> Sheet:
    """Return the tables and charts of an answer.

    :param announced_at: hour of the day of the announcement.
    """
    starts: dict[str, Callable[[ReserveCase], str]] = {
        "": lambda row: row.name,
        "hours late": lambda row: _three(row.late, digits=1),
        "DP + PP spread": lambda row: _three(row.spread),
        "zone held by others": lambda row: _three(row.zone_held),
        "jobs stopped": lambda row: _three(row.stopped),
    }
    costs: dict[str, Callable[[ReserveCase], str]] = {
        "": lambda row: row.name,
        "idle node-hours": lambda row: _three(row.idle_node_hours),
        "done again": lambda row: _three(row.lost_node_hours),
        "wait before, min": lambda row: _three(row.wait_hours, scale=60),
        "wait after, min": lambda row: _three(row.wait_hours_after, scale=60),
    }
    if any(case.cost is not None for case in answer.cases):
        costs["cost"] = lambda row: known(row.cost, ",.0f")
    over = f"{' / '.join(percentile_names(len(answer.migrations)))} of {plural(len(answer.migrations), 'workload')}"
    clock = partial(_clock, announced_at)
    allocation = _chart(answer, clock, "Allocation", "of the cluster", lambda one: one.allocation)
    zone = _chart(answer, clock, "Nodes of the zone that others hold", "nodes", lambda one: float(one.zone_held))
    return Sheet(
        tables=(
            text_table(f"By policy and remedy: {over}", answer.cases, starts),
            text_table(f"What it costs the others: {over}", answer.cases, costs),
            _timeline(answer, clock),
        ),
        charts=(replace(allocation, ceiling=1.0, kind="share"), zone),
    )


def late_words(case: ReserveCase, workloads: int) -> str:
    """Return when the large job starts: ``on arrival``, ``18.8 h late (of 3: 16.7 to 26.4)``, ``not while others ..``.

    :param workloads: how many were drawn; of ten or more P10 and P90 are told.
    """
    low, median, high = case.late
    if high == 0.0:
        return "on arrival"
    if not isfinite(median):
        return "not while others come"
    words = f"{median:.1f} h late" if median > 0.0 else "on arrival"
    most = f"{high:.1f}" if isfinite(high) else "not while others come"
    if workloads < FEWEST:
        return f"{words} (of {workloads}: {low:.1f} to {most})"
    return f"{words} (P10 {low:.1f}, P90 {most})"


def migration_words(answer: ReserveAnswer) -> str:
    """Return for how many workloads there was room to move jobs out of the zone, and how much."""
    possible = [one for one in answer.migrations if one.possible]
    if not any(one.held for one in answer.migrations):
        return "nothing to move"
    if len(possible) == len(answer.migrations):
        return f"at most {max(one.held for one in possible):,} nodes, for which there is room"
    short = max(answer.migrations, key=lambda one: one.held - one.free_outside)
    where = (
        "" if not possible else f" in {len(answer.migrations) - len(possible)} of {len(answer.migrations)} workloads"
    )
    return f"no room{where}, {short.held:,} nodes to move and {short.free_outside:,} free outside the zone"


def _timeline(answer: ReserveAnswer, clock: Callable[[float], str]) -> TextTable:
    row = answer.policies[0]
    columns: dict[str, Callable[[ReserveSample], str]] = {
        "time": lambda one: clock(one.hours),
        "allocation": lambda one: f"{one.allocation:.0%}",
        "zone held by others": lambda one: f"{one.zone_held:,}",
        "waiting": lambda one: f"{one.waiting:,}",
    }
    half_hours = row.line[:: round(0.5 * HOUR / SAMPLE)]
    near = [one for one in half_hours if -1.0 <= one.hours <= answer.notice_hours + 1.0]
    return text_table(f"Hour by hour with {row.policy}, first workload", near, columns)


def _clock(announced_at: float, hours: float) -> str:
    """Return the time of day so many hours after the announcement."""
    minutes = round(60 * (announced_at + hours)) % (24 * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _chart(
    answer: ReserveAnswer,
    clock: Callable[[float], str],
    title: str,
    label: str,
    value: Callable[[ReserveSample], float],
) -> Chart:
    # a few hours after the last start, or all
    known = [row.starts_hours for row in answer.policies if row.starts_hours is not None]
    last_seen = answer.notice_hours + max(known) + SHOWN if len(known) == len(answer.policies) else inf
    hours = [one.hours for one in answer.policies[0].line if one.hours <= last_seen]
    first, last = round(min(hours)), round(max(hours))
    # about eight words fit below the axis
    stride = max(1, round((last - first) / 8))
    return Chart(
        title=f"{title}, first workload",
        x_label="time of day",
        y_label=label,
        series=[
            Series(row.policy, [(one.hours, value(one)) for one in row.line[: len(hours)]], shape="step")
            for row in answer.policies
        ],
        floor=0.0,
        ticks=[(float(hour), clock(hour)) for hour in range(first, last + 1, stride)],
        lines=((0.0, "announced"), (answer.notice_hours, "arrives"), *_start(answer.policies[0], answer, last)),
    )


def _start(row: ReservePolicy, answer: ReserveAnswer, last: float) -> list[tuple[float, str]]:
    """Return the mark of a late start within the picture."""
    if row.starts_hours is None or not 0.5 < row.starts_hours <= last - answer.notice_hours:
        return []
    return [(answer.notice_hours + row.starts_hours, f"starts ({row.policy})")]


def _three(found: Percentiles, *, digits: int = 0, scale: float = 1.0) -> str:
    if set(found) == {0.0}:
        return "0"
    return " / ".join(fixed(scale * value, digits=digits) for value in found)
