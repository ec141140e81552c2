"""The page of an analysis: the verdict, the workers to blame, a slow step beside its ideal, what costs how much.

S_w over data-parallel ranks and stages is a heat map: isolated cells are workers, a whole last line is the last stage.
A slow step stands as it ran above the same step as it could have run.  Of the sampled steps an even row speaks of a
lasting cause, a few towers of a passing one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arnold.pages.charts import WIDTH, Plot, axis_range, cells_between, round_ticks
from ground.quantities import fixed, percent, plural, seconds, times
from health.whatif.analysis_result import Analysis, Operation, Timeline, Timelines
from health.whatif.slow_workers import SlowWorker, worker_names
from topology.drawing.page_kit import label, line, rect, render, svg
from topology.flags import NodeFlag

# -- heat_map --
# S_w over data-parallel ranks and stages: isolated cells are workers, a whole last line is the last stage.


HEAT_MAP_WIDTH = 620.0
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
    room = HEAT_MAP_WIDTH - LEFT - RIGHT
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


# -- lanes --
# Pipelines over time: a slow step as it ran above the same step as it could have run, on one axis.


LANES_WIDTH, LANES_LEFT, LANES_RIGHT = 1260.0, 62.0, 14.0
HEAD, FOOT, LANES_GAP = 26.0, 24.0, 10.0
LANES_HIGHEST, LANES_LOWEST, LANES_ALL_HEIGHT = 24.0, 7.0, 230.0
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
    pitch = min(LANES_HIGHEST, max(LANES_LOWEST, LANES_ALL_HEIGHT / len(stages)))
    panel = HEAD + pitch * len(stages) + LANES_GAP
    span = max(pipeline.end for pipeline in pipelines) or 1.0
    plot = Plot(LANES_WIDTH, panel * len(pipelines) + FOOT, (LANES_LEFT, LANES_RIGHT, HEAD, FOOT), (0.0, span))
    parts = list(plot.x_axis(round_ticks(0.0, span, most=10, kind="seconds")))
    for place, pipeline in enumerate(pipelines):
        parts.extend(_panel(pipeline, stages, plot, top=place * panel + HEAD, pitch=pitch))
    return svg("chart lanes", plot.width, plot.height, parts, title=title)


def _panel(pipeline: Pipeline, stages: Sequence[int], plot: Plot, *, top: float, pitch: float) -> Iterator[str]:
    """Yield a line for each stage, below each other."""
    x, height, every = plot.x, pitch - 1.5, cells_between(pitch, 11)
    end, scale = x(pipeline.end), (plot.right - LANES_LEFT) / plot.across[1]
    yield label(LANES_LEFT, top - 9, pipeline.label, kind="name", size=12.5)
    for row, stage in enumerate(stages):
        y = top + row * pitch
        yield rect(LANES_LEFT, y, end - LANES_LEFT, height, "lane")
        if row % every == 0:
            yield label(LANES_LEFT - 8, y + pitch / 2 + 3, f"stage {stage}", size=11, anchor="end")
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


# -- step_chart --
# Slowdown of every sampled step: an even row speaks of a lasting cause, a few towers of a passing one.


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


# -- analysis_page --
# The page of an analysis: the verdict, the workers to blame, a slow step beside its ideal, what costs how much.


APART = 1.02
"""How much slower than the usual one a data-parallel rank must be for the two to be shown beside each other."""

LEAST_LONGEST = 0.05  # Share of time lost that at least has the longest bar: what is next to nothing looks like it
CAUSES = {
    "worker": "slow workers",
    "link": "a slow link",
    "stage": "a stage of one rank",
    "last-stage": "the last pipeline stage",
    "sequence-length": "uneven sequence lengths",
    "garbage-collection": "garbage collection",
    "late-rank": "a rank that others wait for",
    "none": "nothing to attribute",
    "unknown": "not explained by a rule",
}
"""Causes as they are shown."""


def straggler_page(
    analysis: Analysis,
    timelines: Timelines,
    *,
    title: str,
    verdict: Sequence[str],
    workers: Sequence[SlowWorker] = (),
    nodes: Mapping[tuple[int, int], str] | None = None,
    flags: Sequence[NodeFlag] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return one self-contained page; same input, same text.

    :param timelines: of the slowest step at least, see :func:`slowest_step`.
    :param title: name of the job or trace.
    :param verdict: the headline, then what else there is to say in words, a sentence or two each.
    :param workers: those with evidence against them.
    :param nodes: (dp rank, stage) -> node, as far as known.
    :param flags: of nodes, as they were written.
    :param notes: what was left out or assumed.
    """
    step = slowest_step(analysis)
    drawn = f"Step {analysis.steps[step]} over time, as traced and as it could be"
    raw = {
        "heat": heat_map(analysis.worker_slowdown, analysis.dp_ranks, nodes or {}),
        "lanes": lanes_drawing(_pipelines(analysis, timelines, step), title=drawn),
        "chart": step_chart(
            analysis.steps, analysis.step_slowdown, analysis.slowdown, _onsets_of_analysis_page(workers)
        ),
    }
    return render(
        "arnold.pages.stragglers",
        "stragglers.html.j2",
        raw=raw,
        styles=("pages.css", "charts.css", "stragglers.css"),
        title=title,
        verdict=list(verdict),
        shape=_shape(analysis),
        tiles=_facts(analysis),
        cause=CAUSES[analysis.cause],
        why=analysis.why,
        kinds=KINDS,
        onset=bool(_onsets_of_analysis_page(workers)),
        workers=workers,
        nodes=nodes or {},
        flags=flags,
        sentences=list(notes),
        data={},
        **_heat_words(analysis),
        **_step_words(analysis, step),
        **_losses(analysis),
    )


