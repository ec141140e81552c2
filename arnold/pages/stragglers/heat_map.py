"""S_w over data-parallel ranks and stages: isolated cells are workers, a whole last line is the last stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arnold.pages.axis import cells_between
from ground.quantities import fixed, times
from topology.drawing.page_kit import label, rect, svg

WIDTH = 620.0
LEFT, TOP, RIGHT, GAP = 58.0, 30.0, 8.0, 14.0
LARGEST, LEAST = 76.0, 7.0  # Widths of a cell with its gap; a job too wide for the least is cut into strips
HIGHEST, LOWEST = 40.0, 9.0  # Heights of a cell with its gap
ALL_HEIGHT = 300.0  # Height that a strip keeps to where its cells can be low enough
NAMED = 34.0  # Width from which a cell holds its number
PALE, WARM = 0.2, 0.7
"""Shares of the scale up to which a cell is as light, or dark, as the page, and up to which it is bright."""

SCALE = ("box", "slow", "slower", "slowest")  # Colours of the page's theme from no slowdown to the worst


class _Plan(NamedTuple):
    """Where cells stand."""

    dp: int
    pp: int
    per_strip: int
    pitch: float
    line: float

    @property
    def strip_height(self) -> float:
        return TOP + self.pp * self.line + GAP

    @property
    def strips(self) -> int:
        return ceil(self.dp / self.per_strip)

    def x(self, dp: int) -> float:
        return LEFT + dp % self.per_strip * self.pitch

    def y(self, dp: int, stage: float) -> float:
        return dp // self.per_strip * self.strip_height + TOP + stage * self.line


def heat_map(slowdown: NDArray[np.float64], ranks: Sequence[int], nodes: Mapping[tuple[int, int], str]) -> str:
    """Return the map as one ``<svg>``; a cell is a ``<rect class="w">`` with the words of its tooltip.

    :param slowdown: float [dp, pp], S_w.
    :param ranks: numbers of the data-parallel ranks.
    :param nodes: (dp rank, stage) -> node, as far as known.
    """
    dp, pp = slowdown.shape
    room = WIDTH - LEFT - RIGHT
    per_strip = ceil(dp / ceil(dp * LEAST / room))
    line = min(HIGHEST, max(LOWEST, ALL_HEIGHT / pp))
    plan = _Plan(dp, pp, per_strip, min(LARGEST, room / per_strip), line)
    width = LEFT + plan.pitch * per_strip + RIGHT
    height = plan.strips * plan.strip_height - GAP + 2
    rank, stage = divmod(int(np.argmax(slowdown)), pp)
    worst = times(float(slowdown[rank, stage]))
    title = f"Slowdown by worker; the worst is dp {ranks[rank]}, stage {stage} with {worst}"
    parts = [*_axes(plan, ranks), *_cells(plan, slowdown, ranks, nodes)]
    return svg("chart heat", width, height, parts, title=title, style=f"--drawn:{width:.0f}px;max-width:{width:.0f}px")


def top_of(slowdown: NDArray[np.float64]) -> float:
    """Return the slowdown that has the last colour: the worst, but 1.1 at least, lest noise look like fire."""
    return max(1.1, float(slowdown.max()))


def shade(share: float) -> str:
    """Return the colour at a share, 0 to 1, of the scale, as CSS that follows the theme."""
    place = min(max(share, 0.0), 1.0) * (len(SCALE) - 1)
    lower = min(int(place), len(SCALE) - 2)
    percent = round(100 * (place - lower))
    return f"color-mix(in oklab, var(--{SCALE[lower + 1]}) {percent}%, var(--{SCALE[lower]}))"


def _cells(
    plan: _Plan, slowdown: NDArray[np.float64], ranks: Sequence[int], nodes: Mapping[tuple[int, int], str]
) -> Iterator[str]:
    """Yield a rectangle for each worker, and its number where it has room."""
    top = top_of(slowdown)
    named = plan.pitch >= NAMED and plan.line >= 16
    width, height = plan.pitch - 1, plan.line - 1
    for (dp, stage), value in np.ndenumerate(slowdown):
        x, y, share = plan.x(dp), plan.y(dp, stage), (float(value) - 1) / (top - 1)
        node = nodes.get((ranks[dp], stage))
        tip = f"dp {ranks[dp]}, stage {stage}\nS_w {times(float(value))}" + (f"\non {node}" if node else "")
        yield rect(x, y, width, height, "w", rx=min(3, plan.pitch / 8), style=f"fill:{shade(share)}", tip=tip)
        if named:
            kind = "value" if share <= PALE else "value warm" if share <= WARM else "value hot"
            middle = plan.y(dp, stage + 0.5) + 4
            size = min(12.5, plan.pitch / 3.4)
            yield label(x + width / 2, middle, fixed(float(value)), kind=kind, size=size, anchor="middle")


def _axes(plan: _Plan, ranks: Sequence[int]) -> Iterator[str]:
    yield label(LEFT, 11, "data-parallel rank", size=11)
    for dp in range(0, plan.dp, cells_between(plan.pitch, 26)):
        yield label(plan.x(dp) + plan.pitch / 2, plan.y(dp, 0) - 6, str(ranks[dp]), size=11, anchor="middle")
    for strip in range(plan.strips):
        for stage in range(0, plan.pp, cells_between(plan.line, 12)):
            y = plan.y(strip * plan.per_strip, stage + 0.5) + 3.6
            yield label(LEFT - 8, y, f"stage {stage}", size=11, anchor="end")
