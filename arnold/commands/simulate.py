"""``arnold simulate``: a cluster over time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import click
from annotated_types import Ge
from click.core import ParameterSource

from arnold.commands.compared_runs import compare_runs, grid_of
from arnold.console.output import emit_json, plain
from arnold.console.verbosity import note
from arnold.options.cluster_options import ClusterFiles, overlay_options
from arnold.options.command import JsonCommand
from arnold.options.field_options import option_names, options_of, takes
from arnold.options.model_files import ModelFiles
from arnold.options.replay_files import ReplayFiles, write_replay
from arnold.options.shared_options import complete_algorithm, complete_policy
from arnold.options.simulate_options import (
    FailureOptions,
    FlagOptions,
    ReplayOptions,
    TraceOptions,
    replay_inputs,
    takes_replay,
)
from ground.errors import InvalidInput, InvalidTopology
from scheduler.job_files.own_records import OwnRecords
from simulator.replay_settings import ReplaySettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.replay import Replay
    from simulator.study import Inputs, StudyGrid

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
    from arnold.documents.replay_tables import replay_tables
    from arnold.documents.simulate_answer import simulate_document
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
