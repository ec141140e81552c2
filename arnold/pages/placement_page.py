"""The page of a placement: the cluster with the job on it, the job's own grid, the proof, the comparison.

The first outcome is the one that the page is about; others are compared with it.  A panel says what there is to say of
one placement: the script of the page shows another algorithm's placement by exchanging all of it.  Below the cluster
stand two drawings of the job alone.  Its own grid has a line for each row (PP group) and a column for each stage (DP
group), coloured by domain: the number of colours in a row is the PP spread of that pipeline, the number of colours in a
column the DP spread of that stage, so the objective can be read off.  The trade between DP and PP spread is a small
chart: the Pareto front, what is impossible, what each algorithm found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from itertools import chain, pairwise
from math import ceil, inf
from typing import Any

import numpy as np

from arnold.pages.charts import Plot, cells_between, log_ticks
from ground.errors import InvalidInput
from ground.quantities import capitalised, decimal, fixed, one_of, percent, plural, seconds, several
from scheduler.explanation import CheaperPair, cheaper_pairs, why_not
from scheduler.job import FAMILIES, Job
from scheduler.objective import TOLERANCE, objective_of
from scheduler.outcome import Instance, Outcome, proof_in_words, status_words
from scheduler.placement.types import Pair
from scheduler.unchecked import unchecked_claims
from topology.cluster import Cluster, IntArray, Level
from topology.drawing.layout import Layout, Shape, layout, text_width
from topology.drawing.page_kit import XY, area, circle, colour_ramp, label, path, rect, render, svg, svg_number, wheel
from topology.drawing.renderers import node_data, svg_drawing
from topology.flags import HEALTHY

MOST_CELLS = 16_000  # Cells up to which the job's grid is drawn
MOST_REFUTATIONS = 400  # Cheaper pairs that a page lists at most
BASES: tuple[tuple[str, str, str], ...] = (
    ("open", "o", "free, not used"),
    ("partly", "p", "partly busy"),
    ("busy", "b", "busy"),
    ("kept_out", "k", "kept out"),
)
"""Class, letter in the page's data, and label of nodes without a cell."""

MARKS = {"slowed": "flagged slow", "dead": "faulty"}  # Class and label of the marks of flagged nodes


@dataclass(frozen=True, slots=True)
class Painting:
    """The cluster's nodes as classes of the style sheet."""

    paint: IntArray  # shape [nodes], index into classes
    classes: tuple[str, ...]
    stage_colours: tuple[str, ...]
    base_letters: tuple[str, ...]  # shape [nodes], what each node is without the job, a letter of BASES
    marks: Mapping[int, str]  # flagged node -> class of its mark
    rest: tuple[tuple[str, int, str], ...]  # class, count and label of nodes without a cell; then of the marks


def paint(cluster: Cluster, job: Job, outcome: Outcome) -> Painting:
    """Colour the nodes of a cluster for one placement."""
    base = np.zeros(len(cluster), dtype=np.int32)
    base[cluster.free_gpus < cluster.gpus] = 1
    base[cluster.free_gpus == 0] = 2
    base[list(cluster.kept_out)] = 3
    colours = base.copy()
    if outcome.evaluation is not None and outcome.proposal.nodes is not None:
        colours[outcome.proposal.nodes] = len(BASES) + np.arange(job.grid.columns)
    counts = np.bincount(colours, minlength=len(BASES))
    slow = {i: flag for i, flag in cluster.flags.items() if flag.slowdown > HEALTHY}
    marks = {i: "dead" if flag.kind == "faulty" else "slowed" for i, flag in slow.items()}
    kinds = Counter(marks.values())
    rest = [(name, int(counts[i]), label) for i, (name, _, label) in enumerate(BASES)]
    rest += [(name, kinds[name], label) for name, label in MARKS.items()]
    return Painting(
        paint=colours,
        classes=(*(name for name, _, _ in BASES), *(f"placed s{stage}" for stage in range(job.grid.columns))),
        stage_colours=colour_ramp(job.grid.columns),
        base_letters=tuple(BASES[i][1] for i in base),
        marks=marks,
        rest=tuple(entry for entry in rest if entry[1]),
    )


