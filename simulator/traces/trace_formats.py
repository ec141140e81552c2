"""Trace readers, found through the entry-point group ``arnold.trace_readers``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points

from simulator.traces.types import TraceReader
from topology.errors import TraceFormatError
from topology.plugins import make_named
from topology.tables.byte_stream import ByteStream

GROUP = "arnold.trace_readers"

NEARLY = 0.5
"""Likeness from which a reader is asked what is wrong with a file that no reader recognises."""


def reader_names() -> tuple[str, ...]:
    """Names of all formats that can be read, sorted."""
    return tuple(sorted({point.name for point in _points()}))


def load_reader(name: str) -> TraceReader:
    """The reader of that name; only its own module is imported.

    :raises UnknownName: no installed package offers it.
    """
    reader: TraceReader = make_named(name, _points(), unknown="no trace format is called", where="--format")
    return reader


def recognise(source: ByteStream) -> TraceReader:
    """The reader of a file, by its content.

    :raises TraceFormatError: no reader, or more than one, recognises it.
    """
    readers = [load_reader(name) for name in reader_names()]
    likeness = [reader.likeness(source.head) for reader in readers]
    best = max(likeness, default=0.0)
    fitting = [reader for reader, like in zip(readers, likeness, strict=True) if like == best]
    if best >= NEARLY and len(fitting) == 1:
        return fitting[0]
    if best == 1.0:
        names = " and ".join(reader.name for reader in fitting)
        raise TraceFormatError(f"looks like {names} at once", where=source.name, fix="say which with --format")
    known = "; ".join(f"{reader.name}: {reader.summary}" for reader in readers)
    raise TraceFormatError("is in no format that is known", where=source.name, fix=f"give one of these ({known})")


@cache
def _points() -> EntryPoints:
    return entry_points(group=GROUP)
