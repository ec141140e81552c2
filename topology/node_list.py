"""Lists of nodes laid over a topology: which are in use, which cannot be used, how many GPUs they have.

A list is one node or Slurm hostlist a line (all of them in use; ``#`` begins a comment), a saved placement (the same),
or what Slurm says of itself (:mod:`topology.slurm_snapshot`), in one file or several, which count as one.

- A plain list says which nodes are in use, and nothing of others.  A list with states is complete: a node of the
  cluster that it does not have is not usable, as Slurm does not know it.
- A list that has no node of the cluster at all is one of another cluster, and refused.  Nodes that the cluster does not
  have are counted and left out otherwise: Slurm lists CPU and login nodes too.
- Names may be spelled in another way than in the cluster's file (:mod:`topology.node_names`).

People also give what is neither a list nor a cluster, as the answer to a similar question: the table of ``squeue``, the
table of ``kubectl get nodes``.  Its first lines tell it, and an error then names the command to run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

import numpy as np

from ground.documents import load_document
from ground.errors import InvalidInput, InvalidTopology, did_you_mean, some
from ground.files import Source, read_source
from ground.quantities import plural
from topology.cluster import DEFAULT_GPUS, MAX_GPUS, MAX_NODES, Cluster, NodeLimit
from topology.flags import NodeFlag
from topology.node_gpus import NodeGpus
from topology.node_names import NodeNames, expand_hostlist
from topology.slurm_nodes import SlurmNode, Use, powered_off, use_of
from topology.slurm_snapshot import UNLISTED, SlurmRequest, SlurmSnapshot, Unlisted, read_snapshot

# -- known_strangers --
# What people give for a cluster or a list of nodes and that is neither: what it is, and what to give instead.
#
# A text that no reader knows is often the answer to a similar question: the table of ``sinfo`` for a topology, the
# table of ``kubectl get nodes`` for its JSON.  Its first lines tell it, and an error then names the command to run.


_HEAD = 65_536  # Characters of a text that are looked at
_SLURM = "for the topology give `scontrol show topology`, or without one `scontrol show nodes`"
_SLURM_STATES = 'for which nodes are free give `sinfo -N -h -o "%N %t %G"`'
_KUBERNETES = "give `kubectl get nodes,pods -A -o json`"
_FABRIC = "for the fabric give `ibnetdiscover`"
_TABLE = "write a CSV with the columns node,rack,gpus"
_NAMES = "write a node or hostlist a line"


@dataclass(frozen=True)
class Stranger:
    """A kind of text."""

    what: str  # what it is, as in "is ..."
    mark: str  # regular expression of a line that each has
    cluster: str = ""  # what to give for a cluster; empty = it may be one
    nodes: str = _SLURM_STATES  # what to give for a list of nodes; empty = it may be one

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The mark, at the beginning of a line."""
        return re.compile(rf"^{self.mark}", re.MULTILINE)


