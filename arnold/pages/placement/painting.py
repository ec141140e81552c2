"""Which colour every node has: its stage when the job uses it, else whether it is free or in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.job import Job
from scheduler.outcome import Outcome
from topology.cluster import Cluster, IntArray
from topology.drawing.palette import ramp

BASES: tuple[tuple[str, str, str], ...] = (
    ("open", "o", "free, not used"),
    ("partly", "p", "partly busy"),
    ("busy", "b", "busy"),
)
"""Class, letter in the page's data, and label of nodes without a cell."""


@dataclass(frozen=True, slots=True)
class Painting:
    """The cluster's nodes as classes of the style sheet.

    :param paint: shape [nodes], index into ``classes``.
    :param base_letters: shape [nodes], what each node is without the job, a letter of :data:`BASES`.
    :param marks: flagged node -> class of its mark.
    :param rest: class, count and label of nodes without a cell; then of the marks.
    """

    paint: IntArray
    classes: tuple[str, ...]
    stage_colours: tuple[str, ...]
    base_letters: tuple[str, ...]
    marks: Mapping[int, str]
    rest: tuple[tuple[str, int, str], ...]


def paint(cluster: Cluster, job: Job, outcome: Outcome) -> Painting:
    """Colour the nodes of a cluster for one placement."""
    base = np.zeros(len(cluster), dtype=np.int32)
    base[cluster.free_gpus < cluster.gpus] = 1
    base[cluster.free_gpus == 0] = 2
    colours = base.copy()
    if outcome.evaluation is not None and outcome.proposal.nodes is not None:
        nodes = outcome.proposal.nodes
        colours[nodes] = len(BASES) + np.arange(job.grid.columns)
    counts = np.bincount(colours, minlength=len(BASES))
    marks = {
        i: "dead" if flag.kind == "faulty" else "slowed" for i, flag in cluster.flags.items() if flag.slowdown > 1.0
    }
    rest = [(name, int(counts[i]), label) for i, (name, _, label) in enumerate(BASES) if counts[i]]
    kinds = list(marks.values())
    rest += [
        (name, kinds.count(name), label)
        for name, label in (("slowed", "flagged slow"), ("dead", "faulty"))
        if name in kinds
    ]
    return Painting(
        paint=colours,
        classes=(*(name for name, _, _ in BASES), *(f"placed s{stage}" for stage in range(job.grid.columns))),
        stage_colours=ramp(job.grid.columns),
        base_letters=tuple(BASES[i][1] for i in base),
        marks=marks,
        rest=tuple(rest),
    )
