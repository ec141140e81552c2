"""Jobs that run: where they are, what that is worth, and what they ask of the classes of nodes if they may move; and a
job placed near running ones that read the same data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from ground.errors import InvalidInput, InvalidPlacement, did_you_mean
from scheduler.job import Job, near_shared_data
from scheduler.objective import Evaluation, evaluate, slowest_in_use, worth_of
from scheduler.outcome import Instance
from scheduler.placement.node_classes import NodeClasses, classify
from scheduler.placement.share_program import RunningShare, running_terms
from scheduler.repair import of_its_type
from scheduler.subproblems import pulls_of
from topology.cluster import Cluster, IntArray


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs where each of its cells is known, so that some of it may move."""

    source: str  # file that says so
    job: Job
    nodes: IntArray  # shape [rows, columns], index of the node of each cell
    checkpoint_age: float | None = None  # seconds since its last checkpoint, lost if any of it moves; None = unknown
    place_of: Callable[[int], str] | None = None  # where the file names a node, by its index; None = the source says it

    @property
    def lost_seconds(self) -> int:
        """GPU-seconds that are lost if any of it moves; all its GPUs go back to the checkpoint."""
        return round((self.checkpoint_age or 0.0) * self.job.parallelism.gpus)

    def worth(self, cluster: Cluster, nodes: IntArray) -> Evaluation | None:
        """Return what a placement of it is worth, on nodes that are free of others; ``None`` = it breaks a rule.

        What was found about its own nodes since it started is no reason to leave them.
        """
        return worth_of(self.excused(cluster), self.job, nodes)

    def excused(self, cluster: Cluster) -> Cluster:
        """Return the cluster with nothing held against the nodes that it has."""
        return cluster.excused(set(self.nodes.ravel().tolist()))


def opened(cluster: Cluster, running: Sequence[RunningJob]) -> Cluster:
    """Return the cluster with the nodes of running jobs free; whether it shows them as in use makes no difference."""
    free = cluster.free_gpus.copy()
    for incumbent in running:
        free[incumbent.nodes] = cluster.gpus[incumbent.nodes]
    return cluster.replace(free_gpus=free)


def check_running(cluster: Cluster, running: Sequence[RunningJob]) -> list[Evaluation]:
    """Return what each running job has now.

    :param cluster: with their nodes free.
    :raises InvalidInput: two of them have one node; InvalidPlacement: one breaks a rule of its job or the cluster.
    """
    holder: dict[int, RunningJob] = {}
    worths = []
    for incumbent in running:
        for node in incumbent.nodes.ravel().tolist():
            if node in holder:
                raise InvalidInput(
                    f"node {cluster.names[node]!r} has a cell of {incumbent.job.name!r} and one of the job of "
                    f"{holder[node].source}",
                    where=incumbent.place_of(node) if incumbent.place_of else incumbent.source,
                    fix="give each running job once, and leave out those that have ended",
                )
        holder |= dict.fromkeys(incumbent.nodes.ravel().tolist(), incumbent)
        excused = incumbent.excused(cluster)
        try:
            worths.append(evaluate(excused, incumbent.job, incumbent.nodes))
        except InvalidPlacement as error:
            fix = "give the cluster that the job was placed on"
            problem = f"{incumbent.job.name!r}: {error.message}"
            raise InvalidPlacement(problem, where=incumbent.source, fix=fix) from None
    return worths


def classes_with_running(
    cluster: Cluster, job: Job, slowest: float, running: Sequence[RunningJob], worths: Sequence[Evaluation]
) -> tuple[NodeClasses, list[RunningShare]]:
    """Return the classes for a new job, which is the first, and running ones; and what each of these must keep.

    :param cluster: with the nodes of running jobs free.
    :param slowest: up to which slowdown the new job may have nodes.
    """
    jobs = [of_its_type(cluster, incumbent.job, incumbent.nodes) for incumbent in running]
    limits = [
        inf if job.avoid == "ignore" else slowest_in_use(cluster, now) for job, now in zip(jobs, worths, strict=True)
    ]
    own = {i + 1: incumbent.nodes.ravel() for i, incumbent in enumerate(running)}
    classes = classify(cluster, [job, *jobs], [slowest, *limits], own=own)
    shares = []
    for incumbent, kept, now, (demand,) in zip(running, jobs, worths, classes.demands[1:], strict=True):
        terms, costs, most = running_terms(cluster, demand, objective=now.objective)
        least = kept.speed_on(now.gpu_types)
        options = tuple(i for i, option in enumerate(demand.options) if option.speed >= least)
        homes = classes.class_of[incumbent.nodes.ravel()]
        columns = kept.grid.columns
        shares.append(RunningShare(demand, options, homes, columns, terms, costs, most, incumbent.lost_seconds))
    return classes, shares


def near_running_jobs(instance: Instance, jobs: Sequence[RunningJob]) -> Instance:
    """Return the instance with the nodes of running jobs in use, where nodes cost less near those that read the same
    data.

    :raises ArnoldError: two running jobs have one node, or one breaks a rule of its job or the cluster.
    """
    cluster, job = instance.cluster, instance.job
    check_running(opened(cluster, jobs), jobs)
    free = cluster.free_gpus.copy()
    for incumbent in jobs:
        free[incumbent.nodes] = 0
    read = [name for incumbent in jobs for name, _ in incumbent.job.data_sets]
    unread = [name for name, _ in job.data_sets if name not in read]
    notes = []
    for name in unread:
        meant = did_you_mean(name, read).strip()
        notes.append(f"No running job reads {name!r}{f' ({meant})' if meant else ''}.")
    where = job.data_level or cluster.levels[-1].name
    reading = [(incumbent.job.data_sets, incumbent.nodes) for incumbent in jobs]
    costs, near = pulls_of(cluster, job), near_shared_data(job.data_sets, cluster.level(where).domain_of, reading)
    if near.any():
        costs = -near if costs is None else costs - near
    return replace(instance, cluster=cluster.replace(free_gpus=free), notes=(*instance.notes, *notes), costs=costs)
