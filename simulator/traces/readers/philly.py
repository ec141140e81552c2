"""The Philly trace of Microsoft, 2017: as CSV, ``timestamp,duration,num_gpus,gpu_time,cluster``, and as published.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019.

The CSV is that of petuum/adaptdl.  Timestamps are dates of submission without a zone, read as UTC; ``cluster`` is the
virtual cluster.  Jobs have no id there: they are called by their place in the file, ``philly-1`` onwards.  Rows are not
in order of time.

Published was ``cluster_job_log`` (github.com/msr-fiddle/philly-traces), a JSON list of jobs with their attempts.  A job
is submitted at ``submitted_time`` and runs in attempts, each with the GPUs of each machine.  Its run time is the sum of
its attempts, so that its GPU time is what it held; the analysis that Microsoft published counts from the first start to
the last end, with the waits between.  GPUs are those of the last attempt that has any.  Attempts without a start or an
end are passed over, and counted in a note.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from ground.files import ByteStream
from ground.formats import FileFormat, Marked
from ground.rows import BadRow, entries, inside, json_document
from simulator.job_record import JobRecord
from simulator.traces.cells import Clock, TraceRows, number, record, status, text
from simulator.traces.trace_loading import Cells, NamedColumns, Numbered


class Philly(NamedColumns):
    """Reader of the Philly trace."""

    columns = ("timestamp", "duration", "num_gpus", "cluster")
    format = FileFormat(
        "philly",
        source="Microsoft Philly 2017 as CSV (ATC 2019): `timestamp,duration,num_gpus,gpu_time,cluster`",
        export="`philly.csv` of github.com/petuum/adaptdl or of Sia, github.com/siasosp23/artifacts",
        read="submission, run time, GPUs, virtual cluster",
        left_out="27 % of the jobs and 49 % of the GPU time of Philly are not in that file",
        marks=columns,
    )
    asked_to_explain = True

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        self._places = count(1)
        return super().read(source, bad_rows)

    def job(self, cells: Cells, clock: Clock) -> JobRecord:
        """Return the job of a row."""
        return record(
            job_id=f"philly-{next(self._places)}",
            submit=clock.seconds(cells["timestamp"], "timestamp"),
            duration=clock.length(cells["duration"], "duration"),
            gpus=number(cells["num_gpus"], "num_gpus"),
            queue=cells["cluster"],
        )


class PhillyLog(Marked):
    """Reader of ``cluster_job_log``."""

    format = FileFormat(
        "philly-log",
        source='Microsoft Philly 2017 as published, JSON: `[{"status": ..., "jobid": ..., "attempts": [...]}, ...]`',
        export="`cluster_job_log` of `trace-data.tar.gz`, github.com/msr-fiddle/philly-traces",
        read="submission, attempts with their GPUs and machines, user, virtual cluster, status",
        left_out="jobs that never ran, or still ran; attempts without times, counted in a note; waits between attempts",
        marks=('"jobid"', '"attempts"', '"submitted_time"'),
    )
    mark = re.compile(r'(?s)\A\s*\[\s*\{(?=.*"jobid")(?=.*"attempts")(?=.*"submitted_time")')

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        clock, without_times = Clock(bad_rows), 0

        def moment(attempt: Any, key: str) -> float | None:
            value = inside(attempt, key)
            return None if value in (None, "", "None") else clock.seconds(value, key)

        def job(entry: Any) -> JobRecord:
            nonlocal without_times
            attempts, job_id = inside(entry, "attempts"), text(entry, "jobid")
            as_published = "give the log as it was published"
            if not attempts:
                raise BadRow("never ran", f"job {job_id} has no attempts", fix="leave out jobs that never ran")
            if not isinstance(attempts, list):
                raise BadRow("not a list", f"attempts of job {job_id} are no list", fix=as_published)
            times = [(moment(attempt, "start_time"), moment(attempt, "end_time")) for attempt in attempts]
            if times[-1][0] is not None and times[-1][1] is None:
                fix = "leave out jobs that were still running"
                raise BadRow("has not ended", f"job {job_id} has not ended", fix=fix)
            runs = [(start, end) for start, end in times if start is not None and end is not None]
            without_times += len(times) - len(runs)
            if not runs:
                problem = f"no attempt of job {job_id} has a start"
                raise BadRow("never ran", problem, fix="leave out jobs that never ran")
            held: list[int] = []  # GPUs on each machine
            for attempt in reversed(attempts):
                detail = inside(attempt, "detail") or []
                lists = [inside(machine, "gpus") for machine in detail] if isinstance(detail, list) else [None]
                if not all(isinstance(gpus, list) for gpus in lists):
                    raise BadRow("not a list", "detail or gpus of an attempt is no list", fix=as_published)
                if held := [len(gpus) for gpus in lists if gpus]:
                    break
            submit = clock.seconds(inside(entry, "submitted_time"), "submitted_time")
            return record(
                job_id=job_id,
                submit=submit,
                duration=sum(end - start for start, end in runs),
                gpus=float(sum(held)),
                nodes=len(held) or None,
                user=text(entry, "user"),
                queue=text(entry, "vc"),
                status=status(inside(entry, "status")),
                waited=None if times[0][0] is None else times[0][0] - submit,
            )

        yield from bad_rows.keep(entries(*json_document(source)), job, source)
        if without_times:
            bad_rows.note(f"{without_times:,} attempts without a start or an end were passed over.")
