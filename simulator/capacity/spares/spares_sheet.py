"""The answer about spares as a person reads it: sentences, tables, charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

from ground.quantities import fixed, number, percent, plural
from simulator.capacity.capacity_question import AnswerFigure
from simulator.capacity.hardware_prices import HOURS_OF_A_YEAR
from simulator.capacity.spares.spares_answer import FailureDomain, SparesAnswer, SparesRow
from simulator.failures.rates import MEASURED_MTTF_GPUS, MEASURED_MTTF_HOURS
from simulator.sheet import Chart, Series, Sheet, TextTable, text_table

NEVER = 8.766e9  # Hours, a million years: what JSON has as the mean time to failure of a job that never fails
NOTHING = 5e-4  # ETTR below which no time is useful: it is written as 0.0 %
MOST_DIGITS = 8  # Behind the point of a percentage: more is written by nobody
EXACT = 1e-9  # Percentages closer than this are the same number
DEAREST = 1.5  # Costs beyond so many times the least are not drawn, or the curve near the least would be flat


def verdict_on(found: SparesAnswer) -> str:
    """Return the number, what it costs, how sure that is, and what the target takes."""
    best, cost, _, *fewest = found.ranges
    if found.ettr_with_unlimited_spares < NOTHING:
        return "With no number of spares is time useful: restarts and checkpoints alone leave nothing of it."
    low, high = found.about_as_good
    near = f"{low:,} to {high:,} spares cost within 1% of it" if low < high else "any other number costs over 1% more"
    a_year = ""
    if found.gpu_hour is not None:
        money = found.spares * found.gpus_per_node * found.gpu_hour * HOURS_OF_A_YEAR
        a_year = f"; the spares cost {number(money)} a year"
    sentences = [
        f"Keep {plural(found.spares, 'spare')} for {plural(found.nodes, 'node')}: useful time costs least then, "
        f"{cost.value(cost.p50)} {found.cost_unit} (P10 {cost.value(cost.p10)}, P90 {cost.value(cost.p90)}), and "
        f"{near}{a_year}."
    ]
    if (best.p10, best.p90) != (found.spares, found.spares):
        sentences.append(
            f"Were the inputs known, the best number would be {best.value(best.p50)} (P10 {best.value(best.p10)}, P90 "
            f"{best.value(best.p90)}): one spare too few stops the whole job, one too many costs a node."
        )
    if found.target is not None and found.needed is not None:
        sentences.append(
            f"An ETTR of {as_asked(found.target)} takes {found.needed} ({fewest[0].words}); {found.spares} reach it in "
            f"{percent(found.reached_share)} of the draws."
        )
    elif found.target is not None:
        sentences.append(
            f"No number of spares gives an ETTR of {as_asked(found.target)}: restarts and checkpoints alone leave "
            f"{as_asked(found.ettr_with_unlimited_spares, below=found.target)}."
        )
    return " ".join(sentences)


def figure_of(found: SparesAnswer) -> AnswerFigure:
    """Return the number of spares to keep, and which others cost about as much."""
    if found.ettr_with_unlimited_spares < NOTHING:
        return AnswerFigure("none", "number of spares with which time is useful", "")
    low, high = found.about_as_good
    near = f"{low:,} to {high:,} cost within 1% of it" if low < high else "any other number costs over 1% more"
    return AnswerFigure(f"{found.spares:,}", "spares to keep", near)


def as_asked(share: float, *, below: float | None = None) -> str:
    """Return a share with the digits that it was given with, at least one behind the point: ``99.99%``, never 100.0%.

    :param below: another share, below which it is to read, and no more digits than that takes.
    """
    for digits in range(1, MOST_DIGITS + 1):
        text = fixed(100 * share, digits=digits)
        if abs(float(text) - 100 * share) < EXACT or (below is not None and float(text) < 100 * below - EXACT):
            break
    return f"{text}%"


def assumed_of(found: SparesAnswer) -> Iterator[str]:
    """Yield what rates, restart, repair, domains and cost take for granted, one sentence each."""
    by_rate = found.mttf_hours_at_1024_gpus
    mean = f"a mean time to failure of {by_rate:.1f} h" if by_rate < NEVER else "no failure ever"
    yield (
        f"{found.rate.per_thousand_node_days:.3g} failures per 1,000 node-days at the median, the same for every node "
        f"and at random; source: {found.rate.source}."
    )
    yield (
        f"At {MEASURED_MTTF_GPUS:,} GPUs this rate gives {mean}; jobs of that size on RSC-1 measured "
        f"{MEASURED_MTTF_HOURS} h, which no rate that is the same for all nodes explains: where nodes fail again "
        "and again, plan with a higher rate."
    )
    yield (
        f"A failure costs {found.restart_seconds:.0f} s at the median (detection, requeue or hot update, reload) and "
        f"the work since the last checkpoint; one is written {every(found)} and takes {found.checkpoint_write:g} s."
    )
    yield (
        f"A failed node is away for {found.repair_hours:.3g} h on average at the median; without domains the "
        "distribution does not matter. All failures take nodes away, and spares in waiting do not fail."
    )
    yield (
        "A spare takes the failed node's place at once and slows nothing; without enough of them the job waits for "
        "nodes that are repaired, and nothing fails meanwhile."
    )
    if found.domains:
        names = ", ".join(f"{one.name} of {plural(one.nodes, 'node')}" for one in found.domains)
        yield (
            f"Nodes that fail at once: {names}; the job fills whole domains, its spares lie elsewhere, all nodes of a "
            "domain come back together, and repairs are exponential."
        )
    else:
        yield "Failures of several nodes at once are not in it: --failure-domain leaf:32 adds those of a switch."
    yield (
        "Cost: C(S) = (N + S) c / (N ETTR(S)). "
        + (f"A GPU-hour costs {number(found.gpu_hour)}, idle or not. " if found.gpu_hour is not None else "")
        + "What a node-hour costs scales the curve and leaves its least where it is: without prices a node is the unit."
    )


def changes_of(found: SparesAnswer) -> Iterator[str]:
    """Yield what would change the answer beside the inputs with a range."""
    if found.domains:
        yield (
            f"Without failures of {' and '.join(one.name for one in found.domains)}: "
            f"{plural(found.best_without_domains, 'spare')} in place of {found.spares}."
        )
    if found.by_source:
        cases = ", ".join(f"{one.name} ({one.per_thousand_node_days:.3g}) {one.spares}" for one in found.by_source)
        yield f"Failures per 1,000 node-days of one source alone, the rest at its median: {cases}."
    yield "Failures and repairs counted on one's own nodes: --failures and --repair-hours take a number or a range."


def spares_sheet(found: SparesAnswer) -> Sheet:
    """Return the job, its domains, and what each number of spares is worth; the curve of the cost is the figure."""
    job = {
        "mean time to failure": _hours(found.mttf_hours, digits=2),
        f"the same at {MEASURED_MTTF_GPUS:,} GPUs": (
            f"{_hours(found.mttf_hours_at_1024_gpus, digits=1)} by the rate, {MEASURED_MTTF_HOURS} h measured on RSC-1"
        ),
        "nodes away on average": f"{found.nodes_away:.2f}",
        "checkpoint interval": every(found).removeprefix("every "),
        "ETTR with a spare always at hand": (
            f"{found.ettr_with_unlimited_spares:.4f}, first order {found.first_order_ettr:.4f}"
        ),
        "standby pool, P99 of a day's failures": f"{found.standby} (filled up again within a day)",
    }
    tables = [
        TextTable("The job, inputs at their medians", ("", "value"), list(job.items())),
        text_table(
            "By number of spares: ETTR with inputs at their medians; cost over all draws, with P10 and P90",
            found.rows,
            _columns(found),
        ),
    ]
    if found.domains:
        tables.insert(1, text_table("Failure domains, inputs at their medians", found.domains, DOMAIN_COLUMNS))
    useful = any(row.cost < inf for row in found.rows)
    return Sheet(tables=tables, charts=(*([_cost_chart(found)] if useful else []), _ettr_chart(found)))


DOMAIN_COLUMNS: dict[str, Callable[[FailureDomain], str]] = {
    "domain": lambda row: row.name,
    "nodes": lambda row: f"{row.nodes:,}",
    "in the job": lambda row: f"{row.in_the_job:,.1f}",
    "failures a year": lambda row: f"{row.failures_a_year:.2f}",
    "hours away": lambda row: f"{row.repair_hours:.1f}",
    "job waits": lambda row: f"{row.waiting:.3%}",
}


def _columns(found: SparesAnswer) -> dict[str, Callable[[SparesRow], str]]:
    marks = {found.needed: " target", found.spares: " at least cost"}
    return {
        "spares": lambda row: f"{row.spares}{marks.get(row.spares, '')}",
        "waits": lambda row: f"{row.waiting:.2%}",
        "ETTR": lambda row: f"{row.formula:.4f}",
        "Monte Carlo": lambda row: f"{row.simulated:.4f} ± {row.half_width:.4f}",
        "apart": lambda row: f"{row.apart:.2%}",
        "cost": lambda row: fixed(row.cost, digits=3),
        "P10": lambda row: fixed(row.cost_p10, digits=3),
        "P90": lambda row: fixed(row.cost_p90, digits=3),
    }


def _cost_chart(found: SparesAnswer) -> Chart:
    """Return the cost of a useful GPU-hour by number of spares: of all draws, P10 to P90, the least marked."""
    most = DEAREST * min(row.cost for row in found.rows)
    rows = [row for row in found.rows if row.cost_p10 <= most]
    band = ([row.cost_p10 for row in rows], [min(row.cost_p90, most) for row in rows])
    series = (
        Series("all draws together, band P10 to P90", _points(rows, [row.cost for row in rows], most), band=band),
        Series("inputs at their medians", _points(rows, [row.cost_at_medians for row in rows], most), shape="dashes"),
    )
    best = found.ranges[0]
    known = [] if best.p10 == best.p90 else [(best.p10, "P10"), (best.p50, "P50"), (best.p90, "P90")]
    marks = [*known, (float(found.spares), plural(found.spares, "spare"))]
    unit = "GPU-hours paid for a useful one" if found.gpu_hour is None else "cost of a useful GPU-hour"
    return Chart(
        "Cost of useful time by number of spares", "spares", unit, series, floor=None, ceiling=most, lines=marks
    )


def _points(rows: Sequence[SparesRow], values: Sequence[float], most: float) -> list[tuple[float, float | None]]:
    return [(row.spares, value if value <= most else None) for row, value in zip(rows, values, strict=True)]


def _ettr_chart(found: SparesAnswer) -> Chart:
    rows = found.rows
    band = ([row.formula_p10 for row in rows], [row.formula_p90 for row in rows])
    simulated = [(row.spares, row.simulated) for row in rows]
    series = [
        Series("formula, band P10 to P90", [(row.spares, row.formula) for row in rows], band=band),
        Series("Monte Carlo", simulated, shape="dots", errors=[row.half_width for row in rows]),
    ]
    if found.target is not None:
        ends = [(row.spares, found.target) for row in (rows[0], rows[-1])]
        series.append(Series("target", ends, shape="dashes"))
    return Chart("ETTR by number of spares", "spares", "ETTR", series, ceiling=1.0, kind="share")


def _hours(hours: float, *, digits: int) -> str:
    return f"{hours:.{digits}f} h" if hours < NEVER else "never"


def every(found: SparesAnswer) -> str:
    """Return how often a checkpoint is written, in words."""
    return "never" if found.checkpoint_interval == inf else f"every {found.checkpoint_interval:,.0f} s"
