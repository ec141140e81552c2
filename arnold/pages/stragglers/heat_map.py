"""S_w over data-parallel ranks and stages: isolated cells are workers, a whole last line is the last stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil

import numpy as np
from numpy.typing import NDArray

from arnold.pages.stragglers.words import plain, times
from topology.drawing.svg import number

WIDTH = 620.0
LEFT, TOP, RIGHT, GAP = 58.0, 30.0, 8.0, 14.0
LARGEST, LEAST = 76.0, 7.0
"""Widths of a cell with its gap; a job too wide for the least is cut into strips."""

HIGHEST, LOWEST = 40.0, 9.0
"""Heights of a cell with its gap."""

ALL_HEIGHT = 300.0
"""Height that a strip keeps to where its cells can be low enough."""

NAMED = 34.0
"""Width from which a cell holds its number."""

PALE, WARM = 0.2, 0.7
"""Shares of the scale up to which a cell is as light, or dark, as the page, and up to which it is bright."""

SCALE = ("box", "slow", "slower", "slowest")
"""Colours of the page's theme from no slowdown to the worst."""


@dataclass(frozen=True, slots=True)
class _Plan:
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
    """The map as one ``<svg>``; a cell is a ``<rect class="w">`` with the words of its tooltip.

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
    worst = divmod(int(np.argmax(slowdown)), pp)
    title = (
        f"Slowdown by worker; the worst is dp {ranks[worst[0]]}, stage {worst[1]} with {times(float(slowdown[worst]))}"
    )
    top = top_of(slowdown)
    parts = [
        f'<svg class="heat" viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}" '
        f'height="{number(height)}" style="max-width:{number(width)}px" role="img" aria-label="{escape(title)}">',
        *_axes(plan, ranks),
        *(
            _cell(plan, (i, j), float(slowdown[i, j]), tip=_tip(ranks[i], j, nodes, float(slowdown[i, j])), top=top)
            for i in range(dp)
            for j in range(pp)
        ),
        *(_values(plan, slowdown) if plan.pitch >= NAMED and plan.line >= 16 else ()),
        "</svg>",
    ]
    return "\n".join(parts)


def top_of(slowdown: NDArray[np.float64]) -> float:
    """The slowdown that has the last colour: the worst, but 1.1 at least, lest noise look like fire."""
    return max(1.1, float(slowdown.max()))


def shade(share: float) -> str:
    """Colour at a share, 0 to 1, of the scale, as CSS that follows the theme."""
    place = min(max(share, 0.0), 1.0) * (len(SCALE) - 1)
    lower = min(int(place), len(SCALE) - 2)
    percent = round(100 * (place - lower))
    return f"color-mix(in oklab, var(--{SCALE[lower + 1]}) {percent}%, var(--{SCALE[lower]}))"


def _tip(rank: int, stage: int, nodes: Mapping[tuple[int, int], str], value: float) -> str:
    node = nodes.get((rank, stage))
    return f"dp {rank}, stage {stage}\nS_w {times(value)}" + (f"\non {node}" if node else "")


def _cell(plan: _Plan, cell: tuple[int, int], value: float, *, tip: str, top: float) -> str:
    dp, stage = cell
    return (
        f'<rect class="w" x="{number(plan.x(dp))}" y="{number(plan.y(dp, stage))}" '
        f'width="{number(plan.pitch - 1)}" height="{number(plan.line - 1)}" rx="{number(min(3, plan.pitch / 8))}" '
        f'style="fill:{shade((value - 1) / (top - 1))}" data-tip="{escape(tip)}"/>'
    )


def _values(plan: _Plan, slowdown: NDArray[np.float64]) -> Iterator[str]:
    size = number(min(12.5, plan.pitch / 3.4))
    for dp in range(plan.dp):
        for stage in range(plan.pp):
            x, y = number(plan.x(dp) + plan.pitch / 2 - 0.5), number(plan.y(dp, stage + 0.5) + 4)
            share = (slowdown[dp, stage] - 1) / (top_of(slowdown) - 1)
            kind = "value" if share <= PALE else "value warm" if share <= WARM else "value hot"
            text = plain(float(slowdown[dp, stage]))
            yield f'<text class="{kind}" x="{x}" y="{y}" font-size="{size}" text-anchor="middle">{text}</text>'


def _axes(plan: _Plan, ranks: Sequence[int]) -> Iterator[str]:
    every = ceil(12 / plan.line)
    step = next((n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if n * plan.pitch >= 26), plan.dp)
    yield f'<text class="note" x="{number(LEFT)}" y="11" font-size="11">data-parallel rank</text>'
    for dp in range(0, plan.dp, step):
        x, y = number(plan.x(dp) + plan.pitch / 2), number(plan.y(dp, 0) - 6)
        yield f'<text class="note" x="{x}" y="{y}" font-size="11" text-anchor="middle">{ranks[dp]}</text>'
    for strip in range(plan.strips):
        for stage in range(0, plan.pp, every):
            y = number(plan.y(strip * plan.per_strip, stage + 0.5) + 3.6)
            x = number(LEFT - 8)
            yield f'<text class="note" x="{x}" y="{y}" font-size="11" text-anchor="end">stage {stage}</text>'
