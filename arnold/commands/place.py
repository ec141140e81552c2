"""``arnold place``: where a job goes, or several at once."""

import shlex
from dataclasses import replace

import click

from arnold.console.output import answer, exit_code, log_outcome, searching, to_json
from arnold.options.cluster_options import KUBERNETES
from arnold.options.command import JsonCommand, said_again
from arnold.options.field_options import options_of, refuse_clashes
from arnold.options.job_options import JointInputs, PlacementInputs, joint_inputs
from arnold.options.placement_outputs import PlaceOptions
from arnold.options.shared_options import complete_algorithm
from ground.errors import InvalidInput
from ground.files import write_files
from scheduler.placement.types import ALGORITHMS, Limits, Status

SECONDS_A_CHANGE = 2.0  # Time for each changed instance that is solved to answer "would it fit if ...?"
JOB = "{job}"  # What stands for the name of the job in the name of a file, where there are several


@click.command("place", cls=JsonCommand, document="arnold.documents.place_answer:PlaceDocument")
@joint_inputs
@options_of(PlaceOptions, to="options", completions={"algorithm": complete_algorithm})
def command(*, inputs: PlacementInputs | JointInputs, options: PlaceOptions) -> int:
    """Find where a job goes, proved optimal or with its gap; several jobs (`--job a --job b`) all at once.

    With --running, of equally good placements the job gets the one nearest to running jobs that read its data sets.
    Several jobs get the placement with the least weighted sum of objectives; their --output and --html have {job} in
    the name. Exits 3 if a job does not fit, 4 if time ran out with nothing valid.

    $ arnold place --cluster cluster.csv --job job.yaml
    $ arnold place --cluster cluster.csv --job job.yaml --json > placement.json
    $ arnold place --cluster cluster.csv --job job.yaml --output job.slurm --output placement.json
    $ arnold place --cluster cluster.csv --job job.yaml --output ranks.txt --output-format mpi
    $ sinfo -N -h -o "%N %t %G" > nodes.txt
    $ arnold place --cluster topology.conf --busy nodes.txt --flags flags.yaml --job job.yaml --html placement.html
    $ arnold place --cluster cluster.csv --job job.yaml --flags flags.db
    $ arnold place --cluster kube: --job job.yaml --level topology.kubernetes.io/zone --alpha 0.7
    $ arnold place --cluster slurm: --job job.yaml --output job.slurm
    $ arnold place --cluster slurm: --job job.yaml --rank-order slurm --output nodes.nodelist
    $ arnold place --cluster cluster.csv --job job.yaml --certificate proof.json
    $ arnold place --cluster cluster.csv --job a.yaml --job b.yaml --weight a=2 --output 'placement-{job}.json'
    """
    options.formats()
    if isinstance(inputs, JointInputs):
        return place_jobs(inputs, options)
    return place_job(inputs, options)


def place_job(inputs: PlacementInputs, options: PlaceOptions) -> int:
    """Place one job, write its files and print the answer."""
    from arnold.documents.place_answer import place_document, print_placement
    from scheduler.algorithm_run import fits, run

    if inputs.running and options.certificate is not None:
        fix = "leave one of the two out, or name the nodes of running jobs with --busy instead"
        raise InvalidInput("a certificate is of a cluster as its files say it", where="--running", fix=fix)
    if "," in options.algorithm:
        fix = f"give one, or compare them: arnold compare --algorithm {options.algorithm}"
        raise InvalidInput("a job is placed by one algorithm", where="--algorithm", fix=fix)
    solver = ALGORITHMS.load(options.algorithm)
    if options.rank_order == "slurm":
        from scheduler.placement.name_order import InNameOrder

        if options.certificate is not None:
            fix = "leave one of the two out: the least of all orders has certificates"
            raise InvalidInput(
                "no certificate shows what is least in the order of names", where="--certificate", fix=fix
            )
        solver = InNameOrder(solver)
    instance = inputs.read()
    cluster, job = instance.cluster, instance.job
    with searching(f"Placing {job.name}", inputs.limits) as limits:
        outcome = run(solver, cluster, job, limits, costs=instance.costs)
        log_outcome(outcome)
        would_fit = None
        if outcome.status == "infeasible":
            # asked of exact, whatever was chosen: the rule of another algorithm may refuse what fits
            would_fit = fits(cluster.emptied(), job, solver=ALGORITHMS.load("exact"), limits=of_a_change(limits))
        instance = instance.settled(outcome)
        document = place_document(instance, outcome, would_fit_if_empty=would_fit)
    texts: dict[str, str] = {}
    if options.certificate is not None and outcome.status in ("optimal", "feasible", "infeasible"):
        from scheduler.certificates.certificate_writer import certificate_of

        texts[options.certificate] = to_json(certificate_of(instance, outcome)) + "\n"
    if outcome.evaluation is not None:
        texts |= options.texts(document, instance.job, asked=inputs.files.sbatch_options(cluster))
        if options.html is not None:
            from arnold.pages.placement_page import placement_page

            texts[options.html] = placement_page(cluster, instance.job, [outcome])
    write_files(texts)
    then = next_step(options, outcome.status, inputs.files.cluster)
    answer(document, lambda out, shown: print_placement(out, instance, outcome, shown, then=then))
    return exit_code(outcome.status)


