"""Writers of topology formats, found through entry points: what each writes, and what it cannot carry of a cluster.

The cluster CSV has a row a node.  Slurm's ``topology.conf`` and ``topology.yaml`` are a tree of switches or blocks, and
so is what other formats without levels are written from.  As a tree every domain becomes a switch with a unique name.
An implicit domain needs none, unless a domain with a name lies below it: then it becomes a switch too, so that every
other switch keeps its level.

As blocks the domains of one level, the closest of NVLink where there is one, become base blocks.  Slurm joins a power
of two of them, one after another in the order of the file, to each larger block: the domains of a broader level become
larger blocks of one size, the smaller ones filled up by blocks without nodes.

Source: the manual pages topology.conf(5) and topology.yaml(5) of 24.11 to 26.05, and ``block_record.c``.
"""

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidTopology, some
from ground.plugins import PluginGroup
from topology.build import unique
from topology.cluster import DEFAULT_GPUS, ROOT, BoolArray, Cluster, IntArray, Level
from topology.flags import FAULTY, HEALTHY
from topology.node_names import check_name, fold_hostlist, outgrows_slurm
from topology.readers import cluster_csv
from topology.readers.slurm import Switch
from topology.taints import is_price, kept_out_by


@dataclass(frozen=True, slots=True)
class Rendering:
    """A cluster as text."""

    text: str
    notes: tuple[str, ...] = ()  # what the format could not carry, or only under another name; one sentence each


