"""A cluster over time: traces, failures, reservations; the production scheduler decides (ADR 9).

``replay_trace`` is of :mod:`simulator.replay`, ``ReplaySettings`` of :mod:`simulator.replay_settings`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.replay import replay_trace
    from simulator.replay_settings import ReplaySettings

DISTRIBUTION = "arnold-scheduler"

__all__ = ["DISTRIBUTION", "ReplaySettings", "replay_trace"]

_MODULES = {"ReplaySettings": "simulator.replay_settings", "replay_trace": "simulator.replay"}


def __getattr__(name: str) -> Any:
    """Return what a program asks for, imported only then; the command line starts without it."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