def placement_page(
    cluster: Cluster,
    job: Job,
    outcomes: Sequence[Outcome],
    *,
    title: str = "",
    sure: str | None = None,
    more: Sequence[tuple[str, Sequence[str]]] = (),
) -> str:
    """Return one self-contained page; same input, same text.

    :param outcomes: of one job on one cluster.  The first is the one the page is about; the others are compared with
        it, and a reader can draw their placements too.  A single one is enough.
    :param title: headline; empty = that the job is placed, or is not.
    :param sure: what is known of the first one's objective where it is the best of some placements, not of all;
        ``None`` = what its status and bound say.
    :param more: what else there is to say, title and sentences of each card.
    :raises InvalidInput: no outcome at all.
    """
    if not outcomes:
        raise InvalidInput("a page needs at least one outcome", fix="run at least one algorithm")
    chosen, level = outcomes[0], cluster.level(job.level)
    placed = [outcome for outcome in outcomes if outcome.proposal.nodes is not None and outcome.evaluation is not None]
    plan = layout(cluster)
    painting = paint(cluster, job, chosen)
    interactive = chosen.evaluation is not None and not plan.bars and job.grid.cells <= MOST_CELLS
    cheaper = cheaper_pairs(cluster, job, chosen)
    panels = {
        id(outcome): panel(cluster, job, outcome, main=chosen, cheaper=cheaper, sure=sure)
        for outcome in [chosen, *placed]
    }
    grid = ""
    if interactive:
        size = f"{plural(job.grid.rows, 'row')}, {plural(job.grid.columns, 'stage')}"
        heading = f"Cells of the job by {one_of(level.name)}: {size}"
        runs = [level.domain_of[outcome.proposal.nodes] for outcome in placed]
        grid = grid_drawing(runs, level.domains, wheel(len(level)), title=heading)
    # columns of the table of nodes by rank: what the script calls each, and its header
    place = " / ".join(one_of(broader.name) for broader in cluster.levels)
    rank_columns = [("rank", "node rank"), ("node", "node"), ("place", place)]
    rank_columns += [("dp", "row (dp)"), ("pp", "stage (pp)")] if job.grid.aligned else []
    rank_columns += [("part", "part of TP")] if job.grid.parts > 1 else []
    # smaller pairs stand behind the one that they go with
    refutations: list[tuple[CheaperPair, str, str]] = []
    for reason in why_not(cheaper) if any(pair.refuted for pair in cheaper) else ():
        refutations.append((reason.pair, reason.pair.refuted_by or "", reason.sentence))
        refutations += [(pair, "", reason.rest) for pair in reason.with_it]
    # the best objective first, those without a placement last; each with its number among the placements that are drawn
    drawn = {id(outcome): i for i, outcome in enumerate(placed)}
    ranked = sorted(
        outcomes,
        key=lambda run: (run.objective or inf, run.status != "optimal", run.proposal.lower_bound is None),
    )
    objectives = [outcome.objective or 0.0 for outcome in placed]

    def gap_of(outcome: Outcome) -> str:
        """Return the gap, where the algorithm vouches for a bound or any bound will do."""
        if outcome.gap is None or (outcome.gap > 0.0 and outcome.proposal.lower_bound is None):
            return ""
        return "0" if outcome.gap == 0.0 else percent(outcome.gap)

    return render(
        "arnold.pages",
        "placement.html.j2",
        raw={
            "cluster": svg_drawing(
                cluster,
                plan,
                painting.paint,
                painting.classes,
                title=f"{job.name} on the cluster",
                note=_note(cluster, chosen.proposal.nodes if chosen.evaluation is not None else None),
                marks=painting.marks,
            ),
            "front": front_chart(job, chosen, placed, level.name),
            "grid": grid,
        },
        styles=("pages.css", "charts.css", "placement.css"),
        scripts=("zoom.js", "modes.js", "placement.js") if interactive else ("zoom.js",),
        title=title or f"{job.name} is {'not ' * (chosen.evaluation is None)}placed",
        job=job,
        chosen=chosen,
        panel=panels[id(chosen)],
        interactive=interactive,
        bars=bool(plan.bars),
        level=one_of(level.name),
        levels=several(level.name),
        rank_columns=rank_columns,
        stages=list(enumerate(painting.stage_colours)),
        row_colours=colour_ramp(9),  # a gradient; the legend need not have every row
        summary=painting.rest,
        families=FAMILIES,
        types=[option.sentence for option in chosen.types if len(chosen.types) > 1],
        cheaper=len(cheaper),
        refutations=refutations[:MOST_REFUTATIONS],
        more=more,
        placed=chosen.evaluation is not None,
        choices=[outcome.algorithm for outcome in placed] if interactive and len(placed) > 1 else [],
        algorithms=[(outcome, drawn.get(id(outcome))) for outcome in ranked],
        best=min(objectives, default=1.0),  # ratios are to it; 1 where there is none
        worst=max(objectives, default=1.0),
        status_words=status_words,
        gap_of=gap_of,
        bound=chosen.bound if placed else None,
        infeasible=bool(placed) and any(outcome.status == "infeasible" for outcome in outcomes),
        data=_data(cluster, job, plan, painting, [(outcome, panels[id(outcome)]) for outcome in placed])
        if interactive
        else node_data(cluster, plan),
    )


