"""HyperNodes of Volcano without the nodes they are of: ``kubectl get hypernodes -o yaml``, or manifests.

With the nodes (``kubectl get nodes,hypernodes -o json``) the file is a list of Kubernetes nodes, with these levels.
Without them the nodes are those that HyperNodes name; what they choose by expressions or labels is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from topology.errors import InvalidTopology, some
from topology.file_format import FileFormat
from topology.files import Source
from topology.kubernetes.kubernetes_objects import HYPER_NODES_ALONE, Kinds, NodeObject, read_items
from topology.parsing.documents import load_document
from topology.readers.kubernetes.hyper_nodes import HyperNode, hyper_paths
from topology.readers.kubernetes.kubernetes_cluster import Kubernetes
from topology.readers.placed_nodes import PlacedNode, place_nodes
from topology.readers.types import Reading

_COMMAND = "kubectl get nodes,hypernodes -o json"
_KINDS: Kinds = {"HyperNode": HyperNode, "Node": NodeObject}


class Volcano:
    """Reader of HyperNodes."""

    format = FileFormat(
        "volcano",
        source="HyperNodes of Volcano",
        export="`kubectl get hypernodes -o yaml`",
        read="tiers, HyperNodes and the nodes that they name",
        left_out=f"members chosen by expressions or labels, which need the nodes: `{_COMMAND}`",
        marks=("hypernode", "tier", "members"),
    )
    chooses_levels = False

    def recognises(self, head: str) -> bool:
        """Return whether there are HyperNodes, and no nodes."""
        return bool(HYPER_NODES_ALONE.match(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read the HyperNodes; where nodes come after them, as a list of nodes."""
        document = load_document(source, several=True)
        items = list(read_items(document, _KINDS, command=_COMMAND))
        found = [(place, item) for place, item in items if isinstance(item, HyperNode)]
        if len(found) < len(items):
            return Kubernetes().read(source, levels=levels, now=now)
        places = {name: place for place, one in reversed(found) for name in one.exact_nodes()}
        names = list(dict.fromkeys(name for _, one in found for name in one.exact_nodes()))
        if not names:
            none, fix = "no HyperNode names a node", f"give the nodes too: {_COMMAND}"
            raise InvalidTopology(none, where=document.where(0), fix=fix)
        level_names, paths, notes = hyper_paths(found, {name: {} for name in names})
        if open_ended := [one.name for _, one in found if one.chooses_nodes]:
            notes.append(f"HyperNodes that choose nodes, which are not in the file ({_COMMAND}): {some(open_ended)}")
        nodes = [PlacedNode(name, paths[name]) for name in names]
        return place_nodes(level_names, nodes, where=lambda row: document.where(*places[names[row]]), notes=notes)
