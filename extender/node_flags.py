"""Health flags as annotations of nodes: read, written, taken off.

The annotations are ``arnold.dev/slowdown`` and ``arnold.dev/slowdown-until``, as in
:mod:`topology.readers.kubernetes_health`; any tool may write them.  A node has one flag; writing another replaces it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from extender.cluster_api import NODES, ClusterApi, Document, FlowControl, HttpApi, find_cluster
from topology.errors import InvalidTopology, UnknownName, did_you_mean
from topology.flags import FAULTY, NodeFlag
from topology.readers.kubernetes_health import SLOWDOWN, SLOWDOWN_UNTIL, annotated_flag


@dataclass(frozen=True, slots=True)
class FlaggedNode:
    """The annotations of one node.

    :param slowdown: as it is written, ``1.3`` or ``faulty``; ``None`` = there is none.
    :param until: as it is written; ``None`` = open end.
    :param flag: what they mean; ``None`` = nothing that can be read.
    :param problem: what is wrong with them.
    """

    node: str
    slowdown: str | None = None
    until: str | None = None
    flag: NodeFlag | None = None
    problem: str = ""

    @property
    def bare(self) -> bool:
        """Whether there are no annotations of ours."""
        return self.slowdown is None and self.until is None


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to one node.

    :param before: its annotations.
    :param after: its annotations now.
    """

    before: FlaggedNode
    after: FlaggedNode

    @property
    def changed(self) -> bool:
        """Whether anything is another than before."""
        return (self.before.slowdown, self.before.until) != (self.after.slowdown, self.after.until)


