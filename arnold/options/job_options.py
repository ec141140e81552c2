"""The options of commands about jobs: one or several to place on a cluster, and jobs that run already."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import wraps
from glob import glob
from math import inf, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from arnold.options.cluster_options import KUBERNETES, ClusterFiles
from arnold.options.field_options import FILE, F, file_option, options_of, takes
from arnold.options.shared_options import PLACEMENT_HELP, RUNNING_JOBS_HELP
from ground.errors import InvalidInput, InvalidJob, UnknownName, did_you_mean
from ground.files import STDIN, Source, read_source
from ground.quantities import HOUR
from ground.records import json_data
from scheduler.job import Overrides
from scheduler.job_files.own_records import OwnRecords
from scheduler.placement.types import Limits

if TYPE_CHECKING:
    from health.recovery.machines import Machines
    from scheduler.job_files.job_file import JobFile
    from scheduler.outcome import Instance
    from scheduler.several.running_jobs import RunningJob
    from topology.cluster import Cluster
    from topology.load import LoadedTopology
    from topology.running_jobs import LiveJobs

Beside = TypeVar("Beside", bound="Instance | LoadedTopology")
_MANIFEST = re.compile(r"""^\s*(?:\{\s*)?["']?apiVersion["']?\s*:""", re.MULTILINE)
PLACED = "placement"  # The format of running jobs of which each cell is known
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e6  # Of a job: beyond these one job is all that counts


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files that describe a job."""

    job: str = field(default="", metadata={"file": True, "default": "the argument JOB"})
    """The job, YAML or JSON, or its manifest of Kubernetes; - for standard input."""


@dataclass(frozen=True, slots=True)
class SeveralJobFiles:
    """The files that describe one job or several, and how much each counts."""

    job: tuple[str, ...] = field(default=(), metadata={"file": True, "default": "the arguments JOB"})
    """The job, YAML or JSON, or its manifest of Kubernetes; - for standard input."""
    weight: tuple[str, ...] = field(default=(), metadata={"metavar": "NAME=NUMBER", "default": "1 for each"})
    """Weight of a job's objective in the sum of several. """


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What commands are asked that place something on a cluster."""

    files: ClusterFiles
    job: JobFiles | SeveralJobFiles
    own: OwnRecords
    overrides: Overrides
    limits: Limits
    running: tuple[str, ...] = field(default=(), metadata={"option": False})
    """Patterns of the files of running jobs."""

    def _read_files(self, *, with_jobs: bool = False) -> tuple[LoadedTopology, list[JobFile]]:
        """Read the cluster, and each job for its nodes.

        :param with_jobs: whether the jobs that run are wanted, too.
        :raises ArnoldError: a file is unusable.
        """
        from scheduler.job_files.job_file import expected_hours, load_job

        records, jobs = self.own.measured, self.job.job
        texts = [self._read_job(file) for file in ([jobs] if isinstance(jobs, str) else jobs)]
        hours = [expected_hours(text) for text in texts]
        longest = None if None in hours else max(filter(None, hours)) * HOUR
        loaded = replace(self.files, expected_seconds=longest).read_aloud(jobs=with_jobs)
        return loaded, [
            load_job(text, overrides=self.overrides, records=records, cluster=loaded.cluster) for text in texts
        ]

    def _read_job(self, file: str) -> Source:
        """Return the file of a job; on a live Kubernetes cluster a name that is no file's is that of a gang.

        :raises ArnoldError: the file cannot be read; there is no such gang, or it is not understood.
        """
        if not self.files.cluster.startswith(KUBERNETES) or file == STDIN or Path(file).exists():
            return read_job_file(file)
        from extender.cluster_api.connect import WhichCluster
        from extender.live_cluster import list_plans, named_plan
        from scheduler.job_files.job_file import JobDocument, document_of

        plan = named_plan(list_plans(WhichCluster(context=self.files.cluster.removeprefix(KUBERNETES) or None)), file)
        if (job := plan.spec.job(str(plan.key))) is None:
            raise InvalidJob(f"what the gang {plan.key} asks is not understood: {plan.message}", where=file)
        if plan.estimate is not None:
            job = job.replace(expected_hours=plan.estimate.seconds / HOUR)
        document = replace(document_of(job, level=job.level), gpus_per_node=None)  # those of the nodes
        return Source(f"gang {plan.key}", json.dumps(json_data(JobDocument, document, without_defaults=True)))

    def _instance(self, loaded: LoadedTopology, job: JobFile) -> Instance:
        """Return a job and the cluster; raises as :meth:`JobFile.check_names`."""
        from scheduler.job_on_cluster import before_it_goes
        from scheduler.outcome import Instance

        job.check_names(loaded.cluster)
        asked, request = job.job, self.files.request()
        limit = None if request is None else request.seconds()
        if asked.expected_hours is None and limit is not None and limit < inf:
            asked = asked.replace(expected_hours=limit / HOUR)
        cluster = before_it_goes(loaded.cluster, asked, loaded.now)
        return Instance(cluster, asked, loaded.source, (*loaded.notes, *job.notes))


@dataclass(frozen=True, slots=True)
class PlacementInputs(_Inputs):
    """What commands that place a job are asked."""

    job: JobFiles

    def read(self) -> Instance:
        """Return the instance, with the nodes of running jobs in use.

        :raises ArnoldError: a file is unusable, or the job names a level or a type of GPU that the cluster has not.
        """
        instance, now = self.read_alone()
        if not self.running:
            return instance
        from scheduler.several.running_jobs import near_running_jobs

        placed, others = placed_and_others(running_files(self.running))
        if others:
            instance, _ = beside_running(instance, others, now=now)
        return near_running_jobs(instance, [running_job(file, instance.cluster) for file in placed])

    def read_alone(self) -> tuple[Instance, datetime]:
        """Return the instance as the cluster itself is, and now; raise as :meth:`read`."""
        loaded, (job,) = self._read_files()
        return self.instance(loaded, job), loaded.now

    def read_sizes(self, sizes: Sequence[int]) -> list[Instance]:
        """Return the instance for each number of replicas of the job; raise as :meth:`read`."""
        from scheduler.job_files.job_file import load_job

        loaded, _ = self._read_files()
        text, cluster = self._read_job(self.job.job), loaded.cluster
        given = [replace(self.overrides, dp=size) for size in sizes]
        jobs = [load_job(text, overrides=of, records=self.own.measured, cluster=cluster) for of in given]
        return [self.instance(loaded, job) for job in jobs]

    def read_cluster(self, running: Sequence[str]) -> LoadedTopology:
        """Return the cluster with the jobs that run on it; raise as :meth:`read_beside`."""
        loaded = self.files.read_aloud(jobs=not running)
        if not running:
            return loaded
        loaded, jobs = beside_running(loaded, [read_source(file) for file in running_files(running)], now=loaded.now)
        return replace(loaded, jobs=jobs)

    def read_beside(self, running: Sequence[str]) -> tuple[Instance, LiveJobs | None, datetime]:
        """Return the instance with the GPUs of running jobs in use, the jobs, ``None`` = nobody says which, and now.

        :param running: patterns of files of running jobs; without any those count that the cluster itself says run.
        :raises ArnoldError: as :meth:`read`, and :func:`~topology.running_jobs.read_running`.
        """
        loaded, (job,) = self._read_files(with_jobs=not running)
        instance, jobs = self.instance(loaded, job), loaded.jobs
        if running:
            sources = [read_source(file) for file in running_files(running)]
            instance, jobs = beside_running(instance, sources, now=loaded.now)
        return instance, jobs, loaded.now

    def instance(self, loaded: LoadedTopology, job: JobFile) -> Instance:
        """Return the instance, whose cluster is as the job has it by its tolerations."""
        instance = self._instance(loaded, job)
        return replace(instance, cluster=instance.cluster.tolerating(instance.job.tolerations))


@dataclass(frozen=True, slots=True)
class JointInputs(_Inputs):
    """What a command that places several jobs at once is asked."""

    job: SeveralJobFiles
    running: tuple[str, ...] = field(default=(), metadata={"file": True, "metavar": "FILES", "help": RUNNING_JOBS_HELP})

    def read(self) -> tuple[list[Instance], list[float]]:
        """Return an instance for each job, all on one cluster, and the weights of the jobs.

        :raises ArnoldError: a file is unusable, two jobs have one name, or a weight is no number above 0, of no job or
            said twice.
        """
        loaded, jobs = self._read_files()
        # a file that is named several times is as many jobs alike
        numbers = [self.job.job[: i + 1].count(file) for i, file in enumerate(self.job.job)]
        alike = [self.job.job.count(file) > 1 for file in self.job.job]
        jobs = [
            replace(job, job=job.job.replace(name=f"{job.job.name}-{number}")) if several else job
            for job, number, several in zip(jobs, numbers, alike, strict=True)
        ]
        named: dict[str, str] = {}
        for file, job in zip(self.job.job, jobs, strict=True):
            if job.job.name in named:
                twice = f"two jobs are called {job.job.name!r}: that of {named[job.job.name]} is the other"
                raise InvalidJob(twice, where=job.where("name"), fix="give each job a name of its own (name: ...)")
            named[job.job.name] = file
        weights: dict[str, float] = {}
        for text in self.job.weight:
            name, separator, number = text.rpartition("=")
            if not separator:
                raise InvalidInput(f"{text!r} is no weight", where="--weight", fix="give NAME=NUMBER, such as big=2")
            if name not in named:
                fix = f"{did_you_mean(name, named)}jobs: {', '.join(named)}"
                raise UnknownName(f"no job is called {name!r}", where="--weight", fix=fix)
            if name in weights:
                raise InvalidInput(f"the weight of {name} is given twice", where="--weight", fix="give it once")
            try:
                weights[name] = float(number)
            except ValueError:
                weights[name] = nan
            if not LEAST_WEIGHT <= weights[name] <= MOST_WEIGHT:
                fix = f"give a number above 0: {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
                raise InvalidInput(f"the weight of {name} is {number!r}", where="--weight", fix=fix)
        instances = [self._instance(loaded, job) for job in jobs]
        return instances, [weights.get(name, 1.0) for name in named]


def read_job_file(file: str) -> Source:
    """Return a job file, that of a manifest of Kubernetes where it is one."""
    source = read_source(file)
    if _MANIFEST.search(source.text) is None:
        return source
    from extender.gangs.manifests import as_job_file

    return as_job_file(source)


def placement_inputs(command: F, *, needs_job: bool = True) -> F:
    """Give a command the options of a cluster, of a job, and of the limits of a solver, as one record ``inputs``.

    :param needs_job: whether a job must be named; else that of the inputs may be empty.
    """
    given = takes(inputs=PlacementInputs)(command)

    @wraps(command)
    def call(jobs: tuple[str, ...], **options: Any) -> Any:
        named = [*filter(None, [options["job"]]), *jobs]
        if len(named) > 1:
            raise click.UsageError(f"One job is expected, and {len(named)} are named: {', '.join(named)}.")
        return given(**options | {"job": _named(named)[0] if needs_job else "".join(named)})

    return _job_argument(options_of(PlacementInputs)(cast("F", call)))


def joint_inputs(command: F) -> F:
    """Give a command the same options, and running jobs, for one job, as :class:`PlacementInputs`, or several, as
    :class:`JointInputs`.

    A job with a weight is one of several, too.
    """

    def placed(*, inputs: JointInputs, **options: Any) -> Any:
        if len(inputs.job.job) > 1 or inputs.job.weight:
            return command(inputs=inputs, **options)
        job = JobFiles(inputs.job.job[0])
        alone = PlacementInputs(inputs.files, job, inputs.own, inputs.overrides, inputs.limits, inputs.running)
        return command(inputs=alone, **options)

    given = takes(inputs=JointInputs)(placed)

    @wraps(command)
    def call(jobs: tuple[str, ...], **options: Any) -> Any:
        return given(**options | {"job": _named((*options["job"], *jobs))})

    return _job_argument(options_of(JointInputs)(cast("F", call)))


def _named(jobs: Sequence[str]) -> tuple[str, ...]:
    if not jobs:
        raise click.UsageError("No job is named: give its file, or '--job'.")
    return tuple(jobs)


_job_argument = click.argument("jobs", nargs=-1, type=FILE, metavar="[JOB]...")


def running_files(patterns: Sequence[str]) -> list[str]:
    """Return the files that patterns name, each once, in order, or raise InvalidInput: a pattern names none."""
    files: list[str] = []
    for pattern in patterns:
        matches = sorted(glob(pattern))  # noqa: PTH207  (a pattern may begin with /, which Path.glob refuses)
        if not matches and not any(sign in pattern for sign in "*?["):
            matches = [pattern]  # the reader of the file says that it is not there
        if not matches:
            fix = "name the files that `arnold place --output` saved"
            raise InvalidInput("no file has such a name", where=f"--running {pattern}", fix=fix)
        files += matches
    return list(dict.fromkeys(files))


def placed_and_others(files: Sequence[str]) -> tuple[list[str], list[Source]]:
    """Return which files of running jobs are placements, whose cells are known, and the contents of the others.

    :raises InvalidInput: what a file is cannot be told.
    """
    from ground.formats import recognise
    from topology.running_jobs import RUNNING_READERS

    sources = {file: read_source(file) for file in files}
    placed = [file for file, source in sources.items() if recognise(RUNNING_READERS, source).format.name == PLACED]
    return placed, [source for file, source in sources.items() if file not in placed]


def beside_running(read: Beside, files: Sequence[Source], *, now: datetime) -> tuple[Beside, LiveJobs]:
    """Return an instance, or a cluster, with the GPUs of running jobs in use, and these and those that wait.

    :raises ArnoldError: as :func:`~topology.running_jobs.read_running`.
    """
    from topology.running_jobs import read_running, with_running

    jobs = read_running(files, read.cluster, now=now)
    cluster, notes = with_running(read.cluster, jobs.running)
    return replace(read, cluster=cluster, notes=(*read.notes, *jobs.notes, *notes)), jobs


def running_job(file: str, cluster: Cluster, *, with_age: bool = False) -> RunningJob:
    """Read where a job runs.

    :raises ArnoldError: the file is unusable, or says not how old the checkpoint is where that is needed.
    """
    from scheduler.job_files.placement_file import load_placement
    from scheduler.several.running_jobs import RunningJob

    saved = load_placement(read_source(file), cluster)
    if with_age and saved.checkpoint_age is None:
        fix = "add checkpoint_age, the seconds since its last checkpoint, or use --moves"
        raise InvalidInput(f"nothing says how old the checkpoint of {saved.job.name!r} is", where=file, fix=fix)
    return RunningJob(file, saved.job, saved.nodes, saved.checkpoint_age, saved.place_of)


def running_job_options(function: F) -> F:
    """Give a command ``--job`` and ``--placement``."""
    placement = file_option("--placement", help=PLACEMENT_HELP)
    job = file_option(
        "--job",
        "job_file",
        help="The job, YAML or JSON, or its manifest of Kubernetes; - for standard input.  "
        "[default: that of --placement]",
    )
    return job(placement(function))


def read_machines(job_file: str | None, placement: str | None) -> Machines:
    """Return the machines that ``running_job_options`` describe.

    :raises ArnoldError: a file is unusable; neither was given; the placement is of another job.
    """
    from health.recovery.machines import Machines
    from scheduler.job_files.job_file import load_job
    from scheduler.job_files.placement_file import load_names

    saved = None if placement is None else load_names(read_source(placement))
    if job_file is None:
        if saved is None:
            raise InvalidInput("no job is given", where="--job", fix="give --job FILE, or --placement FILE")
        return Machines(saved.job, saved.names)
    if saved is None:
        return Machines(load_job(read_job_file(job_file)).job)
    job = load_job(read_job_file(job_file), gpus_per_node=saved.job.gpus_per_node).job
    if (job.parallelism, job.gpus_per_node) != (saved.job.parallelism, saved.job.gpus_per_node):
        raise InvalidInput(
            f"the placement is of {saved.job.name!r}, whose degrees of parallelism differ from those of {job.name!r}",
            where="--placement",
            fix="give the placement of this job, or leave out --job",
        )
    return Machines(job, saved.names)
