"""What does fragmentation cost, by job shape?

Free nodes count for a gang only where enough of them are together.  For each shape: the largest job that still fits
with DP and PP groups in few domains, the free nodes in domains too small for a single PP group, and what jobs of a
given size are worth now compared with an empty cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.objective import job_level
from scheduler.placement.admission import admissible
from scheduler.placement.registry import load_algorithm
from simulator.capacity.largest import Family, Largest, Prober
from simulator.capacity.shape import JobShape, usual_shapes
from topology.capacity import count_nodes
from topology.cluster import Cluster

SHAPES = usual_shapes()
SPREADS = (1, 2, 4)
SHARES = (0.25, 0.5, 0.75, 0.9)
"""Sizes of jobs that are placed, as shares of the free nodes."""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """A job of a size, now and on the empty cluster.

    :param rows: PP groups.
    :param now: objective (Eq. 2) now; ``None`` = nothing valid was found.
    :param empty: the same on the empty cluster.
    """

    share: float
    rows: int
    now: float | None
    empty: float | None
    dp: int | None
    pp: int | None

    @property
    def ratio(self) -> float | None:
        """Objective relative to an empty cluster: 1 = fragmentation costs nothing."""
        return None if self.now is None or self.empty is None else self.now / self.empty


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """What is left for one shape.

    :param most: PP groups that the free nodes make, were they all together.
    :param largest: (family, spread) -> largest job whose groups of that family touch at most so many domains.
    :param too_small: free nodes in domains with fewer of them than one PP group has.
    :param left_over: free nodes that remain when every domain is filled with whole PP groups, those among them.
    """

    shape: JobShape
    most: int
    largest: dict[tuple[Family, int], Largest]
    too_small: int
    left_over: int
    sizes: tuple[SizeRow, ...]


@dataclass(frozen=True, slots=True)
class FragmentationAnswer:
    """The answer.

    :param level: the level whose domains count.
    :param free: nodes that a gang may use.
    :param domains: free nodes of each domain, the most first.
    """

    source: str
    level: str
    nodes: int
    free: int
    domains: tuple[int, ...]
    alpha: float
    spreads: tuple[int, ...]
    shapes: tuple[ShapeRow, ...]


def fragmentation(
    cluster: Cluster,
    *,
    source: str,
    shapes: Sequence[JobShape] = SHAPES,
    spreads: Sequence[int] = SPREADS,
    shares: Sequence[float] = SHARES,
    alpha: float = 0.3,
    level: str | None = None,
    seconds: float = 0.3,
    step: Callable[[str], None] = lambda _: None,
) -> FragmentationAnswer:
    """Answer the question for a cluster as it is now.

    :param source: what the cluster is called.
    :param spreads: numbers of domains that groups may touch.
    :param shares: sizes of jobs as shares of the free nodes.
    :param alpha: DP affinity for the objective.
    :param seconds: for each placement.
    :raises InvalidJob: a shape does not cut into nodes.
    :raises UnknownName: the cluster has no such level.
    """
    algorithm = load_algorithm("exact")
    now = Prober(cluster, algorithm, seconds=seconds, level=level)
    empty = Prober(cluster.emptied(), algorithm, seconds=seconds, level=level)
    rows = []
    for shape in shapes:
        step(f"shape {shape.name}")
        rows.append(_shape((now, empty), shape, spreads, shares=shares, alpha=alpha))
    counted = job_level(cluster, shapes[0].job(1, level=level))
    admitted = admissible(cluster, shapes[0].job(1))
    return FragmentationAnswer(
        source=source,
        level=counted.name,
        nodes=len(cluster),
        free=int(np.count_nonzero(admitted)),
        domains=tuple(sorted(count_nodes(counted, admitted).tolist(), reverse=True)),
        alpha=alpha,
        spreads=tuple(spreads),
        shapes=tuple(rows),
    )


def _shape(
    probers: tuple[Prober, Prober], shape: JobShape, spreads: Sequence[int], *, shares: Sequence[float], alpha: float
) -> ShapeRow:
    now, empty = probers
    probe = shape.job(1, level=now.level)
    free = count_nodes(job_level(now.cluster, probe), admissible(now.cluster, probe))
    most = now.most_rows(shape)
    families: tuple[Family, ...] = ("pp", "dp") if shape.row > 1 else ("dp",)
    return ShapeRow(
        shape=shape,
        most=most,
        largest={(family, k): now.largest(shape, family, k) for family in families for k in spreads},
        too_small=int(free[free < shape.row].sum()),
        left_over=int((free % shape.row).sum()),
        sizes=tuple(_size(now, empty, shape, share, alpha) for share in shares if int(share * most) >= 1),
    )


def _size(now: Prober, empty: Prober, shape: JobShape, share: float, alpha: float) -> SizeRow:
    rows = int(share * now.most_rows(shape))
    found = now.place(shape, rows, alpha)
    return SizeRow(
        share=share,
        rows=rows,
        now=found.objective,
        empty=empty.place(shape, rows, alpha).objective,
        dp=None if found.evaluation is None else found.evaluation.dp,
        pp=None if found.evaluation is None else found.evaluation.pp,
    )


def assumptions(answer: FragmentationAnswer) -> tuple[str, ...]:
    """What the answer takes for granted."""
    return (
        f"The cluster is {answer.source}, as it is at one moment: nothing ends and nothing is moved to make room.",
        f"Gangs take whole nodes that are idle and not faulty; spread counts {answer.level}s.",
        "A shape is tp x pp; its jobs grow by whole PP groups (data-parallel replicas).",
        "Every placement is the exact algorithm's; >= marks a size beyond which it ran out of time, so that a larger "
        "job may fit.",
        f"Objective: Eq. 2 of the Arnold paper with alpha {answer.alpha:g}; the empty cluster has the same nodes and "
        "flags and no jobs.",
    )