def _note(cluster: Cluster, nodes: IntArray | None) -> Callable[[Shape], str]:
    """Return what stands beside a domain's name: nodes that the job uses, of all its nodes."""
    used = np.zeros(len(cluster), dtype=bool)
    if nodes is not None:
        used[nodes.ravel()] = True
    return lambda shape: f"{int(used[shape.nodes].sum()):,}/{len(shape.nodes):,}"


def _data(
    cluster: Cluster, job: Job, plan: Layout, painting: Painting, runs: Sequence[tuple[Outcome, Panel]]
) -> dict[str, Any]:
    """Return what the script knows: squares as :func:`node_data` has them, every placement as positions of squares.

    The notes of a placement are those of all labelled boxes, by the number of the frame.
    """
    level = cluster.level(job.level)
    position = np.empty(len(cluster), dtype=np.int64)
    position[plan.nodes] = np.arange(len(plan.nodes))
    return node_data(cluster, plan) | {
        "base": "".join(painting.base_letters[node] for node in plan.nodes),
        "domain": level.domain_of[plan.nodes].tolist(),
        "domains": list(level.domains),
        "rows": job.grid.rows,
        "columns": job.grid.columns,
        "parts": job.grid.parts,
        "rank": job.grid.node_rank.ravel().tolist(),
        "colours": {
            "stage": list(painting.stage_colours),
            "row": list(colour_ramp(job.grid.rows)),
            "domain": list(wheel(len(level))),
        },
        "runs": [
            {
                "name": outcome.algorithm,
                "cells": position[outcome.proposal.nodes].ravel().tolist(),
                "notes": {str(i): note(frame.shape) for i, frame in enumerate(plan.frames) if frame.header},
            }
            | asdict(shown)
            for outcome, shown in runs
            for note in [_note(cluster, outcome.proposal.nodes)]
        ],
    }


@dataclass(frozen=True, slots=True)
class Panel:
    """Words and numbers of one placement: the sentence, the tiles, the spread at every level."""

    verdict: str
    proved: bool
    # large number, what it is, small print; of every placement of a page the same ones
    facts: tuple[tuple[str, str, str], ...]
    # level and its largest spread of each family, in the order of FAMILIES
    spreads: tuple[tuple[str, tuple[int, ...]], ...]


