"""``arnold defragment``: which running jobs to move so that a new one is placed well."""

import click

from arnold.console.output import answer, exit_code, searching
from arnold.options.command import JsonCommand, said_again
from arnold.options.field_options import file_option
from arnold.options.job_options import (
    PlacementInputs,
    beside_running,
    placed_and_others,
    placement_inputs,
    running_files,
    running_job,
)
from arnold.options.shared_options import RUNNING_JOBS_HELP, priority_option
from ground.errors import InvalidInput
from ground.files import read_source
from scheduler.placement.types import ALGORITHMS

MOST_TARGET = 1_000_000  # Objective / speed: a job that touches as many domains has as many nodes
MOST_LOST = 10**11  # GPU-seconds of all running jobs, 100,000 GPUs for eleven days: costs have to fit into 64 bits


@click.command("defragment", cls=JsonCommand, document="arnold.documents.defragment_answer:DefragmentDocument")
@placement_inputs
@file_option("--running", metavar="FILES", required=True, multiple=True, help=RUNNING_JOBS_HELP)
@click.option(
    "--moves", type=click.IntRange(min=0), help="Largest number of nodes that may move.  [default: as many as it takes]"
)
@click.option(
    "--cost",
    type=click.FloatRange(min=0),
    metavar="GPU_HOURS",
    help="Most work since the last checkpoints that may be lost; with it the least work is lost, instead of the fewest "
    "nodes moved. Each file of --running says its checkpoint_age in seconds.",
)
@click.option(
    "--target",
    type=click.FloatRange(0, MOST_TARGET),
    metavar="OBJECTIVE",
    help="Objective that the new job is to reach.  [default: what it has on the empty cluster]",
)
@priority_option()
def command(
    *,
    inputs: PlacementInputs,
    running: tuple[str, ...],
    moves: int | None,
    cost: float | None,
    target: float | None,
    priority: float | None,
) -> int:
    """Say which nodes of running jobs to move, and where, so that a new job is placed well at the least cost.

    Those of which a placement is given move. No running job gets a larger objective than it has, or slower nodes.
    Whether the cluster file shows the nodes of running jobs as in use makes no difference. Where no moves make room, it
    says which preemptible jobs to stop, as explain --stop does. Nothing is moved: the answer is a proposal. Exits 3 if
    the job does not fit even so, 4 if time ran out with nothing valid.

    $ arnold defragment --cluster cluster.csv --running 'placements/*.json' --job new.yaml
    $ arnold defragment --cluster cluster.csv --running 'placements/*.json' --job new.yaml --moves 20 --json
    $ arnold defragment --cluster cluster.csv --running a.json --running b.json --job new.yaml --cost 500 --target 2
    """
    from arnold.documents.defragment_answer import defragment_document, print_defragmentation
    from scheduler.several.defragmentation import MoveBudget, defragment
    from scheduler.start_times import whom_to_stop

    if moves is not None and cost is not None:
        fix = "give one of them: nodes, or GPU-hours"
        raise InvalidInput("--moves and --cost are both given", where="arnold defragment", fix=fix)
    budget = MoveBudget(moves, cost)
    files = running_files(running)
    whole, now = inputs.read_alone()
    instance, stopping = whole, None
    placed, others = placed_and_others(files)
    if others:
        instance, _ = beside_running(instance, others, now=now)
    jobs = [running_job(file, instance.cluster, with_age=cost is not None) for file in placed]
    if cost is not None and sum(job.lost_seconds for job in jobs) > MOST_LOST:
        most = max(jobs, key=lambda job: job.lost_seconds)
        raise InvalidInput(
            f"running jobs may lose more than {MOST_LOST:,} GPU-seconds, most of them "
            f"{most.job.name!r} with checkpoint_age {most.checkpoint_age:,.0f}",
            where=most.source,
            fix="give checkpoint_age in seconds",
        )
    with searching(f"Making room for {instance.job.name}", inputs.limits) as limits:
        result = defragment(
            instance.cluster,
            instance.job,
            jobs,
            solver=ALGORITHMS.load("exact"),
            limits=limits,
            budget=budget,
            target=target,
        )
        if result.outcome.evaluation is None:
            beside, live = beside_running(whole, [read_source(file) for file in files], now=now)
            stopping = whom_to_stop(
                beside.cluster, beside.job, live.running, now=now.timestamp(), priority=priority,
                solver=ALGORITHMS.load("exact"), limits=inputs.limits,
            )  # fmt: skip
        instance = instance.settled(result.outcome)
        document = defragment_document(instance, result, budget, stopping)
    then = "" if result.outcome.evaluation is None else said_again("defragment", "--json")
    answer(document, lambda out, shown: print_defragmentation(out, instance, shown, then=then))
    return exit_code(result.status)
