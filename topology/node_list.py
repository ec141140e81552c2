"""Lists of nodes laid over a topology: which are in use, which cannot be used, how many GPUs they have.

A list is one node or Slurm hostlist a line (all of them in use; ``#`` begins a comment), a saved placement (the same),
or what Slurm says of its nodes (:mod:`topology.slurm`).  Nodes that the cluster does not have are counted and left out:
a list of Slurm's has CPU and login nodes too.  Where it has the states of no node of the cluster, it is of another one,
and refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topology.cluster import DEFAULT_GPUS, MAX_GPUS, MAX_NODES, Cluster
from topology.errors import InvalidInput, InvalidTopology, did_you_mean, some
from topology.files import Source
from topology.flags import NodeFlag
from topology.hostlist import expand_hostlist
from topology.node_gpus import NodeGpus
from topology.parsing.documents import load_document
from topology.quantities import plural
from topology.slurm.slurm_nodes import SlurmNode, slurm_nodes
from topology.slurm.slurm_table import Use, powered_off, use_of

_PLACEMENT = re.compile(r'"assignment"\s*:')


@dataclass(frozen=True, slots=True)
class _Cell:
    node: str


@dataclass(frozen=True, slots=True)
class _Placed:
    """What ``arnold place`` saved, as far as it is needed."""

    assignment: list[_Cell]


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list says of one node."""

    use: Use
    state: str = ""
    """In the words of the list, ``idle~``; empty = nothing but that it is in use."""
    gpus: NodeGpus | None = None
    """``None`` = not said."""
    gpu_type: str = ""
    """Empty = not said."""


@dataclass(frozen=True, slots=True)
class NodeList:
    """A list of nodes."""

    source: str  # what it is called
    nodes: Mapping[str, Listed]  # name of a node of the cluster -> what the list says of it
    strangers: Mapping[str, str]  # names of nodes that the cluster does not have, and where each stands first
    states: bool  # whether it is Slurm's, which says the state of every node there is


def read_node_list(source: Source, cluster: Cluster) -> NodeList:
    """Read a list, which may be empty; raise InvalidTopology for one of Slurm's of which the cluster has no node."""
    if source.text.lstrip().startswith("{") and _PLACEMENT.search(source.text):
        cells = load_document(source).parse(_Placed).assignment
        return _in_use(source, {cell.node: source.name for cell in cells}, cluster)
    rows = slurm_nodes(source, cluster.index_of)
    found = _plain(source, cluster) if rows is None else _stated(source, rows, cluster)
    if found.states and found.strangers and not found.nodes:
        name, place = next(iter(found.strangers.items()))
        none = f"the cluster has none of the nodes listed: {some([*found.strangers])}"
        fix = "give the states of the nodes of this cluster, by the names of the cluster file"
        raise InvalidTopology(none, where=place, fix=did_you_mean(name, cluster.names) + fix)
    return found


def with_gpus(
    cluster: Cluster, lists: Sequence[NodeList], gpus_per_node: int | None, *, source: str
) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster of a file that does not say how many GPUs its nodes have, with GPUs, and what was decided;
    what was assumed comes last.

    What the user says (at most :data:`MAX_GPUS`) counts before what the lists say, and that before the default.  Nodes
    that have none by a list are left out, as long as the list knows GPUs of others.
    """
    listings = (listing for one in lists for listing in one.nodes.items())
    told = {name: listed.gpus.physical for name, listed in listings if listed.gpus is not None}
    told = told if any(told.values()) else {}
    if gpus_per_node is not None and gpus_per_node > MAX_GPUS:
        fix = f"a node has at most {MAX_GPUS} GPUs"
        raise InvalidTopology(f"{gpus_per_node} GPUs a node", where="--gpus-per-node", fix=fix)
    counts = Counter(count for count in told.values() if count)
    usual = counts.most_common(1)[0][0] if counts else DEFAULT_GPUS
    gpus = np.full(len(cluster), gpus_per_node or usual, dtype=np.int32)
    silent = len(cluster) - len(told) if gpus_per_node is None else 0
    notes = []
    if gpus_per_node is None:
        for name, count in told.items():
            gpus[cluster.index_of[name]] = max(count, 1)
        if told:
            words = ", ".join(f"{count} on {nodes:,} nodes" for count, nodes in counts.most_common())
            notes.append(f"GPUs from the list of nodes, as {source} does not say them: {words}")
    filled = cluster.replace(gpus=gpus, free_gpus=gpus.copy(), gpus_assumed=silent > 0)
    if bare := [name for name, count in told.items() if not count]:
        notes.append(f"nodes without GPUs, left out: {some(bare)}")
        filled = filled.subset(np.delete(np.arange(len(cluster), dtype=np.int32), [cluster.index_of[n] for n in bare]))
    if silent:
        notes.append(
            f"{usual} GPUs a node assumed ({plural(silent, 'node')}): {source} does not say; give --gpus-per-node N if "
            "they have another number"
        )
    return filled, tuple(notes)


def with_types(
    cluster: Cluster, lists: Sequence[NodeList], gpu_type: str | None, *, source: str
) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster with a type of GPU on the nodes whose file says none, and what was decided.

    What the user says counts before what the lists say; without either the type stays unsaid.

    :raises InvalidInput: the user says a type, and the file has one for every node.
    """
    silent = [i for i, of in enumerate(cluster.gpu_type_of.tolist()) if not cluster.gpu_types[of]]
    if gpu_type is not None:
        if not silent:
            known, fix = f"{source} says itself of which type its GPUs are", "leave --gpu-type out, or correct the file"
            raise InvalidInput(known, where="--gpu-type", fix=fix)
        if not gpu_type.strip() or not gpu_type.isprintable():
            raise InvalidInput(f"{gpu_type[:60]!r} is no type", where="--gpu-type", fix="give a name such as H100")
        return cluster.with_gpu_types(dict.fromkeys(silent, gpu_type.strip())), ()
    told = {name: listed.gpu_type for one in lists for name, listed in one.nodes.items() if listed.gpu_type}
    found = {i: told[cluster.names[i]] for i in silent if cluster.names[i] in told}
    if not found:
        return cluster, ()
    words = ", ".join(f"{name} on {nodes:,} nodes" for name, nodes in Counter(found.values()).most_common())
    return cluster.with_gpu_types(found), (
        f"types of GPU from the list of nodes, as {source} does not say them: {words}",
    )


