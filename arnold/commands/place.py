"""``arnold place``: where a job goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from arnold.console.output import answer, exit_code, log_outcome, progress, to_json
from arnold.options.command import JsonCommand
from arnold.options.field_options import options_of, takes
from arnold.options.job_options import JointInputs, PlacementInputs, joint_inputs
from arnold.options.placement_outputs import PlaceOptions
from arnold.options.shared_options import complete_algorithm
from ground.errors import InvalidInput
from ground.files import write_files

if TYPE_CHECKING:
    from scheduler.outcome import Instance, Outcome
    from scheduler.placement.types import Limits, PlacementAlgorithm

SECONDS_A_CHANGE = 2.0  # Time for each changed instance that is solved to answer "would it fit if ...?"
EXAMPLES = """\b
Examples:
  arnold place --cluster cluster.csv --job job.yaml
  arnold place --cluster cluster.csv --job job.yaml --json > placement.json
  arnold place --cluster cluster.csv --job job.yaml --output job.slurm --output placement.json
  arnold place --cluster cluster.csv --job job.yaml --output ranks.txt --output-format mpi
  sinfo -N -h -o "%N %t %G" > nodes.txt
  arnold place --cluster topology.conf --busy nodes.txt --flags flags.yaml --job job.yaml --html placement.html
  arnold place --cluster cluster.csv --job job.yaml --flags flags.db
  arnold place --cluster kube: --job job.yaml --level topology.kubernetes.io/zone --alpha 0.7
  arnold place --cluster slurm: --job job.yaml --output job.slurm
  arnold place --cluster cluster.csv --job job.yaml --certificate proof.json
  arnold place --cluster cluster.csv --job a.yaml --job b.yaml --weight a=2 --output 'placement-{job}.json'
"""


@click.command("place", cls=JsonCommand, document="arnold.documents.place_answer:PlaceDocument", epilog=EXAMPLES)
@joint_inputs
@options_of(PlaceOptions, completions={"algorithm": complete_algorithm})
@takes(options=PlaceOptions)
def command(*, inputs: PlacementInputs | JointInputs, options: PlaceOptions, as_json: bool) -> int:
    """Find where a job goes, proved optimal or with its gap; several jobs (`--job a --job b`) all at once.

    With --running, of equally good placements the job gets the one nearest to running jobs that read its data sets.
    Several jobs get the placement with the least weighted sum of objectives; their --output and --html have {job} in
    the name. Exits 3 if a job does not fit, 4 if time ran out with nothing valid.
    """
    options.formats()
    if isinstance(inputs, JointInputs):
        from arnold.commands.place_jobs import place_jobs

        return place_jobs(inputs, options, as_json=as_json)
    return place_job(inputs, options, as_json=as_json)


def place_job(inputs: PlacementInputs, options: PlaceOptions, *, as_json: bool) -> int:
    """Place one job, write its files and print the answer."""
    from arnold.documents.place_answer import place_document
    from arnold.texts.place_text import print_placement
    from scheduler.algorithm_run import fits, run

    if inputs.running and options.certificate is not None:
        fix = "leave one of the two out, or name the nodes of running jobs with --busy instead"
        raise InvalidInput("a certificate is of a cluster as its files say it", where="--running", fix=fix)
    solver = load_algorithm(options.algorithm)
    instance = inputs.read()
    cluster, job = instance.cluster, instance.job
    with progress(f"Placing {job.name}") as say:
        limits = replace(inputs.limits, progress=say)
        outcome = run(solver, cluster, job, limits, costs=instance.costs)
        log_outcome(outcome)
        would_fit = None
        if outcome.status == "infeasible":
            # asked of exact, whatever was chosen: the rule of another algorithm may refuse what fits
            would_fit = fits(cluster.emptied(), job, solver=load_algorithm("exact"), limits=of_a_change(limits))
        instance = instance.settled(outcome)
        document = place_document(instance, outcome, would_fit_if_empty=would_fit)
    texts = {} if options.certificate is None else certificate_text(options.certificate, instance, outcome)
    if outcome.evaluation is not None:
        texts |= options.texts(document, instance.job, asked=inputs.files.asked_of_slurm)
        if options.html is not None:
            from arnold.pages.placement import placement_page

            texts[options.html] = placement_page(cluster, instance.job, [outcome])
    write_files(texts)
    answer(document, lambda out, shown: print_placement(out, instance, outcome, shown), as_json=as_json)
    return exit_code(outcome.status)


def load_algorithm(name: str) -> PlacementAlgorithm:
    """Return the algorithm of a name.

    :raises InvalidInput: several are named; UnknownName: no package offers it.
    """
    from scheduler.placement.types import ALGORITHMS

    if "," in name:
        fix = f"give one, or compare them: arnold compare --algorithm {name}"
        raise InvalidInput("a job is placed by one algorithm", where="--algorithm", fix=fix)
    return ALGORITHMS.load(name)


def certificate_text(file: str, instance: Instance, outcome: Outcome) -> dict[str, str]:
    """Return the file with what proves an outcome; none where nothing does."""
    from scheduler.certificates.certificate_writer import certificate_of

    if outcome.status not in ("optimal", "feasible", "infeasible"):
        return {}
    proof = certificate_of(instance, outcome)
    return {file: to_json(proof) + "\n"}


def of_a_change(limits: Limits) -> Limits:
    """Return the limits of each changed instance that is solved."""
    return replace(limits, seconds=min(limits.seconds, SECONDS_A_CHANGE))
