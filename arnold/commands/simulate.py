"""``arnold simulate``: a cluster over time; with several policies, algorithms or loads, runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import click
from annotated_types import Ge
from click.core import ParameterSource

from arnold.console.output import console, emit_json, note, plain, print_rows, progress
from arnold.options.cluster_options import ClusterFiles, overlay_options
from arnold.options.command import JsonCommand
from arnold.options.field_options import option_names, options_of, takes
from arnold.options.shared_options import complete_algorithm, complete_policy
from arnold.options.simulate_options import (
    FailureOptions,
    FlagOptions,
    ModelFiles,
    ReplayFiles,
    ReplayOptions,
    TraceOptions,
    replay_inputs,
    takes_replay,
    write_replay,
)
from ground.errors import InvalidInput, InvalidTopology
from ground.quantities import HOUR, duration, label_of, plural
from scheduler.job_files.own_records import OwnRecords
from simulator.replay_settings import ReplaySettings

if TYPE_CHECKING:
    from scheduler.study.executors import Executor
    from simulator.replay import Replay
    from simulator.study import ComparedMetric, Comparison, Inputs, RunGroup, StudyGrid

# -- compared_runs --
# Replays side by side: ``arnold simulate`` with several policies or algorithms, and ``arnold study simulate``.


def _names_in(text: str, option: str) -> list[str]:
    """Return names with commas between them, each once; raise ``InvalidInput``: there are none."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidInput(f"{text[:40]!r} names nothing", where=option, fix="give a name, or several: a,b")
    return names


def _scales_in(text: str) -> list[float]:
    """Return the factors of ``--scale-load``; raise ``InvalidInput``: one is no number above 0."""
    try:
        scales = [float(one) for one in _names_in(text, "--scale-load")]
    except ValueError:
        scales = []
    if not scales or not all(0 < scale < float("inf") for scale in scales):
        raise InvalidInput(
            f"{text[:40]!r} are no scales of load", where="--scale-load", fix="write numbers above 0, e.g. 0.8,1,1.2"
        )
    return scales


def grid_of(settings: ReplaySettings, scale_load: str, *, clusters: Sequence[str], seeds: Sequence[int]) -> StudyGrid:
    """Return the runs that ``--policy``, ``--algorithm`` and ``--scale-load`` ask for."""
    from simulator.study import StudyGrid

    policies, algorithms = _names_in(settings.policy, "--policy"), _names_in(settings.algorithm, "--algorithm")
    return StudyGrid(policies, algorithms, clusters, _scales_in(scale_load), seeds)


def compare_runs(
    inputs: Inputs,
    grid: StudyGrid,
    executor: Executor,
    *,
    as_json: bool,
    out: str | None = None,
    html: str | None = None,
) -> None:
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
        from ground.files import write_file

        write_file(html, study_page(compared, notes=_notes(inputs, grid.seeds)))
    told = [*_left_out(inputs, [row["dropped"] for row in swept.rows]), *inputs.trace.notes]
    if as_json:
        emit_json(StudyDocument(title=title, runs=len(points), made=swept.made, groups=compared.groups))
        note(*told)
    else:
        _show(compared)
        _show_waits(inputs)
        for sentence in told:
            console().print(plain(sentence))
        console().print(f"\n{len(points):,} runs, {swept.made:,} of them made now.")


def _left_out(inputs: Inputs, dropped: Sequence[int]) -> list[str]:
    """Return sentences on the jobs that runs do without.

    :param dropped: rows of the trace and jobs that each run left out.
    """
    most = max(dropped) - sum(inputs.trace.dropped.values())
    misfits = [f"Left out where the cluster could never hold it: {plural(most, 'job')}."] if most else []
    return [*(f"Left out: {count:,} ({reason})." for reason, count in inputs.trace.dropped.items()), *misfits]


