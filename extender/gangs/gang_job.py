"""What a gang asks the solver: annotations and peers' requests as a :class:`~scheduler.job.Job`.

A cell of this job is a pod; which nodes these lie on, one to a node or several, is found out where it is planned
(:mod:`extender.gangs.pods_on_nodes`).  Rank r is the cell (dp = r mod D, pp = r div D) of the grid, as Megatron numbers
nodes, unless the gang says another order.  Without degrees of parallelism a gang is one data-parallel group: its
domains are counted, its ranks are alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from extender.gangs.gang_annotations import (
    MOST_PODS,
    impossible_degrees,
    parse_alpha,
    parse_avoid,
    parse_constraints,
    parse_degrees,
    parse_gpu_types,
    parse_level,
    parse_microbatches,
    parse_model,
    parse_order,
    parse_size,
    parse_watts,
)
from extender.gangs.pods_on_nodes import cut_into_nodes, pods_of
from extender.gangs.types import Asked, GangKey, InvalidGang, TopologyRequest
from extender.kubernetes_names import CONSTRAINTS, GANG_SIZE, MODEL, ORDER, PARALLELISM, TP_LEVEL
from ground.errors import InvalidJob
from scheduler.job import MEGATRON_ORDER, Hold, Job, Parallelism
from scheduler.job_affinity import job_affinity

MOST_HOLDS = 64  # hard requirements of one gang that its GangPlan can hold, and soft ones (maxItems of the CRD)


@dataclass(frozen=True, slots=True)
class Understood:
    """What annotations come to; see :class:`~extender.gangs.types.Gang`."""

    size: int | None = None
    job: Job | None = None
    tiers: tuple[TopologyRequest, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: tuple[InvalidGang, ...] = ()  # what says nothing as it is written


def understand(key: GangKey, asked: Asked, gpus: int, *, size: int | None, whole_nodes: bool = False) -> Understood:
    """Return the size and the job of a gang.

    :param gpus: GPUs of each pod.
    :param size: pods, as its controller or its group says; the annotation and the degrees of parallelism come first.
    :param whole_nodes: whether each pod takes one; else several may share a node.
    :raises InvalidGang: an annotation cannot be read, or contradicts another.
    """
    order = MEGATRON_ORDER if asked.order is None else parse_order(asked.order)
    degrees = None if asked.parallelism is None else parse_degrees(asked.parallelism, order=order)
    made = None if degrees is None else _pods(degrees, gpus, whole_nodes=whole_nodes)
    if asked.size is not None:
        size = parse_size(asked.size)
    elif made is not None:
        size = made
    if size is None or size < 1:
        return Understood()
    if degrees is not None and made != size:
        raise InvalidGang(
            f"{size}, but {PARALLELISM} on pods of {gpus} GPUs makes {made} pods{_pipelines(degrees, gpus)}",
            reason="SizeContradictsParallelism",
            where=GANG_SIZE,
            fix=f"set {GANG_SIZE} to {made}, or correct the degrees",
        )
    if degrees is None:
        slices = {one.slice_size for one in asked.requests if one.slice_size is not None and one.slice_size < size}
        degrees = _without_degrees(size, gpus, slices)
        _pods(degrees, gpus, whole_nodes=whole_nodes)
    understood = _with_requests(_job(key, asked, degrees, gpus), asked.requests, size)
    if asked.order is None or asked.parallelism is not None:
        return understood
    fix = f"add {PARALLELISM}, or leave it out"
    silent = "it says nothing of a gang without degrees of parallelism, whose ranks are alike"
    return replace(understood, doubts=(InvalidGang(silent, reason="OrderAlone", where=ORDER, fix=fix),))


def _job(key: GangKey, asked: Asked, degrees: Parallelism, gpus: int) -> Job:
    """Return the job as our own annotations say it."""
    model = None if asked.model is None else parse_model(asked.model)
    try:
        known = job_affinity(
            degrees,
            alpha=None if asked.alpha is None else parse_alpha(asked.alpha),
            model=model,
            microbatches=None if asked.microbatches is None else parse_microbatches(asked.microbatches),
        )
    except InvalidJob as error:
        raise InvalidGang(error.message, reason="InvalidModel", where=MODEL, fix=error.fix) from None
    if asked.peak_watts is not None:
        parse_watts(asked.peak_watts)
    gpu_types = None if asked.gpu_types is None else parse_gpu_types(asked.gpu_types)
    holds, counts = ((), ()) if asked.constraints is None else parse_constraints(asked.constraints)
    job = Job(
        name=str(key),
        parallelism=degrees,
        alpha=known.alpha,
        gpus_per_node=gpus,
        level=parse_level(asked.level) if asked.level else None,
        tp_level=parse_level(asked.tp_level, key=TP_LEVEL) if asked.tp_level else None,
        gpu_types=gpu_types,
        mix_types=asked.gpu_types is not None and gpu_types is None,
        holds=holds,
        counts=counts,
        microbatches=known.microbatches,
        spread_cost=known.spread_cost,
    )
    return job if asked.avoid is None else job.replace(avoid=parse_avoid(asked.avoid))


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
        raise impossible_degrees(f"{request.source} wants slices of {request.slice_size} ranks", error) from None
    if sorted(grid.node_rank[:, 0].tolist()) == slice_of_first:
        return (Hold("dp", level), *joined)
    if sorted(grid.node_rank[:parts].ravel().tolist()) == slice_of_first:
        return (Hold("pp", level), *joined)
    raise InvalidGang(
        f"{request.source} wants slices of {request.slice_size} ranks in one domain, "
        f"the data-parallel groups have {grid.rows}",
        reason="UnsupportedSlice",
        where=request.source,
        fix=f"make the slices as large as those groups, or leave out {PARALLELISM}: then the slices are the groups",
    )


def _pods(degrees: Parallelism, gpus: int, *, whole_nodes: bool) -> int:
    """Return how many pods of so many GPUs a job has, or raise ``InvalidGang``: too many, or they fill no nodes."""
    cut_into_nodes(degrees, gpus, whole_nodes=whole_nodes)
    if (pods := pods_of(degrees, gpus)) > MOST_PODS:
        message = f"makes a gang of {pods:,} pods"
        fix = f"a gang has at most {MOST_PODS:,} pods: check the degrees for a slip"
        raise InvalidGang(message, reason="InvalidParallelism", where=PARALLELISM, fix=fix)
    return pods


def _pipelines(degrees: Parallelism, gpus: int) -> str:
    """Return how the pods are arranged, in brackets; empty where stages or tensor-parallel groups share pods."""
    try:
        rows, columns = degrees.shape(gpus)
    except InvalidJob:
        return ""
    return f" ({rows} pipelines of {columns})"


def _without_degrees(size: int, gpus: int, slices: set[int]) -> Parallelism:
    """Return one data-parallel group, or as many as there are slices of one size."""
    group = next(iter(slices)) if len(slices) == 1 else size
    if size % group:
        message = f"slices of {group} ranks do not divide the {size} pods of the gang"
        raise InvalidGang(message, reason="UnsupportedSlice", fix=f"choose a slice size that divides {size}")
    return Parallelism(tp=gpus, dp=group, pp=size // group)


def _with_requests(job: Job, requests: tuple[TopologyRequest, ...], size: int) -> Understood:
    """Return the job with what peers' annotations add; a soft request gives way to our own annotation.

    :raises InvalidGang: a level that is none, slices that are no groups, or more than a GangPlan holds.
    """
    holds = list(job.holds)
    notes: list[str] = []
    for request in requests:
        if request.level is not None:
            parse_level(request.level, key=request.source)
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
    tiers = tuple(request for request in requests if request.level is None)
    return Understood(size, replace(job, holds=unique), tiers, tuple(notes))
