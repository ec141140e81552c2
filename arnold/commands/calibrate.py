"""``arnold calibrate``: what spread costs one's own job, from its step times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arnold.commands.calibrate_inputs import read_steps
from arnold.console.output import answer, print_rows, print_sentences, to_json
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, file_option
from arnold.options.shared_options import SEED_HELP, html_option
from ground.errors import InvalidInput, InvalidJob
from ground.files import read_source, write_file

if TYPE_CHECKING:
    from rich.console import Console

    from arnold.commands.calibrate_inputs import MeasuredSteps
    from arnold.documents.calibrate_answer import CalibrateDocument
    from scheduler.affinity import Gains
    from scheduler.job_files.job_file import JobDocument
    from simulator.cost.gain_fit import GainFit

MOST_COST = 50.0  # Percent of a step that spread over two domains costs: ten times the most that is published

EXAMPLES = """\b
Examples:
  arnold calibrate steps.csv
  arnold calibrate steps.csv --job job.yaml --output measured.json
  arnold place --cluster cluster.csv --job job.yaml --records measured.json
  arnold simulate --cluster cluster.csv --trace jobs.csv --records measured.json
"""


@click.command(
    "calibrate", cls=JsonCommand, document="arnold.documents.calibrate_answer:CalibrateDocument", epilog=EXAMPLES
)
@click.argument("steps", type=FILE)
@file_option("--job", "job_file", help="The job, YAML or JSON; - for standard input.")
@click.option("--name", metavar="TEXT", help="Name of the measurement.  [default: the job's name, else the file's]")
@file_option("--output", written=True, help="Write what was found, for --records of other commands.")
@click.option("--force", is_flag=True, help=f"Take costs of spread above {MOST_COST:g}% of a step as they are.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help=SEED_HELP)
@html_option
def command(
    *,
    as_json: bool,
    html: str | None,
    steps: str,
    job_file: str | None,
    name: str | None,
    output: str | None,
    force: bool,
    seed: int,
) -> None:
    """Say what spread costs your job, and how sure that is, from its step times on two placements or more.

    STEPS is a CSV (docs: calibration.md): a row is a step, step_seconds,dp_spread,pp_spread, or a run, trace,placement.
    The file of --output gives `arnold place` its alpha, and replays what spread costs.
    """
    from arnold.documents.calibrate_answer import calibrate_document
    from simulator.cost.gain_fit import fit_gains

    measured = read_steps(steps)
    fit = fit_gains(measured.runs, source=steps, seed=seed)
    if not force:
        _check_units(fit, steps)
    job = None if job_file is None else _job(job_file, measured)
    document = calibrate_document(fit, source=steps)
    if output is not None:
        from scheduler.job_files.records_file import records_document

        called = name or (job.name if job is not None else measured.job) or Path(steps).stem
        record = records_document(_gains(fit, measured, job, called))
        write_file(output, to_json(record) + "\n")
    answer(document, _show, as_json=as_json, html=html)


def _check_units(fit: GainFit, source: str) -> None:
    """Refuse what spread cannot have done to a step, and a slip of units does.

    :raises InvalidInput: a family costs or gains more than :data:`MOST_COST`.
    """
    costs = {family: gain.value for family, gain in (("DP", fit.dp), ("PP", fit.pp)) if gain is not None}
    for family, cost in costs.items():
        if abs(cost) > MOST_COST:
            change = f"{abs(cost):,.0f}% {'longer' if cost > 0.0 else 'shorter'}"
            raise InvalidInput(
                f"with {family} groups over two domains instead of one the step would take {change}",
                where=source,
                fix="are all step times in the same unit? Correct them, or say --force if spread really costs that",
            )


def _job(file: str, measured: MeasuredSteps) -> JobDocument:
    """Return the job that a file describes.

    :raises InvalidJob: it cannot be, or is not the job that was measured.
    """
    from ground.documents import load_document
    from scheduler.job_files.job_file import JobDocument, load_job

    source = read_source(file)
    degrees = load_job(source).job.parallelism
    document = load_document(source)
    if measured.parallelism not in (None, degrees):
        raise InvalidJob(
            "it is not the job of the placements that were measured: their degrees of parallelism differ",
            where=document.where("parallelism"),
            fix="give the job that was placed",
        )
    return document.parse(JobDocument, error=InvalidJob)


def _gains(fit: GainFit, measured: MeasuredSteps, job: JobDocument | None, name: str) -> Gains:
    """Return the measurement as other commands take it; a loss counts as 0.

    :raises InvalidInput: a gain cannot be told, though the job has such groups, or no family gains.
    """
    from scheduler.affinity import Gains, Record
    from scheduler.job import Parallelism

    degrees = None if job is None else Parallelism(**job.parallelism.model_dump(exclude_none=True, exclude={"order"}))
    alone = () if degrees is None else (("dp", degrees.dp * degrees.cp == 1), ("pp", degrees.pp == 1))
    found = {"dp": fit.dp, "pp": fit.pp}
    untold = [family for family, gain in found.items() if gain is None and (family, True) not in alone]
    if untold:
        raise InvalidInput(
            f"what spread costs {untold[0].upper()} groups cannot be told, and a file has to say both",
            where="--output",
            fix=f"measure placements in which {'S' if untold[0] == 'dp' else 'R'} differs while the other stays",
        )
    gains = {family: 0.0 if gain is None else round(max(0.0, gain.value), 4) for family, gain in found.items()}
    if not any(gains.values()):
        fix = "nothing has to be written: place with any alpha, and replay with --cost-model none"
        raise InvalidInput("no family gains from being aligned", where="--output", fix=fix)
    steps = sum(one.steps for one in fit.placements)
    said: dict[str, Any] = {
        "dp_gain": gains["dp"],
        "pp_gain": gains["pp"],
        "dp_band": None if fit.dp is None else fit.dp.band,
        "pp_band": None if fit.pp is None else fit.pp.band,
        "published": f"measured: {steps:,} step times in {len(measured.runs)} runs",
    }
    if job is None or job.model is None or degrees is None:
        return Gains(name, **said)
    return Record(name, job.model.gpu or "", job.model, degrees, **said)


def _show(out: Console, document: CalibrateDocument) -> None:
    out.print(document.verdict)
    rows = [
        (one.dp, one.pp, one.runs, one.steps, f"{one.seconds:.4g} s", f"{one.fitted:.4g} s")
        for one in document.placements
    ]
    headers = ("DP spread (S)", "PP spread (R)", "runs", "steps", "median step", "by the fit")
    print_rows(out, headers, rows, title="What was measured")
    if document.misfit is not None:
        out.print(f"The placements lie within {document.misfit:.2f}% of the fit.")
    print_sentences(out, "Notes", document.notes)
    print_sentences(out, "Assumptions", document.assumptions)
