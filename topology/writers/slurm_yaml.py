"""Slurm's ``topology.yaml``, one topology of the kind tree."""

from __future__ import annotations

import json

from topology.cluster import Cluster
from topology.hostlist import check_name, fold_hostlist
from topology.writers.forest import forest_notes, forest_of
from topology.writers.losses import bare_tree_losses
from topology.writers.types import Rendering

_HEAD = "- topology: default\n  cluster_default: true\n  tree:\n    switches:\n"


class SlurmYamlWriter:
    """Writer of ``topology.yaml``.  All names are quoted, so that a switch called ``1e3`` or ``no`` stays a name."""

    name = "slurm-yaml"

    def write(self, cluster: Cluster) -> Rendering:
        """The cluster as a list of switches, broad ones first.

        :raises InvalidInput: a name that Slurm cannot carry.
        """
        forest = forest_of(cluster)
        switches = forest.switches()
        entries = []
        for switch in switches:
            check_name(switch.name)
            key, below = ("children", switch.children) if switch.children else ("nodes", switch.nodes)
            entries.append(f"    - switch: {_quoted(switch.name)}\n      {key}: {_quoted(fold_hostlist(below))}\n")
        notes = bare_tree_losses(cluster, self.name) + forest_notes(forest, switches)
        return Rendering(_HEAD + "".join(entries), notes)


def _quoted(text: str) -> str:
    """A JSON string is a double-quoted YAML string."""
    return json.dumps(text, ensure_ascii=False)
