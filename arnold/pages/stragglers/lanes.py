"""Pipelines over time: a slow step as it ran above the same step as it could have run, on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

import numpy as np

from arnold.pages.stragglers.words import seconds
from health.whatif.result import Operation, Timeline
from topology.drawing.svg import number

WIDTH, LEFT, RIGHT = 1260.0, 62.0, 14.0
HEAD, FOOT, GAP = 26.0, 24.0, 10.0
HIGHEST, LOWEST, ALL_HEIGHT = 24.0, 7.0, 230.0
"""Heights of a lane with its gap, and what the lanes of one pipeline keep to where they can be low enough."""

SEAM = 0.3
"""Pixels: marks of one kind closer than this, and narrower than a pixel, are drawn as one."""

KINDS: tuple[tuple[str, str], ...] = (
    ("fw", "forward"),
    ("bw", "backward"),
    ("opt", "optimizer, garbage collection"),
    ("coll", "collectives, with the wait for the slowest"),
)
"""Class of the style sheet and label of everything that is drawn; transfers between stages are not, nor is waiting."""

_OTHERS = {"forward-compute": "fw", "backward-compute": "bw"}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One data-parallel rank in one step: the lanes of a panel.

    :param label: stands above the lanes.
    :param step: index into the steps of the timeline.
    """

    label: str
    timeline: Timeline
    dp: int
    step: int

    @property
    def end(self) -> float:
        """When the last operation ends, seconds."""
        return float(self.timeline.end[:, self.dp, self.step].max())


@dataclass(frozen=True, slots=True)
class _Mark:
    kind: str
    start: float
    end: float
    tip: str


def lanes_drawing(pipelines: Sequence[Pipeline], *, title: str) -> str:
    """The panels as one ``<svg>``.

    :param title: what a screen reader says.
    """
    stages = sorted({operation.stage for operation in pipelines[0].timeline.operations})
    line = min(HIGHEST, max(LOWEST, ALL_HEIGHT / len(stages)))
    panel = HEAD + line * len(stages) + GAP
    height = panel * len(pipelines) + FOOT
    span = max(pipeline.end for pipeline in pipelines) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / span
    parts = [
        f'<svg class="lanes" viewBox="0 0 {number(WIDTH)} {number(height)}" width="{number(WIDTH)}" '
        f'height="{number(height)}" role="img" aria-label="{escape(title)}">',
        *_axis(span, scale, height),
    ]
    for place, pipeline in enumerate(pipelines):
        parts.extend(_panel(pipeline, stages, top=place * panel, line=line, scale=scale))
    return "\n".join([*parts, "</svg>"])


def _panel(pipeline: Pipeline, stages: Sequence[int], *, top: float, line: float, scale: float) -> Iterator[str]:
    left, edge = number(LEFT), number(LEFT - 8)
    yield f'<text class="name" x="{left}" y="{number(top + 17)}" font-size="12.5">{escape(pipeline.label)}</text>'
    every = max(1, round(11 / line))
    for row, stage in enumerate(stages):
        y = top + HEAD + row * line
        yield (
            f'<rect class="lane" x="{left}" y="{number(y)}" width="{number(pipeline.end * scale)}" '
            f'height="{number(line - 1.5)}"/>'
        )
        if row % every == 0:
            middle = number(y + line / 2 + 3)
            yield f'<text class="note" x="{edge}" y="{middle}" font-size="11" text-anchor="end">stage {stage}</text>'
        for mark in _joined(list(_marks(pipeline, stage)), scale):
            x, width = LEFT + mark.start * scale, max((mark.end - mark.start) * scale, 0.4)
            yield (
                f'<rect class="{mark.kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
                f'height="{number(line - 1.5)}" data-tip="{escape(mark.tip)}"/>'
            )
    end = number(LEFT + pipeline.end * scale)
    bottom = number(top + HEAD + line * len(stages))
    yield f'<line class="finish" x1="{end}" y1="{number(top + HEAD - 5)}" x2="{end}" y2="{bottom}"/>'


def _marks(pipeline: Pipeline, stage: int) -> Iterator[_Mark]:
    """What one stage does, by time."""
    timeline = pipeline.timeline
    start, end = (times[:, pipeline.dp, pipeline.step] for times in (timeline.start, timeline.end))
    chosen = [
        i
        for i, operation in enumerate(timeline.operations)
        if operation.stage == stage and operation.stream in ("compute", "dp-comm")
    ]
    for i in sorted(chosen, key=lambda i: (timeline.operations[i].stream != "dp-comm", float(start[i]))):
        if np.isfinite(start[i]) and end[i] > start[i]:
            operation = timeline.operations[i]
            yield _Mark(_kind(operation), float(start[i]), float(end[i]), _tip(operation, float(end[i] - start[i])))


def _kind(operation: Operation) -> str:
    return "coll" if operation.stream == "dp-comm" else _OTHERS.get(operation.optype, "opt")


def _tip(operation: Operation, took: float) -> str:
    number_of = f", microbatch {operation.microbatch}" if operation.microbatch >= 0 else ""
    chunk = f", chunk {operation.chunk}" if operation.chunk > 0 else ""
    return f"{operation.optype}{number_of}{chunk}\nstage {operation.stage}, {seconds(took)}"


def _joined(marks: Sequence[_Mark], scale: float) -> Iterator[_Mark]:
    """Marks too narrow to be told apart, put together with their neighbours of the same kind."""
    last: _Mark | None = None
    for mark in marks:
        if last is not None:
            near = 0 <= (mark.start - last.end) * scale < SEAM and mark.kind == last.kind
            if near and (mark.end - mark.start) * scale < 1:
                last = _Mark(last.kind, last.start, mark.end, last.tip.split("\n", 1)[0].split(",", 1)[0])
                continue
            yield last
        last = mark
    if last is not None:
        yield last


def _axis(span: float, scale: float, height: float) -> Iterator[str]:
    rough = span / 10
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    for tick in range(int(span / step) + 1):
        x = number(LEFT + tick * step * scale)
        yield f'<line class="rule" x1="{x}" y1="{number(HEAD)}" x2="{x}" y2="{number(height - FOOT)}"/>'
        yield (
            f'<text class="note" x="{x}" y="{number(height - 8)}" font-size="11" '
            f'text-anchor="middle">{seconds(tick * step) if tick else "0"}</text>'
        )
