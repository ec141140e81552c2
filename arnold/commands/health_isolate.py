"""``arnold health isolate``: a plan of runs of a job in parts, and the culprit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial

import click

from arnold.console.output import answer
from arnold.options.command import JsonCommand
from arnold.options.field_options import F
from arnold.options.job_options import read_machines, running_job_options
from arnold.options.shared_options import html_option


def _failed_option(run: str, help: str) -> Callable[[F], F]:
    """Return the option ``--failed-RUN``: groups of a run, by number."""
    return click.option(f"--failed-{run}", run, type=click.IntRange(min=0), multiple=True, help=help)


@click.command("isolate", cls=JsonCommand, document="arnold.documents.recover_answers:IsolateDocument")
@running_job_options
@click.option(
    "--replicas", type=click.IntRange(min=1), help="Replicas of a group.  [default: the most that leave one culprit]"
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="How many times each group of a run is run; name a group once for each time it failed.",
)
@click.option(
    "--runs-made",
    "runs",
    type=click.IntRange(0, 100),
    default=0,
    help="Runs made so far.  [default: up to the last that failed]",
)
@_failed_option("horizontal", "Group of the first run that failed.")
@_failed_option("vertical", "Group of the second run that failed.")
@_failed_option("third", "Group of the third run that failed.")
@click.option(
    "--failed",
    type=(click.IntRange(1, 100), click.IntRange(min=0)),
    metavar="RUN GROUP",
    multiple=True,
    help="Group of any run that failed.",
)
@html_option
def command(
    *,
    as_json: bool,
    html: str | None,
    job_file: str | None,
    placement: str | None,
    replicas: int | None,
    repeats: int,
    runs: int,
    horizontal: tuple[int, ...],
    vertical: tuple[int, ...],
    third: tuple[int, ...],
    failed: tuple[tuple[int, int], ...],
) -> None:
    """Find the machine that computes wrongly without an error: short runs of the job, cut into parts another way each.

    Each part keeps TP and PP and runs a few steps on its own, all at once. A culprit's part fails in nearly every run,
    a healthy one by chance. Once a machine is at fault almost surely it is named; until then the next run has apart
    who is suspected. Machines are numbered by node rank.

    $ arnold health isolate --job job.yaml
    $ arnold health isolate --placement placement.json --failed-horizontal 3 --failed-vertical 7
    $ arnold health isolate --placement placement.json --failed 1 3 --failed 2 7 --failed 3 0 --runs-made 4
    """
    from arnold.documents.recover_answers import isolate_document, print_isolation
    from health.recovery.two_phase_replay import plan_replay, replay

    machines = read_machines(job_file, placement)
    failed_of: dict[int, Counter[int]] = defaultdict(Counter)
    for run, groups in enumerate((horizontal, vertical, third), 1):
        if groups:
            failed_of[run].update(groups)
    for run, group in failed:
        failed_of[run][group] += 1
    replays = replay(plan_replay(machines.job, k=replicas), failed_of, runs=runs, repeats=repeats)
    document = isolate_document(replays, machines)
    answer(document, partial(print_isolation, machines=machines), as_json=as_json, html=html)