def panel(
    cluster: Cluster,
    job: Job,
    outcome: Outcome,
    *,
    main: Outcome,
    cheaper: Sequence[CheaperPair],
    sure: str | None = None,
) -> Panel:
    """Return what a page says of one of its outcomes.

    :param main: the outcome that the page is about; its bound holds for all.
    :param cheaper: pairs of spreads that would cost less than the placement of ``main``.
    :param sure: what is known of the objective of ``main``; ``None`` = what its status and bound say.
    """
    level, worth = cluster.level(job.level), outcome.evaluation
    facts: list[tuple[str, str, str]] = []
    if worth is not None and main.bound is not None:
        levels = several(level.name)
        weights = f"{decimal(job.alpha)} x {worth.dp} + {decimal(job.beta)} x {worth.pp}"
        soft = worth.objective - objective_of(job, worth.dp, worth.pp)
        if soft > TOLERANCE:
            weights += f" + {decimal(soft)} of soft terms"
        proved = "proved: nothing is lower" if outcome.gap == 0.0 else f"nothing below {decimal(main.bound)}"
        facts = [
            (
                decimal(worth.objective),
                "objective",
                f"{weights}; {proved if sure is None or outcome is not main else sure}",
            ),
            (str(worth.dp), "DP spread", f"{levels} that the widest DP group touches"),
            (str(worth.pp), "PP spread", f"{levels} that the widest PP group touches"),
            (f"{job.grid.cells:,}", "nodes", f"{plural(job.grid.rows, 'row')} x {plural(job.grid.columns, 'stage')}"),
            (
                seconds(outcome.proposal.solve_seconds),
                "to solve",
                outcome.algorithm + ("" if outcome.run_seconds is None else f"; {seconds(outcome.run_seconds)} in all"),
            ),
        ]
        if flagged := np.count_nonzero((cluster.slowdown > HEALTHY) & (cluster.free_gpus == cluster.gpus)):
            avoided = flagged - len(worth.flagged)
            noun = "flagged node" if avoided == 1 else "flagged nodes"
            facts.append((str(avoided), f"{noun} avoided", f"{len(worth.flagged)} of {flagged} used"))
    asked = outcome is main and sure is None
    unchecked = [*unchecked_claims(Instance(cluster, job), outcome).values()] if asked else []
    return Panel(
        _verdict(job, outcome, level, main=main, cheaper=cheaper, sure=sure, unchecked=unchecked),
        outcome.status == "optimal",
        tuple(facts),
        tuple(
            (one_of(name), tuple(families[family] for family in FAMILIES))
            for name, families in ({} if worth is None else worth.by_level).items()
        ),
    )


