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

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow, entries, inside, json_document
from simulator.job_record import JobRecord
from simulator.traces.cells import Clock, TraceRows, number, record, status, text
from simulator.traces.trace_loading import Cells, NamedColumns, Numbered

# -- philly --
# The Philly trace of Microsoft, 2017, as CSV: ``timestamp,duration,num_gpus,gpu_time,cluster``.
#
# Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019; as CSV
# in petuum/adaptdl.  Timestamps are dates of submission without a zone, read as UTC; ``cluster`` is the virtual
# cluster. Jobs have no id there: they are called by their place in the file, ``philly-1`` onwards.  Rows are not in
# order of time. The log as Microsoft published it is JSON (``simulator.traces.readers.philly``).


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

    def jobs(self, bad_rows: TraceRows) -> Callable[[Cells], JobRecord]:
        """Return the function from a row to its job."""
        clock, place = Clock(bad_rows), count(1)

        def job(cells: Cells) -> JobRecord:
            return record(
                job_id=f"philly-{next(place)}",
                submit=clock.seconds(cells["timestamp"], "timestamp"),
                duration=clock.length(cells["duration"], "duration"),
                gpus=number(cells["num_gpus"], "num_gpus"),
                queue=cells["cluster"],
            )

        return job


# -- philly_log --
# The Philly trace as Microsoft published it: ``cluster_job_log``, a JSON list of jobs with their attempts.
#
# Source: github.com/msr-fiddle/philly-traces.  A job is submitted at ``submitted_time`` and runs in attempts, each with
# the GPUs of each machine.  Its run time is the sum of its attempts, so that its GPU time is what it held; the analysis
# that Microsoft published counts from the first start to the last end, with the waits between.  GPUs are those of the
# last attempt that has any.  Attempts without a start or an end are passed over, and counted in a note.


_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")


class PhillyLog:
    """Reader of ``cluster_job_log``."""

    format = FileFormat(
        "philly-log",
        source='Microsoft Philly 2017 as published, JSON: `[{"status": ..., "jobid": ..., "attempts": [...]}, ...]`',
        export="`cluster_job_log` of `trace-data.tar.gz`, github.com/msr-fiddle/philly-traces",
        read="submission, attempts with their GPUs and machines, user, virtual cluster, status",
        left_out="jobs that never ran, or still ran; attempts without times, counted in a note; waits between attempts",
        marks=('"jobid"', '"attempts"', '"submitted_time"'),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether it is a list of jobs with attempts."""
        marked = all(mark.encode() in head for mark in self.format.marks)
        return float(marked and _BEGIN.match(head) is not None)

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        jobs = _LogEntries(bad_rows)
        yield from bad_rows.keep(entries(*json_document(source)), jobs.job, source)
        if jobs.without_times:
            bad_rows.note(f"{jobs.without_times:,} attempts without a start or an end were passed over.")


class _LogEntries:
    """Makes jobs of the entries of one log."""

    def __init__(self, bad_rows: TraceRows) -> None:
        self._clock = Clock(bad_rows)
        self.without_times = 0

    def job(self, entry: Any) -> JobRecord:
        """Return the job of an entry."""
        attempts = inside(entry, "attempts")
        job_id = text(entry, "jobid")
        if not attempts:
            raise BadRow("never ran", f"job {job_id} has no attempts", fix="leave out jobs that never ran")
        if not isinstance(attempts, list):
            raise BadRow("not a list", f"attempts of job {job_id} are no list", fix="give the log as it was published")
        runs = [(self._time(attempt, "start_time"), self._time(attempt, "end_time")) for attempt in attempts]
        if runs[-1][0] is not None and runs[-1][1] is None:
            raise BadRow("has not ended", f"job {job_id} has not ended", fix="leave out jobs that were still running")
        whole = [(start, end) for start, end in runs if start is not None and end is not None]
        self.without_times += len(runs) - len(whole)
        if not whole:
            raise BadRow("never ran", f"no attempt of job {job_id} has a start", fix="leave out jobs that never ran")
        held = next((gpus for attempt in reversed(attempts) if (gpus := _gpus(attempt))), [])
        submit = self._clock.seconds(inside(entry, "submitted_time"), "submitted_time")
        return record(
            job_id=job_id,
            submit=submit,
            duration=sum(end - start for start, end in whole),
            gpus=float(sum(held)),
            nodes=len(held) or None,
            user=text(entry, "user"),
            queue=text(entry, "vc"),
            status=status(inside(entry, "status")),
            waited=None if runs[0][0] is None else runs[0][0] - submit,
        )

    def _time(self, attempt: Any, key: str) -> float | None:
        value = inside(attempt, key)
        return None if value in (None, "", "None") else self._clock.seconds(value, key)


def _gpus(attempt: Any) -> list[int]:
    """Return how many GPUs an attempt had on each machine."""
    detail = inside(attempt, "detail") or []
    lists = [inside(machine, "gpus") for machine in detail] if isinstance(detail, list) else [None]
    if not all(isinstance(gpus, list) for gpus in lists):
        raise BadRow("not a list", "detail or gpus of an attempt is no list", fix="give the log as it was published")
    return [len(gpus) for gpus in lists if gpus]
