"""What every reader of a trace format takes and returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from simulator.job_record import JobRecord
from topology.plugins import PluginGroup
from topology.tables.bad_rows import BadRows
from topology.tables.byte_stream import ByteStream

Numbered = tuple[int, JobRecord]  # A job and its line in the file, from 1


class TraceReader(Protocol):
    """Reads one format.  Registered as an entry point in the group ``arnold.trace_readers``: a class (or any callable
    without arguments) that makes an object with this face.
    """

    @property
    def name(self) -> str:
        """Name of the format, as in ``--format``."""

    @property
    def summary(self) -> str:
        """One line about the format, for people who wonder what they may give."""

    def likeness(self, head: bytes) -> float:
        """Return how much the beginning of a file looks like this format: 1 = it is, 0 = not at all.

        What lies between is for a table of which some columns are missing: when no reader says 1, the one with most
        is asked to read, to say what is wrong.

        :param head: the first bytes of the file, unpacked, about 64 thousand.
        """

    def read(self, source: ByteStream, bad_rows: BadRows) -> Iterator[Numbered]:
        """Return the jobs with their lines, in the order of the file.

        :param bad_rows: takes rows that are wrong (``bad_rows.refuse``) and notes to the user.
        :raises TraceFormatError: the file is not of this format, or damaged; or a row is wrong and reading is strict.
        """


TRACE_READERS: PluginGroup[TraceReader] = PluginGroup(
    "arnold.trace_readers", unknown="no trace format is called", where="--format"
)
"""All formats of traces that can be read."""
