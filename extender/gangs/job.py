"""The job of a gang: annotations and peers' requests as a :class:`~scheduler.job.Job`, and its pods on nodes.

A cell of this job is a pod.  Rank r is the cell (dp = r mod D, pp = r div D) of the grid, as Megatron numbers nodes,
unless the gang says another order.  Without degrees of parallelism a gang is one data-parallel group: its domains are
counted, its ranks are alike.

On which nodes its pods lie is found out where it is planned: on nodes of G GPUs, pods of g GPUs lie G / g to a node, in
the order of their ranks, and a cell is a node then.  The last node may be filled in part, and is the gang's all the
same.  A gang does not say which nodes it wants: any whose GPUs are a multiple of g will do, as for a job file that
leaves ``gpus_per_node`` out, and where nodes differ each size is tried.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from extender.gangs import annotations as written
from extender.gangs.types import GangKey, GangRequest, InvalidGang, TopologyRequest
from extender.kubernetes_names import CONSTRAINTS, GANG_SIZE, MODEL, ORDER, PARALLELISM, TP_LEVEL
from ground.errors import InvalidJob
from scheduler.affinity import job_affinity
from scheduler.job import MEGATRON_ORDER, Family, Hold, Job, NodeSize, Parallelism

MOST_HOLDS = 64  # hard requirements of one gang that its GangPlan can hold, and soft ones (maxItems of the CRD)


@dataclass(frozen=True, slots=True)
class Understood:
    """What annotations come to; see :class:`~extender.gangs.types.Gang`."""

    size: int | None = None
    job: Job | None = None
    tiers: tuple[TopologyRequest, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: tuple[InvalidGang, ...] = ()  # what says nothing as it is written


def understand(
    key: GangKey, asked: GangRequest, gpus: int, *, size: int | None, whole_nodes: bool = False
) -> Understood:
    """Return the size and the job of a gang.

    :param gpus: GPUs of each pod.
    :param size: pods, as its controller or its group says; the annotation and the degrees of parallelism come first.
    :param whole_nodes: whether each pod takes one; else several may share a node.
    :raises InvalidGang: an annotation cannot be read, or contradicts another.
    """
    order = MEGATRON_ORDER if asked.order is None else written.parse_order(asked.order)
    degrees = None if asked.parallelism is None else written.parse_degrees(asked.parallelism, order=order)
    made = None if degrees is None else _checked_pod_count(degrees, gpus, whole_nodes=whole_nodes)
    if asked.size is not None:
        size = written.parse_size(asked.size)
    elif made is not None:
        size = made
    if size is None or size < 1:
        return Understood()
    if degrees is not None and made != size:
        arranged = ""  # nothing is said where stages or tensor-parallel groups share pods
        with suppress(InvalidJob):
            arranged = " ({} pipelines of {})".format(*degrees.shape(gpus))
        raise InvalidGang(
            f"{size}, but {PARALLELISM} on pods of {gpus} GPUs makes {made} pods{arranged}",
            reason="SizeContradictsParallelism",
            where=GANG_SIZE,
            fix=f"set {GANG_SIZE} to {made}, or correct the degrees",
        )
    if degrees is None:
        degrees = _sliced(asked.requests, gpus, size)
        _checked_pod_count(degrees, gpus, whole_nodes=whole_nodes)
    understood = _with_requests(_job(key, asked, degrees, gpus), asked.requests, size)
    if asked.order is None or asked.parallelism is not None:
        return understood
    fix = f"add {PARALLELISM}, or leave it out"
    silent = "it says nothing of a gang without degrees of parallelism, whose ranks are alike"
    order_alone = InvalidGang(silent, reason="OrderAlone", where=ORDER, fix=fix)
    return replace(understood, doubts=(*understood.doubts, order_alone))


def _sliced(requests: Sequence[TopologyRequest], gpus: int, size: int) -> Parallelism:
    """Return degrees for so many pods without any: one data-parallel group, or groups that are the slices asked."""
    sizes = sorted({request.slice_size for request in requests if request.slice_size and request.slice_size < size})
    chain = [*sizes, size]
    for inner, outer in pairwise(chain):
        if outer % inner:
            whole = f"slices of {outer}" if outer != size else f"{size} pods of the gang"
            message = f"slices of {inner} ranks do not divide the {whole}"
            raise InvalidGang(message, reason="UnsupportedSlice", fix=f"choose a slice size that divides {outer}")
    if len(sizes) > 3:  # as many kinds of groups lie one inside the other
        message = f"slices of {len(sizes)} sizes, at most 3 are planned"
        raise InvalidGang(message, reason="UnsupportedSlice", fix="leave out those of the levels that matter least")
    # from within: context-parallel, expert and data-parallel groups
    cp, ep = chain[0] if len(sizes) > 1 else 1, chain[1] if len(sizes) > 2 else 1
    group = chain[max(0, len(sizes) - 1)]
    return Parallelism(tp=gpus, cp=cp, ep=ep, dp=group // cp, pp=size // group)


def _job(key: GangKey, asked: GangRequest, degrees: Parallelism, gpus: int) -> Job:
    """Return the job as our own annotations say it."""
    model = None if asked.model is None else written.parse_model(asked.model)
    try:
        affinity = job_affinity(
            degrees,
            alpha=None if asked.alpha is None else written.parse_alpha(asked.alpha),
            model=model,
            microbatches=None if asked.microbatches is None else written.parse_microbatches(asked.microbatches),
        )
    except InvalidJob as error:
        raise InvalidGang(error.message, reason="InvalidModel", where=MODEL, fix=error.fix) from None
    if asked.peak_watts is not None:
        written.parse_watts(asked.peak_watts)
    gpu_types = None if asked.gpu_types is None else written.parse_gpu_types(asked.gpu_types)
    holds, counts = ((), ()) if asked.constraints is None else written.parse_constraints(asked.constraints)
    job = Job(
        name=str(key),
        parallelism=degrees,
        alpha=affinity.alpha,
        gpus_per_node=gpus,
        level=written.parse_level(asked.level) if asked.level else None,
        tp_level=written.parse_level(asked.tp_level, key=TP_LEVEL) if asked.tp_level else None,
        gpu_types=gpu_types,
        mix_types=asked.gpu_types is not None and gpu_types is None,
        holds=holds,
        counts=counts,
        microbatches=affinity.microbatches,
        spread_cost=affinity.spread_cost,
    )
    return job if asked.avoid is None else job.replace(avoid=written.parse_avoid(asked.avoid))


def _with_requests(job: Job, requests: tuple[TopologyRequest, ...], size: int) -> Understood:
    """Return the job with what peers' annotations add; a soft request gives way to our own annotation.

    :raises InvalidGang: a level that is none, slices that are no groups, or more than a GangPlan holds.
    """
    holds = list(job.holds)
    notes: list[str] = []
    for request in requests:
        if request.level is not None:
            written.parse_level(request.level, key=request.source)
        if request.level is not None and request.hard:
            holds += holds_for(job, request, request.level)
            notes.append(f"{request.source}: kept inside one domain of {request.level}")
        elif request.level is not None and job.level is None:
            job = job.replace(level=request.level)
            notes.append(f"{request.source}: domains of {request.level} count")
    unique = tuple(dict.fromkeys(holds))
    if (most := max(len(unique), len(job.counts))) > MOST_HOLDS:
        message = f"its pods require {most} different things of the network, at most {MOST_HOLDS} are read"
        fix = "give all pods of a gang the same annotations, and fewer constraints"
        where = requests[0].source if requests else CONSTRAINTS
        raise InvalidGang(message, reason="TooManyWishes", where=where, fix=fix)
    tiers = tuple(request for request in requests if request.tier is not None)
    fix = f"take it off, or say it with {CONSTRAINTS}"
    doubts = tuple(
        InvalidGang(f"{request.unread}: placed without it", reason="WishNotRead", where=request.source, fix=fix)
        for request in requests
        if request.unread
    )
    return Understood(size, replace(job, holds=unique), tiers, tuple(notes), doubts)


def holds_for(job: Job, request: TopologyRequest, level: str) -> tuple[Hold, ...]:
    """Return what keeps in one domain what a hard request is about, or raise ``InvalidGang``: slices are no groups."""
    parts = job.nodes_of_tp
    # the DP groups of a stage are as many as a TP group has nodes: together where its TP groups are
    joined = (Hold("tp", level),) if parts > 1 else ()
    if request.slice_size is None or request.slice_size * job.gpus_per_node >= job.parallelism.gpus:
        return (Hold("dp", level), Hold("pp", level), *joined)
    if request.slice_size == parts > 1:
        return joined
    # slices are of consecutive ranks: which groups these are is a matter of the order
    slice_of_first = list(range(request.slice_size))
    try:
        grid = job.grid
    except InvalidJob as error:
        raise written.impossible_degrees(
            f"{request.source} wants slices of {request.slice_size} ranks", error
        ) from None
    if sorted(grid.node_rank[:, 0].tolist()) == slice_of_first:
        return (Hold("dp", level), *joined)
    if sorted(grid.node_rank[:parts].ravel().tolist()) == slice_of_first:
        return (Hold("pp", level), *joined)
    ranks = grid.node_rank.ravel()
    inner: tuple[Family, ...] = ("cp", "ep")
    for family in (family for family in inner if job.parallelism.degree(family) > 1):
        if slice_of_first in (sorted(ranks[[*group]].tolist()) for group in grid.groups[family].members):
            return (Hold(family, level), *joined)
    raise InvalidGang(
        f"{request.source} wants slices of {request.slice_size} ranks in one domain, "
        f"the data-parallel groups have {grid.rows}",
        reason="UnsupportedSlice",
        where=request.source,
        fix=f"make the slices as large as those groups, or leave out {PARALLELISM}: then the slices are the groups",
    )


def _checked_pod_count(degrees: Parallelism, gpus: int, *, whole_nodes: bool) -> int:
    """Return how many pods of so many GPUs a job has, or raise ``InvalidGang``: too many, or they fill no nodes."""
    # there could be nodes into which the degrees cut: of a pod each, or of several
    why = _uncut(degrees, gpus)
    if why is not None and (whole_nodes or all(_uncut(degrees, number * gpus) for number in _SHARING)):
        raise why
    if (pods := pod_count(degrees, gpus)) > written.MOST_PODS:
        message = f"makes a gang of {pods:,} pods"
        fix = f"a gang has at most {written.MOST_PODS:,} pods: check the degrees for a slip"
        raise InvalidGang(message, reason="InvalidParallelism", where=PARALLELISM, fix=fix)
    return pods


# pods to a node that are thought of while no node is known: as many as the parts that 8 GPUs can be cut into, 64
_SHARING = (2, 4, 8, 16, 32, 64)


def _uncut(parallelism: Parallelism, gpus: int) -> InvalidGang | None:
    """Return why degrees of parallelism do not cut into nodes of so many GPUs; ``None`` = they do."""
    try:
        parallelism.shape(gpus)
    except InvalidJob as error:
        return written.impossible_degrees(f"{written.format_parallelism(parallelism)} on nodes of {gpus} GPUs", error)
    return None


def on_nodes(job: Job, sizes: Sequence[NodeSize]) -> Job:
    """Return a job whose cells are pods as one whose cells are nodes.

    :param sizes: GPUs of the nodes that there are, those that most nodes have first.
    :returns: the job with the GPUs of most nodes that will do as ``gpus_per_node``, and all of them in ``node_sizes``
        where they differ.
    :raises InvalidGang: its pods would fill none of the nodes, or it does not cut into any.
    """
    fitting = _fitting(job.parallelism, job.gpus_per_node, job.gpu_types, tuple(sizes))
    if not fitting:
        return job
    differ = len({size.gpus for size in fitting}) > 1
    return job.replace(gpus_per_node=fitting[0].gpus, node_sizes=fitting if differ else ())


@lru_cache(4096)
def _fitting(
    parallelism: Parallelism, gpus: int, gpu_types: tuple[str, ...] | None, sizes: tuple[NodeSize, ...]
) -> tuple[NodeSize, ...]:
    """Return the sizes of nodes of some types that pods of so many GPUs fill and degrees of parallelism cut into.

    :returns: empty where there are no nodes of these types.
    """
    of_type = [size for size in sizes if gpu_types is None or size.gpu_type in gpu_types]
    filled = [size for size in of_type if size.gpus % gpus == 0]
    if of_type and not filled:
        has = " or ".join(map(str, sorted({size.gpus for size in of_type})))
        usual = of_type[0].gpus
        even = ", ".join(str(number) for number in range(1, usual + 1) if usual % number == 0)
        raise InvalidGang(
            f"its pods ask for {gpus} GPUs each, of which no whole number fills a node: the nodes have {has}",
            reason="PodsDoNotFillNodes",
            where="the GPUs in the resources of its pods",
            fix=f"ask for a number of GPUs that divides those of a node: {even}",
        )
    reasons = [_uncut(parallelism, size.gpus) for size in filled]
    if reasons and (why := reasons[0]) is not None and all(reasons):
        raise why
    return tuple(size for size, why in zip(filled, reasons, strict=True) if why is None)


def pod_count(parallelism: Parallelism, gpus: int) -> int:
    """Return how many pods of so many GPUs a job has; of the last, some GPUs may have no rank."""
    return -(-parallelism.gpus // gpus)


def nodes_needed(pods: int, pods_per_node: int) -> int:
    """Return how many nodes some pods take, the last perhaps in part."""
    return -(-pods // pods_per_node)


def nodes_of_pods(nodes: Sequence[str | None], pods: int, pods_per_node: int) -> tuple[str | None, ...]:
    """Return the node of each pod by rank, from nodes by node rank."""
    return tuple(nodes[rank // pods_per_node] for rank in range(pods))


def ranks_by_node(pods: int, pods_per_node: int) -> Iterator[range]:
    """Yield the ranks of the pods of each node, by node rank."""
    for first in range(0, pods, pods_per_node):
        yield range(first, min(first + pods_per_node, pods))
