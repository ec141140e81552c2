"""``arnold health isolate``: a plan of two phases and a third, and the culprit."""

from __future__ import annotations

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
@_failed_option("horizontal", "Group of the first phase that failed.")
@_failed_option("vertical", "Group of the second phase that failed.")
@_failed_option("third", "Group of the third run, which the failed groups of the others make, that failed.")
@html_option
def command(
    *,
    as_json: bool,
    html: str | None,
    job_file: str | None,
    placement: str | None,
    replicas: int | None,
    horizontal: tuple[int, ...],
    vertical: tuple[int, ...],
    third: tuple[int, ...],
) -> None:
    """Find the machine that computes wrongly without an error: two short runs of the job, cut into parts two ways.

    Each part keeps TP and PP and runs a few steps on its own, all at once. The culprit is in the part that fails in
    the first run and in the part that fails in the second; a third tells several apart, or confirms one. Machines are
    numbered by node rank.

    $ arnold health isolate --job job.yaml
    $ arnold health isolate --placement placement.json --failed-horizontal 3 --failed-vertical 7
    """
    from arnold.documents.recover_answers import isolate_document, print_isolation
    from health.recovery.two_phase_replay import plan_replay

    machines = read_machines(job_file, placement)
    plan = plan_replay(machines.job, k=replicas)
    document = isolate_document(plan, machines, horizontal=horizontal, vertical=vertical, third=third)
    answer(document, partial(print_isolation, machines=machines), as_json=as_json, html=html)
