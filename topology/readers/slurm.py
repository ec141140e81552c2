"""Slurm's topology: ``topology.conf``, ``topology.yaml``, or what it says of its nodes alone.

All describe trees of named switches, "this switch holds those", or blocks.  A node's switch at a level is its ancestor
there.  Slurm does not name levels: they are called ``level-0`` (broadest) onwards.  Leaf switches may hang at different
depths.  Switches with none above them are trunks that nothing joins: "jobs can only span nodes connected by the same
switch fabric" (topology.conf(5)).

``topology.conf`` has lines of ``SwitchName=`` (topology/tree) or ``BlockName=`` (topology/block).  Keys are
case-insensitive, ``#`` begins a comment, a backslash at the end continues a line.  ``scontrol show topology`` prints
nearly the same, and any user may call it.  There a switch has its ``Level``, and the ``Nodes`` of one that has
``Switches`` are all nodes below it; a block has its ``BlockIndex`` and ``BlockSize``, and of an ``AggregatedBlock``
only the size is new.

``topology.yaml`` (25.05 and later) has one topology or several, each a tree, blocks, or flat.  Of several that of the
job's partition counts, where that is known; else the first with ``cluster_default: true``, if it is a tree or blocks,
else the first that is.

Since 25.05 each node may say where it is, ``Topology=default:root:spine-1:leaf-2``: the switches above it, broad to
close, in one topology or in several (``tree:leaf-2,blocks:b1``), of which one is read.  In a ring (``r:ring-1:7``) and
in a torus (``t:torus-1:0:3:2``) its position follows, which is no switch.  Where none says it (``topology/flat``) all
nodes are one level.  States are read as of a list of ``--busy``.

Source: the manual pages topology.conf(5), topology.yaml(5) and slurm.conf(5).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from ground.documents import Document, load_document
from ground.errors import InvalidInput, InvalidTopology, did_you_mean, some
from ground.files import Source
from ground.formats import FileFormat, Marked
from topology.build import build_cluster
from topology.cluster import DEFAULT_GPUS, MAX_NODES, Cluster, Node, SlurmBlocks
from topology.node_names import expand_hostlist
from topology.readers.fabric import Hierarchy, read_fabric
from topology.readers.reading import ONE_LEVEL, PlacedNode, Reading, TopologyReader, place_nodes
from topology.slurm_snapshot import read_snapshot

WITHOUT_LEVELS = "describe a tree or blocks, or take all nodes as one level: give what `scontrol show nodes` prints"
"""What to do about a topology of Slurm that is neither."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch and what hangs on it directly."""

    name: str
    children: tuple[str, ...]
    nodes: tuple[str, ...]
    place: str = ""  # where it is described, "topology.conf:12"; empty when it comes from no file


def expand_switch(name: str, children: str | None, nodes: str | None, *, place: str, limit: int) -> Switch:
    """Return a switch or block by the hostlists, perhaps empty, of what hangs on it, at most ``limit`` names."""
    below, held = (tuple(expand_hostlist(text, where=place, limit=limit)) if text else () for text in (children, nodes))
    return Switch(name, below, held, place)


def read_switches(switches: Sequence[Switch]) -> Reading:
    """Return the cluster of switches, and what a user should know of it.

    Where switches lie below several, as when all links of a fat tree are written down, levels are what switches join.
    """
    named = _check_unique(switches, "switch")
    for switch in switches:
        if (unknown := next((child for child in switch.children if child not in named), None)) is not None:
            stray = f"switch {unknown!r} below {switch.name!r} is not described"
            fix = f"{did_you_mean(unknown, named)}describe it, or remove it here"
            raise InvalidTopology(stray, where=switch.place, fix=fix)
    hierarchy = Hierarchy({switch.name: switch.children for switch in switches}, lambda name: named[name].place)
    several = [name for name, above in hierarchy.graph.in_degree if above > 1]
    if several:
        _check_nodes(switches)
        holders: dict[str, Switch] = {}
        for switch in switches:
            for node in switch.nodes:
                if (first := holders.setdefault(node, switch)) is not switch:
                    twice = f"node {node!r} appears twice (first at {first.place})"
                    raise InvalidTopology(twice, where=switch.place, fix="list it below one switch")
                hierarchy.leaves[node].add(switch.name)
        reading = read_fabric(hierarchy, where=lambda node: holders[node].place if node in holders else "")
        joined = f"switches below several others: {some(several)}; levels are what switches join, up to each tier"
        cluster = reading.cluster.replace(joined=hierarchy.connected(), gpus_assumed=True)
        notes = [joined, *reading.notes]
    else:
        above = hierarchy.paths()
        depth = max((len(above[switch.name]) for switch in switches if switch.nodes), default=0)
        paths = [(above[switch.name] + ("",) * depth)[:depth] for switch in switches]
        cluster = _built([f"level-{i}" for i in range(depth)], switches, paths)
        cluster, notes = cluster.replace(joined=len(cluster.levels[0]) == 1), []
    notes += empty_notes(switches, "switches")
    if (trunks := cluster.trunks) is not None:
        notes.append(
            f"switches with none above them: {some(trunks.domains)}; a job lies below one of them, as Slurm runs none "
            "across (to let jobs span them, describe a switch above them, or convert the file to csv)"
        )
    return Reading(cluster, tuple(notes))


