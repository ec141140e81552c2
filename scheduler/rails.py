"""Rails: which groups of a job talk on one rail, and which cross from one to another.

A *rail* is the index of a network card within every node.  In a rail-optimised network cards of one index end on a leaf
switch of their own, so that all nodes below the same leaf switches are one domain, and two GPUs of equal place in their
nodes are one switch apart.  A rail is thus no set of nodes, and no choice of nodes brings a group onto one: that the
order of the parallelism decides.  Ranks fill nodes in order, and each GPU talks through the card next to it.

Source: Qian et al., Alibaba HPN (SIGCOMM 2024); NVIDIA, NCCL 2.12 (PXN: what crosses is passed on by NVLink first).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ground.records import AtLeastOne, JsonRecord
from scheduler.job import FAMILIES, Family, Job

if TYPE_CHECKING:
    from topology.cluster import Cluster, IntArray


class RailUse(JsonRecord):
    """How the groups of a job that take several nodes use the network cards of these."""

    rails: AtLeastOne
    """Network cards of each node; the GPUs of a node share them in order."""
    on_rail: tuple[Family, ...]
    """Families with groups on several nodes, all GPUs of each on one rail."""
    crossing: tuple[Family, ...]
    """Families with a group on several nodes whose GPUs are on several rails: its traffic crosses them, or is passed on
    inside nodes first."""

    @property
    def sentences(self) -> Iterator[str]:
        """Say it, a sentence for each of both kinds."""
        if self.on_rail:
            yield f"on one of {self.rails} rails each: groups of {', '.join(self.on_rail)}"
        if self.crossing:
            yield f"over several of {self.rails} rails: groups of {', '.join(self.crossing)}"


def rail_use(cluster: Cluster, job: Job, nodes: IntArray | None) -> RailUse | None:
    """Return how a placed job uses rails; ``None`` = of some node nothing says its network cards, or nodes differ.

    :param nodes: shape [rows, columns], index of the node of each cell; ``None`` = there is no placement.
    """
    if nodes is None or len(counts := {cluster.rails.get(node, 0) for node in nodes.ravel().tolist()}) > 1:
        return None
    if not (rails := counts.pop()):
        return None
    dense, expert, gpus = job.parallelism.dense, job.parallelism.expert, job.gpus_per_node
    of_family: dict[Family, IntArray] = {
        "tp": dense.groups("tp"),
        "cp": dense.groups("cp"),
        "ep": expert.groups("ep"),
        "dp": dense.groups("dp", "cp"),
        "pp": dense.groups("pp"),
    }
    on_rail: list[Family] = []
    crossing: list[Family] = []
    for family in FAMILIES:
        node, place = of_family[family] // gpus, of_family[family] % gpus
        # where there are more GPUs than cards, neighbours share one
        rail = place * min(rails, gpus) // gpus
        several = (node != node[:, :1]).any(axis=1)
        if several.any():
            (crossing if (rail != rail[:, :1])[several].any() else on_rail).append(family)
    return RailUse(rails, tuple(on_rail), tuple(crossing))
