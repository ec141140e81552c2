"""Queue policies on a live cluster: all but those that would have to stop jobs at any time."""

from __future__ import annotations

from scheduler.queue.policy_registry import load_policy
from scheduler.queue.types import QueuePolicy
from topology.errors import InvalidInput

_WHY_NOT = (
    "it stops jobs at any time, and on a cluster the nodes that one gives back come free one by one, minutes apart: "
    "single pods would take them before the gang for which it was stopped"
)


def live_policy(name: str) -> QueuePolicy:
    """Return the policy of that name.

    :raises UnknownName: no installed package offers it.
    :raises InvalidInput: it is for simulation alone.
    """
    policy = load_policy(name, where="--queue")
    if policy.stops_any_time:
        raise InvalidInput(
            f"the queue policy {name} is for simulation alone: {_WHY_NOT}",
            where="--queue",
            fix="choose priority-age, and let kube-scheduler preempt single pods; or arnold, which stops preemptible "
            "ones for gangs that were announced",
        )
    return policy
