"""``arnold score``: how good the placement of a job is that runs, or of all that run, and what each could have."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arnold.console.interrupts import ending_the_search
from arnold.console.output import answer, progress, searching
from arnold.options.command import JsonCommand, said_again
from arnold.options.field_options import file_option
from arnold.options.job_options import PlacementInputs, placement_inputs, read_job_file
from arnold.options.shared_options import GRIDS_HELP, RUNNING_JOBS_HELP, html_option
from ground.errors import ArnoldError, InvalidInput, InvalidPlacement
from ground.files import STDIN, read_source
from scheduler.job import Job
from scheduler.placement.types import ALGORITHMS

if TYPE_CHECKING:
    from arnold.documents.score_answer import ScoredJob
    from scheduler.job_files.grids_file import Grids
    from scheduler.job_files.job_file import JobFile
    from scheduler.outcome import Outcome
    from topology.load import LoadedTopology
    from topology.running_jobs import LiveJob


@click.command("score", cls=JsonCommand, document="arnold.documents.score_answer:ScoreOutput")
@partial(placement_inputs, needs_job=False)
@file_option(
    "--nodes",
    metavar="FILE|JOB",
    help="Where the job is: its nodes in rank order as a host file, a rankfile, lines of torchrun, a batch script or a "
    "placement that Arnold saved; - for standard input; or the name or number of a running job.",
)
@click.option("--all", "everyone", is_flag=True, help="Every running job whose grid is known.")
@file_option("--running", metavar="FILES", multiple=True, help=RUNNING_JOBS_HELP)
@file_option("--grids", help=GRIDS_HELP)
@html_option
def command(
    *, inputs: PlacementInputs, nodes: str | None, everyone: bool, running: tuple[str, ...], grids: str | None
) -> None:
    """Say how good the placement of a running job is, or of all, and what each could have.

    Compared with the best on its own nodes in another order, on the nodes that are free now, on these and its own, and
    on the empty cluster, each with its proof; and which swap of two nodes helps most. The time limit holds for each.
    What is lost of a step is by the job's spread_cost; with --records of `arnold calibrate` with its range. Nothing is
    moved. JOB may be a running job, whose nodes and grid are known; or a file, and --nodes says where it runs.

    $ arnold score --cluster cluster.csv --job job.yaml --nodes job.hostfile
    $ arnold score --cluster slurm: --job job.yaml --nodes 4242
    $ arnold score --cluster kube:prod lab/pretrain --json
    $ arnold score --cluster slurm: --all --grids grids.yaml --html today.html
    $ scontrol show hostnames "$SLURM_JOB_NODELIST" | arnold score --cluster slurm: --job job.yaml --nodes -
    """
    from arnold.documents.score_answer import print_score, print_scores, score_document, scores_document
    from scheduler.audit import audit
    from scheduler.job_files.grids_file import Grids, named_job, running_nodes
    from scheduler.job_files.job_file import load_job
    from scheduler.job_files.placement_file import PlacementOfRunning, load_order, placed_by
    from scheduler.job_on_cluster import on_nodes

    job, option = inputs.job.job, "--nodes"
    if nodes is None and not everyone and job not in ("", STDIN) and not Path(job).exists():
        nodes, option, inputs = job, "JOB", replace(inputs, job=replace(inputs.job, job=""))
    if everyone == (nodes is not None):
        fix = "give a running job (JOB), the nodes of a job (--job FILE --nodes FILE), or all that run (--all)"
        raise InvalidInput("which job is to be scored is not said, or twice", where="arnold score", fix=fix)
    if everyone and inputs.job.job:
        raise InvalidInput("all jobs are scored, and one is given", where="--all", fix="say grids with --grids FILE")
    by_pattern = None if grids is None else Grids.load(read_source(grids))
    if everyone:
        loaded = inputs.read_cluster(running)
        scored, left_out = _score_all(inputs, loaded, by_pattern)
        answer(scores_document(loaded, scored, left_out), print_scores)
        return
    assert nodes is not None
    source = read_source(nodes) if nodes == STDIN or Path(nodes).exists() else None
    loaded = inputs.read_cluster(running) if running or source is None else inputs.files.read_aloud()
    live = None
    if source is None:
        if loaded.jobs is None:
            fix = "check the path of the file; for a job that runs give --running, a snapshot, slurm: or kube:"
            none = f"there is no file {nodes[:80]!r}, and which jobs run is not said"
            raise InvalidInput(none, where=option, fix=fix)
        live = named_job(loaded.jobs.running, nodes, where=option)
    if inputs.job.job:
        text, records = read_job_file(inputs.job.job), inputs.own.measured
        file = load_job(text, overrides=inputs.overrides, records=records, cluster=loaded.cluster)
    elif live is not None:
        file = _grid(inputs, loaded, by_pattern, live)
    elif source is not None and (saved := PlacementOfRunning()).likeness(source.head):
        file = _grid(inputs, loaded, by_pattern, next(saved.read(source, now=loaded.now)))
    else:
        unknown = "which grid the job has is not said: spread is of groups of ranks"
        raise InvalidInput(unknown, where=nodes, fix="give its degrees of parallelism: --job FILE")
    instance = inputs.instance(loaded, file)
    if source is not None:
        placed = load_order(source, instance.cluster, instance.job)
    else:
        assert live is not None
        placed = running_nodes(live, instance.job, instance.cluster)
        notes = () if live.ranked else (UNRANKED,)
        instance = replace(instance, job=instance.job.replace(name=live.name), notes=(*instance.notes, *notes))
    with searching(f"Weighing {instance.job.name}", inputs.limits) as limits, placed_by(nodes):
        result = audit(instance.cluster, instance.job, placed, solver=ALGORITHMS.load("exact"), limits=limits)
    instance = replace(instance, job=on_nodes(instance.cluster, instance.job, placed.ravel().tolist()))
    document = score_document(instance, placed, result, records=inputs.own.measured)
    then = said_again("place", without=("--nodes", "--html")) if inputs.job.job else ""
    show = partial(print_score, instance=instance, then=then)
    answer(document, lambda out, shown: show(out, document=shown))


UNRANKED = (
    "the order of its ranks is not known: they are taken in the order of its nodes, as srun numbers them; --nodes FILE "
    "says another"
)


def _grid(inputs: PlacementInputs, loaded: LoadedTopology, grids: Grids | None, live: LiveJob) -> JobFile:
    from scheduler.job_files.grids_file import running_grid

    return running_grid(live, loaded.cluster, grids, overrides=inputs.overrides, records=inputs.own.measured)


def _score_all(
    inputs: PlacementInputs, loaded: LoadedTopology, grids: Grids | None
) -> tuple[list[ScoredJob], dict[str, ArnoldError]]:
    """Return the scores of all running jobs whose grid is known, and why the others have none, by name."""
    from arnold.documents.score_answer import scored_job
    from scheduler.audit import audit
    from scheduler.job_files.grids_file import running_nodes
    from scheduler.job_on_cluster import on_nodes

    if loaded.jobs is None:
        fix = "give --running, a snapshot, slurm: or kube:"
        raise InvalidInput("which jobs run is not said", where="--running", fix=fix)
    scored: list[ScoredJob] = []
    left_out: dict[str, ArnoldError] = {}
    empty: dict[Job, Outcome] = {}
    live_jobs = loaded.jobs.running
    with progress("Weighing running jobs", total=len(live_jobs)) as step, ending_the_search():
        for live in live_jobs:
            try:
                instance = inputs.instance(loaded, _grid(inputs, loaded, grids, live))
                placed = running_nodes(live, instance.job, instance.cluster)
            except (InvalidInput, InvalidPlacement) as error:
                left_out[live.name] = error
                continue
            # jobs alike have one answer on the empty cluster
            result = audit(
                instance.cluster, instance.job, placed, solver=ALGORITHMS.load("exact"), limits=inputs.limits,
                empty_cluster=empty.get(instance.job),
            )  # fmt: skip
            empty[instance.job] = result.possible["empty_cluster"]
            instance = replace(instance, job=on_nodes(instance.cluster, instance.job, placed.ravel().tolist()))
            scored.append(scored_job(live, instance, placed, result, records=inputs.own.measured))
            step(live.name)
    return scored, left_out
