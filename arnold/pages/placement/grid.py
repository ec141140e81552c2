"""The job's own grid: one line a row (PP group), one column a stage (DP group), coloured by domain.

The number of colours in a row is the PP spread of that pipeline, the number of colours in a column the DP spread of
that stage: the objective can be read off.  A job of many rows is cut into blocks of rows that stand side by side; each
is a drawing of its own, so that a page can stand as many beside each other as its screen has room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil

import numpy as np

from arnold.pages.axis import cells_between
from topology.cluster import IntArray
from topology.drawing.layout import text_width
from topology.drawing.page_kit import label, rect, svg, svg_number

WIDTH = 1140.0  # Of all blocks side by side, gaps included: what a page on a laptop has
LEFT, TOP, RIGHT = 34.0, 16.0, 1.0
"""Room for the numbers of rows, for the numbers of stages, and for the stroke of a cell that is lit."""

GAP = 12.0  # Between blocks
LARGEST, BESIDE, LEAST = 60.0, 16.0, 6.5
"""Most width of a cell with its gap, where there is one block; where there are several, so that two fit on a telephone
(2 x (34 + 8 x 16) + 12 pixels for eight stages); and the least."""

LINES = (20.0, 18.0, 16.0, 14.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0)
"""Heights of a row to try, the largest first."""

HEIGHTS = (320.0, 640.0, 1280.0)  # Heights of a block to try, the lowest first: half a screen, one, and two
LANDSCAPE = 1.25  # Width by height of a cell at least, where there is a choice: names lie within a row, not across
FONT = 10.0
FEW = 10  # Rows of a block up to which each has its number, if there is room
TIDY = 5  # Blocks of more rows have a multiple of it, so that the next one begins with a number that its axis has


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where cells stand."""

    rows: int
    columns: int
    each: int  # rows in one block
    pitch: float  # width of a cell with the gap
    line: float  # height of a cell with the gap

    @property
    def blocks(self) -> list[range]:
        """Rows of each block."""
        return [range(first, min(first + self.each, self.rows)) for first in range(0, self.rows, self.each)]

    @property
    def width(self) -> float:
        """Of a block."""
        return LEFT + self.columns * self.pitch + RIGHT

    def x(self, column: float) -> float:
        return LEFT + column * self.pitch

    def y(self, row: float) -> float:
        """Within the block of the row."""
        return TOP + row % self.each * self.line


def _plan(rows: int, columns: int) -> _Plan:
    """Return the largest cells with which the whole job fits; beyond that small ones, and as high as it gets."""
    for height in HEIGHTS:
        for line in LINES:
            blocks = ceil(rows / max(1, int((height - TOP) / line)))
            room = (WIDTH - (blocks - 1) * GAP) / blocks - LEFT - RIGHT
            pitch = min(room / columns, LARGEST if blocks == 1 else BESIDE)
            if pitch >= (LEAST if blocks == 1 else max(LEAST, LANDSCAPE * line)):
                return _Plan(rows, columns, _tidy(ceil(rows / blocks)), pitch, line)
    beside = max(1, int((WIDTH + GAP) / (LEFT + columns * LEAST + RIGHT + GAP)))
    return _Plan(rows, columns, _tidy(ceil(rows / beside)), LEAST, LINES[-1])


def _tidy(rows: int) -> int:
    return rows if rows <= TIDY else ceil(rows / TIDY) * TIDY


def grid_drawing(runs: Sequence[IntArray], names: Sequence[str], colours: Sequence[str], *, title: str) -> str:
    """Return the grid as ``<svg>`` blocks in one ``<div>``, coloured for the first run, with labels for every run.

    Cell (row, column) is the (row * columns + column)-th ``<rect class="g">``; the labels of run i are in
    ``<g data-labels="i">``, one in each block, hidden but for the first run.

    :param runs: for each placement shape [rows, columns], the domain of each cell.
    :param names: of the domains.
    :param colours: of the domains.
    :param title: what a screen reader says.
    """
    plan = _plan(*runs[0].shape)
    labels = [_labels(plan, run, names) for run in runs]
    parts = [
        f'<div class="blocks" role="group" aria-label="{escape(title)}" style="--block:{svg_number(plan.width)}px">',
        *(_block(plan, rows, runs[0], colours, [found[i] for found in labels]) for i, rows in enumerate(plan.blocks)),
        "</div>",
    ]
    return "\n".join(parts)