STRANGERS = (
    Stranger(
        "a table of sinfo, which has states and no topology",
        r"(?:PARTITION +AVAIL|NODELIST +NODES +PARTITION|\S+\*? +(?:up|down|drain|inact) +\S+ +\d+ +\w+\S* +\S+$)",
        f"{_SLURM}, and this with --busy",
        nodes="",
    ),
    Stranger("a table of squeue, which has jobs; nodes that are down run none", r" *JOBID +PARTITION ", _SLURM),
    Stranger(
        "a table of sacct, which has jobs",
        r"(?:JobID +|JobID\||JobIDRaw\|)",
        f"{_SLURM}; what sacct prints is a --trace",
    ),
    Stranger(
        "a slurm.conf, which has no topology and no states",
        r"(?:NodeName|ClusterName|SlurmctldHost|PartitionName)=",
        f"{_SLURM}, or the topology.conf beside it",
    ),
    Stranger(
        "a table of `kubectl get nodes`, without labels and GPUs", r"NAME +STATUS +ROLES ", _KUBERNETES, _KUBERNETES
    ),
    Stranger("a table of kubectl's pods", r"(?:NAMESPACE +)?NAME +READY +STATUS ", _KUBERNETES, _KUBERNETES),
    Stranger("a table of `kubectl top nodes`", r"NAME +CPU\(cores\) ", _KUBERNETES, _KUBERNETES),
    Stranger("the text of `kubectl describe`", r"Name: +\S+\n(?:Roles|Namespace|Labels): ", _KUBERNETES, _KUBERNETES),
    Stranger(
        "what nvidia-smi says of one machine",
        r"(?:.*\bNVIDIA-SMI\b|[ \t]+(?:\x1b\[4m)?GPU0[ \t])",
        f"{_SLURM}; or {_TABLE}",
    ),
    Stranger("what ibstat says of one machine", r"CA '\w+'", _FABRIC),
    Stranger("a list of ibswitches, ibhosts or iblinkinfo", r"(?:(?:Switch|Ca)\t: 0x|(?:CA|Switch): )", _FABRIC),
    Stranger("what pbsnodes says", r" +(?:Mom|ntype|resources_available\.\w+) = ", _TABLE, _NAMES),
    Stranger("a table of LSF's bhosts", r"HOST_NAME +STATUS ", _TABLE, _NAMES),
    Stranger("a web page", r"[ \t]*<(?:!DOCTYPE html|html)\b", "save the text that the page shows", _NAMES),
    Stranger("a job file", r"parallelism:", "give it with --job, and the cluster with --cluster", _NAMES),
    Stranger("a table with commas and without states", r"[^,\s]+,(?:[^,\s]*,)*(?:\(null\)|gpu:\w+)", _SLURM),
)
"""In the order in which they are looked for."""


def stranger_fault(text: str, *, nodes: bool) -> tuple[str, str] | None:
    """Return what a text is and what to give instead; ``None`` = it is no such text.

    :param nodes: whether a list of nodes is wanted; else a cluster.
    """
    head = text[:_HEAD]
    for stranger in STRANGERS:
        fix = stranger.nodes if nodes else stranger.cluster
        if fix and stranger.pattern.search(head):
            return f"is {stranger.what}", fix
    return None


# -- node_list --
# Lists of nodes laid over a topology: which are in use, which cannot be used, how many GPUs they have.
#
# A list is one node or Slurm hostlist a line (all of them in use; ``#`` begins a comment), a saved placement (the
# same), or what Slurm says of itself (:mod:`topology.slurm_snapshot`), in one file or several, which count as one.
#
# - A plain list says which nodes are in use, and nothing of others.  A list with states is complete: a node of the
#   cluster that it does not have is not usable, as Slurm does not know it.
# - A list that has no node of the cluster at all is one of another cluster, and refused.  Nodes that the cluster does
# not
#   have are counted and left out otherwise: Slurm lists CPU and login nodes too.
# - Names may be spelled in another way than in the cluster's file (:mod:`topology.node_names`).


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
    reason: str = ""
    """Why it cannot be used, by who said so; empty = not said."""


@dataclass(frozen=True, slots=True)
class NodeList:
    """A list of nodes."""

    source: str  # what it is called
    nodes: Mapping[str, Listed]  # name of a node of the cluster -> what the list says of it
    strangers: Mapping[str, str]  # names of nodes that the cluster does not have, and where each stands first
    respelled: Mapping[str, str]  # names of nodes in the list -> in the cluster, where they are spelled otherwise
    states: bool = False  # whether it is Slurm's, which says the state of every node there is
    kept_out: Mapping[str, str] = field(default_factory=dict)  # nodes that the job may not have -> why
    node_limit: NodeLimit | None = None
    notes: tuple[str, ...] = ()  # how it was decided which nodes the job may have


