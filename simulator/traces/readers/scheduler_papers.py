"""Workloads that came with schedulers of papers: Gavel, Shockwave, Tiresias, Muri, Pollux and Sia.

Gavel (OSDI 2020) and Shockwave: a job a line, its fields between tabs, without a header.  Their number tells the
layout.  7 (Gavel's ``traces/msr``): type, command, argument for steps, whether it needs data, steps, arrival, GPUs.  10
(Gavel's others): type, command, folder, argument, data, steps, GPUs, priority, SLO, arrival.  11 and 12 (Shockwave):
the same with the way that its batch size changes behind the GPUs, and in 12 the run time before the arrival.  Seconds.
Only Shockwave's lines say how long a job runs; for others it is their steps over the steps a second that Gavel measured
on V100 GPUs (:mod:`simulator.throughputs`).  Jobs have no id: they are called by their place, ``gavel-1`` onwards.
Source: ``parse_trace`` of scheduler/utils.py in github.com/stanford-futuredata/gavel at c4fa4009 and in
github.com/uw-mad-dash/shockwave at 8a44f4a.

Tiresias (Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019;
github.com/SymbioticLab/Tiresias, simulator/60_job.csv): ``job_id,num_gpu,submit_time,iterations,model_name,duration,
interval``, on a clock of their own.  Muri's (Zhao et al., "Multi-Resource Interleaving for Deep Learning Training",
SIGCOMM 2022; github.com/Rivendile/Muri, cluster_exp/trace-data) have these columns and others, and count milliseconds.

Pollux and Sia (Qiao et al., OSDI 2021, simulator/workloads*/ of github.com/petuum/adaptdl, branch osdi21-artifact;
Jayaram Subramanya et al., SOSP 2023, github.com/siasosp23/artifacts): ``name,time,application,num_replicas,
batch_size``.  Jobs may grow and shrink there; here each keeps the GPUs that its user would have chosen,
``num_replicas``.  The file does not say how long it then runs: that is what was measured for its application, GPUs and
batch size (:mod:`simulator.throughputs`), or a column ``duration`` if there is one.
"""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import ClassVar

from ground.files import ByteStream
from ground.formats import FileFormat
from ground.rows import BadRow, header_of
from simulator.job_record import JobRecord
from simulator.throughputs import GAVEL, POLLUX_SECONDS
from simulator.traces.cells import Clock, TraceRows, is_number, number, record, whole
from simulator.traces.trace_loading import Cells, NamedColumns, Numbered

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
        clock, places, by_steps = Clock(bad_rows), count(1), 0

        def job(fields: Sequence[str]) -> JobRecord:
            nonlocal by_steps
            place, names = next(places), LAYOUTS.get(len(fields))
            if names is None:
                problem = f"the line has {len(fields)} fields, the format {', '.join(map(str, sorted(LAYOUTS)))}"
                raise BadRow("cells missing", problem, fix="put a tab between all fields")
            cells = {name: cell.strip() for name, cell in zip(names, fields, strict=True)}
            gpus = whole(cells["gpus"], "the scale factor")
            submit = clock.seconds(cells["arrival"], "the arrival time")
            if "duration" in cells:
                duration = clock.length(cells["duration"], "the duration")
            elif rates := GAVEL.rates_of(cells["type"], gpus):
                duration = number(cells["steps"], "the number of steps") / rates[GAVEL.reference][0]
                by_steps += 1
            else:
                problem = f"how fast {cells['type'][:60]!r} runs is not known"
                raise BadRow("unknown duration", problem, fix="give lines with a run time, as Shockwave writes them")
            return record(job_id=f"gavel-{place}", submit=submit, duration=duration, gpus=gpus, model=cells["type"])

        lines = ((line, text.rstrip("\r\n").split(TAB)) for line, text in enumerate(source.lines(), 1) if text.strip())
        yield from bad_rows.keep(lines, job, source)
        if by_steps:
            bad_rows.note(
                f"{by_steps:,} jobs have steps and no run time: it was taken from the steps a second that Gavel "
                "measured on V100 GPUs."
            )