def _block(plan: _Plan, rows: range, domains: IntArray, colours: Sequence[str], labels: Sequence[Sequence[str]]) -> str:
    height = TOP + len(rows) * plan.line + RIGHT
    title = f"Row {rows[0]}" if len(rows) == 1 else f"Rows {rows[0]} to {rows[-1]}"
    parts = list(_axes(plan, rows))
    for row in rows:
        for column in range(plan.columns):
            colour = colours[domains[row, column]]
            x, y = plan.x(column), plan.y(row)
            # a gap of 0.7 pixels shows where cells end
            parts.append(rect(x, y, plan.pitch - 0.7, plan.line - 0.7, "g", fill=colour))
    for i, texts in enumerate(labels):
        parts += [f'<g data-labels="{i}"{" hidden" if i else ""}>', *texts, "</g>"]
    return svg("grid", plan.width, height, parts, title=title)


def _axes(plan: _Plan, rows: range) -> Iterator[str]:
    """Yield numbers of rows at the left, numbers of stages above."""
    room = FONT if plan.each <= FEW else 3 * FONT
    for row in rows[:: cells_between(plan.line, room)]:
        middle = plan.y(row) + plan.line / 2 + 3.2
        yield label(LEFT - 6, middle, str(row), kind="note", size=FONT, anchor="end")
    for column in range(0, plan.columns, cells_between(plan.pitch, 6.0 + text_width(str(plan.columns), FONT))):
        yield label(plan.x(column) + plan.pitch / 2, TOP - 5, str(column), kind="note", size=FONT, anchor="middle")


@dataclass(frozen=True, slots=True)
class _Patch:
    """A rectangle of cells of one domain: columns ``first`` to before ``stop``, rows ``top`` to before ``bottom``."""

    first: int
    stop: int
    domain: int
    top: int
    bottom: int

    @property
    def area(self) -> int:
        return (self.stop - self.first) * (self.bottom - self.top)


def _labels(plan: _Plan, domains: IntArray, names: Sequence[str]) -> list[list[str]]:
    """Return for each block the names of domains: each once in the job, in its largest patch, where it fits."""
    largest: dict[int, tuple[int, _Patch]] = {}
    for i, rows in enumerate(plan.blocks):
        for patch in _patches(domains, rows):
            if patch.domain not in largest or patch.area > largest[patch.domain][1].area:
                largest[patch.domain] = i, patch
    found: list[list[str]] = [[] for _ in plan.blocks]
    for domain, (i, patch) in sorted(largest.items()):
        width, height = (patch.stop - patch.first) * plan.pitch, (patch.bottom - patch.top) * plan.line
        if height >= FONT + 1 and text_width(names[domain], FONT) + 6 <= width:
            x, y = plan.x((patch.first + patch.stop) / 2), plan.y(patch.top) + height / 2 + 3.4
            found[i].append(label(x, y, names[domain], kind="tag", size=FONT))
    return found


def _patches(domains: IntArray, rows: range) -> Iterator[_Patch]:
    """Yield rectangles of one domain in a block: stretches of a row that span the same columns in the rows below belong
    together.
    """
    open_runs: dict[tuple[int, int, int], int] = {}
    for row in range(rows[0], rows[-1] + 2):  # one row more, which ends all patches
        runs = list(_runs(domains[row])) if row in rows else []
        for run in [run for run in open_runs if run not in runs]:
            yield _Patch(*run, top=open_runs.pop(run), bottom=row)
        for run in runs:
            open_runs.setdefault(run, row)


def _runs(row: IntArray) -> Iterator[tuple[int, int, int]]:
    """Yield stretches of one domain in a row: first column, column after the last, domain."""
    borders = [0, *(int(cut) + 1 for cut in np.flatnonzero(np.diff(row))), len(row)]
    for first, stop in pairwise(borders):
        yield first, stop, int(row[first])
