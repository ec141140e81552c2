"""Slowdown of every sampled step: an even row speaks of a lasting cause, a few towers of a passing one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from arnold.pages.stragglers.words import times
from topology.drawing.svg import number

WIDTH, HEIGHT = 620.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 12.0, 30.0


def step_chart(steps: Sequence[int], slowdown: NDArray[np.float64], mean: float) -> str:
    """The chart as one ``<svg>``: a column a step, from 1 upwards.

    :param steps: numbers of the steps.
    :param slowdown: float [steps].
    :param mean: S of the job, drawn as a line.
    """
    top = max(1.05, float(slowdown.max()), mean) * 1.02
    room = WIDTH - LEFT - RIGHT
    pitch = min(room / len(steps), 40.0)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - max(value, 1.0)) / (top - 1.0)

    title = f"Slowdown of {len(steps)} steps, from {times(float(slowdown.min()))} to {times(float(slowdown.max()))}"
    parts = [
        f'<svg class="steps" viewBox="0 0 {number(WIDTH)} {number(HEIGHT)}" width="{number(WIDTH)}" '
        f'height="{number(HEIGHT)}" role="img" aria-label="{escape(title)}">'
    ]
    parts.extend(
        f'<line class="rule" x1="{number(LEFT)}" y1="{number(y(tick))}" x2="{number(WIDTH - RIGHT)}" '
        f'y2="{number(y(tick))}"/><text class="note" x="{number(LEFT - 6)}" y="{number(y(tick) + 4)}" '
        f'font-size="11" text-anchor="end">{tick:g}x</text>'
        for tick in _ticks(top)
    )
    gap = min(2.0, pitch / 4)
    for place, (step, value) in enumerate(zip(steps, slowdown.tolist(), strict=True)):
        tip = f"step {step}\n{times(value)}"
        parts.append(
            f'<rect class="col" x="{number(LEFT + place * pitch)}" y="{number(y(value))}" '
            f'width="{number(pitch - gap)}" height="{number(max(y(1.0) - y(value), 0.8))}" data-tip="{escape(tip)}"/>'
        )
    every = max(1, -(-len(steps) // max(1, int(len(steps) * pitch / 52))))
    for place in range(0, len(steps), every):
        x = number(LEFT + (place + 0.5) * pitch)
        parts.append(
            f'<text class="note" x="{x}" y="{number(HEIGHT - 12)}" font-size="11" '
            f'text-anchor="middle">{steps[place]}</text>'
        )
    parts.append(
        f'<line class="mean" x1="{number(LEFT)}" y1="{number(y(mean))}" x2="{number(LEFT + pitch * len(steps))}" '
        f'y2="{number(y(mean))}"/>'
    )
    return "\n".join([*parts, "</svg>"])


def _ticks(top: float) -> Iterator[float]:
    step = next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if (top - 1) / step <= 6), 100)
    count = int((top - 1) / step + 1e-9)
    yield from (round(1 + i * step, 6) for i in range(count + 1))
