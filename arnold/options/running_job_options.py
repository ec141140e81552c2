"""``--job`` and ``--placement`` of commands about a job that runs: the options and what they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from arnold.options.field_options import file_option
from arnold.options.shared_options import PLACEMENT_HELP
from ground.errors import InvalidInput
from ground.files import read_source

if TYPE_CHECKING:
    from health.recovery.machines import Machines

F = TypeVar("F", bound=Callable[..., Any])


def running_job_options(function: F) -> F:
    """Give a command ``--job`` and ``--placement``."""
    placement = file_option("--placement", help=PLACEMENT_HELP)
    job = file_option(
        "--job", "job_file", help="The job, YAML or JSON; - for standard input.  [default: that of --placement]"
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
        return Machines(load_job(read_source(job_file)).job)
    job = load_job(read_source(job_file), gpus_per_node=saved.job.gpus_per_node).job
    if (job.parallelism, job.gpus_per_node) != (saved.job.parallelism, saved.job.gpus_per_node):
        raise InvalidInput(
            f"the placement is of {saved.job.name!r}, whose degrees of parallelism differ from those of {job.name!r}",
            where="--placement",
            fix="give the placement of this job, or leave out --job",
        )
    return Machines(job, saved.names)
