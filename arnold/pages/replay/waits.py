"""Waits by size of job: a row of numbers and a whisker on a logarithmic axis for each class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import log10
from typing import NamedTuple

import numpy as np

from simulator.engine.sim_job import SimJob
from simulator.metrics.distribution import Distribution, distribution
from simulator.past.size_class import NAMES, size_class
from simulator.words import duration
from topology.drawing.svg import number

WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 620.0, 34.0, 146.0, 14.0, 8.0, 26.0
LEAST = 1.0
"""Seconds at the left end of the axis; shorter waits stand there."""

TICKS = (1.0, 60.0, 3600.0, 86_400.0, 604_800.0, 2_592_000.0)
"""A second, a minute, an hour, a day, a week, thirty days."""


class WaitRow(NamedTuple):
    """Waits of one class of size.

    :param waited: share of jobs that waited at all.
    """

    name: str
    jobs: int
    waited: float
    wait: Distribution


def wait_rows(jobs: Sequence[SimJob]) -> list[WaitRow]:
    """A row for each class that has jobs that started."""
    started = [job for job in jobs if np.isfinite(job.first_start)]
    classes = size_class([job.record.gpus for job in started])
    waits = np.array([job.first_start - job.submitted for job in started])
    rows = []
    for number_, name in enumerate(NAMES):
        of_class = waits[classes == number_]
        found = distribution(of_class)
        if found is not None:
            rows.append(WaitRow(name, len(of_class), float((of_class > 0).mean()), found))
    return rows


def wait_chart(rows: Sequence[WaitRow]) -> str:
    """From the median to the 95th percentile a bar, a dot at the mean, a line to the largest."""
    height = TOP + ROW * len(rows) + BOTTOM
    most = max([row.wait.max for row in rows], default=0.0)
    top = next((tick for tick in TICKS[1:] if tick >= most), TICKS[-1] * 12)

    def x(seconds: float) -> float:
        share = log10(max(seconds, LEAST) / LEAST) / log10(top / LEAST)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(share, 1.0)

    parts = [
        f'<svg class="waits" viewBox="0 0 {number(WIDTH)} {number(height)}" width="{number(WIDTH)}" '
        f'height="{number(height)}" role="img" aria-label="Wait by size of job">',
        *_axis(x, [tick for tick in TICKS if tick <= top], height),
    ]
    for i, row in enumerate(rows):
        y, wait = TOP + ROW * (i + 0.5), row.wait
        tip = (
            f"{row.name}\n{row.jobs:,} jobs, {row.waited:.0%} of them waited\nmean {duration(wait.mean)}, median "
            f"{duration(wait.p50)}\n95 % up to {duration(wait.p95)}, longest {duration(wait.max)}"
        )
        middle, low, high = number(y), x(wait.p50), x(wait.p95)
        parts += [
            f'<text class="axis" x="{number(LEFT - 10)}" y="{number(y + 4)}" font-size="12" '
            f'text-anchor="end">{escape(row.name)}</text>',
            f'<line class="whisker" x1="{number(low)}" x2="{number(x(wait.max))}" y1="{middle}" y2="{middle}"/>',
            f'<rect class="box5 s{NAMES.index(row.name)}" x="{number(low - 1)}" y="{number(y - 8)}" '
            f'width="{number(high - low + 2)}" height="16" rx="3"/>',
            f'<circle class="mean" cx="{number(x(wait.mean))}" cy="{middle}" r="4"/>',
            f'<rect class="hit" x="0" y="{number(y - ROW / 2)}" width="{number(WIDTH)}" height="{number(ROW)}" '
            f'data-tip="{escape(tip)}"/>',
        ]
    return "\n".join([*parts, "</svg>"])


def _axis(x: Callable[[float], float], ticks: Sequence[float], height: float) -> Iterator[str]:
    for tick in ticks:
        at = number(x(tick))
        bottom = number(height - BOTTOM)
        yield f'<line class="rule" x1="{at}" x2="{at}" y1="{number(TOP)}" y2="{bottom}"/>'
        yield (
            f'<text class="axis" x="{at}" y="{number(height - 8)}" font-size="12" '
            f'text-anchor="middle">{duration(tick)}</text>'
        )