def read_node_lists(
    sources: Sequence[Source],
    cluster: Cluster,
    request: SlurmRequest,
    *,
    now: datetime,
    unlisted: Unlisted | None = None,
    own: Source | None = None,
) -> list[NodeList]:
    """Read lists, of which any may be empty; all that Slurm said of itself is one list.

    :param request: what the job asks of Slurm.
    :param now: the present, timezone-aware.
    :param unlisted: what nodes are that no list with states has; ``None`` = unusable.
    :param own: the one of the sources that is the file of the cluster, too.
    :raises InvalidTopology: a list has no node of the cluster, or a name that is that of several.
    :raises InvalidInput: a list is damaged; the request is none, or asks for what no list says.
    """
    names = NodeNames(cluster.index_of)
    lists: list[NodeList] = []
    parts: list[tuple[Source, SlurmSnapshot]] = []
    for source in sources:
        if source.text.lstrip().startswith("{") and _PLACEMENT.search(source.text):
            cells = load_document(source).parse(_Placed).assignment
            lists.append(_in_use(source, {cell.node: source.name for cell in cells}, names))
        elif (snapshot := read_snapshot(source, names)) is not None:
            parts.append((source, snapshot))
        else:
            lists.append(_plain(source, names))
    if parts:
        return [*lists, _of_slurm(parts, cluster, names, request, now=now, unlisted=unlisted, own=own)]
    if option := request.first_option():
        none = "nothing that was read says what Slurm's nodes are"
        fix = "give what `scontrol show nodes` and `scontrol show partitions` print with --busy, or --cluster slurm:"
        raise InvalidInput(none, where=option, fix=fix)
    if unlisted == "unusable":
        none = "no list of states was read, and only such a list is complete"
        raise InvalidInput(none, where="--unlisted", fix="give what `scontrol show nodes` prints with --busy")
    return lists


