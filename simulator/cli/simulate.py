"""``arnold simulate``: a cluster over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from scheduler.cli.command import JsonCommand
from scheduler.cli.instance import FILE, finite, overlay_options, read_cluster
from scheduler.cli.output import emit_json
from scheduler.cli.place import complete_algorithm
from simulator.cli.failure_options import failure_options, take_failures
from simulator.cli.outputs import output_options, take_outputs, write_outputs
from topology.errors import InvalidTopology

if TYPE_CHECKING:
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
    from scheduler.queue.registry import policy_names

    return [name for name in policy_names() if name.startswith(incomplete)]


@click.command("simulate", cls=JsonCommand, document="simulator.documents.simulate:SimulateDocument", epilog=EXAMPLES)
@click.option("--cluster", required=True, type=FILE, metavar="FILE", help="The cluster, in any known format.")
@click.option("--trace", required=True, type=FILE, metavar="FILE", help="The jobs, in any known format; - is stdin.")
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
@click.option("--format", metavar="NAME", help="Format of the trace  [default: recognised by content]")
@click.option("--cluster-format", metavar="NAME", help="Format of the cluster  [default: recognised by content]")
@overlay_options
@click.option("--lenient/--strict", default=False, help="Count rows and jobs that cannot be, or stop at the first.")
@click.option("--merge", type=FILE, multiple=True, metavar="FILE", help="Another trace on the same clock; repeat it.")
@click.option(
    "--window", metavar="A..B", help="Only jobs submitted from A until B: seconds or dates of the trace, or +2d."
)
@click.option("--max-gpus", type=float, callback=finite, metavar="N", help="Only jobs of at most N GPUs.")
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
    help="What spread and slow nodes cost jobs: none = nothing, spread, alpha-beta, hierarchical, flows.",
)
@failure_options
@click.option("--level", metavar="NAME", help="Level whose domains spread counts  [default: broadest with several]")
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, metavar="N", help="Same seed, same run."
)
@output_options
@click.option(
    "--checkpoint", type=FILE, metavar="FILE", help="Save the run now and then, and go on from it if it exists."
)
@click.option(
    "--checkpoint-every",
    type=click.FloatRange(min=0),
    callback=finite,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Wall time between two checkpoints.",
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
    from simulator.checkpoints import CheckpointFile
    from simulator.cli.interruption import asked_to_stop
    from simulator.cli.progress import run_progress
    from simulator.engine.overload import Overload
    from simulator.engine.run import Watch, run
    from simulator.report.diary import keep_diary

    outputs = take_outputs(options)
    replay, told = _prepare(**options)
    engine, file = replay.engine, None
    diary = keep_diary(engine)
    started = perf_counter()
    if checkpoint is None:
        engine.begin()
    else:
        file = CheckpointFile(checkpoint, replay)
        if file.begin():
            click.echo(f"Going on from {checkpoint}: {engine.completed:,} jobs have ended.", err=True)
    with run_progress(len(engine.jobs)) as show_progress, asked_to_stop() as interrupted:
        save = None if file is None else file.save
        watch = Watch(progress=show_progress, interrupted=interrupted, save=save, every=checkpoint_every)
        run(engine, watch, overload=Overload(years=max_backlog_years))
    seconds = perf_counter() - started if file is None else file.wall_seconds
    notes = write_outputs(outputs, replay, diary, title=Path(replay.trace.source).name)
    _tell(replay, seconds, [*told, *notes], as_json=as_json)
    if file is not None:
        file.remove()
    return 0


def _prepare(
    *,
    cluster: str,
    trace: str,
    format: str | None,
    cluster_format: str | None,
    lenient: bool,
    merge: tuple[str, ...],
    window: str | None,
    max_gpus: float | None,
    scale_load: float | None,
    **settings: Any,
) -> tuple[Replay, tuple[str, ...]]:
    from simulator.replay import Settings, prepare
    from simulator.traces import max_gpus as keep_small
    from simulator.traces import merge as merge_traces
    from simulator.traces import read_trace
    from simulator.traces import scale_load as scale
    from simulator.traces import window as cut
    from simulator.traces.moments import parse_window

    failures = take_failures(settings)
    state = {name: settings.pop(name) for name in ("levels", "busy", "flags")}
    tree, notes = read_cluster(cluster=cluster, format=cluster_format, **state)
    jobs = read_trace(trace, format=format, lenient=lenient)
    if merge:
        jobs = merge_traces([jobs, *(read_trace(path, lenient=lenient) for path in merge)])
    if window is not None:
        jobs = cut(jobs, *parse_window(window, jobs))
    if max_gpus is not None:
        jobs = keep_small(jobs, max_gpus)
    if scale_load is not None:
        jobs = scale(jobs, scale_load)
    try:
        return prepare(jobs, tree, Settings(**settings, failures=failures), lenient=lenient), notes
    except InvalidTopology as error:
        raise InvalidTopology(error.message, where=error.where or cluster, fix=error.fix) from error


def _tell(replay: Replay, seconds: float, notes: Sequence[str], *, as_json: bool) -> None:
    from simulator.documents.simulate import simulate_document

    engine = replay.engine
    dropped = dict(replay.trace.dropped)
    if left := len(engine.jobs) - engine.completed:
        dropped["never placed"] = left
    document = simulate_document(
        replay.summary,
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
        from simulator.cli.simulate_text import show

        show(document, replay)
    for note in [*replay.trace.notes, *notes] if as_json else notes:
        click.echo(note, err=True)
