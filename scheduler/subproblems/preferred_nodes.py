"""Preferred nodes: a tie-break among placements that are equally good, by what each node costs beside the objective.

The cost of a node is the GB of images that it would pull minus the affinity of its data: full affinity weighs one GB.
It never buys anything: spreads, objective, speed, bound and status stay, and no closer level and no slow node is worse;
where a job may be on several types of GPU, it is among all that are worth the same.  That no placement as good costs
less is not proved.

How: nodes of the placement, and of that on each other type, give way to cheaper ones that are alike in all that is
counted.  Then nodes are put in order, the cheapest
first, and the shortest beginning of that order is sought on which the algorithm finds as good a placement.  Whatever
fits on a beginning fits on a longer one, so halving finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ground.quantities import number
from scheduler.job import Job
from scheduler.objective import TOLERANCE, Evaluation, slowest_in_use, worth_of
from scheduler.outcome import Instance, Outcome
from scheduler.subproblems.gpu_types import on_nodes
from scheduler.work_clock import clock, share_until

if TYPE_CHECKING:
    from topology.cluster import Cluster, FloatArray, IndexArray, IntArray


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


def cold_nodes(pulls: FloatArray) -> str:
    """Return how many nodes pull something, in words.

    :param pulls: GB that each node would pull.
    """
    return f"{np.count_nonzero(pulls):,} of {pulls.size:,} nodes would pull up to {number(float(pulls.max()))} GB"


class Preference(NamedTuple):
    """What is asked again on fewer nodes, and what nodes cost beside the objective."""

    instance: Instance
    costs: FloatArray  # shape [nodes]
    again: Callable[[Cluster, float], Outcome]  # the same question on another cluster, in so many seconds
    end: float  # on the clock of the work


def prefer(asked: Preference, found: Outcome) -> Outcome:
    """Return an outcome on nodes that cost as little as this finds in time, and notes on what they cost.

    An algorithm that claims no bound keeps to its own rule: there only the notes are new.
    """
    best, why = found, ""
    if found.proposal.lower_bound is not None and asked.costs.any():
        for which, nodes in _choices(asked, found):
            best = _with_nodes(asked, best, which, _given_way(asked, nodes))
        best, why = _on_a_beginning(asked, best)
    return replace(best, notes=(*best.notes, *_notes(asked, best, found, why)))


def _choices(asked: Preference, found: Outcome) -> Iterator[tuple[int, IntArray]]:
    """Yield the number of each choice of types, and its nodes where it has some."""
    for which, (_, outcome) in enumerate(found.by_type or [(asked.instance.job, found)]):
        if outcome.proposal.nodes is not None:
            yield which, outcome.proposal.nodes


def _job_on(asked: Preference, found: Outcome, which: int) -> Job:
    """Return the job as one for a choice of types, with the size of their nodes."""
    if found.by_type:
        return found.by_type[which][0]
    return asked.instance.job.replace(
        gpus_per_node=found.gpus_per_node or asked.instance.job.gpus_per_node, node_sizes=()
    )


def _on_a_beginning(asked: Preference, best: Outcome) -> tuple[Outcome, str]:
    """Return the best outcome on the shortest beginning of the order of nodes that has one as good, and what there is
    on the nodes alone that cost nothing, in words.
    """
    cluster, costs, nodes, why = asked.instance.cluster, asked.costs, best.proposal.nodes, ""
    assert nodes is not None
    order = _order(asked, nodes)
    fewest = min(_job_on(asked, best, which).grid.cells for which, _ in _choices(asked, best))
    low, high = fewest, int(np.isin(order, nodes).nonzero()[0].max()) + 1
    if costs[nodes].sum() <= costs[order[:low]].sum() + TOLERANCE:
        return best, why
    # most often the largest step of costs decides: warm nodes or cold ones, near data or not
    length = min(max(low, int(np.diff(costs[order]).argmax()) + 1), high - 1)
    while low < high and clock() < asked.end:
        free = np.zeros_like(cluster.free_gpus)
        free[order[:length]] = cluster.free_gpus[order[:length]]
        other = asked.again(cluster.replace(free_gpus=free), share_until(asked.end))
        if good := [one for one in _choices(asked, other) if _as_good(asked, best, *one)]:
            high = length
            for one in good:
                best = _with_nodes(asked, best, *one)
        else:
            low = length + 1
            if other.evaluation is not None and length == np.count_nonzero(costs[order] <= 0.0):
                why = f"; on warm nodes alone: {other.verdict}"
        length = (low + high) // 2
    return best, why


def _as_good(asked: Preference, found: Outcome, which: int, nodes: IntArray) -> Evaluation | None:
    """Return what a placement on a choice of types is worth if it is as good in everything that is counted."""
    job = _job_on(asked, found, which)
    old, new = found.evaluation, worth_of(asked.instance.cluster, job, nodes)
    if old is None or new is None or (new.dp, new.pp) != (old.dp, old.pp):
        return None
    one_type = len(new.gpu_types) == 1 or len(old.gpu_types) > 1
    fast = job.speed_on(new.gpu_types) == job.speed_on(old.gpu_types) and one_type
    spreads = (new.by_level[level][family] <= most for level, by in old.by_level.items() for family, most in by.items())
    slow = [(slowest_in_use(asked.instance.cluster, one), len(one.flagged)) for one in (new, old)]
    good = new.objective <= old.objective + TOLERANCE and fast and all(spreads) and slow[0] <= slow[1]
    return new if good else None


def _with_nodes(asked: Preference, found: Outcome, which: int, nodes: IntArray) -> Outcome:
    """Return an outcome with other nodes, on a choice of types, if they are as good and cost less; else as it was."""
    costs = asked.costs
    if costs[nodes].sum() >= costs[found.proposal.nodes].sum():
        return found
    worth = _as_good(asked, found, which, nodes)
    if worth is None:
        return found
    job = _job_on(asked, found, which)
    return on_nodes(found, which, cluster=asked.instance.cluster, job=job, nodes=nodes, worth=worth)


def _order(asked: Preference, used: IntArray) -> IndexArray:
    """Return the nodes that a job may have, the cheapest first; of equal ones those in domains that cost least in all,
    so that domains are left out whole, and of these the nodes that are used.
    """
    usable, costs = np.flatnonzero(asked.instance.usable), asked.costs
    keys: list[FloatArray | IndexArray | IntArray] = [costs[usable]]
    for level in asked.instance.cluster.levels:
        domain_of = level.domain_of[usable]
        keys += [np.bincount(domain_of, costs[usable], minlength=len(level))[domain_of], domain_of]
    # lexsort sorts by its last key first
    return usable[np.lexsort((~np.isin(usable, used), *reversed(keys)))]


def _given_way(asked: Preference, nodes: IntArray) -> IntArray:
    """Return a placement whose nodes gave way to cheaper usable ones, alike in all that is counted: domain, second
    hierarchies, type and number of GPUs, and slowdown.
    """
    cluster, costs = asked.instance.cluster, asked.costs
    levels = [level.domain_of.tolist() for level in (*cluster.levels[-1:], *cluster.second_levels)]
    counted = (cluster.gpu_type_of, cluster.gpus, cluster.slowdown)
    kinds = list(zip(*levels, *(one.tolist() for one in counted), strict=True))
    spare = asked.instance.usable.copy()
    spare[nodes] = False
    left: dict[tuple[float, ...], list[int]] = {}
    for node in sorted(np.flatnonzero(spare).tolist(), key=lambda node: -float(costs[node])):
        left.setdefault(kinds[node], []).append(node)
    renamed = np.arange(len(cluster), dtype=np.int32)
    for node in sorted(nodes.ravel().tolist(), key=lambda node: -float(costs[node])):
        others = left.get(kinds[node])
        if others and costs[others[-1]] < costs[node]:
            renamed[node] = others.pop()
    return renamed[nodes]


def _notes(asked: Preference, best: Outcome, plain: Outcome, why: str) -> list[str]:
    """Return what nodes would pull, and how many are near their data, a sentence each."""
    cluster, job = asked.instance.cluster, asked.instance.job
    pulls = pulls_of(cluster, job)
    pulls = np.maximum(asked.costs, 0.0) if pulls is None else pulls
    shared = pulls - asked.costs
    each, nodes, notes = pulls[best.proposal.nodes], best.proposal.nodes, []
    assert nodes is not None
    if each.any():
        notes.append(f"{cold_nodes(each)}{why}.")
    if shared.any():
        before, now = (int(np.count_nonzero(shared[one.proposal.nodes])) for one in (plain, best))
        than = f", {before:,} of them where nothing is preferred" if before != now else ""
        where = job.data_level or cluster.levels[-1].name
        most = f"(affinity up to {shared.max():.2f})"
        notes.append(
            f"{now:,} of {nodes.size:,} nodes share a {where} with a running job that reads the same data {most}{than}."
        )
    return notes
