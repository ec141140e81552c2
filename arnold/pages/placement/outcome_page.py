"""The page of a placement: the cluster with the job on it, the job's own grid, the proof, the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from arnold.pages.placement.front import front_chart
from arnold.pages.placement.grid import grid_drawing
from arnold.pages.placement.panel import Panel, panel
from ground.errors import InvalidInput
from ground.quantities import one_of, percent, plural, several
from scheduler.explanation import CheaperPair, cheaper_pairs, why_not
from scheduler.job import FAMILIES, Job
from scheduler.outcome import Outcome, status_words
from topology.cluster import Cluster, IntArray
from topology.drawing.layout import Layout, Shape, layout
from topology.drawing.page_kit import ramp, render, wheel
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
        nodes = outcome.proposal.nodes
        colours[nodes] = len(BASES) + np.arange(job.grid.columns)
    counts = np.bincount(colours, minlength=len(BASES))
    slow = {i: flag for i, flag in cluster.flags.items() if flag.slowdown > HEALTHY}
    marks = {i: "dead" if flag.kind == "faulty" else "slowed" for i, flag in slow.items()}
    kinds = Counter(marks.values())
    rest = [(name, int(counts[i]), label) for i, (name, _, label) in enumerate(BASES)]
    rest += [(name, kinds[name], label) for name, label in MARKS.items()]
    return Painting(
        paint=colours,
        classes=(*(name for name, _, _ in BASES), *(f"placed s{stage}" for stage in range(job.grid.columns))),
        stage_colours=ramp(job.grid.columns),
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
    known: str | None = None,
    more: Sequence[tuple[str, Sequence[str]]] = (),
) -> str:
    """Return one self-contained page; same input, same text.

    :param outcomes: of one job on one cluster.  The first is the one the page is about; the others are compared with
        it, and a reader can draw their placements too.  A single one is enough.
    :param title: headline; empty = that the job is placed, or is not.
    :param known: what is known of the first one's objective where it is the best of some placements, not of all;
        ``None`` = what its status and bound say.
    :param more: what else there is to say, title and sentences of each card.
    :raises InvalidInput: no outcome at all.
    """
    if not outcomes:
        raise InvalidInput("a page needs at least one outcome", fix="run at least one algorithm")
    chosen = outcomes[0]
    placed = [outcome for outcome in outcomes if outcome.proposal.nodes is not None and outcome.evaluation is not None]
    plan = layout(cluster)
    painting = paint(cluster, job, chosen)
    interactive = chosen.evaluation is not None and not plan.bars and job.grid.cells <= MOST_CELLS
    cheaper = cheaper_pairs(cluster, job, chosen)
    panels = {id(one): panel(cluster, job, one, main=chosen, cheaper=cheaper, known=known) for one in [chosen, *placed]}
    runs = [(one, panels[id(one)]) for one in placed]
    return render(
        "arnold.pages.placement",
        "placement.html.j2",
        raw={
            "cluster": _cluster_drawing(cluster, plan, painting, chosen, title=job.name),
            "front": front_chart(job, chosen, placed, cluster.level(job.level).name),
            "grid": _grid(cluster, job, placed) if interactive else "",
        },
        styles=("pages.css", "charts.css", "placement.css"),
        scripts=("zoom.js", "modes.js", "placement.js") if interactive else ("zoom.js",),
        title=title or f"{job.name} is {'not ' * (chosen.evaluation is None)}placed",
        job=job,
        chosen=chosen,
        panel=panels[id(chosen)],
        interactive=interactive,
        bars=bool(plan.bars),
        cheaper=len(cheaper),
        refutations=_refutations(cheaper),
        more=more,
        data=_data(cluster, job, plan, painting, runs) if interactive else node_data(cluster, plan),
        **_words(cluster, job, painting, chosen),
        **_comparison(outcomes, placed, interactive=interactive),
    )


def _words(cluster: Cluster, job: Job, painting: Painting, chosen: Outcome) -> dict[str, Any]:
    """Return names of levels, legends, and what is said of types of GPU."""
    level = cluster.level(job.level)
    return {
        "level": one_of(level.name),
        "levels": several(level.name),
        "rank_columns": _rank_columns(cluster, job),
        "stages": list(enumerate(painting.stage_colours)),
        "row_colours": ramp(9),  # a gradient; the legend need not have every row
        "summary": painting.rest,
        "families": FAMILIES,
        "types": [one.sentence for one in chosen.types if len(chosen.types) > 1],
    }


def _comparison(outcomes: Sequence[Outcome], placed: Sequence[Outcome], *, interactive: bool) -> dict[str, Any]:
    """Return what the table of algorithms is made of."""
    worths = [one.objective or 0.0 for one in placed]
    return {
        "placed": outcomes[0].evaluation is not None,
        "choices": [one.algorithm for one in placed] if interactive and len(placed) > 1 else [],
        "algorithms": _ranked(outcomes, placed),
        "best": min(worths, default=1.0),  # ratios are to it; 1 where there is none
        "worst": max(worths, default=1.0),
        "status_words": status_words,
        "gap_of": _gap,
        "bound": outcomes[0].bound if placed else None,
        "infeasible": bool(placed) and any(outcome.status == "infeasible" for outcome in outcomes),
    }


def _rank_columns(cluster: Cluster, job: Job) -> list[tuple[str, str]]:
    """Return the columns of the table of nodes by rank: what the script calls each, and its header."""
    columns = [
        ("rank", "node rank"),
        ("node", "node"),
        ("place", " / ".join(one_of(one.name) for one in cluster.levels)),
    ]
    if job.grid.aligned:
        columns += [("dp", "row (dp)"), ("pp", "stage (pp)")]
    return [*columns, ("part", "part of TP")] if job.grid.parts > 1 else columns


def _cluster_drawing(cluster: Cluster, plan: Layout, painting: Painting, chosen: Outcome, *, title: str) -> str:
    return svg_drawing(
        cluster,
        plan,
        painting.paint,
        painting.classes,
        title=f"{title} on the cluster",
        note=_note(cluster, chosen.proposal.nodes if chosen.evaluation is not None else None),
        marks=painting.marks,
    )


def _note(cluster: Cluster, nodes: IntArray | None) -> Callable[[Shape], str]:
    """Return what stands beside a domain's name: nodes that the job uses, of all its nodes."""
    used = np.zeros(len(cluster), dtype=bool)
    if nodes is not None:
        used[nodes.ravel()] = True
    return lambda shape: f"{int(used[shape.nodes].sum()):,}/{len(shape.nodes):,}"