def _verdict(
    job: Job,
    outcome: Outcome,
    level: Level,
    *,
    main: Outcome,
    cheaper: Sequence[CheaperPair],
    sure: str | None,
    unchecked: Sequence[str],
) -> str:
    """Return what is known about a placement, in a few sentences; parameters as :func:`panel` has them.

    :param level: the level that spread counts.
    :param unchecked: what is proved and no certificate shows, a sentence each.
    """
    worth = outcome.evaluation
    if worth is None or main.evaluation is None:
        return f"No placement: {outcome.reason or main.reason}."
    experts = ""
    if outcome.ep is not None:
        least = ", the least with this objective" if outcome.ep.proved else ""
        experts = f", an expert group at most {plural(outcome.ep.spread, level.name)}{least}"
    stopped = "" if outcome.stopped_at is None else f" {status_words(outcome.status, outcome.stopped_at).capitalize()}."
    start = (
        f"{plural(job.grid.cells, 'node')} on {plural(len(worth.domains), level.name)}: a DP group touches at most "
        f"{plural(worth.dp, level.name)}, a PP group at most {plural(worth.pp, level.name)}{experts}.{stopped}"
    )
    if outcome is not main:
        mine, best = worth.objective, main.evaluation.objective
        times = "the same as that of" if abs(mine - best) <= TOLERANCE else f"{fixed(mine / best)} times that of"
        return (
            f"{start} Objective {decimal(mine)}, {times} {main.algorithm} ({decimal(best)}, "
            f"{status_words(main.status, main.stopped_at)})."
        )
    if sure is not None:
        return f"{start} Objective {decimal(worth.objective)}: {sure}."
    if outcome.bound is None or outcome.gap is None:
        return f"No placement: {outcome.reason}."
    below = f"no placement can have an objective below {decimal(outcome.bound)}"
    if outcome.status != "optimal":
        short = "" if outcome.step is None else f" {outcome.step.in_words.capitalize()}."
        return (
            f"{start} Not proved optimal: {below}, so the best possible is at most {percent(outcome.gap)} lower than "
            f"this one.{short}"
        )
    how = "" if outcome.proved_to is None else f" {capitalised(proof_in_words(outcome.proved_to))}."
    how += "".join(f" {capitalised(sentence)}." for sentence in unchecked)
    if cheaper and all(pair.refuted is not None for pair in cheaper):
        pairs = "The one cheaper pair" if len(cheaper) == 1 else f"Each of the {len(cheaper):,} cheaper pairs"
        how = f" {pairs} of spreads was refuted.{how}"
    if outcome.step is not None and outcome.gap > 0.0:
        return (
            f"{start} Proved optimal: slow nodes have a price, and no placement has a shorter predicted step. With "
            f"slower nodes the objective might be less: {below}.{how}"
        )
    return f"{start} Proved optimal: no placement has a smaller objective.{how}"


# Of the job's own grid: width of all blocks side by side, gaps included: what a page on a laptop has
WIDTH = 1140.0
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
    """Where cells of the grid stand: in blocks of rows side by side, so that a page can wrap them as it has room."""

    rows: int
    columns: int
    rows_of_block: int
    pitch: float  # width of a cell with the gap
    line: float  # height of a cell with the gap

    @classmethod
    def fitting(cls, rows: int, columns: int) -> _Plan:
        """Return the largest cells with which the whole job fits; beyond that small ones, and as high as it gets."""

        def tidy(rows: int) -> int:
            return rows if rows <= TIDY else ceil(rows / TIDY) * TIDY

        for height in HEIGHTS:
            for line in LINES:
                blocks = ceil(rows / max(1, int((height - TOP) / line)))
                room = (WIDTH - (blocks - 1) * GAP) / blocks - LEFT - RIGHT
                pitch = min(room / columns, LARGEST if blocks == 1 else BESIDE)
                if pitch >= (LEAST if blocks == 1 else max(LEAST, LANDSCAPE * line)):
                    return cls(rows, columns, tidy(ceil(rows / blocks)), pitch, line)
        beside = max(1, int((WIDTH + GAP) / (LEFT + columns * LEAST + RIGHT + GAP)))
        return cls(rows, columns, tidy(ceil(rows / beside)), LEAST, LINES[-1])

    @property
    def blocks(self) -> list[range]:
        """Rows of each block."""
        size = self.rows_of_block
        return [range(first, min(first + size, self.rows)) for first in range(0, self.rows, size)]

    @property
    def width(self) -> float:
        """Of a block."""
        return LEFT + self.columns * self.pitch + RIGHT

    def x(self, column: float) -> float:
        return LEFT + column * self.pitch

    def y(self, row: float) -> float:
        """Within the block of the row."""
        return TOP + row % self.rows_of_block * self.line


