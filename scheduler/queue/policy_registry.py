"""Queue policies, found through the entry-point group ``arnold.queue``."""

from __future__ import annotations

from importlib.metadata import entry_points

from scheduler.queue.types import QueuePolicy
from topology.plugins import make_named

GROUP = "arnold.queue"


def policy_names() -> tuple[str, ...]:
    """Names of all installed policies, sorted."""
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


def load_policy(name: str, *, where: str = "--policy") -> QueuePolicy:
    """The policy of that name; only its own module is imported.

    :param where: the option that the name came from.
    :raises UnknownName: no installed package offers it.
    """
    policy: QueuePolicy = make_named(name, entry_points(group=GROUP), unknown="no queue policy is called", where=where)
    return policy
