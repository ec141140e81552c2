"""The options of commands that read a cluster, or place a job on one, and what they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from arnold.commands.field_options import options_of, take
from scheduler.job import Overrides
from scheduler.placement.types import Limits
from topology.errors import InvalidInput
from topology.field_types import AtLeastOne

if TYPE_CHECKING:
    from scheduler.outcome import Instance
    from topology.cluster import Cluster
    from topology.readers import LoadedTopology

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """A cluster file, how to read it, and what lies over it."""

    cluster: str = field(metadata={"file": True})
    """The cluster, in any known format; - is stdin."""
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

        :raises ArnoldError: a file is unusable.
        """
        from topology.readers import load_topology

        levels = None if self.levels is None else [level.strip() for level in self.levels.split(",")]
        return load_topology(
            self.cluster,
            format=self.format,
            levels=levels,
            domains=None if self.domains is None else _domains(self.domains),
            gpus_per_node=self.gpus_per_node,
            gpu_type=self.gpu_type,
            busy=self.busy,
            flags=self.flags,
        )


def _domains(text: str) -> dict[str, str]:
    """Return the label of each second hierarchy from ``power=LABEL,failure=LABEL``, names with their @."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, label = (one.strip() for one in part.partition("="))
        fix = "write power=LABEL, several with commas between them"
        if not (name and equals and label):
            raise InvalidInput(f"{part.strip()[:80]!r} is no name with a label", where="--domains", fix=fix)
        key = f"@{name.removeprefix('@')}"
        if key in found:
            raise InvalidInput(f"{key} is given twice", where="--domains", fix="keep one of the two")
        found[key] = label
    return found


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
        text, loaded = read_source(own.job), files.read()
        job = load_job(text, overrides=self.overrides, records=records, cluster=loaded.cluster)
        job.check_names(loaded.cluster)
        return Instance(loaded.cluster, job.job, files.cluster, (*loaded.notes, *job.notes))


def placement_inputs(command: F) -> F:
    """Give a command the options of a cluster, of a job, and of the limits of a solver, as one record ``inputs``."""

    @wraps(command)
    def call(**options: Any) -> Any:
        files, job, overrides = take(ClusterFiles, options), take(JobFiles, options), take(Overrides, options)
        return command(inputs=PlacementInputs(files, job, overrides, take(Limits, options)), **options)

    # the last decorator's options stand first in the help
    for part in (Limits, Overrides, JobFiles, ClusterFiles):
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
