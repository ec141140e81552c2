"""The job's own grid: one column a pipeline (PP group), one line a stage (DP group), coloured by domain.

The number of colours in a line is the DP spread of that stage, the number of colours in a column the PP spread of that
pipeline: the objective can be read off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil

import numpy as np

from topology.cluster import IntArray
from topology.drawing.sizing import text_width
from topology.drawing.svg import number

WIDTH = 1200.0
LEFT, TOP, RIGHT = 58.0, 16.0, 14.0
"""Room for the names of stages, for the numbers of rows above each strip, and for half a number at the right."""

GAP = 12.0
"""Between strips."""

LARGEST, LEAST = 60.0, 6.5
"""Widths of a cell, with the gap to its neighbour; a job too long for the least is cut into strips."""

HIGHEST, LINE, MOST_NAMED = 20.0, 12.0, 16
"""Most height of a stage's line; least height, so that it can be named; stages up to which the least is kept."""

FONT = 10.0
STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 250, 500, 1000)
"""Rows between two numbers of the axis."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where cells stand.

    :param per_strip: rows of the job in one strip.
    :param pitch: width of a cell with the gap.
    :param line: height of a cell with the gap.
    """

    rows: int
    columns: int
    per_strip: int
    pitch: float
    line: float

    @property
    def strips(self) -> int:
        return ceil(self.rows / self.per_strip)

    @property
    def strip_height(self) -> float:
        return TOP + self.columns * self.line + GAP

    def x(self, row: float) -> float:
        return LEFT + row % self.per_strip * self.pitch

    def y(self, row: int, column: float) -> float:
        return row // self.per_strip * self.strip_height + TOP + column * self.line


def _plan(rows: int, columns: int) -> _Plan:
    room = WIDTH - LEFT - RIGHT
    per_strip = ceil(rows / ceil(rows * LEAST / room))
    pitch = min(LARGEST, room / per_strip)
    line = min(max(pitch, LINE), HIGHEST) if columns <= MOST_NAMED else min(pitch, LINE)
    return _Plan(rows, columns, per_strip, pitch, line)


def grid_drawing(runs: Sequence[IntArray], names: Sequence[str], colours: Sequence[str], *, title: str) -> str:
    """The grid as one ``<svg>``, coloured for the first run, with labels for every run (those of others hidden).

    Cell (row, column) is the (row * columns + column)-th ``<rect class="g">``; the labels of run i are in
    ``<g data-labels="i">``.

    :param runs: for each placement shape [rows, columns], the domain of each cell.
    :param names: of the domains.
    :param colours: of the domains.
    :param title: what a screen reader says.
    """
    domains = runs[0]
    plan = _plan(*domains.shape)
    height = plan.strips * plan.strip_height - GAP
    parts = [
        f'<svg class="grid" viewBox="0 0 {number(WIDTH)} {number(height)}" width="{number(WIDTH)}" '
        f'height="{number(height)}" role="img" aria-label="{escape(title)}">',
        *_axes(plan),
    ]
    size = f'width="{number(plan.pitch - 0.7)}" height="{number(plan.line - 0.7)}"'
    for row in range(plan.rows):
        x = number(plan.x(row))
        for column in range(plan.columns):
            colour = colours[domains[row, column]]
            parts.append(f'<rect class="g" x="{x}" y="{number(plan.y(row, column))}" {size} fill="{colour}"/>')
    for i, run in enumerate(runs):
        parts.append(f'<g data-labels="{i}"{" hidden" if i else ""}>')
        parts.extend(_labels(plan, run, names))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"])


def _axes(plan: _Plan) -> Iterator[str]:
    """Names of the stages at the left and numbers of rows above each strip."""
    step = next((n for n in STEPS if n * plan.pitch >= 36), plan.rows)
    every = ceil(FONT / plan.line)
    for row in range(0, plan.rows, step):
        x, y = number(plan.x(row) + plan.pitch / 2), number(plan.y(row, 0) - 6)
        yield f'<text class="note" x="{x}" y="{y}" font-size="10" text-anchor="middle">{row}</text>'
    for strip in range(plan.strips):
        for column in range(0, plan.columns, every):
            y = number(plan.y(strip * plan.per_strip, column + 0.5) + 3.2)
            yield (
                f'<text class="note" x="{number(LEFT - 8)}" y="{y}" font-size="10" '
                f'text-anchor="end">stage {column}</text>'
            )


@dataclass(frozen=True, slots=True)
class _Block:
    """A rectangle of cells of one domain: rows ``first`` to before ``stop``, columns ``top`` to before ``bottom``."""

    first: int
    stop: int
    domain: int
    top: int
    bottom: int

    @property
    def area(self) -> int:
        return (self.stop - self.first) * (self.bottom - self.top)


def _labels(plan: _Plan, domains: IntArray, names: Sequence[str]) -> Iterator[str]:
    """The name of each domain in the middle of its largest block, where it fits."""
    largest: dict[int, _Block] = {}
    for block in _blocks(plan, domains):
        if block.domain not in largest or block.area > largest[block.domain].area:
            largest[block.domain] = block
    for domain, block in sorted(largest.items()):
        width = (block.stop - block.first) * plan.pitch
        if plan.line >= FONT and text_width(names[domain], FONT) + 6 <= width:
            x = number(plan.x(block.first) + width / 2)
            y = number(plan.y(block.first, (block.top + block.bottom) / 2) + 3.4)
            yield f'<text class="tag" x="{x}" y="{y}" font-size="10">{escape(names[domain])}</text>'


def _blocks(plan: _Plan, domains: IntArray) -> Iterator[_Block]:
    """Rectangles of one domain: stretches of a line that span the same rows in the lines below belong together."""
    open_runs: dict[tuple[int, int, int], int] = {}
    for column in range(plan.columns + 1):
        runs = list(_runs(plan, domains[:, column])) if column < plan.columns else []
        for run in [run for run in open_runs if run not in runs]:
            yield _Block(*run, top=open_runs.pop(run), bottom=column)
        for run in runs:
            open_runs.setdefault(run, column)


def _runs(plan: _Plan, line: IntArray) -> Iterator[tuple[int, int, int]]:
    """Stretches of one domain in a line, cut where a strip ends: first row, row after the last, domain."""
    cuts = set(np.flatnonzero(np.diff(line)) + 1) | set(range(0, plan.rows, plan.per_strip)) | {plan.rows}
    borders = sorted(int(cut) for cut in cuts)
    for first, stop in pairwise(borders):
        yield first, stop, int(line[first])
