"""When to do things again, and how long to wait for what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Literal

from extender.cluster_api.flow import Backoff

if TYPE_CHECKING:  # the options of the extender are read from here: its help waits for no numpy
    from extender.gangs.types import Gang, GangKey

Preemption = Literal["off", "advise", "on"]
"""Whether gangs take the nodes of others of lower priority, or are only told whose they could."""

PAUSE = 0.05  # seconds between two decisions at the least, so that a burst of changes is looked at once
SHARE = 0.5  # part of its time that the event loop thinks at the most, but for
LONGEST_PAUSE = 0.25  # seconds of a pause at the most: what comes meanwhile would hear nothing
GANG_SHARE = 0.01  # part of the time that is spent on one gang, whose pods come and are bound one by one, but for
LONGEST_REST = 1.0  # seconds for which news of a gang wait at the most
SLICE = 0.005  # seconds of thinking after which requests are let in
QUIET = 2.0  # seconds between two writes about a gang that only tell people more
REMIND = 30.0  # seconds after which a gang that waits is told newer numbers: they change for a whole queue
LOOK = 1.0  # seconds between two looks at the gangs that could be told when they start
RETHINK = 30.0  # seconds after which all gangs are thought about again: time changes some things by itself
IDLE = 4.0  # a round of planning that found nothing is followed by a pause so many times as long
LONGEST_IDLE = 5.0  # seconds of that pause at the most
AGAIN = 0.2  # seconds after which a question is asked again when its answer came to nothing
RETRY = 0.2, 30.0  # seconds for which a gang is left alone after a first failure, and at the most after many


def pause_after(seconds: float) -> float:
    """Return the seconds between two decisions of which the first took so long."""
    return min(max(PAUSE, seconds / SHARE), LONGEST_PAUSE)


@dataclass(slots=True)
class GangPace:
    """When one gang is worth another look, a write that only tells people more, and another try; by the steady clock.

    Putting together a gang of a thousand pods takes milliseconds, and each of its pods comes, is released and is bound:
    a look at every change would take longer than all else.
    """

    written: float = 0.0  # when something was last done about it
    rest: float = 0.0  # until when news of it wait
    gathered: bool = False  # whether pods of it were missing at the last look
    # after failures: soon at first, then after twice the time with each further one
    retry: Backoff = field(default_factory=lambda: Backoff(first=RETRY[0], longest=RETRY[1]))

    def looked(self, seconds: float, *, gathering: bool) -> None:
        """Note that it was looked at just now, what that took, and whether pods of it were missing."""
        self.rest, self.gathered = monotonic() + min(seconds / GANG_SHARE, LONGEST_REST), gathering

    def due(self, *, gathering: bool) -> float:
        """Return when to look at it after a change: at once when the last pod has come."""
        return self.rest if gathering == self.gathered else 0.0


@dataclass(frozen=True, slots=True)
class PlanningPass:
    """The last round of planning, whole or a glance at the head of the queue, and when another makes sense."""

    unplaced: Mapping[GangKey, Gang | None] = field(default_factory=dict)  # the gangs that wanted nodes, as they were
    version: int = -1  # version of the fleet
    ended: float = float("-inf")  # time of its end on the steady clock
    patience: float = 0.0  # seconds until the next one if anything has changed

    def due(self, unplaced: Mapping[GangKey, Gang | None], version: int) -> float:
        """Return when to start the next pass, on the steady clock."""
        same = self.version == version and self.unplaced.keys() == unplaced.keys()
        if same and all(self.unplaced[key] is gang for key, gang in unplaced.items()):
            return self.ended + RETHINK
        return self.ended + self.patience

    @classmethod
    def after(
        cls, unplaced: Mapping[GangKey, Gang | None], version: int, *, started: float, placed: bool, again: bool
    ) -> PlanningPass:
        """Return the pass that ends now: some gang found nodes, or has to be asked about again whatever changes."""
        ended = monotonic()
        if again:
            return cls(ended=ended, patience=AGAIN)
        return cls(unplaced, version, ended, 0.0 if placed else min(LONGEST_IDLE, IDLE * (ended - started)))


@dataclass(frozen=True)
class Timeouts:
    """Times of the controller."""

    # Pods that are not on their nodes by then lose them.  A gang of 1,200 takes seconds, a restarting scheduler more.
    bind: timedelta = timedelta(seconds=300)
    # A node not Ready for so long is lost to pods that do not run on it yet: longer than a kubelet's restart, shorter
    # than the 5 minutes after which Kubernetes evicts what runs there.
    lost: timedelta = timedelta(seconds=30)
    gather: timedelta = timedelta(seconds=2)  # an incomplete gang gets its GangPlan then; most are complete by then
    # Pods without a gate are told of their node so often until they are on it; released ones if tried in vain.
    tell: timedelta = timedelta(seconds=30)
    # A gang that kube-scheduler refuses again and again rests so long at most.
    rest_most: timedelta = timedelta(hours=1)

    def rest(self, expiries: int) -> timedelta:
        """Return how long a gang rests that was refused so often: its time to bind at first, then twice as long."""
        return min(self.bind * (1 << min(expiries - 1, 20)), max(self.rest_most, self.bind))
