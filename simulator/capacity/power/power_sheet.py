"""The answer to the question of power as a person reads it: tables, and power over time, its spectrum, its ramps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ground.quantities import percent
from simulator.capacity.power.power_answer import PowerAnswer, PowerSpread
from simulator.power.power_figures import ramps, spectrum
from simulator.power.power_file import PowerSettings
from simulator.power.power_wave import MEGA, RATE
from simulator.sheet import Chart, Series, Sheet, TextTable, text_table
from topology.cluster import SECOND, FloatArray

SHOWN = 60.0  # Seconds of the figure of power over time
BINS = 12  # Of a decade of frequencies, or of all ramps: as many bars as a figure shows apart
DECADES = range(-2, 2)  # Powers of ten along the axis of frequencies


def power_sheet(answer: PowerAnswer, remedies: Mapping[str, FloatArray], settings: PowerSettings) -> Sheet:
    """Return the sheet.

    :param remedies: power of the site over time under each remedy, watts.
    """
    drawn = {name: watts for name, watts in remedies.items() if name != "all in phase"}
    figures = ("", *answer.remedies[0].figures.cells)
    lines = [
        (row.name, *row.figures.cells.values(), "yes" if row.within else "no", f"{row.more_kilowatts:,.0f}")
        for row in answer.remedies
    ]
    tables = [TextTable("The site, inputs at their medians", (*figures, "as allowed", "more kW"), lines)]
    for title, rows in (("Where it swings most, by level", answer.domains), ("The site in events", answer.events)):
        tables.append(TextTable(title, figures, [(row.name, *row.figures.cells.values()) for row in rows]))
    if answer.spreads:
        spreads: dict[str, Callable[[PowerSpread], str]] = {
            "placed": lambda row: row.name,
            "domains": lambda row: f"{row.domains}",
            "DP spread": lambda row: f"{row.dp}",
            "PP spread": lambda row: f"{row.pp}",
            "step lost": lambda row: percent(row.step_lost),
            "swing MW": lambda row: row.figures.cells["swing MW"],
            "best trade": lambda row: "yes" if row.best else "no",
        }
        level = (answer.level or "").removeprefix(SECOND)
        title = f"The largest job over {level} domains: its own swing where it has most nodes"
        tables.append(text_table(title, answer.spreads, spreads))
    return Sheet(tables, [_trace(drawn), _spectrum(drawn, settings), _histogram(drawn)])


def _trace(drawn: Mapping[str, FloatArray]) -> Chart:
    count = int(SHOWN * RATE)
    # four points a second show what a figure can
    shown = {name: (watts[:count:16] / MEGA).tolist() for name, watts in drawn.items()}
    series = [Series(name, [(16 * i / RATE, y) for i, y in enumerate(ys)], "step") for name, ys in shown.items()]
    return Chart("Power of the site over time", "seconds", "MW", series)


def _spectrum(drawn: Mapping[str, FloatArray], settings: PowerSettings) -> Chart:
    edges = np.arange(DECADES[0] * BINS, 2 * BINS) / BINS
    series = []
    for name, watts in drawn.items():
        frequencies, energy = spectrum(watts)
        sums, _ = np.histogram(np.log10(frequencies), edges, weights=energy)
        series.append(_bars(name, edges, np.sqrt(sums) / MEGA))
    return Chart(
        "Swings by frequency",
        "Hz; the band of the specification between the lines",
        "MW, root of the mean square",
        series,
        floor=0.0,
        ticks=[(float(power), f"{10.0**power:g}") for power in DECADES],
        lines=[(float(np.log10(end)), f"{end:g} Hz") for end in settings.band],
    )


def _histogram(drawn: Mapping[str, FloatArray]) -> Chart:
    found = {name: ramps(watts) / MEGA for name, watts in drawn.items()}
    edges = np.linspace(0.0, max(float(one.max()) for one in found.values()) or 1.0, 2 * BINS + 1)
    series = [_bars(name, edges, np.histogram(one, edges)[0] / len(one)) for name, one in found.items()]
    return Chart("Changes within a second", "MW/s", "share of the time", series, floor=0.0, kind="share")


def _bars(name: str, edges: FloatArray, heights: FloatArray) -> Series:
    """Return steps from each edge to the next; the last ends at nothing."""
    return Series(name, [*zip(edges.tolist(), [*heights.tolist(), 0.0], strict=True)], "step")
