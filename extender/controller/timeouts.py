"""How long the controller waits for what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Timeouts:
    """Times of the controller.

    :param bind: a plan whose pods are not all on their nodes after so long expires.  A gang of 1,200 takes seconds; the
        default leaves room for a scheduler that is being restarted.
    :param lost: a node that is not Ready for so long is lost to pods that do not run on it yet.  Shorter than the 5
        minutes after which Kubernetes evicts what runs there, longer than a kubelet's restart.
    :param gather: an incomplete gang gets its GangPlan after so long; most are complete by then.
    :param tell: pods without a gate are told of their node so often, until they are on it.
    """

    bind: timedelta = timedelta(seconds=300)
    lost: timedelta = timedelta(seconds=30)
    gather: timedelta = timedelta(seconds=2)
    tell: timedelta = timedelta(seconds=30)
