"""JobTrace: the jobs of a file in order of submission; and what is done to them before they are replayed.

A trace is made denser, cut to a window or to smaller jobs, merged with others, or resampled; each is a pure function.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Self

import numpy as np

from ground.errors import InvalidInput, TraceFormatError
from simulator.job_record import JobRecord

YEAR_2000 = 946_684_800.0  # Seconds since 1970 at the beginning of the year 2000, UTC


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Jobs in order of submission; of those submitted at one instant, in order of the file."""

    records: tuple[JobRecord, ...]  # the jobs, ids unique
    # how many rows were left out, by reason; empty where reading was strict
    dropped: Mapping[str, int] = field(default_factory=dict)
    source: str = ""  # where it came from, as errors call it: a path, stdin
    format: str = ""  # name of the format it was read from
    notes: tuple[str, ...] = ()  # what a user should know, one sentence each

    def __len__(self) -> int:
        return len(self.records)

    @property
    def epoch(self) -> float | None:
        """Seconds since 1970 UTC at second 0 of its clock: 0 where times are dates; ``None`` = it has none.

        Dates are read as seconds since 1970; a clock that began with the trace would have run for 30 years.
        """
        return 0.0 if self.records and self.records[0].submit >= YEAR_2000 else None

    def without(self, reasons: Mapping[str, str]) -> Self:
        """Return the trace without some jobs: their ids, with the reasons by which they are counted."""
        kept = tuple(record for record in self.records if record.job_id not in reasons)
        return replace(self, records=kept, dropped=dict(Counter(self.dropped) + Counter(reasons.values())))


def in_order(records: Iterable[JobRecord]) -> tuple[JobRecord, ...]:
    """Return records by (submit, place in the given order)."""
    return tuple(sorted(records, key=attrgetter("submit")))


# Reasons by which jobs that are left out are counted
WINDOW = "outside the window"
LARGER = "more GPUs than --max-gpus"
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AFTER_FIRST = re.compile(r"\+([0-9.]+)([smhdw]?)")
_WINDOW_FIX = (
    "give START..END (or START:END without times of day); each a number or date on the clock of the trace, "
    "or +2d after the first submission, or nothing"
)


def scale_load(trace: JobTrace, factor: float) -> JobTrace:
    """Return the same jobs, ``factor`` times as dense: the time since the first submission is divided by the factor.

    How long jobs run, and how long before its submission a job is announced, stays as it is.
    """
    if not (math.isfinite(factor) and factor > 0):
        raise InvalidInput(f"the load is scaled by {factor:g}", where="--scale-load", fix="give a factor above 0")
    origin = trace.records[0].submit if trace.records else 0.0

    def moved(record: JobRecord) -> JobRecord:
        submit = origin + (record.submit - origin) / factor
        announced = None if record.announced is None else submit - (record.submit - record.announced)
        return replace(record, submit=submit, announced=announced)

    return replace(trace, records=tuple(moved(record) for record in trace.records))


def window(trace: JobTrace, start: float, end: float) -> JobTrace:
    """Return jobs submitted in [start, end) on the trace's own clock; the others are counted as dropped.

    :raises InvalidInput: the window ends before it starts.
    :raises TraceFormatError: no job is submitted in it.
    """
    if not start < end:
        fix = "give START before END"
        raise InvalidInput(f"the window begins at {start:.15g} and ends at {end:.15g}", where="--window", fix=fix)
    kept = trace.without({record.job_id: WINDOW for record in trace.records if not start <= record.submit < end})
    if not len(kept):
        first, last = (trace.records[0].submit, trace.records[-1].submit) if trace.records else (0.0, 0.0)
        fix = f"choose a window that meets {first:.15g} to {last:.15g}, when the first and the last are submitted"
        raise TraceFormatError(f"no job is submitted from {start:.15g} to {end:.15g}", where=trace.source, fix=fix)
    return kept


def parse_window(text: str, trace: JobTrace) -> tuple[float, float]:
    """Return beginning and end of ``START..END`` on the clock of the trace; either may be left out.

    ``START:END`` is understood where there is one colon, which then belongs to no time of day.

    >>> parse_window("+1d..+8d", trace)  # doctest: +SKIP
    (86400.0, 691200.0)

    :raises InvalidInput: not two moments.
    """
    between = ".." if ".." in text or text.count(":") != 1 else ":"
    start, separator, end = text.partition(between)
    if not separator:
        raise InvalidInput(f"the window is {text!r}", where="--window", fix=_WINDOW_FIX)
    return moment(start, trace) if start.strip() else -math.inf, moment(end, trace) if end.strip() else math.inf


