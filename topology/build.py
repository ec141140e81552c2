"""From rows of nodes to a cluster: every way in which they are no tree is found here, with its place.

A source may say where its nodes are in several ways at once: switches, racks, NVLink domains.  Of two partitions the
one whose every domain lies inside one domain of the other is the closer.  Where neither does, they are no two levels of
one tree: forced into it, a domain of one would be cut at the borders of the other, and jobs that fit would be refused.
So one of them becomes a second hierarchy (:func:`nest`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, count, islice
from operator import attrgetter, le
from typing import Self

import numpy as np

from ground.errors import InvalidTopology, TooLarge
from ground.quantities import plural
from ground.records import check_fields, checked
from topology.cluster import (
    MAX_GPUS,
    MAX_LEVELS,
    MAX_NODES,
    MAX_SECOND_LEVELS,
    ROOT,
    SECOND,
    Cluster,
    IntArray,
    Level,
    Node,
    numbered,
)
from topology.flags import FAULTY, HEALTHY, FlagKind, NodeFlag

NodePath = tuple[str, ...]  # A node's domain at each level, from broad to close; empty = it has none there
_FIELDS = attrgetter(*(field.name for field in fields(Node)))
_Fault = tuple[str, str]  # What is wrong, and what to do about it


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """Rows of nodes, column by column, from which a cluster is made without an object for each node."""

    names: Sequence[str]
    levels: Sequence[Sequence[str]]  # the domain of each node at each level, from broad to close; empty = it has none
    gpus: Sequence[int]
    free_gpus: Sequence[int]
    gpu_types: Sequence[str]  # empty = not said
    second: Sequence[Sequence[str]] = ()  # the domain of each node in each second hierarchy; empty = it is in none
    sharing: Mapping[int, str] = field(default_factory=dict)  # rows of nodes that hand out GPUs in parts, and how

    @classmethod
    def of(cls, rows: Sequence[Node]) -> Self:
        """Return the columns of rows whose paths are all as long."""
        names, paths, gpus, free, types, second = (
            [getattr(row, name) for row in rows]
            for name in ("name", "path", "gpus", "free_gpus", "gpu_type", "second_path")
        )
        sharing = {i: row.sharing for i, row in enumerate(rows) if row.sharing}
        levels, beside = (list(zip(*of_rows, strict=True)) for of_rows in (paths, second))
        return cls(names, levels, gpus, free, types, beside, sharing)


@checked
def build_cluster(
    level_names: Sequence[str],
    nodes: Iterable[Node] | NodeColumns,
    *,
    second: Sequence[str] = (),
    flags: Iterable[NodeFlag] = (),
    where: Callable[[int], str] | None = None,
) -> Cluster:
    """Make a cluster from rows, checking all that can be wrong with a tree: raise InvalidTopology or TooLarge.

    :param level_names: from the broadest to the closest, unique.
    :param nodes: rows with one path entry a level, and one of the second path for each second hierarchy, or their
        columns.  A row with a slowdown above 1 becomes a flag.
    :param second: names of second hierarchies, each with its ``@``.
    :param where: from the number of a row to the place it was read from ("cluster.csv:12"); asked for errors only.
    """
    rows = nodes if isinstance(nodes, NodeColumns) else list(islice(nodes, MAX_NODES + 1))
    if len(rows.names if isinstance(rows, NodeColumns) else rows) > MAX_NODES:
        raise TooLarge(f"the cluster has more than {MAX_NODES:,} nodes", fix="describe a part of it")
    _check_level_names(level_names, second)
    own_flags: list[NodeFlag] = []
    if not isinstance(rows, NodeColumns):
        usual = set[tuple[type, ...]]()  # types of the fields of rows that hold what they may: most are alike
        for i, row in enumerate(rows):
            if not isinstance(row, Node):
                raise InvalidTopology(f"row {i} is {ascii(row)[:60]}", where=f"nodes[{i}]", fix="give a Node")
            kinds = tuple(map(type, _FIELDS(row)))
            if kinds not in usual or {*map(type, chain(row.path, row.second_path))} - {str}:
                check_fields(row, error=InvalidTopology, within=f"nodes[{i}].")
                usual.add(kinds)
            if not row.slowdown >= HEALTHY:
                raise _invalid((f"node {row.name!r} has a slowdown of {row.slowdown}", "give at least 1"), where, i)
            if len(row.path) != len(level_names):
                uneven = f"node {row.name!r} has {len(row.path)} levels instead of {len(level_names)}"
                raise _invalid((uneven, "fill every level"), where, i)
            if len(row.second_path) != len(second):
                several = (
                    f"node {row.name!r} has {len(row.second_path)} domains beside the tree instead of {len(second)}"
                )
                raise _invalid((several, "give one for each second hierarchy, or an empty text"), where, i)
            if row.slowdown > HEALTHY:
                kind: FlagKind = "faulty" if row.slowdown == FAULTY else "straggler"
                own_flags.append(NodeFlag(row.name, kind, row.slowdown, source="cluster file"))
        rows = NodeColumns.of(rows)
    if not rows.names:
        raise InvalidTopology("the cluster has no nodes", fix="list at least one node")
    _check_nodes(rows, where)
    gpu_types, gpu_type_of = numbered(rows.gpu_types)
    cluster = Cluster(
        names=tuple(rows.names),
        gpus=np.array(rows.gpus, dtype=np.int32),
        free_gpus=np.array(rows.free_gpus, dtype=np.int32),
        gpu_types=gpu_types,
        gpu_type_of=gpu_type_of,
        levels=_build_levels(level_names, rows.levels, len(rows.names), where),
        second_levels=tuple(
            _second_level(name, rows.names, domains, where) for name, domains in zip(second, rows.second, strict=True)
        ),
        flags={},
    )
    return cluster.with_sharing(rows.sharing).with_flags([*own_flags, *flags])


def _invalid(fault: _Fault, where: Callable[[int], str] | None, i: int) -> InvalidTopology:
    """Return the error of a row; its place is looked up only here, as that may take long."""
    return InvalidTopology(fault[0], where=where(i) if where else "", fix=fault[1])


@checked
def with_level_names(cluster: Cluster, names: Sequence[str]) -> Cluster:
    """Return a cluster whose levels have other names.

    :param names: from the broadest level to the closest.
    :raises InvalidTopology: another number of names than of levels, or no such names as levels can have.
    """
    levels = [level.name for level in cluster.levels]
    if len(names) != len(levels):
        has = f"the cluster has {plural(len(levels), 'level')}" + (f": {', '.join(levels)}" if levels else "")
        fix = f"give {plural(len(levels), 'name')}, from the broadest level to the closest"
        raise InvalidTopology(f"{plural(len(names), 'name')} for the levels, and {has}", fix=fix)
    _check_level_names(names, [level.name for level in cluster.second_levels])
    renamed = (replace(level, name=name) for level, name in zip(cluster.levels, names, strict=True))
    new_name = dict(zip(levels, names, strict=True))
    cut = {new_name.get(level, level): why for level, why in cluster.cut.items()}
    return cluster.replace(levels=tuple(renamed), cut=cut)


def _check_level_names(names: Sequence[str], second: Sequence[str]) -> None:
    if len(names) > MAX_LEVELS:
        raise InvalidTopology(f"the tree has {len(names)} levels", fix=f"describe it with at most {MAX_LEVELS} levels")
    for i, name in enumerate(names):
        if not name.isprintable():
            raise _invalid(_unprintable("level", name), None, i)
        if not name:
            raise InvalidTopology("a level has no name", fix="name every level column")
        if name in names[:i]:
            raise InvalidTopology(f"two levels are called {name!r}", fix="give every level its own name")
    if (fault := second_fault(second, names)) is not None:
        raise _invalid(fault, None, 0)


def second_fault(names: Sequence[str], levels: Sequence[str]) -> _Fault | None:
    """Return what is wrong with names of second hierarchies beside those of levels, and what to do about it: none after
    the ``@``, twice the same, that of a level, or too many.
    """
    if len(names) > MAX_SECOND_LEVELS:
        return f"the cluster has {len(names)} second hierarchies", f"describe at most {MAX_SECOND_LEVELS}"
    if stray := next((level for level in levels if level.startswith(SECOND)), None):
        return f"the level {stray!r} begins with {SECOND}, as second hierarchies do", "give the level another name"
    for i, name in enumerate(names):
        bare = name.removeprefix(SECOND)
        if not name.isprintable():
            return _unprintable("second hierarchy", name)
        if not bare.strip() or bare == name:
            return f"a second hierarchy is called {name!r}", f"give it a name after the {SECOND}, like {SECOND}power"
        if name in names[:i]:
            return f"two second hierarchies are called {name!r}", "give every second hierarchy its own name"
        if bare in levels:
            alike = f"the second hierarchy {name!r} is called like the level {bare!r}"
            return alike, "rename one of the two; what is a level of the tree needs no second hierarchy"
    return None


def _unprintable(what: str, name: str) -> _Fault:
    return f"the name of a {what} has control characters: {name[:60]!r}", "use a printable name"


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**12 else "an absurd number of"


def _check_nodes(nodes: NodeColumns, where: Callable[[int], str] | None) -> None:
    """Make sure that names are unique, and all that is said of nodes is possible; look for the node only if not."""
    names, gpus, free = nodes.names, nodes.gpus, nodes.free_gpus
    if (
        all(names)
        and len({*names}) == len(names)
        and all(map(str.isprintable, chain(names, {*nodes.gpu_types}, {*nodes.sharing.values()})))
        and min(gpus) >= 1
        and max(gpus) <= MAX_GPUS
        and min(free) >= 0
        and all(map(le, free, gpus))
    ):
        return
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        fault = _node_fault(name, gpus[i], free[i], nodes.gpu_types[i], nodes.sharing.get(i, ""))
        if fault is None and (first := seen.setdefault(name, i)) != i:
            earlier = f" (first at {where(first)})" if where else ""
            fault = f"node {name!r} appears twice{earlier}", "keep one row for each node"
        if fault is not None:
            raise _invalid(fault, where, i)


def _node_fault(name: str, gpus: int, free: int, gpu_type: str, sharing: str) -> _Fault | None:
    if not name:
        return "a node has no name", "name every node"
    if not name.isprintable():
        return _unprintable("node", name)
    if gpus < 1:
        return f"node {name!r} has {gpus} GPUs", "give every node at least one GPU"
    if gpus > MAX_GPUS:
        return f"node {name!r} has {_short(gpus)} GPUs", f"a node has at most {MAX_GPUS} GPUs"
    if not 0 <= free <= gpus:
        of_them = f"node {name!r} has {_short(free)} free GPUs of {gpus}"
        return of_them, "free GPUs lie between 0 and the node's GPUs"
    if not gpu_type.isprintable():
        return _unprintable("GPU type", gpu_type)
    if not sharing.isprintable():
        fix = "write how its GPUs are shared, such as time-slicing x4, or leave the cell empty"
        return f"the sharing of node {name!r} has control characters: {sharing[:60]!r}", fix
    return None


def _build_levels(
    level_names: Sequence[str], columns: Sequence[Sequence[str]], nodes: int, where: Callable[[int], str] | None
) -> tuple[Level, ...]:
    levels: list[Level] = []
    broader: IntArray = np.zeros(nodes, dtype=np.int32)
    broader_names: tuple[str, ...] = (ROOT,)
    for depth, (level_name, column) in enumerate(zip(level_names, columns, strict=True)):
        # a node without a domain is in one for all such nodes of the broader domain, whose number stands for it
        domains, domain_of = numbered(
            [name or above for name, above in zip(column, broader.tolist(), strict=True)] if "" in column else column
        )
        parent_of = np.empty(len(domains), dtype=np.int32)
        parent_of[domain_of[::-1]] = broader[::-1]  # of the first node of each: of several values the last one stays
        astray = parent_of[domain_of] != broader
        odd = [isinstance(name, str) and not name.isprintable() for name in domains]
        if any(odd) or astray.any():
            i = int(np.argmax(astray | np.array(odd)[domain_of]))
            name, above = column[i], level_names[depth - 1]
            if odd[domain_of[i]]:
                raise _invalid(_unprintable(level_name, name), where, i)
            first, other = (broader_names[k] for k in (parent_of[domain_of[i]], broader[i]))
            two = f"{level_name} {name!r} lies in two domains of {above}: {first!r} and {other!r}"
            fix = (
                f"a {level_name} belongs to one {above}; rename one of the two, put {level_name} first if it is "
                f"broader, or call it {SECOND}{level_name}, a second hierarchy, if neither lies inside the other"
            )
            raise _invalid((two, fix), where, i)
        implicit = np.array([not isinstance(name, str) for name in domains], dtype=np.bool_)
        broader_names = tuple(name if isinstance(name, str) else broader_names[name] for name in domains)
        levels.append(Level(level_name, broader_names, domain_of, parent_of, implicit))
        broader = domain_of
    return tuple(levels)


@checked
def with_second_levels(cluster: Cluster, domains: Mapping[str, Sequence[str]]) -> Cluster:
    """Return the cluster with more second hierarchies: name, with its ``@`` -> the domain of each node, empty = none.

    :raises InvalidTopology: a name is none, is taken, or is that of a level.
    """
    names = [*(level.name for level in cluster.second_levels), *domains]
    if (fault := second_fault(names, [level.name for level in cluster.levels])) is not None:
        raise _invalid(fault, None, 0)
    for name, of in domains.items():
        if len(of) != len(cluster):
            fix = "give one for each node, or an empty text"
            raise InvalidTopology(f"{name} has {len(of)} domains for {len(cluster)} nodes", where="domains", fix=fix)
    more = (_second_level(name, cluster.names, of, None) for name, of in domains.items())
    return cluster.replace(second_levels=(*cluster.second_levels, *more))


def _second_level(name: str, nodes: Sequence[str], domains: Sequence[str], where: Callable[[int], str] | None) -> Level:
    """Return a second hierarchy from nodes and their domains by name: a node in none is one, called as the node."""
    keys, domain_of = numbered([domain or i for i, domain in enumerate(domains)] if "" in domains else domains)
    if odd := next((key for key in keys if isinstance(key, str) and not key.isprintable()), None):
        raise _invalid(_unprintable(name, odd), where, domains.index(odd))
    implicit = np.array([not isinstance(key, str) for key in keys], dtype=np.bool_)
    parent_of = np.zeros(len(keys), dtype=np.int32)
    names = tuple(key if isinstance(key, str) else nodes[key] for key in keys)
    return Level(name, names, domain_of, parent_of, implicit)


def unique(name: str, taken: set[str], *, suffix: str = "({})") -> str:
    """Return a name that is not taken, with a number from 2 on behind it where it is, and take it."""
    numbered = (name + suffix.format(number) for number in count(2))
    free = next(candidate for candidate in chain([name], numbered) if candidate not in taken)
    taken.add(free)
    return free


def qualified(paths: Sequence[NodePath]) -> tuple[list[NodePath], list[int]]:
    """Return paths with ``parent/name`` for names below different parents, and how many of these each level has."""
    result: list[NodePath] = [() for _ in paths]
    counts = []
    for level in range(len(paths[0]) if paths else 0):
        parents: dict[str, set[NodePath]] = {}
        for path, above in zip(paths, result, strict=True):
            parents.setdefault(path[level], set()).add(above)
        repeated = {name for name, under in parents.items() if name and len(under) > 1}
        called: dict[tuple[str, NodePath], str] = {}
        taken = parents.keys() - repeated
        for path, above in zip(paths, result, strict=True):
            if (name := path[level]) in repeated and (name, above) not in called:
                closest = next((parent for parent in reversed(above) if parent), "")
                # parents of two levels may be called alike
                called[name, above] = unique(f"{closest}/{name}" if closest else name, taken)
        names = (called.get((path[level], above), path[level]) for path, above in zip(paths, result, strict=True))
        result = [(*above, name) for above, name in zip(result, names, strict=True)]
        counts.append(len(repeated))
    return result, counts


@dataclass(frozen=True, slots=True)
class Partition:
    """Domains of nodes, by name."""

    name: str
    domains: Sequence[str]  # the domain of each node; empty = none, or none that is known
    whole: bool = False  # a node without a domain is in none, as one that NVLink does not reach; else nobody knows


def nest(tree: Sequence[Partition], others: Iterable[Partition]) -> tuple[list[Partition], list[Partition]]:
    """Return a tree with other partitions among its levels where they nest, each in turn; and those that cut across it.

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
    return levels, beside


def same_partition(first: Partition, second: Partition) -> bool:
    """Return whether two partitions have the same domains, whatever these are called, and the same nodes in none."""
    pairs = {*zip(first.domains, second.domains, strict=True)}
    return len(pairs) == len({*first.domains}) == len({*second.domains}) and all(bool(a) == bool(b) for a, b in pairs)


def filled(levels: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return levels, from broad to close, with the places that a closer one tells: a node whose leaf hangs on one spine
    hangs on it too, although nothing says so of the node itself.
    """
    columns = [list(level.domains) for level in levels]
    for at in reversed(range(len(levels))):
        for closer in columns[at + 1 :] if not levels[at].whole else ():
            above: dict[str, set[str]] = {}
            for domain, parent in zip(closer, columns[at], strict=True):
                if domain and parent:
                    above.setdefault(domain, set()).add(parent)
            sure = {domain: next(iter(parents)) for domain, parents in above.items() if len(parents) == 1}
            columns[at] = [here or sure.get(below, "") for here, below in zip(columns[at], closer, strict=True)]
    return tuple(replace(level, domains=domains) for level, domains in zip(levels, columns, strict=True))


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
