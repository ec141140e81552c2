"""Slurm's accounting as ``sacct --parsable2`` prints it: columns between bars, with or without their header.

Without a header the columns are those that Open XDMoD asks for (:data:`XDMOD`).  Names of columns are those of
``--format``, in any spelling of small and large letters.  Steps (``123.batch``) are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from sys import intern

from ground.errors import TraceFormatError
from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow
from simulator.traces.readers.slurm_runs import NO_TIME, SlurmRun, ended, jobs_of, length, trackable
from simulator.traces.trace_clock import Clock, TraceRows
from simulator.traces.trace_loading import Numbered

COLUMNS = (
    "JobID,User,Account,Partition,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,State,NNodes,AllocTRES,JobName"
)
EXPORT = f"TZ=UTC sacct --allusers --allocations --duplicates --parsable2 --starttime 2026-01-01 --format={COLUMNS}"
_XDMOD = """
    jobid jobidraw cluster partition qos account group gid user uid submit eligible start end elapsed exitcode state
    nnodes ncpus reqcpus reqmem reqtres alloctres timelimit nodelist jobname
"""
XDMOD = tuple(_XDMOD.split())
NEEDED = (("jobid", "jobidraw"), ("submit",), ("start",), ("state",), ("elapsedraw", "elapsed", "end"), ("alloctres",))
"""One column of each group must be there."""

BAR = "|"
_PRINTED = re.compile(r"\s*\"?jobid(?:raw)?\b.*\bstate\b", re.IGNORECASE)


class Sacct:
    """Reader of ``sacct --parsable2``."""

    format = FileFormat(
        "sacct",
        source="Slurm's accounting, `sacct --parsable2`: columns between bars, `JobID|User|...|AllocTRES|JobName`",
        export=f"`{EXPORT}`",
        read="allocations: times, limit, state, user, account as group, partition; GPUs, CPUs and memory of AllocTRES",
        left_out="steps; types of GPU; jobs of MIG slices, shards, MPS; QOS, priority, dependencies; which jobs are "
        "one heterogeneous job",
        marks=("jobid", "submit", "state", "alloctres", BAR),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the first line is a header or a row of it; some where it was printed otherwise."""
        first = head.decode("utf-8-sig", errors="replace").lstrip().split("\n", 1)[0].rstrip()
        cells = first.lower().split(BAR)
        if len(cells) > 1 and ("jobid" in cells or "jobidraw" in cells):
            return 1.0
        if len(cells) == len(XDMOD) and cells[0][:1].isdigit() and cells[16].split(" ")[0].isalpha():
            return 1.0
        return 0.6 if _PRINTED.match(first) else 0.0

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        clock = Clock(bad_rows)
        rows = bad_rows.keep(_rows(source, bad_rows), lambda cells: ended(_run(cells, clock)), source)
        yield from jobs_of(rows, bad_rows, source)


def _rows(source: ByteStream, bad_rows: TraceRows) -> Iterator[tuple[int, Mapping[str, str]]]:
    names: Sequence[str] = ()
    for line, text in enumerate(source.lines(), 1):
        if not text.strip():
            continue
        cells = [cell.strip() for cell in text.rstrip("\r\n").split(BAR)]
        if not names:
            names = _header(cells, source.at(line))
            if names is not XDMOD:
                continue
        if cells[-1] == "" and len(cells) == len(names) + 1:
            cells.pop()  # --parsable ends each line with a bar
        if cells[0].lower() == names[0] and [cell.lower() for cell in cells] == list(names):
            continue  # several exports one after the other
        if len(cells) > len(names) and names[-1] == "jobname":
            cells[len(names) - 1 :] = [BAR.join(cells[len(names) - 1 :])]
        if len(cells) != len(names):
            reason = "cells missing" if len(cells) < len(names) else "too many cells"
            wrong = f"the row has {len(cells)} cells, the header {len(names)}"
            fix = "export JobName last: a name may hold a bar; a last row cut short means a truncated file"
            bad_rows.refuse(BadRow(reason, wrong, fix=fix), source.at(line))
            continue
        row = dict(zip(names, cells, strict=True))
        if "." in (row.get("jobid") or row.get("jobidraw", "")):
            bad_rows.note("Steps of jobs were passed over.")
            continue
        yield line, row


def _header(cells: Sequence[str], where: str) -> Sequence[str]:
    """Return the names of the columns in small letters."""
    names = [cell.lower() for cell in cells]
    if "jobid" not in names and "jobidraw" not in names and len(names) == len(XDMOD):
        return XDMOD
    if names[-1] == "":
        names.pop()
    if len(names) == 1:
        fix = f"export with --parsable2 and without --delimiter: {EXPORT}"
        raise TraceFormatError("is an output of sacct whose columns cannot be told apart", where=where, fix=fix)
    for group in NEEDED:
        if not any(name in names for name in group):
            what = " or ".join(name for name in COLUMNS.split(",") if name.lower() in group) or group[0]
            missing = f"the column {what} is missing"
            raise TraceFormatError(missing, where=where, fix=f"export it: {EXPORT}")
    if repeated := [name for i, name in enumerate(names) if name in names[:i]]:
        twice = f"two columns are called {repeated[0]!r}"
        raise TraceFormatError(twice, where=where, fix="ask for every column once")
    return names


def _run(cells: Mapping[str, str], clock: Clock) -> SlurmRun:
    start, end = _time(cells, "start", clock), _time(cells, "end", clock)
    elapsed = clock.optional_length(cells.get("elapsedraw"), "ElapsedRaw")
    if elapsed is None:
        elapsed = length(cells.get("elapsed", ""))
    if elapsed is None and start is not None and end is not None:
        elapsed = end - start
    minutes = cells.get("timelimitraw", "")
    nodes = cells.get("nnodes", "")
    return SlurmRun(
        job_id=cells.get("jobid") or cells["jobidraw"],
        submit=clock.seconds(cells["submit"], "Submit"),
        start=start,
        eligible=_time(cells, "eligible", clock),
        elapsed=elapsed,
        state=intern(cells["state"]),
        nodes=float(nodes) if nodes.isdecimal() else None,
        resources=trackable(cells["alloctres"]),
        requested=trackable(cells.get("reqtres", "")),
        cluster=intern(cells.get("cluster", "")),
        name=cells.get("jobname", ""),
        user=intern(cells.get("user", "")),
        account=intern(cells.get("account") or cells.get("group", "")),
        partition=intern(cells.get("partition", "")),
        limit=clock.length(minutes, "TimelimitRaw", each=60)
        if minutes.isdecimal()
        else length(cells.get("timelimit", "")),
    )


def _time(cells: Mapping[str, str], column: str, clock: Clock) -> float | None:
    text = cells.get(column, "")
    return None if text.lower() in NO_TIME else clock.seconds(text, column.capitalize())
