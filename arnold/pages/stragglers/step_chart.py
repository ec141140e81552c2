"""Slowdown of every sampled step: an even row speaks of a lasting cause, a few towers of a passing one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from arnold.pages.axis import axis_range, cells_between, round_ticks
from arnold.pages.plot import WIDTH, Plot
from ground.quantities import times
from topology.drawing.page_kit import label, line, rect, svg

WIDEST, LEAST_TOP = 140.0, 1.05
"""Width of a column with its gap at most, pixels; and the least end of the axis, lest noise look like towers."""


def step_chart(steps: Sequence[int], slowdown: NDArray[np.float64], mean: float, onsets: Mapping[int, str]) -> str:
    """Return the chart as one ``<svg>``: a column a step, from 1 upwards.

    :param steps: numbers of the steps.
    :param slowdown: float [steps].
    :param mean: S of the job, drawn as a line.
    :param onsets: number of a step -> names of what is slow from it on, drawn as upright lines.
    """
    values = slowdown.tolist()
    upward = axis_range([LEAST_TOP, mean, *values], "count", most=4, floor_at=1.0)
    left, right = 46.0, 10.0
    columns = max(len(steps), (WIDTH - left - right) / WIDEST)
    plot = Plot(WIDTH, 206.0, (left, right, 12.0, 26.0), (0.0, columns), upward)
    title = f"Slowdown of {len(steps)} steps, from {times(min(values))} to {times(max(values))}"
    level = plot.y(mean)
    parts = [
        *plot.y_axis([(value, f"{words}x") for value, words in round_ticks(*upward, most=4)]),
        *_columns(plot, steps, values),
        line((left, level), (plot.x(len(steps)), level), "mean"),
        *_onsets(plot, [steps.index(step) for step in onsets], list(onsets.values())),
    ]
    return svg("chart steps", plot.width, plot.height, parts, title=title)


def _onsets(plot: Plot, places: Sequence[int], names: Sequence[str]) -> Iterator[str]:
    for place, who in zip(places, names, strict=True):
        x = plot.x(place) - 1.0  # in the gap between two columns
        yield line((x, plot.top), (x, plot.bottom), "onset")
        # over the columns before, which are lower, where there is room
        anchor, away = ("start", 4.0) if place < plot.across[1] / 3 else ("end", -4.0)
        yield label(x + away, plot.top + 10, who, anchor=anchor)


def _columns(plot: Plot, steps: Sequence[int], values: Sequence[float]) -> Iterator[str]:
    pitch = plot.x(1) - plot.x(0)
    gap, every = min(2.0, pitch / 4), cells_between(pitch, 40.0)
    for place, (step, value) in enumerate(zip(steps, values, strict=True)):
        top = min(plot.y(value), plot.bottom - 0.8)  # a step as fast as the ideal is seen too
        yield rect(plot.x(place), top, pitch - gap, plot.bottom - top, "col", tip=f"step {step}\n{times(value)}")
        if place % every == 0:
            yield label(plot.x(place + 0.5), plot.bottom + 18, str(step), anchor="middle")
