"""What ``arnold recover peers --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from arnold.documents.common import ClusterDoc, Document, cluster_doc
from arnold.documents.recover.common import MachineDoc, machine_doc
from health.recovery.checkpoint_peers import RULES, Peers, Rule
from topology.cluster import Cluster


class PeerDoc(MachineDoc):
    """A machine and the one that keeps its backup."""

    peer: int = Field(ge=0)
    """Node rank of the machine that keeps its backup; rank for rank, in the same order on both."""
    peer_node: str
    """Name of its node."""
    shares: list[Rule]
    """What the two share and should not: dp, level (the rack), pp; empty = nothing."""
    distance: int = Field(ge=0)
    """Levels broader than that of the rule at which the two are in different domains; 0 = as near as can be."""


class PeersDocument(Document):
    """Checkpoint peers of a job."""

    verdict: str
    """The assignment in a sentence."""
    level: str | None
    """The level of the rack; null = the cluster has no levels."""
    broken: dict[Rule, int]
    """For each rule the pairs that break it; fewer are impossible, in the order in which rules give way."""
    conflict: list[Rule]
    """The fewest rules that cannot be kept together; empty = all are kept."""
    relaxed_in_order: list[Rule]
    """The order in which rules give way."""
    distances: list[int]
    """Pairs by distance: as near as the rules allow."""
    mutual: int = Field(ge=0)
    """Machines that keep the backup of their own peer."""
    fatal_pairs: int = Field(ge=1)
    """Pairs of machines whose loss together loses a state and its backup."""
    peers: list[PeerDoc]
    """One row for each machine, by node rank."""
    notes: list[str]
    """What is worth knowing, one sentence each."""
    cluster: ClusterDoc
    """The cluster as it was read."""


def peers_document(
    peers: Peers, cluster: Cluster, *, source: str, level: str | None, verdict: str, notes: Sequence[str]
) -> PeersDocument:
    """The document of an assignment.

    :param source: name of the cluster's file.
    """
    machines = peers.machines
    distances = [0] * (int(peers.distance.max()) + 1)
    rows = []
    for machine, peer in enumerate(peers.peer.tolist()):
        distance = int(peers.distance[machine])
        distances[distance] += 1
        rows.append(
            PeerDoc(
                **machine_doc(machines, machine).model_dump(),
                peer=peer,
                peer_node=machines.name(peer),
                shares=[rule for rule in RULES if peers.shared[rule][machine]],
                distance=distance,
            )
        )
    return PeersDocument(
        verdict=verdict,
        level=level,
        broken={rule: int(peers.shared[rule].sum()) for rule in RULES},
        conflict=list(peers.conflict),
        relaxed_in_order=list(RULES),
        distances=distances,
        mutual=peers.mutual,
        fatal_pairs=peers.fatal_pairs,
        peers=rows,
        notes=list(notes),
        cluster=cluster_doc(cluster, source),
    )
