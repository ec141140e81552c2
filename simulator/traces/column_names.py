"""What columns of a trace are called elsewhere: names that are offered where ours is missing, and ``--column``."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from io import StringIO

from ground.errors import InvalidInput, TraceFormatError, did_you_mean
from ground.files import ByteStream
from ground.rows import header_of

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
    return {SYNONYMS.get(plain(one), plain(one)): one for one in reversed(tuple(columns))}


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
    known = [mark.lower() for mark in marks]
    for name, theirs in columns.items():
        small = name.lower()
        close = get_close_matches(small, known, n=1, cutoff=NEARLY_THE_SAME)
        if small not in known and close and close[0][0] == small[0]:  # cpu_num is not gpu_num
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
