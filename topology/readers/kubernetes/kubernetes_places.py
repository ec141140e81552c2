"""Where Kubernetes nodes are: by labels, by HyperNodes of Volcano, or by a Topology of Kueue that says which labels.

What the user names counts first, then HyperNodes, which say it node by node, then a Topology, then the presets of
:mod:`topology.kubernetes.kubernetes_labels`.  Nodes of which nothing says it are near to each other alike: one
level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from topology.cluster import MAX_LEVELS
from topology.errors import InvalidTopology
from topology.kubernetes.kubernetes_labels import (
    HOSTNAME,
    LabelledPlaces,
    check_labels,
    passed_over,
    places_by_labels,
)
from topology.kubernetes.kubernetes_objects import NamedObject, Object, Place
from topology.readers.kubernetes.hyper_nodes import HyperNode, hyper_paths
from topology.readers.placed_nodes import ONE_LEVEL


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


def find_places(
    nodes: Sequence[tuple[str, Mapping[str, str]]], asked: Sequence[str] | None, sayings: Sayings
) -> LabelledPlaces:
    """Return where nodes are.

    :param nodes: the name of each, and its labels.
    :param asked: labels from broad to close that the user takes as levels; ``None`` = what the file says.
    :raises UnknownName: no node carries one of these labels.
    :raises InvalidTopology: the HyperNodes are no tree.
    """
    labels = [of_node for _, of_node in nodes]
    if asked is not None:
        return places_by_labels(labels, check_labels(asked[: MAX_LEVELS + 1], labels))
    if sayings.hyper_nodes:
        levels, paths, notes = hyper_paths(sayings.hyper_nodes, dict(nodes))
        found = LabelledPlaces(levels, [paths[name] for name, _ in nodes], notes=tuple(notes))
        return found if len(levels) > 1 else replace(found, notes=(*notes, *passed_over(labels, ())))
    for topology in sayings.topologies:
        carried = [label for label in topology.node_labels if any(label in node for node in labels)]
        if carried:
            note = f"levels are the labels {', '.join(carried)} (Kueue's Topology {topology.name})"
            found = places_by_labels(labels, carried, note=note)
            return found if len(carried) > 1 else replace(found, notes=(*found.notes, *passed_over(labels, carried)))
    try:
        return places_by_labels(labels)
    except InvalidTopology as error:
        note = f"{error.message}, so all are one level; to name labels from broad to close: --levels LABEL,LABEL"
        return LabelledPlaces((ONE_LEVEL,), [(ONE_LEVEL,) for _ in labels], notes=(note, *passed_over(labels, ())))
