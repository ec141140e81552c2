"""A job as one for a cluster: the levels and second hierarchies that it names, and the GPUs of a node where it
leaves them to the cluster.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ground.errors import InvalidJob, some
from ground.quantities import utc_minute
from ground.records import LATEST
from scheduler.job import Job, NodeSize, Parallelism
from topology.cluster import SECOND, Cluster, Level
from topology.flags import PROBATION, NodeFlag
from topology.taints import PREFER_NO_SCHEDULE, TAINTS_UNTIL, kept_out_by


def named_in_full(job: Job, levels: Collection[str], beside: Collection[str]) -> Job:
    """Return a job whose constraints name second hierarchies with their ``@``: a label that was a level, and of which a
    domain cuts across the tree now, is still meant.

    :param levels: names of the levels of the tree; ``beside``: of the second hierarchies.
    """
    bare = {name.removeprefix(SECOND): name for name in beside if name.removeprefix(SECOND) not in levels}
    if bare.keys().isdisjoint(job.constrained_levels):
        return job
    holds = tuple(replace(hold, level=bare.get(hold.level, hold.level)) for hold in job.holds)
    return job.replace(
        holds=holds, counts=tuple(replace(count, level=bare.get(count.level, count.level)) for count in job.counts)
    )


_GOING = "going away at"


def at_time(cluster: Cluster, job: Job, at: datetime) -> Cluster:
    """Return the cluster as it will be at an instant for a job that starts then: flags that are over by then are gone,
    those that have begun hold, and nodes that become faulty before the job ends are not for it, nor those that are kept
    out for a time: by reservations, of a job that does not say how long it runs also by later ones, or by taints.

    :param cluster: as it is at any time before, for this job.
    """
    timeless = at_no_time(cluster)
    later = tuple(flag for flag in timeless.upcoming if flag.since is not None and flag.since > at)
    holding = [flag for flag in timeless.upcoming if flag.active(at)]
    end = LATEST if job.expected_hours is None else _end(job.expected_hours, at)
    reserved = {
        cluster.index_of[window.node]: window.evidence
        for window in cluster.reserved
        if window.node in cluster.index_of
        and (window.since is None or window.since < end)
        and (window.until is None or at < window.until)
        # taints that the job tolerates do not keep it out
        and (
            window.source != TAINTS_UNTIL
            or kept_out_by(cluster.taints.get(cluster.index_of[window.node], ())) == window.evidence
        )
    }
    return before_it_goes(timeless.with_flags(holding).replace(upcoming=later).with_kept_out(reserved), job, at)


def at_no_time(cluster: Cluster) -> Cluster:
    """Return the cluster with all flags of its nodes, those that hold and those that begin later, as upcoming ones, and
    without what they, and reservations, mean to a job now.
    """
    flags = (*cluster.flags.values(), *cluster.upcoming)
    windows = dict[int, tuple[str, ...]]()
    for window in cluster.reserved:
        if (node := cluster.index_of.get(window.node)) is not None:
            windows[node] = (*windows.get(node, ()), window.evidence)
    return cluster.replace(
        flags={},
        upcoming=tuple(flag for flag in flags if not flag.evidence.startswith(_GOING)),
        kept_out={
            node: why for node, why in cluster.kept_out.items() if not why.startswith((_GOING, *windows.get(node, ())))
        },
    )


def before_it_goes(cluster: Cluster, job: Job, now: datetime) -> Cluster:
    """Return the cluster without the nodes that become faulty before a job ends that starts now and says how long it
    runs; an interruptible one may have them, at the price of a node that is better left to others.
    """
    cluster = off_probation(cluster, job)
    if job.expected_hours is None or not cluster.upcoming:
        return cluster
    end = _end(job.expected_hours, now)
    leaving: dict[int, tuple[str, str]] = {}  # node -> why, by the first that says so, and who says so
    for since, node, flag in _departures(cluster):
        if since < end:
            leaving.setdefault(node, (f"{_GOING} {utc_minute(since)}", flag.source))
    if not job.interruptible:
        return cluster.with_kept_out({node: why for node, (why, _) in leaving.items()})
    return cluster.with_flags(
        NodeFlag(cluster.names[node], "degraded", PREFER_NO_SCHEDULE, source=source, evidence=why)
        for node, (why, source) in leaving.items()
    )


def _end(hours: float, start: datetime) -> datetime:
    return start + min(timedelta(hours=hours), LATEST - start)


SMALL_JOB = 8  # Nodes of a job that a node on probation costs nothing: if the node fails again, little is lost


def off_probation(cluster: Cluster, job: Job) -> Cluster:
    """Return the cluster as a job has it: nodes that came back after a test have no price for a small or interruptible
    one, so that it is they who try such nodes first.
    """
    tested = {node for node, flag in cluster.flags.items() if flag.source == PROBATION}
    if not tested or not (job.interruptible or job.grid.cells <= SMALL_JOB):
        return cluster
    return cluster.replace(flags={node: flag for node, flag in cluster.flags.items() if node not in tested})


def going_away(cluster: Cluster, nodes: Collection[int]) -> tuple[str, ...]:
    """Return of some nodes which go away later, and when: a sentence for each instant."""
    of_placement, by_time = {*nodes}, dict[datetime, list[str]]()
    for since, node, _ in _departures(cluster):
        if node in of_placement:
            by_time.setdefault(since, []).append(cluster.names[node])
    return tuple(f"of this placement go away at {utc_minute(since)}: {some(names)}" for since, names in by_time.items())


def _departures(cluster: Cluster) -> list[tuple[datetime, int, NodeFlag]]:
    """Return when nodes become faulty, the earliest first, with the node and the flag that says so."""
    departures = [
        (flag.since, cluster.index_of[flag.node], flag)
        for flag in cluster.upcoming
        if flag.kind == "faulty" and flag.since is not None and flag.node in cluster.index_of
    ]
    return sorted(departures, key=lambda departure: departure[0])


def hierarchies_beside(cluster: Cluster, job: Job) -> tuple[Level, ...]:
    """Return the second hierarchies that the constraints of a job name."""
    named = set(job.constrained_levels)
    return tuple(level for level in cluster.second_levels if level.name in named)


def named_beside(cluster: Cluster, job: Job) -> str | None:
    """Return the first second hierarchy that a constraint of a job names; ``None`` = none does."""
    beside = {level.name for level in cluster.second_levels}
    return next((name for name in job.constrained_levels if name in beside), None)


def within_the_tree(cluster: Cluster, job: Job) -> Job:
    """Return a job without its constraints at second hierarchies, hard and soft; the job itself if it has none."""
    beside = {level.name for level in cluster.second_levels}
    if beside.isdisjoint(job.constrained_levels):
        return job
    holds = tuple(hold for hold in job.holds if hold.level not in beside)
    return job.replace(holds=holds, counts=tuple(count for count in job.counts if count.level not in beside))


def closest_named(cluster: Cluster, job: Job) -> int:
    """Return the depth of the closest level of the tree that the objective or the constraints of a job look at."""
    job = within_the_tree(cluster, job)
    held = (hold.level for hold in job.holds_on(cluster))
    return max(cluster.level_index(name) for name in (job.level, *job.constrained_levels, *held))


def on_nodes(cluster: Cluster, job: Job, nodes: Sequence[int]) -> Job:
    """Return a job that leaves the GPUs of a node to the cluster as one for nodes of the size that the first of some
    nodes has; the job itself where it says the size, or does not cut into nodes of that one.
    """
    gpus = int(cluster.gpus[nodes[0]])
    alike = gpus in {size.gpus for size in job.node_sizes}
    return job.replace(gpus_per_node=gpus, node_sizes=()) if alike else job


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """What was taken."""

    usual: int  # GPUs of a node of the type of which there are most
    by_type: tuple[NodeSize, ...]  # where types differ, most nodes first; empty = all nodes that it admits are alike
    # types into whose nodes the job cuts, where it does not into those of others that it would admit; else empty
    fitting: tuple[str, ...]
    note: str  # for the user, one sentence without its full stop


def count_sizes(cluster: Cluster) -> dict[NodeSize, int]:
    """Return how many nodes of each type have how many GPUs: most nodes first, of equally many by type, then GPUs.

    Nodes that share their GPUs count only where there are no others.
    """
    counts = cluster.whole if cluster.whole.any() else ~cluster.whole
    types, gpus = cluster.gpu_type_of[counts].tolist(), cluster.gpus[counts].tolist()
    counted = Counter(zip(types, gpus, strict=True))
    sizes = ((NodeSize(cluster.gpu_types[of], gpus), count) for (of, gpus), count in counted.items())
    return dict(sorted(sizes, key=lambda size: (-size[1], size[0].gpu_type, size[0].gpus)))


def node_sizes(cluster: Cluster, parallelism: Parallelism, gpu_types: Collection[str] | None) -> NodeSizes:
    """Return the GPUs of a node for a job that does not say them.

    :param gpu_types: types that the job admits; ``None`` = any, of which those are left out that it cannot be cut into.
    :raises InvalidJob: nodes of one type differ, or no type will do.
    """
    counted = {size: n for size, n in count_sizes(cluster).items() if gpu_types is None or size.gpu_type in gpu_types}
    # nodes of one type with different numbers of GPUs are refused; most nodes come first
    types = [size.gpu_type for size in counted]
    name = next((type_ for type_ in types if types.count(type_) > 1), None)
    if name is not None:
        which = f"nodes of the type {name}" if name else "the cluster's nodes"
        sizes = {size.gpus: count for size, count in counted.items() if size.gpu_type == name}
        counts = ", ".join(f"{count} with {gpus}" for gpus, count in sizes.items())
        problem = f"{which} differ in GPUs ({counts}), and the job does not say which it wants"
        fix = f"add gpus_per_node to the job, for example gpus_per_node: {next(iter(sizes))}"
        raise InvalidJob(problem, where="gpus_per_node", fix=fix)
    admitted = list(counted)
    if len({size.gpus for size in admitted}) < 2:
        usual = admitted[0].gpus if admitted else cluster.node_size
        return NodeSizes(usual, (), (), "" if cluster.gpus_assumed else _note([NodeSize("", usual)]))
    fitting = []
    for size in admitted:
        try:
            parallelism.shape(size.gpus)
        except InvalidJob:
            if gpu_types is not None:
                raise
        else:
            fitting.append(size)
    if not fitting:
        parallelism.shape(admitted[0].gpus)
    cut = [size.gpu_type or "nodes of no type that is said" for size in admitted if size not in fitting]
    several = tuple(fitting) if len({size.gpus for size in fitting}) > 1 else ()
    named = tuple(size.gpu_type for size in fitting) if cut else ()
    return NodeSizes(fitting[0].gpus, several, named, _note(fitting, cut))


def _note(sizes: Sequence[NodeSize], cut: Sequence[str] = ()) -> str:
    if len({size.gpus for size in sizes}) == 1:
        sentence = f"gpus_per_node {sizes[0].gpus}, which is what the nodes have: the job does not say it"
    else:
        listed = ", ".join(f"{size.gpus} on {size.gpu_type or 'nodes of no type that is said'}" for size in sizes)
        sentence = f"gpus_per_node is what the nodes of each type have, as the job does not say it: {listed}"
    left_out = f"; left out, as the job does not cut into their nodes: {', '.join(cut)}" if cut else ""
    return f"{sentence}{left_out}"
