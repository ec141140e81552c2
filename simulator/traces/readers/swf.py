"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, ``;`` before a comment.

Some logs add fields of their own behind them, which are passed over.

Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999; version 2.2
at www.cs.huji.ac.il/labs/parallel/workload/swf.html.  -1 = unknown.  Processors stand for GPUs: those requested, or,
where that is unknown, those allocated.  Seconds on the log's own clock.  Lines of states 2 to 4 are parts of a job that
has a line of its own, and are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow
from simulator.job_record import JobRecord, Status
from simulator.traces.job_fields import number, record
from simulator.traces.trace_clock import Clock, TraceRows, is_number
from simulator.traces.trace_loading import Numbered

FIELDS = 18
JOB, SUBMIT, WAIT, RUN, ALLOCATED, REQUESTED, TIME, MEMORY, STATE = 0, 1, 2, 3, 4, 7, 8, 9, 10
USER, GROUP, QUEUE = 11, 12, 14
"""Places of the fields that are read, from 0."""

STATUS: dict[str, Status] = {"0": "failed", "1": "completed", "5": "cancelled"}
PARTS = frozenset({"2", "3", "4"})
KILOBYTE = 1024


class Swf:
    """Reader of the Standard Workload Format."""

    format = FileFormat(
        "swf",
        source="Standard Workload Format 2.2: 18 numbers a line, comments after `;`",
        export="logs of the Parallel Workloads Archive, www.cs.huji.ac.il/labs/parallel/workload",
        read="fields 1 to 5, 8 to 13 and 15: submission, wait, run time, processors as GPUs, memory, estimate, user",
        left_out="that processors are no GPUs; parts of jobs (states 2 to 4); fields behind the 18th",
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the first line that is no comment holds 18 numbers or more."""
        lines = head.decode("utf-8", errors="replace").splitlines()
        first = next((line.split() for line in lines if line.strip() and not line.lstrip().startswith(";")), [])
        if not first or not all(is_number(field) for field in first[:FIELDS]):
            return 0.0
        return 1.0 if len(first) >= FIELDS else 0.6 * (len(first) > 4 and head.lstrip().startswith(b";"))

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        clock = Clock(bad_rows)
        yield from bad_rows.keep(_rows(source, bad_rows), lambda fields: _job(fields, clock), source)


def _rows(source: ByteStream, bad_rows: TraceRows) -> Iterator[tuple[int, list[str]]]:
    for line, text in enumerate(source.lines(), 1):
        fields = text.split(";", 1)[0].split()
        if not fields:
            continue
        if len(fields) > FIELDS:
            bad_rows.note(f"Lines have more than the {FIELDS} fields of the format: those behind were not read.")
        if len(fields) >= FIELDS and fields[STATE] in PARTS:
            bad_rows.note("Lines that describe a part of a job (states 2, 3 and 4) were passed over.")
            continue
        yield line, fields


def _job(fields: Sequence[str], clock: Clock) -> JobRecord:
    if len(fields) < FIELDS:
        few = f"the line has {len(fields)} fields, the format {FIELDS}"
        raise BadRow("cells missing", few, fix="give all fields, -1 for those that are unknown")
    requested, allocated = number(fields[REQUESTED], "field 8"), number(fields[ALLOCATED], "field 5")
    processors = requested if requested > 0 else max(allocated, 0.0)
    memory = _known(fields, MEMORY)
    submit = clock.seconds(fields[SUBMIT], "field 2")
    if submit < 0:
        raise BadRow("not a time", f"the submit time (field 2) is {submit:g}", fix="give times from 0 up")
    if number(fields[RUN], "field 4") == -1:
        raise BadRow(
            "unknown duration", f"the run time (field 4) of job {fields[JOB]} is unknown", fix="leave out such jobs"
        )
    return record(
        job_id=fields[JOB],
        submit=submit,
        duration=clock.length(fields[RUN], "field 4"),
        gpus=processors,
        user=_name(fields[USER]),
        group=_name(fields[GROUP]),
        queue=_name(fields[QUEUE]),
        memory=None if memory is None else memory * processors * KILOBYTE,
        estimate=estimate if (estimate := clock.length(fields[TIME], "field 9")) > 0 else None,
        waited=wait if (wait := clock.length(fields[WAIT], "field 3")) >= 0 else None,
        status=STATUS.get(fields[STATE], "unknown"),
    )


def _known(fields: Sequence[str], place: int) -> float | None:
    value = number(fields[place], f"field {place + 1}")
    return value if value > 0 else None


def _name(field: str) -> str:
    return "" if field == "-1" else field
