"""The dependency graph of one step: which operation waits for which (arXiv 2505.05713).

Built once, from the first rank's first step.  A node is an operation of every rank; what happens between ranks is in
the groups: the members of a group transfer together, and none begins before all have launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

from health.whatif.optypes import JOINED, OPTIMIZER
from health.whatif.pairing import pairs_of
from health.whatif.stage import StageOperations, stages_of
from health.whatif.tail import tail_edges
from health.whatif.trace import Trace
from topology.errors import TraceFormatError


class Group(NamedTuple):
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
    groups: tuple[Group, ...]
    last: frozenset[int]


def build_graph(trace: Trace) -> Graph:
    """The graph of a trace.

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
    """A stream runs one operation after the other, in traced order."""
    for queue in stage.streams.values():
        yield from pairwise(queue)


def _pipeline_edges(stage: StageOperations) -> Iterable[Edge]:
    """recv(i) -> compute(i) -> send(i); compute(i-1) -> recv(i), both of one direction."""
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
    """The first forward pass of a chunk waits for the chunk's parameters."""
    gathers = stage.by_chunk(stage.gathers)
    for chunk, passes in stage.by_chunk(stage.directions[0].computes).items():
        for gather in gathers.get(chunk, gathers.get(-1, ())):
            yield gather, passes[0]


def _groups(trace: Trace, stages: Sequence[StageOperations]) -> Iterable[Group]:
    """Every operation in one group."""
    grouped: set[int] = set()
    for group in (*pairs_of(trace, stages), *_embedding(stages), *_clip(stages)):
        grouped.update(group)
        joined = trace.operations[group[0]].optype in JOINED
        yield Group(group, joined)
    for i, operation in enumerate(trace.operations):
        if i not in grouped:
            yield Group((i,), operation.optype in JOINED)


def _embedding(stages: Sequence[StageOperations]) -> Iterable[tuple[int, ...]]:
    """The first and the last stage add up the gradients of their shared embedding."""
    first, last = stages[0].embeddings, stages[-1].embeddings
    if len(stages) > 1:
        yield from zip(first, last, strict=False)


def _clip(stages: Sequence[StageOperations]) -> Iterable[tuple[int, ...]]:
    """All stages agree on the norm of the gradients: the barrier at the end of a step."""
    yield from zip(*(stage.clips for stage in stages), strict=False)


def _ordered(trace: Trace, groups: Sequence[Group], before: Sequence[set[int]]) -> list[Group]:
    """Groups in topological order."""
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


def _with_spent(groups: Sequence[Group], before: Sequence[set[int]]) -> Iterable[Group]:
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
