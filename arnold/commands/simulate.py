"""``arnold simulate``: a cluster over time.  One run is told in full; several are a study, compared with each other.

A study is a grid: policies, algorithms, clusters, scales of load and seeds, each with each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import click
from annotated_types import Ge, Gt, Interval
from click.core import ParameterSource

from arnold.console.interrupts import asked_to_stop
from arnold.console.output import Console, answer, note, plain, print_rows, prints_json, progress
from arnold.options.cluster_options import ClusterFiles, overlay_options
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, option_names, options_of, takes
from arnold.options.shared_options import CLUSTER_HELP, complete_algorithm, complete_policy
from arnold.options.simulate_options import (
    FailureOptions,
    FlagOptions,
    ModelFiles,
    ReplayFiles,
    ReplayOptions,
    TraceOptions,
    replay_inputs,
    write_replay,
)
from ground.errors import InvalidInput, InvalidTopology
from ground.files import write_file
from ground.quantities import HOUR, duration, label_of, percent, plural
from scheduler.job_files.own_records import OwnRecords
from simulator.replay_settings import COUNT_ONLY, ReplaySettings
from simulator.sheet import TextTable

if TYPE_CHECKING:
    from arnold.documents.simulate_answer import SimulateDocument
    from scheduler.study.executors import Executor
    from simulator.engine import Engine
    from simulator.replay import Replay
    from simulator.study import Comparison, Inputs, StudyGrid


_OF_PLACEMENT = {"level": "--level", "placement_seconds": "--time-limit", "records": "--records"}
"""Parameters that nothing heeds where GPUs are only counted, and their options."""


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """Which runs a study has besides, where they are made, and where they are kept; any makes one run a study too."""

    seeds: Annotated[int, Interval(ge=1, le=10_000)] | None = field(
        default=None, metadata={"metavar": "N", "default": "the one of --seed"}
    )
    """Number of seeds, 0 to N-1, each of which draws anew."""
    resample: Annotated[float, Gt(0)] | None = field(default=None, metadata={"metavar": "HOURS"})
    """Hours in each piece of the trace; every seed but 0 draws a trace from these pieces."""
    dask: str | None = field(default=None, metadata={"metavar": "ADDRESS", "default": "--jobs processes here"})
    """Dask scheduler on whose workers the runs are made."""
    runs_out: str | None = field(default=None, metadata={"file": "result"})
    """Write a row for each run, Parquet; an interrupted study continues from it."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is kept from getting lost, and from never ending."""

    checkpoint: str | None = field(default=None, metadata={"file": "result"})
    """File in which the run is saved from time to time; a run that finds it continues from it."""
    checkpoint_every: Annotated[float, Ge(0)] = field(
        default=60.0, metadata={"metavar": "SECONDS", "needs": ("--checkpoint",)}
    )
    """Seconds of wall time between two savings of the run."""
    max_backlog_years: Annotated[float, Ge(0)] = field(default=100.0, metadata={"metavar": "N"})
    """Years of work of the whole cluster that may wait before the run is given up; 0 for any."""


