"""What commands that replay a trace are asked: which jobs, what goes wrong, what else is modelled, what is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Gt, Interval

from arnold.options.shared_options import parse_time
from ground.errors import InvalidInput, UnknownName, did_you_mean
from ground.files import check_writable, read_source, write_files
from ground.quantities import plural
from scheduler.affinity import Record
from scheduler.job import DEFAULT_ALPHA
from scheduler.job_files.own_records import OwnRecords
from simulator.replay_settings import COUNT_ONLY, ReplaySettings
from simulator.sheet import TextTable

if TYPE_CHECKING:
    from simulator.failures.cluster_failures import FailureSettings
    from simulator.history import RunHistory
    from simulator.replay import Replay
    from simulator.results import RunSummary, TimeSeries
    from simulator.study import Inputs
    from simulator.throughputs import Throughputs
    from simulator.traces import JobTrace
    from topology.cluster import Cluster


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What else a replay models; without a file it does not."""

    startup: str | None = field(default=None, metadata={"file": True, "default": "jobs start at once"})
    """Image, environment and checkpoint of each start, YAML."""
    data: str | None = field(default=None, metadata={"file": True})
    """Data sets that jobs of the trace name, and caches for them, YAML."""
    power: str | None = field(default=None, metadata={"file": True})
    """What nodes draw, and caps of power domains, YAML (see `arnold schema power`)."""

    def settings(
        self, settings: ReplaySettings, trace: JobTrace, clusters: Sequence[Cluster], *, restart: str | None = None
    ) -> tuple[ReplaySettings, tuple[str, ...]]:
        """Return the settings with these models, and notes about them.

        :param clusters: all that are replayed; files must fit each.
        :param restart: what ``--restart`` says.
        :raises ArnoldError: a file is unusable, or ``--restart`` says the same as ``--startup`` in another way.
        """
        from ground.documents import load_document
        from simulator.data_plan import read_data
        from simulator.power_file import read_power
        from simulator.startup_settings import StartUpSettings

        notes: tuple[str, ...] = ()
        if self.startup is not None:
            if restart is not None:
                problem = "what a restart takes is said by --startup, after the time until a failure is seen"
                raise InvalidInput(problem, where="--restart", fix="leave out --restart, or --startup")
            settings = replace(settings, startup=load_document(read_source(self.startup)).parse(StartUpSettings))
        if self.data is not None:
            source = read_source(self.data)
            for cluster in clusters:
                settings = replace(settings, data=read_data(source, trace.records, cluster))
        if self.power is not None:
            source = read_source(self.power)
            for cluster in clusters:
                settings = replace(settings, power=read_power(source, cluster))
            ids = {record.job_id for record in trace.records}
            others = [name for name in settings.power.jobs if name not in ids] if settings.power else []
            if others:
                notes = (f"{self.power}: no job of the trace is called {others[0][:60]!r}; nothing there counts.",)
        return settings, notes


PAGE_BUCKETS = 300  # Most buckets of a chart of the page


@dataclass(frozen=True, slots=True)
class ReplayFiles:
    """Files that were asked for."""

    jobs_out: str | None = field(default=None, metadata={"file": "result"})
    """Write a row for each job: .csv, .parquet or .jsonl."""
    series_out: str | None = field(default=None, metadata={"file": "result"})
    """Write the run over time: .csv, .parquet or .jsonl."""
    series_step: Annotated[float, Gt(0)] | None = field(
        default=None,
        metadata={"metavar": "SECONDS", "default": "at most 480 of a round length", "needs": ("--series-out",)},
    )
    """Seconds of a row of --series-out."""
    chrome_trace: str | None = field(default=None, metadata={"file": "result"})
    """Write a Chrome trace for Perfetto, packed where the name ends in .gz."""
    html: str | None = field(default=None, metadata={"file": "result"})
    """Save a page with tables and drawings: one file that needs no network."""
    study: str | None = field(default=None, metadata={"file": True, "needs": ("--html",)})
    """Runs that `arnold simulate --runs-out` saved, to show on the page of --html."""

    def check(self) -> None:
        """Refuse what cannot be, before anything is computed for it.

        :raises InvalidInput: a file whose suffix says no format, or in no folder.
        """
        from arnold.exports import check_suffix

        if self.jobs_out is not None:
            check_suffix(self.jobs_out, "--jobs-out")
        if self.series_out is not None:
            check_suffix(self.series_out, "--series-out")
        if self.study is not None and not Path(self.study).is_file():
            raise InvalidInput("there is no such file", where=self.study, fix="check the path")
        for file in filter(None, (self.jobs_out, self.series_out, self.chrome_trace, self.html)):
            check_writable(file)

    @property
    def buckets(self) -> Mapping[str, tuple[float | None, int]]:
        """The files that show the run over time -> seconds of a bucket (``None`` = a round number), most buckets."""
        from simulator.results import MOST

        cuts = (
            (self.series_out, self.series_step, MOST),
            (self.chrome_trace, None, MOST),
            (self.html, None, PAGE_BUCKETS),
        )
        return {file: (step, most) for file, step, most in cuts if file is not None}