def without_excluded(cluster: Cluster, nodes: str) -> Cluster:
    """Return the cluster with nodes kept out as ``sbatch --exclude`` takes them: a hostlist, or a file if it has a /.

    :raises InvalidInput: the cluster has no such node, or the file cannot be read.
    """
    text, where = nodes, "--exclude"
    if "/" in nodes:
        source = read_source(nodes, may_be_empty=True)
        text, where = ",".join(source.text.split()), source.name
    names = NodeNames(cluster.index_of)
    excluded = {}
    for name in expand_hostlist(text, where=where) if text else ():
        own = names.find(name, where=where)
        if own is None:
            fix = f"{did_you_mean(name, names.spelled)}give names of the cluster file"
            raise InvalidInput(f"the cluster has no node {name[:80]!r}", where=where, fix=fix)
        excluded[cluster.index_of[own]] = "excluded (--exclude)"
    return cluster.with_kept_out(excluded)


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
    cannot be used is faulty, as emptying the cluster would not free it; one that the job may not have is kept out; one
    whose GPUs are cut into slices is shared.
    """
    here = {cluster.index_of[name]: listed for name, listed in one.nodes.items() if name in cluster.index_of}
    busy = [i for i, listed in here.items() if listed.use is Use.IN_USE]
    flags = [
        NodeFlag(cluster.names[i], "faulty", source=one.source, evidence=f"Slurm: {listed.state}" + because)
        for i, listed in here.items()
        for because in [f", {listed.reason}" if listed.reason else ""]
        if listed.use is Use.UNUSABLE
    ]
    kept_out = {cluster.index_of[name]: why for name, why in one.kept_out.items() if name in cluster.index_of}
    cut = {i: listed.gpus.sharing for i, listed in here.items() if listed.gpus is not None and listed.gpus.sharing}
    laid = cluster.with_busy(busy).with_flags(flags).with_kept_out(kept_out).with_sharing(cut)
    laid = laid if one.node_limit is None else laid.replace(node_limit=one.node_limit)
    return laid, tuple(_notes(cluster, one, here))


def _notes(cluster: Cluster, one: NodeList, here: Mapping[int, Listed]) -> Iterator[str]:
    yield from one.notes
    if one.states:
        words = {Use.FREE: "free", Use.IN_USE: "in use", Use.UNUSABLE: "not usable"}
        may_have = [listed for i, listed in here.items() if cluster.names[i] not in one.kept_out]
        held = {use: Counter(listed.state for listed in may_have if listed.use is use) for use in Use}
        kept_out = f", {len(here) - len(may_have):,} kept out" if len(may_have) < len(here) else ""
        yield f"{one.source}: " + ", ".join(f"{_counted(held[use])} {words[use]}" for use in Use) + kept_out
        free = {cluster.names[i]: listed.state for i, listed in here.items() if listed.use is Use.FREE}
        if off := [name for name, state in free.items() if powered_off([state]) and name not in one.kept_out]:
            yield f"powered off, and free, for Slurm starts them for a job: {some(off)}"
    reasons: dict[str, list[str]] = {}
    for name, why in one.kept_out.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        if why == UNLISTED:
            yield f"not listed in {one.source}, and so not usable: {some(names)} (--unlisted free takes them)"
        else:
            yield f"kept out, {why}: {some(names)}"
    missing = [name for i, name in enumerate(cluster.names) if i not in here and name not in one.kept_out]
    if one.states and missing:
        yield f"not listed in {one.source}, and taken as free: {some(missing)}"
    shards = Counter(listed.gpus.shares for listed in here.values() if listed.gpus is not None)
    del shards[1]
    if shards:
        yield (
            f"GPUs that Slurm gives away whole or in shards ({' or '.join(map(str, sorted(shards)))} a GPU), so whole "
            f"on a node of which nothing is in use: {shards.total():,} of {len(cluster):,} nodes"
        )
    if one.respelled:
        pairs = [f"{there} is {ours}" for there, ours in one.respelled.items()]
        yield f"listed in {one.source} in another spelling: {some(pairs)}"
    if one.strangers:
        yield f"listed in {one.source} and no nodes of the cluster, left out: {some([*one.strangers])}"
    counts = {i: listed.gpus.physical for i, listed in here.items() if listed.gpus is not None}
    differing = [cluster.names[i] for i, count in counts.items() if count != cluster.gpus[i]]
    # a site that gives no GPUs to any node keeps no such resources
    if differing and any(counts.values()):
        yield f"nodes to which {one.source} gives another number of GPUs, which does not count: {some(differing)}"


def _counted(states: Counter[str]) -> str:
    """Return ``23 (alloc 20, mix 3)``, or 0."""
    listed = ", ".join(f"{state} {count}" for state, count in states.most_common())
    return f"{states.total():,}" + (f" ({listed})" if listed else "")


def _plain(source: Source, names: NodeNames) -> NodeList:
    """Read a node or hostlist a line; a node may be listed more than once."""
    if (stranger := stranger_fault(source.text, nodes=True)) is not None:
        raise InvalidInput(stranger[0], where=source.name, fix=stranger[1])
    places: dict[str, str] = {}
    budget = 4 * MAX_NODES
    for number, line in enumerate(source.text.splitlines(), 1):
        text = line.split("#", 1)[0].strip()
        place = source.at(number)
        if text in names:
            places.setdefault(text, place)
        elif text:
            hosts = expand_hostlist(text, where=place, limit=min(MAX_NODES, budget))
            budget -= len(hosts)
            for host in hosts:
                places.setdefault(host, place)
    return _in_use(source, places, names)


def _in_use(source: Source, places: Mapping[str, str], names: NodeNames) -> NodeList:
    """Return the list of nodes that are in use, by where each stands."""
    ours, strangers = _found(places, names)
    # a list that Arnold made itself may name nodes that are gone; no person chose it
    if strangers and not ours and source.numbered:
        raise _of_another_cluster(strangers, names, "an empty file says that no node is in use")
    known = {name: Listed(Use.IN_USE) for name in ours.values()}
    return NodeList(source.name, known, strangers, {name: own for name, own in ours.items() if name != own})


def _found(places: Mapping[str, str], names: NodeNames) -> tuple[dict[str, str], dict[str, str]]:
    """Return the nodes of the cluster by their names in a list, and where the others stand.

    :raises InvalidTopology: two names in different domains are one node of the cluster.
    """
    ours: dict[str, str] = {}
    strangers: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for name, place in places.items():
        own = names.find(name, where=place)
        if own is None:
            strangers[name] = place
            continue
        ours[name] = own
        if own != name and spelled.setdefault(own, name).lower() != name.lower():
            both = f"{spelled[own]!r} and {name!r} would both be the node {own!r} of the cluster"
            raise InvalidTopology(both, where=place, fix="write names as the cluster file has them")
    return ours, strangers


def _of_another_cluster(strangers: Mapping[str, str], names: NodeNames, otherwise: str) -> InvalidTopology:
    name, place = next(iter(strangers.items()))
    none = f"the cluster has none of the nodes listed: {some([*strangers])}"
    fix = f"{did_you_mean(name, names.spelled)}list nodes of this cluster, by the names of its file; {otherwise}"
    return InvalidTopology(none, where=place, fix=fix)


def _of_slurm(
    parts: Sequence[tuple[Source, SlurmSnapshot]],
    cluster: Cluster,
    names: NodeNames,
    request: SlurmRequest,
    *,
    now: datetime,
    unlisted: Unlisted | None,
    own: Source | None,
) -> NodeList:
    """Return all that Slurm said of itself as one list: what its nodes are to a job."""
    ours: dict[str, str] = {}
    strangers: dict[str, str] = {}
    for source, part in parts:
        if part.nodes is None:
            continue
        places: dict[str, str] = {}
        for node in part.nodes:
            places.setdefault(node.name, node.place)
        known, others = _found(places, names)
        if not known and places:
            raise _of_another_cluster(others, names, "a list with states has the nodes of this cluster")
        if not known:
            empty = "lists no node, so that the state of none is known"
            raise InvalidTopology(empty, where=source.name, fix="ask Slurm again (sinfo), or leave the list out")
        ours |= known
        strangers |= {} if source is own else others
    starts = next((source.name for source, part in parts if part.planned is not None), "")
    if starts and all(part.nodes is None for _, part in parts):
        none = "says which jobs there are, and nothing the states of nodes: one that is down runs no job"
        fix = 'give what `scontrol show nodes` or `sinfo -N -h -o "%N %t %G"` prints, too'
        raise InvalidInput(none, where=starts, fix=fix)
    snapshot = SlurmSnapshot.merged(part for _, part in parts).renamed(lambda name: ours.get(name) or names.any(name))
    available = snapshot.availability(request, cluster.names, now=now, unlisted=unlisted)
    listed: dict[str, Listed] = {}
    for node in snapshot.nodes or ():
        if node.name in available.uses:
            listed[node.name] = _worse(node, listed.get(node.name), available.uses[node.name])
    sources = " and ".join(source.name for source, part in parts if part.nodes is not None)
    return NodeList(
        sources or " and ".join(source.name for source, _ in parts),
        listed,
        strangers,
        {name: own for name, own in ours.items() if name != own},
        states=snapshot.nodes is not None,
        kept_out=available.kept_out,
        node_limit=available.node_limit,
        notes=available.notes,
    )


def _worse(node: SlurmNode, before: Listed | None, use: Use) -> Listed:
    """Return what rows of one node say of it, the worst state of them in words.

    :param use: what all of them together make of it for the job.
    """
    state = "+".join(node.state).lower()
    if before is None:
        return Listed(use, state, node.gpus, node.gpu_type, node.reason)
    if use_of(node.state) <= use_of(before.state.split("+")):
        state = before.state
    gpus = before.gpus if node.gpus is None else node.gpus
    return Listed(use, state, gpus, node.gpu_type or before.gpu_type, node.reason or before.reason)
