"""The parts of a certificate, recounted: is the grid that of the cluster and the job, and does each refutation hold?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf

import numpy as np

from scheduler.certificates.certificate import Certificate, CertifiedPart
from scheduler.job import Job
from scheduler.objective import Spread
from scheduler.verification.counted_grid import CountedGrid, counted_grid
from scheduler.verification.effort import Effort
from scheduler.verification.question_choices import NodeChoice, job_on, sizes_on
from scheduler.verification.refutation_kinds import Recount, recount
from topology.cluster import Cluster
from topology.flags import HEALTHY

SolverCheck = Callable[[CountedGrid, Spread], Recount]  # Decides a pair that only a search can


@dataclass(frozen=True, slots=True)
class RecountedPart:
    """One part, with what recounting its refutations says."""

    part: CertifiedPart
    pairs: tuple[tuple[Spread, Recount], ...] = ()  # in the order of the certificate
    fault: str = ""  # why it is not a part of the question; empty = it is
    no_grid: bool = False  # whether the groups of the job make no grid there, so that nothing of it can be recounted

    @property
    def slowest(self) -> float:
        """The slowdown up to which it has nodes."""
        return inf if self.part.slowest is None else self.part.slowest


def recounted_parts(
    certificate: Certificate, cluster: Cluster, job: Job, solve: SolverCheck | None
) -> tuple[RecountedPart, ...]:
    """Recount all parts of a certificate."""
    effort, grids = Effort(), _Grids(cluster, job)
    return tuple(_recounted(part, grids, solve, effort) for part in certificate.parts)


def nodes_in_words(part: CertifiedPart, *, alone: bool) -> str:
    """Return which nodes a part is about; empty for one that stands ``alone``."""
    if alone:
        return ""
    types = " and ".join(part.gpu_types) if any(part.gpu_types) else ""
    pace = "any" if part.slowest is None else "healthy" if part.slowest == HEALTHY else f"up to {part.slowest:g} x slow"
    said = (types, f"trunk {part.trunk}" if part.trunk else "", f"{pace} nodes", f"{part.level} level")
    return ", ".join(word for word in said if word)


class _Grids:
    """The grids of a question by nodes and level, each counted once, however many parts are about it."""

    def __init__(self, cluster: Cluster, job: Job) -> None:
        self.cluster, self.job = cluster, job
        self._slowdowns = np.unique(cluster.slowdown)
        self.of = cache(self._counted)

    def widest(self, slowest: float | None) -> float:
        """Return the slowdown of the slowest nodes up to one, ``None`` = any; 1 where there are none."""
        within = self._slowdowns[self._slowdowns <= (inf if slowest is None else slowest)]
        return float(within[-1]) if len(within) else HEALTHY

    def _counted(
        self, gpu_types: tuple[str, ...], gpus_per_node: int, trunk: int | None, widest: float, level: str
    ) -> CountedGrid | None:
        choice = NodeChoice(job_on(self.job, gpu_types, gpus_per_node), gpu_types, trunk)
        return counted_grid(self.cluster, choice.job, choice.nodes(self.cluster, widest), level)


def _recounted(part: CertifiedPart, grids: _Grids, solve: SolverCheck | None, effort: Effort) -> RecountedPart:
    if fault := _stranger(part, grids.cluster, grids.job):
        return RecountedPart(part, fault=fault)
    trunk = grids.cluster.trunks.domains.index(part.trunk) if grids.cluster.trunks is not None else None
    grid = grids.of(part.gpu_types, part.gpus_per_node, trunk, grids.widest(part.slowest), part.level)
    if grid is None:
        return RecountedPart(part, no_grid=True)
    if fault := _difference(part, grid):
        return RecountedPart(part, fault=fault)
    pairs = []
    for one in part.refuted:
        pair = Spread(one.dp, one.pp)
        found = recount(grid, pair, one.by, one.witness, effort)
        if found.told == "not told" and solve is not None:
            found = solve(grid, pair)
        pairs.append((pair, found))
    return RecountedPart(part, tuple(pairs))


def _stranger(part: CertifiedPart, cluster: Cluster, job: Job) -> str:
    """Return which nodes a part names that the cluster and the job do not have; empty = none."""
    trunks = () if cluster.trunks is None else cluster.trunks.domains
    if (part.trunk or trunks) and part.trunk not in trunks:
        return f"the cluster has no trunk {part.trunk!r}"
    if part.level not in (one.name for one in cluster.levels):
        return f"the cluster has no level {part.level!r} in its tree"
    if not set(part.gpu_types) <= set(cluster.gpu_types) or not part.gpu_types:
        return f"the cluster has not the types of GPU {', '.join(part.gpu_types)}"
    if any(part.gpus_per_node not in sizes_on(job, name) for name in part.gpu_types):
        return f"the job does not go on nodes of {part.gpus_per_node} GPUs of its types"
    return ""


def _difference(part: CertifiedPart, grid: CountedGrid) -> str:
    """Return where a part differs from what was recounted; empty = nowhere."""
    if (part.rows, part.columns) != (grid.rows, grid.columns):
        claimed = f"{part.rows} x {part.columns}"
        return f"it is about a grid of {claimed}, and that of the job is {grid.rows} x {grid.columns}"
    if len(part.capacities) != len(grid.capacities):
        return f"it counts {len(part.capacities)} domains with room, and the cluster has {len(grid.capacities)}"
    differ = [(said, found) for said, found in zip(part.capacities, grid.capacities, strict=True) if said != found]
    if not differ:
        return ""
    said, found = differ[0]
    more = f" ({len(differ) - 1} more)" if len(differ) > 1 else ""
    return f"it counts room for {said} cells in a domain that has room for {found}{more}"