def next_step(options: PlaceOptions, status: Status, cluster: str, job: str = "job") -> str:
    """Return the command to go on with, empty = there is none; ``job``: what stands for the job in names of files."""
    files = {kind: file for file, kind in options.formats().items()}
    outputs = ("--output", "--output-format", "--html", "--certificate")
    if status in ("optimal", "feasible"):
        if not files:
            return said_again("place", "--output", f"{job}.{'json' if cluster.startswith(KUBERNETES) else 'slurm'}")
        if "slurm" in files:
            return f"sbatch {shlex.quote(files['slurm'])} COMMAND"
        if "json" in files and job != JOB:
            return said_again("repair", "--placement", files["json"], "--lost", "NODE", without=outputs)
        return ""
    if status == "infeasible":
        return "" if job == JOB else said_again("explain", without=outputs)
    return said_again("place", "--time-limit", "SECONDS", without=("--time-limit",))


def of_a_change(limits: Limits) -> Limits:
    """Return the limits of each changed instance that is solved."""
    return replace(limits, seconds=min(limits.seconds, SECONDS_A_CHANGE))


def place_jobs(inputs: JointInputs, options: PlaceOptions) -> int:
    """Place several jobs at once, write their files and print the answer."""
    from arnold.documents.joint_answer import joint_cards, joint_document, print_joint_placement
    from scheduler.several.together import place_together

    for of_one_job, option, why in (
        (options.algorithm != "exact", "--algorithm", "several jobs at once are placed by exact alone"),
        (options.certificate is not None, "--certificate", "a certificate is of one job"),
        (options.rank_order != "free", "--rank-order", "several jobs at once have their ranks as is best"),
        (inputs.running, "--running", "running jobs are looked at for one job"),
    ):
        if of_one_job:
            raise InvalidInput(why, where=option, fix=f"leave {option} out, or place one job at a time")
    instances, weights = inputs.read()
    jobs = [instance.job for instance in instances]
    options_for = {
        job.name: replace(
            options,
            output=tuple(_file(pattern, job.name) for pattern in options.output),
            html=None if options.html is None else _file(options.html, job.name),
        )
        for job in jobs
    }
    written = [file for own in options_for.values() for file in (*own.output, own.html) if file is not None]
    refuse_clashes(written, click.get_current_context())
    with searching(f"Placing {len(jobs)} jobs", inputs.limits) as limits:
        solver = ALGORITHMS.load(options.algorithm)
        seen = [instance.cluster for instance in instances]
        joint = place_together(seen[0], jobs, weights, solver=solver, limits=limits, seen=seen)
    # without a placement no job has nodes of one size
    placed = zip(instances, joint.outcomes, strict=True) if joint.outcomes else ()
    instances = [instance.settled(outcome) for instance, outcome in placed] or instances
    document = joint_document(instances, weights, joint)
    texts: dict[str, str] = {}
    for instance, outcome in zip(instances, joint.outcomes, strict=False):
        job = instance.job
        asked = inputs.files.sbatch_options(instance.cluster)
        texts |= options_for[job.name].texts(document.jobs[job.name], job, asked=asked)
        if (page := options_for[job.name].html) is not None:
            from arnold.pages.placement_page import placement_page

            texts[page] = placement_page(instance.cluster, job, [outcome], more=joint_cards(document))
    write_files(texts)
    then = next_step(options, joint.status, inputs.files.cluster, JOB)
    answer(document, lambda out, shown: print_joint_placement(out, instances, shown, then=then))
    return exit_code(joint.status)


def _file(pattern: str, job: str) -> str:
    """Return the file of one job.

    :raises InvalidInput: the pattern would give all jobs one file, or the name of the job is none for a file.
    """
    if JOB not in pattern:
        fix = f"put {JOB} into its name: placement-{JOB}.json"
        raise InvalidInput("several jobs go to one file", where=pattern, fix=fix)
    if "/" in job:
        fix = "give the job a name without /"
        raise InvalidInput(f"the name of the job {job!r} cannot stand in a file name", where=pattern, fix=fix)
    return pattern.replace(JOB, job)
