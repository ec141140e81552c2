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
from scheduler.objective import TOLERANCE, Evaluation, evaluate
from scheduler.outcome import Outcome
from scheduler.placement.admission import admissible
from topology.errors import InvalidPlacement
from topology.quantities import decimal, number

if TYPE_CHECKING:
    from topology.cluster import BoolArray, Cluster, FloatArray, IntArray


def pulls_of(cluster: Cluster, job: Job) -> FloatArray | None:
    """Return shape [nodes], GB of the job's images that each node does not have; ``None`` = it names none, or no node is
    known to have any.
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

    :param pulls: shape [nodes], GB that each would pull.
    :param again: the same question on another cluster.
    """
    if found.gpus_per_node is not None:
        job = job.replace(gpus_per_node=found.gpus_per_node, node_sizes=())
    nodes, cold, why = found.proposal.nodes, pulls > 0.0, ""
    if found.evaluation is None or nodes is None:
        return found
    if found.proposal.lower_bound is not None and cold[nodes].any():
        found = _with_nodes(cluster, job, found, _given_way(cluster, job, nodes, pulls))
        if _coldness(found, cold) and np.count_nonzero(admissible(cluster, job) & ~cold) >= nodes.size:
            warm = again(cluster.with_busy(np.flatnonzero(cold)))
            found = _with_nodes(cluster, job, found, warm.proposal.nodes)
            why = "" if warm.evaluation is None else f"; on warm nodes alone the objective is {_worth(warm.evaluation)}"
    count = _coldness(found, cold)
    if not count:
        return found
    most = float(pulls[found.proposal.nodes].max())
    note = f"{count:,} of {nodes.size:,} nodes would pull {'up to ' if count > 1 else ''}{number(most)} GB{why}."
    return replace(found, notes=(*found.notes, note))


def _worth(evaluation: Evaluation) -> str:
    return f"{decimal(evaluation.objective)} (DP spread {evaluation.dp}, PP spread {evaluation.pp})"


def _coldness(outcome: Outcome, cold: BoolArray) -> int:
    return int(np.count_nonzero(cold[outcome.proposal.nodes]))


def _with_nodes(cluster: Cluster, job: Job, found: Outcome, nodes: IntArray | None) -> Outcome:
    """Return an outcome with other nodes, if they are as good in everything that is counted; else as it was."""
    if nodes is None or found.evaluation is None:
        return found
    try:
        worth = evaluate(cluster, job, nodes)
    except InvalidPlacement:
        return found
    if not _as_good(cluster, worth, found.evaluation):
        return found
    return replace(found, proposal=replace(found.proposal, nodes=nodes), evaluation=worth)


def _as_good(cluster: Cluster, new: Evaluation, old: Evaluation) -> bool:
    """Return whether a placement has the same spreads, none larger at any level, and no more or slower slow nodes."""
    same = (new.dp, new.pp, new.gpu_types) == (old.dp, old.pp, old.gpu_types)
    spreads = ((new.by_level[level][family], most) for level, by in old.by_level.items() for family, most in by.items())
    slowest = [max((cluster.slowdown[node] for node in one.flagged), default=1.0) for one in (new, old)]
    return (
        same
        and new.objective <= old.objective + TOLERANCE
        and all(least <= most for least, most in spreads)
        and len(new.flagged) <= len(old.flagged)
        and slowest[0] <= slowest[1]
    )


def _given_way(cluster: Cluster, job: Job, nodes: IntArray, pulls: FloatArray) -> IntArray:
    """Return a placement whose cold nodes gave way to usable ones that pull less, alike in all that is counted: domain,
    second hierarchies, type of GPU and slowdown.
    """
    used = np.zeros(len(cluster), dtype=np.bool_)
    used[nodes] = True
    usable = np.flatnonzero(admissible(cluster, job) | used)
    closest = [cluster.levels[-1].domain_of] if cluster.levels else []
    alike: list[IntArray | FloatArray] = [
        *closest,
        *(level.domain_of for level in cluster.second_levels),
        cluster.gpu_type_of,
        cluster.slowdown,
    ]
    kinds = np.array([one[usable] for one in alike], dtype=np.float64)
    kind = np.unique(kinds, axis=1, return_inverse=True)[1].ravel()
    # of each kind as many as before: those that pull least, of equals those in use
    order = np.lexsort((~used[usable], pulls[usable], kind))
    place = np.empty(len(usable), dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(np.bincount(kind))])
    place[order] = np.arange(len(usable)) - first[kind[order]]
    chosen = place < np.bincount(kind, weights=used[usable])[kind]
    renamed = np.arange(len(cluster), dtype=np.int32)
    given, taken = (np.flatnonzero(one) for one in (used[usable] & ~chosen, chosen & ~used[usable]))
    by_kind = np.argsort(kind[given], kind="stable"), np.argsort(kind[taken], kind="stable")
    renamed[usable[given[by_kind[0]]]] = usable[taken[by_kind[1]]]
    return renamed[nodes]