@click.command("simulate", cls=JsonCommand, document="arnold.documents.simulate_answer:SimulateDocument")
@file_option("--cluster", "clusters", required=True, multiple=True, help=CLUSTER_HELP)
@overlay_options
@options_of(FlagOptions)
@options_of(TraceOptions)
@options_of(OwnRecords)
@options_of(ReplaySettings, completions={"policy": complete_policy, "algorithm": complete_algorithm})
@options_of(StudyOptions)
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, help="Processes that run at once.")
@options_of(FailureOptions)
@options_of(ModelFiles)
@options_of(ReplayFiles)
@options_of(RunOptions)
@takes(
    replay=ReplayOptions,
    files=partial(ClusterFiles, cluster=""),
    study=StudyOptions,
    outputs=ReplayFiles,
    keeping=RunOptions,
)
def command(
    *,
    clusters: tuple[str, ...],
    jobs: int,
    replay: ReplayOptions,
    files: ClusterFiles,
    study: StudyOptions,
    outputs: ReplayFiles,
    keeping: RunOptions,
) -> None:
    """Replay a trace of jobs on a cluster, in simulated time, with the production scheduler.

    Jobs that a cluster could never hold are said before the run starts; with --lenient they are left out and counted.
    Ctrl-C leaves a checkpoint if one is asked for, and no half-written result.

    Several policies, algorithms or factors with commas between them, clusters or seeds are a study: each with each, and
    how they compare. Same seed, same rows, in any number of processes. With --runs-out, runs that are there are not run
    again.

    $ arnold simulate --cluster cluster.csv --trace jobs.csv
    $ arnold simulate --cluster cluster.csv --trace philly.csv.gz --lenient --policy fifo-backfill --json
    $ arnold simulate --cluster cluster.csv --trace jobs.csv --scale-load 1.5 --jobs-out jobs.parquet
    $ arnold simulate --cluster cluster.csv --trace jobs.csv --data data.yaml
    $ arnold simulate --cluster cluster.csv --trace jobs.csv --html page.html --chrome-trace jobs.json.gz
    $ arnold simulate --cluster cluster.csv --trace jobs.csv --policy fifo,fifo-backfill --algorithm exact,best-fit
    $ arnold simulate --cluster a.csv --cluster b.csv --trace jobs.csv --scale-load 0.8,1,1.2 --seeds 10 --resample 24
    $ arnold simulate --cluster cluster.csv --trace jobs.csv --seeds 20 --dask tcp://head:8786 --runs-out study.parquet
    """
    from scheduler.study.executors import local_executor
    from simulator.study import OnDask

    outputs.check()
    grid = _grid(replay, clusters, study.seeds)
    several = len(grid.points) > 1 or study != StudyOptions()
    context = click.get_current_context()
    if [*grid.algorithms] == [COUNT_ONLY]:
        for name, option in _OF_PLACEMENT.items():
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                fix = f"leave {option} out, or choose an --algorithm that places"
                raise InvalidInput("is of placement, and this run only counts GPUs", where=option, fix=fix)
    if several:
        of_one = {**option_names(ReplayFiles), **option_names(RunOptions)}
        del of_one["html"]
        for name, option in of_one.items():
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                fix = "leave it out, or give one --policy, --algorithm, --cluster and --scale-load, and no --seeds"
                raise InvalidInput("is of one run, and several are compared", where=option, fix=fix)
    executor = local_executor(jobs) if study.dask is None else OnDask(study.dask)
    try:
        loaded = [replace(files, cluster=file, format=replay.jobs.formats()[1]).read() for file in clusters]
        notes = [
            f"{file}: {sentence}" if len(clusters) > 1 else sentence
            for file, topology in zip(clusters, loaded, strict=True)
            for sentence in topology.notes
        ]
        by_name = dict(zip(grid.clusters, (topology.cluster for topology in loaded), strict=True))
        first = replace(replay.settings, policy=grid.policies[0], algorithm=grid.algorithms[0])
        inputs, others = replay_inputs(replace(replay, settings=first), by_name)
        notes += others
        if several:
            note(*notes)
            inputs = replace(inputs, resample=None if study.resample is None else study.resample * HOUR)
            _compare(inputs, grid, executor, out=study.runs_out, html=outputs.html)
        else:
            _run(inputs, grid, outputs, keeping, notes)
    except InvalidTopology as error:
        raise InvalidTopology(error.message, where=error.where or ", ".join(clusters), fix=error.fix) from error


def _grid(replay: ReplayOptions, clusters: Sequence[str], seeds: int | None) -> StudyGrid:
    """Return the runs that are asked for.

    :param clusters: files; each is called as its file without folder and suffix, by the whole path where two share one.
    :param seeds: as ``--seeds`` has it.
    :raises InvalidInput: something is named by nothing, is no scale of load, or both seeds are given.
    """
    from simulator.study import StudyGrid

    settings = replay.settings
    if seeds is not None and settings.seed:
        raise InvalidInput("is one seed, and --seeds asks for several", where="--seed", fix="leave out one of the two")

    def names_in(text: str, option: str) -> list[str]:
        names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not names:
            raise InvalidInput(f"{text[:40]!r} names nothing", where=option, fix="give a name, or several: a,b")
        return names

    text = replay.jobs.scale_load
    try:
        scales = [float(scale) for scale in names_in(text, "--scale-load")]
    except ValueError:
        scales = []
    if not scales or not all(0 < scale < float("inf") for scale in scales):
        fix = "write numbers above 0, e.g. 0.8,1,1.2"
        raise InvalidInput(f"{text[:40]!r} are no scales of load", where="--scale-load", fix=fix)
    stems = [plain(Path(file).stem) for file in clusters]
    return StudyGrid(
        names_in(settings.policy, "--policy"),
        names_in(settings.algorithm, "--algorithm"),
        [stem if stems.count(stem) == 1 else plain(file) for stem, file in zip(stems, clusters, strict=True)],
        scales,
        [settings.seed] if seeds is None else range(seeds),
    )