def _grid(cluster: Cluster, job: Job, placed: Sequence[Outcome]) -> str:
    level = cluster.level(job.level)
    size = f"{plural(job.grid.rows, 'row')}, {plural(job.grid.columns, 'stage')}"
    title = f"Cells of the job by {one_of(level.name)}: {size}"
    runs = [level.domain_of[one.proposal.nodes] for one in placed]
    return grid_drawing(runs, level.domains, wheel(len(level)), title=title)


def _ranked(outcomes: Sequence[Outcome], placed: Sequence[Outcome]) -> list[tuple[Outcome, int | None]]:
    """Return all outcomes, the best objective first, those without a placement last; each with its number among the
    placements that the page can draw.
    """
    number = {id(outcome): i for i, outcome in enumerate(placed)}

    def rank(one: Outcome) -> tuple[bool, float, bool, bool]:
        worth = one.objective or 0.0
        return one.objective is None, worth, one.status != "optimal", one.proposal.lower_bound is None

    return [(outcome, number.get(id(outcome))) for outcome in sorted(outcomes, key=rank)]


def _gap(outcome: Outcome) -> str:
    """Return the gap, where the algorithm vouches for a bound or any bound will do."""
    if outcome.gap is None or (outcome.gap > 0.0 and outcome.proposal.lower_bound is None):
        return ""
    return "0" if outcome.gap == 0.0 else percent(outcome.gap)


def _refutations(cheaper: Sequence[CheaperPair]) -> list[tuple[CheaperPair, str, str]]:
    """Return each cheaper pair, what rules it out, and the sentence; smaller ones behind the one that they go with.
    None where nothing is ruled out.
    """
    if not any(pair.refuted for pair in cheaper):
        return []
    rows = []
    for one in why_not(cheaper):
        rows.append((one.pair, one.pair.refuted_by or "", one.sentence))
        rows += [(pair, "", one.rest) for pair in one.with_it]
    return rows[:MOST_REFUTATIONS]


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
            "row": list(ramp(job.grid.rows)),
            "domain": list(wheel(len(level))),
        },
        "runs": [
            {
                "name": one.algorithm,
                "cells": position[one.proposal.nodes].ravel().tolist(),
                "notes": {str(i): note(frame.shape) for i, frame in enumerate(plan.frames) if frame.header},
            }
            | asdict(shown)
            for one, shown in runs
            for note in [_note(cluster, one.proposal.nodes)]
        ],
    }
