"""Trace readers, known by the content of a file."""

from __future__ import annotations

from simulator.traces.types import TRACE_READERS, TraceReader
from topology.errors import TraceFormatError
from topology.tables.byte_stream import ByteStream

NEARLY = 0.5
"""Likeness from which a reader is asked what is wrong with a file that no reader recognises."""


def recognise(source: ByteStream) -> TraceReader:
    """Return the reader of a file, by its content.

    :raises TraceFormatError: no reader, or more than one, recognises it.
    """
    readers = [TRACE_READERS.load(name) for name in TRACE_READERS.names()]
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
