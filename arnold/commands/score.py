"""``arnold score``: how good the placement of a job is that runs, and what it could have."""

from __future__ import annotations

from dataclasses import replace

import click

from arnold.console.output import answer, progress
from arnold.options.command import JsonCommand, said_again
from arnold.options.field_options import file_option
from arnold.options.job_options import PlacementInputs, placement_inputs
from ground.files import read_source

EXAMPLES = """\b
Examples:
  arnold score --cluster cluster.csv --job job.yaml --nodes job.hostfile
  arnold score --cluster cluster.csv --job job.yaml --nodes placement.json --json
  scontrol show hostnames "$SLURM_JOB_NODELIST" | arnold score --cluster slurm: --job job.yaml --nodes -
"""


@click.command("score", cls=JsonCommand, document="arnold.documents.score_answer:ScoreDocument", epilog=EXAMPLES)
@placement_inputs
@file_option(
    "--nodes",
    metavar="FILE",
    required=True,
    help="Where the job is: its nodes in rank order as a host file, a rankfile, a batch script or a placement that "
    "Arnold saved; - for standard input.",
)
def command(*, as_json: bool, inputs: PlacementInputs, nodes: str) -> None:
    """Say how good the placement of a running job is, and what it could have.

    Compared with the best on its own nodes in another order, on the nodes that are free now, on these and its own, and
    on the empty cluster, each with its proof; and which swap of two nodes helps most. The time limit holds for each.
    Nothing is moved.
    """
    from arnold.documents.score_answer import print_score, score_document
    from scheduler.audit import audit
    from scheduler.job_files.placement_file import load_order
    from scheduler.placement.types import ALGORITHMS

    instance = inputs.read()
    placed = load_order(read_source(nodes), instance.cluster, instance.job)
    with progress(f"Weighing {instance.job.name}") as say:
        limits = replace(inputs.limits, progress=say)
        result = audit(instance.cluster, instance.job, placed, solver=ALGORITHMS.load("exact"), limits=limits)
    document = score_document(instance, placed, result)
    then = said_again("place", without=("--nodes",))
    answer(document, lambda out, shown: print_score(out, instance, shown, then=then), as_json=as_json)