def _notes(inputs: Inputs, seeds: Sequence[int]) -> list[str]:
    if inputs.resample is not None:
        return [f"Seed 0 is the trace; each other draws pieces of {inputs.resample / HOUR:g} h of it with replacement."]
    if len(seeds) > 1:
        return ["All seeds replay the same jobs: bands show what is drawn besides, such as random placement."]
    return []


def _show(compared: Comparison) -> None:
    """Print two tables: times, and everything else; what is the same in all runs is said once."""
    out = console()
    several = len(compared.loads) > 1
    spare = ("fragmentation",) if any(group.diverged for group in compared.groups) else ("fragmentation", "runs")
    times = [metric for metric in compared.differing if metric.kind == "seconds"]
    others = [metric for metric in compared.differing if metric.kind != "seconds"]
    for metrics, title in ((times, f"{compared.title}: mean over seeds ± half of its 95% interval"), (others, "")):
        if not metrics:
            continue
        load = ("load",) if several else ()
        headers = ("", *load, "runs", *(_lower(metric.title) for metric in metrics))
        rows = []
        for group in compared.groups:
            runs = str(group.runs) + (f" +{group.diverged} diverged" if group.diverged else "")
            scale = (f"{group.load:g}",) if several else ()
            rows.append((group.name, *scale, runs, *(_cell(group, metric) for metric in metrics)))
        print_rows(out, headers, rows, title=title, spare=spare, gap=False)
    if same := ", ".join(f"{_lower(metric.title)} {label_of(value, metric.kind)}" for metric, value in compared.same):
        out.print(f"The same in all runs: {same}.")


def _show_waits(inputs: Inputs) -> None:
    """Print how long the jobs really waited, where the trace says it."""
    from simulator.results import distribution

    waits = distribution([job.waited for job in inputs.trace.records if job.waited is not None])
    if waits is not None:
        console().print(
            f"In the trace itself: mean wait {duration(waits.mean)}, 95th percentile {duration(waits.p95)}."
        )


def _cell(group: RunGroup, metric: ComparedMetric) -> str:
    band = group.metrics.get(metric.column)
    return "-" if band is None else band.label(metric.kind)


def _lower(title: str) -> str:
    """Return a title inside a line; acronyms stay."""
    return title if title[:2].isupper() else title[0].lower() + title[1:]


# -- simulate --
# ``arnold simulate``: a cluster over time.


