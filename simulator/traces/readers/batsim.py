"""Workloads of Batsim: a JSON document with ``jobs`` and the ``profiles`` that say what they do.

Source: docs/input-workload.rst of github.com/oar-team/batsim, version 5.  Resources stand for GPUs.  How long a job
takes is said where its profile is a delay, or a sequence of delays; of computations, transfers and replays it depends
on the platform, which is not read: there the walltime is taken, and a note says so.  A walltime ends a longer delay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow, entries, inside, json_document
from simulator.job_record import JobRecord
from simulator.traces.job_fields import number, optional, record
from simulator.traces.trace_clock import Clock, TraceRows
from simulator.traces.trace_loading import Numbered

_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
DELAYS = frozenset({"DelayProfile", "delay"})
SEQUENCES = frozenset({"SequentialCompositionProfile", "composed"})
"""Types of profiles, as Batsim 5 and earlier versions call them."""

DEEPEST = 50  # Sequences within each other: more is a circle


class Batsim:
    """Reader of Batsim workloads."""

    format = FileFormat(
        "batsim",
        source='Batsim workload, JSON: `{"jobs": [{"id": ..., "subtime": ..., "res": ..., ...}], "profiles": {...}}`',
        export="`workloads/*.json` of github.com/oar-team/batsim, or of your own generator",
        read="jobs: submission, resources as GPUs, walltime as estimate; delays and sequences of them as run time",
        left_out="how long computations, transfers and replays take on a platform: the walltime stands for it",
        marks=('"jobs"', '"subtime"', '"res"', '"profile"'),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the document is an object with jobs that have a subtime."""
        marked = all(mark.encode() in head for mark in ('"jobs"', '"subtime"', '"res"'))
        return float(marked and _BEGIN.match(head) is not None)

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        document, data = json_document(source)
        profiles = data.get("profiles") if isinstance(data, dict) else None
        jobs = _Workload(profiles if isinstance(profiles, dict) else {}, Clock(bad_rows))
        yield from bad_rows.keep(entries(document, data, key="jobs"), jobs.job, source)
        if jobs.by_walltime:
            bad_rows.note(
                f"{jobs.by_walltime:,} jobs compute or transfer, which takes as long as a platform makes it: "
                "their run time is their walltime."
            )


class _Workload:
    """Makes jobs of the entries of one workload."""

    def __init__(self, profiles: Mapping[str, Any], clock: Clock) -> None:
        self._profiles = profiles
        self._clock = clock
        self.by_walltime = 0

    def job(self, entry: Any) -> JobRecord:
        """Return the job of an entry."""
        job_id = str(inside(entry, "id") if inside(entry, "id") is not None else "")
        submit = self._clock.seconds(inside(entry, "subtime"), "subtime")
        walltime = self._clock.optional_length(inside(entry, "walltime"), "walltime")
        if submit < 0:
            raise BadRow("not a time", f"subtime is {submit:g}", fix="give times from 0 up")
        walltime = walltime if walltime is not None and walltime > 0 else None
        seconds = self._seconds(inside(entry, "profile"), 0)
        if seconds is None:
            if walltime is None:
                wrong = f"job {job_id} has neither a delay nor a walltime"
                raise BadRow("unknown duration", wrong, fix="give it a walltime, or a profile of type DelayProfile")
            self.by_walltime += 1
        return record(
            job_id=job_id,
            submit=submit,
            duration=min(one for one in (seconds, walltime) if one is not None),
            gpus=number(inside(entry, "res"), "res"),
            estimate=walltime,
            status="unknown" if seconds is None else "failed" if walltime and seconds > walltime else "completed",
        )

    def _seconds(self, name: Any, depth: int) -> float | None:
        """Return how long a profile takes; ``None`` = that depends on a platform."""
        profile = self._profiles.get(name) if isinstance(name, str) else None
        if profile is None or depth > DEEPEST:
            wrong = f"there is no profile {str(name)[:60]!r}" if profile is None else "profiles contain each other"
            raise BadRow("unknown profile", wrong, fix="name a profile of the file")
        kind = inside(profile, "type")
        if kind in DELAYS:
            return self._clock.length(inside(profile, "delay"), "delay")
        if kind not in SEQUENCES:
            return None
        parts = inside(profile, "seq")
        if not isinstance(parts, list):
            raise BadRow("not a list", f"seq of the profile {name!r} is no list", fix="list names of profiles")
        seconds = [self._seconds(part, depth + 1) for part in parts]
        known = [one for one in seconds if one is not None]
        times = optional(inside(profile, "repeat"), "repeat")
        return sum(known) * (1 if times is None else times) if len(known) == len(seconds) else None