def grid_drawing(runs: Sequence[IntArray], names: Sequence[str], colours: Sequence[str], *, title: str) -> str:
    """Return the grid as ``<svg>`` blocks in one ``<div>``, coloured for the first run, with labels for every run.

    Cell (row, column) is the (row * columns + column)-th ``<rect class="g">``; the labels of run i are in
    ``<g data-labels="i">``, one in each block, hidden but for the first run.

    :param runs: for each placement shape [rows, columns], the domain of each cell.
    :param names: of the domains.
    :param colours: of the domains.
    :param title: what a screen reader says.
    """
    plan = _Plan.fitting(*runs[0].shape)
    labels_of_run = [_labels(plan, run, names) for run in runs]
    blocks = []
    for block, rows in enumerate(plan.blocks):
        parts = []
        # numbers of rows at the left, numbers of stages above
        for row in rows[:: cells_between(plan.line, FONT if plan.rows_of_block <= FEW else 3 * FONT)]:
            middle = plan.y(row) + plan.line / 2 + 3.2
            parts.append(label(LEFT - 6, middle, str(row), kind="note", size=FONT, anchor="end"))
        for column in range(0, plan.columns, cells_between(plan.pitch, 6.0 + text_width(str(plan.columns), FONT))):
            x = plan.x(column) + plan.pitch / 2
            parts.append(label(x, TOP - 5, str(column), kind="note", size=FONT, anchor="middle"))
        for row in rows:
            for column in range(plan.columns):
                colour = colours[runs[0][row, column]]
                # a gap of 0.7 pixels shows where cells end
                cell = plan.x(column), plan.y(row), plan.pitch - 0.7, plan.line - 0.7
                parts.append(rect(*cell, "g", fill=colour))
        for i, labels in enumerate(labels_of_run):
            parts += [f'<g data-labels="{i}"{" hidden" if i else ""}>', *labels[block], "</g>"]
        heading = f"Row {rows[0]}" if len(rows) == 1 else f"Rows {rows[0]} to {rows[-1]}"
        blocks.append(svg("grid", plan.width, TOP + len(rows) * plan.line + RIGHT, parts, title=heading))
    block_width = f'style="--block:{svg_number(plan.width)}px"'
    frame = f'<div class="blocks" role="group" aria-label="{escape(title)}" {block_width}>'
    return "\n".join([frame, *blocks, "</div>"])


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
        # stretches of a row that span the same columns in the rows below belong together
        open_runs: dict[tuple[int, int, int], int] = {}
        for row in range(rows[0], rows[-1] + 2):  # one row more, which ends all patches
            runs: list[tuple[int, int, int]] = []  # first column, column after the last, domain
            if row in rows:
                borders = [0, *(int(cut) + 1 for cut in np.flatnonzero(np.diff(domains[row]))), domains.shape[1]]
                runs = [(first, stop, int(domains[row, first])) for first, stop in pairwise(borders)]
            for run in [run for run in open_runs if run not in runs]:
                patch = _Patch(*run, top=open_runs.pop(run), bottom=row)
                if patch.domain not in largest or patch.area > largest[patch.domain][1].area:
                    largest[patch.domain] = i, patch
            for run in runs:
                open_runs.setdefault(run, row)
    labels: list[list[str]] = [[] for _ in plan.blocks]
    for domain, (i, patch) in sorted(largest.items()):
        width, height = (patch.stop - patch.first) * plan.pitch, (patch.bottom - patch.top) * plan.line
        if height >= FONT + 1 and text_width(names[domain], FONT) + 6 <= width:
            x, y = plan.x((patch.first + patch.stop) / 2), plan.y(patch.top) + height / 2 + 3.4
            labels[i].append(label(x, y, names[domain], kind="tag", size=FONT))
    return labels


# Of the trade: both axes are logarithmic, so that pairs of equal product, of which the bounds speak, lie on a line
CHOSEN, FRONT, OTHER = 11.0, 6.0, 4.0  # Radii of points
LEAST_SPREAD = 0.75  # Where both axes begin, below the smallest spread
CURVE = 80  # Pieces of the curve of equal cost
BOLD = 1.13  # How much wider bold type is
APART = 2.5
"""Least distance of a label from what stands beside it: half the width of a digit, so that two do not read as one."""

