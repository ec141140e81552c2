"""``arnold study simulate``: many replays of a trace, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arnold.commands.cluster_options import OVERLAY, ClusterFiles, check_stdin, overlay_options
from arnold.commands.command import JsonCommand
from arnold.commands.compared_runs import compare_runs, grid_of
from arnold.commands.field_options import FILE, finite, options_of, take
from arnold.commands.model_files import ModelFiles
from arnold.commands.output import plain
from arnold.commands.place import complete_algorithm
from arnold.commands.result_files import RESULT
from arnold.commands.shared_options import CLUSTER_HELP, PAGE_HELP, SEEDS_HELP
from arnold.commands.simulate import READ, complete_policy
from arnold.commands.simulate_options import FailureOptions, FlagOptions, TraceOptions
from arnold.commands.verbosity import note
from simulator.replay_settings import ReplaySettings

if TYPE_CHECKING:
    from simulator.study.study_run import Inputs

EXAMPLES = """\b
Examples:
  arnold study simulate --cluster cluster.csv --trace jobs.csv --policy fifo,fifo-backfill --runs-out study.parquet
  arnold study simulate --cluster a.csv --cluster b.csv --trace jobs.csv --scale-load 0.8,1,1.2 --seeds 10 --resample 24
  arnold study simulate --cluster cluster.csv --trace jobs.csv --seeds 20 --dask tcp://head:8786 --html study.html
"""


@click.command("simulate", cls=JsonCommand, document="simulator.study.compared:StudyDocument", epilog=EXAMPLES)
@click.option(
    "--cluster",
    "clusters",
    required=True,
    multiple=True,
    type=FILE,
    metavar="FILE",
    help=CLUSTER_HELP,
)
@overlay_options
@options_of(FlagOptions)
@options_of(TraceOptions)
@options_of(
    ReplaySettings,
    only=("policy", "algorithm"),
    defaults={"policy": "fifo,fifo-backfill"},
    completions={"policy": complete_policy, "algorithm": complete_algorithm},
)
@click.option("--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True, metavar="N", help=SEEDS_HELP)
@click.option(
    "--resample",
    type=click.FloatRange(min=0, min_open=True),
    callback=finite,
    metavar="HOURS",
    help="Hours in each piece of the trace; every seed but 0 draws a trace from these pieces.",
)
@options_of(
    ReplaySettings,
    only=("weights", "share_by", "placement_seconds", "predictor", "cost", "level", "resume_seconds"),
)
@options_of(FailureOptions)
@options_of(ModelFiles)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that run at once.",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Dask scheduler on whose workers the runs are made.  [default: --jobs processes here]",
)
@click.option(
    "--runs-out",
    type=RESULT,
    metavar="FILE",
    help="Write a row for each run, Parquet; an interrupted study continues from it.",
)
@click.option("--html", type=RESULT, metavar="FILE", help=PAGE_HELP)
def command(*, as_json: bool, seeds: int, jobs: int, dask: str | None, runs_out: str | None, **options: Any) -> None:
    """Replay a trace under every policy, algorithm, cluster, scale of load and seed.

    Same seed, same rows, in any number of processes. With --runs-out, runs that are there are not run again.
    """
    from scheduler.study.executors import local_executor
    from simulator.study.on_dask import OnDask

    grid = grid_of(options, clusters=_cluster_names(options["clusters"]), seeds=range(seeds))
    options |= {"policy": grid.policies[0], "algorithm": grid.algorithms[0]}
    html, executor = options.pop("html"), local_executor(jobs) if dask is None else OnDask(dask)
    compare_runs(_inputs(options), grid, executor, as_json=as_json, out=runs_out, html=html)


def _cluster_names(files: tuple[str, ...]) -> list[str]:
    """Return names of clusters: those of the files without folder and suffix; the whole path where two share one."""
    stems = [plain(Path(file).stem) for file in files]
    return [stem if stems.count(stem) == 1 else plain(file) for stem, file in zip(stems, files, strict=True)]


def _inputs(options: dict[str, Any]) -> Inputs:
    from simulator.study.study_run import Inputs

    check_stdin({f"--{name}": options[name] for name in READ if name in options})
    files, hours, jobs = options["clusters"], options["resample"], take(TraceOptions, options)
    failing = take(FailureOptions, options)
    reading = {name: options[name] for name in OVERLAY}
    _, of_clusters = jobs.formats()
    loaded = [ClusterFiles(file, format=of_clusters, **reading).read() for file in files]
    for file, topology in zip(files, loaded, strict=True):
        for sentence in topology.notes:
            note(f"{file}: {sentence}")
    chosen = take(
        ReplaySettings,
        options,
        records=jobs.measured(),
        throughputs=jobs.rates(),
        failures=failing.settings(),
    )
    trace, nodes = jobs.read(), {name for topology in loaded for name in topology.cluster.names}
    models, clusters = take(ModelFiles, options), [topology.cluster for topology in loaded]
    chosen, of_models = models.settings(chosen, trace, clusters, restart=failing.restart)
    settings, of_flags = take(FlagOptions, options).settings(chosen, trace, nodes)
    for sentence in (*of_models, *of_flags):
        note(sentence)
    return Inputs(
        trace=trace,
        clusters=dict(zip(_cluster_names(files), clusters, strict=True)),
        settings=settings,
        lenient=jobs.lenient,
        resample=None if hours is None else hours * 3600,
    )
