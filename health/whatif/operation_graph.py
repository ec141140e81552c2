"""The dependency graph of one step: which operation waits for which (arXiv 2505.05713).

Built once, from the first rank's first step.  A node is an operation of every rank; what happens between ranks is in
the groups: the members of a group transfer together, and none begins before all have launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

from health.whatif.analysis_result import Operation
from health.whatif.optypes import GC, JOINED, OPTIMIZER
from health.whatif.stage_check import StageOperations, stages_of
from health.whatif.trace import Trace
from topology.errors import TraceFormatError


class TransferGroup(NamedTuple):
    """Operations that transfer together; a compute operation is a group of its own.

    :param members: places of the operations.
    :param joined: the same operation of all data-parallel ranks belongs to it too.
    :param spent: operations whose end nobody after this group asks for.
    """

    members: tuple[int, ...]
    joined: bool
    spent: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Who waits for whom.

    :param predecessors: operation -> operations that must end before it is launched.
    :param groups: in topological order; each operation is in one.
    :param last: operations whose latest end is the end of the step.
    """

    predecessors: tuple[tuple[int, ...], ...]
    groups: tuple[TransferGroup, ...]
    last: frozenset[int]


def build_graph(trace: Trace) -> Graph:
    """Return the graph of a trace.

    :raises TraceFormatError: a send has no receive, or operations wait for each other in a circle.
    """
    stages = stages_of(trace)
    before: list[set[int]] = [set() for _ in trace.operations]
    for stage in stages:
        for one, other in (*_stream_edges(stage), *_pipeline_edges(stage), *_gather_edges(stage), *tail_edges(stage)):
            before[other].add(one)
    groups = list(_groups(trace, stages))
    ordered = _ordered(trace, groups, before)
    operations = trace.operations
    last = [i for i, operation in enumerate(operations) if operation.optype == OPTIMIZER]
    return Graph(
        predecessors=tuple(tuple(sorted(waits)) for waits in before),
        groups=tuple(_with_spent(ordered, before)),
        last=frozenset(last or range(len(operations))),
    )


Edge = tuple[int, int]


def _stream_edges(stage: StageOperations) -> Iterable[Edge]:
    """Yield a stream runs one operation after the other, in traced order."""
    for queue in stage.streams.values():
        yield from pairwise(queue)


def _pipeline_edges(stage: StageOperations) -> Iterable[Edge]:
    """Yield recv(i) -> compute(i) -> send(i); compute(i-1) -> recv(i), both of one direction."""
    for direction in stage.directions:
        computes = direction.computes
        yield from zip(direction.receives, direction.receivers, strict=True)
        yield from zip(direction.senders, direction.sends, strict=True)
        place = {operation: i for i, operation in enumerate(computes)}
        for receive, receiver in zip(direction.receives, direction.receivers, strict=True):
            if place[receiver]:
                yield computes[place[receiver] - 1], receive
    forward, backward = stage.directions
    if backward.computes:
        begin = stage.compute_place[backward.computes[0]]
        warm_up = [operation for operation in forward.computes if stage.compute_place[operation] < begin]
        if len(warm_up) > 1:
            yield from ((warm_up[-2], first) for first in (*backward.receives[:1], *backward.sends[:1]))


def _gather_edges(stage: StageOperations) -> Iterable[Edge]:
    """Yield the first forward pass of a chunk waits for the chunk's parameters."""
    gathers = stage.by_chunk(stage.gathers)
    for chunk, passes in stage.by_chunk(stage.directions[0].computes).items():
        for gather in gathers.get(chunk, gathers.get(-1, ())):
            yield gather, passes[0]


def _groups(trace: Trace, stages: Sequence[StageOperations]) -> Iterable[TransferGroup]:
    """Yield every operation in one group."""
    grouped: set[int] = set()
    for group in (*pairs_of(trace, stages), *_embedding(stages), *_clip(stages)):
        grouped.update(group)
        joined = trace.operations[group[0]].optype in JOINED
        yield TransferGroup(group, joined)
    for i, operation in enumerate(trace.operations):
        if i not in grouped:
            yield TransferGroup((i,), operation.optype in JOINED)


def _embedding(stages: Sequence[StageOperations]) -> Iterable[tuple[int, ...]]:
    """Yield the first and the last stage add up the gradients of their shared embedding."""
    first, last = stages[0].embeddings, stages[-1].embeddings
    if len(stages) > 1:
        yield from zip(first, last, strict=False)


def _clip(stages: Sequence[StageOperations]) -> Iterable[tuple[int, ...]]:
    """Yield all stages agree on the norm of the gradients: the barrier at the end of a step."""
    yield from zip(*(stage.clips for stage in stages), strict=False)


