"""``arnold explain``: why it cannot be better, or why it does not fit."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import click

from arnold.commands.place import of_a_change
from arnold.console.output import answer, exit_code, searching
from arnold.options.command import JsonCommand, said_again
from arnold.options.field_options import file_option
from arnold.options.job_options import PlacementInputs, placement_inputs
from arnold.options.shared_options import RUNNING_JOBS_HELP, own_page_option, policy_option, priority_option
from ground.errors import InvalidInput, some
from ground.files import write_file
from scheduler.placement.types import ALGORITHMS, Status

if TYPE_CHECKING:
    from scheduler.outcome import Instance
    from topology.running_jobs import LiveJobs


@click.command("explain", cls=JsonCommand, document="arnold.documents.start_answers:ExplainOutput")
@placement_inputs
@file_option("--running", metavar="FILES", multiple=True, help=RUNNING_JOBS_HELP, needs=("--when", "--stop"))
@click.option("--when", is_flag=True, help="When the job starts as running ones end, and whether waiting pays.")
@file_option(
    "--history",
    metavar="TRACE",
    needs=("--when",),
    help="With --when, a trace of jobs that ended, as arnold simulate reads it: those that run or wait take as long as "
    "those of the same owner, account and GPUs took.",
)
@policy_option("--when")
@click.option("--stop", is_flag=True, help="Which running jobs to stop, at the least loss, so that it starts at once.")
@priority_option("--stop")
@own_page_option
def command(
    *,
    html: str | None,
    inputs: PlacementInputs,
    running: tuple[str, ...],
    when: bool,
    history: str | None,
    policy: str,
    stop: bool,
    priority: float | None,
) -> int:
    """Say why a placement cannot be better, or why the job does not fit and what would help.

    Every cheaper pair of spreads is shown with what rules it out; every suggestion was verified by solving the changed
    instance. Where nodes are slow, avoiding them and using them are both solved, with predicted step times. Exits 3 if
    the job does not fit, 4 if time ran out with nothing valid.

    $ arnold explain --cluster cluster.csv --job job.yaml
    $ arnold explain --cluster cluster.csv --job job.yaml --alpha 0.8 --json
    $ arnold explain --cluster kube:prod --levels example.com/minipod,example.com/rack --job job.yaml
    $ arnold explain --cluster slurm: --job job.yaml --running jobs.txt --when
    $ arnold explain --cluster cluster.csv --job job.yaml --running jobs.yaml --stop --json
    """
    from arnold.documents.explain_answer import explain_document, explanation_cards, print_explanation
    from scheduler.algorithm_run import run
    from scheduler.explanation import diagnose, weigh

    if when and stop:
        raise InvalidInput("--when and --stop are both given", where="arnold explain", fix="ask one after the other")
    if (when or stop) and html is not None:
        raise InvalidInput("there is no page of running jobs", where="--html", fix="leave --html out")
    if when:
        return _when(inputs, running, history=history, policy=policy)
    if stop:
        return _stop(inputs, running, priority=priority)
    solver = ALGORITHMS.load("exact")
    instance = inputs.read()
    cluster, job = instance.cluster, instance.job
    with searching(f"Explaining {job.name}", inputs.limits) as limits:
        outcome = run(solver, cluster, job, limits)
        diagnosis = None
        options = weigh(cluster, job, outcome, solver=solver, limits=limits)
        if outcome.status == "infeasible":
            diagnosis = diagnose(cluster, job, outcome, solver=solver, limits=of_a_change(limits))
    instance = instance.settled(outcome)
    document = explain_document(instance, outcome, options=options, diagnosis=diagnosis)
    if html is not None:
        from arnold.pages.placement_page import placement_page

        write_file(html, placement_page(cluster, instance.job, [outcome], more=explanation_cards(document)))
    then = "" if outcome.evaluation is None else said_again("place", without=("--html",))
    answer(document, lambda out, shown: print_explanation(out, instance, outcome, shown, then=then))
    return exit_code(outcome.status)


def _when(inputs: PlacementInputs, running: tuple[str, ...], *, history: str | None, policy: str) -> int:
    """Say when the job starts beside those that run and wait, by the policy of the queue."""
    from arnold.documents.start_answers import print_when, when_document
    from scheduler.queue.policy import POLICIES
    from scheduler.start_times import start_times

    if POLICIES.load(policy).sharing:
        unknown = f"{policy} orders the owners of jobs, and which of them asks is not known"
        raise InvalidInput(unknown, where="--policy", fix="choose one such as fifo-backfill or priority-age")
    instance, jobs, now = _beside(inputs, running)
    cluster, job, seconds, solver = instance.cluster, instance.job, now.timestamp(), ALGORITHMS.load("exact")
    with searching(f"Making room for {job.name}", inputs.limits) as limits:
        queue, run_times = None, None
        # a gang of a live cluster waits itself
        place = next((turn for turn, other in enumerate(jobs.waiting) if other.name == job.name), None)
        if waiting := [other for other in jobs.waiting if other.name != job.name]:
            from simulator.start_forecast import QueueForecast

            queue = QueueForecast(
                cluster, job, jobs.running, waiting, place=place, now=seconds, solver=solver, limits=limits,
                policy=policy,
            )  # fmt: skip
            if queue.elsewhere:
                left = f"left out, as they could not run on these nodes if they were empty: {some(queue.elsewhere)}"
                instance = replace(instance, notes=(*instance.notes, f"of the jobs that wait {left}"))
        if history is not None:
            from simulator.start_forecast import run_times_of
            from simulator.traces import read_trace

            run_times = run_times_of(read_trace(history).records)
        starts = start_times(
            cluster, job, jobs.running, now=seconds, solver=solver, limits=limits, queue=queue, history=run_times
        )
    document = when_document(instance, starts, now=seconds)
    answer(document, lambda out, shown: print_when(out, instance, shown))
    never: Status = "infeasible" if document.stopped_at is None else "timeout"
    return 0 if document.start.p50 is not None else exit_code(never)


def _stop(inputs: PlacementInputs, running: tuple[str, ...], *, priority: float | None) -> int:
    """Say which running jobs to stop so that the job starts at once."""
    from arnold.documents.start_answers import print_stop, stop_document
    from scheduler.start_times import whom_to_stop

    instance, jobs, now = _beside(inputs, running)
    with searching(f"Making room for {instance.job.name}", inputs.limits) as limits:
        stopping = whom_to_stop(
            instance.cluster, instance.job, jobs.running, now=now.timestamp(), priority=priority,
            solver=ALGORITHMS.load("exact"), limits=limits,
        )  # fmt: skip
    instance = instance.settled(stopping.outcome)
    document = stop_document(instance, stopping, now=now.timestamp())
    answer(document, lambda out, shown: print_stop(out, instance, shown))
    return exit_code(stopping.status)


def _beside(inputs: PlacementInputs, running: tuple[str, ...]) -> tuple[Instance, LiveJobs, datetime]:
    """Return the instance beside the jobs of the cluster, these, and the time that counts as now."""
    instance, jobs, now = inputs.read_beside(running)
    if jobs is None:
        fix = "give what `squeue --all` or `scontrol show jobs` prints, placements, a file of your own, or a snapshot"
        raise InvalidInput("which jobs run is not said", where="--running", fix=fix)
    return instance, jobs, now
