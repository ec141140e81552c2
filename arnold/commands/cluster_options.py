"""The options of commands that read a cluster, or place a job on one, and what they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from math import nan
from typing import TYPE_CHECKING, Any, TypeVar, cast

from arnold.commands.field_options import options_of, take
from scheduler.job import Overrides
from scheduler.placement.types import Limits
from topology.errors import InvalidInput, InvalidJob, UnknownName, did_you_mean
from topology.field_types import AtLeastOne

if TYPE_CHECKING:
    from arnold.live_clusters import OpenedCluster
    from scheduler.outcome import Instance
    from topology.cluster import Cluster
    from topology.readers import LoadedTopology

LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e6  # Of a job: beyond these one job is all that counts
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """A cluster file, how to read it, and what lies over it."""

    cluster: str = field(metadata={"file": True})
    """The cluster: a file in any known format, - is stdin; kube:[CONTEXT] or slurm: reads a live one."""
    format: str | None = field(
        default=None,
        metadata={"metavar": "NAME", "help": "Format of the cluster file  [default: recognised by content]"},
    )
    levels: str | None = field(default=None, metadata={"metavar": "A,B,.."})
    """Labels to take as levels, broad to close (Kubernetes)."""
    domains: str | None = field(
        default=None,
        metadata={"metavar": "NAME=LABEL,..", "help": "Second hierarchies by label: power=LABEL,.. (Kubernetes)"},
    )
    gpus_per_node: AtLeastOne | None = field(
        default=None,
        metadata={"metavar": "N", "help": "GPUs of each node, where the cluster file does not say  [default: 8]"},
    )
    gpu_type: str | None = field(
        default=None, metadata={"metavar": "NAME", "help": "Type of their GPUs, where the cluster file does not say it"}
    )
    busy: tuple[str, ...] = field(default=(), metadata={"file": True})
    """Which nodes are in use: a node or Slurm hostlist a line, or what sinfo or scontrol say of nodes; may be repeated.
    """
    flags: tuple[str, ...] = field(default=(), metadata={"file": True})
    """Slow and faulty nodes besides: YAML, JSON, flag store; may be repeated."""

    def read(self) -> LoadedTopology:
        """Return the cluster with what lies over it.

        :raises ArnoldError: a file is unusable, or a live cluster cannot be read.
        """
        from arnold.live_clusters import open_cluster

        return self.over(open_cluster(self.cluster, format=self.format))

    def over(self, opened: OpenedCluster) -> LoadedTopology:
        """Return a cluster that was read already, with what lies over it; raise as :meth:`read`."""
        from topology.readers import load_topology
        from topology.readers.kubernetes_labels import parse_domains

        levels = None if self.levels is None else [level.strip() for level in self.levels.split(",")]
        loaded = load_topology(
            opened.topology,
            format=self.format,
            levels=levels,
            domains=None if self.domains is None else parse_domains(self.domains),
            gpus_per_node=self.gpus_per_node,
            gpu_type=self.gpu_type,
            busy=(*opened.in_use, *self.busy),
            flags=self.flags,
        )
        return replace(loaded, notes=(*loaded.notes, *opened.notes))


cluster_options = options_of(ClusterFiles)  # Give a command --cluster and what lies over it
_OVERLAY = ("levels", "domains", "gpus_per_node", "gpu_type", "busy", "flags")

state_options = options_of(ClusterFiles, only=("format", *_OVERLAY))
"""Give a command how to read a cluster file, and what lies over it."""

overlay_options = options_of(ClusterFiles, only=_OVERLAY)
"""Give a command what lies over a cluster file; its ``--format`` is that of another file."""


def read_cluster(**files: Any) -> tuple[Cluster, tuple[str, ...]]:
    """Return the cluster that the options of :class:`ClusterFiles` describe, and notes about it.

    :raises ArnoldError: a file is unusable.
    """
    loaded = ClusterFiles(**files).read()
    return loaded.cluster, loaded.notes


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files that describe a job."""

    job: str = field(metadata={"file": True})
    """The job, YAML or JSON; - is stdin."""
    records: str | None = field(default=None, metadata={"file": True})
    """Own measurements, where the job leaves alpha to its model."""


@dataclass(frozen=True, slots=True)
class PlacementInputs:
    """What commands that place a job are asked."""

    files: ClusterFiles
    job: JobFiles
    overrides: Overrides
    limits: Limits

    def read(self) -> Instance:
        """Return the instance.

        :raises ArnoldError: a file is unusable, or the job names a level or a type of GPU that the cluster has not.
        """
        several = SeveralJobFiles((self.job.job,), (), self.job.records)
        (instance,), _ = JointInputs(self.files, several, self.overrides, self.limits).read()
        return instance


