"""Why a job does not fit, and the smallest changes that would make it fit.

Each change is verified by solving the changed instance; one that was not settled within its time is not suggested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ground.errors import InvalidJob
from ground.quantities import plural
from ground.records import JsonRecord
from scheduler.algorithm_run import fits, run
from scheduler.job import Job
from scheduler.node_grid import filling
from scheduler.objective import Evaluation, Spread
from scheduler.outcome import Outcome
from scheduler.placement.admission import Blocks, admissible, blocks_at, choices, repelling_taints, shortage
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.second_levels import within_the_tree
from topology.cluster import BoolArray, Cluster, IntArray, count_nodes
from topology.taints import Toleration

RemedyKind = Literal[
    "smaller-dp",
    "smaller-ep",
    "free-nodes",
    "admit-flagged",
    "tolerate-taint",
    "admit-shared",
    "drop-constraint",
    "broader-tp-level",
    "other-node-size",
]
Constraint = Literal["nodes", "hold", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy(JsonRecord):
    """A change that makes the job fit, verified by solving the changed instance."""

    kind: RemedyKind
    """smaller-dp, smaller-ep, free-nodes, admit-flagged, tolerate-taint, admit-shared, drop-constraint,
    broader-tp-level or other-node-size.
    """
    sentence: str
    """What to do."""
    spread: Spread
    """Spread of the placement that the change allows."""
    objective: float
    """Objective of the same."""
    dp: int | None
    """The smaller data parallelism, for smaller-dp."""
    free: tuple[str, ...]
    """Nodes to free, for free-nodes."""


@dataclass(frozen=True, slots=True)
class Misfit(JsonRecord):
    """Why the job does not fit."""

    constraint: Constraint
    """What binds: nodes (too few), hold (a hard constraint although there are enough nodes), unknown."""
    reason: str
    """What binds, in words."""
    would_fit_if_empty: bool | None
    """Whether the job would fit if no GPU of the cluster were in use; null = not settled in time."""
    changes: tuple[Remedy, ...]
    """Smallest changes that would help, each of them alone."""


def diagnose(cluster: Cluster, job: Job, outcome: Outcome, *, solver: PlacementAlgorithm, limits: Limits) -> Misfit:
    """Return why the job does not fit, and what would help; the outcome is the solver's, infeasible."""
    too_few = shortage(cluster, job)
    binding: Constraint = "nodes" if too_few else "hold" if job.holds_groups else "unknown"
    return Misfit(
        constraint=binding,
        reason=too_few or outcome.reason,
        would_fit_if_empty=fits(cluster.emptied(), job, solver=solver, limits=limits),
        changes=tuple(_changes(cluster, job, solver, limits)),
    )


