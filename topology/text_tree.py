"""The cluster as a tree of text with counts, for terminals and logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from topology.cluster import Cluster, IntArray
from topology.domain_tree import Domain, domain_tree
from topology.states import State, count_states, node_states

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
