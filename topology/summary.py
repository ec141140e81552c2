"""What a cluster looks like: as nested domains, as a tree of text, in a few numbers, and what may surprise its
owner.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ground.quantities import one_of
from ground.records import JsonRecord
from topology.cluster import ROOT, Cluster, IntArray, Level, State, count_states, node_states
from topology.flags import FAULTY, HEALTHY


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A switch and what is below it."""

    level: str  # name of its level; empty for the root
    name: str  # unique in its level
    nodes: IntArray  # indices of all nodes below it, those of one child next to each other
    children: tuple[Domain, ...]  # domains that hang on it
    own: IntArray  # indices of the nodes that hang on it without a switch between


def domain_tree(cluster: Cluster) -> Domain:
    """Return the cluster as one domain, the root, with everything below it in the order of the levels.  Implicit
    domains are left out: what hangs on them hangs on the closest broader switch, as in the real network.
    """
    order = cluster.along_the_tree
    children, own = _split(cluster, order, 0)
    return Domain("", ROOT, order, tuple(children), own)


def _split(cluster: Cluster, nodes: IntArray, depth: int) -> tuple[list[Domain], IntArray]:
    """Return domains below a broader one that holds ``nodes``, and the nodes that hang on that one itself."""
    if depth == len(cluster.levels):
        return [], nodes
    level = cluster.levels[depth]
    domain_of = level.domain_of[nodes]
    cuts = np.flatnonzero(np.diff(domain_of)) + 1
    children: list[Domain] = []
    own = [nodes[:0]]
    for part in np.split(nodes, cuts):
        number = level.domain_of[part[0]]
        below, direct = _split(cluster, part, depth + 1)
        if level.implicit[number]:
            children.extend(below)
            own.append(direct)
        else:
            children.append(Domain(level.name, level.domains[number], part, tuple(below), direct))
    return children, np.concatenate(own)


MAX_ROWS = 60  # Lines that a person reads: deeper levels are shown as long as no more are needed
MAX_CHILDREN = 40  # Domains listed under one domain; the rest is one line
COLUMNS: tuple[tuple[str, tuple[State, ...]], ...] = (
    ("free", (State.FREE,)),
    ("partly busy", (State.PARTLY,)),
    ("busy", (State.BUSY,)),
    ("kept out", (State.KEPT_OUT,)),
    ("slow", (State.SLOW, State.SLOWER, State.SLOWEST)),
    ("faulty", (State.FAULTY,)),
)
"""Columns of counts and the states each adds up."""

