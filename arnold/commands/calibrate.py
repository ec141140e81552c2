"""``arnold calibrate``: what spread costs one's own job, from its step times.

A CSV has step times, or op traces, and the spread of the placement that each was measured on.  They are read into runs,
a fit says what the spread of each family costs, and ``--output`` saves it as other commands take it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arnold.console.output import answer, to_json
from arnold.options.command import JsonCommand
from arnold.options.field_options import FILE, DependentOption, file_option
from arnold.options.shared_options import SEED_HELP, html_option
from ground.errors import InvalidInput, InvalidJob, did_you_mean
from ground.files import Source, read_source, write_file
from ground.rows import BadRows, CsvRows
from scheduler.affinity import Gains, Record
from scheduler.job import Parallelism

if TYPE_CHECKING:
    from scheduler.job_files.job_file import JobDocument
    from simulator.cost.gain_fit import GainFit, MeasuredRun

COLUMNS = ("step_seconds", "trace", "dp_spread", "pp_spread", "placement", "cluster", "run", "job")
SPELLINGS = {"s": "dp_spread", "r": "pp_spread"}  # As papers call them
LONGEST_STEP = 1e6  # Seconds, twelve days: a longer step is a slip
MOST_DOMAINS = 1_000_000  # A larger spread is a slip
_WHOLE = re.compile(r"[1-9][0-9]{0,6}")
_JOBS = "calibrate each job on its own: keep the rows of one"


def read_steps(file: str) -> MeasuredSteps:
    """Read the step times.

    :raises InvalidInput: a column is missing, a number is none, the rows are of different jobs, or there is one row
        only; says the line.  Also as the readers of placements, clusters and op traces.
    """
    source = read_source(file)
    measured = MeasuredSteps(source)
    rows = CsvRows(source, BadRows(lenient=None))
    where, names = source.at(rows.header_line), [SPELLINGS.get(name.lower(), name.lower()) for name in rows.header]
    columns = {name: i for i, name in enumerate(names) if name in COLUMNS}
    for name, last in columns.items():
        if (first := names.index(name)) != last:
            twice = f"two columns say {name}: {rows.header[first]!r} and {rows.header[last]!r}"
            raise InvalidInput(twice, where=where, fix="keep one of them")
    for choices in (("step_seconds", "trace"), ("dp_spread", "placement"), ("pp_spread", "placement")):
        if not columns.keys() & set(choices):
            meant = next((text for name in choices if (text := did_you_mean(name, rows.header))), "")
            missing = " or ".join(repr(name) for name in choices)
            fix = "begin with the line step_seconds,dp_spread,pp_spread (S and R), or with trace,placement"
            raise InvalidInput(f"there is no column {missing}", where=where, fix=f"{meant}{fix}")
    for line, cells in rows:
        measured.add({name: cells[i] for name, i in columns.items()}, source.at(line))
    if len(measured.steps) < 2 and sum(map(len, measured.steps.values())) < 2:
        few = "there is one step time only" if measured.steps else "there is no step time"
        fix = "give step times of the same job on two placements or more, some dozens of steps of each"
        raise InvalidInput(few, where=source.name, fix=fix)
    return measured


@dataclass(slots=True)
class MeasuredSteps:
    """Step times of one job, by run, as rows add them; and what these say of the job."""

    source: Source
    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    spreads: dict[str, tuple[int, int]] = field(default_factory=dict)  # of each run
    job: str | None = None  # as the rows call it
    parallelism: Parallelism | None = None  # as its placements have it; None = they do not say
    traced: tuple[int, ...] | None = None
    placements: dict[tuple[str, str], tuple[tuple[int, int], Parallelism]] = field(default_factory=dict)

    def add(self, row: dict[str, str], where: str) -> None:
        """Take a row."""
        for name, other in (("step_seconds", "trace"), ("placement", "dp_spread"), ("placement", "pp_spread")):
            if row.get(name) and row.get(other):
                both = f"the row says {name} and {other}, of which one is wanted"
                raise InvalidInput(both, where=where, fix=f"leave {name} or {other} empty")
        name = row.get("job", "")
        if self.job is not None and name != self.job:
            raise InvalidInput(f"the job is {name!r}, and above it is {self.job!r}", where=where, fix=_JOBS)
        self.job = name
        # S and R are as the row says, or as its placement has them
        if row.get("placement"):
            key = row["placement"], row.get("cluster", "")
            if key not in self.placements:
                self.placements[key] = _spread_of_placement(self._path(key[0]), self._path(key[1]) if key[1] else None)
            spread, parallelism = self.placements[key]
            if self.parallelism is not None and parallelism != self.parallelism:
                raise InvalidInput(f"the job of {key[0]} is not that of the placements above", where=where, fix=_JOBS)
            self.parallelism = parallelism
        else:
            spread = _domains(row, "dp_spread", where), _domains(row, "pp_spread", where)
        # the step time is the row's, or those of its trace
        if text := row.get("step_seconds"):
            try:
                seconds = [float(text)]
            except ValueError:
                seconds = [nan]
            if not 0.0 < seconds[0] <= LONGEST_STEP:
                fix = f"give the seconds of a step, a number above 0 and at most {LONGEST_STEP:,.0f}"
                raise InvalidInput(f"step_seconds is {text[:40]!r}", where=where, fix=fix)
        elif file := row.get("trace"):
            from health import whatif
            from health.whatif.analysis import traced_seconds

            trace = whatif.read_trace(self._path(file))
            shape = trace.sizes.dp, trace.sizes.pp, trace.sizes.tp, len(trace.operations)
            if self.traced is not None and shape != self.traced:
                raise InvalidInput(f"the job of {file} is not that of the traces above", where=where, fix=_JOBS)
            self.traced = shape
            seconds = [float(second) for second in traced_seconds(trace)]
        else:
            fix = "give step_seconds, or trace: the file of an op trace"
            raise InvalidInput("the row has no step time", where=where, fix=fix)
        run = row.get("run") or row.get("trace") or row.get("placement") or f"S {spread[0]}, R {spread[1]}"
        if self.spreads.setdefault(run, spread) != spread:
            clash = f"run {run!r} has S {spread[0]}, R {spread[1]}, and above S {{}}, R {{}}".format(*self.spreads[run])
            raise InvalidInput(clash, where=where, fix="give each placement a run of its own")
        self.steps[run] += seconds

    @property
    def runs(self) -> list[MeasuredRun]:
        """The runs, as the fit takes them."""
        import numpy as np

        from simulator.cost.gain_fit import MeasuredRun

        return [MeasuredRun(run, *self.spreads[run], np.array(seconds)) for run, seconds in self.steps.items()]

    def _path(self, name: str) -> str:
        """Return a file that a row names: beside the CSV, unless its path is whole."""
        return str(Path(self.source.name).parent / name)


def _domains(row: dict[str, str], name: str, where: str) -> int:
    text = row.get(name, "")
    if not _WHOLE.fullmatch(text) or int(text) > MOST_DOMAINS:
        what = {"dp_spread": "S, the most domains that a DP group touches", "pp_spread": "R, the same of PP groups"}[
            name
        ]
        raise InvalidInput(f"{name} is {text[:40]!r}", where=where, fix=f"give {what}: a whole number from 1 on")
    return int(text)


def _spread_of_placement(file: str, cluster: str | None) -> tuple[tuple[int, int], Parallelism]:
    """Return S and R of a saved placement, and the degrees of its job; on a cluster they are counted anew."""
    from ground.documents import load_document
    from scheduler.job_files.placement_file import load_names, load_placement, placed_by
    from scheduler.objective import evaluate
    from topology.load import load_topology

    source = read_source(file)
    if cluster is not None:
        tree = load_topology(cluster).cluster
        saved = load_placement(source, tree)
        with placed_by(file):
            worth = evaluate(tree, saved.job, saved.nodes)
        return (worth.dp, worth.pp), saved.job.parallelism
    job, spread = load_names(source).job, load_document(source).data.get("spread")
    dp, pp = (spread.get("dp"), spread.get("pp")) if isinstance(spread, dict) else (None, None)
    if not (isinstance(dp, int) and isinstance(pp, int) and min(dp, pp) > 0):
        fix = "give the JSON of `arnold place`, or the column cluster: the cluster it lies on"
        raise InvalidInput("the placement does not say its spread", where=source.name, fix=fix)
    return (dp, pp), job.parallelism


MOST_COST = 50.0  # Percent of a step that spread over two domains costs: ten times the most that is published


@click.command("calibrate", cls=JsonCommand, document="arnold.documents.calibrate_answer:CalibrateDocument")
@click.argument("steps", type=FILE)
@file_option("--job", "job_file", help="The job, YAML or JSON; - for standard input.")
@click.option(
    "--name",
    cls=DependentOption,
    needs=("--output",),
    metavar="TEXT",
    help="Name of the measurement.  [default: the job's name, else the file's]",
)
@file_option("--output", written=True, help="Write what was found, for --records of other commands.")
@click.option("--force", is_flag=True, help=f"Take costs of spread above {MOST_COST:g}% of a step as they are.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help=SEED_HELP)
@html_option
def command(*, steps: str, job_file: str | None, name: str | None, output: str | None, force: bool, seed: int) -> None:
    """Say what spread costs your job, and how sure that is, from its step times on two placements or more.

    STEPS is a CSV (docs: calibration.md): a row is a step, step_seconds,dp_spread,pp_spread, or a run, trace,placement.
    The file of --output gives `arnold place` its alpha, and replays what spread costs.

    $ arnold calibrate steps.csv
    $ arnold calibrate steps.csv --job job.yaml --output measured.json
    $ arnold place --cluster cluster.csv --job job.yaml --records measured.json
    $ arnold simulate --cluster cluster.csv --trace jobs.csv --records measured.json
    """
    from arnold.documents.calibrate_answer import calibrate_document, print_calibration
    from simulator.cost.gain_fit import fit_gains

    measured = read_steps(steps)
    fit = fit_gains(measured.runs, source=steps, seed=seed)
    for family, gain in (("DP", fit.dp), ("PP", fit.pp)):
        # spread cannot do that to a step, and a slip of units does
        if gain is not None and abs(gain.value) > MOST_COST and not force:
            change = f"{abs(gain.value):,.0f}% {'longer' if gain.value > 0.0 else 'shorter'}"
            problem = f"with {family} groups over two domains instead of one the step would take {change}"
            fix = "are all step times in the same unit? Correct them, or say --force if spread really costs that"
            raise InvalidInput(problem, where=steps, fix=fix)
    job = None if job_file is None else _job(job_file, measured)
    document = calibrate_document(fit, source=steps)
    if output is not None:
        from scheduler.job_files.records_file import records_document

        called = name or (job.name if job is not None else measured.job) or Path(steps).stem
        write_file(output, to_json(records_document(_gains(fit, measured, job, called))) + "\n")
    answer(document, print_calibration)


def _job(file: str, measured: MeasuredSteps) -> JobDocument:
    """Return the job that a file describes, or raise InvalidJob: it cannot be, or is not the job that was measured."""
    from ground.documents import load_document
    from scheduler.job_files.job_file import JobDocument, load_job

    source = read_source(file)
    degrees = load_job(source).job.parallelism
    document = load_document(source)
    if measured.parallelism not in (None, degrees):
        problem = "it is not the job of the placements that were measured: their degrees of parallelism differ"
        raise InvalidJob(problem, where=document.where("parallelism"), fix="give the job that was placed")
    return document.parse(JobDocument, error=InvalidJob)


def _gains(fit: GainFit, measured: MeasuredSteps, job: JobDocument | None, name: str) -> Gains:
    """Return the measurement as other commands take it; a loss counts as 0.

    :raises InvalidInput: a gain cannot be told, though the job has such groups, or no family gains.
    """
    degrees = None if job is None else job.parallelism.in_order(None)
    alone = () if degrees is None else (("dp", degrees.dp * degrees.cp == 1), ("pp", degrees.pp == 1))
    gain_of = {"dp": fit.dp, "pp": fit.pp}
    untold = [family for family, gain in gain_of.items() if gain is None and (family, True) not in alone]
    if untold:
        problem = f"what spread costs {untold[0].upper()} groups cannot be told, and a file has to say both"
        fix = f"measure placements in which {'S' if untold[0] == 'dp' else 'R'} differs while the other stays"
        raise InvalidInput(problem, where="--output", fix=fix)
    gains = {family: 0.0 if gain is None else round(max(0.0, gain.value), 4) for family, gain in gain_of.items()}
    if not any(gains.values()):
        fix = "nothing has to be written: place with any alpha, and replay with --cost-model none"
        raise InvalidInput("no family gains from being aligned", where="--output", fix=fix)
    steps = sum(placement.steps for placement in fit.placements)
    measurement: dict[str, Any] = {
        "dp_gain": gains["dp"],
        "pp_gain": gains["pp"],
        "dp_band": None if fit.dp is None else fit.dp.band,
        "pp_band": None if fit.pp is None else fit.pp.band,
        "published": f"measured: {steps:,} step times in {len(measured.steps)} runs",
    }
    if job is None or job.model is None or degrees is None:
        return Gains(name, **measurement)
    return Record(name, job.model.gpu or "", job.model, degrees, **measurement)
