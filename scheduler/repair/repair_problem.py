"""The cluster as a job that lost nodes sees it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ground.errors import Infeasible, UnknownName
from scheduler.job import Job
from scheduler.placement.admission import admissible, blocks_at, capacity_by_level, typed
from scheduler.placement.moves.move_choices import MoveChoices, closest_depth
from topology.cluster import BoolArray, Cluster, FloatArray, IntArray
from topology.flags import FAULTY, HEALTHY

Prefer = Literal["moves", "objective"]  # What comes first: the fewest moved cells, or the best objective


@dataclass(frozen=True)
class RepairProblem:
    """What is left to a job that lost nodes."""

    cluster: Cluster  # the job's own nodes are idle in it, the lost ones are not
    job: Job
    old: IntArray  # shape [rows, columns], the node of each cell before
    # shape [nodes], the nodes that may host a cell: those that the job has, and spares no slower than they need to be
    # for every cell to find a node
    admitted: BoolArray
    notes: tuple[str, ...]  # what was found out on the way

    @cached_property
    def stays(self) -> BoolArray:
        """Shape [rows, columns], the cells that may keep their node."""
        stays: BoolArray = self.admitted[self.old]
        return stays

    @cached_property
    def spare(self) -> BoolArray:
        """Shape [nodes], the nodes that may be used and that the job did not use."""
        return _without(self.admitted, self.old)

    @cached_property
    def slowdown(self) -> FloatArray:
        """Shape [nodes], as the job minds it: under ``avoid: ignore`` no node is slow."""
        return np.ones(len(self.cluster)) if self.job.avoid == "ignore" else self.cluster.slowdown


def of_its_type(cluster: Cluster, job: Job, nodes: IntArray) -> Job:
    """Return a placed job as one for the type of GPU of its nodes, shape [rows, columns]; unless it may mix them."""
    used = np.unique(cluster.gpu_type_of[nodes])
    if job.mix_types or len(cluster.gpu_types) < 2 or len(used) > 1:
        return job
    return job.replace(gpu_types=(cluster.gpu_types[used[0]],))


def problem_of(cluster: Cluster, job: Job, nodes: IntArray, lost: Sequence[str]) -> RepairProblem:
    """Find what is left to the job once nodes are lost, which are given by name.

    :param nodes: shape [rows, columns], a valid placement.
    :raises Infeasible: fewer nodes are left than the job has cells.
    """
    cluster = cluster.tolerating(job.tolerations)
    gone = np.unique(np.array([_index(cluster, name) for name in lost], dtype=np.int32))
    free = cluster.free_gpus.copy()
    free[nodes] = cluster.gpus[nodes]
    free[gone] = 0
    away = _away(cluster, nodes)
    free[away] = 0
    after = cluster.replace(free_gpus=free)
    admitted = _admitted(after, job, nodes)
    unused, refused = np.setdiff1d(gone, nodes), np.setdiff1d(nodes[~admitted[nodes]], gone)
    notes = [f"{cluster.names[i]} is not used by the job; it is not taken as a spare either" for i in unused]
    for i in refused:
        fault = (
            "faulty"
            if cluster.slowdown[i] == FAULTY
            else cluster.kept_out.get(int(i), "flagged and the job says avoid: strict")
        )
        notes.append(f"{cluster.names[i]} is {fault}: replaced as if lost")
    if away.any():
        notes.append(f"no spare is taken from {int(away.sum()):,} nodes that no switch joins to those of the job")
    problem = RepairProblem(after, job, nodes, admitted, tuple(notes))
    if _room(after, job, admitted) < job.grid.cells:
        raise _shortage(problem, gone)
    return problem


def choices(problem: RepairProblem, movable: BoolArray | None = None) -> MoveChoices:
    """Return the choices for some cells; by default those that a repair with the fewest moves can need.

    Blocks are equal, so a block without a lost node never has to make room for one with: that one goes where the other
    would have gone.  Hence only blocks with lost nodes move, together with what holds at broader levels tie to them.

    :param movable: shape [rows, columns], cells that may change their domain, with those tied to them.
    """
    cluster, job = problem.cluster, problem.job
    depth = closest_depth(cluster, job)
    domain_of = cluster.levels[depth].domain_of
    blocks = blocks_at(cluster, job, depth)
    tied = blocks_at(cluster, job, 0).of_cell
    movable = np.isin(tied, tied[~problem.stays if movable is None else movable | ~problem.stays])
    count, block_of = blocks.rows * blocks.columns, blocks.of_cell
    home = np.empty(count, dtype=np.int32)
    home[block_of] = domain_of[problem.old]
    domains = len(cluster.levels[depth])
    fixed = np.bincount(domain_of[problem.old[~movable]], minlength=domains)
    room = (np.bincount(domain_of[problem.admitted], minlength=domains) - fixed) // blocks.size
    slow = np.bincount(domain_of[problem.spare & (problem.slowdown > HEALTHY)], minlength=domains)
    healthy = np.bincount(domain_of[problem.admitted], minlength=domains) - slow - fixed
    targets = np.flatnonzero(room > 0)
    return MoveChoices(
        cluster=cluster,
        job=job,
        old=problem.old,
        depth=depth,
        block_of=block_of,
        size=blocks.size,
        movers=np.unique(block_of[movable]).astype(np.int32),
        home=home,
        lost=np.bincount(block_of[~problem.stays], minlength=count).astype(np.int32),
        targets=targets.astype(np.int32),
        room=room[targets].astype(np.int32),
        healthy=healthy[targets].astype(np.int32),
    )


def _admitted(cluster: Cluster, job: Job, old: IntArray) -> BoolArray:
    """Return the job's own nodes, and the spares up to the least slowdown that leaves room for all cells."""
    admitted = admissible(cluster, job)
    if job.avoid == "ignore":
        return admitted
    spare = _without(admitted, old)

    def no_slower(slowest: float) -> BoolArray:
        return admitted & ~(spare & (cluster.slowdown > slowest))

    # room only grows with the slowdown admitted, so bisection finds the least that suffices
    steps = sorted({HEALTHY, *cluster.slowdown[spare].tolist()})
    enough = bisect_left(steps, True, key=lambda slowest: _room(cluster, job, no_slower(slowest)) >= job.grid.cells)
    return no_slower(steps[min(enough, len(steps) - 1)])