def write_replay(
    outputs: ReplayFiles,
    replay: Replay,
    past: RunHistory,
    summary: RunSummary,
    *,
    tables: Sequence[TextTable],
    series: Mapping[str, TimeSeries],
) -> list[str]:
    """Make all files, then write each, whole or not at all.

    :param past: of the run, as the summary and the tables, which say what it says besides.
    :param series: the same in the :attr:`ReplayFiles.buckets` of each file.
    :returns: what did not fit, a sentence each.
    """
    from arnold.exports import JOB_COLUMNS, SERIES_COLUMNS, job_rows, series_rows, table_bytes
    from simulator.start_ups import seconds_by_job

    made: dict[str, str | bytes] = {}
    notes: list[str] = []
    if (file := outputs.jobs_out) is not None:
        startup = {} if replay.startups is None else seconds_by_job(past, replay.startups.log)
        names = () if past.cluster is None else past.cluster.names
        made[file] = table_bytes(file, list(job_rows(past.jobs, names, startup)), JOB_COLUMNS)
    if (file := outputs.series_out) is not None:
        made[file] = table_bytes(file, list(series_rows(series[file], past.origin)), SERIES_COLUMNS)
    if (file := outputs.chrome_trace) is not None:
        from arnold.exports import attempts_to_export, chrome_trace

        chosen, total = attempts_to_export(past), len(past.attempts)
        made[file] = chrome_trace(past, series[file], chosen, packed=file.endswith(".gz"))
        if len(chosen) < total:
            notes = [f"{file} has the {len(chosen):,} largest of {total:,} runs of jobs: a viewer opens no more."]
    if (file := outputs.html) is not None:
        from arnold.pages.replay_page import simulation_page
        from simulator.study import read_comparison

        compared = None if outputs.study is None else read_comparison(outputs.study)
        made[file] = simulation_page(past, summary, replay, series[file], tables=tables, compared=compared)
    write_files(made)
    return notes


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """A trace, and what is done to it before it is replayed."""

    trace: str = field(metadata={"file": True})
    """Jobs to replay, in any known format; - for standard input."""
    format: str | None = field(default=None, metadata={"metavar": "NAME", "default": "recognised by content"})
    """Format of the trace, of the cluster, or of both with a comma between them."""
    lenient: bool = field(default=False, metadata={"option": "--lenient/--strict", "default": "strict"})
    """Leave out what cannot be used and say how much, or stop at the first."""
    column: tuple[str, ...] = field(default=(), metadata={"metavar": "NAME=THEIRS"})
    """Column of a CSV trace under its own name: gpus=num_gpu."""
    time_format: str | None = field(
        default=None, metadata={"metavar": "PATTERN", "default": "ISO dates, or as the format counts"}
    )
    """How the trace writes times: '%d.%m.%Y %H:%M:%S', or what its numbers count, lengths too: milliseconds."""
    merge: tuple[str, ...] = field(default=(), metadata={"file": True})
    """Another trace on the same clock, whose jobs are added."""
    window: str | None = field(default=None, metadata={"metavar": "START..END", "default": "all"})
    """When the jobs were submitted that are replayed: 0..86400, 2017-10-01..2017-10-08, +1d..+8d after the first."""
    max_gpus: float | None = field(default=None, metadata={"metavar": "N", "default": "all"})
    """GPUs of the largest job that is replayed."""
    throughputs: str | None = field(default=None, metadata={"file": True})
    """Speed of jobs on each type of GPU: Gavel's JSON, or a CSV."""
    scale_load: str = field(default="1", metadata={"metavar": "FACTOR[,..]"})
    """Factor by which the submissions are denser than in the trace."""

    def rates(self) -> Throughputs | None:
        """Return the throughputs, ``None`` = none were given; raise InvalidInput where the file is unusable."""
        if self.throughputs is None:
            return None
        from simulator.traces.throughput_files import read_throughputs

        return read_throughputs(read_source(self.throughputs))

    def formats(self) -> tuple[str | None, str | None]:
        """Return the formats of the trace and of the cluster that ``--format`` names; ``None`` = it is recognised.

        A name that both have is that of the trace, and a second time that of the cluster.

        :raises UnknownName: neither has it, or none is left that it could be of.
        """
        from simulator.traces.trace_loading import TRACE_READERS
        from topology.readers.reading import TOPOLOGY_READERS

        chosen: dict[str, str] = {}
        formats = {"trace": TRACE_READERS.names(), "cluster": TOPOLOGY_READERS.names()}
        for name in (part.strip() for part in (self.format or "").split(",") if part.strip()):
            free = [source for source, names in formats.items() if name in names and source not in chosen]
            if not free:
                names = sorted({*formats["trace"], *formats["cluster"]})
                fix = (
                    f"{did_you_mean(name, names)}formats of traces: {', '.join(formats['trace'])}; "
                    f"of clusters: {', '.join(formats['cluster'])}"
                )
                raise UnknownName(f"no input is left of the format {name!r}", where="--format", fix=fix)
            chosen[free[0]] = name
        return chosen.get("trace"), chosen.get("cluster")

    def read(self) -> JobTrace:
        """Return the trace, merged and cut, or raise ArnoldError: a file is unusable, or nothing of it is left."""
        from simulator.traces import max_gpus, merge, parse_columns, parse_window, read_trace, window

        columns = parse_columns(self.column)
        trace = read_trace(
            self.trace, format=self.formats()[0], lenient=self.lenient, columns=columns, time_format=self.time_format
        )
        if self.merge:
            others = (read_trace(other, lenient=self.lenient, time_format=self.time_format) for other in self.merge)
            trace = merge([trace, *others])
        if self.window is not None:
            trace = window(trace, *parse_window(self.window, trace))
        return trace if self.max_gpus is None else max_gpus(trace, self.max_gpus)


