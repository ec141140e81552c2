"""Configuration of a cluster of kind (kind.sigs.k8s.io): workers with their labels, as tests of Kueue have them.

A Topology of Kueue in the same file says which labels are levels.  The control plane is left out; workers are called as
kind calls them: ``kind-worker``, ``kind-worker2``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from topology.build import build_cluster, with_second_levels
from topology.cluster import DEFAULT_GPUS, Node
from topology.errors import InvalidInput, InvalidTopology
from topology.file_format import FileFormat
from topology.files import Source
from topology.kubernetes.kubernetes_objects import KIND_CLUSTER, Kinds, read_items
from topology.parsing.documents import load_document
from topology.readers.kubernetes.kubernetes_places import KueueTopology, Sayings, find_places
from topology.readers.types import Reading

_KINDS: Kinds = {"Topology": KueueTopology}


class _Worker(BaseModel):
    role: str = "control-plane"
    labels: dict[str, str] = {}


class _Cluster(BaseModel):
    name: str = "kind"
    nodes: list[_Worker] = []


class KindCluster:
    """Reader of configurations of kind."""

    format = FileFormat(
        "kind",
        source="configuration of a kind cluster, with labels of place on its workers",
        export="the file of `kind create cluster --config`",
        read="workers and their labels; a Topology of Kueue in the same file says which are levels",
        left_out="the control plane, and everything else of the nodes",
        marks=("kind.x-k8s.io", "nodes:", "role:", "labels:"),
    )
    chooses_levels = True

    def recognises(self, head: str) -> bool:
        """Return whether kind's version of its API stands in the text."""
        return bool(KIND_CLUSTER.search(head))

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the workers; raise an error where ``levels`` names a label that none carries."""
        document = load_document(source, several=True)
        number = next((i for i, part in enumerate(document.data) if _is_cluster(part)), None)
        if number is None:
            none = "describes no cluster of kind"
            raise InvalidInput(none, where=source.name, fix="give apiVersion: kind.x-k8s.io/v1alpha4 and kind: Cluster")
        cluster = document.part(number).parse(_Cluster)
        several = len(document.data) > 1
        items = read_items(document, _KINDS, command="kubectl get topologies -o yaml") if several else ()
        topologies = [item for _, item in items if isinstance(item, KueueTopology)]
        at = [i for i, node in enumerate(cluster.nodes) if node.role == "worker"]
        if not at:
            where = document.where(number, "nodes")
            raise InvalidTopology("the cluster has no workers", where=where, fix="add nodes with role: worker")
        workers = [cluster.nodes[i] for i in at]
        names = [f"{cluster.name}-worker{count if count > 1 else ''}" for count in range(1, len(at) + 1)]
        labels: list[Mapping[str, str]] = [one.labels for one in workers]
        found = find_places(list(zip(names, labels, strict=True)), levels, Sayings(topologies=topologies))
        rows = [Node(name, path, DEFAULT_GPUS, DEFAULT_GPUS) for name, path in zip(names, found.paths, strict=True)]
        built = build_cluster(found.levels, rows, where=lambda row: document.where(number, "nodes", at[row]))
        built = with_second_levels(built, found.beside).replace(gpus_assumed=True, cut=found.cut)
        return Reading(built, found.notes, tuple(labels))


def _is_cluster(part: Any) -> bool:
    return isinstance(part, dict) and part.get("kind") == "Cluster" and "kind.x-k8s.io/" in str(part.get("apiVersion"))
