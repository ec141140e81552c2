"""The nodes with GPUs as arrays: the tree they hang in, made anew only when nodes or their places change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.fleet.hosts import Host
from topology.build import build_cluster, qualified
from topology.cluster import Cluster, Node
from topology.errors import ArnoldError
from topology.readers.kubernetes_labels import check_labels, choose_labels

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about one node, or the whole fleet, that an operator should mend; the reason is one word."""

    reason: str
    message: str
    fix: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class FleetTable:
    """The tree."""

    hosts: tuple[Host, ...]  # nodes with GPUs, by name
    index_of: Mapping[str, int]
    tree: Cluster | None  # all of them, none in use and without flags; None when there are none
    unplaced: tuple[BoolArray, ...]  # for each level, shape [nodes], the nodes without its label
    sentence: str  # which labels are the levels, and why
    problems: tuple[Problem, ...]


def make_table(hosts: Sequence[Host], levels: Sequence[str] | None) -> FleetTable:
    """Return the tree of nodes with GPUs; without levels, those of the preset that most nodes carry are taken."""
    rows = sorted(hosts, key=lambda host: host.name)
    labels = [host.labels for host in rows]
    problems: list[Problem] = []
    chosen, sentence = _levels(labels, levels, problems)
    paths, _ = qualified([tuple(host.labels.get(label, "") for label in chosen) for host in rows])
    tree = None
    try:
        if rows:
            nodes = (Node(host.name, path, host.gpus, host.gpus) for host, path in zip(rows, paths, strict=True))
            tree = build_cluster(chosen, nodes)
    except ArnoldError as error:
        problems.append(Problem("InvalidTopology", error.message, error.fix))
    unplaced = tuple(np.array([not host.labels.get(label) for host in rows], dtype=np.bool_) for label in chosen)
    for label, missing in zip(chosen, unplaced, strict=True):
        lacking = [host.name for host, lacks in zip(rows, missing, strict=True) if lacks]
        if lacking:
            problems.append(_unlabelled(label, lacking, len(labels)))
    index_of = {host.name: i for i, host in enumerate(rows)}
    return FleetTable(tuple(rows), index_of, tree, unplaced, sentence, tuple(problems))


def _levels(
    labels: Sequence[Mapping[str, str]], levels: Sequence[str] | None, problems: list[Problem]
) -> tuple[tuple[str, ...], str]:
    """Return labels that are levels, those that no node carries left out."""
    if not labels:
        return (), "no node with GPUs yet"
    if levels is None:
        try:
            return choose_labels(labels)
        except ArnoldError as error:
            problems.append(Problem("NoTopology", error.message, error.fix))
            return (), error.message
    known: list[str] = []
    for label in levels:
        try:
            known += check_labels([label], labels)
        except ArnoldError as error:
            problems.append(Problem("UnknownLevel", error.message, error.fix))
    return tuple(known), f"levels are the labels {', '.join(known) or '(none)'} (as configured)"


def _unlabelled(label: str, nodes: Sequence[str], total: int) -> Problem:
    named = ", ".join(nodes[:3]) + (", ..." if len(nodes) > 3 else "")
    return Problem(
        "UnlabelledNodes",
        f"{len(nodes)} of {total} GPU nodes have no label {label} ({named}): gangs that count it cannot use them",
        f"label them, or start Arnold with other --levels than {label}",
    )