def _built(levels: Sequence[str], switches: Sequence[Switch], paths: Sequence[tuple[str, ...]]) -> Cluster:
    """Return the cluster of the nodes on the switches; the path of a switch has their domains."""
    _check_nodes(switches)
    hung = [(switch.place, path, name) for switch, path in zip(switches, paths, strict=True) for name in switch.nodes]
    rows = [Node(name, path, DEFAULT_GPUS, DEFAULT_GPUS) for _, path, name in hung]
    return build_cluster(levels, rows, where=lambda i: hung[i][0]).replace(gpus_assumed=True)


def empty_notes(switches: Sequence[Switch], what: str) -> tuple[str, ...]:
    """Return what a user should know of switches or blocks with nothing below them, as nodes may come by themselves."""
    empty = [switch.name for switch in switches if not switch.nodes and not switch.children]
    kept = "which only keep their place among the others" if what == "blocks" else "left out"
    return (f"{what} without nodes, {kept}: {some(empty)}",) if empty else ()


def block_cluster(blocks: Sequence[Switch], sizes: Sequence[int], *, place: str) -> Cluster:
    """Return the cluster of Slurm's block topology.

    The base block is the level ``block``.  Each further block size (the base size times a power of two) joins
    contiguous base blocks, in the order of the file, as many as that size is a multiple of the first: the level
    ``block-120`` for a size of 120.  An aggregated block is called by its first and last base block.

    :param sizes: BlockSizes, the planning base block size first; may be empty.  They stand at ``place``.
    """
    _check_unique(blocks, "block")
    for size in sizes:
        joined, rest = divmod(size, sizes[0]) if sizes[0] > 0 else (0, 1)
        if rest or joined.bit_count() != 1:
            odd = f"block size {size} is not the base size {sizes[0]} times a power of two"
            raise InvalidTopology(odd, where=place, fix="write sizes such as 30,60,120")
    widths = sorted({size // sizes[0]: size for size in sizes}.items(), reverse=True)
    aggregates = [(width, size) for width, size in widths if width > 1]
    paths = []
    for number, block in enumerate(blocks):
        firsts = [(number - number % width, width) for width, _ in aggregates]
        ends = [(first, min(first + width, len(blocks)) - 1) for first, width in firsts]
        paths.append((*(f"{blocks[first].name}..{blocks[last].name}" for first, last in ends), block.name))
    cluster = _built([*(f"block-{size}" for _, size in aggregates), "block"], blocks, paths)
    return cluster.replace(blocks=SlurmBlocks(tuple(block.name for block in blocks), tuple(sizes)))


def _check_unique(switches: Sequence[Switch], what: str) -> dict[str, Switch]:
    named: dict[str, Switch] = {}
    for switch in switches:
        if not switch.name:
            raise InvalidTopology(f"a {what} has no name", where=switch.place, fix=f"name every {what}")
        if (first := named.setdefault(switch.name, switch)) is not switch:
            twice = f"{what} {switch.name!r} appears twice (first at {first.place})"
            raise InvalidTopology(twice, where=switch.place, fix=f"describe every {what} once")
    return named


def _check_nodes(switches: Sequence[Switch]) -> None:
    if not any(switch.nodes for switch in switches):
        none = "no switch or block lists a node, as where nodes say by Topology= where they are"
        fix = (
            "give what `scontrol show topology` prints, which has such nodes too, or what `scontrol show nodes` prints"
        )
        raise InvalidTopology(none, where=switches[0].place, fix=fix)


KEYS = {
    "SwitchName": ("Switches", "Nodes", "LinkSpeed", "Level"),
    "BlockName": ("Nodes", "BlockIndex", "BlockSize"),
    "BlockSizes": (),
    "AggregatedBlock": ("Nodes", "BlockIndex", "BlockSize"),
}
"""First key of a line, and those that may follow."""

_SPELLING = {name.lower(): name for name in chain(KEYS, *KEYS.values())}
_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*("[^"]*"|[^\s"]+)(?=\s|$)')


