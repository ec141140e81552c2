"""Slurm's ``topology.conf`` and ``topology.yaml``, and the switches that formats without levels are written from.

Every domain becomes a switch with a unique name.  An implicit domain needs none, unless a domain with a name lies below
it: then it becomes a switch too, so that every other switch keeps its level.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topology.cluster import ROOT, BoolArray, Cluster, IntArray
from topology.hostlist import check_name, fold_hostlist
from topology.readers.slurm.switches import Switch
from topology.writers.types import Rendering, bare_tree_losses

SLURM_NAME_LENGTH = 64  # Longest switch name of Slurm, topology.conf(5)


@dataclass(frozen=True, slots=True)
class Forest:
    """The switches of a cluster."""

    cluster: Cluster
    names: tuple[tuple[str, ...], ...]  # for each level, the name of the switch of each domain; empty = it needs none
    levels_of_nodes: IntArray  # shape [nodes], depth of the switch each node hangs on; -1 = it hangs on none
    renamed: int  # number of domains that had to take another name

    def path(self, node: int) -> list[str]:
        """Return switches above a node, from broad to close."""
        depth = int(self.levels_of_nodes[node]) + 1
        levels = self.cluster.levels[:depth]
        return [names[level.domain_of[node]] for names, level in zip(self.names, levels, strict=False)]

    def switches(self) -> list[Switch]:
        """Return all switches, broad before close.

        Slurm wants a switch to hold either switches or nodes: nodes beside switches get a leaf switch of their own,
        ``NAME-nodes``, and so do nodes on no switch at all.
        """
        taken = {name for names in self.names for name in names}
        found: list[Switch] = []
        children = self._children()
        for depth, level in enumerate(self.cluster.levels):
            held = _grouped(level.domain_of, self.levels_of_nodes == depth, len(level))
            for number, name in enumerate(self.names[depth]):
                below, nodes = tuple(children[depth][number]), self._named(held[number])
                if name and below and nodes:
                    leaf = _unique(f"{name}-nodes", taken)
                    found += [Switch(name, (*below, leaf), ()), Switch(leaf, (), nodes)]
                elif name:
                    found.append(Switch(name, below, nodes))
        if (loose := np.flatnonzero(self.levels_of_nodes < 0)).size:
            found.append(Switch(_unique("root-nodes", taken), (), self._named(loose)))
        return found

    def _named(self, nodes: npt.NDArray[np.integer]) -> tuple[str, ...]:
        return tuple(self.cluster.names[i] for i in nodes)

    def _children(self) -> list[list[list[str]]]:
        """Return the names of the switches below, for each level and domain."""
        children: list[list[list[str]]] = [[[] for _ in names] for names in self.names]
        for depth in range(1, len(self.names)):
            parents = self.cluster.levels[depth].parent_of.tolist()
            for name, parent in zip(self.names[depth], parents, strict=True):
                if name:
                    children[depth - 1][parent].append(name)
        return children


def forest_of(cluster: Cluster) -> Forest:
    """Return the switches of a cluster, each called as its domain; with its level before where that name is taken."""
    # shape [domains] for each level: whether the domain has a name of its own or something below it has
    needed = [~level.implicit for level in cluster.levels]
    for depth in reversed(range(1, len(needed))):
        needed[depth - 1][cluster.levels[depth].parent_of[needed[depth]]] = True
    taken: set[str] = set()
    all_names: list[tuple[str, ...]] = []
    renamed = 0
    for depth, level in enumerate(cluster.levels):
        names = [""] * len(level)
        for number in np.flatnonzero(needed[depth]):
            wanted = domain = level.domains[number]
            if level.implicit[number]:
                wanted = f"{'root' if domain == ROOT else domain}-{level.name}"
            elif domain in taken:
                wanted = f"{level.name}-{domain}"
                renamed += 1
            names[number] = _unique(wanted, taken)
        all_names.append(tuple(names))
    hangs = np.full(len(cluster), -1, dtype=np.int32)
    for depth, level in enumerate(cluster.levels):
        hangs[needed[depth][level.domain_of]] = depth
    return Forest(cluster, tuple(all_names), hangs, renamed)


def _notes(forest: Forest, switches: Sequence[Switch]) -> Iterator[str]:
    """Yield what a user of Slurm should know about the switches."""
    if forest.renamed:
        yield f"switches with the name of their level put before, as the name alone was taken: {forest.renamed}"
    below = {child for switch in switches for child in switch.children}
    if (roots := sum(switch.name not in below for switch in switches)) > 1:
        yield f"{roots} switches have none above them: for jobs across them Slurm needs one more that joins them"
    if long := sum(len(switch.name) > SLURM_NAME_LENGTH for switch in switches):
        yield f"switch names longer than the {SLURM_NAME_LENGTH} characters that Slurm takes: {long}"


def _grouped(domain_of: IntArray, chosen: BoolArray, domains: int) -> list[npt.NDArray[np.integer]]:
    """Return the chosen nodes of each domain."""
    nodes = np.flatnonzero(chosen)
    order = nodes[np.argsort(domain_of[nodes], kind="stable")]
    counts = np.bincount(domain_of[nodes], minlength=domains)
    return np.split(order, np.cumsum(counts)[:-1])


def _unique(name: str, taken: set[str]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}-{number}", number + 1
    taken.add(candidate)
    return candidate


def _written(cluster: Cluster, format_name: str, entry: Callable[[str, bool, str], str]) -> Rendering:
    """Return the switches of a cluster as text, broad ones first.  ``entry`` makes that of one, out of its name,
    whether it holds switches, and the hostlist of what it holds.
    """
    forest = forest_of(cluster)
    switches = forest.switches()
    entries = []
    for switch in switches:
        check_name(switch.name)
        entries.append(entry(switch.name, bool(switch.children), fold_hostlist(switch.children or switch.nodes)))
    return Rendering("".join(entries), bare_tree_losses(cluster, format_name) + tuple(_notes(forest, switches)))


class SlurmConfWriter:
    """Writer of ``topology.conf``: lines of ``SwitchName=``."""

    name = "slurm-conf"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as text."""

        def line(name: str, inner: bool, below: str) -> str:
            return f"SwitchName={name} {'Switches' if inner else 'Nodes'}={below}\n"

        return _written(cluster, self.name, line)


class SlurmYamlWriter:
    """Writer of ``topology.yaml``.  All names are quoted, so that a switch called ``1e3`` or ``no`` stays a name."""

    name = "slurm-yaml"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as text."""

        def entry(name: str, inner: bool, below: str) -> str:
            # a double-quoted YAML string is what a JSON string is
            switch, held = (json.dumps(text, ensure_ascii=False) for text in (name, below))
            return f"    - switch: {switch}\n      {'children' if inner else 'nodes'}: {held}\n"

        found = _written(cluster, self.name, entry)
        head = "- topology: default\n  cluster_default: true\n  tree:\n    switches:\n"
        return Rendering(head + found.text, found.notes)
