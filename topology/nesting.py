"""Partitions of the same nodes whose order no source tells: which is a level of the tree, and where, and which cuts
across it.

A cluster says where its nodes are in several ways at once: switches, racks, NVLink domains.  Of two partitions the one
whose every domain lies inside one domain of the other is the closer.  Where neither does, they are no two levels of one
tree: forced into it, a domain of one would be cut at the borders of the other, and jobs that fit would be refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from topology.build import NodePath, qualified


@dataclass(frozen=True, slots=True)
class Partition:
    """Domains of nodes, by name."""

    name: str
    domains: Sequence[str]  # the domain of each node; empty = none, or none that is known
    whole: bool = False  # a node without a domain is in none, as one that NVLink does not reach; else nobody knows


@dataclass(frozen=True, slots=True)
class Nesting:
    """Partitions as a tree, and those that cut across it."""

    levels: tuple[Partition, ...]  # from broad to close, each domain inside one of the level above
    beside: tuple[Partition, ...]  # second hierarchies


def nest(tree: Sequence[Partition], others: Iterable[Partition]) -> Nesting:
    """Return a tree with other partitions among its levels where they nest, each in turn.

    Of two that are the same partition the one that came first is the broader.

    :param tree: from broad to close, each domain inside one of the level above.
    """
    levels, beside = list(tree), list[Partition]()
    for other in others:
        inside = [_inside(other, level) for level in levels]
        holds = [_inside(level, other) for level in levels]
        fitting = (at for at in reversed(range(len(levels) + 1)) if all(inside[:at]) and all(holds[at:]))
        if (at := next(fitting, None)) is None:
            beside.append(other)
        else:
            levels.insert(at, other)
    return Nesting(tuple(levels), tuple(beside))


def same_partition(one: Partition, other: Partition) -> bool:
    """Return whether two partitions have the same domains, whatever these are called, and the same nodes in none."""
    pairs = {*zip(one.domains, other.domains, strict=True)}
    return len(pairs) == len({*one.domains}) == len({*other.domains}) and all(bool(a) == bool(b) for a, b in pairs)


def filled(levels: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return levels, from broad to close, with the places that a closer one tells: a node whose leaf hangs on one spine
    hangs on it too, although nothing says so of the node itself.
    """
    found = [list(level.domains) for level in levels]
    for at in reversed(range(len(levels))):
        for closer in found[at + 1 :] if not levels[at].whole else ():
            above: dict[str, set[str]] = {}
            for domain, parent in zip(closer, found[at], strict=True):
                if domain and parent:
                    above.setdefault(domain, set()).add(parent)
            sure = {domain: next(iter(parents)) for domain, parents in above.items() if len(parents) == 1}
            found[at] = [here or sure.get(below, "") for here, below in zip(found[at], closer, strict=True)]
    return tuple(replace(level, domains=domains) for level, domains in zip(levels, found, strict=True))


def named_apart(levels: Sequence[Partition]) -> tuple[tuple[Partition, ...], dict[str, int]]:
    """Return levels in which names that stand below several broader domains are made different, ``parent/name``; and of
    each level that has such names how many.
    """
    paths, repeated = qualified(paths_of(levels))
    if not paths:
        return tuple(levels), {}
    columns = zip(levels, zip(*paths, strict=True), strict=True)
    apart = tuple(replace(level, domains=list(column)) for level, column in columns)
    return apart, {level.name: count for level, count in zip(levels, repeated, strict=True) if count}


def paths_of(levels: Sequence[Partition]) -> list[NodePath]:
    """Return the path of each node."""
    return list(zip(*(level.domains for level in levels), strict=True))


def _inside(closer: Partition, broader: Partition) -> bool:
    """Return whether every domain of one partition lies inside one domain of the other, or wholly outside of all."""
    above: dict[str, str] = {}
    return all(
        above.setdefault(domain, parent) == parent
        for domain, parent in zip(closer.domains, broader.domains, strict=True)
        if domain and (parent or broader.whole)
    )
