"""What every reader of a topology format takes and returns, and the cluster of nodes whose places have names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Protocol, runtime_checkable

from ground.files import Source
from ground.formats import Format, FormatGroup
from ground.quantities import plural
from topology.build import NodePath, Partition, build_cluster, named_apart, nest, paths_of, with_second_levels
from topology.cluster import DEFAULT_GPUS, SECOND, Cluster, Node


@dataclass(frozen=True, slots=True)
class Reading:
    """A cluster and what its reader had to decide."""

    cluster: Cluster  # where the text says nothing of GPUs, with DEFAULT_GPUS and gpus_assumed
    notes: tuple[str, ...] = ()  # sentences: which labels were taken as levels, what was left out, ...
    # of each node, where the format has any: second hierarchies are chosen so
    labels: tuple[Mapping[str, str], ...] = ()
    # whether the text is also a list of nodes with their states, which is to be laid over the cluster
    has_states: bool = False


class TopologyReader(Format, Protocol):
    """Reads one format of clusters; an entry point in the group ``arnold.topology_readers``."""

    chooses_levels: bool = False
    """Whether the format leaves open what the levels are, so that ``levels`` has a meaning."""

    def read(self, source: Source, *, levels: Sequence[str] | None, now: datetime) -> Reading:
        """Read a text of this format.

        :param levels: what to take as levels, from broad to close; ``None`` = let the reader decide.
        :param now: the instant at which flags with an end count as expired or not (timezone-aware).
        :raises InvalidInput: the text is not of this format, or damaged.
        :raises InvalidTopology: it says something of a cluster that cannot be.
        """


@runtime_checkable
class CountsResource(Protocol):
    """A reader of a format in which GPUs are a resource with a name."""

    def counting(self, resource: str) -> TopologyReader:
        """Return a reader to which that resource alone is GPUs."""


@runtime_checkable
class ChoosesTopology(Protocol):
    """A reader of a format that may describe several topologies of the same nodes, each with a name."""

    def choosing(self, topology: str) -> TopologyReader:
        """Return a reader that reads the topology of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """Texts in one file: a cluster, and what lies over it."""

    cluster: Source
    format: str | None  # of the cluster; None = recognise it
    lists: tuple[Source, ...]  # of nodes in use, or with states, as of --busy
    running: tuple[Source, ...] | None  # jobs that run; None = not said
    flags: tuple[Source, ...]
    options: Mapping[str, Any]  # how to read them: parameters of `load_topology`
    time: datetime  # when all that was so, timezone-aware
    local: tzinfo  # of local times in the texts


@runtime_checkable
class Unpacks(Protocol):
    """A reader of files that hold the texts of other formats."""

    def unpack(self, source: Source) -> Unpacked:
        """Return the texts of a file.

        :raises InvalidInput: it is damaged.
        """


TOPOLOGY_READERS: FormatGroup[TopologyReader] = FormatGroup("arnold.topology_readers", kind="clusters", first="csv")
"""All formats that can be read."""

ONE_LEVEL = "cluster"  # The level, and its only domain, of nodes of which nothing says where they are


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node and where it is."""

    name: str
    path: NodePath  # from broad to close, empty = nowhere at that level
    gpus: int | None = None  # None = not said
    gpu_type: str = ""  # empty = not said


def place_nodes(
    levels: Sequence[str],
    nodes: Sequence[PlacedNode],
    *,
    where: Callable[[int], str],
    others: Sequence[Partition] = (),
    notes: Sequence[str] = (),
) -> Reading:
    """Return the cluster of nodes, their GPUs assumed where any does not say them.

    Levels at which no node is anywhere are left out, all nodes are one level where none is left, and names that stand
    below several broader domains are made different, with a note.

    :param where: from the number of a node to the place it was read from; asked for errors only.
    :param others: domains that are levels where they nest among the others, and second hierarchies where they do not.
    :raises InvalidTopology: there are no nodes, too many levels, or two nodes of one name.
    """
    columns = zip(*(node.path for node in nodes), strict=True)
    tree, repeated = named_apart([Partition(*named) for named in zip(levels, map(list, columns), strict=False)])
    cut = {
        level: f"{plural(count, 'name')} of {level} below several broader domains, each place a domain of its own"
        for level, count in repeated.items()
    }
    nested, beside = nest(
        [level for level in tree if any(level.domains)], [other for other in others if any(other.domains)]
    )
    kept = nested or [Partition(ONE_LEVEL, [ONE_LEVEL] * len(nodes))]
    notes = [*notes, *cut.values()]
    for other in beside:
        across = ", ".join(level.name for level in kept if nest([level], [other])[1]) or "the levels"
        notes.append(f"{other.name} and {across} cut across each other: {SECOND}{other.name} is a second hierarchy")
    if not nested:
        notes.append("nothing says where the nodes are, so all are one level")
    assumed = any(node.gpus is None for node in nodes)
    rows = []
    for node, path in zip(nodes, paths_of(kept), strict=True):
        gpus = DEFAULT_GPUS if assumed or node.gpus is None else node.gpus
        rows.append(Node(node.name, path, gpus, gpus, gpu_type=node.gpu_type))
    cluster = build_cluster([level.name for level in kept], rows, where=where)
    cluster = with_second_levels(cluster, {f"{SECOND}{other.name}": other.domains for other in beside})
    return Reading(cluster.replace(gpus_assumed=assumed, cut=cut), tuple(notes))
