"""Whether the cache can be trusted: it has been filled, and the API server was heard of lately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from extender.cluster_api import Reflector

STALE_SECONDS = 60.0
"""A kind whose list and watch have failed for so long is out of date."""


class Readiness:
    """Asked by probes and before every answer.

    :param clock: steady seconds.
    """

    def __init__(self, reflectors: Sequence[Reflector[Any]], *, clock: Callable[[], float]) -> None:
        self._reflectors = tuple(reflectors)
        self._clock = clock
        self._failing_since: dict[str, float] = {}

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once."""
        return all(reflector.synced for reflector in self._reflectors)

    def reasons(self) -> list[str]:
        """Why the cache cannot be trusted, one sentence each; empty = it can."""
        found = []
        now = self._clock()
        for reflector in self._reflectors:
            name = reflector.resource.plural
            if reflector.problem is None:
                self._failing_since.pop(name, None)
                if not reflector.synced:
                    found.append(f"{name} are not listed yet")
                continue
            since = self._failing_since.setdefault(name, now)
            if not reflector.synced:
                found.append(f"{name} are not listed yet: {reflector.problem.message}")
            elif now - since >= STALE_SECONDS:
                found.append(f"{name} may be out of date: {reflector.problem.message}")
        return found
