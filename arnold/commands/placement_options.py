"""The options of commands that place a job on a cluster, and the instance that they describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from arnold.commands.cluster_options import check_stdin, cluster_options, read_cluster
from arnold.commands.field_options import options_of, take
from scheduler.job import Overrides
from scheduler.placement.types import Limits

if TYPE_CHECKING:
    from scheduler.outcome import Instance

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files that describe a job."""

    job: str = field(metadata={"file": True})
    """The job, YAML or JSON; - is stdin."""
    records: str | None = field(default=None, metadata={"file": True})
    """Own measurements, where the job leaves alpha to its model."""


def instance_options(command: F) -> F:
    """Give a command the options of a cluster, of a job, and of the limits of a solver."""
    for decorate in (options_of(Limits), options_of(Overrides), options_of(JobFiles), cluster_options):
        command = decorate(command)
    return command


def read_instance(options: dict[str, Any]) -> Instance:
    """Return the instance that the options describe, which are taken out of them.

    :raises ArnoldError: a file is unusable, or the job names a level that the cluster does not have.
    """
    from scheduler.jobfile import load_job, load_records
    from scheduler.outcome import Instance
    from topology.files import read_source

    files, overrides = take(JobFiles, options), take(Overrides, options)
    check_stdin(
        {
            "--cluster": options["cluster"],
            "--job": files.job,
            "--busy": options["busy"],
            "--flags": options["flags"],
            "--records": files.records,
        }
    )
    records = () if files.records is None else load_records(read_source(files.records))
    job = load_job(read_source(files.job), overrides=overrides, records=records)
    cluster, notes = read_cluster(**options)
    job.check_levels(cluster)
    return Instance(cluster, job.job, options["cluster"], (*notes, *job.notes))