class SlurmConf(Marked, TopologyReader):
    """Reader of ``topology.conf``."""

    format = FileFormat(
        "slurm-conf",
        source="Slurm's `topology.conf`, or what scontrol shows: lines of `SwitchName=` or `BlockName=`",
        export="`scontrol show topology`",
        read="trees, forests and blocks of switches, nodes by hostlist",
        left_out="LinkSpeed, rings; the states and GPUs of nodes, which --busy reads",
        marks=("name=", "nodes="),
    )
    mark = re.compile(
        r"^[ \t]*(?:SwitchName|BlockName|BlockSizes|AggregatedBlock|RingName|TorusName)[ \t]*=",
        re.IGNORECASE | re.MULTILINE,
    )

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the lines."""
        switches: list[Switch] = []
        blocks: list[Switch] = []
        sizes: tuple[int, ...] = ()
        shown_sizes: set[int] = set()
        sizes_place = source.name
        limit = MAX_NODES
        for place, pairs in _lines(source):
            if "BlockSizes" in pairs:
                sizes, sizes_place = _sizes(pairs, "BlockSizes", place), place
                continue
            if "BlockSize" in pairs:
                shown_sizes.update(_sizes(pairs, "BlockSize", place))
            if "AggregatedBlock" in pairs:
                continue
            children, nodes = pairs.get("Switches"), pairs.get("Nodes")
            if children and "Level" in pairs:  # scontrol gives such a switch all nodes below it
                nodes = None
            name = pairs.get("SwitchName", pairs.get("BlockName", ""))
            described = expand_switch(name, children, nodes, place=place, limit=limit)
            limit -= len(described.nodes)
            (switches if "SwitchName" in pairs else blocks).append(described)
        if switches and blocks:
            both = "the file has switches and blocks"
            fix = "describe a tree or blocks, not both; of several topologies give one: scontrol show topology NAME"
            raise InvalidTopology(both, where=blocks[0].place, fix=fix)
        if blocks:
            cluster = block_cluster(blocks, sizes or sorted(shown_sizes), place=sizes_place)
            return Reading(cluster, empty_notes(blocks, "blocks"))
        if not switches:
            nothing = "the file describes no switch and no block"
            raise InvalidTopology(nothing, where=source.name, fix="add lines such as SwitchName=s1 ...")
        return read_switches(switches)


def _lines(source: Source) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place and the pairs of each line that says something."""
    held, start = "", 0
    for number, raw in enumerate(source.text.split("\n"), 1):
        line = raw.split("#", 1)[0].rstrip()
        start = start if held else number
        if line.endswith("\\"):
            held += line[:-1]  # the two are joined as they stand, also within a hostlist
            continue
        text, held = held + line, ""
        if not text.strip():
            continue
        place, pairs = source.at(start), dict[str, str]()
        at, end = 0, len(text.rstrip())
        while at < end:
            pair = _PAIR.match(text, at)
            if pair is None:
                unread = f"cannot read {text[at:].strip()[:60]!r}"
                raise InvalidInput(unread, where=place, fix="write pairs such as SwitchName=s1 Nodes=n[1-8]")
            key = _SPELLING.get(pair[1].lower(), pair[1])
            if fault := _key_fault(key, pair[1], pairs):
                raise InvalidInput(fault[0], where=place, fix=fault[1])
            pairs[key] = pair[2].strip('"')
            at = pair.end()
        yield place, pairs
    if held.strip():
        unfinished = "the last line is not finished"
        raise InvalidInput(unfinished, where=source.at(start), fix="remove the backslash at its end")


def _key_fault(key: str, spelled: str, before: dict[str, str]) -> tuple[str, str] | None:
    """Return what is wrong with a key of a line, and what to do about it."""
    if key.lower() in ("ringname", "torusname"):
        return f"a {key[:-4].lower()} has no levels", WITHOUT_LEVELS
    if key in before:
        return f"{spelled} stands twice in the line", "keep one of the two"
    keys = KEYS[next(iter(before))] if before else tuple(KEYS)
    if key not in keys:
        names = keys or ["nothing more"]
        allowed = f"{'may follow' if before else 'a line begins with'}: {', '.join(names)}"
        return f"unknown key {spelled[:60]!r}", f"{did_you_mean(spelled, names)}{allowed}"
    return None