@dataclass(frozen=True, slots=True)
class SeveralJobFiles:
    """The files that describe one job or several, and how much each counts."""

    job: tuple[str, ...] = field(metadata={"file": True})
    """The job, YAML or JSON; - is stdin. Several, repeated: all are placed at once."""
    weight: tuple[str, ...] = field(default=(), metadata={"metavar": "NAME=NUMBER"})
    """How much the objective of a job counts in the sum of several, 1 if not said; may be repeated."""
    records: str | None = field(default=None, metadata={"file": True})
    """Own measurements, where a job leaves alpha to its model."""


@dataclass(frozen=True, slots=True)
class JointInputs:
    """What a command that places several jobs at once is asked."""

    files: ClusterFiles
    job: SeveralJobFiles
    overrides: Overrides
    limits: Limits

    @property
    def alone(self) -> PlacementInputs | None:
        """The question of the one job; ``None`` = there are several, or weights."""
        if len(self.job.job) > 1 or self.job.weight:
            return None
        return PlacementInputs(self.files, JobFiles(self.job.job[0], self.job.records), self.overrides, self.limits)

    def read(self) -> tuple[list[Instance], list[float]]:
        """Return an instance for each job, all on one cluster, and the weights of the jobs.

        :raises ArnoldError: a file is unusable, two jobs have one name, or a weight is none.
        """
        from scheduler.jobfile import load_job
        from scheduler.outcome import Instance
        from scheduler.records_file import load_records
        from topology.files import read_source

        files, own = self.files, self.job
        check_stdin(
            {
                "--cluster": files.cluster,
                "--job": own.job,
                "--busy": files.busy,
                "--flags": files.flags,
                "--records": own.records,
            }
        )
        records = () if own.records is None else load_records(read_source(own.records))
        texts, loaded = [read_source(file) for file in own.job], files.read()
        jobs = [load_job(text, overrides=self.overrides, records=records, cluster=loaded.cluster) for text in texts]
        named: dict[str, str] = {}
        for file, job in zip(own.job, jobs, strict=True):
            if job.job.name in named:
                said = f"two jobs are called {job.job.name!r}: that of {named[job.job.name]} is the other"
                raise InvalidJob(said, where=file, fix="give each job a name of its own (name: ...)")
            named[job.job.name] = file
        weights = _weights(own.weight, [*named])
        for file, job in zip(own.job, jobs, strict=True):
            job.check_names(loaded.cluster)
            if self.alone is None:
                from scheduler.several.joint_question import check_shared

                check_shared(loaded.cluster, job.job, where=file)
        notes = loaded.notes
        instances = [Instance(loaded.cluster, job.job, loaded.source, (*notes, *job.notes)) for job in jobs]
        return instances, [weights.get(name, 1.0) for name in named]


def _weights(given: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """Return the weight of each job that has one: ``a=2``.

    :raises InvalidInput: no number above 0, or a job twice; UnknownName: there is no such job.
    """
    weights: dict[str, float] = {}
    for text in given:
        name, separator, number = text.rpartition("=")
        if not separator:
            raise InvalidInput(f"{text!r} is no weight", where="--weight", fix="give NAME=NUMBER, such as big=2")
        if name not in names:
            fix = f"{did_you_mean(name, names)}jobs: {', '.join(names)}"
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
    return weights


def placement_inputs(command: F) -> F:
    """Give a command the options of a cluster, of a job, and of the limits of a solver, as one record ``inputs``."""
    return _with_inputs(command, JobFiles, PlacementInputs)


def joint_inputs(command: F) -> F:
    """Give a command the same with one job or several, as one record ``inputs``."""
    return _with_inputs(command, SeveralJobFiles, JointInputs)


def _with_inputs(command: F, kind: type, made: type) -> F:
    @wraps(command)
    def call(**options: Any) -> Any:
        files, overrides = take(ClusterFiles, options), take(Overrides, options)
        job: Any = take(kind, options)
        return command(inputs=made(files, job, overrides, take(Limits, options)), **options)

    # the last decorator's options stand first in the help
    for part in (Limits, Overrides, kind, ClusterFiles):
        call = options_of(part)(call)
    return cast("F", call)


def check_stdin(inputs: Mapping[str, str | Sequence[str] | None]) -> None:
    """Make sure that at most one file is standard input.

    :param inputs: option -> file, or files.
    :raises InvalidInput: it would be read twice.
    """
    files = [(option, [given] if isinstance(given, str) else given or ()) for option, given in inputs.items()]
    from_stdin = [option for option, names in files for file in names if file == "-"]
    if len(from_stdin) > 1:
        raise InvalidInput(
            f"{' and '.join(from_stdin)} both read standard input",
            where=from_stdin[1],
            fix="give a file for all but one",
        )