class TopologyWriter(Protocol):
    """Writes one format.  Registered as an entry point in the group ``arnold.topology_writers``: a class (or any
    callable without arguments) that makes an object with this face.
    """

    @property
    def name(self) -> str:
        """Name of the format, as in ``--to``."""

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster in this format; raise :class:`InvalidInput` for a name that the format cannot carry."""


TOPOLOGY_WRITERS: PluginGroup[TopologyWriter] = PluginGroup(
    "arnold.topology_writers", unknown="no topology format is written under the name", where="--to"
)
"""All formats that can be written."""


def bare_tree_losses(cluster: Cluster, format_name: str, *, as_blocks: bool = False) -> tuple[str, ...]:
    """Say what is lost in formats that carry the tree alone: no names of levels, no GPUs, no use, no flags.

    :param as_blocks: whether it is written as the blocks of Slurm, whose levels have names by themselves.
    """
    counts = {
        f"GPU counts other than {DEFAULT_GPUS}": np.count_nonzero(cluster.gpus != DEFAULT_GPUS),
        "types of GPU": sum(cluster.nodes_of_type.values()),
        "GPUs in use": np.count_nonzero(cluster.free_gpus < cluster.gpus),
        "flags": len(cluster.flags),
        "nodes kept out": len(cluster.kept_out),
        "numbers of rails": len(cluster.rails),
    }
    kept = _BLOCK_LEVEL if as_blocks and cluster.blocks is not None else None
    levels = ", ".join(level.name for level in cluster.levels if kept is None or not kept.fullmatch(level.name))
    lost = [f"names of levels ({levels})"] if levels else []
    if not as_blocks:
        lost += _block_losses(cluster)
    if second := ", ".join(level.name for level in cluster.second_levels):
        lost.append(f"second hierarchies ({second})")
    lost += [f"{what} ({count} of {len(cluster)} nodes)" for what, count in counts.items() if count]
    return (f"{format_name} cannot carry {'; '.join(lost)}: left out",) if lost else ()


def kept_out_otherwise(cluster: Cluster) -> list[int]:
    """Return the nodes that neither taints nor shared GPUs keep out, but something that a CSV has no column for."""
    others = cluster.kept_out.keys() - cluster.sharing.keys()
    return [i for i in sorted(others) if cluster.kept_out[i] != kept_out_by(cluster.taints.get(i, ()))]


_BLOCK_LEVEL = re.compile(r"block(?:-[0-9]+)?")


def _block_losses(cluster: Cluster) -> list[str]:
    """Return what is lost where blocks of Slurm are written as domains: their sizes, and those without nodes."""
    if cluster.blocks is None:
        return []
    sizes = ",".join(map(str, cluster.blocks.sizes))
    empty = len(set(cluster.blocks.names) - set(cluster.levels[-1].domains))
    return [*([f"sizes of blocks ({sizes})"] if sizes else []), *([f"blocks without nodes ({empty})"] if empty else [])]


def table_losses(cluster: Cluster, format_name: str) -> tuple[str, ...]:
    """Say what is lost in the CSV, which carries slowdown, begin and end of a flag alone."""
    flags = [flag for flag in cluster.flags.values() if not is_price(flag)]
    detailed = sum(flag.kind == "degraded" or any((flag.score, flag.evidence)) for flag in flags)
    notes = []
    if lost := _block_losses(cluster):
        notes.append(f"{format_name} cannot carry {'; '.join(lost)}: left out")
    if without := len(kept_out_otherwise(cluster)):
        notes.append(f"{format_name} has no word for nodes that are kept out, and calls them faulty: {without}")
    if detailed:
        notes.append(f"{format_name} carries slowdowns and times of flags and no more; reasons left out: {detailed}")
    if (trunks := cluster.trunks) is not None:
        notes.append(
            f"{format_name} cannot say that nothing joins the {len(trunks)} domains of {trunks.name}: "
            "there, jobs may span them"
        )
    return tuple(notes)


class ClusterCsvWriter:
    """Writer of the cluster CSV.  A node without a domain of its own somewhere gets an empty cell."""

    name = "csv"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as CSV; no level may be called like one of the other columns."""
        for level in cluster.levels:
            if level.name in (cluster_csv.NODE, *cluster_csv.ATTRIBUTES):
                raise InvalidTopology(f"a level is called {level.name!r}, as a column of the CSV is", fix="rename it")
        every = (*cluster.levels, *cluster.second_levels)
        slowdowns = [_cell(slowdown) for slowdown in cluster.slowdown.tolist()]
        for node, flag in cluster.flags.items():
            if is_price(flag) and node in cluster.taints:
                slowdowns[node] = ""  # the taint says it
        for node in kept_out_otherwise(cluster):
            slowdowns[node] = _cell(FAULTY)
        columns: dict[str, Sequence[object]] = {cluster_csv.GPUS: cluster.gpus.tolist()}
        columns |= {cluster_csv.FREE_GPUS: cluster.free_gpus.tolist(), cluster_csv.SLOWDOWN: slowdowns}
        nodes = range(len(cluster))
        if any(flag.since or flag.until for flag in cluster.flags.values()):
            for name in cluster_csv.TIMES:
                times = [getattr(cluster.flags.get(node), name, None) for node in nodes]
                utc = ("" if time is None else time.astimezone(UTC).isoformat() for time in times)
                columns[name] = [text.replace("+00:00", "Z") for text in utc]
        if cluster.nodes_of_type:
            columns[cluster_csv.GPU_TYPE] = [cluster.gpu_types[of] for of in cluster.gpu_type_of.tolist()]
        if cluster.sharing:
            columns[cluster_csv.SHARING] = [cluster.sharing.get(node, "") for node in nodes]
        if cluster.cached:
            images = ([image for image, on in cluster.cached.items() if node in on] for node in cluster.names)
            columns[cluster_csv.CACHE] = [*map(" ".join, images)]
        if cluster.taints:
            taints = (cluster.taints.get(node, ()) for node in nodes)
            columns[cluster_csv.TAINTS] = [" ".join(f"{taint}:{taint.effect}" for taint in each) for each in taints]
        if cluster.rails:
            columns[cluster_csv.RAILS] = [cluster.rails.get(node, "") for node in nodes]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([cluster_csv.NODE, *(level.name for level in every), *columns])
        domains = (level.own_names() for level in every)
        writer.writerows(zip(cluster.names, *domains, *columns.values(), strict=True))
        return Rendering(text.getvalue(), table_losses(cluster, self.name))


def _cell(slowdown: float) -> str:
    return "faulty" if slowdown == FAULTY else "" if slowdown == HEALTHY else repr(slowdown)


SLURM_NAME_BYTES = 64  # Of the longest name of a switch: topology.conf(5); 24.11 does not start with a longer one
LARGEST_JOINED = 2**15  # Base blocks of the largest block that Slurm joins: MAX_BLOCK_LEVELS of block_record.h
_NVLINK = re.compile(r"nvl|accelerator|clique|ultraserver", re.IGNORECASE)  # in names of levels of NVLink domains
MOST_EMPTY = 10_000  # Blocks without nodes that fill up the domains of a level: more say that these are not alike


