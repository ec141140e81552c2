"""Nodes that fail and heal, chosen at random."""

from __future__ import annotations

import random
from collections import Counter

from tests.e2e.harness.client import Client
from tests.e2e.harness.nodes import lose, nodes_of
from topology.cluster import Cluster

MOST = 12
"""Nodes that may be out of order at a time, so that there is room for gangs."""


class FailingNodes:
    """The nodes of a cluster that no tenant is on.

    :param counts: how often each thing happened, counted here.
    """

    def __init__(self, client: Client, cluster: Cluster, chance: random.Random, counts: Counter[str]) -> None:
        self._client = client
        self._chance = chance
        self._counts = counts
        self._as_made = {thing["metadata"]["name"]: thing for thing in nodes_of(cluster)}
        self._free = [row.name for row in cluster if row.free_gpus == row.gpus]
        self._failed: dict[str, None] = {}

    def fail(self) -> None:
        """A node is cordoned, tainted, not Ready, or gone."""
        name = self._chance.choice(self._free)
        how = self._chance.choice(("cordoned", "tainted", "not Ready", "deleted"))
        if name in self._failed or len(self._failed) >= MOST:
            return
        self._failed[name] = None
        self._counts[f"nodes {how}"] += 1
        if how == "cordoned":
            self._client.patch("nodes", name, {"spec": {"unschedulable": True}})
        elif how == "tainted":
            taint = {"key": "tests/maintenance", "effect": "NoSchedule"}
            self._client.patch("nodes", name, {"spec": {"taints": [taint]}})
        elif how == "not Ready":
            lose(self._client, name)
        else:
            self._client.delete("nodes", name)

    def heal(self) -> None:
        """A node that failed is as it was made."""
        if not self._failed:
            return
        name = self._chance.choice(sorted(self._failed))
        del self._failed[name]
        self._counts["nodes healed"] += 1
        if self._client.find("nodes", name) is None:
            self._client.create(self._as_made[name])
            return
        conditions = self._as_made[name]["status"]["conditions"]
        self._client.patch("nodes", name, {"spec": {"unschedulable": None, "taints": None}})
        self._client.patch("nodes", name, {"status": {"conditions": conditions}}, subresource="status")

    def heal_all(self) -> None:
        """All nodes are as they were made."""
        while self._failed:
            self.heal()
