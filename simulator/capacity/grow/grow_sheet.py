"""How the answer about growth looks: waits by quarter with their band, and when to order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite

from ground.quantities import fixed, number, several
from simulator.capacity.answer_range import Percentiles
from simulator.capacity.grow.grow_answer import DemandQuarter, GrowAnswer, GrownCluster, GrowthScenario
from simulator.capacity.grow.growing_demand import NOT_SOON
from simulator.capacity.grow.grown_shapes import shapes_table
from simulator.capacity.uncertain_input import range_words
from simulator.sheet import Chart, Series, Sheet, TextTable, known, text_table

SHOWN = 4.0  # Objectives that the axis of waits holds; longer waits are cut there


def grow_sheet(answer: GrowAnswer) -> Sheet:
    """Return all scenarios, the first by quarter and what larger clusters hold; waits by quarter drawn."""
    scenarios: dict[str, Callable[[GrowthScenario], str]] = {
        "growth a quarter": lambda row: range_words(row.growth),
        "order": lambda row: _three(row.order, NOT_SOON),
        "waits break the objective": lambda row: _three(row.breaks, NOT_SOON),
        "load at the end": lambda row: _three(row.quarters[-1].load),
    }
    clusters: dict[str, Callable[[GrownCluster], str]] = {
        f"{several(answer.level)} more": lambda row: str(row.more),
        "nodes": lambda row: f"{row.nodes:,}",
        "free now": lambda row: f"{row.free:,}",
        "waits break the objective": lambda row: _three(row.lasts, NOT_SOON),
    }
    return Sheet(
        tables=(
            text_table("By scenario, quarters from now: P10 / P50 / P90", answer.scenarios, scenarios),
            _quarters(answer),
            text_table(
                f"With more {several(answer.level)}, growth {range_words(answer.scenarios[0].growth)}",
                answer.rows,
                clusters,
            ),
            shapes_table(answer.level, [(row.more, row.shapes) for row in answer.rows]),
            *_money(answer),
        ),
        charts=(_waits(answer),),
    )


def order_words(quarters: float) -> str:
    """Return when to order: ``in 1.3 quarters``, ``now``, ``now, 2.0 quarters late``, ``nothing yet``."""
    if not isfinite(quarters):
        return "nothing yet"
    words = f"{fixed(abs(quarters), digits=1)} quarters"
    if quarters > 0.0:
        return f"in {words}"
    return "now" if words == "0.0 quarters" else f"now, {words} late"


def quarters_words(found: Percentiles) -> str:
    """Return P50, and P10 and P90 behind it: ``in 3.5 quarters (P10 2.2, P90 6.2)``, ``not in 10 years``."""
    low, median, high = (fixed(value, digits=1) if isfinite(value) else NOT_SOON for value in found)
    if not isfinite(found[0]):
        return NOT_SOON
    ends = f"(P10 {low}, P90 {high})"
    if found[1] == 0.0:
        return f"today already {ends}"
    return f"in {median} quarters {ends}" if isfinite(found[1]) else f"{median} {ends}"


def _quarters(answer: GrowAnswer) -> TextTable:
    first = answer.scenarios[0]
    columns: dict[str, Callable[[DemandQuarter], str]] = {
        "quarter": lambda row: str(row.quarter) if row.quarter else "today",
        "load": lambda row: " / ".join(f"{share:.2f}" for share in row.load),
        "95% wait at most, min": lambda row: _three(row.wait_minutes, "no answer"),
        "objective broken": lambda row: f"{row.broken:.0%}",
        f"{several(answer.level)} to buy": lambda row: _three(row.minipods),
    }
    title = f"Demand and waits under {answer.policy}, growth {range_words(first.growth)}: P10 / P50 / P90"
    return text_table(title, first.quarters, columns)


def _money(answer: GrowAnswer) -> tuple[TextTable, ...]:
    """Return what a domain more costs, and what short waits do; no table without a price."""
    if answer.cost_domain_hour is None:
        return ()
    rows = [
        (f"a {answer.level} more, an hour", known(answer.cost_domain_hour, ",.0f")),
        (f"a GPU-hour in use at a load of {answer.load_at_objective[1]:.0%}", known(answer.cost_used_gpu_hour, ",.2f")),
    ]
    return (TextTable("Money", ("", "cost"), rows),)


def _three(found: Percentiles, beyond: str = "-") -> str:
    return " / ".join(number(value) if isfinite(value) else beyond for value in found)


def _waits(answer: GrowAnswer) -> Chart:
    first, objective = answer.scenarios[0], answer.objective_wait
    top = SHOWN * objective
    series = [Series(f"growth {range_words(one.growth)}", _cut(one, top)) for one in answer.scenarios]
    band = [(min(row.wait_minutes[0], top), min(row.wait_minutes[2], top)) for row in first.quarters]
    series[0] = replace(series[0], band=([low for low, _ in band], [high for _, high in band]))
    last = float(first.quarters[-1].quarter)
    series.append(Series("objective", [(0.0, objective), (last, objective)], shape="dashes"))
    order = [min(max(at, 0.0), last) for at in first.order]
    # a little above the axis, where it is seen
    series.append(Series("order, P10 to P90", [(at, 0.05 * top) for at in order]))
    return Chart(
        title=f"95th percentile of the waits; band: P10 to P90, growth {range_words(first.growth)}",
        x_label="quarters from now",
        y_label=f"minutes, cut at {top:g}",
        series=series,
        floor=0.0,
        ceiling=top,
        lines=((order[1], "order"), (min(first.breaks[1], last), "broken")),
    )


def _cut(one: GrowthScenario, top: float) -> list[tuple[float, float | None]]:
    """Return the median of the waits by quarter, up to the first that is cut at ``top``."""
    waits = [row.wait_minutes[1] for row in one.quarters]
    over = [sum(wait > top for wait in waits[: i + 1]) for i in range(len(waits))]
    return [
        (float(row.quarter), min(wait, top) if beyond <= 1 else None)
        for row, wait, beyond in zip(one.quarters, waits, over, strict=True)
    ]