@dataclass(frozen=True, slots=True)
class Forest:
    """The switches of a cluster."""

    cluster: Cluster
    names: tuple[tuple[str, ...], ...]  # for each level, the name of the switch of each domain; empty = it needs none
    levels_of_nodes: IntArray  # shape [nodes], depth of the switch each node hangs on; -1 = it hangs on none
    renamed: int  # number of domains that had to take another name

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what was decided about names, in sentences."""
        put = "switches with the name of their level put before, as the name alone was taken"
        return (f"{put}: {self.renamed}",) if self.renamed else ()

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
        switches: list[Switch] = []
        # the names of the switches below, for each level and domain
        children: list[list[list[str]]] = [[[] for _ in names] for names in self.names]
        for depth in range(1, len(self.names)):
            parents = self.cluster.levels[depth].parent_of.tolist()
            for name, parent in zip(self.names[depth], parents, strict=True):
                if name:
                    children[depth - 1][parent].append(name)
        for depth, level in enumerate(self.cluster.levels):
            held = _grouped(level.domain_of, self.levels_of_nodes == depth, len(level))
            for number, name in enumerate(self.names[depth]):
                below, nodes = tuple(children[depth][number]), self._named(held[number])
                if name and below and nodes:
                    leaf = _unique(f"{name}-nodes", taken)
                    switches += [Switch(name, (*below, leaf), ()), Switch(leaf, (), nodes)]
                elif name:
                    switches.append(Switch(name, below, nodes))
        if (loose := np.flatnonzero(self.levels_of_nodes < 0)).size:
            switches.append(Switch(_unique("root-nodes", taken), (), self._named(loose)))
        return switches

    def _named(self, nodes: npt.NDArray[np.integer]) -> tuple[str, ...]:
        return tuple(self.cluster.names[i] for i in nodes)


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


def _grouped(domain_of: IntArray, chosen: BoolArray, domains: int) -> list[npt.NDArray[np.integer]]:
    """Return the chosen nodes of each domain."""
    nodes = np.flatnonzero(chosen)
    order = nodes[np.argsort(domain_of[nodes], kind="stable")]
    counts = np.bincount(domain_of[nodes], minlength=domains)
    return np.split(order, np.cumsum(counts)[:-1])


_unique = partial(unique, suffix="-{}")


def _as_slurm_reads(switches: Sequence[Switch], longest: int | None = None) -> tuple[list[Switch], list[str]]:
    """Return switches or blocks with names that Slurm reads as they are, and what was changed.

    :param longest: bytes of a name; ``None`` = any number.
    """
    taken = {switch.name for switch in switches}
    changed: dict[str, str] = {}
    for name in [switch.name for switch in switches]:
        spelled, coded = name, name.encode()
        if longest is not None and len(coded) > longest:
            # what tells long names apart mostly stands at their end; room is left for a number behind it
            head, tail = coded[:16], coded[-(longest - 24) :]
            spelled = f"{head.decode(errors='ignore')}_{tail.decode(errors='ignore')}"
        if outgrows_slurm(spelled):
            spelled += "_"
        if spelled != name:
            changed[name] = _unique(spelled, taken)
    large = [name for name in changed if outgrows_slurm(name)]
    long = [name for name in changed if longest is not None and len(name.encode()) > longest]
    notes = (
        [f"names that end in a number of 2^64 or more got a _, as Slurm reads another: {some(large)}"] if large else []
    )
    notes += [f"names longer than the {longest} bytes that Slurm takes were cut: {some(long)}"] if long else []
    if not changed:
        return list(switches), notes
    renamed = (
        replace(
            switch,
            name=changed.get(switch.name, switch.name),
            children=tuple(changed.get(c, c) for c in switch.children),
        )
        for switch in switches
    )
    return list(renamed), notes


def _tree(cluster: Cluster, format_name: str) -> tuple[list[Switch], tuple[str, ...]]:
    """Return the switches of a cluster as Slurm reads them, broad ones first, and what a user of Slurm should know."""
    forest = forest_of(cluster)
    switches, renamed = _as_slurm_reads(forest.switches(), SLURM_NAME_BYTES)
    plugins = (
        "the blocks are written as a tree of switches, for TopologyPlugin=topology/tree; --to slurm-block writes them "
        "as blocks, for topology/block"
    )
    notes = [plugins] if cluster.blocks is not None else []
    notes += [*bare_tree_losses(cluster, format_name), *forest.notes, *renamed]
    below = {child for switch in switches for child in switch.children}
    if (roots := sum(switch.name not in below for switch in switches)) > 1:
        notes.append(
            f"{roots} switches have none above them: for jobs across them Slurm needs one more that joins them"
        )
    return switches, tuple(notes)


@dataclass(frozen=True, slots=True)
class _BlockList:
    """What a file of blocks says."""

    blocks: list[Switch]  # base blocks in the order in which Slurm joins them
    sizes: tuple[int, ...]  # nodes of a base block, then of the blocks joined from them; empty = those of Slurm
    notes: list[str]  # what a user of Slurm should know


def _blocks(cluster: Cluster, format_name: str) -> _BlockList:
    """Return the blocks of a cluster as Slurm reads them: its own where it has them, else those that make its levels.

    :raises InvalidTopology: the cluster has no levels.
    """
    if (blocks := cluster.blocks) is not None:
        level = cluster.levels[-1]
        nodes = dict(zip(level.domains, _nodes_of(cluster, level), strict=True))
        listed = _BlockList([Switch(name, (), nodes.get(name, ())) for name in blocks.names], blocks.sizes, [])
    else:
        listed = _joined_blocks(cluster)
    switches, renamed = _as_slurm_reads(listed.blocks)
    notes = [*bare_tree_losses(cluster, format_name, as_blocks=True), *listed.notes, *renamed]
    if empty := sum(not block.nodes for block in listed.blocks):
        notes.append(f"blocks without nodes, which keep the places of others, and which Slurm 24.11 refuses: {empty}")
    if (trunks := cluster.trunks) is not None:
        notes.append(f"nothing joins the {len(trunks)} domains of {trunks.name}, and Slurm lets jobs span all blocks")
    return _BlockList(switches, listed.sizes, notes)


def _joined_blocks(cluster: Cluster) -> _BlockList:
    """Return the domains of one level as blocks, in such an order and so filled up that Slurm joins them to the domains
    of the broader levels.

    A level whose domains are too unlike for that, by :data:`MOST_EMPTY` or :data:`LARGEST_JOINED`, is left out.
    """
    cluster.default_level()  # raises where there are no levels
    # base blocks are the domains of the closest level of NVLink, else of the closest, each of several nodes somewhere
    closest_first = range(len(cluster.levels) - 1, -1, -1)
    shared = [depth for depth in closest_first if len(cluster.levels[depth]) < len(cluster)] or [closest_first[0]]
    base = next((depth for depth in shared if _NVLINK.search(cluster.levels[depth].name)), shared[0])
    level = cluster.levels[base]
    notes = [f"the blocks are the domains of {level.name}"]
    if closer := ", ".join(closer.name for closer in cluster.levels[base + 1 :]):
        notes.append(f"levels closer than the blocks, left out: {closer}")
    # the base blocks of each domain of the last level that is kept, in order; None = a block without nodes
    spans: list[list[int | None]] = [[number] for number in range(len(level))]
    widths = [1]  # base blocks of a domain of each level that is kept, a power of two
    above = np.arange(len(level), dtype=np.int32)  # the domain of each span at the level in hand
    for depth in reversed(range(base)):
        above = cluster.levels[depth + 1].parent_of[above]
        parts: list[list[list[int | None]]] = [[] for _ in cluster.levels[depth].domains]
        for span, domain in zip(spans, above.tolist(), strict=True):
            parts[domain].append(span)
        width = widths[-1] << (max(map(len, parts)) - 1).bit_length()
        joined = [_laid_out(part, widths[-1]) for part in parts]
        empty = width * (len(joined) - 1) + len(joined[-1]) - len(level)
        if width > LARGEST_JOINED or empty > MOST_EMPTY:
            unlike = f"to fill up its domains would take {empty:,} blocks without nodes"
            notes.append(f"level left out, as {unlike}: {cluster.levels[depth].name}")
        elif width > widths[-1]:
            spans, above = joined, np.arange(len(joined), dtype=np.int32)
            widths.append(width)
    taken = set(level.domains)
    nodes = _nodes_of(cluster, level)
    blocks = []
    for block in _laid_out(spans, widths[-1]):
        if block is None:
            blocks.append(Switch(_unique("empty", taken), (), ()))
        elif level.implicit[block]:
            broader = level.domains[block]  # what its nodes hang on
            name = _unique(f"{'root' if broader == ROOT else broader}-nodes", taken)
            blocks.append(Switch(name, (), nodes[block]))
        else:
            blocks.append(Switch(level.domains[block], (), nodes[block]))
    if alone := int(np.count_nonzero(level.implicit[level.domain_of])):
        notes.append(f"nodes in no {level.name}, in blocks of their own: {alone}")
    smallest = min(map(len, nodes))  # topology.conf(5): each block has at least as many nodes as the base size says
    return _BlockList(blocks, tuple(smallest * width for width in widths), notes)


def _laid_out(spans: Sequence[Sequence[int | None]], width: int) -> list[int | None]:
    """Return blocks one after another, those of each span but the last filled up to a width by blocks without nodes."""
    blocks: list[int | None] = []
    for span in spans:
        blocks += [None] * (-len(blocks) % width)
        blocks += span
    return blocks


def _nodes_of(cluster: Cluster, level: Level) -> list[tuple[str, ...]]:
    """Return the names of the nodes of each domain of a level."""
    held = _grouped(level.domain_of, np.ones(len(cluster), dtype=np.bool_), len(level))
    return [tuple(cluster.names[node] for node in nodes) for nodes in held]


def _held(switch: Switch) -> str:
    """Return the hostlist of what a switch or block holds; raise ``InvalidInput`` for names that Slurm cannot carry."""
    check_name(switch.name)
    return fold_hostlist(switch.children or switch.nodes)


class SlurmConfWriter:
    """Writer of ``topology.conf`` as a tree: lines of ``SwitchName=``."""

    name = "slurm-conf"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as text."""
        switches, notes = _tree(cluster, self.name)
        lines = [
            f"SwitchName={switch.name} {'Switches' if switch.children else 'Nodes'}={_held(switch)}\n"
            for switch in switches
        ]
        return Rendering("".join(lines), notes)


