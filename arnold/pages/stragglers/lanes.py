"""Pipelines over time: a slow step as it ran above the same step as it could have run, on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from arnold.pages.axis import cells_between, round_ticks
from arnold.pages.plot import Plot
from ground.quantities import seconds
from health.whatif.analysis_result import Operation, Timeline
from topology.drawing.page_kit import label, line, rect, svg

WIDTH, LEFT, RIGHT = 1260.0, 62.0, 14.0
HEAD, FOOT, GAP = 26.0, 24.0, 10.0
HIGHEST, LOWEST, ALL_HEIGHT = 24.0, 7.0, 230.0
"""Heights of a lane with its gap, and what the lanes of one pipeline keep to where they can be low enough."""

SEAM = 0.3  # Pixels: marks of one kind closer than this, and narrower than a pixel, are drawn as one
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
    """One data-parallel rank in one step: the lanes of a panel."""

    label: str  # stands above the lanes
    timeline: Timeline
    dp: int
    step: int  # index into the steps of the timeline

    @property
    def end(self) -> float:
        """When the last operation ends, seconds."""
        return float(self.timeline.end[:, self.dp, self.step].max())


class _Mark(NamedTuple):
    kind: str
    start: float
    end: float
    tip: str


def lanes_drawing(pipelines: Sequence[Pipeline], *, title: str) -> str:
    """Return the panels as one ``<svg>``.

    :param title: what a screen reader says.
    """
    stages = sorted({operation.stage for operation in pipelines[0].timeline.operations})
    pitch = min(HIGHEST, max(LOWEST, ALL_HEIGHT / len(stages)))
    panel = HEAD + pitch * len(stages) + GAP
    span = max(pipeline.end for pipeline in pipelines) or 1.0
    plot = Plot(WIDTH, panel * len(pipelines) + FOOT, (LEFT, RIGHT, HEAD, FOOT), (0.0, span))
    parts = list(plot.x_axis(round_ticks(0.0, span, most=10, kind="seconds")))
    for place, pipeline in enumerate(pipelines):
        parts.extend(_panel(pipeline, stages, plot, top=place * panel + HEAD, pitch=pitch))
    return svg("chart lanes", plot.width, plot.height, parts, title=title)


def _panel(pipeline: Pipeline, stages: Sequence[int], plot: Plot, *, top: float, pitch: float) -> Iterator[str]:
    """Yield a line for each stage, below each other."""
    x, height, every = plot.x, pitch - 1.5, cells_between(pitch, 11)
    end, scale = x(pipeline.end), (plot.right - LEFT) / plot.across[1]
    yield label(LEFT, top - 9, pipeline.label, kind="name", size=12.5)
    for row, stage in enumerate(stages):
        y = top + row * pitch
        yield rect(LEFT, y, end - LEFT, height, "lane")
        if row % every == 0:
            yield label(LEFT - 8, y + pitch / 2 + 3, f"stage {stage}", size=11, anchor="end")
        for mark in _joined(list(_marks(pipeline, stage)), scale):
            width = max(x(mark.end) - x(mark.start), 0.4)
            yield rect(x(mark.start), y, width, height, mark.kind, tip=mark.tip)
    yield line((end, top - 5), (end, top + pitch * len(stages)), "finish")


def _marks(pipeline: Pipeline, stage: int) -> Iterator[_Mark]:
    """Yield what one stage does, by time."""
    timeline = pipeline.timeline
    start, end = (times[:, pipeline.dp, pipeline.step] for times in (timeline.start, timeline.end))
    here = enumerate(timeline.operations)
    drawn = [(i, one) for i, one in here if one.stage == stage and one.stream in ("compute", "dp-comm")]
    # collectives lie below what is computed meanwhile
    for i, one in sorted(drawn, key=lambda pair: (pair[1].stream != "dp-comm", float(start[pair[0]]))):
        if np.isfinite(start[i]) and end[i] > start[i]:
            kind = "coll" if one.stream == "dp-comm" else _OTHERS.get(one.optype, "opt")
            yield _Mark(kind, float(start[i]), float(end[i]), _tip(one, float(end[i] - start[i])))


def _tip(operation: Operation, took: float) -> str:
    number_of = f", microbatch {operation.microbatch}" if operation.microbatch >= 0 else ""
    chunk = f", chunk {operation.chunk}" if operation.chunk > 0 else ""
    return f"{operation.optype}{number_of}{chunk}\nstage {operation.stage}, {seconds(took)}"


def _joined(marks: Sequence[_Mark], scale: float) -> Iterator[_Mark]:
    """Yield marks, those too narrow to be told apart put together with their neighbours of the same kind."""
    last: _Mark | None = None
    for mark in marks:
        if last is not None:
            near = 0 <= (mark.start - last.end) * scale < SEAM and mark.kind == last.kind
            if near and (mark.end - mark.start) * scale < 1:
                last = last._replace(end=mark.end, tip=last.tip.split("\n", 1)[0].split(",", 1)[0])
                continue
            yield last
        last = mark
    if last is not None:
        yield last
