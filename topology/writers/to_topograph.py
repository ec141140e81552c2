"""The ``graph`` JSON of NVIDIA Topograph."""

from __future__ import annotations

import json

from topology.cluster import Cluster
from topology.writers.to_slurm import forest_of
from topology.writers.types import Rendering, bare_tree_losses


class TopographWriter:
    """Writer of Topograph's graph: instances with the switches above them, from close to broad."""

    name = "topograph"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as JSON, one instance a line."""
        forest = forest_of(cluster)
        instances = (
            json.dumps({"id": name, "network_layers": forest.path(node)[::-1]}, ensure_ascii=False)
            for node, name in enumerate(cluster.names)
        )
        text = '{\n  "instances": [\n    ' + ",\n    ".join(instances) + "\n  ]\n}\n"
        return Rendering(text, bare_tree_losses(cluster, self.name) + forest.notes)
