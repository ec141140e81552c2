"""Cluster, Level, Node: an immutable tree of network domains of any depth.

The tree is stored as one integer array per level (``domain_of[node]``), from the broadest level to the closest, so that
100,000 nodes cost a few megabytes and every hot loop runs over NumPy arrays.  Each level is a partition of the nodes
that refines the level above it.

Uneven depth: a node without a domain at some level belongs there to its closest broader domain (the switch it
hangs on), shown as an *implicit* domain of the same name; a node without any broader domain hangs on the root.
Beside the tree there may be *second hierarchies*, such as power or failure domains: each is one more partition of the
nodes, independent of the tree.  A node that is in none of its domains is there a domain of its own, an implicit one.

What a node is to the next job is its :class:`State`; how many nodes each domain has, and how many one job can have
together, is counted in integers over the same arrays.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import compress
from math import inf
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ground.errors import InvalidTopology, UnknownName, did_you_mean
from topology.flags import FAULTY, HEALTHY, NodeFlag
from topology.taints import Taint, Toleration, is_price, kept_out_by, price_flag, untolerated

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IndexArray = npt.NDArray[np.int64]

ROOT = "(root)"  # Name of the implicit domain of nodes that hang on no switch of a level
MAX_NODES = 1_000_000
"""Nodes of the largest cluster: ten times the largest built, about 2 GB of memory while a file is read."""

MAX_LEVELS = 32  # Levels of the deepest tree
MAX_SECOND_LEVELS = 8  # Second hierarchies of a cluster: more than power, cooling, failure and maintenance
GIVE_LEVELS = (
    "give the nodes at least one level: a column of a CSV (node,rack,gpus), --levels LABEL of Kubernetes, what "
    "`scontrol show topology` prints of Slurm"
)
"""What to do about a cluster without levels."""
SECOND = "@"  # With what the name of a second hierarchy begins, and no level's
DEFAULT_GPUS = 8  # GPUs of a node where a file says nothing of them
MAX_GPUS = 4096  # GPUs of the largest node: more than any rack has, less than any integer here can hold


@dataclass(frozen=True, slots=True)
class Node:
    """A row of the cluster, for people and edges; hot loops use the arrays of :class:`Cluster`."""

    name: str
    path: tuple[str, ...]
    gpus: int
    free_gpus: int
    slowdown: float = HEALTHY
    gpu_type: str = ""  # of its GPUs, such as H100; empty = not said
    second_path: tuple[str, ...] = ()  # its domain in each second hierarchy; empty text = it is in none
    kept_out: str = ""  # why the job may not have it, though nothing is wrong with it; empty = it may
    sharing: str = ""  # how it hands out GPUs in parts, such as time-slicing x4; empty = whole ones alone

    @property
    def free(self) -> bool:
        """Whether a gang of whole nodes may use it: no GPU of it is in use, it is not faulty, and not kept out."""
        return self.free_gpus == self.gpus and self.slowdown != FAULTY and not self.kept_out


class NodeLimit(NamedTuple):
    """A limit to the nodes of one job, whatever is free."""

    nodes: int  # at most so many
    why: str  # who says so, "MaxNodes of the partition debug"


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One layer of the tree, or a second hierarchy: a partition of the nodes."""

    name: str  # what the level is called: minipod, rack, ...; of a second hierarchy with its @: @power
    domains: tuple[str, ...]  # names of its domains, in order of first appearance
    domain_of: IntArray  # shape [nodes], index into domains
    parent_of: IntArray  # shape [domains], index of the domain one level broader; all zero for the broadest level
    # shape [domains], stands for nodes that hang directly on a broader switch, or for a node in no second hierarchy
    implicit: BoolArray

    def __len__(self) -> int:
        return len(self.domains)

    def own_names(self) -> list[str]:
        """Return the domain of each node; empty where it has none of its own, as it hangs on a broader switch."""
        names = ["" if implicit else name for name, implicit in zip(self.domains, self.implicit, strict=True)]
        return [names[domain] for domain in self.domain_of.tolist()]


