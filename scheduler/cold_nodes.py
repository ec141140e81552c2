"""Cold nodes, which would pull some of a job's images: among placements worth the same, one that has few of them.

A gang starts when its slowest node does, so one cold node costs about as much as many.  It is one threshold, therefore,
as for slow nodes: if warm nodes alone give a placement that is as good, that is taken; else cold nodes give way to warm
ones of the same closest domain.  Either leaves all spreads, the objective and its proof as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scheduler.job import Job
from scheduler.objective import TOLERANCE, evaluate
from scheduler.outcome import Outcome
from scheduler.placement.admission import admissible
from topology.errors import InvalidPlacement
from topology.quantities import number

if TYPE_CHECKING:
    from topology.cluster import Cluster, FloatArray, IntArray


def pulls_of(cluster: Cluster, job: Job) -> FloatArray | None:
    """Return shape [nodes], GB of the job's images that each node does not have.

    :returns: ``None`` = the job names no image, or no node is known to have any.
    """
    if not (job.images and cluster.cached):
        return None
    pulls = np.zeros(len(cluster))
    for image in job.images:
        having = cluster.cached.get(image.name, frozenset())
        pulls += image.gb * np.array([name not in having for name in cluster.names])
    return pulls


def warm_first(
    cluster: Cluster, job: Job, found: Outcome, pulls: FloatArray, again: Callable[[Cluster], Outcome]
) -> Outcome:
    """Return an outcome with as few cold nodes as this finds, and a note on those that are left.

    An algorithm that claims no bound keeps to its own rule: there only the note is new.

    :param pulls: shape [nodes], GB that each would pull; ``again``: the same question on another cluster.
    """
    if found.gpus_per_node is not None:
        job = job.replace(gpus_per_node=found.gpus_per_node, node_sizes=())
    nodes, cold, why = found.proposal.nodes, pulls > 0.0, ""
    if nodes is not None and found.proposal.lower_bound is not None and cold[nodes].any():
        found = _with_nodes(cluster, job, found, _given_way(cluster, job, nodes, pulls))
        if np.count_nonzero(admissible(cluster, job) & ~cold) >= nodes.size and cold[found.proposal.nodes].any():
            warm = again(cluster.with_busy(np.flatnonzero(cold)))
            found = _with_nodes(cluster, job, found, warm.proposal.nodes)
            why = f"; on warm nodes alone: {warm.verdict}" if warm.evaluation is not None else ""
    each = pulls[found.proposal.nodes] if nodes is not None else pulls[:0]
    if not each.any():
        return found
    note = f"{np.count_nonzero(each):,} of {each.size:,} nodes would pull up to {number(float(each.max()))} GB{why}."
    return replace(found, notes=(*found.notes, note))


def _with_nodes(cluster: Cluster, job: Job, found: Outcome, nodes: IntArray | None) -> Outcome:
    """Return an outcome with other nodes, if they are as good in everything that is counted; else as it was."""
    if nodes is None or (old := found.evaluation) is None:
        return found
    try:
        new = evaluate(cluster, job, nodes)
    except InvalidPlacement:
        return found
    same = (new.dp, new.pp, new.gpu_types) == (old.dp, old.pp, old.gpu_types)
    spreads = (new.by_level[level][family] <= most for level, by in old.by_level.items() for family, most in by.items())
    slow = [(max(cluster.slowdown[[*one.flagged]], default=1.0), len(one.flagged)) for one in (new, old)]
    if not (same and new.objective <= old.objective + TOLERANCE and all(spreads) and slow[0] <= slow[1]):
        return found
    return replace(found, proposal=replace(found.proposal, nodes=nodes), evaluation=new)


def _given_way(cluster: Cluster, job: Job, nodes: IntArray, pulls: FloatArray) -> IntArray:
    """Return a placement whose cold nodes gave way to usable ones that pull less, alike in all that is counted: domain,
    second hierarchies, type of GPU and slowdown.
    """
    levels = [level.domain_of.tolist() for level in (*cluster.levels[-1:], *cluster.second_levels)]
    kinds = list(zip(*levels, cluster.gpu_type_of.tolist(), cluster.slowdown.tolist(), strict=True))
    spare = admissible(cluster, job)
    spare[nodes] = False
    left: dict[tuple[float, ...], list[int]] = {}
    for node in sorted(np.flatnonzero(spare).tolist(), key=lambda node: -float(pulls[node])):
        left.setdefault(kinds[node], []).append(node)
    renamed = np.arange(len(cluster), dtype=np.int32)
    for node in sorted(nodes.ravel().tolist(), key=lambda node: -float(pulls[node])):
        others = left.get(kinds[node])
        if others and pulls[others[-1]] < pulls[node]:
            renamed[node] = others.pop()
    return renamed[nodes]
