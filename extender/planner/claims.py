"""What a queue policy keeps from a gang for the sake of others, in names of nodes.

A gang takes whole nodes, so a node of which anything is to be left is a node that it leaves alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from extender.cluster_cache import ClusterCache as State
from extender.queueing import Floor, Waiting
from scheduler.queue.types import Hold, Keep, QueuePolicy


@dataclass(frozen=True, slots=True)
class Blocked:
    """A gang that was asked about in this round and has no room.

    :param usable: names of the nodes that it could use if the cluster were empty; none when it would not fit even then.
    """

    waiting: Waiting
    usable: frozenset[str]


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a gang may be placed.

    :param offers: nodes that it leaves alone, one set for each attempt; the first attempt that finds room counts.
    :param ahead: gangs before it for which something is kept.
    :param passing: whether any gang may pass one that waits.
    :param emptying: its own zone will be clear when those have gone that are leaving, or may be stopped: it waits for
        that, and goes nowhere else meanwhile.
    :param reserved: the reservations whose zone is closed to it even in the last attempt, and when they arrive.
    """

    offers: tuple[frozenset[str], ...] = (frozenset(),)
    ahead: tuple[Waiting, ...] = ()
    passing: bool = True
    emptying: bool = False
    reserved: tuple[str, ...] = ()


@dataclass(slots=True)
class _Holds:
    """What is kept for those that are blocked, while neither they nor the fleet change."""

    about: tuple[object, ...] = ()
    found: Sequence[Hold] = ()


@dataclass(slots=True)
class Claims:
    """Terms during one round; what was computed for one gang serves the next."""

    policy: QueuePolicy
    _holds: _Holds = field(default_factory=_Holds)
    _names: dict[bytes, frozenset[str]] = field(default_factory=dict)
    _version: int = -1

    def terms(self, state: State, candidate: Waiting, blocked: Sequence[Blocked], now: datetime) -> Terms:
        """On which terms a candidate may be placed.

        :param blocked: those before it, in rank order, each of which fits if the cluster is empty.
        """
        policy = self.policy
        if blocked and not policy.passing:
            return Terms((frozenset(state.fleet.table.index_of),), (blocked[0].waiting,), passing=False)
        heads = blocked[: policy.claims]
        floor = Floor(state, now, {one.waiting.key: one.usable for one in heads})
        holds = self._holds_for(heads, floor, state.fleet.version)
        keeps = list(policy.offers(candidate, floor, holds))
        emptying = _is_being_emptied(state, floor, candidate)
        if emptying:
            del keeps[1:]
        offers = tuple(dict.fromkeys(self._left_alone(state, keep) for keep in keeps))
        last = keeps[-1] if keeps else floor.total
        reserved = tuple(
            f"{one.name} ({_arrival(one.arrives, floor.now)})"
            for one in floor.reservations
            if last is not None and one.name != candidate.reservation and one.zone and last[list(one.zone)].any()
        )
        return Terms(offers, tuple(one.waiting for one in heads), emptying=emptying, reserved=reserved)

    def _holds_for(self, heads: Sequence[Blocked], floor: Floor, version: int) -> Sequence[Hold]:
        if not heads:
            return ()
        about = (version, len(heads), heads[0].waiting, heads[-1].waiting)
        if self._holds.about != about:
            self._holds = _Holds(about, self.policy.holds([one.waiting for one in heads], floor))
        return self._holds.found

    def _left_alone(self, state: State, keep: Keep) -> frozenset[str]:
        """Names of the nodes of which something is kept."""
        if keep is None:
            return frozenset()
        if self._version != state.fleet.version:
            self._version = state.fleet.version
            self._names.clear()
        mask = keep > 0
        known = np.packbits(mask).tobytes()
        if known not in self._names:
            hosts = state.fleet.table.hosts
            self._names[known] = frozenset(hosts[i].name for i in np.flatnonzero(mask))
        return self._names[known]


def _is_being_emptied(state: State, floor: Floor, candidate: Waiting) -> bool:
    """Whether those that are left in a candidate's own zone all go away for it.

    In the simulator they do so in no time.  Here pods take theirs, one by one, and the first free nodes elsewhere would
    be as good to the policy as a zone that is nearly clear.
    """
    own = next((one for one in floor.reservations if candidate.reservation and one.name == candidate.reservation), None)
    if own is None:
        return False
    hosts, zone = state.fleet.table.hosts, set(own.zone)
    if sum(not hosts[row].fault for row in zone) < candidate.nodes:
        return False
    there = [one for one in floor.running if not zone.isdisjoint(one.places)]
    return bool(there) and all(one.preemptible or one.leaving for one in there)


def _arrival(arrives: float, now: float) -> str:
    return "due now" if arrives <= now else f"arrives {datetime.fromtimestamp(arrives, UTC):%Y-%m-%dT%H:%M:%SZ}"