@dataclass(frozen=True, slots=True)
class SlurmBlocks:
    """What Slurm's block topology says besides the levels that it makes: topology.conf(5), topology/block."""

    names: tuple[str, ...]  # the base blocks in the order in which Slurm joins them, those without nodes among them
    sizes: tuple[int, ...]  # BlockSizes, nodes: of a base block, then of the blocks joined from them; empty = not said


@dataclass(frozen=True, eq=False)
class Cluster:
    """An immutable cluster; derive variants with :meth:`replace`."""

    names: tuple[str, ...]  # names of the nodes, unique
    gpus: IntArray  # shape [nodes], GPUs of each node, at least 1
    free_gpus: IntArray  # shape [nodes], GPUs not in use, 0 to gpus
    gpu_types: tuple[str, ...]  # names of the types of GPU, unique, each of a node or more; empty text = not said
    gpu_type_of: IntArray  # shape [nodes], index into gpu_types: all GPUs of a node are of one type
    levels: tuple[Level, ...]  # from the broadest to the closest
    flags: Mapping[int, NodeFlag]  # findings about nodes, at most one a node, active ones only
    gpus_assumed: bool = False  # whether nothing says how many GPUs some nodes have, so that a usual number was taken
    joined: bool = True  # whether anything joins the broadest domains; false = a job lies inside one of them
    second_levels: tuple[Level, ...] = ()  # hierarchies beside the tree, each on its own
    cached: Mapping[str, frozenset[str]] = field(default_factory=dict)  # images -> names of the nodes that have them
    # levels with domains that broader ones cut in pieces, each a domain of its own here -> a sentence that says so
    cut: Mapping[str, str] = field(default_factory=dict)
    # nodes that this job may not have, though nothing is wrong with them, and why: "not in the partition batch"
    kept_out: Mapping[int, str] = field(default_factory=dict)
    # windows in which nodes are kept out, such as by a reservation, whose evidence begins what they are kept out by
    reserved: tuple[NodeFlag, ...] = ()
    taints: Mapping[int, tuple[Taint, ...]] = field(default_factory=dict)  # of nodes that taints keep some jobs off
    # nodes that hand out GPUs in parts -> how, such as time-slicing x4; all of them kept out (`with_sharing`)
    sharing: Mapping[int, str] = field(default_factory=dict)
    upcoming: tuple[NodeFlag, ...] = ()  # of its nodes, that begin later: maintenance
    # nodes -> network cards of each for traffic between nodes; nodes left out = not said.  The index of a card within
    # its node is its rail
    rails: Mapping[int, int] = field(default_factory=dict)
    node_limit: NodeLimit | None = None  # None = nothing limits how many nodes a job may have
    # names of nodes of which Slurm says that some GPUs are in use, and not how many; of those that have none, left out
    mixed: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    # Slurm's partitions, as far as known -> names of their nodes, of the cluster or not
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # where the closest level is the base blocks of Slurm; None = its levels are no blocks
    blocks: SlurmBlocks | None = None

    def __post_init__(self) -> None:
        of_levels = (level.domain_of for level in (*self.levels, *self.second_levels))
        for array in (self.gpus, self.free_gpus, self.gpu_type_of, *of_levels):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Node]:
        return (self.node(i) for i in range(len(self)))

    @cached_property
    def index_of(self) -> Mapping[str, int]:
        """Node name -> index."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def slowdown(self) -> FloatArray:
        """Shape [nodes]: 1.0 healthy, above 1 slow by that factor, ``inf`` faulty."""
        slowdown = np.full(len(self), HEALTHY)
        for node, flag in self.flags.items():
            slowdown[node] = flag.slowdown
        slowdown.setflags(write=False)
        return slowdown

    @cached_property
    def idle(self) -> BoolArray:
        """Shape [nodes]: no GPU of the node is in use, and the node is neither faulty nor kept out."""
        idle: BoolArray = self.free_gpus == self.gpus
        # most states have no flag, and a replay has a new one for every event
        if self.flags:
            idle &= np.isfinite(self.slowdown)
        idle[list(self.kept_out)] = False
        idle.setflags(write=False)
        return idle

    @cached_property
    def whole(self) -> BoolArray:
        """Shape [nodes]: the node hands out whole GPUs, and no parts of any."""
        whole = np.ones(len(self), dtype=np.bool_)
        whole[list(self.sharing)] = False
        whole.setflags(write=False)
        return whole

    @cached_property
    def usable_gpus(self) -> IntArray:
        """Shape [nodes]: GPUs that a job can be given, those not in use; none of a faulty node or one kept out."""
        usable = np.where(np.isfinite(self.slowdown), self.free_gpus, 0).astype(np.int32)
        usable[list(self.kept_out)] = 0
        usable.setflags(write=False)
        return usable

    @property
    def node_size(self) -> int:
        """GPUs of the usual node: what most have, of equally many the larger; `InvalidTopology` without a node."""
        sizes: Counter[int] = Counter(self.gpus.tolist())
        if not sizes:
            raise InvalidTopology("the cluster has no nodes", fix="give a cluster with nodes")
        return max(sizes, key=lambda size: (sizes[size], size))

    @cached_property
    def along_the_tree(self) -> IntArray:
        """All nodes, those of one domain next to each other at every level."""
        keys = tuple(level.domain_of for level in reversed(self.levels)) or (np.zeros(len(self)),)
        along = np.lexsort(keys).astype(np.int32)
        along.setflags(write=False)
        return along

    def node(self, which: int | str) -> Node:
        """Return one node, by index or by name; raise :class:`UnknownName` for a name that no node has."""
        i = which if isinstance(which, int) else self.index(which)
        path = tuple(level.domains[level.domain_of[i]] for level in self.levels)
        gpus, free, gpu_type = int(self.gpus[i]), int(self.free_gpus[i]), self.gpu_types[self.gpu_type_of[i]]
        named = ((level.domain_of[i], level) for level in self.second_levels)
        second = tuple("" if level.implicit[domain] else level.domains[domain] for domain, level in named)
        held = self.kept_out.get(i, ""), self.sharing.get(i, "")
        return Node(self.names[i], path, gpus, free, float(self.slowdown[i]), gpu_type, second, *held)

    def index(self, name: str, *, where: str = "") -> int:
        """Return the index of the node of that name; raise :class:`UnknownName` where none has it: an error at the
        option or line that names it, ``where``.
        """
        try:
            return self.index_of[name]
        except KeyError:
            fix = f"{did_you_mean(name, self.names)}use a node name of the cluster file"
            raise UnknownName(f"no node is called {name!r}", where=where, fix=fix) from None

    @property
    def nodes_of_type(self) -> Mapping[str, int]:
        """Nodes of each type of GPU, the types that are said alone, most nodes first."""
        counts = np.bincount(self.gpu_type_of, minlength=len(self.gpu_types)).tolist()
        named = [(name, count) for name, count in zip(self.gpu_types, counts, strict=True) if name]
        return dict(sorted(named, key=lambda of_type: (-of_type[1], of_type[0])))

    def level(self, name: str | None, *, where: str = "") -> Level:
        """Return the level or second hierarchy of that name, the default level for ``None``; raise :class:`UnknownName`
        where none has it: an error at the option or line that names it, ``where``.
        """
        if name is None:
            return self.default_level()
        every = (*self.levels, *self.second_levels)
        names = [level.name for level in every]
        if name in names:
            return every[names.index(name)]
        fix = f"{did_you_mean(name, names)}use one of its levels: {', '.join(names)}" if names else GIVE_LEVELS
        raise UnknownName(f"the cluster has no level {name!r}", where=where, fix=fix)

    def level_index(self, name: str | None, *, where: str = "") -> int:
        """Return the depth of a level of the tree, 0 the broadest; raise :class:`UnknownName` for any other name."""
        level = self.level(name, where=where)
        if level.name.startswith(SECOND) and level in self.second_levels:
            beside = f"{level.name} is a second hierarchy, and no level of the tree"
            fix = f"use a level of the tree: {', '.join(of_tree.name for of_tree in self.levels)}"
            raise UnknownName(beside, where=where, fix=fix)
        return self.levels.index(level)

    @property
    def trunks(self) -> Level | None:
        """The broadest level, where a job must lie inside one of its domains; ``None`` = a job may span the cluster."""
        return None if self.joined or not self.levels or len(self.levels[0]) == 1 else self.levels[0]

    def compartments(self, *, mix_types: bool) -> IntArray | None:
        """Return shape [nodes], the number of each node's compartment, where a job lies in one: the nodes of one type,
        unless it may mix them, and of one trunk where nothing joins the trunks.  ``None`` = all are one compartment.
        """
        trunks, types = self.trunks, len(self.gpu_types)
        if mix_types or types < 2:
            return None if trunks is None else trunks.domain_of
        return self.gpu_type_of if trunks is None else self._trunks_by_type

    @cached_property
    def _trunks_by_type(self) -> IntArray:
        """Shape [nodes], the number of each node's trunk and type of GPU together."""
        return self.levels[0].domain_of * np.int32(len(self.gpu_types)) + self.gpu_type_of

    def default_level(self, *, where: str = "") -> Level:
        """Return the broadest level with more than one domain where a job can be, or the broadest of all; raise
        :class:`InvalidTopology` where there is none.
        """
        if not self.levels:
            raise InvalidTopology("the cluster has no levels", where=where, fix=GIVE_LEVELS)
        alone = len(self.levels[0]) if self.trunks is not None else 1
        return next((level for level in self.levels if len(level) > alone), self.levels[0])

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed (names of fields as in the class)."""
        return replace(self, **changes)

    def with_busy(self, nodes: Iterable[int]) -> Self:
        """Return a copy in which all GPUs of the given nodes are in use."""
        free = self.free_gpus.copy()
        free[np.fromiter(nodes, dtype=np.int64)] = 0
        return self.replace(free_gpus=free)

    def with_flags(self, flags: Iterable[NodeFlag]) -> Self:
        """Return a copy with more flags, all of nodes of the cluster; of two flags for one node the slower wins, of two
        as slow the one that holds longer.
        """

        def weight(flag: NodeFlag) -> tuple[float, float]:
            return flag.slowdown, inf if flag.until is None else flag.until.timestamp()

        merged = dict(self.flags)
        for flag in flags:
            i = self.index(flag.node)
            if i not in merged or weight(merged[i]) < weight(flag):
                merged[i] = flag
        return self.replace(flags=merged)

    def with_kept_out(self, reasons: Mapping[int, str]) -> Self:
        """Return a copy with more nodes kept out, by index; the first reason stays, unless it is a taint."""
        of_taints = {node for node in reasons if self.kept_out.get(node) == kept_out_by(self.taints.get(node, ()))}
        before = {node: why for node, why in self.kept_out.items() if node not in of_taints}
        return self.replace(kept_out={**reasons, **before})

    def with_taints(self, taints: Mapping[int, tuple[Taint, ...]]) -> Self:
        """Return a copy in which taints keep jobs off nodes, by index, or ask them to stay away at a price."""
        reasons = {node: why for node, of_node in taints.items() if (why := kept_out_by(of_node))}
        prices = (price_flag(self.names[node], of_node) for node, of_node in taints.items())
        return self.replace(taints=taints).with_kept_out(reasons).with_flags(filter(None, prices))

    def tolerating(self, tolerations: tuple[Toleration, ...]) -> Self:
        """Return the cluster as a job has it that puts up with some taints; the cluster itself where that is the same.

        A node that something else keeps out too stays out.
        """
        if not (tolerations and self.taints):
            return self
        # every look at a job's nodes asks for the same
        if (asked_before := self._tolerating.get(tolerations)) is not None:
            return asked_before
        left = {node: untolerated(of_node, tolerations) for node, of_node in self.taints.items()}
        changed = {node for node, of_node in left.items() if of_node != self.taints[node]}
        if not changed:
            return self._tolerating.setdefault(tolerations, self)
        kept_out = dict(self.kept_out)
        for node in changed:
            if kept_out.get(node) == kept_out_by(self.taints[node]):
                kept_out.pop(node, None)
                if why := kept_out_by(left[node]):
                    kept_out[node] = why
        flags = {
            node: flag
            for node, flag in self.flags.items()
            if node not in changed or not is_price(flag) or any(taint.discourages for taint in left[node])
        }
        taints = {node: of_node for node, of_node in left.items() if of_node}
        self._tolerating[tolerations] = self.replace(flags=flags, kept_out=kept_out, taints=taints)
        return self._tolerating[tolerations]

    @cached_property
    def _tolerating(self) -> dict[tuple[Toleration, ...], Self]:
        """Answers of :meth:`tolerating`."""
        return {}

    def with_sharing(self, ways: Mapping[int, str]) -> Self:
        """Return a copy in which more nodes, by index, hand out GPUs in parts, and so are kept out."""
        sharing = {**self.sharing, **ways}
        return self.replace(sharing=sharing).with_kept_out({i: f"with shared GPUs: {how}" for i, how in ways.items()})

    def without_sharing(self) -> Self:
        """Return a copy as if every node handed out whole GPUs."""
        kept_out = {node: why for node, why in self.kept_out.items() if node not in self.sharing}
        return self.replace(sharing={}, kept_out=kept_out).with_taints(self.taints)

    def excused(self, nodes: Collection[int]) -> Self:
        """Return a copy with nothing held against some nodes, nor against how many there are: a job runs on them."""
        return self.replace(
            flags={node: flag for node, flag in self.flags.items() if node not in nodes},
            kept_out={node: why for node, why in self.kept_out.items() if node not in nodes},
            node_limit=None,
        )

    def with_gpu_types(self, types: Mapping[int, str]) -> Self:
        """Return a copy in which some nodes, by index, have GPUs of another type."""
        named = [self.gpu_types[of] for of in self.gpu_type_of.tolist()]
        for node, name in types.items():
            named[node] = name
        names, type_of = numbered(named)
        return self.replace(gpu_types=names, gpu_type_of=type_of)

    def emptied(self) -> Self:
        """Return a copy in which no GPU is in use; flags and what keeps nodes out stay."""
        return self.replace(free_gpus=self.gpus.copy())

    def subset(self, nodes: IntArray) -> Self:
        """Return nodes of the cluster, at least one index, ascending; domains without any of them are left out."""
        if len(nodes) == len(self):
            return self
        kept = np.zeros(len(self), dtype=np.bool_)
        kept[nodes] = True
        new_index = np.cumsum(kept) - 1
        levels: list[Level] = []
        parents = top = np.zeros(1, dtype=np.int32)
        for level in self.levels:
            part, parents = _part_of(level, nodes, parents)
            levels.append(part)
        of_types, gpu_type_of = np.unique(self.gpu_type_of[nodes], return_inverse=True)
        by_node = {
            name: {int(new_index[node]): of_node for node, of_node in getattr(self, name).items() if kept[node]}
            for name in ("flags", "kept_out", "taints", "sharing", "rails")
        }
        return self.replace(
            names=tuple(compress(self.names, kept)),
            gpus=self.gpus[nodes],
            free_gpus=self.free_gpus[nodes],
            gpu_types=tuple(self.gpu_types[k] for k in of_types),
            gpu_type_of=gpu_type_of.astype(np.int32),
            levels=tuple(levels),
            second_levels=tuple(_part_of(level, nodes, top)[0] for level in self.second_levels),
            **by_node,
        )


def _part_of(level: Level, nodes: IntArray, parents: IntArray) -> tuple[Level, IntArray]:
    """Return a level of some nodes alone, and the number there of each domain it had; parents: of the broader level."""
    used, domain_of = np.unique(level.domain_of[nodes], return_inverse=True)
    renumbered = np.zeros(len(level), dtype=np.int32)
    renumbered[used] = np.arange(len(used), dtype=np.int32)
    domains, above = tuple(level.domains[k] for k in used), parents[level.parent_of[used]]
    return Level(level.name, domains, domain_of.astype(np.int32), above, level.implicit[used]), renumbered


Key = TypeVar("Key", bound=Hashable)


def numbered(values: Sequence[Key]) -> tuple[tuple[Key, ...], IntArray]:
    """Return the different values in order of first appearance, and the number of each value among them."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return tuple(numbers), np.fromiter(map(numbers.__getitem__, values), dtype=np.int32, count=len(values))