def with_node_list(cluster: Cluster, one: NodeList) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster with what a list says laid over it, and what a user should know.

    All GPUs of a node in use are in use, also where Slurm calls the node mixed: a gang takes whole nodes.  A node that
    cannot be used is faulty, as emptying the cluster would not free it.  One whose GPUs are cut into slices is shared.
    """
    here = {cluster.index_of[name]: listed for name, listed in one.nodes.items() if name in cluster.index_of}
    busy = [i for i, listed in here.items() if listed.use is Use.IN_USE]
    flags = [
        NodeFlag(cluster.names[i], "faulty", source=one.source, evidence=f"Slurm: {listed.state}")
        for i, listed in here.items()
        if listed.use is Use.UNUSABLE
    ]
    cut = {i: listed.gpus.sharing for i, listed in here.items() if listed.gpus is not None and listed.gpus.sharing}
    return cluster.with_busy(busy).with_flags(flags).with_sharing(cut), tuple(_notes(cluster, one, here))


def _notes(cluster: Cluster, one: NodeList, here: Mapping[int, Listed]) -> Iterator[str]:
    if one.states:
        words = {Use.FREE: "free", Use.IN_USE: "in use", Use.UNUSABLE: "not usable"}
        held = {use: Counter(listed.state for listed in here.values() if listed.use is use) for use in Use}
        yield f"{one.source}: " + ", ".join(f"{_counted(held[use])} {words[use]}" for use in Use)
        free = {cluster.names[i]: listed.state for i, listed in here.items() if listed.use is Use.FREE}
        if off := [name for name, state in free.items() if powered_off([state])]:
            yield f"powered off, and free, for Slurm starts them for a job: {some(off)}"
        if missing := [name for i, name in enumerate(cluster.names) if i not in here]:
            yield f"not listed in {one.source}, and taken as free: {some(missing)}"
    shards = Counter(listed.gpus.shares for listed in here.values() if listed.gpus is not None)
    del shards[1]
    if shards:
        yield (
            f"GPUs that Slurm gives away whole or in shards ({' or '.join(map(str, sorted(shards)))} a GPU), so whole "
            f"on a node of which nothing is in use: {shards.total():,} of {len(cluster):,} nodes"
        )
    if one.strangers:
        everything = "" if here else ", and nothing else is listed, so no node is in use by it"
        yield f"listed in {one.source} and no nodes of the cluster, left out: {some([*one.strangers])}{everything}"
    counts = {i: listed.gpus.physical for i, listed in here.items() if listed.gpus is not None}
    differing = [cluster.names[i] for i, count in counts.items() if count != cluster.gpus[i]]
    # a site that gives no GPUs to any node keeps no such resources
    if differing and any(counts.values()):
        yield f"nodes to which {one.source} gives another number of GPUs, which does not count: {some(differing)}"


def _counted(states: Counter[str]) -> str:
    """Return ``23 (alloc 20, mix 3)``, or 0."""
    listed = ", ".join(f"{state} {count}" for state, count in states.most_common())
    return f"{states.total():,}" + (f" ({listed})" if listed else "")


def _plain(source: Source, cluster: Cluster) -> NodeList:
    """Read a node or hostlist a line; a node may be listed more than once."""
    places: dict[str, str] = {}
    budget = 4 * MAX_NODES
    for number, line in enumerate(source.text.splitlines(), 1):
        text = line.split("#", 1)[0].strip()
        place = source.at(number)
        if text in cluster.index_of:
            places.setdefault(text, place)
        elif text:
            names = expand_hostlist(text, where=place, limit=min(MAX_NODES, budget))
            budget -= len(names)
            for name in names:
                places.setdefault(name, place)
    return _in_use(source, places, cluster)


def _in_use(source: Source, places: Mapping[str, str], cluster: Cluster) -> NodeList:
    """Return the list of nodes that are in use, by where each stands."""
    known = {name: Listed(Use.IN_USE) for name in places if name in cluster.index_of}
    strangers = {name: place for name, place in places.items() if name not in known}
    return NodeList(source.name, known, strangers, states=False)


def _stated(source: Source, rows: Sequence[SlurmNode], cluster: Cluster) -> NodeList:
    """Read what Slurm says; a node that is listed in several partitions is as bad as its worst state."""
    known: dict[str, Listed] = {}
    strangers: dict[str, str] = {}
    for row in rows:
        if row.name not in cluster.index_of:
            strangers.setdefault(row.name, row.place)
            continue
        use, before = use_of(row.state), known.get(row.name)
        if before is None or use > before.use:
            gpus = row.gpus if row.gpus is not None or before is None else before.gpus
            gpu_type = row.gpu_type or ("" if before is None else before.gpu_type)
            known[row.name] = Listed(use, "+".join(row.state).lower(), gpus, gpu_type)
    return NodeList(source.name, known, strangers, states=True)
