"""Incidents from a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.hooks import Incident


class Scripted:
    """What happens is written down beforehand."""

    def __init__(self, incidents: Sequence[Incident]) -> None:
        self._incidents = list(incidents)
        self._next = 0

    def next(self) -> Incident | None:
        """The next of the list."""
        self._next += 1
        return self._incidents[self._next - 1] if self._next <= len(self._incidents) else None

    def state(self) -> Any:
        """How many were asked for."""
        return self._next

    def restore(self, state: Any) -> None:
        """Go on after those."""
        self._next = state