class State(IntEnum):
    """States from best to worst; slow nodes in three degrees, from :data:`SLOWER_FROM` and :data:`SLOWEST_FROM` on."""

    FREE = 0
    PARTLY = 1
    BUSY = 2
    KEPT_OUT = 3
    SLOW = 4
    SLOWER = 5
    SLOWEST = 6
    FAULTY = 7

    @property
    def label(self) -> str:
        """The state in words."""
        return _LABELS[self]


SLOWER_FROM = 1.2
SLOWEST_FROM = 1.5

_LABELS = {
    State.FREE: "free",
    State.PARTLY: "partly busy",
    State.BUSY: "busy",
    State.KEPT_OUT: "kept out",
    State.SLOW: f"slow (below {SLOWER_FROM:g}x)",
    State.SLOWER: f"slow ({SLOWER_FROM:g}x to {SLOWEST_FROM:g}x)",
    State.SLOWEST: f"slow ({SLOWEST_FROM:g}x and more)",
    State.FAULTY: "faulty",
}


def node_states(cluster: Cluster) -> IntArray:
    """Return the :class:`State` of every node, shape [nodes]."""
    states = np.full(len(cluster), State.FREE, dtype=np.int32)
    states[cluster.free_gpus < cluster.gpus] = State.PARTLY
    states[cluster.free_gpus == 0] = State.BUSY
    states[list(cluster.kept_out)] = State.KEPT_OUT
    slowdown = cluster.slowdown
    states[slowdown > 1.0] = State.SLOW
    states[slowdown >= SLOWER_FROM] = State.SLOWER
    states[slowdown >= SLOWEST_FROM] = State.SLOWEST
    states[np.isinf(slowdown)] = State.FAULTY
    return states