class NodeFlags:
    """The flags of a cluster."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def all(self) -> dict[str, FlaggedNode]:
        """Every node with its annotations, by name."""
        found: dict[str, FlaggedNode] = {}
        token = ""
        while True:
            page = _pages.decode(await self._api.page(NODES, token=token))
            for item in page.items or ():
                found[item.metadata.name] = _read(item.metadata.name, item.metadata.annotations or {})
            if not (token := page.metadata.token):
                return found

    async def apply(self, flags: Iterable[NodeFlag]) -> list[Change]:
        """Write flags; of two for one node the slower wins.

        :returns: one change for each node that a flag names, by name.
        :raises UnknownName: a flag names a node that the cluster does not have; nothing is written then.
        """
        worst: dict[str, NodeFlag] = {}
        for flag in flags:
            if flag.node not in worst or worst[flag.node].slowdown < flag.slowdown:
                worst[flag.node] = flag
        nodes = await self.all()
        wanted = {name: _annotated(flag) for name, flag in sorted(worst.items())}
        return await self._write(nodes, wanted)

    async def clear(self, names: Sequence[str] | None) -> list[Change]:
        """Take flags off.

        :param names: of the nodes; ``None`` = all that have annotations of ours.
        :returns: one change for each of them, by name.
        :raises UnknownName: the cluster has no such node; nothing is written then.
        """
        nodes = await self.all()
        chosen = [name for name, node in nodes.items() if not node.bare] if names is None else names
        return await self._write(nodes, {name: FlaggedNode(name) for name in sorted({*chosen})})

    async def sync(
        self, held: Iterable[NodeFlag], *, known: Mapping[str, Collection[float]], now: datetime
    ) -> tuple[list[Change], list[str]]:
        """Bring annotations in line with a store: write what it holds, take off what it held once and no longer does.

        What somebody else wrote stays, where it is worse or the store holds nothing.  An end that moved is written anew
        only when half of the time to it is over, so that a finding that is renewed every minute is no write a minute.

        :param held: what the store holds, one flag a node.
        :param known: every slowdown that it ever held against each node: by these its own annotations are known.
        :param now: timezone-aware.
        :returns: one change for each node that the store has heard of, by name; names that the cluster does not have.
        """
        nodes = await self.all()
        wanted: dict[str, FlaggedNode] = {}
        by_name = {flag.node: flag for flag in held}
        for name in sorted(by_name.keys() | known.keys()):
            if (before := nodes.get(name)) is None:
                continue
            ours = before.slowdown in {_factor(slowdown) for slowdown in known.get(name, ())}
            flag = by_name.get(name)
            if flag is None:
                wanted[name] = FlaggedNode(name) if ours else before
            else:
                wanted[name] = before if _stays(before, flag, now, ours=ours) else _annotated(flag)
        return await self._write(nodes, wanted), sorted(by_name.keys() - nodes.keys())

    async def _write(self, nodes: Mapping[str, FlaggedNode], wanted: Mapping[str, FlaggedNode]) -> list[Change]:
        for name in wanted:
            if name not in nodes:
                raise UnknownName(
                    f"the cluster has no node {name!r}", fix=f"{did_you_mean(name, nodes)}name nodes of the cluster"
                )
        changes = [Change(nodes[name], after) for name, after in wanted.items()]
        writes = (self._annotate(change.after) for change in changes if change.changed)
        await asyncio.gather(*writes)
        return changes

    async def _annotate(self, node: FlaggedNode) -> None:
        annotations: Document = {SLOWDOWN: node.slowdown, SLOWDOWN_UNTIL: node.until}
        await self._api.patch(NODES, node.node, {"metadata": {"annotations": annotations}}, kind="merge-patch")


def list_flags(kubeconfig: str | None, context: str | None) -> dict[str, FlaggedNode]:
    """Every node with its annotations, by name; see :meth:`NodeFlags.all`.

    :raises ArnoldError: no cluster, or it does not answer.
    """

    async def ask() -> dict[str, FlaggedNode]:
        async with await _connect(kubeconfig, context) as api:
            return await NodeFlags(api).all()

    return asyncio.run(ask())


def apply_flags(kubeconfig: str | None, context: str | None, flags: Sequence[NodeFlag]) -> list[Change]:
    """Write flags; see :meth:`NodeFlags.apply`."""

    async def ask() -> list[Change]:
        async with await _connect(kubeconfig, context) as api:
            return await NodeFlags(api).apply(flags)

    return asyncio.run(ask())


def clear_flags(kubeconfig: str | None, context: str | None, names: Sequence[str] | None) -> list[Change]:
    """Take flags off; see :meth:`NodeFlags.clear`."""

    async def ask() -> list[Change]:
        async with await _connect(kubeconfig, context) as api:
            return await NodeFlags(api).clear(names)

    return asyncio.run(ask())


def sync_flags(
    kubeconfig: str | None,
    context: str | None,
    held: Sequence[NodeFlag],
    *,
    known: Mapping[str, Collection[float]],
    now: datetime,
) -> tuple[list[Change], list[str]]:
    """Bring annotations in line with a store; see :meth:`NodeFlags.sync`."""

    async def ask() -> tuple[list[Change], list[str]]:
        async with await _connect(kubeconfig, context) as api:
            return await NodeFlags(api).sync(held, known=known, now=now)

    return asyncio.run(ask())


async def _connect(kubeconfig: str | None, context: str | None) -> HttpApi:
    credentials = await find_cluster(kubeconfig, context=context)
    return HttpApi(credentials.configuration, flow=FlowControl(rate=500, burst=100, parallel=16))


def _read(name: str, annotations: Mapping[str, str]) -> FlaggedNode:
    flag, problem = None, ""
    try:
        flag = annotated_flag(name, annotations)
    except InvalidTopology as error:
        problem = str(error)
    return FlaggedNode(name, annotations.get(SLOWDOWN), annotations.get(SLOWDOWN_UNTIL), flag, problem)


def _annotated(flag: NodeFlag) -> FlaggedNode:
    """A flag as annotations."""
    until = None if flag.until is None else _rfc3339(flag.until)
    return FlaggedNode(flag.node, _factor(flag.slowdown), until, flag)


def _factor(slowdown: float) -> str:
    return "faulty" if slowdown == FAULTY else f"{slowdown:.12g}"


def _stays(before: FlaggedNode, flag: NodeFlag, now: datetime, *, ours: bool) -> bool:
    """Whether annotations that are there do for a flag."""
    found = before.flag
    if found is None or not found.active(now):
        return False
    if found.slowdown > flag.slowdown:
        return not ours
    if before.slowdown != _factor(flag.slowdown) or (found.until is None) != (flag.until is None):
        return False
    return found.until is None or flag.until is None or 2 * (found.until - now) >= flag.until - now >= found.until - now


def _rfc3339(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


class _Metadata(msgspec.Struct):
    name: str
    annotations: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct, rename={"token": "continue"}):
    token: str = ""


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Node] | None = None


_pages = msgspec.json.Decoder(_Page)
