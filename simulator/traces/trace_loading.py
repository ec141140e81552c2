"""From a path to a trace: open, recognise, rename columns, read, put in order; and what a reader of a format is.

A reader is a :class:`TraceReader`; one of a CSV file whose header names the columns only says what job a row is
(:class:`NamedColumns`).  Where columns are called otherwise, the names that others use are offered, and ``--column``
renames them.
"""

import csv
import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol

from ground.errors import InvalidInput, TraceFormatError, did_you_mean, few
from ground.files import ByteStream, CutOff, open_stream
from ground.formats import FileFormat, Format, FormatGroup, recognise
from ground.plugins import noted
from ground.records import checked
from ground.rows import BadRow, CsvRows, header_of, share
from scheduler.job import DEFAULT_ALPHA
from simulator.job_record import JobRecord
from simulator.traces.cells import MAX_DURATION, TOO_LONG, Clock, TraceRows, doubts
from simulator.traces.job_trace import JobTrace, in_order

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


TRACE_READERS: FormatGroup[TraceReader] = FormatGroup("arnold.trace_readers", kind="jobs", error=TraceFormatError)
"""All formats of traces that can be read."""


@checked
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
        reader = TRACE_READERS.load(format) if format else recognise(TRACE_READERS, source, stranger=_other_table)
        check_names(columns, reader.format.name, reader.format.marks)
        records: list[JobRecord] = []
        lines: dict[str, int] = {}  # where each id stands first
        try:
            with noted(f"reading {source.name}"):
                for line, record in reader.read(source, bad_rows):
                    try:
                        if record.duration > MAX_DURATION:
                            too_long = f"job {record.job_id} ran for {record.duration:g} seconds"
                            raise BadRow(TOO_LONG, too_long, fix=bad_rows.unit_fix)
                        if (first := lines.setdefault(record.job_id, line)) != line:
                            twice = f"job {record.job_id} is there twice (first at {source.at(first)})"
                            raise BadRow("duplicate id", twice, fix="give every job an id of its own")
                    except BadRow as bad:
                        bad_rows.refuse(bad, source.at(line))
                    else:
                        records.append(record)
        except CutOff as error:
            if not lenient:
                raise
            bad_rows.dropped["cut off"] += 1
            bad_rows.note(f"The file is cut off at {error.where}: only what stands before was read.")
    if not records:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in bad_rows.dropped.items())
        left_out = f": all rows were left out ({counts})" if counts else ""
        fix = "give a trace with at least one job of GPUs"
        raise TraceFormatError(f"holds no jobs{left_out}", where=source.name, fix=fix)
    logging.getLogger(__name__).info("%s is of the format %s: %d jobs", source.name, reader.format.name, len(records))
    if late := sum(b.submit < a.submit for a, b in pairwise(records)):
        bad_rows.note(f"The jobs were not in order of submission ({late:,} earlier than the one before): sorted.")
    nameless = [record for record in records if record.alpha is None and record.known_model is None]
    if models := Counter(str(record.model) for record in nameless if record.model):
        names = few((f"{name[:60]!r}" for name, _ in models.most_common()), most=3)
        jobs = f"{models.total():,} of {len(records):,} jobs"
        bad_rows.note(f"Models that are not known, so that alpha is the default, {DEFAULT_ALPHA}: {names} ({jobs}).")
    in_time = in_order(records)
    notes = (*bad_rows.notes, *doubts(in_time, bad_rows))
    return JobTrace(in_time, dict(bad_rows.dropped), source.name, reader.format.name, notes)


Cells = Mapping[str, str]