def count_states(states: IntArray) -> tuple[int, ...]:
    """Return how many nodes are in each :class:`State`, in its order."""
    return tuple(int(n) for n in np.bincount(states, minlength=len(State)))


def legend(states: IntArray) -> tuple[tuple[State, int], ...]:
    """Return states that occur and how many nodes are in each, from best to worst."""
    return tuple((State(i), count) for i, count in enumerate(count_states(states)) if count)


def count_nodes(level: Level, nodes: BoolArray) -> IntArray:
    """Return shape [domains], how many of the given nodes (shape [nodes]) each domain of a level holds."""
    return np.bincount(level.domain_of[nodes], minlength=len(level)).astype(np.int32)


def most_together(cluster: Cluster, nodes: BoolArray, *, mix_types: bool = False) -> int:
    """Return how many of some nodes, shape [nodes], one job can have, all in one compartment."""
    if (compartment_of := cluster.compartments(mix_types=mix_types)) is None:
        return int(np.count_nonzero(nodes))
    return int(np.bincount(compartment_of[nodes], minlength=1).max())


def shortage_apart(cluster: Cluster, nodes: BoolArray, wanted: int) -> str:
    """Return why one job cannot have so many of the given nodes, shape [nodes], although there are enough.

    :returns: ``in one domain of spine, as nothing joins ...``; empty when one trunk has enough, or all have too few.
    """
    if (trunks := cluster.trunks) is None:
        return ""
    counts = count_nodes(trunks, nodes)
    most = int(counts.argmax())
    if not counts[most] < wanted <= counts.sum():
        return ""
    return (
        f"in one domain of {trunks.name}, as nothing joins the {len(trunks)} of them; {trunks.domains[most]!r} has "
        f"most, {counts[most]} (all together {counts.sum()})"
    )


def together(
    cluster: Cluster, nodes: npt.NDArray[np.intp], wanted: int, *, mix_types: bool = False
) -> npt.NDArray[np.intp]:
    """Return the nodes, of those given in ascending order, among which a job of so many is to choose its own.

    :returns: all of them, or those of the tightest compartment; empty where there are too few.
    """
    if (compartment_of := cluster.compartments(mix_types=mix_types)) is not None:
        counts = np.bincount(compartment_of[nodes])
        enough = np.flatnonzero(counts >= wanted)
        nodes = nodes[compartment_of[nodes] == enough[counts[enough].argmin()]] if len(enough) else nodes[:0]
    return nodes if len(nodes) >= wanted else nodes[:0]