def _sizes(pairs: dict[str, str], key: str, place: str) -> tuple[int, ...]:
    parts = pairs[key].split(",")
    if not all(re.fullmatch(r"[1-9][0-9]{0,8}", part) for part in parts):
        raise InvalidInput(f"{key} is {pairs[key][:60]!r}", where=place, fix="write whole numbers such as 30,120")
    return tuple(int(part) for part in parts)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Switch(_Strict):
    switch: str
    children: str | None = None
    nodes: str | None = None


class _Tree(_Strict):
    switches: list[_Switch]


class _Block(_Strict):
    block: str
    nodes: str | None = None


class _Blocks(_Strict):
    block_sizes: list[Annotated[int, Field(ge=1, le=10**9)]] = []
    blocks: list[_Block]


class _Topology(_Strict):
    topology: str
    cluster_default: bool = False
    tree: _Tree | None = None
    block: _Blocks | None = None
    flat: bool | dict[str, Any] = False
    ring: Any = None
    torus3d: Any = None

    def kinds(self) -> list[str]:
        """Return the kinds of topology that the text says it is; Slurm takes exactly one."""
        return [kind for kind in ("tree", "block", "flat", "ring", "torus3d") if getattr(self, kind)]


@dataclass(frozen=True, slots=True)
class SlurmYaml(Marked, TopologyReader):
    """Reader of ``topology.yaml``."""

    topology: str = ""  # the one to read of several; empty = the default

    format: ClassVar = FileFormat(
        "slurm-yaml",
        source="Slurm's `topology.yaml`, a list of `- topology: NAME` with tree or block",
        export="the file beside `slurm.conf`",
        read="the default of its topologies: a tree, a forest or blocks",
        left_out="its other topologies, rings and tori; the states and GPUs of nodes, which --busy reads",
        marks=("topology:", "switches:"),
    )
    # a key at the beginning of a line or of an entry of a list, or the first of a list between brackets
    mark = re.compile(
        r"^(?:[ \t]*-[ \t]+)?[\"']?(?:topology|cluster_default)[\"']?[ \t]*:"
        r"|\A\s*+\[\s*+\{\s*+[\"']?(?:topology|cluster_default)[\"']?\s*:",
        re.MULTILINE,
    )

    def choosing(self, topology: str) -> Self:
        """Return a reader that reads the topology of that name."""
        return type(self)(topology)

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:  # noqa: ARG002
        """Read the topology that is the default."""
        document = load_document(source, syntax="yaml")
        alone = isinstance(document.data, dict)
        topologies = [document.parse(_Topology)] if alone else document.parse(list[_Topology])
        paths: list[tuple[int, ...]] = [() if alone else (i,) for i in range(len(topologies))]
        if not topologies:
            raise InvalidTopology("the list of topologies is empty", where=source.name, fix="describe one")
        for path, topology in zip(paths, topologies, strict=True):
            if len(kinds := topology.kinds()) > 1:
                both, where = f"{topology.topology!r} is {' and '.join(kinds)} at once", document.where(*path, kinds[1])
                fix = "make it one of them; a second one is an entry of its own"
                raise InvalidTopology(f"topology {both}", where=where, fix=fix)
        defaults = [i for i, topology in enumerate(topologies) if topology.cluster_default]
        layered = [i for i, topology in enumerate(topologies) if topology.tree or topology.block]
        default = (defaults or layered or [0])[0]
        if self.topology:
            named = [i for i, topology in enumerate(topologies) if topology.topology == self.topology]
            if not named:
                none = f"there is no topology {self.topology!r}, which the partition has"
                names = ", ".join(topology.topology for topology in topologies)
                fix = f"describe it, or choose another --partition; topologies: {names}"
                raise InvalidTopology(none, where=source.name, fix=fix)
            default, layered = named[0], named
        number = default if default in layered else (layered or [default])[0]
        chosen, here = topologies[number], paths[number]
        besides = "" if number == default else f"; the default, {topologies[default].topology!r}, has no levels"
        several = f"of {len(topologies)} topologies, {chosen.topology!r} was read{besides}"
        notes = () if len(topologies) == 1 else (several,)
        if chosen.tree is not None:
            lines = [(switch.switch, switch.children, switch.nodes) for switch in chosen.tree.switches]
            reading = read_switches(_switches(document, lines, here, ("tree", "switches")))
            return replace(reading, notes=(*notes, *reading.notes))
        if chosen.block is not None:
            lines = [(block.block, None, block.nodes) for block in chosen.block.blocks]
            blocks = _switches(document, lines, here, ("block", "blocks"))
            sizes, place = chosen.block.block_sizes, document.where(*here, "block", "block_sizes")
            return Reading(block_cluster(blocks, sizes, place=place), (*notes, *empty_notes(blocks, "blocks")))
        kind, fix = "".join(chosen.kinds()) or "of no kind", WITHOUT_LEVELS
        flat = f"topology {chosen.topology!r} is {kind}, neither a tree nor blocks"
        raise InvalidTopology(flat, where=document.where(*here), fix=fix)


