"""``arnold study simulate``: many replays of a trace, side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from arnold.commands.simulate import compare_runs, grid_of
from arnold.console.output import note, plain
from arnold.options.cluster_options import ClusterFiles, overlay_options
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option, options_of, takes
from arnold.options.shared_options import CLUSTER_HELP, SEEDS_HELP, complete_algorithm, complete_policy, html_option
from arnold.options.simulate_options import (
    FailureOptions,
    FlagOptions,
    ModelFiles,
    ReplayOptions,
    TraceOptions,
    replay_inputs,
    takes_replay,
)
from ground.quantities import HOUR
from scheduler.job_files.own_records import OwnRecords
from simulator.replay_settings import ReplaySettings

EXAMPLES = """\b
Examples:
  arnold study simulate --cluster cluster.csv --trace jobs.csv --policy fifo,fifo-backfill --runs-out study.parquet
  arnold study simulate --cluster a.csv --cluster b.csv --trace jobs.csv --scale-load 0.8,1,1.2 --seeds 10 --resample 24
  arnold study simulate --cluster cluster.csv --trace jobs.csv --seeds 20 --dask tcp://head:8786 --html study.html
"""


@click.command("simulate", cls=JsonCommand, document="simulator.study:StudyDocument", epilog=EXAMPLES)
@file_option("--cluster", "clusters", required=True, multiple=True, help=CLUSTER_HELP)
@overlay_options
@options_of(FlagOptions)
@options_of(TraceOptions)
@options_of(OwnRecords)
@options_of(
    ReplaySettings,
    only=("policy", "algorithm"),
    defaults={"policy": "fifo,fifo-backfill"},
    completions={"policy": complete_policy, "algorithm": complete_algorithm},
)
@click.option("--seeds", type=click.IntRange(1, 10_000), default=1, show_default=True, help=SEEDS_HELP)
@click.option(
    "--resample",
    type=click.FloatRange(min=0, min_open=True),
    metavar="HOURS",
    help="Hours in each piece of the trace; every seed but 0 draws a trace from these pieces.",
)
@options_of(
    ReplaySettings,
    only=("weights", "share_by", "placement_seconds", "predictor", "cost", "level", "resume_seconds"),
)
@options_of(FailureOptions)
@options_of(ModelFiles)
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, help="Processes that run at once.")
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Dask scheduler on whose workers the runs are made.  [default: --jobs processes here]",
)
@file_option(
    "--runs-out", written=True, help="Write a row for each run, Parquet; an interrupted study continues from it."
)
@html_option
@takes_replay
@takes(files=partial(ClusterFiles, cluster=""))
def command(
    *,
    as_json: bool,
    clusters: tuple[str, ...],
    seeds: int,
    resample: float | None,
    jobs: int,
    dask: str | None,
    runs_out: str | None,
    html: str | None,
    replay: ReplayOptions,
    files: ClusterFiles,
) -> None:
    """Replay a trace under every policy, algorithm, cluster, scale of load and seed.

    Same seed, same rows, in any number of processes. With --runs-out, runs that are there are not run again.
    """
    from scheduler.study.executors import local_executor
    from simulator.study import OnDask

    grid = grid_of(replay.settings, replay.jobs.scale_load, clusters=_cluster_names(clusters), seeds=range(seeds))
    executor = local_executor(jobs) if dask is None else OnDask(dask)
    topologies = [replace(files, cluster=file, format=replay.jobs.formats()[1]).read() for file in clusters]
    for file, topology in zip(clusters, topologies, strict=True):
        note(*(f"{file}: {sentence}" for sentence in topology.notes))
    inputs, notes = replay_inputs(
        replay.first_of(grid),
        dict(zip(grid.clusters, (topology.cluster for topology in topologies), strict=True)),
    )
    note(*notes)
    inputs = replace(inputs, resample=None if resample is None else resample * HOUR)
    compare_runs(inputs, grid, executor, as_json=as_json, out=runs_out, html=html)


def _cluster_names(files: tuple[str, ...]) -> list[str]:
    """Return names of clusters: those of the files without folder and suffix; the whole path where two share one."""
    stems = [plain(Path(file).stem) for file in files]
    return [stem if stems.count(stem) == 1 else plain(file) for stem, file in zip(stems, files, strict=True)]
