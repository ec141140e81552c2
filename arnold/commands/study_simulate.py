"""``arnold study simulate``: many replays of a trace, side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arnold.commands.cluster_options import ClusterFiles, check_stdin
from arnold.commands.command import JsonCommand
from arnold.commands.field_options import FILE, finite, options_of, take
from arnold.commands.model_files import ModelFiles
from arnold.commands.output import console, emit_json, plain, progress, table
from arnold.commands.result_files import RESULT
from arnold.commands.simulate import READ
from arnold.commands.simulate_options import FlagOptions, TraceOptions
from simulator.replay_settings import ReplaySettings
from topology.errors import InvalidInput

if TYPE_CHECKING:
    from scheduler.study.executors import Executor
    from simulator.study.compared import ComparedMetric, Comparison, RunGroup
    from simulator.study.study_run import Inputs

EXAMPLES = """\b
Examples:
  arnold study simulate --cluster cluster.csv --trace jobs.csv --policies fifo,fifo-backfill --out study.parquet
  arnold study simulate --cluster a.csv --cluster b.csv --trace jobs.csv --loads 0.8,1,1.2 --seeds 10 --resample 24
  arnold study simulate --cluster cluster.csv --trace jobs.csv --seeds 20 --dask tcp://head:8786 --html study.html
"""


@click.command("simulate", cls=JsonCommand, document="simulator.study.compared:StudyDocument", epilog=EXAMPLES)
@click.option(
    "--cluster", "clusters", required=True, multiple=True, type=FILE, metavar="FILE", help="A cluster; repeat it."
)
@options_of(ClusterFiles, only=("level_names", "gpus_per_node", "gpu_type"))
@options_of(FlagOptions)
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
@options_of(ModelFiles)
@options_of(ReplaySettings, only=("weights", "share_by", "predictor", "cost", "level", "resume_seconds"))
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, metavar="N", help="Processes.")
@click.option("--dask", metavar="ADDRESS", help="Run on the workers of this Dask scheduler instead.")
@click.option("--out", type=RESULT, metavar="FILE", help="Parquet, a row a run; a broken study goes on from it.")
@click.option("--html", type=RESULT, metavar="FILE", help="One page of comparison; needs no network.")
def command(
    *, as_json: bool, loads: str, seeds: int, jobs: int, dask: str | None, out: str | None, **options: Any
) -> None:
    """Replay a trace under every policy, algorithm, cluster, scale of load and seed.

    Same seed, same rows, in any number of processes. With --out, runs that are there are not run again.
    """
    from importlib.metadata import version

    from scheduler.study.executors import local_executor
    from simulator.study.compared import StudyDocument, compare
    from simulator.study.on_dask import OnDask
    from simulator.study.study_file import sweep
    from simulator.study.study_run import StudyGrid, check_names

    executor: Executor = local_executor(jobs) if dask is None else OnDask(dask)
    page = options.pop("html")
    policies, algorithms = _names(options.pop("policies")), _names(options.pop("algorithms"))
    grid = StudyGrid(policies, algorithms, _cluster_names(options["clusters"]), _loads(loads), range(seeds))
    loaded = check_names(grid)
    inputs = _inputs(options)
    inputs.settings.check_policies(loaded, inputs.trace.records)
    for algorithm in algorithms:
        replace(inputs.settings, algorithm=algorithm)  # refuses models that need nodes before a run is made
    title = plain(Path(inputs.trace.source).name)
    points = grid.points
    with progress(f"{len(points)} runs", total=len(points)) as step:
        program = version("arnold-scheduler")
        swept = sweep(inputs, points, executor, title=title, version=program, out=out, step=step)
    compared = compare(swept.rows, title=title)
    if page is not None:
        from arnold.pages.replay.comparison import study_page
        from topology.files import write_file

        write_file(page, study_page(compared, notes=_notes(inputs, seeds)))
    if as_json:
        emit_json(StudyDocument(title=title, runs=len(points), made=swept.made, groups=compared.groups))
    else:
        _show(compared)
        console().print(f"\n{len(points):,} runs, {swept.made:,} of them made now.")


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
    from simulator.study.study_run import Inputs

    check_stdin({f"--{name}": options[name] for name in READ if name in options})
    files, hours, jobs = options["clusters"], options["resample"], take(TraceOptions, options)
    read = {name: options[name] for name in ("level_names", "gpus_per_node", "gpu_type")}
    loaded = [ClusterFiles(file, **read).read() for file in files]
    for file, topology in zip(files, loaded, strict=True):
        for note in topology.notes:
            click.echo(f"{file}: {note}", err=True)
    chosen = take(ReplaySettings, options, records=jobs.measured(), throughputs=jobs.rates())
    trace, nodes = jobs.read(), {name for topology in loaded for name in topology.cluster.names}
    clusters = [topology.cluster for topology in loaded]
    chosen, of_models = take(ModelFiles, options).settings(chosen, trace, clusters)
    settings, of_flags = take(FlagOptions, options).settings(chosen, trace, nodes)
    for note in (*of_models, *of_flags):
        click.echo(note, err=True)
    return Inputs(
        trace=trace,
        clusters=dict(zip(_cluster_names(files), clusters, strict=True)),
        settings=settings,
        lenient=jobs.lenient,
        resample=None if hours is None else hours * 3600,
    )


def _notes(inputs: Inputs, seeds: int) -> list[str]:
    if inputs.resample is not None:
        return [f"Seed 0 is the trace; each other draws pieces of {inputs.resample / 3600:g} h of it with replacement."]
    if seeds > 1:
        return ["All seeds replay the same jobs: bands show what is drawn besides, such as random placement."]
    return []


def _show(compared: Comparison) -> None:
    """Print two tables: times, and everything else; what is the same in all runs is said once."""
    from topology.quantities import label_of

    out = console()
    several = len(compared.loads) > 1
    times = [metric for metric in compared.differing if metric.kind == "seconds"]
    others = [metric for metric in compared.differing if metric.kind != "seconds"]
    for metrics, title in ((times, f"{compared.title}: mean over seeds ± half of its 95% interval"), (others, "")):
        if not metrics:
            continue
        load = ("load",) if several else ()
        rows = table("", *load, "runs", *(_lower(metric.title) for metric in metrics), title=title)
        for group in compared.groups:
            runs = str(group.runs) + (f" +{group.diverged} diverged" if group.diverged else "")
            scale = (f"{group.load:g}",) if several else ()
            rows.add_row(group.name, *scale, runs, *(_cell(group, metric) for metric in metrics))
        out.print(rows)
    if same := ", ".join(f"{_lower(metric.title)} {label_of(value, metric.kind)}" for metric, value in compared.same):
        out.print(f"The same in all runs: {same}.")


def _cell(group: RunGroup, metric: ComparedMetric) -> str:
    band = group.metrics.get(metric.column)
    return "-" if band is None else band.label(metric.kind)


def _lower(title: str) -> str:
    """Return a title inside a line; acronyms stay."""
    return title if title[:2].isupper() else title[0].lower() + title[1:]
