"""Readers of trace formats, and from a path to a trace: open, recognise, read, put in order."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from ground.errors import TraceFormatError
from ground.files import ByteStream, CutOff, open_stream
from ground.formats import Format, FormatGroup, recognise
from ground.plugins import noted
from ground.rows import BadRow, header_of
from scheduler.job import DEFAULT_ALPHA
from simulator.job_record import JobRecord
from simulator.traces.column_names import check_names, meanings, renamed
from simulator.traces.job_trace import JobTrace, in_order
from simulator.traces.trace_clock import TraceRows, doubts

Numbered = tuple[int, JobRecord]  # A job and its line in the file, from 1


class TraceReader(Format, Protocol):
    """Reads one format of job traces; an entry point in the group ``arnold.trace_readers``."""

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Return the jobs with their lines, in the order of the file.

        :param bad_rows: takes rows that are wrong (``bad_rows.refuse``) and notes to the user.
        :raises TraceFormatError: the file is not of this format, or damaged; or a row is wrong and reading is strict.
        """


def _other_table(head: str) -> tuple[str, str] | None:
    """Return what is wrong with a table of jobs whose cells stand apart by other marks than commas."""
    for mark, name in ((";", "semicolons"), ("\t", "tabs")):
        if "gpus" in meanings(header_of(head, delimiter=mark)):
            fix = "write it with commas between its cells, and points in its numbers"
            return f"is a table with {name} between its cells", fix
    return None


TRACE_READERS: FormatGroup[TraceReader] = FormatGroup(
    "arnold.trace_readers", kind="jobs", error=TraceFormatError, stranger=_other_table
)
"""All formats of traces that can be read."""


def read_trace(
    path: str | Path,
    *,
    format: str | None = None,
    lenient: bool = False,
    columns: Mapping[str, str] = MappingProxyType({}),
    time_format: str | None = None,
) -> JobTrace:
    """Read a trace in any known format, plain or gzip; the path ``-`` is standard input.

    :param format: name of the format; ``None`` = recognise it by content.
    :param lenient: drop rows that are wrong and count them by reason, instead of stopping at the first.
    :param columns: the name of a column in the format -> what a CSV file calls it: ``{"gpus": "num_gpu"}``.
    :param time_format: how times are written: a pattern of ``strptime``, or what the numbers of all columns of times
        count, lengths too (``milliseconds``); ``None`` = dates, and numbers of the unit of the format.
    :raises TraceFormatError: the file cannot be read, is of no known format or damaged, or a row is wrong.
    :raises InvalidInput: no such format of times.
    """
    bad_rows = TraceRows(lenient=lenient, time_format=time_format)
    with open_stream(path, error=TraceFormatError) as source:
        if columns:
            renamed(source, columns)
        reader = recognise(TRACE_READERS, source) if format is None else TRACE_READERS.load(format)
        check_names(columns, reader.format.name, reader.format.marks)
        records = list(_accepted(_kept(reader, source, bad_rows), source, bad_rows))
    if not records:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in bad_rows.dropped.items())
        left_out = f": all rows were left out ({counts})" if counts else ""
        raise TraceFormatError(
            f"holds no jobs{left_out}", where=source.name, fix="give a trace with at least one job of GPUs"
        )
    logging.getLogger(__name__).info("%s is of the format %s: %d jobs", source.name, reader.format.name, len(records))
    late = sum(b.submit < a.submit for a, b in pairwise(records))
    if late:
        bad_rows.note(f"The jobs were not in order of submission ({late:,} earlier than the one before): sorted.")
    if (sentence := _unknown_models(records)) is not None:
        bad_rows.note(sentence)
    in_time = in_order(records)
    notes = (*bad_rows.notes, *doubts(in_time, bad_rows))
    return JobTrace(in_time, dict(bad_rows.dropped), source.name, reader.format.name, notes)


def _unknown_models(records: Sequence[JobRecord]) -> str | None:
    """Return which models jobs name that give no alpha, though they say none; ``None`` = there are none."""
    named = Counter(str(one.model) for one in records if one.model and one.alpha is None and one.known_model is None)
    if not named:
        return None
    names = ", ".join(f"{name[:60]!r}" for name, _ in named.most_common(3)) + (", ..." if len(named) > 3 else "")
    jobs = f"{named.total():,} of {len(records):,} jobs"
    return f"Models that are not known, so that alpha is the default, {DEFAULT_ALPHA}: {names} ({jobs})."


def _kept(reader: TraceReader, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
    """Yield the jobs of a reader; of a file that is cut off those before the cut, where reading is lenient."""
    try:
        with noted(f"reading {source.name}"):
            yield from reader.read(source, bad_rows)
    except CutOff as error:
        if not bad_rows.lenient:
            raise
        bad_rows.dropped["cut off"] += 1
        bad_rows.note(f"The file is cut off at {error.where}: only what stands before was read.")


def _accepted(numbered: Iterable[Numbered], source: ByteStream, bad_rows: TraceRows) -> Iterator[JobRecord]:
    """Yield jobs that ran for as long as a job can, with an id that was not there before."""
    seen: dict[str, int] = {}
    for line, record in numbered:
        try:
            bad_rows.refuse_too_long(record)
        except BadRow as bad:
            bad_rows.refuse(bad, source.at(line))
            continue
        first = seen.setdefault(record.job_id, line)
        if first == line:
            yield record
            continue
        message = f"job {record.job_id} is there twice (first at {source.at(first)})"
        bad_rows.refuse(BadRow("duplicate id", message, fix="give every job an id of its own"), source.at(line))
