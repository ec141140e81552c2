"""Pods that share nodes: on nodes of G GPUs, pods of g GPUs lie G / g to a node, in the order of their ranks.

A cell of a job is a node, so the node rank of a pod is all that placement knows of it.  The last node may be filled in
part, and is the gang's all the same.  A gang does not say which nodes it wants: any whose GPUs are a multiple of g will
do, as for a job file that leaves ``gpus_per_node`` out, and where nodes differ each size is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from extender.gangs.gang_annotations import format_parallelism, impossible_degrees
from extender.gangs.types import InvalidGang
from ground.errors import InvalidJob
from scheduler.job import Job, NodeSize, Parallelism

# pods to a node that are thought of while no node is known: as many as the parts that 8 GPUs can be cut into, 64
_SHARING = (2, 4, 8, 16, 32, 64)


def node_rank(rank: int, pods_per_node: int) -> int:
    """Return the rank among the gang's nodes of the node that the pod of a rank goes to."""
    return rank // pods_per_node


def pods_of(parallelism: Parallelism, gpus: int) -> int:
    """Return how many pods of so many GPUs a job has; of the last, some GPUs may have no rank."""
    return -(-parallelism.gpus // gpus)


def nodes_needed(pods: int, pods_per_node: int) -> int:
    """Return how many nodes some pods take, the last perhaps in part."""
    return -(-pods // pods_per_node)


def nodes_of_pods(nodes: Sequence[str], pods: int, pods_per_node: int) -> tuple[str, ...]:
    """Return the node of each pod by rank, from nodes by node rank."""
    return tuple(nodes[node_rank(rank, pods_per_node)] for rank in range(pods))


def nodes_by_rank(of_pods: tuple[str, ...], pods_per_node: int) -> tuple[str, ...]:
    """Return the nodes by node rank, each once, from the node of each pod by rank."""
    return of_pods[::pods_per_node]


def ranks_by_node(pods: int, pods_per_node: int) -> Iterator[range]:
    """Yield the ranks of the pods of each node, by node rank."""
    for first in range(0, pods, pods_per_node):
        yield range(first, min(first + pods_per_node, pods))


def cut_into_nodes(parallelism: Parallelism, gpus: int, *, whole_nodes: bool) -> None:
    """Make sure that there could be nodes for pods of so many GPUs into which degrees of parallelism cut.

    :param whole_nodes: whether each pod takes one; else several may share a node.
    :raises InvalidGang: they cut into none.
    """
    why = _uncut(parallelism, gpus)
    if why is not None and (whole_nodes or all(_uncut(parallelism, number * gpus) for number in _SHARING)):
        raise why


def on_nodes(job: Job, sizes: Sequence[NodeSize]) -> Job:
    """Return a job whose cells are pods as one whose cells are nodes.

    :param sizes: GPUs of the nodes that there are, those that most nodes have first.
    :returns: the job with the GPUs of most nodes that will do as ``gpus_per_node``, and all of them in ``node_sizes``
        where they differ.
    :raises InvalidGang: its pods would fill none of the nodes, or it does not cut into any.
    """
    found = _fitting(job.parallelism, job.gpus_per_node, job.gpu_types, tuple(sizes))
    if not found:
        return job
    differ = len({one.gpus for one in found}) > 1
    return job.replace(gpus_per_node=found[0].gpus, node_sizes=found if differ else ())


@lru_cache(4096)
def _fitting(
    parallelism: Parallelism, gpus: int, gpu_types: tuple[str, ...] | None, sizes: tuple[NodeSize, ...]
) -> tuple[NodeSize, ...]:
    """Return the sizes of nodes of some types that pods of so many GPUs fill and degrees of parallelism cut into.

    :returns: empty where there are no nodes of these types.
    """
    of_type = [one for one in sizes if gpu_types is None or one.gpu_type in gpu_types]
    filled = [one for one in of_type if one.gpus % gpus == 0]
    if of_type and not filled:
        has = " or ".join(map(str, sorted({one.gpus for one in of_type})))
        usual = of_type[0].gpus
        even = ", ".join(str(number) for number in range(1, usual + 1) if usual % number == 0)
        raise InvalidGang(
            f"its pods ask for {gpus} GPUs each, of which no whole number fills a node: the nodes have {has}",
            reason="PodsDoNotFillNodes",
            where="the GPUs in the resources of its pods",
            fix=f"ask for a number of GPUs that divides those of a node: {even}",
        )
    reasons = [_uncut(parallelism, one.gpus) for one in filled]
    if reasons and (why := reasons[0]) is not None and all(reasons):
        raise why
    return tuple(one for one, why in zip(filled, reasons, strict=True) if why is None)


def _uncut(parallelism: Parallelism, gpus: int) -> InvalidGang | None:
    """Return why degrees of parallelism do not cut into nodes of so many GPUs; ``None`` = they do."""
    try:
        parallelism.shape(gpus)
    except InvalidJob as error:
        return impossible_degrees(f"{format_parallelism(parallelism)} on nodes of {gpus} GPUs", error)
    return None
