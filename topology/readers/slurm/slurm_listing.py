"""What Slurm says of its nodes alone, as the cluster: without a topology (``topology/flat``) all nodes are one level.

States, GPUs and their types are read as of a list of ``--busy``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from topology.build import build_cluster
from topology.cluster import DEFAULT_GPUS, Node
from topology.errors import InvalidInput
from topology.file_format import FileFormat
from topology.files import Source
from topology.node_list import read_node_list, with_gpus, with_node_list, with_types
from topology.readers.placed_nodes import ONE_LEVEL
from topology.readers.types import Reading
from topology.slurm.slurm_nodes import slurm_nodes

# as scontrol prints a node, on one line or several; a line of slurm.conf has no CPUAlloc
_RECORD = re.compile(r"^[ \t]*NodeName=\S+\s+(?:Arch=\S+\s+)?CoresPerSocket=\d+\s+CPUAlloc=", re.MULTILINE)
_JSON = re.compile(r'"(?:sinfo"\s*:\s*\[|slurmd_start_time"\s*:)')


class SlurmListing:
    """Reader of Slurm's nodes without a topology."""

    format = FileFormat(
        "slurm-nodes",
        source="Slurm's nodes where it has no topology (`topology/flat`): records of `NodeName=`, or JSON",
        export="`scontrol show nodes`, with `--json` or without",
        read="nodes, their states, GPUs and types of GPU; all nodes are one level",
        left_out="nodes without GPUs, as long as others have some; processors, memory, partitions",
        marks=("nodename=", "cpualloc="),
    )
    chooses_levels = False

    def recognises(self, head: str) -> bool:
        """Return whether nodes are described as scontrol prints them, or sinfo as JSON."""
        return bool(_RECORD.search(head) or _JSON.search(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read nodes and how they are."""
        rows = {row.name: row for row in slurm_nodes(source, ()) or ()}
        if not rows:
            none, fix = "lists no node with its state", "give what `scontrol show nodes` prints"
            raise InvalidInput(none, where=source.name, fix=fix)
        nodes = [Node(name, (ONE_LEVEL,), DEFAULT_GPUS, DEFAULT_GPUS) for name in rows]
        places = [row.place for row in rows.values()]
        cluster = build_cluster([ONE_LEVEL], nodes, where=places.__getitem__).replace(gpus_assumed=True)
        listed = read_node_list(source, cluster)
        notes = ["Slurm's nodes without a topology, so all are one level"]
        if any(row.gpus is not None and row.gpus.physical for row in rows.values()):
            cluster, more = with_gpus(cluster, [listed], None, source="the topology")
            notes += more
        cluster, more = with_types(cluster, [listed], None, source="the topology")
        notes += more
        cluster, more = with_node_list(cluster, listed)
        return Reading(cluster, (*notes, *more))
