"""The answer about fragmentation, ready to be shown."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.capacity.fragmentation import FragmentationAnswer, ShapeRow, assumptions
from simulator.capacity.largest import Family
from simulator.capacity.sheet import Chart, Series, Sheet, Table
from topology.quantities import plural


def fragmentation_sheet(answer: FragmentationAnswer) -> Sheet:
    """Verdict, tables, charts and assumptions."""
    return Sheet(
        title="What fragmentation costs, by job shape",
        verdict=_verdict(answer),
        tables=(_largest(answer), _sizes(answer)),
        charts=(_chart_largest(answer), _chart_domains(answer)),
        assumptions=assumptions(answer),
    )


def _verdict(answer: FragmentationAnswer) -> str:
    start = f"{answer.free:,} of {plural(answer.nodes, 'node')} are free, in {plural(_open(answer), answer.level)}."
    piped = [row for row in answer.shapes if row.shape.row > 1 and row.most]
    if not piped:
        return start
    worst = min(piped, key=lambda row: row.largest["pp", 1].rows / row.most)
    kept = worst.largest["pp", 1].rows * worst.shape.row
    ratios = [size.ratio for row in answer.shapes for size in row.sizes if size.ratio is not None]
    dearest = f" Objectives are up to {max(ratios):.2f} times those of an empty cluster." if ratios else ""
    return (
        f"{start} With PP groups inside one {answer.level}, the largest job of shape {worst.shape.name} has {kept:,} "
        f"nodes, {kept / answer.free:.0%} of those free.{dearest}"
    )


def _open(answer: FragmentationAnswer) -> int:
    return sum(count > 0 for count in answer.domains)


def _columns(answer: FragmentationAnswer) -> list[tuple[Family, int]]:
    families: tuple[Family, ...] = ("pp", "dp")
    return [(family, k) for family in families for k in answer.spreads]


def _largest(answer: FragmentationAnswer) -> Table:
    columns = _columns(answer)
    return Table(
        "Largest job that still fits, nodes",
        (
            "shape",
            "any spread",
            *(f"{family.upper()} <= {k}" for family, k in columns),
            f"{answer.level} too small",
            "left over",
        ),
        [
            (
                row.shape.name,
                f"{row.most * row.shape.row:,}",
                *(_cell(row, column) for column in columns),
                f"{row.too_small:,}",
                f"{row.left_over:,}",
            )
            for row in answer.shapes
        ],
    )


def _cell(row: ShapeRow, column: tuple[Family, int]) -> str:
    found = row.largest.get(column)
    if found is None:
        return "-"
    return f"{'' if found.proved else '>= '}{found.rows * row.shape.row:,}"


def _sizes(answer: FragmentationAnswer) -> Table:
    return Table(
        "What a job is worth now and on the empty cluster",
        ("shape", "of the free nodes", "nodes", "DP spread", "PP spread", "objective", "empty", "ratio"),
        [
            (
                row.shape.name,
                f"{size.share:.0%}",
                f"{size.rows * row.shape.row:,}",
                *(("-", "-") if size.dp is None else (str(size.dp), str(size.pp))),
                *("-" if value is None else f"{value:.2f}" for value in (size.now, size.empty, size.ratio)),
            )
            for row in answer.shapes
            for size in row.sizes
        ],
    )


def _chart_largest(answer: FragmentationAnswer) -> Chart:
    """PP groups at the left, DP groups at the right, nothing drawn between them."""
    columns = [column for column in _columns(answer) if any(column in row.largest for row in answer.shapes)]
    place = {column: float(i + (column[0] == "dp")) for i, column in enumerate(columns)}
    return Chart(
        title="Largest job that still fits",
        x_label="domains that a PP or a DP group may touch",
        y_label="nodes",
        series=[Series(f"shape {row.shape.name}", list(_points(row, place))) for row in answer.shapes],
        floor=0.0,
        ceiling=float(max(answer.free, 1)),
        ticks=[(x, f"{family.upper()} <= {k}") for (family, k), x in place.items()],
    )


def _points(row: ShapeRow, place: dict[tuple[Family, int], float]) -> Iterator[tuple[float, float | None]]:
    previous = ""
    for column, x in place.items():
        if previous and previous != column[0]:
            yield x - 0.5, None
        previous = column[0]
        yield x, None if column not in row.largest else float(row.largest[column].rows * row.shape.row)


def _chart_domains(answer: FragmentationAnswer) -> Chart:
    return Chart(
        title=f"Free nodes of each {answer.level}",
        x_label=f"{answer.level}s, the emptiest first",
        y_label="free nodes",
        series=(Series("free nodes", [(float(i + 1), float(n)) for i, n in enumerate(answer.domains)]),),
        floor=0.0,
    )