Box = tuple[float, float, float, float]  # Left, top, right, bottom


def front_chart(job: Job, outcome: Outcome, placed: Sequence[Outcome], level: str) -> str:
    """Return the chart as one ``<svg>``; nothing where it would show one point and no more.

    :param outcome: the one of which the front and the refutations are shown.
    :param placed: outcomes with a placement, in the order of their numbers on the page; each has a ring, ``<circle
        data-ring="number">``, of which that of ``outcome`` is seen.  Those of other algorithms are small labelled dots.
    :param level: name of the level that spread counts.
    """
    runs = [(run, (run.evaluation.dp, run.evaluation.pp)) for run in placed if run.evaluation is not None]
    dots: dict[Pair, list[str]] = {}  # names of the other algorithms that came to a pair of spreads
    for run, pair in runs:
        if run is not outcome:
            dots.setdefault(pair, []).append(run.algorithm)
    front = [(point.dp, point.pp) for point in outcome.proposal.corners]
    chosen = [pair for run, pair in runs if run is outcome]
    seen: list[Pair] = [*front, *(pair for _, pair in runs)]
    if len(set(seen)) < 2 and not outcome.proposal.refutations:
        return ""
    # room for the labels at the right and above
    across = LEAST_SPREAD, 1.45 * max((dp for dp, _ in seen), default=2)
    upward = LEAST_SPREAD, 1.3 * max((pp for _, pp in seen), default=2)
    plot = Plot(520.0, 400.0, (52.0, 16.0, 14.0, 48.0), across, upward, logarithmic=(True, True))
    parts: list[str] = []
    # pairs that were refuted, each with everything below and to the left of it, as one area: a pair shades up to half
    # way to the next, with corners from the upper left to the lower right
    corners: list[XY] = []
    edge = LEAST_SPREAD
    refuted = [refutation.pair for refutation in outcome.proposal.refutations]
    for dp, pp in sorted(refuted, key=lambda pair: (-pair[1], -pair[0])):
        if min(dp + 0.5, across[1]) > edge:
            corners += [(edge, pp + 0.5), (dp + 0.5, pp + 0.5)]
            edge = dp + 0.5
    if corners:
        parts.append(area(plot.points(corners), plot.points((dp, LEAST_SPREAD) for dp, _ in corners), "impossible"))
    levels = several(level)
    parts += [
        *plot.x_axis(log_ticks(plot.x)),
        *plot.y_axis(log_ticks(plot.y)),
        *plot.titles(f"DP spread: {levels} a DP group touches", f"PP spread: {levels} a PP group touches"),
    ]
    if outcome.objective is not None and job.beta > 0:
        # pairs that would cost as much as what was reached: alpha * S + beta * R = objective
        places = [LEAST_SPREAD * (across[1] / LEAST_SPREAD) ** (step / CURVE) for step in range(CURVE + 1)]
        points = [(dp, (outcome.objective - job.alpha * dp) / job.beta) for dp in places]
        inside = [(dp, pp) for dp, pp in points if LEAST_SPREAD <= pp <= upward[1]]
        parts += [path(plot.points(inside), "cost")] if len(inside) > 1 else []
    stair: list[XY] = []
    if front:
        # the border of what can be had, as a stair through the front from the upper left to the lower right
        before = [upward[1], *(pp for _, pp in front)]
        steps = chain.from_iterable(((dp, last), (dp, pp)) for last, (dp, pp) in zip(before, front, strict=False))
        stair = plot.points([*steps, (across[1], front[-1][1])])
        parts.append(path(stair, "stair"))

    def spreads(pair: Pair) -> str:
        return f"DP spread {pair[0]}, PP spread {pair[1]}"

    def mark(pair: Pair, radius: float, kind: str, tip: str, **more: int | bool) -> str:
        return circle(plot.x(pair[0]), plot.y(pair[1]), radius, kind, tip=tip, **more)

    # other algorithms below, the front above them, and a ring around each placement; one ring is seen
    parts += [mark(pair, OTHER, "other", f"{', '.join(names)}\n{spreads(pair)}") for pair, names in dots.items()]
    for point in outcome.proposal.pareto:
        kind, words = ("proved", "proved") if point.proved else ("unproved", "not proved")
        pair = point.dp, point.pp
        parts.append(mark(pair, FRONT, f"point {kind}", f"{spreads(pair)}\n{words}"))
    for i, (run, pair) in enumerate(runs):
        tip = f"{run.algorithm}: {spreads(pair)}"
        parts.append(mark(pair, CHOSEN, "chosen", tip, data_ring=i, hidden=run is not outcome))
    # pairs beside the points of the front, names beside the dots of other algorithms, where there is room
    labelled = [
        LabelledPoint(plot.x(dp), plot.y(pp), CHOSEN if (dp, pp) in chosen else FRONT, f"({dp}, {pp})", 12.0, "name")
        for dp, pp in dict.fromkeys([*chosen, *front])
    ]
    for (dp, pp), names in dots.items():
        text = names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"
        labelled.append(LabelledPoint(plot.x(dp), plot.y(pp), FRONT, text, 10.5, "note"))
    treads = [(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)) for (x0, y0), (x1, y1) in pairwise(stair)]
    for (x, y), named in place_labels(labelled, within=(plot.left, 0.0, plot.width, plot.bottom), lines=treads):
        parts.append(label(x, y, named.text, kind=named.kind, size=named.size))
    title = f"Pareto front of DP and PP spread: {', '.join(f'({dp}, {pp})' for dp, pp in front) or 'not known'}"
    return svg("chart front", plot.width, plot.height, parts, title=title)


