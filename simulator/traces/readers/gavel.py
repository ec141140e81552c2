"""Traces of Gavel and Shockwave: a job a line, its fields between tabs, without a header.

The number of fields tells the layout.  7 (Gavel's ``traces/msr``): type, command, argument for steps, whether it needs
data, steps, arrival, GPUs.  10 (Gavel's others): type, command, folder, argument, data, steps, GPUs, priority, SLO,
arrival.  11 and 12 (Shockwave): the same with the way that its batch size changes behind the GPUs, and in 12 the run
time before the arrival.  Seconds.

Only Shockwave's lines say how long a job runs; for others it is their steps over the steps a second that Gavel measured
on V100 GPUs (``simulator.traces.readers.published_speeds``).

Source: ``parse_trace`` of scheduler/utils.py in github.com/stanford-futuredata/gavel at c4fa4009 and in
github.com/uw-mad-dash/shockwave at 8a44f4a.  Jobs have no id: they are called by their place, ``gavel-1`` onwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow
from simulator.job_record import JobRecord
from simulator.traces.job_fields import number, record, whole
from simulator.traces.readers.published_speeds import GAVEL
from simulator.traces.trace_clock import Clock, TraceRows, is_number
from simulator.traces.trace_loading import Numbered

TAB = "\t"
_MSR = "type command argument data steps arrival gpus"
_COMMON = "type command folder argument data steps gpus"
LAYOUTS = {
    len(names.split()): tuple(names.split())
    for names in (
        _MSR,
        f"{_COMMON} priority slo arrival",
        f"{_COMMON} mode priority slo arrival",
        f"{_COMMON} mode priority slo duration arrival",
    )
}
"""Number of fields -> their names."""


class Gavel:
    """Reader of Gavel and Shockwave traces."""

    format = FileFormat(
        "gavel",
        source="Gavel (OSDI 2020) and Shockwave (NSDI 2023), `.trace`: 7, 10, 11 or 12 fields between tabs",
        export="`scheduler/traces` of github.com/stanford-futuredata/gavel and github.com/uw-mad-dash/shockwave",
        read="arrival, GPUs (scale factor), job type as model, run time or steps over those of a V100 a second",
        left_out="priority weights, SLOs, changes of batch size",
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the first line has the fields of a layout, with numbers where they belong."""
        first = head.decode("utf-8", errors="replace").split("\n", 1)[0].split(TAB)
        names = LAYOUTS.get(len(first), ())
        numbers = ("data", "steps", "gpus", "arrival")
        fitting = all(is_number(cell) for name, cell in zip(names, first, strict=False) if name in numbers)
        return float(bool(names) and fitting)

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        jobs = _Lines(bad_rows)
        lines = ((line, text.rstrip("\r\n").split(TAB)) for line, text in enumerate(source.lines(), 1) if text.strip())
        yield from bad_rows.keep(lines, jobs.job, source)
        if jobs.by_steps:
            bad_rows.note(
                f"{jobs.by_steps:,} jobs have steps and no run time: it was taken from the steps a second that Gavel "
                "measured on V100 GPUs."
            )


class _Lines:
    """Makes jobs of the lines of one trace."""

    def __init__(self, bad_rows: TraceRows) -> None:
        self._clock = Clock(bad_rows)
        self._count = 0
        self.by_steps = 0

    def job(self, fields: Sequence[str]) -> JobRecord:
        """Return the job of a line."""
        self._count += 1
        names = LAYOUTS.get(len(fields))
        if names is None:
            wrong = f"the line has {len(fields)} fields, the format {', '.join(map(str, sorted(LAYOUTS)))}"
            raise BadRow("cells missing", wrong, fix="put a tab between all fields")
        cells = {name: cell.strip() for name, cell in zip(names, fields, strict=True)}
        gpus = whole(cells["gpus"], "the scale factor")
        return record(
            job_id=f"gavel-{self._count}",
            submit=self._clock.seconds(cells["arrival"], "the arrival time"),
            duration=self._clock.length(cells["duration"], "the duration")
            if "duration" in cells
            else self._by_steps(cells, gpus),
            gpus=gpus,
            model=cells["type"],
        )

    def _by_steps(self, cells: dict[str, str], gpus: int) -> float:
        rates = GAVEL.rates_of(cells["type"], gpus)
        if not rates:
            wrong = f"how fast {cells['type'][:60]!r} runs is not known"
            raise BadRow("unknown duration", wrong, fix="give lines with a run time, as Shockwave writes them")
        seconds = number(cells["steps"], "the number of steps") / rates[GAVEL.reference][0]
        self.by_steps += 1
        return seconds
