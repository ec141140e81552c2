"""From a file to a cluster with its state laid over it: which nodes are in use, flagged or kept out.

A file is of the format of the one reader that recognises it by its content (:mod:`topology.readers`).  Over what it
says itself come lists of nodes, flags, and what the options say, each with a note of what was decided.

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

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ground.documents import load_document
from ground.errors import InvalidInput, InvalidTopology, did_you_mean, some
from ground.files import HEAD, Source, read_source
from ground.formats import recognise
from ground.groups import grouped
from ground.plugins import noted
from ground.quantities import plural
from ground.records import checked
from topology.build import with_level_names, with_second_levels
from topology.cluster import DEFAULT_GPUS, MAX_GPUS, MAX_NODES, Cluster, NodeLimit
from topology.flags import NodeFlag
from topology.node_gpus import NodeGpus, SharedGpus, alike_types
from topology.node_names import NodeNames, expand_hostlist
from topology.readers.reading import TOPOLOGY_READERS, ChoosesTopology, CountsResource, Reading, TopologyReader, Unpacks
from topology.taints import Toleration, taint_notes

if TYPE_CHECKING:
    from topology.running_jobs import LiveJobs
    from topology.slurm_nodes import SlurmReason, Use
    from topology.slurm_snapshot import SlurmRequest, SlurmSnapshot, Unlisted

_LOG = logging.getLogger(__name__)

RAILS_AS_NODES = ("@rail", "@rails")  # Names of second hierarchies that cannot be what they are called


@dataclass(frozen=True, slots=True)
class LoadedTopology:
    """A cluster with all that was said about it on the way."""

    cluster: Cluster
    source: str  # what the cluster is called: its file, - for standard input, or a live cluster
    format: str  # name of the format of the file
    notes: tuple[str, ...]  # what a user should know, one sentence each
    now: datetime  # the time that counts as now, timezone-aware
    assumed: str = ""  # the one of the notes that GPUs are assumed, as neither the file nor an option says them
    jobs: LiveJobs | None = None  # those that run, whose GPUs are in use, and that wait; None = nobody said which
    lists: tuple[Source, ...] = ()  # lists of nodes that were laid over it


@checked
def load_topology(
    path: str | Path | Source,
    *,
    format: str | None = None,
    busy: Sequence[str | Path | Source] = (),
    flags: Sequence[str | Path | Source] = (),
    running: Sequence[Source] | None = None,
    levels: Sequence[str] | None = None,
    level_names: Sequence[str] | None = None,
    domains: Mapping[str, str] | None = None,
    gpus_per_node: int | None = None,
    gpu_type: str | None = None,
    gpu_resource: str | None = None,
    tolerations: tuple[Toleration, ...] = (),
    shared_gpus: SharedGpus = "unusable",
    request: SlurmRequest | None = None,
    exclude: str = "",
    unlisted: Unlisted | None = None,
    now: datetime | None = None,
) -> LoadedTopology:
    """Read a cluster in any known format, and lay busy nodes and flags over it.

    :param path: the file, or ``-`` for standard input; or what was read already, as of ``busy``.
    :param format: name of the format; ``None`` = recognise it by content.
    :param busy: files with one node or hostlist a line: nodes in use; or with what Slurm says of itself
        (:mod:`topology.slurm_snapshot`).  Of several opinions about a node the worst counts.
    :param flags: YAML or JSON files with a list of flags, or flag stores; what does not hold at ``now`` is left out.
    :param running: jobs that run, in any format of them; ``None`` = not said.
    :param gpus_per_node: for a file that does not say it; ``None`` = what ``busy`` says, else ``DEFAULT_GPUS``, noted.
    :param gpu_type: of the nodes of which the file does not say it; ``None`` = what ``busy`` says, else unsaid.
    :param gpu_resource: where GPUs are a resource (Kubernetes), its name; ``None`` = those of NVIDIA and AMD.
    :param shared_gpus: whether nodes that share their GPUs are whole nodes, as if the sharing were switched off.
    :param levels: for formats that leave them open (Kubernetes): labels from broad to close.
    :param level_names: what to call the levels, from broad to close; ``None`` = as the file does.
    :param domains: for the same formats, second hierarchies: name, with its ``@`` -> the label of the nodes' domains.
    :param tolerations: taints that every job puts up with.
    :param request: what the job asks of Slurm: the nodes that it may not have are kept out.
    :param exclude: a hostlist of nodes that are kept out, or a file with some if there is a / in it.
    :param unlisted: what nodes are that no list with states has; ``None`` = unusable.
    :param now: timezone-aware; ``None`` = the present, or the time of a snapshot.
    """
    if sum(str(file) == "-" for file in (path, *busy, *flags) if not isinstance(file, Source)) > 1:
        raise InvalidInput("standard input can be read once only", where="-", fix="give a file for all but one")
    source = path if isinstance(path, Source) else read_source(path)
    if format is None:
        reader = recognise(TOPOLOGY_READERS, source, stranger=partial(stranger_fault, nodes=False))
    else:
        reader = TOPOLOGY_READERS.load(format)
    if isinstance(reader, Unpacks):
        unpacked = reader.unpack(source)
        asked = {
            "levels": levels, "level_names": level_names, "domains": domains, "gpus_per_node": gpus_per_node,
            "gpu_type": gpu_type, "gpu_resource": gpu_resource, "unlisted": unlisted,
            "shared_gpus": None if shared_gpus == "unusable" else shared_gpus,
        }  # fmt: skip
        from topology.slurm_nodes import LOCAL

        local = LOCAL.set(unpacked.local)
        try:
            loaded = load_topology(
                unpacked.cluster,
                format=unpacked.format,
                busy=(*unpacked.lists, *busy),
                flags=(*unpacked.flags, *flags),
                running=unpacked.running if running is None else running,
                tolerations=tolerations,
                request=request,
                exclude=exclude,
                now=unpacked.time if now is None else now,
                **{**unpacked.options, **{option: value for option, value in asked.items() if value is not None}},
            )
        finally:
            LOCAL.reset(local)
        return replace(loaded, source=_name(path), format=reader.format.name)
    now = datetime.now(UTC) if now is None else now
    if gpu_resource is not None:
        if not isinstance(reader, CountsResource):
            nameless = f"GPUs are no resource with a name in the format {reader.format.name}"
            raise InvalidInput(nameless, where="--gpu-resource", fix="leave --gpu-resource out")
        reader = reader.counting(gpu_resource)
    listings = [file if isinstance(file, Source) else read_source(file, may_be_empty=True) for file in busy]
    laid = tuple(listings)
    topology = chosen = ""
    # most clusters are read without a word of Slurm; to look for one takes a thousandth of a second
    if partitions := [text for text in (source, *listings) if "artition" in text.text]:
        from topology.slurm_snapshot import NO_REQUEST, named_topology

        topology, chosen = named_topology(partitions, request or NO_REQUEST)
    if topology and isinstance(reader, ChoosesTopology):
        reader = reader.choosing(topology)

    reading = _read(source, reader, levels, domains or {}, now)
    cluster, notes, assumed = reading.cluster, [*reading.notes], ""
    if level_names is not None:
        try:
            cluster = with_level_names(cluster, level_names)
        except InvalidTopology as error:
            error.where = "--level-names"
            raise
    notes += taint_notes(cluster.taints, tolerations, nodes=len(cluster))
    cluster = cluster.tolerating(tolerations)
    if chosen and not isinstance(reader, ChoosesTopology):
        notes.append(chosen)
    if gpus_per_node is not None and not cluster.gpus_assumed:
        has_gpus = f"{source.name} says itself how many GPUs its nodes have"
        raise InvalidInput(has_gpus, where="--gpus-per-node", fix="leave --gpus-per-node out, or correct the file")

    if reading.has_states:
        listings = [source, *listings]
    lists: list[NodeList] = []
    if listings or (request is not None and request.first_option()) or unlisted is not None:
        from topology.slurm_snapshot import NO_REQUEST

        lists = read_node_lists(listings, cluster, request or NO_REQUEST, now=now, unlisted=unlisted, own=source)
    if cluster.gpus_assumed:
        cluster, more = with_gpus(cluster, lists, gpus_per_node, source=source.name)
        notes += more
        assumed = more[-1] if cluster.gpus_assumed else ""
    cluster, more = with_types(cluster, lists, gpu_type, source=source.name)
    notes += more
    for node_list in lists:
        cluster, more = with_node_list(cluster, node_list)
        notes += more
    for flag_file in flags:
        from topology.flag_sources import with_flags

        cluster, more = with_flags(cluster, flag_file, now=now)
        notes += more
    if exclude:
        cluster, more = _without_excluded(cluster, exclude)
        notes += more
    if cluster.sharing:
        kinds = ", ".join(f"{count:,} by {how}" for how, count in Counter(cluster.sharing.values()).most_common())
        nodes = f"{len(cluster.sharing):,} of {len(cluster):,} nodes ({kinds})"
        if shared_gpus == "whole":
            cluster = cluster.without_sharing()
            notes.append(f"counted as whole, as if their GPUs were not shared (--shared-gpus whole): {nodes}")
        else:
            refused = f"GPUs are shared, so no job of whole GPUs gets them: {nodes}"
            notes.append(f"{refused}; --shared-gpus whole counts them as whole ones")
    for level in cluster.second_levels:
        if level.name in RAILS_AS_NODES:
            notes.append(
                f"{level.name} is taken as domains of nodes; a rail is a network card of every node: say how many each "
                f"has in the column rails of a CSV"
            )
    if alike := alike_types(cluster.gpu_types):
        notes.append(f"{alike}; write each in one way, as no gang is on both unless it says gpu_types: any")
    jobs = None
    if running is not None:
        from topology.running_jobs import read_running, with_running

        jobs = read_running(running, cluster, now=now)
        cluster, unnamed = with_running(cluster, jobs.running)
        notes += [*jobs.notes, *unnamed]
    return LoadedTopology(cluster, _name(path), reader.format.name, tuple(notes), now, assumed, jobs, laid)


def _name(path: str | Path | Source) -> str:
    return path.name if isinstance(path, Source) else fspath(path)


def _read(
    source: Source, reader: TopologyReader, levels: Sequence[str] | None, domains: Mapping[str, str], now: datetime
) -> Reading:
    """Read what the file itself says, with the second hierarchies that are chosen among its labels."""
    for option, given in {"--levels": levels, "--domains": domains or None}.items():
        if given is not None and not reader.chooses_levels:
            fixed = f"the format {reader.format.name} names its own {option.removeprefix('--')}"
            raise InvalidInput(fixed, where=option, fix=f"leave {option} out")
    try:
        with noted(f"reading {source.name}"):
            reading = reader.read(source, levels=levels, now=now)
    except InvalidInput as error:
        error.where = error.where or source.name
        raise
    _LOG.info("%s is of the format %s: %d nodes", source.name, reader.format.name, len(reading.cluster))
    if not domains:
        return reading
    from topology.kubernetes.labels import check_labels, label_of

    labels, notes = reading.labels, []
    for name, label in domains.items():
        check_labels([label], labels, where="--domains")
        if lacking := sum(not label_of(node, label) for node in labels):
            each = f"each a domain of {name} by itself"
            notes.append(f"without the label {label}, so {each}: {lacking} of {len(labels)} nodes")
    try:
        named = {name: [label_of(node, label) for node in labels] for name, label in domains.items()}
        cluster = with_second_levels(reading.cluster, named)
    except InvalidTopology as error:
        error.where = "--domains"
        raise
    return replace(reading, cluster=cluster, notes=(*reading.notes, *notes))


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list says of one node."""

    use: Use
    state: str = ""  # In the words of the list, `idle~`; empty = nothing but that it is in use
    gpus: NodeGpus | None = None  # `None` = not said
    gpu_type: str = ""  # Empty = not said
    flag: NodeFlag | None = None  # What is held against it; `None` = nothing, so it can be used


