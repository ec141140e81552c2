"""What is done to a whole trace before it is replayed: pure functions from traces to a trace."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from simulator.job_record import JobRecord
from simulator.traces.job_trace import JobTrace, in_order
from topology.errors import InvalidInput, TraceFormatError

WINDOW = "outside the window"
LARGER = "more GPUs than --max-gpus"


def scale_load(trace: JobTrace, factor: float) -> JobTrace:
    """Return the same jobs, ``factor`` times as dense: the time since the first submission is divided by the factor.

    How long jobs run, and how long before its submission a job is announced, stays as it is.

    :raises InvalidInput: the factor is not above 0.
    """
    if not (math.isfinite(factor) and factor > 0):
        raise InvalidInput(f"the load is scaled by {factor:g}", where="--scale-load", fix="give a factor above 0")
    origin = trace.records[0].submit if trace.records else 0.0

    def moved(record: JobRecord) -> JobRecord:
        submit = origin + (record.submit - origin) / factor
        announced = None if record.announced is None else submit - (record.submit - record.announced)
        return replace(record, submit=submit, announced=announced)

    return trace.replace(records=tuple(moved(record) for record in trace.records))


def window(trace: JobTrace, start: float, end: float) -> JobTrace:
    """Return jobs submitted in [start, end) on the trace's own clock; the others are counted as dropped.

    :raises InvalidInput: the window ends before it starts.
    :raises TraceFormatError: no job is submitted in it.
    """
    if not start < end:
        raise InvalidInput(
            f"the window begins at {start:.15g} and ends at {end:.15g}", where="--window", fix="give START before END"
        )
    kept = tuple(record for record in trace.records if start <= record.submit < end)
    if not kept:
        first, last = (trace.records[0].submit, trace.records[-1].submit) if trace.records else (0.0, 0.0)
        raise TraceFormatError(
            f"no job is submitted from {start:.15g} to {end:.15g}",
            where=trace.source,
            fix=f"choose a window that meets {first:.15g} to {last:.15g}, when the first and the last are submitted",
        )
    return trace.replace(records=kept, dropped=trace.dropping(WINDOW, len(trace) - len(kept)))


def max_gpus(trace: JobTrace, gpus: float) -> JobTrace:
    """Return jobs of at most so many GPUs; the others are counted as dropped.

    :raises InvalidInput: no number above 0.
    :raises TraceFormatError: no job is that small.
    """
    if not gpus > 0:
        raise InvalidInput(f"jobs of at most {gpus:g} GPUs are asked for", where="--max-gpus", fix="give at least 1")
    kept = tuple(record for record in trace.records if record.gpus <= gpus)
    if not kept:
        least = min((record.gpus for record in trace.records), default=0.0)
        raise TraceFormatError(
            f"no job has at most {gpus:g} GPUs", where=trace.source, fix=f"the smallest has {least:g}"
        )
    return trace.replace(records=kept, dropped=trace.dropping(LARGER, len(trace) - len(kept)))


def merge(traces: Sequence[JobTrace], *, align: bool = False) -> JobTrace:
    """Return all jobs of several traces on one clock.

    An id that several traces have is written ``id@1``, ``id@2``, ... by the number of its trace, in all of them.

    :param align: move every trace so that its first job is submitted at 0.
    :raises InvalidInput: no traces.
    """
    if not traces:
        raise InvalidInput("there are no traces to merge", where="--merge", fix="give at least one")
    owners = Counter(record.job_id for trace in traces for record in trace.records)
    taken = set(owners)
    records: list[JobRecord] = []
    for number, trace in enumerate(traces, 1):
        shift = -trace.records[0].submit if align and trace.records else 0.0
        for record in trace.records:
            job_id = record.job_id
            if owners[job_id] > 1:
                job_id = _free_name(f"{job_id}@{number}", taken)
                taken.add(job_id)
            announced = None if record.announced is None else record.announced + shift
            records.append(replace(record, job_id=job_id, submit=record.submit + shift, announced=announced))
    dropped: Counter[str] = Counter()
    for trace in traces:
        dropped.update(trace.dropped)
    return JobTrace(
        in_order(records),
        dict(dropped),
        " + ".join(trace.source for trace in traces),
        " + ".join(dict.fromkeys(trace.format for trace in traces)),
        tuple(dict.fromkeys(note for trace in traces for note in trace.notes)),
    )


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name
