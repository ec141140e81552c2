"""HyperNodes of Volcano: switches by name, each with the nodes or HyperNodes below it.

A HyperNode has a tier, 1 the closest; the level is called as its tier is (``tierName``), else ``tier-1``.  Members are
named, or chosen by a regular expression of names (Go's, which Python reads alike as far as it is taken here) or by
labels of nodes.  Source: volcano.sh/docs, network topology aware scheduling; the custom resource
``topology.volcano.sh/v1alpha1``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from topology.build import NodePath
from topology.errors import InvalidTopology, some
from topology.kubernetes.kubernetes_objects import NamedObject, Object, Place
from topology.kubernetes.kubernetes_requirement import Requirement

_LOOPS = re.compile(r"(?<!\\)[*+{]")
_NESTED = re.compile(r"\)[*+{]|\(\?[^:]|\\[1-9]")
MOST_LOOPS = 2  # repetitions in an expression: with more, or nested, names could be made that it never ends on


class _Name(Object, frozen=True):
    name: str = ""


class _Pattern(Object, frozen=True):
    pattern: str = ""


class _Labels(Object, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None

    def hold(self, labels: Mapping[str, str]) -> bool:
        """Return whether they hold where these labels are."""
        equal = all(labels.get(key) == value for key, value in (self.match_labels or {}).items())
        return equal and all(one.holds(labels) for one in self.match_expressions or ())


class _Selector(Object, frozen=True):
    exact_match: _Name | None = None
    regex_match: _Pattern | None = None
    label_match: _Labels | None = None


class HyperNodeMember(Object, frozen=True):
    """Nodes, or HyperNodes, that belong to a HyperNode."""

    type: str = "Node"
    selector: _Selector = _Selector()

    def names(self, known: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Return the names among those known, with their labels, that it chooses; raise ValueError for a regular
        expression that is none, or is not taken.
        """
        one = self.selector
        if one.exact_match is not None:
            return [one.exact_match.name] if one.exact_match.name in known else []
        if one.regex_match is not None:
            matches = _expression(one.regex_match.pattern).search
            return [name for name in known if matches(name)]
        if one.label_match is not None:
            return [name for name, labels in known.items() if one.label_match.hold(labels)]
        return []


class _Spec(Object, frozen=True):
    tier: int = 1
    tier_name: str | None = None
    members: list[HyperNodeMember] | None = None


class HyperNode(NamedObject, frozen=True):
    """A HyperNode of Volcano."""

    spec: _Spec = _Spec()

    @property
    def chooses_nodes(self) -> bool:
        """Whether it has nodes by an expression or by labels."""
        return any(one.type == "Node" and one.selector.exact_match is None for one in self.spec.members or ())

    def exact_nodes(self) -> list[str]:
        """Return the nodes that it names."""
        chosen = (one.selector.exact_match for one in self.spec.members or () if one.type == "Node")
        return [match.name for match in chosen if match is not None and match.name]


def _expression(pattern: str) -> re.Pattern[str]:
    if len(_LOOPS.findall(pattern)) > MOST_LOOPS or _NESTED.search(pattern):
        raise ValueError(f"the expression {pattern[:60]!r} is not taken, as it could take for ever")
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        raise ValueError(f"{pattern[:60]!r} is no regular expression") from None


def hyper_paths(
    hyper_nodes: Sequence[tuple[Place, HyperNode]], nodes: Mapping[str, Mapping[str, str]]
) -> tuple[tuple[str, ...], dict[str, NodePath], list[str]]:
    """Return levels, the path of each node (given with its labels), and notes; raise InvalidTopology where something
    lies below two HyperNodes of a tier, or a HyperNode below one that is not broader.
    """
    named = {one.name: one for _, one in hyper_nodes}
    above: dict[str, str] = {}  # of a HyperNode
    holds: dict[str, list[str]] = {name: [] for name in nodes}  # the HyperNodes of a node
    no_labels: Mapping[str, Mapping[str, str]] = {name: {} for name in named}
    for one in named.values():
        for member in one.spec.members or ():
            for name in _chosen(one, member, no_labels if member.type == "HyperNode" else nodes):
                if member.type != "HyperNode":
                    holds[name].append(one.name)
                    continue
                if named[name].spec.tier >= one.spec.tier:
                    raise _wrong(f"HyperNode {name!r} lies below {one.name!r}, whose tier is no broader")
                if above.setdefault(name, one.name) != one.name:
                    raise _wrong(f"HyperNode {name!r} lies below two, {above[name]!r} and {one.name!r}")
    tiers = sorted({one.spec.tier for one in named.values()}, reverse=True)
    paths = {name: _path(named, above, name, holds[name], tiers) for name in nodes}
    notes = ["levels are the HyperNodes of Volcano"]
    if lost := [name for name in nodes if not holds[name]]:
        notes.append(f"nodes in no HyperNode: {some(lost)}")
    return _level_names(named.values(), tiers), paths, notes


def _chosen(one: HyperNode, member: HyperNodeMember, known: Mapping[str, Mapping[str, str]]) -> list[str]:
    try:
        return member.names(known)
    except ValueError as error:
        raise _wrong(f"HyperNode {one.name!r}: {error}") from None


def _path(
    named: Mapping[str, HyperNode], above: Mapping[str, str], node: str, holds: Sequence[str], tiers: Sequence[int]
) -> NodePath:
    at: dict[int, str] = {}
    for start in holds:
        here: str | None = start
        while here is not None:
            if (first := at.setdefault(named[here].spec.tier, here)) != here:
                raise _wrong(f"node {node!r} lies in two HyperNodes of a tier, {first!r} and {here!r}")
            here = above.get(here)
    return tuple(at.get(tier, "") for tier in tiers)


def _level_names(hyper_nodes: Iterable[HyperNode], tiers: Sequence[int]) -> tuple[str, ...]:
    said: dict[int, set[str]] = {tier: set() for tier in tiers}
    for one in hyper_nodes:
        said[one.spec.tier].add(one.spec.tier_name or "")
    names = {tier: next(iter(of)) if len(of) == 1 else "" for tier, of in said.items()}
    twice = Counter(names.values())
    return tuple(names[tier] if names[tier] and twice[names[tier]] == 1 else f"tier-{tier}" for tier in tiers)


def _wrong(message: str) -> InvalidTopology:
    return InvalidTopology(message, fix="HyperNodes are a tree: every one lies below one of a broader tier")
