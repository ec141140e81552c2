"""Nodes and pods as a cluster: what is free, promised, flagged, faulty; updated object by object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.extender.gangs import GangKey
from scheduler.extender.objects import Node, Pod


@dataclass(frozen=True, slots=True)
class Problem:
    """Something about the nodes that an operator should mend; the process goes on.

    :param reason: one word, CamelCase.
    :param node: the node it is about; empty = the whole fleet.
    """

    reason: str
    message: str
    fix: str
    node: str = ""


class Fleet:
    """The nodes as last seen.

    :param levels: node labels from broad to close; ``None`` = those of the preset that most nodes carry.
    """

    def __init__(self, levels: Sequence[str] | None = None) -> None:
        raise NotImplementedError

    def put_node(self, node: Node) -> None:
        """A node appeared or changed."""
        raise NotImplementedError

    def drop_node(self, name: str) -> None:
        """A node is gone."""
        raise NotImplementedError

    def put_pod(self, pod: Pod) -> None:
        """A pod appeared or changed."""
        raise NotImplementedError

    def drop_pod(self, uid: str) -> None:
        """A pod is gone."""
        raise NotImplementedError

    def promise(self, key: GangKey, nodes: Iterable[str]) -> None:
        """Nodes are promised to a gang: all of them, and no others."""
        raise NotImplementedError

    def lost(self, name: str, now: datetime) -> str:
        """Why a pod bound or promised to a node cannot run there: gone, not Ready, faulty; empty = it can."""
        raise NotImplementedError

    def lost_since(self, name: str) -> datetime | None:
        """Since when the node has not been Ready; ``None`` = it is Ready, or is gone."""
        raise NotImplementedError

    @property
    def levels(self) -> tuple[str, ...]:
        """Labels that are the levels, from broad to close."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What an operator should mend."""
        raise NotImplementedError
