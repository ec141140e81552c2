"""``arnold place`` with several jobs: all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from arnold.console.output import BAD, answer, exit_code, print_rows, print_sentences, progress
from arnold.options.field_options import refuse_clashes
from ground.errors import InvalidInput
from ground.files import write_files
from ground.quantities import decimal, plural
from topology.node_names import spell_names

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.documents.place_answer import JointDocument
    from arnold.options.job_options import JointInputs
    from arnold.options.placement_outputs import PlaceOptions
    from scheduler.outcome import Instance
    from scheduler.several.together import TurnResult

JOB = "{job}"  # What stands for the name of the job in the name of a file


def place_jobs(inputs: JointInputs, options: PlaceOptions, *, as_json: bool) -> int:
    """Place several jobs at once, write their files and print the answer."""
    from arnold.documents.place_answer import joint_document
    from scheduler.placement.types import ALGORITHMS
    from scheduler.several.together import place_together

    for of_one_job, option, why in (
        (options.algorithm != "exact", "--algorithm", "several jobs at once are placed by exact alone"),
        (options.certificate is not None, "--certificate", "a certificate is of one job"),
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
    with progress(f"Placing {len(jobs)} jobs") as say:
        limits = replace(inputs.limits, progress=say)
        found = place_together(
            instances[0].cluster, jobs, weights, solver=ALGORITHMS.load(options.algorithm), limits=limits
        )
    # without a placement no job has nodes of one size
    placed = zip(instances, found.outcomes, strict=True) if found.outcomes else ()
    instances = [instance.settled(outcome) for instance, outcome in placed] or instances
    document = joint_document(instances, weights, found)
    texts: dict[str, str] = {}
    for instance, outcome in zip(instances, found.outcomes, strict=False):
        job = instance.job
        texts |= options_for[job.name].texts(document.jobs[job.name], job, asked=inputs.files.asked_of_slurm)
        if (page := options_for[job.name].html) is not None:
            from arnold.pages.placement import placement_page

            texts[page] = placement_page(instances[0].cluster, job, [outcome], more=_together(document))
    write_files(texts)
    answer(document, lambda out, shown: _print(out, instances, shown), as_json=as_json)
    return exit_code(found.status)


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


def _together(document: JointDocument) -> list[tuple[str, list[str]]]:
    """Return a card of the pages: the sum and how sure it is, each job, and what one after the other would give."""
    if document.objective is None:
        return []
    known = f"proved bound {decimal(document.bound or 0.0)}"
    jobs = [
        f"{name}: {plural(len(job.assignment), 'node')}, objective {decimal(job.objective or 0.0)}, alone "
        f"{decimal(job.bound or 0.0)}, weight {decimal(document.weights[name])}."
        for name, job in document.jobs.items()
    ]
    turns = [f"One after the other, {_in_words(turn, document.objective)}." for turn in document.one_after_the_other]
    return [("Placed at once", [f"Weighted sum of objectives {decimal(document.objective)}, {known}.", *jobs, *turns])]


def _print(out: Console, instances: Sequence[Instance], document: JointDocument) -> None:
    from rich.text import Text

    from arnold.texts.place_text import COLOURS, LONGEST_NAMES
    from scheduler.outcome import status_words

    cluster = instances[0].cluster
    idle = int(cluster.idle.sum())
    out.print(
        f"{plural(len(instances), 'job')} at once on {instances[0].source}: {len(cluster):,} nodes, {idle:,} idle"
    )
    out.print()
    seconds = Text(f"  ({document.solve_seconds:.2f} s)", "dim")
    verdict = status_words(document.status, document.stopped_at)
    if document.objective is None:
        out.print(Text(f"{verdict}: {document.reason}", BAD) + seconds)
        if document.left_out:
            out.print(f"Fewest jobs to leave out: {', '.join(document.left_out)}")
        return
    if document.gap:
        verdict += f", gap {document.gap:.1%}"
    worth = f"{verdict}: sum {decimal(document.objective)}, proved bound {decimal(document.bound or 0.0)}"
    out.print(Text(worth, COLOURS.get(document.status, BAD)) + seconds)
    rows = []
    for name, job in document.jobs.items():
        if job.spread is not None and job.objective is not None:
            numbers = (job.spread.dp, job.spread.pp, decimal(job.objective), decimal(job.bound or 0.0))
            where = spell_names(job.domains, most=LONGEST_NAMES)
            rows.append((name, decimal(document.weights[name]), len(job.assignment), *numbers, where))
    headers = ("job", "weight", "nodes", "DP spread", "PP spread", "objective", "alone", "where")
    print_rows(out, headers, rows, title="Jobs", left=["where"])
    sentences = [_in_words(turn, document.objective) for turn in document.one_after_the_other]
    print_sentences(out, "One job after the other", sentences)
    print_sentences(out, "Notes", [*document.notes, *_notes(document)])


def _notes(document: JointDocument) -> list[str]:
    """Return the notes of all jobs, each once, with the names of its jobs unless it is of all."""
    jobs_of: dict[str, list[str]] = {}
    for name, job in document.jobs.items():
        for note in job.notes:
            jobs_of.setdefault(note, []).append(name)
    everywhere = len(document.jobs)
    return [note if len(names) == everywhere else f"{', '.join(names)}: {note}" for note, names in jobs_of.items()]


def _in_words(turn: TurnResult, objective: float) -> str:
    order = ", ".join(turn.order)
    if turn.objective is None:
        return f"{order}: {turn.stuck} finds no place any more"
    more = turn.objective / objective - 1.0
    return f"{order}: sum {decimal(turn.objective)}, {f'{more:.1%} more' if more > 1e-9 else 'as good'}"
