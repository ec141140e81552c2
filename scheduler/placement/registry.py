"""Placement algorithms, found through the entry-point group ``arnold.placement``."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import entry_points

from scheduler.placement.types import PlacementAlgorithm
from topology.errors import UnknownName

GROUP = "arnold.placement"


def algorithm_names() -> tuple[str, ...]:
    """Names of all installed algorithms, sorted."""
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


def load_algorithm(name: str) -> PlacementAlgorithm:
    """The algorithm of that name; only its own module is imported.

    :raises UnknownName: no installed package offers it.
    """
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        close = get_close_matches(name, found, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise UnknownName(
            f"no placement algorithm is called {name!r}",
            where="--algorithm",
            fix=f"{hint}use one of {', '.join(sorted(found))}",
        )
    algorithm: PlacementAlgorithm = found[name].load()()
    return algorithm
