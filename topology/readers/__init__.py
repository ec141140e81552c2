"""Readers of topology formats: from a path to a cluster with its state laid over it.

One module a format, each found through an entry point and imported only when a file is of its format.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ground.errors import InvalidInput, InvalidTopology
from ground.files import Source, read_source
from ground.formats import recognise
from ground.plugins import noted
from topology.build import with_level_names, with_second_levels
from topology.cluster import Cluster
from topology.flag_store import with_flags
from topology.kubernetes.labels import check_labels, label_of
from topology.node_gpus import SharedGpus, alike_types
from topology.node_list import (
    NodeList,
    read_node_lists,
    with_gpus,
    with_node_list,
    with_types,
    without_excluded,
)
from topology.readers.reading import TOPOLOGY_READERS, ChoosesTopology, CountsResource, Reading, TopologyReader
from topology.slurm_snapshot import NO_REQUEST, SlurmRequest, Unlisted, named_topology
from topology.taints import Toleration, taint_notes


@dataclass(frozen=True, slots=True)
class LoadedTopology:
    """A cluster with all that was said about it on the way."""

    cluster: Cluster
    source: str  # what the cluster is called: its file, - for standard input, or a live cluster
    format: str  # name of the format of the file
    notes: tuple[str, ...]  # what a user should know, one sentence each
    assumed: str = ""  # the one of the notes that GPUs are assumed, as neither the file nor an option says them


def load_topology(
    path: str | Path | Source,
    *,
    format: str | None = None,
    busy: Sequence[str | Path | Source] = (),
    flags: Sequence[str | Path] = (),
    levels: Sequence[str] | None = None,
    level_names: Sequence[str] | None = None,
    domains: Mapping[str, str] | None = None,
    gpus_per_node: int | None = None,
    gpu_type: str | None = None,
    gpu_resource: str | None = None,
    tolerations: tuple[Toleration, ...] = (),
    shared_gpus: SharedGpus = "unusable",
    request: SlurmRequest = NO_REQUEST,
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
    :param now: timezone-aware; ``None`` = the present.
    """
    instant = datetime.now(UTC) if now is None else now
    _check_standard_input((path, *busy, *flags))
    source = path if isinstance(path, Source) else read_source(path)
    reader, listings = _reader(source, format, gpu_resource), [_opened(file) for file in busy]
    topology, chosen = named_topology([source, *listings], request)
    if topology and isinstance(reader, ChoosesTopology):
        reader = reader.choosing(topology)
    reading = _read(source, reader, levels, domains or {}, instant)
    cluster, notes, assumed = _named(reading.cluster, level_names), [*reading.notes], ""
    notes += taint_notes(cluster.taints, tolerations, nodes=len(cluster))
    cluster = cluster.tolerating(tolerations)
    if chosen and not isinstance(reader, ChoosesTopology):
        notes.append(chosen)
    if gpus_per_node is not None and not cluster.gpus_assumed:
        raise _known_gpus(source)
    if reading.has_states:
        listings = [source, *listings]
    lists = read_node_lists(listings, cluster, request, now=instant, unlisted=unlisted, own=source)
    if cluster.gpus_assumed:
        cluster, more = with_gpus(cluster, lists, gpus_per_node, source=source.name)
        notes += more
        assumed = more[-1] if cluster.gpus_assumed else ""
    cluster, more = with_types(cluster, lists, gpu_type, source=source.name)
    notes += more
    cluster, of_state = _with_state(cluster, lists, flags, instant)
    notes += of_state
    if exclude:
        cluster = without_excluded(cluster, exclude)
    if cluster.sharing:
        notes.append(_of_sharing(cluster, shared_gpus))
        cluster = cluster.without_sharing() if shared_gpus == "whole" else cluster
    if alike := alike_types(cluster.gpu_types):
        notes.append(f"{alike}; write each in one way, as no gang is on both unless it says gpu_types: any")
    called = path.name if isinstance(path, Source) else str(path)
    return LoadedTopology(cluster, called, reader.format.name, tuple(notes), assumed)