def _run(inputs: Inputs, grid: StudyGrid, outputs: ReplayFiles, keeping: RunOptions, notes: Sequence[str]) -> None:
    """Make one run, write its files, and show it."""
    from arnold.documents.simulate_answer import replay_tables, simulate_document
    from scheduler.queue.policy import POLICIES
    from simulator.checkpoints import kept_in
    from simulator.engine import Overload, Watch
    from simulator.history import run_history
    from simulator.replay import prepare
    from simulator.results import run_summary, time_series
    from simulator.traces import scale_load

    inputs.settings.check_policies([POLICIES.load(inputs.settings.policy)], inputs.trace.records)
    trace = inputs.trace if grid.loads[0] == 1.0 else scale_load(inputs.trace, grid.loads[0])
    (cluster,) = inputs.clusters.values()
    replay = prepare(trace, cluster, inputs.settings, lenient=inputs.lenient)
    engine = replay.engine
    started = perf_counter()
    with kept_in(keeping.checkpoint, replay) as file:
        if file is not None and file.found:
            note(f"Going on from {keeping.checkpoint}: {engine.completed:,} jobs have ended.")
        try:
            with progress("Replaying", total=len(engine.jobs)) as say, asked_to_stop() as interrupted:

                def show(engine: Engine) -> None:
                    past = duration(engine.clock.now - engine.jobs[0].submitted)
                    waiting, running = len(engine.cluster.backlog), len(engine.cluster.active)
                    say(f"{past} simulated, {waiting:,} jobs wait, {running:,} run", done=engine.completed)

                save = None if file is None else file.save
                watch = Watch(show, interrupted, save=save, every=keeping.checkpoint_every)
                engine.run(watch, overload=Overload(years=keeping.max_backlog_years))
        except KeyboardInterrupt:
            if file is not None:
                note(f"\nSaved in {keeping.checkpoint}: the same command goes on from there.")
            raise
        seconds = perf_counter() - started if file is None else file.wall_seconds
        past = run_history(engine, replay.log, replay.places)
        summary = run_summary(past)
        series = {file: time_series(past, step=step, most=most) for file, (step, most) in outputs.buckets.items()}
        document = simulate_document(summary, replay, past, wall_seconds=seconds)
        tables = [*replay_tables(document)]
        remarks = [*notes, *write_replay(outputs, replay, past, summary, tables=tables, series=series)]
        answer(document, partial(print_run, replay=replay, tables=tables))
        note(*(replay.trace.notes if prints_json() else ()), *remarks)


def print_run(out: Console, document: SimulateDocument, *, replay: Replay, tables: Sequence[TextTable]) -> None:
    """Print a run for a person to read."""
    span = "nothing ended" if document.makespan_seconds is None else duration(document.makespan_seconds)
    jobs, nodes = f"{document.completed:,} of {plural(document.jobs, 'job')}", plural(len(replay.cluster), "node")
    out.print(f"{jobs} ended under {document.policy} on {nodes} in {span} of simulated time.")
    times = {
        "wait": document.wait_seconds,
        "wait in the trace": document.trace_wait_seconds,
        "submission to end": document.jct_seconds,
    }
    rows = [
        (label, *(duration(value) for value in (time.mean, time.p50, time.p95, time.p99, time.max)))
        for label, time in times.items()
        if time is not None
    ]
    print_rows(out, ("", "mean", "half", "95%", "99%", "longest"), rows, title="", gap=False)
    rate = document.events / document.wall_seconds if document.wall_seconds else 0.0
    numbers = {
        "utilization": percent(document.utilization),
        "goodput": percent(document.goodput),
        "fragmentation": percent(document.fragmentation),
        "ETTR": f"{percent(document.ettr)}, {percent(document.ettr_worst_hour)} in the worst hour",
        "what spread costs": document.cost,
        "throughput lost to slower steps": document.throughput_lost and percent(document.throughput_lost),
        "mean spread of gangs": (spread := document.spread) and f"DP {spread.dp:.2f}, PP {spread.pp:.2f}",
        "events": f"{document.events:,} ({rate:,.0f}/s)",
        "wall time": f"{document.wall_seconds:.1f} s, {document.policy_seconds:.1f} s of it the scheduler's",
    }
    print_rows(out, ("", ""), [(name, words) for name, words in numbers.items() if words], title="", gap=False)
    for table in tables:
        print_rows(out, table.headers, [[plain(cell) for cell in row] for row in table.rows], title=table.title)
    for reason, count in document.dropped.items():
        out.print(f"Left out: {count:,} ({plain(reason)}).")
    for sentence in replay.trace.notes:
        out.print(plain(sentence))


