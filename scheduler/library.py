"""Place and explain a job from Python: what ``arnold place`` and ``arnold explain`` do, with the same files."""

from collections.abc import Sequence
from pathlib import Path

from ground.files import read_source
from ground.records import checked
from scheduler.algorithm_run import run
from scheduler.explanation import cheaper_pairs, why_not
from scheduler.job_files.job_file import load_job
from scheduler.outcome import Instance, Outcome
from scheduler.placement.types import ALGORITHMS, Limits
from topology.load import load_topology


@checked
def load(
    cluster: str | Path, job: str | Path, *, busy: Sequence[str | Path] = (), flags: Sequence[str | Path] = ()
) -> Instance:
    """Read a cluster and the job that is to go there.

    :param busy: lists of nodes that are in use.
    :param flags: files of flags, or flag stores.
    :raises ArnoldError: a file is unusable, or the job names a level or a type of GPU that the cluster has not.
    """
    loaded = load_topology(cluster, busy=busy, flags=flags)
    file = load_job(read_source(job), cluster=loaded.cluster)
    file.check_names(loaded.cluster)
    seen = loaded.cluster.tolerating(file.job.tolerations)
    return Instance(seen, file.job, loaded.source, (*loaded.notes, *file.notes))


@checked
def place(instance: Instance, *, algorithm: str = "exact", limits: Limits | None = None) -> Outcome:
    """Return where the job goes, proved optimal or with its gap; without a placement, why there is none.

    :param limits: 10 seconds where not given.
    :raises UnknownName: no algorithm is called that.
    """
    return run(ALGORITHMS.load(algorithm), instance.cluster, instance.job, limits or Limits())


@checked
def explain(instance: Instance, outcome: Outcome) -> list[str]:
    """Return why each pair of spreads that would cost less cannot be had; without a placement, why there is none."""
    if outcome.evaluation is None:
        return [outcome.reason]
    instance = instance.settled(outcome)
    return [reason.line for reason in why_not(cheaper_pairs(instance.cluster, instance.job, outcome))]