@dataclass(frozen=True, slots=True)
class NodeList:
    """A list of nodes."""

    source: str  # what it is called
    nodes: Mapping[str, Listed]  # name of a node of the cluster -> what the list says of it
    strangers: Mapping[str, str]  # names of nodes that the cluster does not have, and where each stands first
    own_name: Mapping[str, str]  # names of nodes in the list -> in the cluster
    states: bool = False  # whether it is Slurm's, which says the state of every node there is
    kept_out: Mapping[str, str] = field(default_factory=dict)  # nodes that the job may not have -> why
    reserved: tuple[NodeFlag, ...] = ()  # windows in which nodes are kept out by reservations
    node_limit: NodeLimit | None = None
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)  # those that are known -> their nodes
    notes: tuple[str, ...] = ()  # how it was decided which nodes the job may have, and that a list has none


@dataclass(frozen=True, slots=True)
class _Cell:
    node: str


@dataclass(frozen=True, slots=True)
class _Placed:
    """What ``arnold place`` saved, as far as it is needed."""

    assignment: list[_Cell]


@dataclass(frozen=True, slots=True)
class _PlacedTogether:
    """The same of several jobs at once."""

    jobs: dict[str, _Placed]


_PLACEMENT = re.compile(r'"(?:assignment|one_after_the_other)"\s*:')


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
    from topology.slurm_nodes import Use
    from topology.slurm_snapshot import read_snapshot

    names = NodeNames(cluster.index_of)
    lists: list[NodeList] = []
    parts: list[tuple[Source, SlurmSnapshot]] = []
    for source in sources:
        what = "it names no node"
        if source.text.lstrip().startswith("{") and _PLACEMENT.search(source.text):
            document = load_document(source)
            several = isinstance(document.data, dict) and "assignment" not in document.data
            answers = document.parse(_PlacedTogether).jobs.values() if several else [document.parse(_Placed)]
            places = {cell.node: source.name for answer in answers for cell in answer.assignment}
            what = f"its {'jobs were' if several else 'job was'} not placed, so it has no node"
        elif (snapshot := read_snapshot(source, names)) is not None:
            parts.append((source, snapshot))
            continue
        else:
            places = _places_in_plain_list(source, names)
        own_name, strangers = _split_by_cluster(places, names)
        # a list that Arnold made itself may name nodes that are gone; no person chose it
        if strangers and not own_name and source.numbered:
            raise _of_another_cluster(strangers, names, "an empty file says that no node is in use")
        in_use = {name: Listed(Use.IN_USE) for name in own_name.values()}
        notes = () if places else (f"{source.name} says of no node that it is in use: {what}",)
        lists.append(NodeList(source.name, in_use, strangers, own_name, notes=notes))
    if parts:
        return [*lists, slurm_list(parts, cluster, names, request, now=now, unlisted=unlisted, own=own)]
    if option := request.first_option():
        none = "nothing that was read says what Slurm's nodes are"
        fix = "give what `scontrol show nodes` and `scontrol show partitions` print with --busy, or --cluster slurm:"
        raise InvalidInput(none, where=option, fix=fix)
    if unlisted == "unusable":
        none = "no list of states was read, and only such a list is complete"
        raise InvalidInput(none, where="--unlisted", fix="give what `scontrol show nodes` prints with --busy")
    return lists