@dataclass(frozen=True, slots=True)
class LabelledPoint:
    """A point that wants a label."""

    x: float
    y: float
    radius: float  # of the dot drawn there
    text: str
    size: float  # of the type
    kind: str  # class of the style sheet for its label; name is bold


def place_labels(
    points: Sequence[LabelledPoint], *, within: Box, lines: Sequence[Box] = ()
) -> Iterator[tuple[XY, LabelledPoint]]:
    """Yield left end and base line of the labels of points, the first points first, each at the first free place around
    its point; a label that has no room is left out.

    :param within: where labels may stand.
    :param lines: which labels keep off, as boxes without width or height.
    """
    taken: list[Box] = [(p.x - p.radius, p.y - p.radius, p.x + p.radius, p.y + p.radius) for p in points]
    taken += lines
    for point in points:
        x, y, size = point.x, point.y, point.size
        width = text_width(point.text, size) * (BOLD if point.kind == "name" else 1.0)
        aside, low, high = point.radius + 3, size * 0.9 + point.radius + 2, point.radius + 5
        # left end and base line of the places around the point, the best first
        places = [
            (x + aside, y - high + 2),
            (x + aside, y + 0.35 * size),
            (x - width / 2, y - high),
            (x - width / 2, y + low),
            (x - width - aside, y - high + 2),
            (x - width - aside, y + 0.35 * size),
            (x + aside, y + low),
            (x - width - aside, y + low),
        ]
        for further in (1, 2, 3):
            places.append((x - width / 2, y + low + further * size * 1.15))
            places.append((x - width / 2, y - high - further * size * 1.15))
        for left, base in places:
            top, right, bottom = base - 0.8 * size, left + width, base + 0.25 * size
            inside = left >= within[0] and top >= within[1] and right <= within[2] and bottom <= within[3]
            overlaps = (
                left - APART < other[2] and other[0] < right + APART and top < other[3] and other[1] < bottom
                for other in taken
            )
            if inside and not any(overlaps):
                taken.append((left, top, right, bottom))
                yield (left, base), point
                break
