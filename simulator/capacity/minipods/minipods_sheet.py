"""How the answer about minipods looks: throughput by size and oversubscription, and what a useful GPU-hour costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from simulator.capacity.capacity_question import AnswerFigure
from simulator.capacity.minipods.minipods_answer import CheapestRatio, MinipodCell, MinipodsAnswer
from simulator.capacity.minipods.minipods_throughput import MODEL
from simulator.sheet import Chart, Series, Sheet, TextTable, known, text_table

_HARDLY = 0.01  # Share of the throughput that is no reason for a larger minipod, as of costs in other answers


def minipods_sheet(answer: MinipodsAnswer, algorithms: Sequence[str], ratios: Sequence[float], *, told: int) -> Sheet:
    """Return a table and a chart for each algorithm; cost by oversubscription first, where there are prices.

    :param told: size of minipod of the headline.
    """
    tables = [_table(answer, name, ratios) for name in algorithms]
    charts = [_chart(answer, name, ratios) for name in algorithms]
    if not answer.cheapest:
        return Sheet(tables, charts)
    columns: dict[str, Callable[[CheapestRatio], str]] = {
        "minipod": lambda row: f"{row.minipod_nodes:,}",
        "oversubscription": lambda row: f"{row.choice:.3g}:1",
        "a useful GPU-hour": lambda row: cost_words(answer.cell(algorithms[0], row.minipod_nodes, row.choice)),
        "best if known": lambda row: " / ".join(f"{ratio:.3g}:1" for ratio in row.ratio),
    }
    cheapest = text_table(f"Least mean cost with {algorithms[0]}: P10 / P50 / P90", answer.cheapest, columns)
    return Sheet((cheapest, *tables), (_costs(answer, algorithms[0], ratios, told), *charts))


def verdict_of(found: MinipodsAnswer, algorithms: Sequence[str], ratios: Sequence[float], *, told: int) -> str:
    """Return the oversubscription that costs least, or what the highest leaves; and what placement gains there."""
    first, *others = algorithms
    cheap = next((one for one in found.cheapest if one.minipod_nodes == told), None)
    ratio = ratios[-1] if cheap is None else cheap.choice
    cell, full = found.cell(first, told, ratio), found.cell(first, told, ratios[0])
    if cell.throughput is None:
        return f"{first} found no place for any of the jobs."
    low, median, high = cell.throughput
    keep = f"{median:.1%} of a flat network's throughput (P10 {low:.1%}, P90 {high:.1%})"
    gains = [
        median / other[1] - 1.0 for name in others if (other := found.cell(name, told, ratio).throughput) is not None
    ]
    gain = f" Placing with {first} instead of {others[0]} gains {gains[0]:.1%} there." if gains else ""
    gain += _size_words(found, first, ratio)
    if cheap is None:
        return (
            f"By the model {MODEL}, jobs keep {keep} with minipods of {told:,} nodes and an oversubscription of "
            f"{ratio:g}.{gain} Which one costs least hangs on --price-node and --price-switch-port."
        )
    against = f", against {cost_words(full)} at {ratios[0]:g}:1" if ratio > ratios[0] else ""
    return (
        f"By the model {MODEL}, the oversubscription that costs least with minipods of {told:,} nodes is "
        f"{ratio:g}:1, at {cost_words(cell)} a useful GPU-hour{against}. Jobs then keep {keep}.{gain}"
    )


def figure_of(found: MinipodsAnswer, algorithms: Sequence[str], ratios: Sequence[float], *, told: int) -> AnswerFigure:
    """Return the oversubscription that costs least; without prices, the throughput that the highest leaves."""
    cheap = next((one for one in found.cheapest if one.minipod_nodes == told), None)
    ratio = ratios[-1] if cheap is None else cheap.choice
    cell = found.cell(algorithms[0], told, ratio)
    if cell.throughput is None:
        return AnswerFigure("none", f"of the jobs found a place with {algorithms[0]}", "")
    low, median, high = cell.throughput
    keep = f"P10 {low:.1%}, P90 {high:.1%}"
    if cheap is None:
        words = f"of a flat network's throughput at {ratio:.3g}:1, minipods of {told:,} nodes"
        return AnswerFigure(f"{median:.1%}", words, keep)
    words = f"oversubscription that costs least, minipods of {told:,} nodes"
    return AnswerFigure(f"{ratio:.3g}:1", words, f"{cost_words(cell)} a useful GPU-hour")


def _size_words(found: MinipodsAnswer, algorithm: str, ratio: float) -> str:
    """Return which size of minipod is large enough: with a larger one jobs keep hardly more."""
    there = [one for one in found.cells if (one.algorithm, one.oversubscription) == (algorithm, ratio)]
    kept = {one.minipod_nodes: one.throughput[1] for one in there if one.throughput is not None}
    if len(kept) < 2:
        return ""
    enough = min(size for size, median in kept.items() if median >= (1 - _HARDLY) * max(kept.values()))
    return (
        f" Of the sizes, {enough:,} nodes are the smallest with which jobs keep within {_HARDLY:.0%} of the most "
        f"({kept[enough]:.1%})."
    )


def cost_words(cell: MinipodCell) -> str:
    """Return the cost of a useful GPU-hour with its range: ``1.26 (P10 1.25, P90 1.30)``."""
    low, median, high = cell.cost or (inf, inf, inf)
    return f"{median:,.2f} (P10 {low:,.2f}, P90 {high:,.2f})"


def _table(answer: MinipodsAnswer, name: str, ratios: Sequence[float]) -> TextTable:
    def kept(ratio: float, cell: MinipodCell) -> str:
        found = answer.cell(name, cell.minipod_nodes, ratio).throughput
        return "-" if found is None else " / ".join(f"{100 * one:.1f}" for one in found)

    columns: dict[str, Callable[[MinipodCell], str]] = {
        "minipod": lambda cell: f"{cell.minipod_nodes:,}",
        "minipods": lambda cell: f"{cell.minipods:,}",
        "DP spread": lambda cell: known(cell.dp_spread, ".1f"),
        "PP spread": lambda cell: known(cell.pp_spread, ".1f"),
        "placed": lambda cell: f"{cell.placed:.0%}",
    } | {f"{ratio:.3g}:1": partial(kept, ratio) for ratio in ratios}
    title = f"Throughput with {name}, % of a flat network, by minipod size and oversubscription: P10 / P50 / P90"
    return text_table(title, _cells(answer, name, ratios[0]), columns)


def _cells(answer: MinipodsAnswer, name: str, ratio: float) -> list[MinipodCell]:
    """Return the cells of one algorithm and one oversubscription, by size."""
    return [cell for cell in answer.cells if (cell.algorithm, cell.oversubscription) == (name, ratio)]


def _chart(answer: MinipodsAnswer, name: str, ratios: Sequence[float]) -> Chart:
    least = min((cell.throughput[1] for cell in answer.cells if cell.throughput is not None), default=0.0)
    series = []
    for ratio in ratios:
        cells = _cells(answer, name, ratio)
        points = [(float(i), cell.throughput and cell.throughput[1]) for i, cell in enumerate(cells)]
        series.append(Series(f"{ratio:.3g}:1", points))
    return Chart(
        title=f"Throughput with {name}, P50",
        x_label="nodes of a minipod",
        y_label="of a flat network",
        series=series,
        # a twentieth below the least value, or it would lie on the axis
        floor=max(0.0, int(20 * least - 0.5) / 20),
        ceiling=1.0,
        ticks=[(float(i), f"{cell.minipod_nodes:,}") for i, cell in enumerate(_cells(answer, name, ratios[0]))],
        kind="share",
    )


def _costs(answer: MinipodsAnswer, name: str, ratios: Sequence[float], told: int) -> Chart:
    """Return cost by oversubscription, a line for each size; the band and the optimum are those of the headline."""
    series = []
    for cheap in answer.cheapest:
        cells = [answer.cell(name, cheap.minipod_nodes, ratio) for ratio in ratios]
        costs = [cell.cost or (inf, inf, inf) for cell in cells]
        band = ([cost[0] for cost in costs], [cost[2] for cost in costs]) if cheap.minipod_nodes == told else None
        points: list[tuple[float, float | None]] = [(float(i), cost[1]) for i, cost in enumerate(costs)]
        series.append(Series(f"minipods of {cheap.minipod_nodes:,}", points, band=band))
    best = next(cheap for cheap in answer.cheapest if cheap.minipod_nodes == told)
    return Chart(
        title=f"Median cost of a useful GPU-hour; band: P10 to P90, minipods of {told:,}",
        x_label="oversubscription between minipods",
        y_label="cost",
        series=series,
        ticks=[(float(i), f"{ratio:.3g}:1") for i, ratio in enumerate(ratios)],
        lines=[(float(ratios.index(best.choice)), "least mean cost")],
    )