def moment(text: str, trace: JobTrace) -> float:
    """Return a moment on the clock of the trace: a number, a date (UTC without a zone), or ``+`` after the first job.

    :raises InvalidInput: none of these.
    """
    text = text.strip()
    try:
        if after := _AFTER_FIRST.fullmatch(text):
            return trace.records[0].submit + float(after[1]) * _SECONDS[after[2]]
        if re.fullmatch(r"-?[0-9.]+(?:e[0-9]+)?", text):
            return float(text)
        date = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text[:60]!r} is no moment of a trace", where="--window", fix=_WINDOW_FIX) from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def max_gpus(trace: JobTrace, gpus: float) -> JobTrace:
    """Return jobs of at most so many GPUs; the others are counted as dropped.

    :raises InvalidInput: no number above 0.
    :raises TraceFormatError: no job is that small.
    """
    if not gpus > 0:
        raise InvalidInput(f"jobs of at most {gpus:g} GPUs are asked for", where="--max-gpus", fix="give at least 1")
    kept = trace.without({record.job_id: LARGER for record in trace.records if record.gpus > gpus})
    if not len(kept):
        least = min((record.gpus for record in trace.records), default=0.0)
        fix = f"the smallest has {least:g}"
        raise TraceFormatError(f"no job has at most {gpus:g} GPUs", where=trace.source, fix=fix)
    return kept


def merge(traces: Sequence[JobTrace]) -> JobTrace:
    """Return all jobs of several traces on one clock.

    An id that several traces have is written ``id@1``, ``id@2``, ... by the number of its trace, in all of them.

    :raises InvalidInput: no traces.
    """
    if not traces:
        raise InvalidInput("there are no traces to merge", where="--merge", fix="give at least one")
    owners = Counter(record.job_id for trace in traces for record in trace.records)
    taken = set(owners)
    records: list[JobRecord] = []
    for number, trace in enumerate(traces, 1):
        for record in trace.records:
            job_id = record.job_id
            if owners[job_id] > 1:
                job_id = f"{job_id}@{number}"
                while job_id in taken:
                    job_id += "'"
                taken.add(job_id)
            records.append(replace(record, job_id=job_id))
    dropped = sum((Counter(trace.dropped) for trace in traces), Counter[str]())
    return JobTrace(
        in_order(records),
        dict(dropped),
        " + ".join(trace.source for trace in traces),
        " + ".join(dict.fromkeys(trace.format for trace in traces)),
        tuple(dict.fromkeys(note for trace in traces for note in trace.notes)),
    )


def resampled(trace: JobTrace, seconds: float, seed: int) -> JobTrace:
    """Return another trace of the same kind: pieces of a trace in another order; seed 0 is the trace itself.

    It is cut into pieces of equal length, whole days or weeks so that nights stay nights, and each seed draws as many
    with replacement: within a piece jobs stay as they came together, from piece to piece they are independent (a block
    bootstrap, Kuensch, "The jackknife and the bootstrap for general stationary observations", 1989, with blocks that do
    not overlap).  Ids of pieces that are drawn more than once get the number of their piece's place: ``id@3``.

    :raises InvalidInput: the trace is shorter than two pieces, or a length not above 0.
    """
    records = trace.records
    origin = records[0].submit if records else 0.0
    length = records[-1].submit - origin if records else 0.0
    count = int(length // seconds) if seconds > 0 else 0
    if count < 2:
        fix = "give a length of which the trace holds several, in hours"
        raise InvalidInput(f"pieces of {seconds:g} seconds of a trace of {length:g}", where="--resample", fix=fix)
    if seed == 0:
        return trace
    pieces: list[list[JobRecord]] = [[] for _ in range(count)]
    for record in records:
        pieces[min(int((record.submit - origin) // seconds), count - 1)].append(record)
    chosen = np.random.default_rng(np.random.SeedSequence((seed, count))).integers(0, count, count).tolist()
    drawn = Counter(chosen)
    made = [
        replace(
            record,
            job_id=f"{record.job_id}@{place}" if drawn[piece] > 1 else record.job_id,
            submit=record.submit + (place - piece) * seconds,
            announced=None if record.announced is None else record.announced + (place - piece) * seconds,
        )
        for place, piece in enumerate(chosen)
        for record in pieces[piece]
    ]
    return replace(trace, records=in_order(made))
