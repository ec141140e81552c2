"""Placement algorithms, found through the entry-point group ``arnold.placement``."""

from __future__ import annotations

from importlib.metadata import entry_points

from scheduler.placement.types import PlacementAlgorithm
from topology.plugins import make_named

GROUP = "arnold.placement"


def algorithm_names() -> tuple[str, ...]:
    """Return the names of all installed algorithms, sorted."""
    return tuple(sorted(point.name for point in entry_points(group=GROUP)))


def load_algorithm(name: str) -> PlacementAlgorithm:
    """Load the algorithm of that name; only its own module is imported.

    :raises UnknownName: no installed package offers it.
    """
    points = entry_points(group=GROUP)
    unknown = "no placement algorithm is called"
    algorithm: PlacementAlgorithm = make_named(name, points, unknown=unknown, where="--algorithm")
    return algorithm
