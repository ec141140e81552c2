"""From shares of classes to nodes: nodes that no two jobs share, and cells on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scheduler.job import Job
from scheduler.objective import Evaluation, worth_of
from scheduler.placement.admission import blocks_at
from scheduler.placement.exact.solve import solve_grid
from scheduler.placement.seating import seat
from scheduler.placement.sharing.node_classes import NodeClasses
from scheduler.second_levels import within_the_tree
from topology.cluster import BoolArray, Cluster, IntArray, count_nodes

if TYPE_CHECKING:
    from scheduler.placement.sharing.share_model import Solution
    from scheduler.placement.sharing.share_part import SharePart

SEATING_SECONDS = 0.1  # Most wall time of seating one job: its spread is fixed, this is about closer levels


def disjoint_grants(
    cluster: Cluster, classes: NodeClasses, shares: Sequence[Mapping[int, int]], *, free: BoolArray
) -> list[BoolArray]:
    """Return nodes for each job, shape [nodes], no node twice: all of a class that no other job takes, else its share.

    :param shares: class -> nodes, for each job.
    :param free: shape [nodes], nodes to choose among; of each class at least as many as all shares together.
    """
    grants = [np.zeros(len(cluster), dtype=np.bool_) for _ in shares]
    ordered = orderly(cluster, free & (classes.class_of >= 0))
    for c in {c for share in shares for c in share}:
        left = ordered[classes.class_of[ordered] == c]
        takers = sorted((j for j, share in enumerate(shares) if share.get(c)), key=lambda j: -shares[j][c])
        for j in takers:
            count = len(left) if len(takers) == 1 else shares[j][c]
            grants[j][left[:count]] = True
            left = left[count:]
    return grants


def orderly(cluster: Cluster, nodes: BoolArray) -> IntArray:
    """Return nodes, by index, in the order in which jobs get them: healthy ones first, whole racks before broken ones.

    :param nodes: shape [nodes].
    """
    closest, some = cluster.levels[-1], np.flatnonzero(nodes).astype(np.int32)
    room = count_nodes(closest, nodes)[closest.domain_of[some]]
    return some[np.lexsort((some, closest.domain_of[some], -room, cluster.slowdown[some]))]


def last_of_each(cluster: Cluster, classes: NodeClasses, nodes: BoolArray, counts: Mapping[int, int]) -> BoolArray:
    """Return the last of some nodes, in order: as many of each class as are counted; shape [nodes]."""
    ordered, last = orderly(cluster, nodes), np.zeros_like(nodes)
    for c, count in counts.items():
        # a slice from -0 on would be all of them
        if count:
            last[ordered[classes.class_of[ordered] == c][-count:]] = True
    return last


def seat_on(cluster: Cluster, job: Job, domain_of_block: IntArray, granted: BoolArray) -> IntArray:
    """Return the node of each cell, shape [rows, columns], given the domain of each block and nodes enough in each."""
    blocks = blocks_at(cluster, job, cluster.level_index(job.level))
    return _seated(cluster, job, domain_of_block[blocks.row_of[:, None], blocks.column_of[None, :]], granted)


def seat_in_classes(
    cluster: Cluster, job: Job, class_of_cell: IntArray, classes: NodeClasses, granted: BoolArray
) -> IntArray:
    """Return the node of each cell, shape [rows, columns], given its class, shape [cells], and nodes enough in each."""
    places: dict[int, list[int]] = {}
    for node in reversed(orderly(cluster, granted & (classes.class_of >= 0)).tolist()):
        places.setdefault(int(classes.class_of[node]), []).append(node)
    nodes = np.empty(len(class_of_cell), dtype=np.int32)
    for cell in np.argsort(job.grid.node_rank.ravel()).tolist():
        nodes[cell] = places[int(class_of_cell[cell])].pop()
    return nodes.reshape(job.grid.rows, job.grid.columns)


def placed_as_in(
    cluster: Cluster, way: SharePart, solver: Solution, *, classes: NodeClasses, granted: BoolArray
) -> IntArray | None:
    """Return the node of each cell, shape [rows, columns], as a way of a job is in a solution; ``None`` = the program
    does not say where its cells are.

    :param granted: shape [nodes], of each class at least as many nodes as the job takes.
    """
    job = way.demand.job
    if (class_of_cell := way.class_of_cell(solver)) is not None:
        return seat_in_classes(cluster, job, class_of_cell, classes, granted)
    if (domain_of_block := way.laid_out(solver)) is None:
        return None
    return seat_on(cluster, job, domain_of_block, granted & classes.among(way.admitted(solver)))


def seated_again(
    cluster: Cluster, jobs: Sequence[Job], *, nodes: Sequence[IntArray], classes: NodeClasses
) -> list[IntArray]:
    """Return other nodes for some placements, closer together at closer levels: each cell stays in its domain.

    :param jobs: the jobs of the classes, each as one for nodes of the size that it has.
    :param nodes: of each job, shape [rows, columns], none twice.
    """
    left, after = classes.class_of >= 0, []
    for one in nodes:
        left[one.ravel()] = False
    for j, (job, one) in enumerate(zip(jobs, nodes, strict=True)):
        left[one.ravel()] = True
        after.append(one)
        if job.grid.aligned:
            alike = np.isin(cluster.gpu_type_of, cluster.gpu_type_of[one]) & (cluster.gpus == job.gpus_per_node)
            granted = left & classes.admitted(j) & alike & (cluster.slowdown <= cluster.slowdown[one].max())
            # one after the other a job may have come to nodes slower than it has alone
            granted[one.ravel()] = True
            domain_of_cell = cluster.level(job.level).domain_of[one]
            again = _seated(cluster, within_the_tree(cluster, job), domain_of_cell, granted)
            now, then = (worth_of(cluster, job, placed) for placed in (one, again))
            if now is not None and then is not None and _rank(then) < _rank(now):
                after[-1] = again
        left[after[-1].ravel()] = False
    return after


def _rank(worth: Evaluation) -> tuple[float, ...]:
    return tuple(round(one, 9) for one in worth.goals)


def _seated(cluster: Cluster, job: Job, domain_of_cell: IntArray, granted: BoolArray) -> IntArray:
    return seat(
        cluster,
        job,
        level=cluster.level(job.level),
        domain_of_cell=domain_of_cell,
        admitted=granted,
        solve_grid=solve_grid,
        seconds=SEATING_SECONDS,
    )
