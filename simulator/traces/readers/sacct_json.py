"""Slurm's accounting as ``sacct --json`` prints it, by the schemes of Slurm 21.08 to 25.05 (data_parser).

``time`` holds seconds since 1970 and the limit in minutes, ``tres.allocated`` a list of resources with memory in
megabytes, ``state.current`` a word or a list of words.  A number may be an object ``{set, infinite, number}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ground.errors import TraceFormatError
from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow, entries, inside, json_document
from simulator.traces.job_fields import number, optional, text
from simulator.traces.readers.slurm_runs import MEGABYTE, SlurmRun, ended, jobs_of
from simulator.traces.trace_clock import Clock, TraceRows
from simulator.traces.trace_loading import Numbered

NO_VALUES = frozenset({2.0**32 - 2, 2.0**32 - 1, 2.0**64})
"""NO_VAL and INFINITE of slurm.h, of 32 bits and (as floats have them) of 64: may stand where no object says it."""
TIMES = ("submission", "eligible", "start", "end", "elapsed", "limit")
"""Keys of ``time``; the limit counts minutes."""

_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


class SacctJson:
    """Reader of ``sacct --json``."""

    format = FileFormat(
        "sacct-json",
        source='Slurm\'s accounting, `sacct --json`: `{"jobs": [{"job_id": ..., "time": ..., "tres": ...}, ...], ...}`',
        export="`sacct --allusers --allocations --duplicates --json --starttime 2026-01-01`",
        read="as `sacct`",
        left_out="as `sacct`",
        marks=('"jobs"', '"job_id"', '"submission"', '"tres"'),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the document is an object with jobs that have a time of submission."""
        marked = b'"jobs"' in head and b'"job_id"' in head and b'"submission"' in head
        return float(marked and _BEGIN.match(head) is not None)

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        document, data = json_document(source)
        failed = data.get("errors") if isinstance(data, dict) else None
        if failed and not data.get("jobs"):
            said = f"Slurm could not list its jobs: {str(failed)[:200]}"
            raise TraceFormatError(said, where=source.name, fix="ask Slurm again when it answers without errors")
        clock = Clock(bad_rows)
        rows = bad_rows.keep(entries(document, data, key="jobs"), lambda job: ended(_run(job, clock)), source)
        yield from jobs_of(rows, bad_rows, source)


def _run(job: Any, clock: Clock) -> SlurmRun:
    state = inside(job, "state", "current")
    times = {key: _number(inside(job, "time", key), f"time.{key}") for key in TIMES}
    words = [str(word) for word in state] if isinstance(state, list) else [str(state or "")]
    return SlurmRun(
        job_id=_job_id(job),
        submit=clock.seconds(times["submission"], "time.submission"),
        # 0 stands for a moment that has not come
        start=clock.optional(times["start"] or None, "time.start"),
        eligible=clock.optional(times["eligible"] or None, "time.eligible"),
        elapsed=clock.optional_length(times["elapsed"], "time.elapsed") if times["end"] else None,
        state=words[0] if words else "",
        nodes=_number(inside(job, "allocation_nodes"), "allocation_nodes"),
        resources=_resources(job, "allocated"),
        requested=_resources(job, "requested"),
        cluster=text(job, "cluster"),
        name=text(job, "name"),
        user=text(job, "user") or _text(inside(job, "association", "user")),
        account=text(job, "account"),
        partition=text(job, "partition"),
        limit=clock.optional_length(times["limit"], "time.limit", each=60),
    )


def _job_id(job: Any) -> str:
    array, task = inside(job, "array", "job_id"), _number(inside(job, "array", "task_id"), "array.task_id")
    whole = _number(inside(job, "job_id"), "job_id")
    if array and task is not None:
        return f"{_text(array)}_{task:.0f}"
    return "" if whole is None else f"{whole:.0f}"


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _resources(job: Any, which: str) -> dict[str, float]:
    listed = inside(job, "tres", which)
    if listed is not None and not isinstance(listed, list):
        raise BadRow("not resources", f"tres.{which} is no list", fix="give the output of sacct --json as it is")
    found: dict[str, float] = {}
    for one in listed or ():
        kind, name = _text(inside(one, "type")).lower(), _text(inside(one, "name"))
        count = number(inside(one, "count"), f"tres.{which}.count")
        found[f"{kind}/{name}" if name else kind] = count * (MEGABYTE if kind == "mem" else 1)
    return found


def _number(value: Any, column: str) -> float | None:
    """Return a number that may be an object; ``None`` = it is not set, or infinite."""
    if isinstance(value, dict):
        if value.get("infinite") or value.get("set") is False:
            return None
        value = value.get("number")
    found = optional(value, column)
    return None if found in NO_VALUES else found
