"""The answer about minipods, ready to be shown."""

from __future__ import annotations

from simulator.capacity.minipods import MEASURED, MinipodAnswer, assumptions
from simulator.capacity.sheet import Chart, Series, Sheet, Table


def minipods_sheet(answer: MinipodAnswer) -> Sheet:
    """Verdict, tables, charts and assumptions."""
    return Sheet(
        title="Minipod size and oversubscription against throughput",
        verdict=_verdict(answer),
        tables=tuple(_table(answer, name) for name in answer.question.algorithms),
        charts=tuple(_chart(answer, name) for name in answer.question.algorithms),
        assumptions=assumptions(answer),
    )


def _verdict(answer: MinipodAnswer) -> str:
    q, first = answer.question, answer.question.algorithms[0]
    ratio = MEASURED if MEASURED in q.ratios else max(q.ratios)
    cells = [cell for cell in answer.cells if cell.algorithm == first and cell.ratio == ratio]
    known = [cell for cell in cells if cell.throughput is not None]
    if not known:
        return f"{first} found no place for any of the jobs."
    words = ", ".join(f"{cell.throughput:.1%} with minipods of {cell.size}" for cell in (known[0], known[-1]))
    others = [
        one.throughput / other.throughput - 1.0
        for name in q.algorithms[1:]
        for one in known
        if one.throughput and (other := answer.cell(name, one.size, ratio)).throughput
    ]
    gain = f" Placing with {first} instead of {q.algorithms[1]} gains up to {max(others):.1%}." if others else ""
    return f"At an oversubscription of {ratio:.3g} jobs keep {words} nodes of a flat network's throughput.{gain}"


def _columns(answer: MinipodAnswer) -> tuple[float | None, ...]:
    return (*answer.question.ratios, None)


def _word(ratio: float | None) -> str:
    return "as measured" if ratio is None else f"{ratio:.3g}:1"


def _table(answer: MinipodAnswer, name: str) -> Table:
    q = answer.question
    rows = []
    for size in q.sizes:
        cells = [answer.cell(name, size, ratio) for ratio in _columns(answer)]
        one = cells[0]
        spreads = ("-", "-") if one.dp is None or one.pp is None else (f"{one.dp:.1f}", f"{one.pp:.1f}")
        shares = [
            "-" if cell.throughput is None else f"{100 * cell.throughput:.1f} ± {100 * cell.half_width:.1f}"
            for cell in cells
        ]
        rows.append((f"{size:,}", f"{one.minipods:,}", *spreads, f"{one.placed:.0%}", *shares))
    return Table(
        f"Throughput with {name}, % of a flat network, by minipod size and oversubscription",
        ("minipod", "minipods", "DP spread", "PP spread", "placed", *map(_word, _columns(answer))),
        rows,
    )


def _chart(answer: MinipodAnswer, name: str) -> Chart:
    q = answer.question
    least = min((cell.throughput for cell in answer.cells if cell.throughput is not None), default=0.0)
    return Chart(
        title=f"Throughput with {name}",
        x_label="nodes of a minipod",
        y_label="of a flat network",
        series=[
            Series(
                _word(ratio),
                [(float(i), answer.cell(name, size, ratio).throughput) for i, size in enumerate(q.sizes)],
                errors=[answer.cell(name, size, ratio).half_width for size in q.sizes],
            )
            for ratio in _columns(answer)
        ],
        floor=max(0.0, int(20 * least - 0.5) / 20),
        ceiling=1.0,
        ticks=[(float(i), f"{size:,}") for i, size in enumerate(q.sizes)],
        percent=True,
    )
