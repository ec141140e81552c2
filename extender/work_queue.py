"""The work queue of the controller: which gangs changed since they were last decided about."""

from __future__ import annotations

from collections.abc import Iterable

from extender.gangs import GangKey


class WorkQueue:
    """Keys of gangs whose pods, plan or nodes changed, each once.

    Deciding about a gang of a thousand pods takes milliseconds, and a cluster has thousands of changes a second when
    gangs start; so only what changed is decided about.
    """

    def __init__(self) -> None:
        self._keys: set[GangKey] = set()
        self._all = True

    def add(self, key: GangKey) -> None:
        """Note that something about a gang changed."""
        self._keys.add(key)

    def add_all(self) -> None:
        """Note that anything may have changed, as time alone does it."""
        self._all = True

    def take(self, known: Iterable[GangKey]) -> set[GangKey]:
        """Return the keys that were added since this was last called, and forget them.

        :param known: all gangs there are.
        """
        taken = self._keys.union(known) if self._all else self._keys
        self._keys, self._all = set(), False
        return taken
