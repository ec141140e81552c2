"""What Slurm says of its nodes alone, as the cluster.

Since 25.05 each node may say where it is, ``Topology=default:root:spine-1:leaf-2``: the switches above it, broad to
close, in one topology or in several (``tree:leaf-2,blocks:b1``), of which one is read.  Where none says it
(``topology/flat``) all nodes are one level.  States are read as of a list of ``--busy``.  Source: slurm.conf(5).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from topology.errors import InvalidInput, InvalidTopology, did_you_mean, some
from topology.file_format import FileFormat
from topology.files import Source
from topology.readers.placed_nodes import ONE_LEVEL, PlacedNode, place_nodes
from topology.readers.types import Reading
from topology.slurm.slurm_snapshot import read_snapshot

_GAP = r"(?:[ \t]++(?:\n[ \t]++)?|\n[ \t]++)"
_OF_RECORDS = r"(?:(?:CPUAlloc|CfgTRES|Partitions|BootTime)=|State=(?:IDLE|ALLOC|MIX|RESERVED|PLANNED|COMPLETING))"
_RECORD = re.compile(rf"^[ \t]*NodeName=\S+(?:{_GAP}(?!{_OF_RECORDS})\S++)*+{_GAP}{_OF_RECORDS}", re.MULTILINE)
"""A node as scontrol prints it, on one line or on several, of which all but the first are indented: with a key or
a state that a line of slurm.conf, which begins alike, never has.
"""
_JSON = re.compile(r'"(?:sinfo"\s*:\s*\[|slurmd_start_time"\s*:)')


@dataclass(frozen=True, slots=True)
class SlurmListing:
    """Reader of Slurm's nodes without a topology, or with the places that they say themselves."""

    topology: str = ""  # the one to read of several; empty = the one that most nodes are in

    format: ClassVar = FileFormat(
        "slurm-nodes",
        source="Slurm's nodes: records of `NodeName=`, or JSON",
        export="`scontrol show nodes`, with `--json` or without",
        read="nodes, where they say they are (`Topology=`, 25.05), their states, GPUs and types of GPU",
        left_out="nodes without GPUs, as long as others have some; processors, memory; all topologies but one",
        marks=("nodename=", "cpualloc="),
    )
    chooses_levels: ClassVar = False

    def choosing(self, topology: str) -> SlurmListing:
        """Return a reader that reads the topology of that name."""
        return SlurmListing(topology)

    def recognises(self, head: str) -> bool:
        """Return whether nodes are described as scontrol prints them, or sinfo as JSON."""
        return bool(_RECORD.search(head) or _JSON.search(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read nodes and where they are."""
        snapshot = read_snapshot(source, ())
        rows = {row.name: row for row in (snapshot and snapshot.nodes) or ()}
        if not rows:
            none, fix = "lists no node with its state", "give what `scontrol show nodes` prints"
            raise InvalidInput(none, where=source.name, fix=fix)
        notes = []
        if any(row.gpus is not None and row.gpus.physical for row in rows.values()):
            if bare := [name for name, row in rows.items() if row.gpus is not None and not row.gpus.physical]:
                notes.append(f"nodes without GPUs, left out: {some(bare)}")
            rows = {name: row for name, row in rows.items() if row.gpus is None or row.gpus.physical}
        paths = {name: _paths(row.topology, row.place) for name, row in rows.items()}
        counts = Counter(topology for path in paths.values() for topology in path)
        chosen = self._chosen(counts, paths, source) if counts else ""
        if counts:
            several = f", of {some([*counts])}" if len(counts) > 1 else ""
            notes.append(f"levels are the switches above the nodes in the topology {chosen}{several}")
            if outside := [name for name, path in paths.items() if chosen not in path]:
                notes.append(f"below no switch of the topology {chosen}: {some(outside)}")
        else:
            notes.append("no node says where it is (Topology=), so all are one level")
        depth = max((len(path.get(chosen, ())) for path in paths.values()), default=0)
        names = [f"level-{i}" for i in range(depth)] or [ONE_LEVEL]
        placed = []
        for name, row in rows.items():
            switches = paths[name].get(chosen, ()) if counts else (ONE_LEVEL,)
            path = (*switches, *[""] * (len(names) - len(switches)))
            gpus = None if row.gpus is None else row.gpus.physical or None
            placed.append(PlacedNode(name, path, gpus, row.gpu_type))
        places = [row.place for row in rows.values()]
        reading = place_nodes(names, placed, where=places.__getitem__, notes=notes)
        return Reading(reading.cluster, reading.notes, has_states=True)

    def _chosen(self, counts: Counter[str], paths: Mapping[str, Mapping[str, tuple[str, ...]]], source: Source) -> str:
        """Return the topology to read: that of the partition, else of those that most nodes are in the deepest."""
        if self.topology and self.topology not in counts:
            none = f"no node is in the topology {self.topology!r}, which the partition has"
            fix = f"{did_you_mean(self.topology, counts)}choose another --partition; topologies: {', '.join(counts)}"
            raise InvalidTopology(none, where=source.name, fix=fix)
        depths = {name: max(len(path.get(name, ())) for path in paths.values()) for name in counts}
        return self.topology or max(counts, key=lambda name: (counts[name], depths[name]))


def _paths(topology: str, place: str) -> dict[str, tuple[str, ...]]:
    """Return the switches above a node, broad to close, in each topology that it says."""
    paths = {}
    for part in topology.split(",") if topology not in ("", "(null)", "N/A") else ():
        name, *switches = part.split(":")
        if not name or not all(switches) or not switches:
            wrong = f"{part[:60]!r} is no place in a topology"
            raise InvalidInput(wrong, where=place, fix="write TOPOLOGY:SWITCH:SWITCH, such as default:spine-1:leaf-2")
        paths[name] = tuple(switches)
    return paths
