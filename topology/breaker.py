"""The breaker: no run takes more than a share of the nodes out by flags, unless a person says so.

Evidence that accuses a quarter of a cluster or half of a rack is seldom evidence against its nodes: a program that died
everywhere, a switch, a wrong file.  A cluster without these nodes runs no job, and nobody has looked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from topology.cluster import Cluster
from topology.errors import InvalidInput, some
from topology.flags import NodeFlag

CLUSTER_SHARE = 0.25  # Of the nodes of a cluster, or of a job where only its nodes are known
DOMAIN_SHARE = 0.5  # Of a minipod, a rack or whichever domain of a level
LEAST = 2  # Nodes that may always go, as two may fail by chance, however few there are
UNKNOWN = 4  # Nodes, where it is not known of how many


@dataclass(frozen=True, slots=True)
class Breaker:
    """What a run may take out of use: a share, and always two nodes."""

    nodes: int | None = None  # of the cluster or the job; None = not known
    cluster: Cluster | None = None  # where its domains are known, too

    def check(self, flags: Iterable[NodeFlag], *, before: Collection[str] = (), where: str) -> None:
        """Make sure that few enough nodes are out of use by flags.

        :param flags: that the run would write.
        :param before: nodes that were out before, which count; a run that adds none is never too much.
        :raises InvalidInput: it would take out too many.
        """
        faulty = {flag.node for flag in flags if flag.kind == "faulty"}
        if faulty <= {*before}:
            return
        out = faulty | {*before}
        if self.cluster is None:
            most = UNKNOWN if self.nodes is None else max(LEAST, int(CLUSTER_SHARE * self.nodes))
            if len(out) > most:
                raise _too_many(out, "an unknown number of" if self.nodes is None else f"{self.nodes}", where)
            return
        own = [node for node in sorted(out) if node in self.cluster.index_of]
        if len(own) > max(LEAST, int(CLUSTER_SHARE * len(self.cluster))):
            raise _too_many(own, str(len(self.cluster)), where)
        for level in self.cluster.levels:
            sizes = [0] * len(level)
            for domain in level.domain_of.tolist():
                sizes[domain] += 1
            lost: dict[int, list[str]] = {}
            for node in own:
                lost.setdefault(int(level.domain_of[self.cluster.index_of[node]]), []).append(node)
            for domain, names in lost.items():
                if len(names) > max(LEAST, int(DOMAIN_SHARE * sizes[domain])) and not faulty.isdisjoint(names):
                    raise _too_many(names, f"{sizes[domain]} (of {level.name} {level.domains[domain]})", where)


def _too_many(out: Collection[str], of: str, where: str) -> InvalidInput:
    wrong = f"{len(out)} of {of} nodes would be out of use by flags: {some(sorted(out))}"
    fix = "look at the evidence, which so seldom is against the nodes; --yes takes them out all the same"
    return InvalidInput(wrong, where=where, fix=fix)
