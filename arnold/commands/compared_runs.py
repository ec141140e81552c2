"""Replays side by side: ``arnold simulate`` with several policies or algorithms, and ``arnold study simulate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from arnold.console.output import console, emit_json, plain, print_rows, progress
from arnold.console.verbosity import note
from ground.errors import InvalidInput
from ground.quantities import HOUR, duration, label_of, plural

if TYPE_CHECKING:
    from scheduler.study.executors import Executor
    from simulator.replay_settings import ReplaySettings
    from simulator.study import ComparedMetric, Comparison, Inputs, RunGroup, StudyGrid


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
        from arnold.pages.replay.comparison import study_page
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