def _places_in_plain_list(source: Source, names: NodeNames) -> dict[str, str]:
    """Return where each node stands in a list of a node or hostlist a line; it may be listed more than once."""
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
    return places


def _split_by_cluster(places: Mapping[str, str], names: NodeNames) -> tuple[dict[str, str], dict[str, str]]:
    """Return the nodes of the cluster by their names in a list, and where the others stand.

    :raises InvalidTopology: two names in different domains are one node of the cluster.
    """
    own_name: dict[str, str] = {}
    strangers: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for name, place in places.items():
        own = names.find(name, where=place)
        if own is None:
            strangers[name] = place
            continue
        own_name[name] = own
        if own != name and spelled.setdefault(own, name).lower() != name.lower():
            both = f"{spelled[own]!r} and {name!r} would both be the node {own!r} of the cluster"
            raise InvalidTopology(both, where=place, fix="write names as the cluster file has them")
    return own_name, strangers


def _of_another_cluster(strangers: Mapping[str, str], names: NodeNames, otherwise: str) -> InvalidTopology:
    name, place = next(iter(strangers.items()))
    none = f"the cluster has none of the nodes listed: {some([*strangers])}"
    fix = f"{did_you_mean(name, names.spelled)}list nodes of this cluster, by the names of its file; {otherwise}"
    return InvalidTopology(none, where=place, fix=fix)


