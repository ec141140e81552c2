"""Placement for replays that must be repeatable: large jobs exactly, small ones by a rule.

A search that ends with its time limit answers by the speed of the machine; a rule does not.  So jobs below a size go
by ``gpu-packing``, which packs each into as few minipods as possible, as production schedulers do; larger ones by the
exact algorithm with time enough to finish.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.job import Job
from scheduler.placement.registry import load_algorithm
from scheduler.placement.types import Limits, PlacementAlgorithm, Proposal
from topology.cluster import Cluster


@dataclass(frozen=True)
class BySize:
    """A placement algorithm made of two.

    :param least: nodes from which on a job is large.
    """

    least: int
    large: PlacementAlgorithm
    small: PlacementAlgorithm
    name: str = "by-size"
    summary: str = "large jobs exactly, small ones packed into as few minipods as possible"

    def place(self, cluster: Cluster, job: Job, limits: Limits) -> Proposal:
        """As one of the two does it.

        :raises InvalidJob: the job cannot be cut into nodes.
        :raises UnknownName: the job names a level that the cluster does not have.
        """
        chosen = self.large if job.grid.cells >= self.least else self.small
        return chosen.place(cluster, job, limits)


def by_size(least: int) -> BySize:
    """Exact from so many nodes on, gpu-packing below."""
    return BySize(least, load_algorithm("exact"), load_algorithm("gpu-packing"))