def _onsets_of_analysis_page(workers: Sequence[SlowWorker]) -> dict[int, str]:
    """Return number of a step -> the workers that are slow from it on."""
    steps = sorted({worker.since_step for worker in workers if worker.since_step is not None})
    return {step: worker_names([worker for worker in workers if worker.since_step == step]) for step in steps}


def _shape(analysis: Analysis) -> str:
    """Return the degrees of the job and its number of workers in words."""
    sizes = [f"dp {analysis.dp}", f"pp {analysis.pp}", f"tp {analysis.tp}"]
    sizes += [f"vpp {analysis.vpp}"] if analysis.vpp > 1 else []
    return f"{', '.join(sizes)}: {plural(analysis.dp * analysis.pp, 'worker')}"


def _heat_words(analysis: Analysis) -> dict[str, Any]:
    """Return what stands beside the heat map."""
    return {
        "exact": analysis.worker_slowdown_exact,
        "scale": [shade(i / 8) for i in range(9)],
        "top": times(top_of(analysis.worker_slowdown)),
    }


def _step_words(analysis: Analysis, step: int) -> dict[str, Any]:
    """Return what the page says of the steps, and of that which it draws."""
    return {
        "slow_step": analysis.steps[step],
        "slow_step_seconds": seconds(float(analysis.per_step.seconds[step])),
        "slow_step_slowdown": times(float(analysis.step_slowdown[step])),
        "ideal_seconds": seconds(analysis.ideal_step_seconds),
        "steps": plural(len(analysis.steps), "step"),
    }


def _losses(analysis: Analysis) -> dict[str, Any]:
    """Return bars of the kinds of operations, the greatest loss first: as slowdown and as share of the time."""
    ordered = sorted(analysis.by_optype.items(), key=lambda item: -item[1])
    bars = [(optype, slowdown, 1 - 1 / slowdown) for optype, slowdown in ordered]
    return {"optypes": bars, "longest": max([LEAST_LONGEST, *(share for _, _, share in bars)])}


def slowest_step(analysis: Analysis) -> int:
    """Return the place of the step that the page draws."""
    return int(np.argmax(analysis.step_slowdown))


def _facts(analysis: Analysis) -> list[tuple[str, str, str]]:
    """Return tiles: large number, what it is, small print."""
    dp, stage = divmod(int(np.argmax(analysis.worker_slowdown)), analysis.pp)
    worst = float(analysis.worker_slowdown[dp, stage])
    facts = [
        (times(analysis.slowdown), "slowdown", "step time over the step time without stragglers"),
        (percent(analysis.waste), "of the time is lost", "1 - 1/S"),
        (seconds(analysis.step_seconds), "a step", f"{seconds(analysis.ideal_step_seconds)} without stragglers"),
        (times(worst), "slowest worker alone", f"dp {analysis.dp_ranks[dp]}, stage {stage}; all others ideal"),
    ]
    if analysis.slowest is not None:
        count = len(analysis.slowest.workers)
        who = "the slowest worker accounts" if count == 1 else f"the {count} slowest workers account"
        measure = "M_W: what" if analysis.slowest.published else "what, by S_w,"
        facts.append((fixed(analysis.slowest.share), "explained by workers", f"{measure} {who} for"))
    if analysis.m_s is not None:
        facts.append((fixed(analysis.m_s), "by the last stage", "M_S; below 0 or above 1 where idealising moves work"))
    return facts


def _pipelines(analysis: Analysis, timelines: Timelines, step: int) -> list[Pipeline]:
    """Return the slowest data-parallel rank of a step as traced, a usual one where they differ, and the ideal."""
    order = np.argsort(analysis.dp_slowdown, kind="stable")
    slow, usual = int(order[-1]), int(order[(len(order) - 1) // 2])
    number = analysis.steps[step]
    place = timelines.traced.steps.index(number)
    apart = analysis.dp_slowdown[slow] > APART * analysis.dp_slowdown[usual]
    shown = [(slow, ", the slowest"), (usual, ", a usual one")] if apart else [(slow, "")]
    return [
        *(
            Pipeline(f"step {number} as traced: dp {analysis.dp_ranks[dp]}{words}", timelines.traced, dp, place)
            for dp, words in shown
        ),
        Pipeline("without stragglers", timelines.ideal, slow, place),
    ]