@dataclass(frozen=True, slots=True)
class FlagOptions:
    """Flags that begin and end while a trace is replayed."""

    flags: tuple[str, ...] = field(default=(), metadata={"file": True})
    """Slow and faulty nodes: YAML, JSON or a flag store."""
    starts_at: str | None = field(default=None, metadata={"metavar": "TIME", "default": "as the trace's dates say"})
    """Time of the first submission, by the clock of the flags."""

    def settings(
        self, settings: ReplaySettings, trace: JobTrace, nodes: Collection[str]
    ) -> tuple[ReplaySettings, tuple[str, ...]]:
        """Return the settings with these flags, and notes about them.

        :param nodes: names, of all clusters of a study.
        :raises ArnoldError: a file is unusable or names no such node, or ``--starts-at`` is no time.
        """
        from topology.flag_sources import flags_over_time

        first, epoch = trace.records[0].submit, trace.epoch
        if self.starts_at is not None:
            epoch = parse_time(self.starts_at, option="--starts-at")[0].timestamp() - first
        read = [flags_over_time(file, nodes) for file in self.flags]
        flags = tuple(flag for of_file, _ in read for flag in of_file)
        notes = [note for _, of_file in read for note in of_file]
        if epoch is not None and flags:
            first, last = first + epoch, trace.records[-1].submit + epoch
            if ended := sum(flag.until is not None and flag.until.timestamp() <= first for flag in flags):
                begin = f"{datetime.fromtimestamp(first, UTC):%Y-%m-%dT%H:%M:%SZ}"
                before = f"flags that ended before the first job was submitted ({begin}), without effect"
                notes.append(f"{before}: {ended} of {len(flags)}")
            if late := sum(flag.since is not None and flag.since.timestamp() > last for flag in flags):
                after = "flags that begin after the last job is submitted, and reach only jobs that still wait or run"
                notes.append(f"{after}: {late} of {len(flags)}")
        return replace(settings, flags=flags, epoch=epoch), tuple(notes)


_FAILING = ("--failures", "--stragglers")


