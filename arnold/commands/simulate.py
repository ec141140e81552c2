"""``arnold simulate``: a cluster over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from arnold.commands.command import JsonCommand
from arnold.commands.failure_options import failure_options, take_failures
from arnold.commands.instance import FILE, finite, overlay_options, read_cluster
from arnold.commands.output import emit_json
from arnold.commands.outputs import output_options, take_outputs, write_outputs
from arnold.commands.place import complete_algorithm
from arnold.commands.trace_options import take_trace, trace_options
from topology.errors import InvalidTopology

if TYPE_CHECKING:
    from simulator.checkpoints import CheckpointFile
    from simulator.past.history import History
    from simulator.replay import Replay

EXAMPLES = """\b
Examples:
  arnold simulate --cluster cluster.csv --trace jobs.csv
  arnold simulate --cluster cluster.csv --trace philly.csv.gz --lenient --policy fifo-backfill --json
  arnold simulate --cluster cluster.csv --trace jobs.csv --scale-load 1.5 --jobs-out jobs.parquet
  arnold simulate --cluster cluster.csv --trace jobs.csv --html page.html --chrome-trace jobs.json.gz
"""


def complete_policy(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Names of queue policies, for the shell."""
    from scheduler.queue.policy_registry import policy_names

    return [name for name in policy_names() if name.startswith(incomplete)]


@click.command("simulate", cls=JsonCommand, document="arnold.documents.simulate:SimulateDocument", epilog=EXAMPLES)
@click.option("--cluster", required=True, type=FILE, metavar="FILE", help="The cluster, in any known format.")
@trace_options
@click.option(
    "--policy",
    default="fifo",
    show_default=True,
    metavar="NAME",
    shell_complete=complete_policy,
    help="Who is asked next and who may pass whom.",
)
@click.option(
    "--algorithm",
    default="exact",
    show_default=True,
    metavar="NAME",
    shell_complete=complete_algorithm,
    help="Where gangs go; none = GPUs are counted, no nodes.",
)
@click.option(
    "--time-limit",
    "placement_seconds",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite,
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="For each placement; then the best so far.",
)
@click.option("--cluster-format", metavar="NAME", help="Format of the cluster  [default: recognised by content]")
@overlay_options
@click.option("--scale-load", type=float, callback=finite, metavar="F", help="Submissions F times as dense.")
@click.option(
    "--predictor",
    default="oracle",
    show_default=True,
    metavar="NAME",
    help="What the scheduler is told of run times: oracle, estimate, history, boosting.",
)
@click.option(
    "--cost",
    default="none",
    show_default=True,
    metavar="NAME",
    help="What spread costs jobs: none = nothing, spread, alpha-beta, hierarchical, flows. Slow nodes cost the same in "
    "all of them.",
)
@failure_options
@click.option("--level", metavar="NAME", help="Level whose domains spread counts  [default: broadest with several]")
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, metavar="N", help="Same seed, same run."
)
@output_options
@click.option(
    "--checkpoint",
    type=FILE,
    metavar="FILE",
    help="Save this run now and then, and go on from there if the file exists.",
)
@click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0),
    callback=finite,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Wall time between two savings of the run.",
)
@click.option(
    "--max-backlog-years",
    type=click.FloatRange(min=0),
    callback=finite,
    default=100.0,
    show_default=True,
    metavar="N",
    help="Give up when the work that waits would take the whole cluster longer; 0 = never.",
)
def command(
    *,
    as_json: bool,
    checkpoint: str | None,
    checkpoint_every: float,
    max_backlog_years: float,
    **options: Any,
) -> int:
    """Replay a trace of jobs on a cluster: the production scheduler decides, time flies.

    Jobs that a cluster could never hold are said before the run starts; with --lenient they are left out and counted.
    Ctrl-C leaves a checkpoint if one is asked for, and no half-written result.
    """
    from contextlib import nullcontext

    from arnold.commands.interruption import asked_to_stop
    from arnold.commands.progress import run_progress
    from simulator.alone import held_alone
    from simulator.engine.engine import Overload, Watch
    from simulator.past.diary import keep_diary
    from simulator.past.history import history

    outputs = take_outputs(options)
    replay, told = _prepare(options)
    engine = replay.engine
    diary = keep_diary(engine)
    started = perf_counter()
    with nullcontext() if checkpoint is None else held_alone(checkpoint):
        file = _begin(replay, checkpoint)
        try:
            with run_progress(len(engine.jobs)) as show_progress, asked_to_stop() as interrupted:
                save = None if file is None else file.save
                watch = Watch(progress=show_progress, interrupted=interrupted, save=save, every=checkpoint_every)
                engine.run(watch, overload=Overload(years=max_backlog_years))
        except KeyboardInterrupt:
            if file is not None:
                click.echo(f"\nSaved in {checkpoint}: the same command goes on from there.", err=True)
            raise
        seconds = perf_counter() - started if file is None else file.wall_seconds
        past = history(engine, diary, replay.places)
        notes = write_outputs(outputs, replay, past, title=Path(replay.trace.source).name)
        _tell(replay, past, seconds, [*told, *notes], as_json=as_json)
        if file is not None:
            file.remove()
    return 0


def _begin(replay: Replay, checkpoint: str | None) -> CheckpointFile | None:
    """Begin the run, or go on where its checkpoint says."""
    if checkpoint is None:
        return None
    from simulator.checkpoints import CheckpointFile

    file = CheckpointFile(checkpoint, replay)
    if file.begin():
        click.echo(f"Going on from {checkpoint}: {replay.engine.completed:,} jobs have ended.", err=True)
    return file


def _prepare(options: dict[str, Any]) -> tuple[Replay, tuple[str, ...]]:
    from simulator.replay import Settings, prepare
    from simulator.traces import scale_load

    failures = take_failures(options)
    state = {name: options.pop(name) for name in ("cluster", "levels", "gpus_per_node", "busy", "flags")}
    cluster, notes = read_cluster(format=options.pop("cluster_format"), **state)
    jobs = take_trace(options)
    if (factor := options.pop("scale_load")) is not None:
        jobs = scale_load(jobs, factor)
    lenient = options.pop("lenient")
    try:
        return prepare(jobs, cluster, Settings(**options, failures=failures), lenient=lenient), notes
    except InvalidTopology as error:
        raise InvalidTopology(error.message, where=error.where or state["cluster"], fix=error.fix) from error


def _tell(replay: Replay, past: History, seconds: float, notes: Sequence[str], *, as_json: bool) -> None:
    from arnold.documents.simulate import simulate_document
    from simulator.past.totals import totals

    engine = replay.engine
    dropped = dict(replay.trace.dropped)
    if left := len(engine.jobs) - engine.completed:
        dropped["never placed"] = left
    document = simulate_document(
        replay.summary,
        totals(past),
        policy=replay.settings.policy,
        dropped=dropped,
        fragmentation=replay.fragmentation.share,
        policy_seconds=engine.policy_seconds,
        wall_seconds=seconds,
        events=engine.events,
    )
    if as_json:
        emit_json(document)
    else:
        from arnold.commands.simulate_text import show

        show(document, replay)
    for note in [*replay.trace.notes, *notes] if as_json else notes:
        click.echo(note, err=True)
