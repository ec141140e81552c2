"""``arnold simulate``: a cluster over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import click
from annotated_types import Ge

from arnold.commands.cluster_options import check_stdin, overlay_options, read_cluster
from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE, options_of, take
from arnold.commands.model_files import ModelFiles
from arnold.commands.output import emit_json
from arnold.commands.place import complete_algorithm
from arnold.commands.replay_files import ReplayFiles, write_replay
from arnold.commands.simulate_options import FailureOptions, FlagOptions, TraceOptions
from simulator.replay_settings import ReplaySettings
from topology.errors import InvalidTopology

if TYPE_CHECKING:
    from simulator.replay import Replay

EXAMPLES = """\b
Examples:
  arnold simulate --cluster cluster.csv --trace jobs.csv
  arnold simulate --cluster cluster.csv --trace philly.csv.gz --lenient --policy fifo-backfill --json
  arnold simulate --cluster cluster.csv --trace jobs.csv --scale-load 1.5 --jobs-out jobs.parquet
  arnold simulate --cluster cluster.csv --trace jobs.csv --data data.yaml
  arnold simulate --cluster cluster.csv --trace jobs.csv --html page.html --chrome-trace jobs.json.gz
"""


READ = ("cluster", "trace", "flags", "throughputs", "records", "startup", "data", "power")
"""Options with files, of which one may be standard input."""


def complete_policy(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return names of queue policies, for the shell."""
    from scheduler.queue.queue_policy import POLICIES

    return [name for name in POLICIES.names() if name.startswith(incomplete)]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is kept from getting lost, and from never ending."""

    scale_load: float | None = field(default=None, metadata={"metavar": "F"})
    """Submissions F times as dense."""
    checkpoint: str | None = field(default=None, metadata={"file": "result"})
    """Save this run now and then, and go on from there if the file exists."""
    checkpoint_every: Annotated[float, Ge(0)] = field(default=60.0, metadata={"metavar": "SECONDS"})
    """Wall time between two savings of the run."""
    max_backlog_years: Annotated[float, Ge(0)] = field(default=100.0, metadata={"metavar": "N"})
    """Give up when the work that waits would take the whole cluster longer; 0 = never."""


@click.command(
    "simulate", cls=JsonCommand, document="arnold.documents.simulate_answer:SimulateDocument", epilog=EXAMPLES
)
@click.option("--cluster", required=True, type=FILE, metavar="FILE", help="The cluster, in any known format.")
@click.option("--cluster-format", metavar="NAME", help="Format of the cluster  [default: recognised by content]")
@overlay_options
@options_of(FlagOptions)
@options_of(TraceOptions)
@options_of(ReplaySettings, completions={"policy": complete_policy, "algorithm": complete_algorithm})
@options_of(FailureOptions)
@options_of(ModelFiles)
@options_of(ReplayFiles)
@options_of(RunOptions)
def command(*, as_json: bool, **options: Any) -> int:
    """Replay a trace of jobs on a cluster, in simulated time, with the production scheduler.

    Jobs that a cluster could never hold are said before the run starts; with --lenient they are left out and counted.
    Ctrl-C leaves a checkpoint if one is asked for, and no half-written result.
    """
    from arnold.commands.interrupts import asked_to_stop
    from arnold.commands.simulate_text import run_progress, show
    from arnold.documents.simulate_answer import simulate_document
    from simulator.checkpoints import kept_in
    from simulator.engine.engine import Overload, Watch
    from simulator.results.run_history import run_history
    from simulator.results.run_summary import run_summary
    from simulator.results.time_series import time_series

    check_stdin({f"--{name}": options[name] for name in READ})
    outputs, keeping = take(ReplayFiles, options), take(RunOptions, options)
    outputs.check()
    chosen, failing = take(TraceOptions, options), take(FailureOptions, options)
    known = {"records": chosen.measured(), "throughputs": chosen.rates()}
    settings = take(ReplaySettings, options, **known, failures=failing.settings())
    replay, of_inputs = _prepare(options, chosen, settings, scale=keeping.scale_load, restart=failing.restart)
    engine = replay.engine
    started = perf_counter()
    with kept_in(keeping.checkpoint, replay) as file:
        if file is not None and file.found:
            click.echo(f"Going on from {keeping.checkpoint}: {engine.completed:,} jobs have ended.", err=True)
        try:
            with run_progress(len(engine.jobs)) as show_progress, asked_to_stop() as interrupted:
                save = None if file is None else file.save
                watch = Watch(show_progress, interrupted, save=save, every=keeping.checkpoint_every)
                engine.run(watch, overload=Overload(years=keeping.max_backlog_years))
        except KeyboardInterrupt:
            if file is not None:
                click.echo(f"\nSaved in {keeping.checkpoint}: the same command goes on from there.", err=True)
            raise
        seconds = perf_counter() - started if file is None else file.wall_seconds
        past = run_history(engine, replay.log, replay.places)
        summary = run_summary(past)
        series = {file: time_series(past, step=step, most=most) for file, (step, most) in outputs.buckets.items()}
        document = simulate_document(summary, replay, past, wall_seconds=seconds)
        notes = [*of_inputs, *write_replay(outputs, replay, past, summary, document=document, series=series)]
        if not as_json:
            show(document, replay)
        else:
            emit_json(document)
        for note in [*replay.trace.notes, *notes] if as_json else notes:
            click.echo(note, err=True)
    return 0


def _prepare(
    options: dict[str, Any],
    chosen: TraceOptions,
    settings: ReplaySettings,
    *,
    scale: float | None,
    restart: str | None,
) -> tuple[Replay, tuple[str, ...]]:
    """Return the run that the options describe, and notes about its cluster."""
    from scheduler.queue.queue_policy import POLICIES
    from simulator.replay import prepare
    from simulator.traces import scale_load

    flagged, models = take(FlagOptions, options), take(ModelFiles, options)
    cluster, notes = read_cluster(format=options.pop("cluster_format"), **options)
    trace = chosen.read()
    settings, of_models = models.settings(settings, trace, [cluster], restart=restart)
    settings.check_policies([POLICIES.load(settings.policy)], trace.records)
    settings, of_flags = flagged.settings(settings, trace, cluster.index_of)
    if scale is not None:
        trace = scale_load(trace, scale)
    try:
        return prepare(trace, cluster, settings, lenient=chosen.lenient), (*notes, *of_models, *of_flags)
    except InvalidTopology as error:
        raise InvalidTopology(error.message, where=error.where or options["cluster"], fix=error.fix) from error
