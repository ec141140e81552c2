"""Workloads of high-performance computing: the Standard Workload Format, and Batsim's JSON.  Seconds on their clocks.

The Standard Workload Format of the Parallel Workloads Archive has 18 numbers a line, ``;`` before a comment.  Some logs
add fields of their own behind them, which are passed over.  -1 = unknown.  Processors stand for GPUs: those requested,
or, where that is unknown, those allocated.  Lines of states 2 to 4 are parts of a job that has a line of its own, and
are passed over.  Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP
1999; version 2.2 at www.cs.huji.ac.il/labs/parallel/workload/swf.html.

Batsim's workload is a JSON document with ``jobs`` and the ``profiles`` that say what they do.  Resources stand for
GPUs.  How long a job takes is said where its profile is a delay, or a sequence of delays; of computations, transfers
and replays it depends on the platform, which is not read: there the walltime is taken, and a note says so.  A walltime
ends a longer delay.  Source: docs/input-workload.rst of github.com/oar-team/batsim, version 5.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ground.files import ByteStream
from ground.formats import FileFormat, Marked
from ground.rows import BadRow, entries, inside, json_document
from simulator.job_record import JobRecord, Status
from simulator.traces.cells import Clock, TraceRows, is_number, number, optional, record
from simulator.traces.trace_loading import Numbered

FIELDS = 18
JOB, SUBMIT, WAIT, RUN, ALLOCATED, REQUESTED, TIME, MEMORY, STATE = 0, 1, 2, 3, 4, 7, 8, 9, 10
USER, GROUP, QUEUE = 11, 12, 14  # Places of the fields that are read, from 0

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

        def rows() -> Iterator[tuple[int, list[str]]]:
            for line, text in enumerate(source.lines(), 1):
                fields = text.split(";", 1)[0].split()
                if not fields:
                    continue
                if len(fields) > FIELDS:
                    beyond = f"Lines have more than the {FIELDS} fields of the format: those behind were not read."
                    bad_rows.note(beyond)
                if len(fields) >= FIELDS and fields[STATE] in PARTS:
                    bad_rows.note("Lines that describe a part of a job (states 2, 3 and 4) were passed over.")
                    continue
                yield line, fields

        clock = Clock(bad_rows)

        def job(fields: Sequence[str]) -> JobRecord:
            if len(fields) < FIELDS:
                few = f"the line has {len(fields)} fields, the format {FIELDS}"
                raise BadRow("cells missing", few, fix="give all fields, -1 for those that are unknown")
            requested, allocated = number(fields[REQUESTED], "field 8"), number(fields[ALLOCATED], "field 5")
            processors = requested if requested > 0 else max(allocated, 0.0)
            memory = number(fields[MEMORY], f"field {MEMORY + 1}")
            submit = clock.seconds(fields[SUBMIT], "field 2")
            if submit < 0:
                raise BadRow("not a time", f"the submit time (field 2) is {submit:g}", fix="give times from 0 up")
            if number(fields[RUN], "field 4") == -1:
                problem = f"the run time (field 4) of job {fields[JOB]} is unknown"
                raise BadRow("unknown duration", problem, fix="leave out such jobs")
            user, group, queue = ("" if fields[i] == "-1" else fields[i] for i in (USER, GROUP, QUEUE))
            return record(
                job_id=fields[JOB],
                submit=submit,
                duration=clock.length(fields[RUN], "field 4"),
                gpus=processors,
                user=user,
                group=group,
                queue=queue,
                memory=memory * processors * KILOBYTE if memory > 0 else None,
                estimate=estimate if (estimate := clock.length(fields[TIME], "field 9")) > 0 else None,
                waited=wait if (wait := clock.length(fields[WAIT], "field 3")) >= 0 else None,
                status=STATUS.get(fields[STATE], "unknown"),
            )

        yield from bad_rows.keep(rows(), job, source)


DELAYS = frozenset({"DelayProfile", "delay"})
SEQUENCES = frozenset({"SequentialCompositionProfile", "composed"})
"""Types of profiles, as Batsim 5 and earlier versions call them."""

DEEPEST = 50  # Sequences within each other: more is a circle


class Batsim(Marked):
    """Reader of Batsim workloads."""

    format = FileFormat(
        "batsim",
        source='Batsim workload, JSON: `{"jobs": [{"id": ..., "subtime": ..., "res": ..., ...}], "profiles": {...}}`',
        export="`workloads/*.json` of github.com/oar-team/batsim, or of your own generator",
        read="jobs: submission, resources as GPUs, walltime as estimate; delays and sequences of them as run time",
        left_out="how long computations, transfers and replays take on a platform: the walltime stands for it",
        marks=('"jobs"', '"subtime"', '"res"', '"profile"'),
    )
    mark = re.compile(r'(?s)\A\s*\{(?=.*"jobs")(?=.*"subtime")(?=.*"res")')

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        document, data = json_document(source)
        listed = data.get("profiles") if isinstance(data, dict) else None
        profiles: dict[str, Any] = listed if isinstance(listed, dict) else {}
        clock, by_walltime = Clock(bad_rows), 0

        def length(name: Any, depth: int = 0) -> float | None:
            """Return how long a profile takes; ``None`` = that depends on a platform."""
            profile = profiles.get(name) if isinstance(name, str) else None
            if profile is None or depth > DEEPEST:
                circle = "profiles contain each other"
                problem = f"there is no profile {str(name)[:60]!r}" if profile is None else circle
                raise BadRow("unknown profile", problem, fix="name a profile of the file")
            kind = inside(profile, "type")
            if kind in DELAYS:
                return clock.length(inside(profile, "delay"), "delay")
            if kind not in SEQUENCES:
                return None
            parts = inside(profile, "seq")
            if not isinstance(parts, list):
                raise BadRow("not a list", f"seq of the profile {name!r} is no list", fix="list names of profiles")
            seconds = [length(part, depth + 1) for part in parts]
            delays = [second for second in seconds if second is not None]
            times = optional(inside(profile, "repeat"), "repeat")
            return sum(delays) * (1 if times is None else times) if len(delays) == len(seconds) else None

        def job(entry: Any) -> JobRecord:
            nonlocal by_walltime
            job_id = str(inside(entry, "id") if inside(entry, "id") is not None else "")
            submit = clock.seconds(inside(entry, "subtime"), "subtime")
            walltime = clock.optional_length(inside(entry, "walltime"), "walltime")
            if submit < 0:
                raise BadRow("not a time", f"subtime is {submit:g}", fix="give times from 0 up")
            walltime = walltime if walltime is not None and walltime > 0 else None
            seconds = length(inside(entry, "profile"))
            if seconds is None:
                if walltime is None:
                    problem = f"job {job_id} has neither a delay nor a walltime"
                    fix = "give it a walltime, or a profile of type DelayProfile"
                    raise BadRow("unknown duration", problem, fix=fix)
                by_walltime += 1
            return record(
                job_id=job_id,
                submit=submit,
                duration=min(time for time in (seconds, walltime) if time is not None),
                gpus=number(inside(entry, "res"), "res"),
                estimate=walltime,
                status="unknown" if seconds is None else "failed" if walltime and seconds > walltime else "completed",
            )

        yield from bad_rows.keep(entries(document, data, key="jobs"), job, source)
        if by_walltime:
            bad_rows.note(
                f"{by_walltime:,} jobs compute or transfer, which takes as long as a platform makes it: "
                "their run time is their walltime."
            )
