"""``arnold study``: the paper's table, all algorithms on fragmented clusters, and studies of other packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Annotated

import click
from annotated_types import Interval

from arnold.commands.capacity import QuestionGroup
from arnold.commands.command_table import CommandRow, command_row
from arnold.console.output import Console, answer, print_rows, progress
from arnold.options.command import JsonCommand
from arnold.options.field_options import options_of
from arnold.options.shared_options import ALGORITHM_HELP
from scheduler.placement.types import ALGORITHMS, Limits

if TYPE_CHECKING:
    from scheduler.study.fragmented import AlgorithmLine, FragmentedStudy
    from scheduler.study.placement_sweep import Case, CaseResult, CaseResults
    from scheduler.study.table1 import Table1


STUDIES: Mapping[str, CommandRow] = {
    "table1": command_row("study:table1", "Recompute Table 1 of the Arnold paper, with the optimum."),
    "fragmented": command_row("study:fragmented", "Compare algorithms on seeded fragmented clusters."),
    "generations": CommandRow(
        "simulator.capacity.generations:GenerationsQuestion", "Compare queue policies on several generations of GPUs."
    ),
}
"""Our own studies; others come through the entry points ``arnold.studies``."""


@click.group("study", cls=QuestionGroup, table=STUDIES, plugins="arnold.studies")
def command() -> None:
    """Run a study.  Same seed, same results, whatever the number of processes."""


@dataclass(frozen=True, slots=True)
class SweepLimits(Limits):
    """Limits of each run of a sweep, and how many runs there are at once."""

    jobs: Annotated[int, Interval(ge=1, le=256)] = 1
    """Processes that run at once."""


@click.command("table1", cls=JsonCommand, document="scheduler.study.table1:Table1")
@options_of(SweepLimits, to="limits", defaults={"seconds": 10.0})
@click.option(
    "--unevenness",
    type=click.FloatRange(0.0, 0.9),
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Largest difference of a minipod's size from the mean size, as a share of the mean.",
)
def table1(*, unevenness: float, limits: SweepLimits) -> None:
    """Recompute Table 1 of the Arnold paper: its settings, program and baselines, and the optimum.

    $ arnold study table1
    $ arnold study table1 --unevenness 0.05 --seed 3 --json
    """
    from scheduler.study import table1 as study

    cases = study.cases(unevenness=unevenness, seed=limits.seed)
    answer(study.table1(cases, _sweep(cases, study.ALGORITHMS, limits)), print_table1)


@click.command("fragmented", cls=JsonCommand, document="scheduler.study.fragmented:FragmentedStudy")
@options_of(SweepLimits, to="limits", defaults={"seconds": 2.0})
@click.option("--clusters", type=click.IntRange(1, 100_000), default=10, show_default=True, help="Number of clusters.")
@click.option("--algorithm", metavar="NAME[,..]", help=f"{ALGORITHM_HELP}  [default: all]")
def fragmented(*, clusters: int, algorithm: str | None, limits: SweepLimits) -> None:
    """Compare algorithms on seeded fragmented clusters.

    $ arnold study fragmented
    $ arnold study fragmented --clusters 100 --jobs 4 --json > study.json
    $ arnold study fragmented --algorithm exact,arnold-mip,kueue-preferred
    """
    from scheduler.study import fragmented as study
    from scheduler.study.table1 import EXACT

    named = ALGORITHMS.names() if algorithm is None else tuple(name.strip() for name in algorithm.split(","))
    chosen = tuple(dict.fromkeys((EXACT, *named)))
    cases = study.cases(clusters, limits.seed)
    answer(study.fragmented_study(cases, _sweep(cases, chosen, limits), limits), print_fragmented)


def _sweep(cases: Sequence[Case], algorithms: Sequence[str], limits: SweepLimits) -> list[CaseResults]:
    from scheduler.study.executors import local_executor
    from scheduler.study.placement_sweep import sweep_placements

    with progress(f"{len(cases)} cases", total=len(cases) * len(algorithms)) as step:
        return sweep_placements(cases, algorithms, limits, local_executor(limits.jobs), step=step)


def print_table1(out: Console, document: Table1) -> None:
    """Print the settings of the paper, a column an algorithm, then the ratios over the table."""
    from scheduler.outcome import STATUS

    algorithms = [result.algorithm for result in document.settings[0].results]
    split = f"split unevenly by up to {document.unevenness:.0%}" if document.unevenness else "split evenly"
    # names break at their hyphens: six of them stand side by side
    names = [name.replace("-", "-\n") for name in algorithms]
    title = f"Table 1: objective (DP spread, PP spread), nodes {split}; * = proved optimal"
    ratio_names = ("base/\npaper", "paper/\nexact")

    def cell(result: CaseResult) -> str:
        if result.spread is None or result.objective is None:
            return STATUS[result.status]
        star = "*" if result.status == "optimal" else ""
        return f"{result.objective:.1f} ({result.spread.dp},{result.spread.pp}){star}"

    rows = []
    for line in document.settings:
        compared = map(_number, (line.baseline_to_paper, line.paper_to_exact))
        rows.append((f"({line.setting})", f"{line.alpha:g}", *map(cell, line.results), *compared))
    print_rows(out, ("setting", "alpha", *names, *ratio_names), rows, title=title, spare=ratio_names, gap=False)
    ratios = (
        ("best baseline / paper, published", document.published, "the paper's split and baselines are not published"),
        ("best baseline / paper", document.baseline_to_paper, "below 1: a baseline beats the paper's program"),
        ("best-fit / paper", document.best_fit_to_paper, "where the published numbers come from"),
        ("paper / exact", document.paper_to_exact, "how far the paper's program is from the best"),
        ("best baseline / exact", document.baseline_to_exact, ""),
    )
    cells = [(name, _number(ratio.largest), _number(ratio.mean), remark) for name, ratio, remark in ratios]
    print_rows(out, ("ratio", "at most", "on average", ""), cells, title="Over the table", left=[""])


def print_fragmented(out: Console, document: FragmentedStudy) -> None:
    """Print a row for each algorithm, the best first, then systems in their best modes."""
    counts, worth = ("placed", "infeasible", "unsolved", "proved"), ("objective", "x exact", "at most", "level")
    names = ("algorithm", *counts, *worth, "mean s", "median s")
    title = f"{document.clusters} fragmented clusters of seed {document.seed}, {document.time_limit:g} s each"
    spare = ("median s", "mean s", "level", "at most", "unsolved", "infeasible")
    best_first = sorted(document.lines, key=lambda line: (line.placed < document.clusters, line.mean_ratio or inf))
    print_rows(out, names, [*map(_line, best_first)], title=title, spare=spare, gap=False)
    best_title = "Systems, the best mode chosen by hand for each job"
    print_rows(out, names, [*map(_line, document.best_modes)], title=best_title, spare=spare)
    out.print(
        "\nplaced: valid placements; infeasible: the rule admits none; proved: optimal; objective: mean of the placed;"
        "\nx exact, at most: objective over that of exact, mean and largest, where both placed the job;"
        "\nlevel: no worse than exact."
    )


def _line(line: AlgorithmLine) -> tuple[object, ...]:
    counts = (line.placed, line.infeasible, line.unsolved, line.proved)
    worth = map(_number, (line.objective, line.mean_ratio, line.largest_ratio))
    seconds = f"{line.mean_seconds:.3f}", f"{line.median_seconds:.3f}"
    return (line.algorithm, *counts, *worth, line.level_with_exact, *seconds)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