BAR_MARKS = ("█", "▒", "░", "-", "!", "x")  # What stands for each column in a bar


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One line of the tree."""

    branch: str  # the lines drawn before it: "├─ ", ...
    label: str  # level and name of the domain, or how many domains the line stands for
    nodes: int  # nodes below it
    counts: tuple[int, ...]  # nodes in each column of COLUMNS

    def bar(self, width: int) -> tuple[int, ...]:
        """Return shares of the columns as lengths that add up to ``width``; rounding favours the largest remainders."""
        exact = np.array(self.counts) * width / self.nodes
        lengths = np.floor(exact).astype(np.int64)
        lengths[np.argsort(lengths - exact, kind="stable")[: width - int(lengths.sum())]] += 1
        return tuple(int(length) for length in lengths)


def tree_rows(cluster: Cluster, *, depth: int | None = None) -> list[TreeRow]:
    """Return lines of the tree, the whole cluster first, with :data:`MAX_CHILDREN` of one domain at most, and so
    many levels from the broadest; ``None`` = as many as fit into :data:`MAX_ROWS` lines, at least 1.
    """
    root = domain_tree(cluster)
    if depth is None:
        sizes = [len(_rows_at(root, shown)) for shown in range(1, len(cluster.levels) + 1)]
        depth = max([1, *(shown + 1 for shown, size in enumerate(sizes) if size <= MAX_ROWS)])
    states = node_states(cluster)
    rows = []
    for branch, label, nodes in _rows_at(root, depth):
        counts = count_states(states[nodes])
        columns = tuple(sum(counts[state] for state in members) for _, members in COLUMNS)
        rows.append(TreeRow(branch, label, len(nodes), columns))
    return rows


def text_tree(cluster: Cluster, *, depth: int | None = None, bar_width: int = 20) -> str:
    """Return the tree as plain text in columns, those of zeros left out; ``bar_width`` 0 = no bar."""
    rows = tree_rows(cluster, depth=depth)
    shown = [i for i in range(len(COLUMNS)) if rows[0].counts[i]]
    table = [["", "nodes", *(COLUMNS[i][0] for i in shown)]]
    bars = [" ".join(f"{BAR_MARKS[i]} {COLUMNS[i][0]}" for i in shown) if bar_width else ""]
    for row in rows:
        table.append([row.branch + row.label, f"{row.nodes:,}", *(f"{row.counts[i]:,}" for i in shown)])
        bars.append("".join(mark * n for mark, n in zip(BAR_MARKS, row.bar(bar_width), strict=True)))
    first, *others = (max(map(len, column)) for column in zip(*table, strict=True))
    lines = []
    for (name, *counts), bar in zip(table, bars, strict=True):
        cells = [count.rjust(width) for count, width in zip(counts, others, strict=True)]
        lines.append("  ".join([name.ljust(first), *cells, bar]).rstrip())
    return "\n".join(lines)


def _rows_at(root: Domain, depth: int) -> list[tuple[str, str, IntArray]]:
    """Return branch, label and nodes of all lines."""
    return [("", "cluster", root.nodes), *_rows_below(root, "", depth)]


def _rows_below(domain: Domain, indent: str, depth: int) -> Iterator[tuple[str, str, IntArray]]:
    """Yield branch, label and nodes of the lines below a domain."""
    if depth == 0:
        return
    listed = domain.children[:MAX_CHILDREN]
    rest = domain.children[MAX_CHILDREN:]
    entries: list[tuple[str, IntArray, Domain | None]] = [(f"{c.level} {c.name}", c.nodes, c) for c in listed]
    if rest:
        entries.append((f"{len(rest):,} more", np.concatenate([child.nodes for child in rest]), None))
    if domain.children and len(domain.own):
        entries.append(("without a switch of their own", domain.own, None))
    for i, (label, nodes, child) in enumerate(entries):
        last = i == len(entries) - 1
        yield indent + ("└─ " if last else "├─ "), label, nodes
        if child is not None:
            yield from _rows_below(child, indent + ("   " if last else "│  "), depth - 1)


class ClusterSummary(JsonRecord):
    """The cluster that was read, in a few numbers."""

    source: str
    """Where it was read from."""
    nodes: int
    """Nodes in all."""
    free: int
    """Nodes that are idle and not faulty."""
    flagged: int
    """Nodes with a flag, faulty ones among them."""
    faulty: int
    """Nodes that are broken, so that no job may use them."""
    kept_out: Mapping[str, int]
    """Why nodes are kept out though nothing is wrong with them, such as by a taint, and how many; faulty ones aside."""
    levels: Mapping[str, int]
    """Number of domains of each level, from the broadest to the closest."""
    second_levels: Mapping[str, int]
    """Number of domains of each second hierarchy, such as @power; a node in none of them is not counted."""
    gpu_types: Mapping[str, int]
    """Nodes of each type of GPU, most first; nodes of which no type is said are in none."""
    sharing: Mapping[str, int]
    """Nodes that hand out GPUs in parts, by how (time-slicing x4), most first: jobs of whole GPUs get none of them."""


class LevelSummary(JsonRecord):
    """A level, or a second hierarchy, in numbers."""

    name: str
    """Name of the level."""
    domains: int
    """How many domains it has, of a level implicit ones among them."""
    smallest: int
    """Nodes of its smallest domain."""
    median: float
    """Nodes of its median domain."""
    largest: int
    """Nodes of its largest domain."""
    implicit_nodes: int
    """Nodes without a domain of this level; they hang on a broader switch, or are in none of a second hierarchy."""


def summarise_cluster(cluster: Cluster, source: str) -> ClusterSummary:
    """Return a cluster, read from ``source``, in a few numbers."""
    return ClusterSummary(
        source=source,
        nodes=len(cluster),
        free=int(cluster.idle.sum()),
        flagged=int((cluster.slowdown > HEALTHY).sum()),
        faulty=int((cluster.slowdown == FAULTY).sum()),
        kept_out=Counter(why for i, why in sorted(cluster.kept_out.items()) if cluster.slowdown[i] < FAULTY),
        levels={level.name: len(level) for level in cluster.levels},
        second_levels={level.name: int((~level.implicit).sum()) for level in cluster.second_levels},
        gpu_types=cluster.nodes_of_type,
        sharing=dict(Counter(cluster.sharing.values()).most_common()),
    )


def summarise(cluster: Cluster) -> list[LevelSummary]:
    """Return all levels, from the broadest to the closest."""
    return [_summary(level) for level in cluster.levels]


def summarise_second(cluster: Cluster) -> list[LevelSummary]:
    """Return all second hierarchies, the domains that have a name alone; 0 nodes where there is none."""
    return [_summary(level, named=True) for level in cluster.second_levels]


def _summary(level: Level, *, named: bool = False) -> LevelSummary:
    sizes = np.bincount(level.domain_of, minlength=len(level))[~level.implicit if named else slice(None)]
    nodes = sizes if len(sizes) else np.zeros(1, dtype=np.int64)
    least, median, most = int(nodes.min()), float(np.median(nodes)), int(nodes.max())
    return LevelSummary(level.name, len(sizes), least, median, most, int(level.implicit[level.domain_of].sum()))


def warnings(cluster: Cluster) -> list[str]:
    """Return what is allowed and may not be meant, one sentence each."""
    sentences = []
    if not cluster.levels:
        sentences.append("there is no level: all nodes are equally near to each other")
    for depth, level in enumerate(cluster.levels):
        summary = _summary(level)
        if summary.domains == 1:
            sentences.append(f"level {level.name} has one domain, which tells no two placements apart")
        elif summary.largest == 1:
            sentences.append(f"every node is alone in its {one_of(level.name)}")
        elif depth and summary.domains == len(cluster.levels[depth - 1]):
            sentences.append(f"level {level.name} has the same domains as {cluster.levels[depth - 1].name}")
        if summary.implicit_nodes:
            share = f"{summary.implicit_nodes} of {len(cluster)} nodes"
            sentences.append(f"no {one_of(level.name)} of their own, so on a broader switch: {share}")
    for second in summarise_second(cluster):
        if second.implicit_nodes:
            share = f"{second.implicit_nodes} of {len(cluster)} nodes"
            sentences.append(f"in no domain of {second.name}, so each a domain of its own there: {share}")
    sizes = Counter(cluster.gpus.tolist())
    if len(sizes) > 1:
        counts = ", ".join(f"{count} with {gpus}" for gpus, count in sizes.most_common())
        sentences.append(f"nodes differ in GPUs ({counts}); a job uses nodes of one size")
    types = cluster.nodes_of_type
    if types and (unsaid := len(cluster) - sum(types.values())):
        sentences.append(f"the type of GPU is said of some nodes and not of {unsaid} of {len(cluster)}")
    if len(types) > 1:
        sentences.append("nodes differ in type of GPU; a job uses nodes of one type, unless it says gpu_types: any")
    if not cluster.idle.any():
        sentences.append("no node is free: every one is in use, kept out or faulty")
    return sentences