class NamedColumns:
    """A reader that knows its columns by name; a subclass says which there must be, and what job a row is."""

    format: ClassVar[FileFormat]
    columns: ClassVar[tuple[str, ...]]  # Those without which there is no job
    asked_to_explain: ClassVar[bool] = False
    """Whether a file with most of the columns is given to this reader, to say which is missing."""

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has."""
        there = share(header_of(head), self.columns)
        return there if there == 1 or self.asked_to_explain else 0.0

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        table = CsvRows(source, bad_rows)
        table.need(*self.columns, format=self.format.name)
        rows = ((line, dict(zip(table.header, cells, strict=True))) for line, cells in table)
        yield from bad_rows.keep(rows, partial(self.job, clock=Clock(bad_rows)), source)

    def job(self, cells: Cells, clock: Clock) -> JobRecord:
        """Return the job of a row; raise BadRow for what no job can be."""
        raise NotImplementedError


_SYNONYMS = {
    "job_id": "id jobid job job_name jobname job_number name task_id uuid",
    "submit_time": "submission_time submitted_time submitted submitted_at submittime arrival_time arrival arrive_time "
    "create_time creation_time created_at queued_at release_time timestamp time subtime",
    "duration": "run_time runtime running_time elapsed elapsed_time elapsed_raw exec_time execution_time service_time "
    "job_duration duration_s duration_sec total_time run_seconds runtime_s",
    "gpus": "num_gpu num_gpus gpu_num gpu_nums gpunum numgpus n_gpu n_gpus ngpu ngpus gpu gpu_count gpus_count gpu_cnt "
    "gpus_requested req_gpus requested_gpus gpu_request total_gpus alloc_gpus num_replicas world_size scale_factor",
    "start_time": "start started started_at begin begin_time starttime",
    "end_time": "end ended ended_at finish finish_time finished_at completion_time endtime",
}
SYNONYMS = {other: name for name, others in _SYNONYMS.items() for other in others.split()}
"""What a column is called elsewhere, in small letters -> our name of it."""

NEARLY_THE_SAME = 0.85  # Of get_close_matches: one letter of seven


def plain(column: str) -> str:
    """Return the name of a column in small letters, its words joined by underscores."""
    return "_".join(column.lower().replace("-", " ").split())


def meanings(columns: Collection[str]) -> dict[str, str]:
    """Return columns by our names for them, the first of each."""
    return {SYNONYMS.get(plain(column), plain(column)): column for column in reversed(tuple(columns))}


def offered(missing: Sequence[str], columns: Collection[str], *, by_option: bool = True) -> str:
    """Return what to do where columns are missing and others have their meaning; empty = nothing has.

    :param by_option: whether ``--column`` can rename them.

    >>> offered(["gpus"], ["job_id", "num_gpu"])
    'num_gpu is there: --column gpus=num_gpu'
    """
    meant = meanings(columns)
    there = {name: meant[name] for name in missing if name in meant}
    if not there:
        return ""
    options = " ".join(f"--column {name}={other}" for name, other in there.items())
    renames = " and ".join(f"rename {other} to {name}" for name, other in there.items())
    verb = "is" if len(there) == 1 else "are"
    return f"{' and '.join(there.values())} {verb} there: {options if by_option else renames}"


def renamed(source: ByteStream, columns: Mapping[str, str]) -> None:
    """Let a CSV file call its columns otherwise while it is read.

    :param columns: the name that a format has for a column -> what the file calls it; a column that has that name
        already, and is not meant, gets a prime behind it.
    :raises TraceFormatError: the file has no column of that name, or is no CSV.
    """
    if source.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"[", b"PAR1")):
        fix = "leave --column out, and rename keys in the file"
        raise TraceFormatError("is no CSV: it has no header to rename", where=source.name, fix=fix)
    delimiter = "|" if b"|" in source.head.partition(b"\n")[0] else ","
    header = header_of(source.head, delimiter=delimiter)
    for name, theirs in columns.items():
        if theirs not in header:
            swapped = name in header and SYNONYMS.get(plain(name)) == theirs
            meant = f"did you mean --column {theirs}={name}? " if swapped else did_you_mean(theirs, header)
            fix = f"{meant}its columns are {', '.join(header)[:300]}"
            raise TraceFormatError(f"has no column {theirs!r}", where="--column", fix=fix)
    ours = {theirs: name for name, theirs in columns.items()}
    names = [ours.get(name, f"{name}'" if name in columns else name) for name in header]

    def change(line: str) -> str:
        if not line.strip():
            return line
        row = StringIO()
        csv.writer(row, delimiter=delimiter, lineterminator="").writerow(names)
        return row.getvalue() + line[len(line.rstrip("\r\n")) :]

    source.change_first_line(change)


def check_names(columns: Mapping[str, str], format_name: str, marks: Sequence[str]) -> None:
    """Refuse a name that is nearly one of a format: the column would be renamed, and then not read.

    :param marks: names that the format has, not all of them.
    :raises TraceFormatError: there is one.
    """
    names = [mark.lower() for mark in marks]
    for name, theirs in columns.items():
        small = name.lower()
        close = get_close_matches(small, names, n=1, cutoff=NEARLY_THE_SAME)
        if small not in names and close and close[0][0] == small[0]:  # cpu_num is not gpu_num
            fix = f"did you mean --column {close[0]}={theirs}?"
            raise TraceFormatError(f"the format {format_name} has no column {name!r}", where="--column", fix=fix)


def parse_columns(pairs: Sequence[str]) -> dict[str, str]:
    """Return what ``--column NAME=THEIRS`` says, our names first.

    :raises InvalidInput: no such pair, or a name twice.
    """
    columns: dict[str, str] = {}
    for pair in pairs:
        name, equals, theirs = (part.strip() for part in pair.partition("="))
        if not (name and equals and theirs):
            fix = "write NAME=THEIRS, for example --column gpus=num_gpu"
            raise InvalidInput(f"{pair[:60]!r} is no pair of names", where="--column", fix=fix)
        if name in columns or theirs in columns.values():
            raise InvalidInput(f"{pair[:60]!r} names a column twice", where="--column", fix="keep one of the two")
        columns[name] = theirs
    return columns
