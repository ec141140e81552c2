"""Where a job goes: jobs, communication groups, placement algorithms and the one evaluator.

``load``, ``place`` and ``explain`` are :mod:`scheduler.library`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler.library import explain, load, place

DISTRIBUTION = "arnold-scheduler"

__all__ = ["DISTRIBUTION", "explain", "load", "place"]


def __getattr__(name: str) -> Any:
    """Return a function of the library, imported only when it is asked for; the command line starts without it."""
    if name in ("explain", "load", "place"):
        return getattr(import_module("scheduler.library"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