EXAMPLES = """\b
Examples:
  arnold simulate --cluster cluster.csv --trace jobs.csv
  arnold simulate --cluster cluster.csv --trace philly.csv.gz --lenient --policy fifo-backfill --json
  arnold simulate --cluster cluster.csv --trace jobs.csv --policy fifo,fifo-backfill --algorithm exact,best-fit
  arnold simulate --cluster cluster.csv --trace jobs.csv --scale-load 1.5 --jobs-out jobs.parquet
  arnold simulate --cluster cluster.csv --trace jobs.csv --data data.yaml
  arnold simulate --cluster cluster.csv --trace jobs.csv --html page.html --chrome-trace jobs.json.gz
"""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is kept from getting lost, and from never ending."""

    checkpoint: str | None = field(default=None, metadata={"file": "result"})
    """File in which the run is saved from time to time; a run that finds it continues from it."""
    checkpoint_every: Annotated[float, Ge(0)] = field(default=60.0, metadata={"metavar": "SECONDS"})
    """Seconds of wall time between two savings of the run."""
    max_backlog_years: Annotated[float, Ge(0)] = field(default=100.0, metadata={"metavar": "N"})
    """Years of work of the whole cluster that may wait before the run is given up; 0 for any."""


@click.command(
    "simulate", cls=JsonCommand, document="arnold.documents.simulate_answer:SimulateDocument", epilog=EXAMPLES
)
@options_of(ClusterFiles, only=("cluster",))
@overlay_options
@options_of(FlagOptions)
@options_of(TraceOptions)
@options_of(OwnRecords)
@options_of(ReplaySettings, completions={"policy": complete_policy, "algorithm": complete_algorithm})
@options_of(FailureOptions)
@options_of(ModelFiles)
@options_of(ReplayFiles)
@options_of(RunOptions)
@takes_replay
@takes(
    files=ClusterFiles,
    outputs=ReplayFiles,
    keeping=RunOptions,
)
def command(
    *,
    as_json: bool,
    replay: ReplayOptions,
    files: ClusterFiles,
    outputs: ReplayFiles,
    keeping: RunOptions,
) -> None:
    """Replay a trace of jobs on a cluster, in simulated time, with the production scheduler.

    Jobs that a cluster could never hold are said before the run starts; with --lenient they are left out and counted.
    Ctrl-C leaves a checkpoint if one is asked for, and no half-written result. Several policies, algorithms or factors
    (`--policy a,b --algorithm x,y`) are compared, each with each, as by `arnold study simulate`.
    """
    from scheduler.study.executors import local_executor

    outputs.check()
    grid = grid_of(
        replay.settings,
        replay.jobs.scale_load,
        clusters=[plain(Path(files.cluster).stem)],
        seeds=[replay.settings.seed],
    )
    several = len(grid.points) > 1
    if several:
        _refuse_what_is_of_one_run()
    try:
        loaded = replace(files, format=replay.jobs.formats()[1]).read()
        inputs, others = replay_inputs(replay.first_of(grid), {grid.clusters[0]: loaded.cluster})
        notes = *loaded.notes, *others
        if several:
            note(*notes)
            compare_runs(inputs, grid, local_executor(1), as_json=as_json, html=outputs.html)
        else:
            _run(inputs, grid, outputs, keeping, notes, as_json=as_json)
    except InvalidTopology as error:
        raise InvalidTopology(error.message, where=error.where or files.cluster, fix=error.fix) from error


def _refuse_what_is_of_one_run() -> None:
    """Raise ``InvalidInput`` where an option is given that means nothing for several runs."""
    context = click.get_current_context()
    of_one = [field for kind in (ReplayFiles, RunOptions) for field in option_names(kind).items() if field[0] != "html"]
    for name, option in of_one:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            fix = "leave it out, or give one --policy, one --algorithm and one --scale-load"
            raise InvalidInput("is of one run, and several are compared", where=option, fix=fix)


def _run(
    inputs: Inputs,
    grid: StudyGrid,
    outputs: ReplayFiles,
    keeping: RunOptions,
    notes: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Make one run, write its files, and show it."""
    from arnold.console.interrupts import asked_to_stop
    from arnold.documents.simulate_answer import replay_tables, simulate_document
    from arnold.texts.simulate_text import run_progress, show
    from simulator.checkpoints import kept_in
    from simulator.engine import Overload, Watch
    from simulator.results import run_summary, time_series
    from simulator.run_history import run_history

    replay = _prepare(inputs, grid.loads[0])
    engine = replay.engine
    started = perf_counter()
    with kept_in(keeping.checkpoint, replay) as file:
        if file is not None and file.found:
            note(f"Going on from {keeping.checkpoint}: {engine.completed:,} jobs have ended.")
        try:
            with run_progress(len(engine.jobs)) as show_progress, asked_to_stop() as interrupted:
                save = None if file is None else file.save
                watch = Watch(show_progress, interrupted, save=save, every=keeping.checkpoint_every)
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
        told = [*notes, *write_replay(outputs, replay, past, summary, tables=tables, series=series)]
        if not as_json:
            show(document, replay, tables)
        else:
            emit_json(document)
        note(*(replay.trace.notes if as_json else ()), *told)


def _prepare(inputs: Inputs, scale: float) -> Replay:
    """Return the one run of the inputs."""
    from scheduler.queue.policy import POLICIES
    from simulator.replay import prepare
    from simulator.traces import scale_load

    inputs.settings.check_policies([POLICIES.load(inputs.settings.policy)], inputs.trace.records)
    trace = inputs.trace if scale == 1.0 else scale_load(inputs.trace, scale)
    (cluster,) = inputs.clusters.values()
    return prepare(trace, cluster, inputs.settings, lenient=inputs.lenient)