def slurm_list(
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
    from topology.slurm_nodes import Use, use_of
    from topology.slurm_snapshot import SlurmSnapshot

    own_name: dict[str, str] = {}
    strangers: dict[str, str] = {}
    for source, part in parts:
        if part.nodes is None:
            continue
        places: dict[str, str] = {}
        for node in part.nodes:
            places.setdefault(node.name, node.place)
        own_here, others = _split_by_cluster(places, names)
        if not own_here and places:
            raise _of_another_cluster(others, names, "a list with states has the nodes of this cluster")
        if not own_here:
            empty = "lists no node, so that the state of none is known"
            raise InvalidTopology(empty, where=source.name, fix="ask Slurm again (sinfo), or leave the list out")
        own_name |= own_here
        strangers |= {} if source is own else others
    starts = next((source.name for source, part in parts if part.planned is not None), "")
    if starts and all(part.nodes is None for _, part in parts):
        none = "says which jobs there are, and nothing the states of nodes: one that is down runs no job"
        fix = 'give what `scontrol show nodes` or `sinfo -N -h -o "%N %t %G"` prints, too'
        raise InvalidInput(none, where=starts, fix=fix)
    snapshot = SlurmSnapshot.merged(part for _, part in parts)
    snapshot = snapshot.renamed(lambda name: own_name.get(name) or names.any(name))
    available = snapshot.availability(request, cluster.names, now=now, unlisted=unlisted)
    listed: dict[str, Listed] = {}
    reasons: dict[str, SlurmReason] = {}
    for node in snapshot.nodes or ():
        if node.name not in available.uses:
            continue
        # what all rows of a node together make of it for the job; of its states in words the worst row's
        use, state, gpus, gpu_type = available.uses[node.name], node.in_words, node.gpus, node.gpu_type
        if (before := listed.get(node.name)) is not None:
            state = before.state if use_of(node.state) <= use_of(before.state.split("+")) else state
            gpus, gpu_type = before.gpus if gpus is None else gpus, gpu_type or before.gpu_type
        why = reasons[node.name] = node.reason if node.reason.text else reasons.get(node.name, node.reason)
        flag = why.flag(node.name, state) if use is Use.UNUSABLE else None
        listed[node.name] = Listed(use, state, gpus, gpu_type, flag)
    of_nodes = " and ".join(source.name for source, part in parts if part.nodes is not None)
    return NodeList(
        of_nodes or " and ".join(source.name for source, _ in parts),
        listed,
        strangers,
        own_name,
        states=snapshot.nodes is not None,
        kept_out=available.kept_out,
        reserved=available.reserved,
        node_limit=available.node_limit,
        partitions={name: of.nodes for name, of in snapshot.known_partitions().items() if of.nodes is not None},
        notes=available.notes,
    )


def with_gpus(
    cluster: Cluster, lists: Sequence[NodeList], gpus_per_node: int | None, *, source: str
) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster of a file that does not say how many GPUs its nodes have, with GPUs, and what was decided;
    what was assumed comes last.

    What the user says (at most :data:`MAX_GPUS`) counts before what the lists say, and that before the default.  Nodes
    that have none by a list are left out, as long as the list knows GPUs of others.
    """
    if gpus_per_node is not None and gpus_per_node > MAX_GPUS:
        fix = f"a node has at most {MAX_GPUS} GPUs"
        raise InvalidTopology(f"{gpus_per_node} GPUs a node", where="--gpus-per-node", fix=fix)
    listings = (listing for node_list in lists for listing in node_list.nodes.items())
    gpus_of = {name: listed.gpus.physical for name, listed in listings if listed.gpus is not None}
    gpus_of = gpus_of if any(gpus_of.values()) else {}
    counts = Counter(count for count in gpus_of.values() if count)
    usual = counts.most_common(1)[0][0] if counts else DEFAULT_GPUS
    gpus = np.full(len(cluster), gpus_per_node or usual, dtype=np.int32)
    silent = len(cluster) - len(gpus_of) if gpus_per_node is None else 0
    notes = []
    if gpus_per_node is None:
        for name, count in gpus_of.items():
            gpus[cluster.index_of[name]] = max(count, 1)
        if gpus_of:
            words = ", ".join(f"{count} on {nodes:,} nodes" for count, nodes in counts.most_common())
            notes.append(f"GPUs from the list of nodes, as {source} does not say them: {words}")
    filled = cluster.replace(gpus=gpus, free_gpus=gpus.copy(), gpus_assumed=silent > 0)
    if bare := [name for name, count in gpus_of.items() if not count]:
        notes.append(f"nodes without GPUs, left out: {some(bare)}")
        left_out = [cluster.index_of[name] for name in bare]
        filled = filled.subset(np.delete(np.arange(len(cluster), dtype=np.int32), left_out))
        filled = filled.replace(bare=frozenset(bare))
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
    listings = (listing for node_list in lists for listing in node_list.nodes.items())
    type_of = {name: listed.gpu_type for name, listed in listings if listed.gpu_type}
    if gpu_type is None and not type_of:
        return cluster, ()
    silent = [i for i, of in enumerate(cluster.gpu_type_of.tolist()) if not cluster.gpu_types[of]]
    if gpu_type is not None:
        if not silent:
            typed, fix = f"{source} says itself of which type its GPUs are", "leave --gpu-type out, or correct the file"
            raise InvalidInput(typed, where="--gpu-type", fix=fix)
        if not gpu_type.strip() or not gpu_type.isprintable():
            raise InvalidInput(f"{gpu_type[:60]!r} is no type", where="--gpu-type", fix="give a name such as H100")
        return cluster.with_gpu_types(dict.fromkeys(silent, gpu_type.strip())), ()
    types = {i: type_of[cluster.names[i]] for i in silent if cluster.names[i] in type_of}
    if not types:
        return cluster, ()
    words = ", ".join(f"{name} on {nodes:,} nodes" for name, nodes in Counter(types.values()).most_common())
    note = f"types of GPU from the list of nodes, as {source} does not say them: {words}"
    return cluster.with_gpu_types(types), (note,)


def with_node_list(cluster: Cluster, node_list: NodeList) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster with what a list says laid over it, and what a user should know.

    All GPUs of a node in use are in use, also where Slurm calls the node mixed: a gang takes whole nodes.  A node that
    cannot be used is faulty, as emptying the cluster would not free it; one that the job may not have is kept out; one
    whose GPUs are cut into slices is shared.
    """
    from topology.slurm_nodes import Use

    here = {cluster.index_of[name]: listed for name, listed in node_list.nodes.items() if name in cluster.index_of}
    busy = [i for i, listed in here.items() if listed.use is Use.IN_USE]
    flags = [listed.flag for listed in here.values() if listed.flag is not None]
    kept_out = {cluster.index_of[name]: why for name, why in node_list.kept_out.items() if name in cluster.index_of}
    cut = {i: listed.gpus.sharing for i, listed in here.items() if listed.gpus is not None and listed.gpus.sharing}
    laid = cluster.with_busy(busy).with_flags(flags).with_kept_out(kept_out).with_sharing(cut)
    laid = laid.replace(
        node_limit=node_list.node_limit or laid.node_limit,
        reserved=(*laid.reserved, *node_list.reserved),
        partitions=node_list.partitions or laid.partitions,
        mixed=laid.mixed.union(name for name, listed in node_list.nodes.items() if "mix" in listed.state),
    )
    return laid, tuple(_notes(cluster, node_list, here))


def _notes(cluster: Cluster, node_list: NodeList, here: Mapping[int, Listed]) -> Iterator[str]:
    """Yield what a user should know of a list, whose nodes of the cluster are ``here`` by index."""
    from topology.slurm_nodes import Use, powered_off
    from topology.slurm_snapshot import UNLISTED

    yield from node_list.notes
    source = node_list.source
    if node_list.states:
        may_have = {i: listed for i, listed in here.items() if cluster.names[i] not in node_list.kept_out}
        counts = []
        for use, words in {Use.FREE: "free", Use.IN_USE: "in use", Use.UNUSABLE: "not usable"}.items():
            states = Counter(listed.state for listed in may_have.values() if listed.use is use)
            by_state = ", ".join(f"{state} {count}" for state, count in states.most_common())
            counts.append(f"{states.total():,}{f' ({by_state})' if by_state else ''} {words}")
        if len(may_have) < len(here):
            counts.append(f"{len(here) - len(may_have):,} kept out")
        yield f"{source}: {', '.join(counts)}"
        free = {cluster.names[i]: listed.state for i, listed in may_have.items() if listed.use is Use.FREE}
        if off := [name for name, state in free.items() if powered_off([state])]:
            yield f"powered off, and free, for Slurm starts them for a job: {some(off)}"
    for why, names in grouped((why, name) for name, why in node_list.kept_out.items()).items():
        if why == UNLISTED:
            yield f"not listed in {source}, and so not usable: {some(names)} (--unlisted free takes them)"
        else:
            yield f"kept out, {why}: {some(names)}"
    missing = [name for i, name in enumerate(cluster.names) if i not in here and name not in node_list.kept_out]
    if node_list.states and missing:
        yield f"not listed in {source}, and taken as free: {some(missing)}"
    shards = Counter(listed.gpus.shares for listed in here.values() if listed.gpus is not None)
    del shards[1]
    if shards:
        yield (
            f"GPUs that Slurm gives away whole or in shards ({' or '.join(map(str, sorted(shards)))} a GPU), so whole "
            f"on a node of which nothing is in use: {shards.total():,} of {len(cluster):,} nodes"
        )
    if pairs := [f"{there} is {own}" for there, own in node_list.own_name.items() if there != own]:
        yield f"listed in {source} in another spelling: {some(pairs)}"
    if node_list.strangers:
        yield f"listed in {source} and no nodes of the cluster, left out: {some([*node_list.strangers])}"
    counts_of = {i: listed.gpus.physical for i, listed in here.items() if listed.gpus is not None}
    differing = [cluster.names[i] for i, count in counts_of.items() if count != cluster.gpus[i]]
    # a site that gives no GPUs to any node keeps no such resources
    if differing and any(counts_of.values()):
        yield f"nodes to which {source} gives another number of GPUs, which does not count: {some(differing)}"


def _without_excluded(cluster: Cluster, nodes: str) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster with nodes kept out as ``sbatch --exclude`` takes them: a hostlist, or a file if it has a /;
    and what a user should know.

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
    return cluster.with_kept_out(excluded), () if excluded else (f"{where} names no node, so none is excluded",)


_SLURM = "for the topology give `scontrol show topology`, or without one `scontrol show nodes`"
_SLURM_STATES = 'for which nodes are free give `sinfo -N -h -o "%N %t %G"`'
_KUBERNETES = "give `kubectl get nodes,pods -A -o json`"
_FABRIC = "for the fabric give `ibnetdiscover`"
_TABLE = "write a CSV with the columns node,rack,gpus"
_NAMES = "write a node or hostlist a line"


class Stranger(NamedTuple):
    """A kind of text."""

    what: str  # what it is, as in "is ..."
    mark: str  # regular expression of the beginning of a line that each has
    cluster: str = ""  # what to give for a cluster; empty = it may be one
    nodes: str = _SLURM_STATES  # what to give for a list of nodes; empty = it may be one


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
    head = text[:HEAD]
    for stranger in STRANGERS:
        fix = stranger.nodes if nodes else stranger.cluster
        if fix and re.search(f"^{stranger.mark}", head, re.MULTILINE):
            return f"is {stranger.what}", fix
    return None