def _changes(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    attempts = {
        "with slow nodes": _admit_flagged,
        "with taints tolerated": _tolerate_taints,
        "with GPUs that are shared": _admit_shared,
        "with fewer constraints": _drop_constraint,
        "with TP groups farther apart": _broader_tp_level,
        "with nodes freed": _free_nodes,
        "with a smaller dp": _smaller_dp,
        "with a smaller ep": _smaller_ep,
        "on nodes of another size": _other_node_size,
    }
    for words, attempt in attempts.items():
        limits.say(f"does it fit {words}?")
        yield from attempt(cluster, job, solver, limits)


def _solved(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Evaluation | None:
    """Return what the placement of a changed instance is worth, if there is one."""
    return None if shortage(cluster, job) else run(solver, cluster, job, limits).evaluation


def _change(
    kind: RemedyKind, sentence: str, worth: Evaluation, *, dp: int | None = None, free: tuple[str, ...] = ()
) -> Remedy:
    """Return a change, its sentence ended with what the placement is worth."""
    sentence += f"; then DP spread {worth.dp}, PP spread {worth.pp}."
    return Remedy(kind=kind, sentence=sentence, spread=worth.spread, objective=worth.objective, dp=dp, free=free)


def _admit_flagged(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    if job.avoid != "strict":
        return
    if (worth := _solved(cluster, job.replace(avoid="price"), solver, limits)) is not None:
        sentence = f"Admit slow nodes (avoid: price): {len(worth.flagged)} of them would be used"
        yield _change("admit-flagged", sentence, worth)


def _tolerate_taints(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    """Yield each taint that it would be enough to tolerate; where none is, all of them together."""
    taints = repelling_taints(cluster, job)
    enough = False
    for some in [*((taint,) for taint in taints), *([taints] if len(taints) > 1 else [])]:
        if enough and len(some) > 1:
            return
        more = (Toleration(taint.key, "Equal", taint.value or "", taint.effect) for taint in some)
        changed = job.replace(tolerations=(*job.tolerations, *more))
        if (worth := _solved(cluster, changed, solver, limits)) is not None:
            enough = True
            names = [*dict.fromkeys(map(str, some))]
            options = " ".join(f"--tolerate {name}" for name in names)
            opened = int((admissible(cluster, changed) & ~admissible(cluster, job)).sum())
            whose = f"the taint{'s' * (len(names) > 1)} {', '.join(names)}"
            sentence = f"Tolerate {whose} ({options}), which would admit {plural(opened, 'more node')}"
            yield _change("tolerate-taint", sentence, worth)


def _admit_shared(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    if not cluster.sharing:
        return
    if (worth := _solved(cluster.without_sharing(), job, solver, limits)) is not None:
        ways = " or ".join(sorted({*cluster.sharing.values()}))
        sentence = f"Hand out whole GPUs instead of shared ones ({ways}) on {len(cluster.sharing)} nodes"
        yield _change("admit-shared", f"{sentence}, and count them with --shared-gpus whole", worth)


def _drop_constraint(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    for hold in job.holds:
        others = tuple(other for other in job.holds if other != hold)
        if (worth := _solved(cluster, job.replace(holds=others), solver, limits)) is not None:
            sentence = (
                f"Drop the constraint that every {hold.family.upper()} group stays in one {hold.level}, or make it "
                f"soft: a group would touch up to {worth.by_level[hold.level][hold.family]}"
            )
            yield _change("drop-constraint", sentence, worth)


def _broader_tp_level(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    """Yield the closest broader level whose domains have room for the TP groups, where these take several nodes."""
    if job.nodes_of_tp == 1:
        return
    held, counted = cluster.level_index(job.holds_on(cluster)[-1].level), cluster.level_index(job.level)
    for level in reversed(cluster.levels[counted:held]):
        if (worth := _solved(cluster, job.replace(tp_level=level.name), solver, limits)) is not None:
            touched = worth.by_level[cluster.levels[held].name]["tp"]
            sentence = (
                f"Let a TP group of {job.nodes_of_tp} nodes leave its {cluster.levels[held].name} (tp_level: "
                f"{level.name}): it would touch up to {touched}"
            )
            yield _change("broader-tp-level", sentence, worth)
            return


def _smaller_dp(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    """Yield the largest dp that fits: what holds a job holds it with fewer replicas, so bisection finds it."""
    candidates = list(_smaller_jobs(job, int(admissible(cluster, job).sum())))
    best: Evaluation | None = None
    low, high = 0, len(candidates)
    while low < high:
        # without holds the largest that has nodes enough fits
        middle = (low + high) // 2 if job.holds_groups else low
        if (worth := _solved(cluster, candidates[middle], solver, limits)) is None:
            low = middle + 1
        else:
            best, high = worth, middle
    if best is not None:
        dp = candidates[high].parallelism.dp
        yield _change("smaller-dp", f"Lower dp from {job.parallelism.dp} to {dp}", best, dp=dp)


def _smaller_jobs(job: Job, nodes: int) -> Iterator[Job]:
    """Yield the job with fewer replicas and at most that many nodes, largest first, that fill nodes as its own do."""
    most = nodes * job.gpus_per_node * job.parallelism.dp // job.parallelism.gpus
    evenly = not filling(job.parallelism.dense, job.gpus_per_node)
    for dp in range(min(job.parallelism.dp - 1, most), 0, -1):
        try:
            smaller = job.replace(parallelism=replace(job.parallelism, dp=dp))
            if filling(smaller.parallelism.dense, job.gpus_per_node) and evenly:
                continue
            smaller.grid.tied([hold.family for hold in job.holds])
        except InvalidJob:
            continue
        yield smaller


def _smaller_ep(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    """Yield the largest ep that fits, where expert groups are held inside domains."""
    ep = job.parallelism.ep
    if all(hold.family != "ep" for hold in job.holds):
        return
    for smaller in (n for n in range(ep // 2, 0, -1) if ep % n == 0):
        try:
            changed = job.replace(parallelism=replace(job.parallelism, ep=smaller))
            changed.grid.tied([hold.family for hold in job.holds])
        except InvalidJob:
            continue
        if (worth := _solved(cluster, changed, solver, limits)) is not None:
            sentence = f"Lower ep from {ep} to {smaller}, with {ep // smaller} times as many experts on each GPU"
            yield _change("smaller-ep", sentence, worth)
            return


def _other_node_size(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    """Yield nodes of another size, where the cluster has mostly those."""
    sizes = Counter(int(size) for size in cluster.gpus[cluster.idle] if size != job.gpus_per_node)
    for size, _ in sizes.most_common(2):
        try:
            job.parallelism.shape(size)
        except InvalidJob:
            continue
        if (worth := _solved(cluster, job.replace(gpus_per_node=size), solver, limits)) is not None:
            nodes = f"Use the nodes of {size} GPUs (gpus_per_node: {size}"
            if cluster.gpus_assumed:
                nodes += (
                    f"), if they have {size}, which is assumed: the cluster file does not say it (--gpus-per-node "
                    f"{job.gpus_per_node} if they have {job.gpus_per_node}"
                )
            yield _change("other-node-size", f"{nodes})", worth)


def _free_nodes(cluster: Cluster, job: Job, solver: PlacementAlgorithm, limits: Limits) -> Iterator[Remedy]:
    if not len(freed := nodes_to_free(cluster, job)):
        return
    free_gpus = cluster.free_gpus.copy()
    free_gpus[freed] = cluster.gpus[freed]
    if (worth := _solved(cluster.replace(free_gpus=free_gpus), job, solver, limits)) is not None:
        sentence = f"Free {len(freed)} of the nodes in use: {shares(cluster, job, freed)}"
        yield _change("free-nodes", sentence, worth, free=tuple(cluster.names[i] for i in freed))


def shares(cluster: Cluster, job: Job, nodes: IntArray) -> str:
    """Return how many of some nodes lie in each domain that matters to a job: ``8 in mp01, 4 in mp02``."""
    level = cluster.level(_freeing_level(cluster, job))
    counts = count_nodes(level, np.isin(np.arange(len(cluster)), nodes))
    return ", ".join(f"{counts[k]} in {level.domains[k]}" for k in np.argsort(-counts, kind="stable") if counts[k])


def _freeing_level(cluster: Cluster, job: Job) -> str | None:
    return next((hold.level for hold in job.holds_on(cluster)), job.level)


def nodes_to_free(cluster: Cluster, job: Job) -> IntArray:
    """Return nodes in use that would make room once they are free, as few as possible, in the domains that need fewest.

    Without hard constraints any (cells - free) nodes do, and they are taken where most nodes are free already, so that
    large domains become whole.  Under a hard constraint a domain hosts ``floor(free / g)`` groups of g cells, and nodes
    are taken where the next group is cheapest.

    All of the type of GPU and the size that needs fewest, unless the job may mix types of one size; and where nothing
    joins the trunks of the cluster, all in the one that needs fewest.

    :returns: indices of nodes; empty when no choice helps.
    """
    nowhere = np.zeros(0, dtype=np.int32)
    if (job.node_sizes or not job.mix_types) and len(jobs := choices(cluster, job)) > 1:
        of_types = [nodes_to_free(cluster, one) for one in jobs]
        return min((nodes for nodes in of_types if len(nodes)), key=len, default=nowhere)
    job = within_the_tree(cluster, job)
    if (trunks := cluster.trunks) is None:
        return _nodes_to_free(cluster, job)
    job = job.replace(level=cluster.level(job.level).name)
    parts = [np.flatnonzero(trunks.domain_of == k).astype(np.int32) for k in range(len(trunks))]
    found = [part[_nodes_to_free(cluster.subset(part), job)] for part in parts]
    return min((nodes for nodes in found if len(nodes)), key=len, default=nowhere)


def _nodes_to_free(cluster: Cluster, job: Job) -> IntArray:
    level = cluster.level(_freeing_level(cluster, job))
    admitted = admissible(cluster, job)
    freeable = admissible(cluster.emptied(), job) & ~admitted
    free, room = count_nodes(level, admitted), count_nodes(level, freeable)
    held = blocks_at(cluster, job, cluster.level_index(level.name))
    take = np.zeros_like(free) if held.size == 1 else _for_groups(free, room, held)
    missing = job.grid.cells - int(free.sum() + take.sum())
    for k in np.argsort(-free, kind="stable"):
        more = min(max(missing, 0), int(room[k] - take[k]))
        take[k] += more
        missing -= more
    if missing > 0:
        return np.zeros(0, dtype=np.int32)
    return _choose(cluster, level.domain_of, freeable, take)


def _for_groups(free: IntArray, room: IntArray, held: Blocks) -> IntArray:
    """Return how many nodes to free in each domain so that enough whole groups fit, cheapest next group first.

    :param free: shape [domains], admissible nodes; ``room``: same shape, nodes that could be freed.
    """
    size = held.size
    missing = held.rows * held.columns - int((free // size).sum())
    steps: list[tuple[int, int, int]] = []
    for k, (have, more) in enumerate(zip(free.tolist(), room.tolist(), strict=True)):
        groups = (have + more) // size - have // size
        costs = [size - have % size, *[size] * (groups - 1)][:groups]
        steps += [(cost, -have, k) for cost in costs]
    take = np.zeros_like(free)
    for cost, _, k in sorted(steps)[: max(missing, 0)]:
        take[k] += cost
    return take


def _choose(cluster: Cluster, domain_of: IntArray, freeable: BoolArray, take: IntArray) -> IntArray:
    """Return the nodes of each domain with most GPUs free already: they disturb fewest jobs."""
    chosen: list[int] = []
    left = take.copy()
    candidates = np.flatnonzero(freeable)
    for node in candidates[np.argsort(-cluster.free_gpus[candidates], kind="stable")]:
        if left[domain_of[node]] > 0:
            left[domain_of[node]] -= 1
            chosen.append(int(node))
    return np.array(chosen, dtype=np.int32)