def _with_state(
    cluster: Cluster, lists: Sequence[NodeList], flags: Sequence[str | Path], now: datetime
) -> tuple[Cluster, list[str]]:
    """Return the cluster with what lists of nodes and files of flags say, and their notes."""
    notes: list[str] = []
    for one in lists:
        cluster, more = with_node_list(cluster, one)
        notes += more
    for file in flags:
        cluster, more = with_flags(cluster, file, now=now)
        notes += more
    return cluster, notes


def _of_sharing(cluster: Cluster, shared_gpus: SharedGpus) -> str:
    """Return what nodes that share their GPUs count as, and how they do."""
    counts = Counter(cluster.sharing.values()).most_common()
    nodes = f"{len(cluster.sharing):,} of {len(cluster):,} nodes ({', '.join(f'{n:,} by {how}' for how, n in counts)})"
    if shared_gpus == "whole":
        return f"counted as whole, as if their GPUs were not shared (--shared-gpus whole): {nodes}"
    return f"GPUs are shared, so no job of whole GPUs gets them: {nodes}; --shared-gpus whole counts them as whole ones"


def _named(cluster: Cluster, level_names: Sequence[str] | None) -> Cluster:
    try:
        return cluster if level_names is None else with_level_names(cluster, level_names)
    except InvalidTopology as error:
        error.where = "--level-names"
        raise


def _opened(file: str | Path | Source) -> Source:
    return file if isinstance(file, Source) else read_source(file, may_be_empty=True)


def _check_standard_input(files: Sequence[str | Path | Source]) -> None:
    """Raise ``InvalidInput`` where more than one of the files is standard input, which can be read once."""
    if sum(str(file) == "-" for file in files if not isinstance(file, Source)) > 1:
        raise InvalidInput("standard input can be read once only", where="-", fix="give a file for all but one")


def _known_gpus(source: Source) -> InvalidInput:
    """Return the error that a file says itself what ``--gpus-per-node`` would say."""
    known, fix = (
        f"{source.name} says itself how many GPUs its nodes have",
        "leave --gpus-per-node out, or correct the file",
    )
    return InvalidInput(known, where="--gpus-per-node", fix=fix)


def _reader(source: Source, format: str | None, gpu_resource: str | None) -> TopologyReader:
    """Return the reader of that format, or of what the file looks like, to which that resource is GPUs."""
    reader = recognise(TOPOLOGY_READERS, source) if format is None else TOPOLOGY_READERS.load(format)
    if gpu_resource is None:
        return reader
    if not isinstance(reader, CountsResource):
        wrong = f"GPUs are no resource with a name in the format {reader.format.name}"
        raise InvalidInput(wrong, where="--gpu-resource", fix="leave --gpu-resource out")
    return reader.counting(gpu_resource)


def _read(
    source: Source, reader: TopologyReader, levels: Sequence[str] | None, domains: Mapping[str, str], now: datetime
) -> Reading:
    """Read what the file itself says, with the second hierarchies that are chosen among its labels."""
    try:
        for option, given in {"--levels": levels, "--domains": domains or None}.items():
            if given is not None and not reader.chooses_levels:
                wrong = f"the format {reader.format.name} names its own {option.removeprefix('--')}"
                raise InvalidInput(wrong, where=option, fix=f"leave {option} out")
        with noted(f"reading {source.name}"):
            reading = _with_domains(reader.read(source, levels=levels, now=now), domains)
    except InvalidInput as error:
        error.where = error.where or source.name
        raise
    words = "%s is of the format %s: %d nodes"
    logging.getLogger(__name__).info(words, source.name, reader.format.name, len(reading.cluster))
    return reading


def _with_domains(reading: Reading, domains: Mapping[str, str]) -> Reading:
    """Return what was read, with second hierarchies of labels of the nodes."""
    labels = reading.labels
    for label in domains.values():
        check_labels([label], labels, where="--domains")
    try:
        named = {name: [label_of(node, label) for node in labels] for name, label in domains.items()}
        cluster = with_second_levels(reading.cluster, named)
    except InvalidTopology as error:
        error.where = "--domains"
        raise
    lacking = ((name, label, sum(not label_of(node, label) for node in labels)) for name, label in domains.items())
    notes = (
        f"without the label {label}, so each a domain of {name} by itself: {count} of {len(labels)} nodes"
        for name, label, count in lacking
        if count
    )
    return replace(reading, cluster=cluster, notes=(*reading.notes, *notes))
