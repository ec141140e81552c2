"""Writers of topology formats, found through the entry-point group ``arnold.topology_writers``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points

from topology.plugins import make_named
from topology.writers.types import Rendering, TopologyWriter

__all__ = ["Rendering", "TopologyWriter", "load_writer", "writer_names"]

GROUP = "arnold.topology_writers"


def writer_names() -> tuple[str, ...]:
    """Return names of all formats that can be written, sorted."""
    return tuple(sorted({point.name for point in _points()}))


def load_writer(name: str) -> TopologyWriter:
    """Return the writer of that name; only its own module is imported.

    :raises UnknownName: no installed package offers it.
    """
    unknown = "no topology format is written under the name"
    writer: TopologyWriter = make_named(name, _points(), unknown=unknown, where="--to")
    return writer


@cache
def _points() -> EntryPoints:
    return entry_points(group=GROUP)