def _switches(
    document: Document,
    lines: Sequence[tuple[str, str | None, str | None]],
    here: tuple[int, ...],
    keys: tuple[str, str],
) -> list[Switch]:
    """Return the switches under two keys of a topology, from names and hostlists of what hangs on each."""
    if not lines:
        place = document.where(*here, keys[0])
        raise InvalidTopology("the topology has no switches", where=place, fix="describe at least one")
    switches: list[Switch] = []
    limit = MAX_NODES
    for i, line in enumerate(lines):
        switches.append(expand_switch(*line, place=document.where(*here, *keys, i), limit=limit))
        limit -= len(switches[-1].nodes)
    return switches


_GAP = r"(?:[ \t]++(?:\n[ \t]++)?|\n[ \t]++)"
_OF_RECORDS = r"(?:(?:CPUAlloc|CfgTRES|Partitions|BootTime)=|State=(?:IDLE|ALLOC|MIX|RESERVED|PLANNED|COMPLETING))"
_RECORD = rf"^[ \t]*NodeName=\S+(?:{_GAP}(?!{_OF_RECORDS})\S++)*+{_GAP}{_OF_RECORDS}"
"""A node as scontrol prints it, on one line or on several, of which all but the first are indented: with a key or
a state that a line of slurm.conf, which begins alike, never has.
"""


@dataclass(frozen=True, slots=True)
class SlurmListing(Marked, TopologyReader):
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
    mark = re.compile(rf'{_RECORD}|"(?:sinfo"\s*:\s*\[|slurmd_start_time"\s*:)', re.MULTILINE)

    def choosing(self, topology: str) -> Self:
        """Return a reader that reads the topology of that name."""
        return type(self)(topology)

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
        cyclic = {name for name in counts if _are_positions([path[name] for path in paths.values() if name in path])}
        paths = {
            name: {topology: path[:1] if topology in cyclic else path for topology, path in places.items()}
            for name, places in paths.items()
        }
        # the topology to read is that of the partition, else of those that most nodes are in the deepest
        chosen = self.topology
        if counts and chosen not in ("", *counts):
            none = f"no node is in the topology {chosen!r}, which the partition has"
            fix = f"{did_you_mean(chosen, counts)}choose another --partition; topologies: {', '.join(counts)}"
            raise InvalidTopology(none, where=source.name, fix=fix)
        if counts:
            depths = {name: max(len(path.get(name, ())) for path in paths.values()) for name in counts}
            chosen = chosen or max(counts, key=lambda name: (counts[name], depths[name]))
            several = f", of {some([*counts])}" if len(counts) > 1 else ""
            levels_are = "the rings or tori" if chosen in cyclic else "the switches above the nodes"
            notes.append(f"levels are {levels_are} in the topology {chosen}{several}")
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


def _are_positions(places: Sequence[tuple[str, ...]]) -> bool:
    """Return whether the places of nodes in a topology are positions in rings or tori: one number or three behind a
    name, which no two nodes of that name have in common.
    """
    numbers = all(part.isdecimal() for place in places for part in place[1:])
    several = len({place[0] for place in places}) < len(places)
    return {len(place) for place in places} in ({2}, {4}) and numbers and several and len({*places}) == len(places)


def _paths(topology: str, place: str) -> dict[str, tuple[str, ...]]:
    """Return the switches above a node, broad to close, in each topology that it says."""
    paths = {}
    for part in topology.split(",") if topology not in ("", "(null)", "N/A") else ():
        name, *switches = part.split(":")
        if not name or not all(switches) or not switches:
            nowhere = f"{part[:60]!r} is no place in a topology"
            raise InvalidInput(nowhere, where=place, fix="write TOPOLOGY:SWITCH:SWITCH, such as default:spine-1:leaf-2")
        paths[name] = tuple(switches)
    return paths
