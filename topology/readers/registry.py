"""Topology readers, found through the entry-point group ``arnold.topology_readers``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points

from topology.errors import InvalidInput
from topology.files import Source
from topology.plugins import make_named
from topology.readers.types import TopologyReader

GROUP = "arnold.topology_readers"

HEAD = 65_536
"""Characters of a text that readers look at to recognise their format."""


def reader_names() -> tuple[str, ...]:
    """Names of all formats that can be read, sorted."""
    return tuple(sorted({point.name for point in _points()}))


def load_reader(name: str) -> TopologyReader:
    """The reader of that name; only its own module is imported.

    :raises UnknownName: no installed package offers it.
    """
    reader: TopologyReader = make_named(name, _points(), unknown="no topology format is called", where="--format")
    return reader


def recognise(source: Source) -> TopologyReader:
    """The reader of a text, by its content.

    :raises InvalidInput: no reader, or more than one, recognises it.
    """
    readers = [load_reader(name) for name in reader_names()]
    head = source.text[:HEAD]
    fitting = [reader for reader in readers if reader.recognises(head)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = " and ".join(reader.name for reader in fitting)
        raise InvalidInput(f"looks like {names} at once", where=source.name, fix="say which with --format")
    known = "; ".join(f"{reader.name}: {reader.summary}" for reader in readers)
    raise InvalidInput("is in no format that is known", where=source.name, fix=f"give one of these ({known})")


@cache
def _points() -> EntryPoints:
    return entry_points(group=GROUP)
