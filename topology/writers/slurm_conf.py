"""Slurm's ``topology.conf`` for topology/tree."""

from __future__ import annotations

from topology.cluster import Cluster
from topology.hostlist import check_name, fold_hostlist
from topology.writers.forest import forest_notes, forest_of
from topology.writers.losses import bare_tree_losses
from topology.writers.types import Rendering


class SlurmConfWriter:
    """Writer of ``topology.conf``."""

    name = "slurm-conf"

    def write(self, cluster: Cluster) -> Rendering:
        """The cluster as lines of ``SwitchName=``, broad switches first.

        :raises InvalidInput: a name that Slurm cannot carry.
        """
        forest = forest_of(cluster)
        switches = forest.switches()
        lines = []
        for switch in switches:
            check_name(switch.name)
            key, below = ("Switches", switch.children) if switch.children else ("Nodes", switch.nodes)
            lines.append(f"SwitchName={switch.name} {key}={fold_hostlist(below)}\n")
        return Rendering("".join(lines), bare_tree_losses(cluster, self.name) + forest_notes(forest, switches))