def _compare(inputs: Inputs, grid: StudyGrid, executor: Executor, *, out: str | None, html: str | None) -> None:
    """Make all runs of a grid, and print and save how they compare.

    :param out: Parquet file of rows, from which a broken study goes on.
    :param html: page to write.
    :raises ArnoldError: a name is not installed, a run cannot begin, or a file is unusable.
    """
    from importlib.metadata import version

    from simulator.study import StudyDocument, check_names, compare, sweep

    inputs.settings.check_policies(check_names(grid), inputs.trace.records)
    for algorithm in grid.algorithms:
        replace(inputs.settings, algorithm=algorithm)  # refuses models that need nodes before a run is made
    title, points = plain(Path(inputs.trace.source).name), grid.points
    with progress(f"{len(points)} runs", total=len(points)) as step:
        swept = sweep(inputs, points, executor, title=title, version=version("arnold-scheduler"), out=out, step=step)
    compared = compare(swept.rows, title=title)
    if html is not None:
        from arnold.pages.study_page import study_page

        remarks = []
        if inputs.resample is not None:
            pieces = f"pieces of {inputs.resample / HOUR:g} h"
            remarks = [f"Seed 0 is the trace; each other draws {pieces} of it with replacement."]
        elif len(grid.seeds) > 1:
            remarks = ["All seeds replay the same jobs: bands show what is drawn besides, such as random placement."]
        write_file(html, study_page(compared, notes=remarks))
    dropped = inputs.trace.dropped
    left_out = [f"Left out: {count:,} ({reason})." for reason, count in dropped.items()]
    if misfits := max(row["dropped"] for row in swept.rows) - sum(dropped.values()):
        left_out.append(f"Left out where the cluster could never hold it: {plural(misfits, 'job')}.")
    sentences = [*left_out, *inputs.trace.notes]
    study = StudyDocument(title=title, runs=len(points), made=swept.made, groups=compared.groups)

    def show(out: Console, study: StudyDocument) -> None:
        print_study(out, compared, inputs)
        for sentence in sentences:
            out.print(plain(sentence))
        out.print(f"\n{study.runs:,} runs, {study.made:,} of them made now.")

    answer(study, show)
    note(*(sentences if prints_json() else ()))


def print_study(out: Console, compared: Comparison, inputs: Inputs) -> None:
    """Print two tables, times and everything else; what is the same in all runs is said once, and how long the jobs
    really waited, where the trace says it.
    """
    from simulator.results import distribution

    def words(title: str) -> str:
        """Return a title inside a line; acronyms stay."""
        return title if title[:2].isupper() else title[0].lower() + title[1:]

    several = len(compared.loads) > 1
    spare = ("fragmentation",) if any(group.diverged for group in compared.groups) else ("fragmentation", "runs")
    times = [metric for metric in compared.differing if metric.kind == "seconds"]
    others = [metric for metric in compared.differing if metric.kind != "seconds"]
    for metrics, title in ((times, f"{compared.title}: mean over seeds ± half of its 95% interval"), (others, "")):
        if not metrics:
            continue
        load = ("load",) if several else ()
        headers = ("", *load, "runs", *(words(metric.title) for metric in metrics))
        rows = []
        for group in compared.groups:
            runs = str(group.runs) + (f" +{group.diverged} diverged" if group.diverged else "")
            scale = (f"{group.load:g}",) if several else ()
            bands = [(group.metrics.get(metric.column), metric.kind) for metric in metrics]
            rows.append(
                (group.name, *scale, runs, *("-" if band is None else band.label(kind) for band, kind in bands))
            )
        print_rows(out, headers, rows, title=title, spare=spare, gap=False)
    if same := ", ".join(f"{words(metric.title)} {label_of(value, metric.kind)}" for metric, value in compared.same):
        out.print(f"The same in all runs: {same}.")
    waits = distribution([job.waited for job in inputs.trace.records if job.waited is not None])
    if waits is not None:
        mean, most = duration(waits.mean), duration(waits.p95)
        out.print(f"In the trace itself: mean wait {mean}, 95th percentile {most}.")
