"""Where Kubernetes nodes are: by labels, by HyperNodes of Volcano, or by a Topology of Kueue that says which labels.

What the user names counts first, then HyperNodes, which say it node by node, then a Topology, then the presets of
:mod:`topology.kubernetes.kubernetes_labels`.  Nodes of which nothing says it are near to each other alike: one
level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topology.build import NodePath, qualified
from topology.cluster import MAX_LEVELS
from topology.errors import InvalidTopology
from topology.kubernetes.kubernetes_labels import check_labels, choose_labels
from topology.kubernetes.kubernetes_objects import NamedObject, Object, Place
from topology.readers.kubernetes.hyper_nodes import HyperNode, hyper_paths
from topology.readers.placed_nodes import ONE_LEVEL

HOSTNAME = "kubernetes.io/hostname"  # The label with a node's own name, of which a level would tell nothing


class _TopologyLevel(Object, frozen=True):
    node_label: str = ""


class _TopologySpec(Object, frozen=True):
    levels: list[_TopologyLevel] | None = None


class KueueTopology(NamedObject, frozen=True):
    """A Topology of Kueue (kueue.x-k8s.io): labels of nodes, from broad to close."""

    spec: _TopologySpec = _TopologySpec()

    @property
    def node_labels(self) -> tuple[str, ...]:
        """The labels, but for that of the node itself."""
        found = (level.node_label for level in self.spec.levels or ())
        return tuple(label for label in found if label not in ("", HOSTNAME))


@dataclass(frozen=True, slots=True)
class Sayings:
    """What a file says of places besides the labels of nodes."""

    hyper_nodes: Sequence[tuple[Place, HyperNode]] = ()
    topologies: Sequence[KueueTopology] = ()


@dataclass(frozen=True, slots=True)
class Places:
    """Levels, and the domain of each node at each of them."""

    levels: tuple[str, ...]
    paths: list[NodePath]
    notes: list[str] = field(default_factory=list)


def find_places(
    nodes: Sequence[tuple[str, Mapping[str, str]]], asked: Sequence[str] | None, sayings: Sayings
) -> Places:
    """Return where nodes are.

    :param nodes: the name of each, and its labels.
    :param asked: labels from broad to close that the user takes as levels; ``None`` = what the file says.
    :raises UnknownName: no node carries one of these labels.
    :raises InvalidTopology: the HyperNodes are no tree.
    """
    labels = [of_node for _, of_node in nodes]
    if asked is not None:
        return _by_labels(check_labels(asked[: MAX_LEVELS + 1], labels), labels, [])
    if sayings.hyper_nodes:
        levels, paths, notes = hyper_paths(sayings.hyper_nodes, dict(nodes))
        return Places(levels, [paths[name] for name, _ in nodes], notes)
    for topology in sayings.topologies:
        carried = [label for label in topology.node_labels if any(label in node for node in labels)]
        if carried:
            note = f"levels are the labels {', '.join(carried)} (Kueue's Topology {topology.name})"
            return _by_labels(tuple(carried), labels, [note])
    try:
        chosen, note = choose_labels(labels)
    except InvalidTopology as error:
        note = f"{error.message}, so all are one level; to name labels from broad to close: --levels LABEL,LABEL"
        return Places((ONE_LEVEL,), [(ONE_LEVEL,) for _ in labels], [note])
    return _by_labels(chosen, labels, [note])


def _by_labels(chosen: tuple[str, ...], labels: Sequence[Mapping[str, str]], notes: list[str]) -> Places:
    paths, repeated = qualified([tuple(node.get(label, "") for label in chosen) for node in labels])
    notes += [
        f"values of {label} below several broader domains, each place a domain of its own: {count}"
        for label, count in zip(chosen, repeated, strict=True)
        if count
    ]
    return Places(chosen, paths, notes)