class SlurmBlockWriter:
    """Writer of ``topology.conf`` as blocks: lines of ``BlockName=``, and ``BlockSizes=``."""

    name = "slurm-block"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as text; raise ``InvalidTopology`` for one without levels."""
        listed = _blocks(cluster, self.name)
        lines = [f"BlockName={block.name}{' Nodes=' * bool(block.nodes)}{_held(block)}\n" for block in listed.blocks]
        if listed.sizes:
            lines.append(f"BlockSizes={','.join(map(str, listed.sizes))}\n")
        return Rendering("".join(lines), tuple(listed.notes))


class SlurmYamlWriter:
    """Writer of ``topology.yaml``: blocks where the cluster was read as blocks, else a tree.

    All names are quoted, so that a switch called ``1e3`` or ``no`` stays a name.
    """

    name = "slurm-yaml"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as text."""
        head = ["- topology: default", "  cluster_default: true"]
        if cluster.blocks is not None:
            listed = _blocks(cluster, self.name)
            sizes = [f"    block_sizes: [{', '.join(map(str, listed.sizes))}]"] if listed.sizes else []
            head += ["  block:", *sizes, "    blocks:"]
            entries = [("block", block.name, "nodes", _held(block)) for block in listed.blocks]
            notes = tuple(listed.notes)
        else:
            switches, notes = _tree(cluster, self.name)
            head += ["  tree:", "    switches:"]
            entries = [
                ("switch", switch.name, "children" if switch.children else "nodes", _held(switch))
                for switch in switches
            ]
        lines = [
            # a double-quoted string of YAML is what a string of JSON is
            f"    - {kind}: {json.dumps(name, ensure_ascii=False)}\n      {key}: {json.dumps(held, ensure_ascii=False)}"
            for kind, name, key, held in entries
        ]
        return Rendering("\n".join([*head, *lines, ""]), notes)


class TopographWriter:
    """Writer of Topograph's graph: instances with the switches above them, from close to broad."""

    name = "topograph"

    def write(self, cluster: Cluster) -> Rendering:
        """Return the cluster as JSON, one instance a line."""
        forest = forest_of(cluster)
        instances = (
            json.dumps({"id": name, "network_layers": forest.path(node)[::-1]}, ensure_ascii=False)
            for node, name in enumerate(cluster.names)
        )
        text = '{\n  "instances": [\n    ' + ",\n    ".join(instances) + "\n  ]\n}\n"
        return Rendering(text, bare_tree_losses(cluster, self.name) + forest.notes)
