"""``arnold study simulate``: many replays of a trace, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arnold.commands.cluster_options import ClusterFiles
from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE, finite, options_of, take
from arnold.commands.output import console, emit_json, plain, progress
from arnold.commands.trace_options import TraceOptions
from simulator.replay import ReplaySettings
from topology.errors import InvalidInput

if TYPE_CHECKING:
    from scheduler.study.executors import Executor
    from simulator.study.study_plan import Inputs, StudyGrid

EXAMPLES = """\b
Examples:
  arnold study simulate --cluster cluster.csv --trace jobs.csv --policies fifo,fifo-backfill --out study.parquet
  arnold study simulate --cluster a.csv --cluster b.csv --trace jobs.csv --loads 0.8,1,1.2 --seeds 10 --resample 24
  arnold study simulate --cluster cluster.csv --trace jobs.csv --seeds 20 --dask tcp://head:8786 --html study.html
"""


@click.command("simulate", cls=JsonCommand, document="arnold.documents.study_answer:StudyDocument", epilog=EXAMPLES)
@click.option(
    "--cluster", "clusters", required=True, multiple=True, type=FILE, metavar="FILE", help="A cluster; repeat it."
)
@options_of(ClusterFiles, only=("gpus_per_node",))
@options_of(TraceOptions)
@click.option("--policies", default="fifo,fifo-backfill", show_default=True, metavar="A,B,..", help="Of the queue.")
@click.option("--algorithms", default="exact", show_default=True, metavar="A,B,..", help="Of placement, or none.")
@click.option("--loads", default="1", show_default=True, metavar="F,G,..", help="Submissions so many times as dense.")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True, metavar="N", help="0 to N-1.")
@click.option(
    "--resample",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite,
    metavar="HOURS",
    help="Each seed but 0 draws its own trace from pieces of this length.",
)
@options_of(ReplaySettings, only=("predictor", "cost", "level"))
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, metavar="N", help="Processes.")
@click.option("--dask", metavar="ADDRESS", help="Run on the workers of this Dask scheduler instead.")
@click.option("--out", type=FILE, metavar="FILE", help="Parquet, a row a run; a broken study goes on from it.")
@click.option("--html", type=FILE, metavar="FILE", help="One page of comparison; needs no network.")
def command(
    *, as_json: bool, loads: str, seeds: int, jobs: int, dask: str | None, out: str | None, **options: Any
) -> None:
    """Replay a trace under every policy, algorithm, cluster, scale of load and seed.

    Same seed, same rows, in any number of processes. With --out, runs that are there are not run again.
    """
    from importlib.metadata import version

    from arnold.commands.study_simulate_text import show
    from arnold.documents.study_answer import study_document
    from simulator.study.groups import compare
    from simulator.study.replay_sweep import sweep
    from simulator.study.study_plan import check_names

    executor = _executor(jobs, dask)
    page = options.pop("html")
    named = options.pop("policies"), options.pop("algorithms")
    grid = _grid(*named, clusters=options["clusters"], loads=loads, seeds=seeds)
    check_names(grid)
    inputs = _inputs(options)
    title = plain(Path(inputs.trace.source).name)
    points = grid.points
    with progress(f"{len(points)} runs", total=len(points)) as step:
        program = version("arnold-scheduler")
        swept = sweep(inputs, points, executor, title=title, version=program, out=out, step=step)
    compared = compare(swept.rows, title=title)
    if page is not None:
        from arnold.pages.replay import study_page
        from topology.files import write_file

        write_file(page, study_page(compared, notes=_notes(inputs, seeds)))
    if as_json:
        emit_json(study_document(compared, runs=len(points), made=swept.made))
    else:
        show(compared)
        console().print(f"\n{len(points):,} runs, {swept.made:,} of them made now.")


def _executor(jobs: int, dask: str | None) -> Executor:
    from scheduler.study.executors import local_executor
    from simulator.study.on_dask import OnDask

    return local_executor(jobs) if dask is None else OnDask(dask)


def _grid(policies: str, algorithms: str, *, clusters: tuple[str, ...], loads: str, seeds: int) -> StudyGrid:
    from simulator.study.study_plan import StudyGrid

    return StudyGrid(_names(policies), _names(algorithms), _cluster_names(clusters), _loads(loads), range(seeds))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _cluster_names(files: tuple[str, ...]) -> list[str]:
    """Return names of clusters: those of the files without folder and suffix; the whole path where two share one."""
    stems = [plain(Path(file).stem) for file in files]
    return [stem if stems.count(stem) == 1 else plain(file) for stem, file in zip(stems, files, strict=True)]


def _loads(text: str) -> list[float]:
    try:
        loads = [float(one) for one in _names(text)]
    except ValueError:
        loads = []
    if not loads or not all(0 < load < float("inf") for load in loads):
        raise InvalidInput(
            f"{text[:40]!r} are no scales of load", where="--loads", fix="write numbers above 0, e.g. 0.8,1,1.2"
        )
    return loads


def _inputs(options: dict[str, Any]) -> Inputs:
    from simulator.study.study_plan import Inputs

    files, hours, jobs = options["clusters"], options["resample"], take(TraceOptions, options)
    loaded = [ClusterFiles(file, gpus_per_node=options["gpus_per_node"]).read() for file in files]
    for file, topology in zip(files, loaded, strict=True):
        for note in topology.notes:
            click.echo(f"{file}: {note}", err=True)
    return Inputs(
        trace=jobs.read(),
        clusters=dict(zip(_cluster_names(files), (topology.cluster for topology in loaded), strict=True)),
        settings=take(ReplaySettings, options),
        lenient=jobs.lenient,
        resample=None if hours is None else hours * 3600,
    )


def _notes(inputs: Inputs, seeds: int) -> list[str]:
    if inputs.resample is not None:
        return [f"Seed 0 is the trace; each other draws pieces of {inputs.resample / 3600:g} h of it with replacement."]
    if seeds > 1:
        return ["All seeds replay the same jobs: bands show what is drawn besides, such as random placement."]
    return []
