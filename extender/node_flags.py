"""Health flags as annotations of nodes: read, written, taken off.

The annotations are ``arnold.dev/slowdown`` and ``arnold.dev/slowdown-until``, as in
:mod:`topology.kubernetes.nodes`; any tool may write them.  A node has one flag; writing another
replaces it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, TypeVar

from extender.cluster_api.client import NODES, ClusterApi
from extender.cluster_api.connect import WhichCluster, ask_cluster
from extender.cluster_api.reflector import objects_of
from extender.objects import decode_node
from ground.errors import InvalidTopology, UnknownName, did_you_mean
from ground.records import JsonRecord
from topology.flag_sources import Breaker
from topology.flags import FAULTY, NodeFlag
from topology.kubernetes.nodes import SLOWDOWN, SLOWDOWN_SINCE, SLOWDOWN_UNTIL, annotated_flag
from topology.node_names import NodeNames

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FlaggedNode:
    """The annotations of one node, as written and as read."""

    node: str
    slowdown: str | None = None  # 1.3 or faulty; None = there is none
    until: str | None = None  # None = open end
    flag: NodeFlag | None = None  # None = nothing that can be read
    problem: str = ""

    @property
    def bare(self) -> bool:
        """Whether there are no annotations of ours."""
        return self.slowdown is None and self.until is None


class FlagChange(JsonRecord):
    """What was done to one node."""

    node: str
    """Name of the node."""
    done: Literal["applied", "cleared", "unchanged"]
    """What was done."""
    slowdown: str | None
    """Its annotation arnold.dev/slowdown now."""
    until: str | None
    """Its annotation arnold.dev/slowdown-until now."""
    before: str | None
    """Its annotation arnold.dev/slowdown before."""


class NodeFlags:
    """The flags of a cluster."""

    def __init__(self, api: ClusterApi, *, yes: bool = False) -> None:
        self._api, self._yes = api, yes

    async def all(self) -> dict[str, FlaggedNode]:
        """Return every node with its annotations, by name."""
        flagged: dict[str, FlaggedNode] = {}
        async for raw in objects_of(self._api, NODES):
            node, flag, problem = decode_node(raw), None, ""
            name, annotations = node.name, node.metadata.annotations or {}
            try:
                flag = annotated_flag(name, annotations)
            except InvalidTopology as error:
                problem = str(error)
            slowdown, until = annotations.get(SLOWDOWN), annotations.get(SLOWDOWN_UNTIL)
            flagged[name] = FlaggedNode(name, slowdown, until, flag, problem)
        return flagged

    async def apply(self, flags: Iterable[NodeFlag]) -> list[FlagChange]:
        """Write flags, of two for one node the slower, and return one change for each node, by name.

        :raises UnknownName: a flag names a node that the cluster does not have; nothing is written then.
        :raises InvalidInput: too many nodes would be out of use; nothing is written then.
        """
        nodes = await self.all()
        worst = _worst(flags, NodeNames(nodes))
        self._within_share(nodes, [flag for name, flag in worst.items() if name in nodes], nodes, datetime.now(UTC))
        return await self._write(nodes, {name: _annotated(flag) for name, flag in sorted(worst.items())})

    async def clear(self, names: Sequence[str] | None) -> list[FlagChange]:
        """Take flags off, and return one change for each node, by name.

        :param names: of the nodes; ``None`` = all that have annotations of ours.
        :raises UnknownName: the cluster has no such node; nothing is written then.
        """
        nodes = await self.all()
        spelled = NodeNames(nodes)
        chosen = [name for name, node in nodes.items() if not node.bare] if names is None else map(spelled.any, names)
        return await self._write(nodes, {name: FlaggedNode(name) for name in sorted({*chosen})})

    async def sync(
        self, held: Iterable[NodeFlag], *, known: Mapping[str, Collection[float]], now: datetime
    ) -> tuple[list[FlagChange], list[str]]:
        """Bring annotations in line with a store: write what it holds, take off what it held once and no longer does.

        What others wrote stays, where it is worse or the store holds nothing.  An end that moved is written anew
        only when half of the time to it is over, so that a finding that is renewed every minute is no write a minute.

        :param held: what the store holds, one flag a node.
        :param known: every slowdown that it ever held against each node: by these its own annotations are known.
        :param now: timezone-aware.
        :returns: one change for each node that the store has heard of, by name; names that the cluster does not have.
        """
        nodes = await self.all()
        wanted: dict[str, FlaggedNode] = {}
        names, ever = NodeNames(nodes), defaultdict[str, set[str]](set)
        by_name = _worst(held, names)
        for name, slowdowns in known.items():
            ever[names.any(name)].update(map(_factor, slowdowns))
        for name in sorted(by_name.keys() | ever.keys()):
            if (before := nodes.get(name)) is None:
                continue
            ours = before.slowdown in ever[name]
            flag = by_name.get(name)
            if flag is None:
                wanted[name] = FlaggedNode(name) if ours else before
            else:
                wanted[name] = before if _stays(before, flag, now, ours=ours) else _annotated(flag)
        left = {name: node for name, node in nodes.items() if name not in wanted or not wanted[name].bare}
        self._within_share(nodes, [flag for name, flag in by_name.items() if name in nodes], left, now)
        return await self._write(nodes, wanted), sorted(by_name.keys() - nodes.keys())

    def _within_share(
        self,
        nodes: Mapping[str, FlaggedNode],
        flags: Iterable[NodeFlag],
        standing: Mapping[str, FlaggedNode],
        now: datetime,
    ) -> None:
        """Make sure that a run takes a share of the nodes at most out of use, unless a person says so.

        :param standing: nodes whose annotations stay; those that are over keep none out.
        """
        if not self._yes:
            held = (node.flag for node in standing.values() if node.flag is not None and node.flag.active(now))
            out = {flag.node for flag in held if flag.kind == "faulty"}
            Breaker(len(nodes)).check(flags, before=out, where="arnold flags")

    async def _write(self, nodes: Mapping[str, FlaggedNode], wanted: Mapping[str, FlaggedNode]) -> list[FlagChange]:
        for name in wanted:
            if name not in nodes:
                fix = f"{did_you_mean(name, nodes)}name nodes of the cluster"
                raise UnknownName(f"the cluster has no node {name!r}", fix=fix)
        changes: list[FlagChange] = []
        for name, after in wanted.items():
            before = nodes[name]
            done: Literal["applied", "cleared", "unchanged"] = "unchanged"
            if (before.slowdown, before.until) != (after.slowdown, after.until):
                done = "cleared" if after.bare else "applied"
            changes.append(FlagChange(name, done, after.slowdown, after.until, before.slowdown))

        async def patch(change: FlagChange) -> None:
            # what is written holds from now on
            written = {SLOWDOWN: change.slowdown, SLOWDOWN_SINCE: None, SLOWDOWN_UNTIL: change.until}
            await self._api.patch(NODES, change.node, {"metadata": {"annotations": written}}, kind="merge-patch")

        await asyncio.gather(*(patch(change) for change in changes if change.done != "unchanged"))
        return changes


def on_cluster(which: WhichCluster, action: Callable[[NodeFlags], Awaitable[T]], *, yes: bool = False) -> T:
    """Connect to a cluster, do something with its flags, and return what came of it.

    :param yes: flags may take out more nodes than the breaker lets pass.
    """
    return ask_cluster(which, lambda api: action(NodeFlags(api, yes=yes)))


def _worst(flags: Iterable[NodeFlag], names: NodeNames) -> dict[str, NodeFlag]:
    """Return of each node, as the cluster calls it, the slowest flag, and of two alike the first."""
    of_cluster = (replace(flag, node=names.any(flag.node)) for flag in flags)
    by_slowdown = sorted(of_cluster, key=lambda flag: flag.slowdown, reverse=True)
    return {flag.node: flag for flag in reversed(by_slowdown)}


def _annotated(flag: NodeFlag) -> FlaggedNode:
    """Return a flag as annotations."""
    until = None if flag.until is None else flag.until.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return FlaggedNode(flag.node, _factor(flag.slowdown), until, flag)


def _factor(slowdown: float) -> str:
    return "faulty" if slowdown == FAULTY else f"{slowdown:.12g}"


def _stays(before: FlaggedNode, flag: NodeFlag, now: datetime, *, ours: bool) -> bool:
    """Return whether annotations that are there do for a flag."""
    there = before.flag
    if there is None or not there.active(now):
        return False
    if there.slowdown > flag.slowdown:
        return not ours
    if before.slowdown != _factor(flag.slowdown) or (there.until is None) != (flag.until is None):
        return False
    return there.until is None or flag.until is None or 2 * (there.until - now) >= flag.until - now >= there.until - now
