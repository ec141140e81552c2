"""Who is planned first, and who may pass whom: an extension point, entry points in the group ``arnold.queue``."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import entry_points
from typing import Protocol

from scheduler.extender.gangs import GangKey
from scheduler.extender.names import ENTRY_POINTS
from topology.plugins import make_named


@dataclass(frozen=True, slots=True)
class Waiting:
    """A complete gang without nodes.

    :param created: when its oldest pod was.
    :param nodes: nodes that it needs.
    """

    key: GangKey
    priority: int
    created: datetime
    nodes: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """A gang that was asked about in this round and has no room.

    :param usable: names of the nodes that it could use if the cluster were empty; none when it would not fit even then.
    """

    waiting: Waiting
    usable: frozenset[str]


class QueuePolicy(Protocol):
    """The order of the queue, and what is kept from those behind."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def summary(self) -> str:
        """One line for people."""

    def order(self, waiting: Sequence[Waiting]) -> Sequence[Waiting]:
        """Who is asked about first, second, ..."""

    def withheld(self, candidate: Waiting, blocked: Sequence[Blocked]) -> AbstractSet[str]:
        """Nodes that a candidate must not take for the sake of those before it that are blocked."""


class PriorityAge:
    """Higher priority first, older first among equals; nobody behind a blocked gang can delay it.

    *Cannot delay*: let H be blocked and C be behind it.  H starts at the first moment at which enough of the nodes that
    it could use at all (those of its size that its pods may use and that are not faulty) are free together.  Nobody
    knows when pods end.  So whatever C takes of these nodes may be what H is missing at that moment, and what it takes
    of other nodes never is.  Hence C may be placed exactly where no node that H could use is taken.  A gang that would
    not fit even if the cluster were empty starts at no moment, so nothing delays it: it blocks nobody.
    """

    name = "priority-age"
    summary = "higher priority first, then older; a gang passes a blocked one only on nodes that one cannot use"

    def order(self, waiting: Sequence[Waiting]) -> Sequence[Waiting]:
        """By priority, age and name."""
        return sorted(waiting, key=lambda one: (-one.priority, one.created, one.key))

    def withheld(self, candidate: Waiting, blocked: Sequence[Blocked]) -> AbstractSet[str]:  # noqa: ARG002
        """All that those before it could use."""
        return frozenset[str]().union(*{one.usable for one in blocked})


def load_policy(name: str) -> QueuePolicy:
    """The policy of that name.

    :raises UnknownName: no installed package offers it.
    """
    points = entry_points(group=ENTRY_POINTS)
    policy: QueuePolicy = make_named(name, points, unknown="no queue policy is called", where="--queue")
    return policy
