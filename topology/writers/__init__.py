"""Writers of topology formats, found through the entry-point group ``arnold.topology_writers``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from topology.errors import UnknownName, did_you_mean
from topology.writers.types import Rendering, TopologyWriter

__all__ = ["Rendering", "TopologyWriter", "load_writer", "writer_names"]

GROUP = "arnold.topology_writers"


def writer_names() -> tuple[str, ...]:
    """Names of all formats that can be written, sorted."""
    return tuple(sorted(_points()))


def load_writer(name: str) -> TopologyWriter:
    """The writer of that name; only its own module is imported.

    :raises UnknownName: no installed package offers it.
    """
    found = _points()
    if name not in found:
        raise UnknownName(
            f"no topology format is written under the name {name!r}",
            where="--to",
            fix=f"{did_you_mean(name, found)}use one of {', '.join(sorted(found))}",
        )
    writer: TopologyWriter = found[name].load()()
    return writer


@cache
def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