@dataclass(frozen=True, slots=True)
class FailureOptions:
    """The options of ``arnold simulate`` on failures; without ``--failures`` or ``--stragglers`` nothing goes wrong."""

    failures: str | None = field(default=None, metadata={"metavar": "RATE|NAME", "default": "nothing fails"})
    """Failures per 1,000 node-days: a number, or rsc-1, rsc-2, llama3, byterobust as measured there."""
    mix: str = field(default="llama3", metadata={"metavar": "NAME", "needs": _FAILING})
    """Mix of the kinds of failures: llama3 or byterobust."""
    stragglers: Annotated[float, Interval(ge=0, le=1_000)] = field(default=0.0, metadata={"metavar": "RATE"})
    """Nodes that become slow, per 1,000 node-days."""
    repair_hours: Annotated[float, Interval(gt=0, le=8_766)] = field(
        default=24.0, metadata={"metavar": "HOURS", "needs": _FAILING}
    )
    """Hours until a failed node is back, on average."""
    restart: str | None = field(default=None, metadata={"metavar": "SECONDS|NAME", "default": "300", "needs": _FAILING})
    """Seconds from a failure to training again; or requeue or hot-update, as ByteRobust measured."""
    job_checkpoint_interval: Annotated[float, Interval(gt=0, le=1e9)] | None = field(
        default=None, metadata={"metavar": "SECONDS", "default": "the best for each", "needs": _FAILING}
    )
    """Seconds of training between the checkpoints of a job."""
    job_checkpoint_write: Annotated[float, Interval(gt=0, le=86_400)] = field(
        default=10.0, metadata={"metavar": "SECONDS", "needs": _FAILING}
    )
    """Seconds for which writing a checkpoint keeps the job from training."""
    spares: Annotated[int, Ge(0)] = field(default=0, metadata={"metavar": "N", "needs": _FAILING})
    """Nodes that wait for others to fail."""

    def settings(self) -> FailureSettings | None:
        """Return what goes wrong in a replay, ``None`` = nothing; raise UnknownName: no rate or mix is called that."""
        if self.failures is None and not self.stragglers:
            return None
        from simulator.failures.cluster_failures import FailureModel, FailureSettings, Slowness
        from simulator.failures.rates import failure_mix, failure_rate, parse_restart

        model = FailureModel(
            rate=failure_rate(self.failures or "0"),
            mix=failure_mix(self.mix),
            repair_hours=self.repair_hours,
            slowness=Slowness(self.stragglers),
        )
        return FailureSettings(
            model,
            restart=parse_restart(self.restart or "300"),
            interval=self.job_checkpoint_interval,
            write=self.job_checkpoint_write,
            spares=self.spares,
        )


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What commands are asked that replay a trace under one policy and one algorithm."""

    jobs: TraceOptions
    own: OwnRecords
    settings: ReplaySettings
    failures: FailureOptions
    models: ModelFiles
    flags: FlagOptions


def replay_inputs(options: ReplayOptions, clusters: Mapping[str, Cluster]) -> tuple[Inputs, tuple[str, ...]]:
    """Return the inputs of a replay and notes about them.

    :param clusters: by the names that they have in the answer.
    :raises ArnoldError: a file is unusable, or options contradict each other.
    """
    from simulator.study import Inputs

    settings = replace(
        options.settings,
        records=options.own.measured,
        throughputs=options.jobs.rates(),
        failures=options.failures.settings(),
    )
    trace, nodes = options.jobs.read(), {name for cluster in clusters.values() for name in cluster.names}
    restart = options.failures.restart
    settings, of_models = options.models.settings(settings, trace, [*clusters.values()], restart=restart)
    settings, of_flags = options.flags.settings(settings, trace, nodes)
    notes = []
    for name, cluster in clusters.items():
        # nothing of the trace frees nodes that others use
        if held := int((cluster.gpus - cluster.free_gpus).sum()):
            where = f" of {name}" if len(clusters) > 1 else ""
            gpus = f"{held:,} of {int(cluster.gpus.sum()):,} GPUs{where}"
            notes.append(f"in use by others, which keep them to the end: {gpus}; shares are of the rest")
    notes += *of_models, *of_flags
    if settings.algorithm != COUNT_ONLY and all(isinstance(gains, Record) for gains in settings.records):
        node = min(int(cluster.gpus.max(initial=0)) for cluster in clusters.values())
        larger = [record for record in trace.records if record.gpus > node]
        if unsaid := sum(record.alpha is None and record.known_model is None for record in larger):
            jobs = f"{plural(unsaid, 'job')} of more than a node"
            notes.append(f"alpha {DEFAULT_ALPHA} by default for {jobs}: the trace gives neither alpha nor model")
    return Inputs(trace, clusters, settings, lenient=options.jobs.lenient), tuple(notes)