def _ordered(trace: Trace, groups: Sequence[TransferGroup], before: Sequence[set[int]]) -> list[TransferGroup]:
    """Return groups in topological order."""
    group_of = {member: i for i, group in enumerate(groups) for member in group.members}
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for i, group in enumerate(groups):
        sorter.add(i, *{group_of[waits] for member in group.members for waits in before[member]})
    try:
        return [groups[i] for i in sorter.static_order()]
    except CycleError as circle:
        place = groups[circle.args[1][0]].members[0]
        operation = trace.operations[place]
        raise TraceFormatError(
            f"operations wait for each other in a circle, {operation.optype} {trace.sequence[place]} of stage "
            f"{operation.stage} among them: they cannot have run in this order",
            where=trace.at(place),
            fix="check start_ts and seq_id of the first step: an operation counts from 0 in order of its start",
        ) from None


def _with_spent(groups: Sequence[TransferGroup], before: Sequence[set[int]]) -> Iterable[TransferGroup]:
    """Mark after which group an end is no longer needed, so that a replay keeps few of them."""
    asked = [0] * len(before)
    for i, group in enumerate(groups):
        for member in group.members:
            asked[member] = max(asked[member], i)
            for waits in before[member]:
                asked[waits] = i
    spent: list[list[int]] = [[] for _ in groups]
    for operation, i in enumerate(asked):
        spent[i].append(operation)
    for group, done in zip(groups, spent, strict=True):
        yield group._replace(spent=tuple(done))


def pairs_of(trace: Trace, stages: Sequence[StageOperations]) -> Iterator[tuple[int, int]]:
    """Yield pairs (send, receive) of all stages.

    The rows do not say which send belongs to which receive.  The k-th send of a stage carries the k-th pass that has
    somewhere to go; what it carries is received by the next stage for the same chunk and microbatch, or, from the last
    stage, by the first stage for the chunk after it (interleaved schedules).  Gradients go the other way.  A transfer
    where the model begins or ends is empty and has no partner.

    :raises TraceFormatError: a send without a receive, or the other way round.
    """
    end = trace.sizes.pp * trace.sizes.vpp
    for direction, step in ((0, 1), (1, -1)):
        awaited: dict[tuple[int, int], int] = {}
        for stage in stages:
            part = stage.directions[direction]
            for receive, receiver in zip(part.receives, part.receivers, strict=True):
                here = _piece(trace, trace.operations[receiver])
                if not 0 <= here[0] - step < end:
                    continue
                if here in awaited:
                    raise _unpaired(trace, receive, "is received twice for one microbatch")
                awaited[here] = receive
        for stage in stages:
            part = stage.directions[direction]
            for send, sender in zip(part.sends, part.senders, strict=True):
                place, microbatch = _piece(trace, trace.operations[sender])
                if not 0 <= place + step < end:
                    continue
                receive = awaited.pop((place + step, microbatch), -1)
                if receive < 0:
                    raise _unpaired(trace, send, "is sent and never received")
                yield send, receive
        if awaited:
            raise _unpaired(trace, next(iter(awaited.values())), "is received and never sent")


def _piece(trace: Trace, operation: Operation) -> tuple[int, int]:
    """Return which part of the model, counted along the forward pass, and which microbatch."""
    return operation.chunk * trace.sizes.pp + operation.stage, operation.microbatch


def _unpaired(trace: Trace, place: int, problem: str) -> TraceFormatError:
    operation = trace.operations[place]
    return TraceFormatError(
        f"{operation.optype} {trace.sequence[place]} of stage {operation.stage} {problem}: unpaired",
        where=trace.at(place),
        fix="trace all stages of a rank over whole steps; passes of a microbatch carry the same mb_id in every stage",
    )


def tail_edges(stage: StageOperations) -> Iterable[Edge]:
    """Yield edges of the end of a step.

    Overlap of gradient reduction with the backward pass shows by ``separate-grads-all-reduce``:

    - with it, a chunk's reduce-scatter waits for the chunk's last backward pass, and the tail is
      {last reduce-scatter, gc} -> layer-norm -> embedding -> separate -> clip -> optimizer;
    - without it, last compute -> gc -> layer-norm -> embedding -> reduce-scatters -> clip -> optimizer.

    Operations that a trace does not have are passed over.
    """
    compute = [i for i in stage.streams.get("compute", ()) if stage.operations[i].optype != OPTIMIZER]
    if stage.separates:
        yield from _scatter_edges(stage)
        passes = stage.directions[1].computes[-1:] or tuple(compute[-1:])
        pauses = [i for i in compute if stage.operations[i].optype == GC]
        heads = (*stage.scatters[-1:], *(pauses[-1:] or passes))
        links = (stage.layernorms, stage.embeddings, stage.separates, stage.clips, stage.optimizers)
    else:
        heads = tuple(compute[-1:])
        links = (stage.layernorms, stage.embeddings, stage.scatters, stage.clips, stage.optimizers)
    for link in links:
        yield from ((head, link[0]) for head in heads if link)
        yield from pairwise(link)
        heads = link[-1:] or heads


def _scatter_edges(stage: StageOperations) -> Iterable[Edge]:
    scatters = stage.by_chunk(stage.scatters)
    for chunk, passes in stage.by_chunk(stage.directions[1].computes).items():
        for scatter in scatters.get(chunk, scatters.get(-1, ())):
            yield passes[-1], scatter
