"""``arnold defragment``: which running jobs to move so that a new one is placed well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from arnold.console.output import BAD, answer, exit_code, print_rows, print_sentences, progress
from arnold.options.command import JsonCommand
from arnold.options.field_options import file_option
from arnold.options.job_options import PlacementInputs, placement_inputs, running_files, running_job
from arnold.options.shared_options import RUNNING_HELP
from ground.errors import InvalidInput
from ground.quantities import decimal, plural

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.place_answer import DefragmentDocument
    from scheduler.outcome import Instance
    from scheduler.several.defragmentation import MoveBudget
    from scheduler.several.running_jobs import RunningJob

LONGEST = 40  # Most rows of a table on a terminal
MOST_TARGET = 1_000_000  # Objective / speed: a job that touches as many domains has as many nodes
MOST_LOST = 10**11  # GPU-seconds of all running jobs, 100,000 GPUs for eleven days: costs have to fit into 64 bits
EXAMPLES = """\b
Examples:
  arnold defragment --cluster cluster.csv --running 'placements/*.json' --job new.yaml
  arnold defragment --cluster cluster.csv --running 'placements/*.json' --job new.yaml --moves 20 --json
  arnold defragment --cluster cluster.csv --running a.json --running b.json --job new.yaml --cost 500 --target 2
"""


@click.command(
    "defragment", cls=JsonCommand, document="arnold.documents.place_answer:DefragmentDocument", epilog=EXAMPLES
)
@placement_inputs
@file_option("--running", metavar="FILES", required=True, multiple=True, help=RUNNING_HELP)
@click.option(
    "--moves", type=int, metavar="N", help="Largest number of nodes that may move.  [default: as many as it takes]"
)
@click.option(
    "--cost",
    type=float,
    metavar="GPU_HOURS",
    help="Most work since the last checkpoints that may be lost; with it the least work is lost, instead of the fewest "
    "nodes moved. Each file of --running says its checkpoint_age in seconds.",
)
@click.option(
    "--target",
    type=float,
    metavar="OBJECTIVE",
    help="Objective that the new job is to reach.  [default: what it has on the empty cluster]",
)
def command(
    *,
    as_json: bool,
    inputs: PlacementInputs,
    running: tuple[str, ...],
    moves: int | None,
    cost: float | None,
    target: float | None,
) -> int:
    """Say which nodes of running jobs to move, and where, so that a new job is placed well at the least cost.

    No running job gets a larger objective than it has, or slower nodes. Whether the cluster file shows the nodes of
    running jobs as in use makes no difference. Nothing is moved: the answer is a proposal. Exits 3 if the job does not
    fit even so, 4 if time ran out with nothing valid.
    """
    from arnold.documents.place_answer import defragment_document
    from scheduler.placement.types import ALGORITHMS
    from scheduler.several.defragmentation import defragment

    budget = _budget(moves, cost, target)
    files = running_files(running)
    instance = inputs.read()
    jobs = [running_job(file, instance.cluster, with_age=cost is not None) for file in files]
    if cost is not None:
        _check_lost(jobs)
    with progress(f"Making room for {instance.job.name}") as say:
        found = defragment(
            instance.cluster,
            instance.job,
            jobs,
            solver=ALGORITHMS.load("exact"),
            limits=replace(inputs.limits, progress=say),
            budget=budget,
            target=target,
        )
        instance = instance.settled(found.outcome)
        document = defragment_document(instance, found, budget)
    answer(document, lambda out, shown: _print(out, instance, shown), as_json=as_json)
    return exit_code(found.status)


def _budget(moves: int | None, cost: float | None, target: float | None) -> MoveBudget:
    """Return what the moves may cost.

    :raises InvalidInput: both limits are given, or a number below 0.
    """
    from scheduler.several.defragmentation import MoveBudget

    if moves is not None and cost is not None:
        fix = "give one of them: nodes, or GPU-hours"
        raise InvalidInput("--moves and --cost are both given", where="arnold defragment", fix=fix)
    for option, number in (("--moves", moves), ("--cost", cost), ("--target", target)):
        if number is not None and number < 0:
            raise InvalidInput(f"{number:g} is below 0", where=option, fix="give 0 or more")
    if target is not None and target > MOST_TARGET:
        raise InvalidInput(f"{target:g} is no objective", where="--target", fix=f"give 0 to {MOST_TARGET:,}")
    return MoveBudget(moves, cost)


def _check_lost(jobs: Sequence[RunningJob]) -> None:
    """Make sure that the work that running jobs may lose can be added up exactly.

    :raises InvalidInput: there is too much of it; says which job has most.
    """
    if sum(job.lost_seconds for job in jobs) > MOST_LOST:
        most = max(jobs, key=lambda one: one.lost_seconds)
        raise InvalidInput(
            f"running jobs may lose more than {MOST_LOST:,} GPU-seconds, most of them "
            f"{most.job.name!r} with checkpoint_age {most.checkpoint_age:,.0f}",
            where=most.source,
            fix="give checkpoint_age in seconds",
        )


def _print(out: Console, instance: Instance, document: DefragmentDocument) -> None:
    from rich.text import Text

    from arnold.texts.place_text import COLOURS, LONGEST_NAMES, print_head
    from scheduler.outcome import status_words
    from topology.node_names import spell_names

    print_head(out, instance)
    out.print()
    verdict = status_words(document.status, document.stopped_at)
    seconds = Text(f"  ({document.solve_seconds:.2f} s)", "dim")
    if document.objective is None:
        out.print(Text(f"{verdict}: {document.placement.reason}", BAD) + seconds)
        print_sentences(out, "Notes", [*document.placement.notes, *document.notes])
        return
    cost = _amount(document, document.cost)
    if document.cost > document.least_cost + 1e-9:
        cost += f" (at least {_amount(document, document.least_cost)})"
    now = "does not fit" if document.now is None else f"objective {decimal(document.now)}"
    worth = f"{verdict}: {cost}, then objective {decimal(document.objective)}; if nothing moves: {now}"
    out.print(Text(worth, COLOURS.get(document.status, BAD)) + seconds)
    aim = "reached" if document.reached else "not reached"
    out.print(f"target {decimal(document.target)}: {aim}")
    rows = [
        [
            one.job,
            one.nodes,
            one.moved,
            "?" if one.gpu_hours is None else f"{one.gpu_hours:,.1f}",
            decimal(one.before.objective),
            decimal(one.after.objective),
        ]
        for one in document.running
        if one.moved
    ]
    headers = ["job", "nodes", "moved", "GPU-hours lost", "objective", "then"]
    print_rows(out, headers, rows, title="Running jobs that move", most=LONGEST)
    table = [[move.job, move.node_rank, move.source, move.target] for move in document.moves]
    print_rows(out, ["job", "rank", "from", "to"], table, title="Moves", left=["from", "to"], most=LONGEST)
    placed = spell_names((cell.node for cell in document.placement.assignment), most=LONGEST_NAMES)
    print_sentences(out, f"Nodes of {instance.job.name}", [placed])
    print_sentences(out, "Notes", [*document.placement.notes, *document.notes])


def _amount(document: DefragmentDocument, cost: float) -> str:
    if document.measure == "moves":
        return f"{plural(round(cost), 'node')} moved"
    return f"{decimal(cost)} GPU-hours lost"
