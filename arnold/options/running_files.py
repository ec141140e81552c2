"""The files of ``--running``: where jobs run, as ``arnold place --output`` saved it of each."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from typing import TYPE_CHECKING

from ground.errors import InvalidInput
from ground.files import read_source

if TYPE_CHECKING:
    from scheduler.several.running_jobs import RunningJob
    from topology.cluster import Cluster


def running_files(patterns: Sequence[str]) -> list[str]:
    """Return the files that patterns name, each once, in order.

    :raises InvalidInput: a pattern names none.
    """
    files: list[str] = []
    for pattern in patterns:
        matches = sorted(glob(pattern))  # noqa: PTH207  (a pattern may begin with /, which Path.glob refuses)
        found = matches or ([] if any(sign in pattern for sign in "*?[") else [pattern])
        if not found:
            fix = "name the files that `arnold place --output` saved"
            raise InvalidInput("no file has such a name", where=f"--running {pattern}", fix=fix)
        files += found
    return list(dict.fromkeys(files))


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


def running_jobs(patterns: Sequence[str], cluster: Cluster) -> list[RunningJob]:
    """Read where all jobs run that patterns name.

    :raises ArnoldError: a file is unusable, or a pattern names none.
    """
    return [running_job(file, cluster) for file in running_files(patterns)]