ONLY_MURI = ("iteration_time", "resource_time_0")  # Columns that Muri's traces have and those of Tiresias have not


class Tiresias(NamedColumns):
    """Reader of Tiresias traces."""

    columns: ClassVar[tuple[str, ...]] = ("job_id", "num_gpu", "submit_time", "model_name", "duration")
    format = FileFormat(
        "tiresias",
        source="Tiresias (NSDI 2019), a CSV: `job_id,num_gpu,submit_time,iterations,model_name,duration,interval`",
        export="`simulator/*_job.csv` of github.com/SymbioticLab/Tiresias",
        read="submission, GPUs, run time, model",
        left_out="iterations, interval, sizes of models",
        marks=columns,
    )

    def likeness(self, head: bytes) -> float:
        """Return the share of the columns that the header has; nothing when it has others that are Muri's alone."""
        return 0.0 if set(ONLY_MURI) <= {*header_of(head)} - {*self.columns} else super().likeness(head)

    def job(self, cells: Cells, clock: Clock) -> JobRecord:
        """Return the job of a row."""
        return record(
            job_id=cells["job_id"],
            submit=clock.seconds(cells["submit_time"], "submit_time"),
            duration=clock.length(cells["duration"], "duration"),
            gpus=number(cells["num_gpu"], "num_gpu"),
            model=cells["model_name"],
        )


class Muri(Tiresias):
    """Reader of Muri's traces: milliseconds, unless ``--time-format`` says otherwise."""

    columns = (*Tiresias.columns, *ONLY_MURI)
    format = FileFormat(
        "muri",
        source="Muri (SIGCOMM 2022), a CSV of milliseconds: Tiresias' columns, `iteration_time`, `resource_time_0`",
        export="`cluster_exp/trace-data/*.csv` of github.com/Rivendile/Muri",
        read="submission, GPUs, run time, model",
        left_out="iterations, interval, what an iteration takes of each resource, priority",
        marks=columns,
    )

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        if bad_rows.time_format is None:
            bad_rows.unit = "milliseconds"
            bad_rows.note("Times were read as milliseconds, which is what Muri's traces count.")
        return super().read(source, bad_rows)


class Pollux(NamedColumns):
    """Reader of Pollux and Sia workloads."""

    columns = ("name", "time", "application", "num_replicas", "batch_size")
    format = FileFormat(
        "pollux",
        source="Pollux (OSDI 2021) and Sia (SOSP 2023), a CSV: `name,time,application,num_replicas,batch_size`",
        export="`simulator/workloads*` of github.com/petuum/adaptdl, branch osdi21-artifact",
        read="submission, replicas as GPUs, application as model; run times as measured for these on T4 GPUs",
        left_out="that jobs may grow and shrink; applications, GPUs and batch sizes that were not measured",
        marks=columns,
    )

    def job(self, cells: Cells, clock: Clock) -> JobRecord:
        """Return the job of a row."""
        gpus, submit = whole(cells["num_replicas"], "num_replicas"), clock.seconds(cells["time"], "time")
        if given := cells.get("duration"):
            duration = clock.length(given, "duration")
        else:
            batch = whole(cells["batch_size"], "batch_size")
            measured = POLLUX_SECONDS.get(cells["application"], {}).get((gpus, batch))
            if measured is None:
                what = f"{cells['application'][:60]!r} on {gpus} GPUs with batches of {batch}"
                raise BadRow("unknown duration", f"how long {what} runs is not known", fix="add a column duration")
            clock.rows.note("Run times are those that Pollux measured on T4 GPUs, for jobs that keep their GPUs.")
            duration = measured
        return record(job_id=cells["name"], submit=submit, duration=duration, gpus=gpus, model=cells["application"])
