"""The page of an analysis: the verdict, the workers to blame, a slow step beside its ideal, what costs how much.

S_w over data-parallel ranks and stages is a heat map: isolated cells are workers, a whole last line is the last stage.
A slow step stands as it ran above the same step as it could have run.  Of the sampled steps an even row speaks of a
lasting cause, a few towers of a passing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arnold.pages.charts import WIDTH, Plot, axis_range, cells_between, round_ticks
from ground.quantities import fixed, percent, plural, seconds, times
from health.whatif.analysis_result import Analysis, Timeline, Timelines
from health.whatif.blame import SlowWorker, worker_names
from topology.drawing.page_kit import label, line, rect, render, svg
from topology.flags import NodeFlag

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
    whole: float | None = None,
) -> str:
    """Return one self-contained page; same input, same text.

    :param timelines: of the slowest step at least, see :func:`slowest_step`.
    :param title: name of the job or trace.
    :param verdict: the headline, then what else there is to say in words, a sentence or two each.
    :param workers: those with evidence against them.
    :param nodes: (dp rank, stage) -> node, as far as known.
    :param flags: of nodes, as they were written.
    :param notes: what was left out or assumed.
    :param whole: seconds of a whole step, where its operations are a part of it; ``None`` = they are the step.
    """
    step = slowest_step(analysis)
    drawn = f"Step {analysis.steps[step]} over time, as traced and as it could be"
    # number of a step -> the workers that are slow from it on
    since = sorted({worker.since_step for worker in workers if worker.since_step is not None})
    onsets = {number: worker_names([worker for worker in workers if worker.since_step == number]) for number in since}
    sizes = [f"dp {analysis.dp}", f"pp {analysis.pp}", f"tp {analysis.tp}"]
    sizes += [f"vpp {analysis.vpp}"] if analysis.vpp > 1 else []
    # kinds of operations, the greatest loss first: as slowdown and as share of the time
    ordered = sorted(analysis.by_optype.items(), key=lambda item: -item[1])
    losses = [(optype, slowdown, 1 - 1 / slowdown) for optype, slowdown in ordered]
    return render(
        "arnold.pages",
        "stragglers.html.j2",
        raw={
            "heat": heat_map(analysis.worker_slowdown, analysis.dp_ranks, nodes or {}),
            "lanes": lanes_drawing(_pipelines(analysis, timelines, step), title=drawn),
            "chart": step_chart(analysis.steps, analysis.step_slowdown, analysis.slowdown, onsets),
        },
        styles=("pages.css", "charts.css", "stragglers.css"),
        title=title,
        verdict=list(verdict),
        shape=f"{', '.join(sizes)}: {plural(analysis.dp * analysis.pp, 'worker')}",
        tiles=_facts(analysis, whole),
        cause=CAUSES[analysis.cause],
        why=analysis.why,
        kinds=KINDS,
        onset=bool(onsets),
        workers=workers,
        nodes=nodes or {},
        flags=flags,
        sentences=list(notes),
        exact=analysis.worker_slowdown_exact,
        scale=[shade(i / 8) for i in range(9)],
        top=times(top_of(analysis.worker_slowdown)),
        slow_step=analysis.steps[step],
        of_operations=whole is not None,
        slow_step_seconds=seconds(float(analysis.per_step.seconds[step])),
        slow_step_slowdown=times(float(analysis.step_slowdown[step])),
        ideal_seconds=seconds(analysis.ideal_step_seconds),
        steps=plural(len(analysis.steps), "step"),
        optypes=losses,
        longest=max([LEAST_LONGEST, *(share for _, _, share in losses)]),
        data={},
    )


def slowest_step(analysis: Analysis) -> int:
    """Return the place of the step that the page draws."""
    return int(np.argmax(analysis.step_slowdown))


def _facts(analysis: Analysis, whole: float | None) -> list[tuple[str, str, str]]:
    """Return tiles: large number, what it is, small print."""
    step = "a step" if whole is None else f"the operations of a step of {seconds(whole)}"
    dp, stage = divmod(int(np.argmax(analysis.worker_slowdown)), analysis.pp)
    worst = float(analysis.worker_slowdown[dp, stage])
    facts = [
        (times(analysis.slowdown), "slowdown", "step time over the step time without stragglers"),
        (percent(analysis.waste), "of the time is lost", "1 - 1/S"),
        (seconds(analysis.step_seconds), step, f"{seconds(analysis.ideal_step_seconds)} without stragglers"),
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


# Of the heat map, pixels
LEFT, TOP, RIGHT, GAP = 58.0, 30.0, 8.0, 14.0
LARGEST, LEAST = 76.0, 7.0  # Widths of a cell with its gap; a job too wide for the least is cut into strips
HIGHEST, LOWEST = 40.0, 9.0  # Heights of a cell with its gap
ALL_HEIGHT = 300.0  # Height that a strip keeps to where its cells can be low enough
NAMED = 34.0  # Width from which a cell holds its number
PALE, WARM = 0.2, 0.7
"""Shares of the scale up to which a cell is as light, or dark, as the page, and up to which it is bright."""

SCALE = ("box", "slow", "slower", "slowest")  # Colours of the page's theme from no slowdown to the worst


class _Plan(NamedTuple):
    """Where cells of the heat map stand."""

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
    plan = _Plan(dp, pp, per_strip, min(LARGEST, room / per_strip), min(HIGHEST, max(LOWEST, ALL_HEIGHT / pp)))
    parts = [label(LEFT, 11, "data-parallel rank", size=11)]
    for rank in range(0, dp, cells_between(plan.pitch, 26)):
        middle = plan.x(rank) + plan.pitch / 2
        parts.append(label(middle, plan.y(rank, 0) - 6, str(ranks[rank]), size=11, anchor="middle"))
    for strip in range(plan.strips):
        for stage in range(0, pp, cells_between(plan.line, 12)):
            y = plan.y(strip * per_strip, stage + 0.5) + 3.6
            parts.append(label(LEFT - 8, y, f"stage {stage}", size=11, anchor="end"))
    top, width, height = top_of(slowdown), plan.pitch - 1, plan.line - 1
    named = plan.pitch >= NAMED and plan.line >= 16
    for (rank, stage), value in np.ndenumerate(slowdown):
        x, y, share = plan.x(rank), plan.y(rank, stage), (float(value) - 1) / (top - 1)
        node = nodes.get((ranks[rank], stage))
        tip = f"dp {ranks[rank]}, stage {stage}\nS_w {times(float(value))}" + (f"\non {node}" if node else "")
        colour = f"fill:{shade(share)}"
        parts.append(rect(x, y, width, height, "w", rx=min(3, plan.pitch / 8), style=colour, tip=tip))
        if named:
            kind = "value" if share <= PALE else "value warm" if share <= WARM else "value hot"
            middle = plan.y(rank, stage + 0.5) + 4
            size = min(12.5, plan.pitch / 3.4)
            parts.append(label(x + width / 2, middle, fixed(float(value)), kind=kind, size=size, anchor="middle"))
    rank, stage = divmod(int(np.argmax(slowdown)), pp)
    worst = times(float(slowdown[rank, stage]))
    title = f"Slowdown by worker; the worst is dp {ranks[rank]}, stage {stage} with {worst}"
    wide = LEFT + plan.pitch * per_strip + RIGHT
    style = f"--drawn:{wide:.0f}px;max-width:{wide:.0f}px"
    return svg("chart heat", wide, plan.strips * plan.strip_height - GAP + 2, parts, title=title, style=style)


def top_of(slowdown: NDArray[np.float64]) -> float:
    """Return the slowdown that has the last colour: the worst, but 1.1 at least, lest noise look like fire."""
    return max(1.1, float(slowdown.max()))


def shade(share: float) -> str:
    """Return the colour at a share, 0 to 1, of the scale, as CSS that follows the theme."""
    place = min(max(share, 0.0), 1.0) * (len(SCALE) - 1)
    lower = min(int(place), len(SCALE) - 2)
    percent = round(100 * (place - lower))
    return f"color-mix(in oklab, var(--{SCALE[lower + 1]}) {percent}%, var(--{SCALE[lower]}))"


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
    """Return the panels as one ``<svg>``, which a screen reader calls by its title."""
    stages = sorted({operation.stage for operation in pipelines[0].timeline.operations})
    pitch = min(LANES_HIGHEST, max(LANES_LOWEST, LANES_ALL_HEIGHT / len(stages)))
    panel = HEAD + pitch * len(stages) + LANES_GAP
    span = max(pipeline.end for pipeline in pipelines) or 1.0
    plot = Plot(LANES_WIDTH, panel * len(pipelines) + FOOT, (LANES_LEFT, LANES_RIGHT, HEAD, FOOT), (0.0, span))
    parts = list(plot.x_axis(round_ticks(0.0, span, most=10, kind="seconds")))
    x, height, every = plot.x, pitch - 1.5, cells_between(pitch, 11)
    scale = (plot.right - LANES_LEFT) / span
    for place, pipeline in enumerate(pipelines):
        # a line for each stage, below each other
        top, end = place * panel + HEAD, x(pipeline.end)
        parts.append(label(LANES_LEFT, top - 9, pipeline.label, kind="name", size=12.5))
        for row, stage in enumerate(stages):
            y = top + row * pitch
            parts.append(rect(LANES_LEFT, y, end - LANES_LEFT, height, "lane"))
            if row % every == 0:
                parts.append(label(LANES_LEFT - 8, y + pitch / 2 + 3, f"stage {stage}", size=11, anchor="end"))
            for mark in _marks(pipeline, stage, scale):
                width = max(x(mark.end) - x(mark.start), 0.4)
                parts.append(rect(x(mark.start), y, width, height, mark.kind, tip=mark.tip))
        parts.append(line((end, top - 5), (end, top + pitch * len(stages)), "finish"))
    return svg("chart lanes", plot.width, plot.height, parts, title=title)


def _marks(pipeline: Pipeline, stage: int, scale: float) -> list[_Mark]:
    """Return what a stage does, by time; collectives lie below what is computed meanwhile.

    Marks too narrow to be told apart are put together with their neighbours of the same kind.

    :param scale: pixels of a second.
    """
    timeline = pipeline.timeline
    start, end = (times[:, pipeline.dp, pipeline.step] for times in (timeline.start, timeline.end))
    drawn = [
        (i, operation)
        for i, operation in enumerate(timeline.operations)
        if operation.stage == stage and operation.stream in ("compute", "dp-comm")
    ]
    marks: list[_Mark] = []
    for i, operation in sorted(drawn, key=lambda pair: (pair[1].stream != "dp-comm", float(start[pair[0]]))):
        begin, stop = float(start[i]), float(end[i])
        if not np.isfinite(begin) or stop <= begin:
            continue
        kind = "coll" if operation.stream == "dp-comm" else _OTHERS.get(operation.optype, "opt")
        narrow = marks and kind == marks[-1].kind and (stop - begin) * scale < 1
        if narrow and 0 <= (begin - marks[-1].end) * scale < SEAM:
            marks[-1] = marks[-1]._replace(end=stop, tip=marks[-1].tip.split("\n", 1)[0].split(",", 1)[0])
            continue
        microbatch = f", microbatch {operation.microbatch}" if operation.microbatch >= 0 else ""
        chunk = f", chunk {operation.chunk}" if operation.chunk > 0 else ""
        tip = f"{operation.optype}{microbatch}{chunk}\nstage {stage}, {seconds(stop - begin)}"
        marks.append(_Mark(kind, begin, stop, tip))
    return marks


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
    parts = [*plot.y_axis([(value, f"{words}x") for value, words in round_ticks(*upward, most=4)])]
    pitch = plot.x(1) - plot.x(0)
    gap, every = min(2.0, pitch / 4), cells_between(pitch, 40.0)
    for place, (step, value) in enumerate(zip(steps, values, strict=True)):
        top = min(plot.y(value), plot.bottom - 0.8)  # a step as fast as the ideal is seen too
        tip = f"step {step}\n{times(value)}"
        parts.append(rect(plot.x(place), top, pitch - gap, plot.bottom - top, "col", tip=tip))
        if place % every == 0:
            parts.append(label(plot.x(place + 0.5), plot.bottom + 18, str(step), anchor="middle"))
    parts.append(line((left, level), (plot.x(len(steps)), level), "mean"))
    for onset, workers in onsets.items():
        place = steps.index(onset)
        x = plot.x(place) - 1.0  # in the gap between two columns
        parts.append(line((x, plot.top), (x, plot.bottom), "onset"))
        # over the columns before, which are lower, where there is room
        anchor, away = ("start", 4.0) if place < plot.across[1] / 3 else ("end", -4.0)
        parts.append(label(x + away, plot.top + 10, workers, anchor=anchor))
    return svg("chart steps", plot.width, plot.height, parts, title=title)
