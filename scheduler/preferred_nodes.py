"""A tie-break among placements that are equally good: the one on preferred nodes, as far as one is found.

Weights of nodes say which are preferred, for whatever reason: data that is there already, say.  They never cost
anything: a placement is taken for its nodes only if its predicted step time, its objective and its spread at closer
levels are no worse.  So bound and proof of the objective hold as they are; that no placement as good has more weight is
not proved.

How: the nodes are put in order, the preferred first, and the shortest beginning of that order is sought on which the
algorithm still finds as good a placement.  Whatever fits on a beginning fits on a longer one, so halving finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, log2

import numpy as np

from scheduler.job import Job
from scheduler.placement.admission import admissible
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal
from scheduler.trunks import LEAST_SECONDS, WeighedProposal, propose, weighed
from scheduler.work_clock import clock
from topology.cluster import Cluster, FloatArray, IndexArray, IntArray


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """An algorithm that heeds weights of nodes as well, made from one that knows of none."""

    algorithm: PlacementAlgorithm
    weights: Mapping[str, float]  # by name of the node, above 0; of others 0
    words: str  # what is said of a node with a weight, after "16 of 24 nodes": "share data with ..."

    @property
    def name(self) -> str:
        """Name of the algorithm."""
        return self.algorithm.name

    @property
    def summary(self) -> str:
        """Summary of the algorithm."""
        return self.algorithm.summary

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """Propose what the algorithm does, on nodes of more weight where that costs nothing and time is left."""
        end = clock() + limits.seconds
        found = propose(self.algorithm, cluster, job, limits)
        weights = np.array([self.weights.get(name, 0.0) for name in cluster.names])
        first = _weighed(cluster, job, found)
        if found.nodes is None or first.evaluation is None or not weights.any():
            return found
        nodes = self._preferred(cluster, job, limits, first=first, weights=weights, end=end)
        before, now = (int(np.count_nonzero(weights[which])) for which in (found.nodes, nodes))
        than = f", {before} of them where nothing is preferred" if before != now else ""
        note = f"{now} of {nodes.size} nodes {self.words}{than}."
        return replace(found, nodes=nodes, notes=(*found.notes, note))

    def _preferred(
        self, cluster: Cluster, job: Job, limits: Limits, *, first: WeighedProposal, weights: FloatArray, end: float
    ) -> IntArray:
        """Return the nodes of the best placement found, shape [rows, columns]; those of the first at worst."""
        best = first.proposal.nodes
        assert best is not None
        order = _order(cluster, job, best, weights)
        low, high = best.size, len(order)
        if weights[best].sum() >= weights[order[:low]].sum():
            return best
        # most often the preferred nodes alone decide: with them, or not at all
        length = max(low, int(np.count_nonzero(weights[order])))
        while low < high and clock() < end:
            seconds = max(LEAST_SECONDS, (end - clock()) / ceil(log2(high - low) + 1))
            free = np.zeros_like(cluster.free_gpus)
            free[order[:length]] = cluster.free_gpus[order[:length]]
            asked = cluster.replace(free_gpus=free)
            other = _weighed(cluster, job, propose(self.algorithm, asked, job, replace(limits, seconds=seconds)))
            nodes = other.proposal.nodes
            if nodes is not None and _as_good(other, first, limits):
                high = length
                best = nodes if weights[nodes].sum() > weights[best].sum() else best
            else:
                low = length + 1
            length = (low + high) // 2
        return best


def _weighed(cluster: Cluster, job: Job, proposal: Proposal) -> WeighedProposal:
    return weighed(cluster, job, np.arange(len(cluster), dtype=np.int32), proposal)


def _as_good(other: WeighedProposal, first: WeighedProposal, limits: Limits) -> bool:
    """Return whether a placement is no worse; closer levels count unless no care is taken of them."""
    # the step time and the objective
    counted = 2 if limits.told == "spread" else None
    return other.rank[:counted] <= first.rank[:counted]


def _order(cluster: Cluster, job: Job, used: IntArray, weights: FloatArray) -> IndexArray:
    """Return the nodes that a job may have, those with the largest weight first; of equal ones those in domains with
    the largest weight in all, so that domains are left out whole, and of these the nodes that are used.
    """
    usable = np.flatnonzero(admissible(cluster, job))
    keys: list[FloatArray | IndexArray | IntArray] = [-weights[usable]]
    for level in cluster.levels:
        domain_of = level.domain_of[usable]
        keys += [-np.bincount(domain_of, weights[usable], minlength=len(level))[domain_of], domain_of]
    # lexsort sorts by its last key first
    return usable[np.lexsort((~np.isin(usable, used), *reversed(keys)))]