def _away(cluster: Cluster, nodes: IntArray) -> BoolArray:
    """Return the nodes outside the trunk that a placement lies in, shape [nodes]; none where all are joined."""
    if (trunks := cluster.trunks) is None:
        return np.zeros(len(cluster), dtype=np.bool_)
    away: BoolArray = trunks.domain_of != trunks.domain_of[nodes.flat[0]]
    return away


def _room(cluster: Cluster, job: Job, nodes: BoolArray) -> int:
    """Return the cells that some nodes can take in whole blocks."""
    return int(capacity_by_level(cluster, job, nodes)[0].sum())


def _without(nodes: BoolArray, others: IntArray) -> BoolArray:
    left = nodes.copy()
    left[others] = False
    return left


def _index(cluster: Cluster, name: str) -> int:
    try:
        return cluster.index(name)
    except UnknownName as error:
        raise UnknownName(error.message, where="--lost", fix=error.fix) from None


def _shortage(problem: RepairProblem, gone: IntArray) -> Infeasible:
    """Return the error that says why not all cells find a node, and what would help."""
    job, cluster = problem.job, problem.cluster
    spare, size = int(problem.spare.sum()), f"of {job.gpus_per_node} GPUs"
    wanted, missing = int((~problem.stays).sum()), job.grid.cells - _room(cluster, job, problem.admitted)
    others = (cluster.gpus == job.gpus_per_node) & ~problem.spare
    others[gone] = others[problem.old] = False
    other_type = others & ~typed(cluster, job.gpu_types)
    others &= ~other_type
    away = others & _away(cluster, problem.old)
    faulty = others & ~away & (cluster.slowdown == FAULTY)
    kept_out = np.zeros(len(cluster), dtype=np.bool_)
    kept_out[list(cluster.kept_out)] = True
    kept_out &= others & ~away & ~faulty
    others &= ~kept_out
    used = others & ~away & ~faulty & (cluster.free_gpus < cluster.gpus)
    slow = others & ~away & ~faulty & ~used
    kinds = {
        "with another type of GPU": other_type,
        "joined to those of the job by no switch": away,
        "in use": used,
        "flagged, refused by avoid: strict": slow,
        "faulty": faulty,
    }
    counts = {kind: int(nodes.sum()) for kind, nodes in kinds.items()}
    counts |= Counter(why for i, why in cluster.kept_out.items() if kept_out[i])
    listed = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    block = blocks_at(cluster, job, 0).size
    held = " and ".join(dict.fromkeys(cluster.level(hold.level).name for hold in job.holds_on(cluster)))
    tied = f"; hard constraints keep {block} cells in one {held}, and none has room for them" if block > 1 else ""
    remedies = [f"free {missing} more {_nodes(missing)} {size}" + (" in one domain" if tied else "")]
    if slow.any():
        remedies.append(f"admit {int(slow.sum())} slow {_nodes(int(slow.sum()))} with avoid: price")
    return Infeasible(
        f"nodes needed: {wanted}, spare nodes {size} left: {spare}{tied}"
        + (f" (the others: {listed})" if listed else ""),
        where="--lost",
        fix=", or ".join([*remedies, "place a smaller job"]),
    )


def _nodes(count: int) -> str:
    return "node" if count == 1 else "nodes"
