"""Which gangs something happened to since they were last thought about."""

from __future__ import annotations

from extender.gangs import GangKey
from extender.state import State


class Touched:
    """Gangs whose pods, plan or nodes changed.

    Thinking about a gang of a thousand pods takes milliseconds, and a cluster has thousands of changes a second when
    gangs start; so only what changed is thought about.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._gangs: set[GangKey] = set()
        self._everything = True

    def gang(self, key: GangKey) -> None:
        """Something about the gang changed."""
        self._gangs.add(key)

    def pod(self, uid: str) -> None:
        """A pod is about to change, or has: its gang is concerned, and the gang that its node is promised to."""
        if (member := self._state.member(uid)) is not None:
            self._gangs.add(member.key)
        pod = self._state.pod(uid)
        if pod is not None and pod.node is not None:
            self.node(pod.node)

    def node(self, name: str) -> None:
        """A node changed: the gang that it is promised to is concerned."""
        if (key := self._state.fleet.promised_to(name)) is not None:
            self._gangs.add(key)

    def everything(self) -> None:
        """Whatever may have changed, did."""
        self._everything = True

    def take(self) -> set[GangKey]:
        """The gangs that were touched since this was last asked."""
        taken = self._gangs
        if self._everything:
            taken = taken | self._state.plans.keys() | self._state.gang_keys
        self._gangs, self._everything = set(), False
        return taken
