"""The page of a placement: the cluster with the job on it, the job's own grid, the proof, the comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from arnold.documents.words import decimal
from arnold.pages.placement.front import front_chart
from arnold.pages.placement.grid import grid_drawing
from arnold.pages.placement.painting import Painting, paint
from arnold.pages.placement.panel import Panel, panel
from arnold.pages.placement.rows import algorithm_rows, price_rows, refutation_rows
from scheduler.explain import cheaper_pairs
from scheduler.job import FAMILIES, Job
from scheduler.outcome import Outcome
from scheduler.spread import job_level
from topology.cluster import Cluster, IntArray
from topology.drawing.labels import plural, several
from topology.drawing.layout import Layout, layout
from topology.drawing.page import domain_tip, node_data
from topology.drawing.palette import ramp, wheel
from topology.drawing.simplify import Shape
from topology.drawing.svg import svg_drawing
from topology.drawing.templates import asset, render
from topology.errors import InvalidInput

OWN = "arnold.pages.placement"

MOST_CELLS = 16_000
"""Cells up to which the job's grid is drawn."""


def placement_page(cluster: Cluster, job: Job, outcomes: Sequence[Outcome], *, title: str = "") -> str:
    """One self-contained page; same input, same text.

    :param outcomes: of one job on one cluster.  The first is the one the page is about; the others are compared with
        it, and a reader can draw their placements too.  A single one is enough.
    :param title: headline; empty = the job's name.
    :raises InvalidInput: no outcome at all.
    """
    if not outcomes:
        raise InvalidInput("a page needs at least one outcome", fix="run at least one algorithm")
    chosen = outcomes[0]
    placed = [outcome for outcome in outcomes if outcome.proposal.nodes is not None and outcome.evaluation is not None]
    level = job_level(cluster, job)
    plan = layout(cluster)
    painting = paint(cluster, job, chosen)
    interactive = chosen.evaluation is not None and not plan.bars and job.grid.cells <= MOST_CELLS
    cheaper = cheaper_pairs(cluster, job, chosen)
    panels = {id(one): panel(cluster, job, one, main=chosen, cheaper=cheaper) for one in [chosen, *placed]}
    raw = {
        "cluster": _cluster_drawing(cluster, plan, painting, chosen, title=title or job.name),
        "front": front_chart(job, chosen, placed, level.name),
        "grid": _grid(cluster, job, placed) if interactive else "",
        "style": asset("arnold.pages", "pages.css") + asset(OWN, "placement.css"),
        "behaviour": asset(OWN, "placement.js") if interactive else "",
    }
    runs = [(one, panels[id(one)]) for one in placed]
    return render(
        OWN,
        "placement.html.j2",
        raw=raw,
        title=title or job.name,
        job=job,
        grid_shape=job.grid,
        level=level.name,
        levels=several(level.name),
        panel=panels[id(chosen)],
        placed=chosen.evaluation is not None,
        objective="" if chosen.objective is None else decimal(chosen.objective),
        stages=list(enumerate(painting.stage_colours)),
        row_colours=ramp(9),
        interactive=interactive,
        bars=bool(plan.bars),
        choices=[one.algorithm for one in placed] if interactive and len(placed) > 1 else [],
        algorithms=algorithm_rows(outcomes, placed),
        infeasible=bool(placed) and any(outcome.status == "infeasible" for outcome in outcomes),
        chosen_name=chosen.algorithm,
        bound=_bound_mark(chosen, placed),
        cheaper=len(cheaper),
        refutations=refutation_rows(cheaper) if any(pair.refutation for pair in cheaper) else [],
        prices=price_rows(chosen),
        families=FAMILIES,
        notes=chosen.notes,
        summary=_counts(painting),
        data=_data(cluster, job, plan, painting, runs) if interactive else node_data(cluster, plan),
    )


def _cluster_drawing(cluster: Cluster, plan: Layout, painting: Painting, chosen: Outcome, *, title: str) -> str:
    note = _note(cluster, chosen.proposal.nodes if chosen.evaluation is not None else None)
    return svg_drawing(
        plan,
        painting.paint,
        painting.classes,
        title=f"{title} on the cluster",
        note=note,
        tip=domain_tip(cluster),
        marks=painting.marks,
    )


def _note(cluster: Cluster, nodes: IntArray | None) -> Callable[[Shape], str]:
    """What stands beside a domain's name: nodes that the job uses, of all its nodes."""
    used = np.zeros(len(cluster), dtype=bool)
    if nodes is not None:
        used[nodes.ravel()] = True
    return lambda shape: f"{int(used[shape.nodes].sum()):,}/{len(shape.nodes):,}"


def _grid(cluster: Cluster, job: Job, placed: Sequence[Outcome]) -> str:
    level = job_level(cluster, job)
    title = f"Cells of the job by {level.name}: {plural(job.grid.rows, 'row')}, {plural(job.grid.columns, 'stage')}"
    runs = [level.domain_of[one.proposal.nodes] for one in placed]
    return grid_drawing(runs, level.domains, wheel(len(level)), title=title)


def _bound_mark(chosen: Outcome, placed: Sequence[Outcome]) -> float | None:
    """Where the certified bound stands in the bars of the comparison, percent of the longest."""
    worst = max((outcome.objective or 0.0 for outcome in placed), default=0.0)
    return None if chosen.bound is None or worst == 0.0 else round(100.0 * chosen.bound / worst, 2)


def _counts(painting: Painting) -> list[tuple[str, str, str]]:
    """Class, count and label of the nodes that the job does not use."""
    return [(kind, f"{count:,}", label) for kind, count, label in painting.rest]


def _data(
    cluster: Cluster, job: Job, plan: Layout, painting: Painting, runs: Sequence[tuple[Outcome, Panel]]
) -> dict[str, Any]:
    """What the script knows: squares as :func:`node_data` has them, and every placement as positions of squares."""
    level = job_level(cluster, job)
    position = np.empty(len(cluster), dtype=np.int64)
    position[plan.nodes] = np.arange(len(plan.nodes))
    return node_data(cluster, plan) | {
        "base": "".join(painting.base_letters[node] for node in plan.nodes),
        "domain": level.domain_of[plan.nodes].tolist(),
        "domains": list(level.domains),
        "rows": job.grid.rows,
        "columns": job.grid.columns,
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
                "notes": _notes(cluster, plan, one.proposal.nodes),
            }
            | asdict(shown)
            for one, shown in runs
        ],
    }


def _notes(cluster: Cluster, plan: Layout, nodes: IntArray | None) -> dict[str, str]:
    """Notes of all labelled boxes for one placement, by the number of the frame."""
    note = _note(cluster, nodes)
    return {str(i): note(frame.shape) for i, frame in enumerate(plan.frames) if frame.header}
