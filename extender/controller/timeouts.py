"""How long the controller waits for what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Timeouts:
    """Times of the controller."""

    # Pods that are not on their nodes by then lose them.  A gang of 1,200 takes seconds, a restarting scheduler more.
    bind: timedelta = timedelta(seconds=300)
    # A node not Ready for so long is lost to pods that do not run on it yet: longer than a kubelet's restart, shorter
    # than the 5 minutes after which Kubernetes evicts what runs there.
    lost: timedelta = timedelta(seconds=30)
    gather: timedelta = timedelta(seconds=2)  # an incomplete gang gets its GangPlan then; most are complete by then
    tell: timedelta = timedelta(seconds=30)  # pods without a gate are told of their node so often, until they are on it
