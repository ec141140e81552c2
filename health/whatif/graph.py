"""The dependency graph of one step: which operation waits for which (arXiv 2505.05713).

Built once, from the first rank's first step.  The operations of each pipeline stage are sorted by what they are to each
other: streams, and passes with the transfers that they begin and end with.  A node of the graph is an operation of
every rank; what happens between ranks is in the groups: the members of a group transfer together, and none begins
before all have launched.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ground.errors import TraceFormatError
from ground.groups import grouped
from health.whatif import optypes
from health.whatif.analysis_result import Operation, Stream
from health.whatif.trace import Trace

Places = tuple[int, ...]
Edge = tuple[int, int]

ALL = 0  # Data-parallel ranks that take part in a transfer: all of them
# Disagreement of the clocks, as a share of the step time, from which on the replay is not good to a per cent.  In the
# published traces no transfer ends too early at all.
SKEW = 0.01


@dataclass(frozen=True, slots=True)
class Direction:
    """The passes of one direction, forward or backward, in the order in which they ran."""

    computes: Places  # all passes
    received: tuple[Edge, ...]  # receives, be they empty, each with the pass that begins with it
    sent: tuple[Edge, ...]  # passes that end with a send, be it empty, each with that send


@dataclass(frozen=True, slots=True)
class StageOperations:
    """One stage: places of its operations in the trace, in traced order."""

    operations: tuple[Operation, ...]
    streams: Mapping[Stream, Places]  # the six queues
    kinds: Mapping[str, Places]  # operations by their type
    directions: tuple[Direction, Direction]  # forward, backward
    inside: tuple[Edge, ...]  # collectives inside a pass, each with that pass

    def of(self, optype: str) -> Places:
        """Return the operations of one type."""
        return self.kinds.get(optype, ())

    def by_chunk(self, places: Places) -> dict[int, list[int]]:
        """Return places by model chunk, in their order."""
        return grouped((self.operations[place].chunk, place) for place in places)


def stages_of(trace: Trace) -> tuple[StageOperations, ...]:
    """Return the stages of a trace, first to last."""
    members: list[list[int]] = [[] for _ in range(trace.sizes.pp)]
    # as in the first step of the first rank, or the first of which least is missing
    whole = 0 if trace.filled is None else int(np.argmin(trace.filled.sum(axis=0)))
    rank, step = divmod(whole, len(trace.steps))
    began = trace.start[:, rank, step]
    for place in sorted(range(len(trace.operations)), key=lambda i: (float(began[i]), int(trace.sequence[i]))):
        members[trace.operations[place].stage].append(place)
    return tuple(_stage(trace, stage, places) for stage, places in enumerate(members))


def _stage(trace: Trace, stage: int, places: Sequence[int]) -> StageOperations:
    streams: dict[Stream, list[int]] = defaultdict(list)
    kinds: dict[str, list[int]] = defaultdict(list)
    for place in places:
        streams[trace.operations[place].stream].append(place)
        kinds[trace.operations[place].optype].append(place)
    # that a backward pass comes after the forward pass of its chunk and microbatch
    compute = streams["compute"]
    forwarded: set[tuple[int, int]] = set()
    for place in compute:
        operation = trace.operations[place]
        piece = (operation.chunk, operation.microbatch)
        if operation.optype == optypes.FORWARD:
            forwarded.add(piece)
        elif operation.optype == optypes.BACKWARD and piece not in forwarded:
            raise TraceFormatError(
                f"the backward pass of microbatch {operation.microbatch} in stage {operation.stage} begins before its "
                "forward pass",
                where=trace.at(place),
                fix="check start_ts, mc and mb_id of the first step",
            )
    # the collectives of context and expert parallelism, each with the pass that began last before it
    inside, around = list[Edge](), -1
    for place in compute:
        if trace.operations[place].optype not in optypes.INSIDE:
            around = place
        elif around >= 0:
            inside.append((place, around))
    return StageOperations(
        operations=trace.operations,
        streams={stream: tuple(queue) for stream, queue in streams.items()},
        directions=(
            _direction(trace, stage, kinds, (optypes.FORWARD, optypes.FORWARD_RECV, optypes.FORWARD_SEND), step=1),
            _direction(trace, stage, kinds, (optypes.BACKWARD, optypes.BACKWARD_RECV, optypes.BACKWARD_SEND), step=-1),
        ),
        kinds={optype: tuple(kind) for optype, kind in kinds.items()},
        inside=tuple(inside),
    )


def _direction(
    trace: Trace, stage: int, kinds: Mapping[str, list[int]], types: tuple[str, str, str], *, step: int
) -> Direction:
    """Return passes with their transfers, of these types; ``step`` goes from a part of the model to the next."""
    computes, receives, sends = (kinds.get(optype, []) for optype in types)
    # a trace without any transfer says nothing of what ties stages to their neighbours
    alone = trace.sizes.pp == 1 or all(operation.optype not in optypes.PIPELINE for operation in trace.operations)
    parts = trace.sizes.parts
    here = {i: parts.of(stage, trace.operations[i].chunk) for i in computes}
    receivers = [] if alone else [i for i in computes if parts.has_transfer(here[i], here[i] - step)]
    senders = [] if alone else [i for i in computes if parts.has_transfer(here[i], here[i] + step)]
    if trace.sizes.vpp > 1 and not alone:
        receivers = _with_empty(receivers, computes, len(receives), first_left_out=True)
        senders = _with_empty(senders, computes, len(sends), first_left_out=False)
    for optype, transfers, passes in ((types[1], receives, receivers), (types[2], sends, senders)):
        if len(transfers) != len(passes):
            raise TraceFormatError(
                f"stage {stage} has {len(transfers)} {optype} for {len(passes)} {types[0]} that need one: unpaired",
                where=trace.at((transfers or passes or computes)[-1]),
                fix=f"trace whole steps with every {optype}; check pp_size and vpp_size in the metadata",
            )
    return Direction(
        computes=tuple(computes),
        received=tuple(zip(receives, receivers, strict=True)),
        sent=tuple(zip(senders, sends, strict=True)),
    )


def _with_empty(needed: list[int], computes: list[int], transfers: int, *, first_left_out: bool) -> list[int]:
    """Return the passes that so many transfers belong to: those that need one, or, some transfers being empty, all.

    Profilers of interleaved schedules record a transfer for every pass, also where the model begins or ends and nothing
    is moved; only the very first receive, or the last send, is sometimes left out.
    """
    if transfers <= len(needed) or len(computes) - transfers not in (0, 1):
        return needed
    return computes[len(computes) - transfers :] if first_left_out else computes[:transfers]


class TransferGroup(NamedTuple):
    """Operations that transfer together; a compute operation is a group of its own."""

    members: tuple[int, ...]  # places of the operations
    joined: int  # neighbouring data-parallel ranks whose same operation belongs to it: ALL of them, or 1 = no others
    spent: tuple[int, ...] = ()  # operations whose end no later group needs


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Which operation waits for which."""

    predecessors: tuple[tuple[int, ...], ...]  # operation -> operations that must end before it is launched
    groups: tuple[TransferGroup, ...]  # in topological order; each operation is in one
    last: frozenset[int]  # operations whose latest end is the end of the step
    inside: tuple[Edge, ...]  # collectives inside a pass, each with that pass


def build_graph(trace: Trace) -> Graph:
    """Return the graph of a trace."""
    stages = stages_of(trace)
    before: list[set[int]] = [set() for _ in trace.operations]
    for stage in stages:
        # streams run one operation after the other; a chunk begins with its parameters
        edges = [edge for queue in stage.streams.values() for edge in pairwise(queue)]
        for passes, gathers in _of_one_chunk(stage, stage.directions[0].computes, optypes.ALL_GATHER):
            edges += ((gather, passes[0]) for gather in gathers)
        for earlier, later in (*edges, *_pipeline_edges(stage), *_tail_edges(stage)):
            before[later].add(earlier)
    ordered = _ordered(trace, list(_groups(trace, stages)), before)
    # the last group that needs the end of each operation: after it a replay need not keep that
    needed_by = [0] * len(before)
    for i, group in enumerate(ordered):
        for member in group.members:
            needed_by[member] = max(needed_by[member], i)
            for waits in before[member]:
                needed_by[waits] = i
    spent: list[list[int]] = [[] for _ in ordered]
    for place, i in enumerate(needed_by):
        spent[i].append(place)
    last = [i for i, operation in enumerate(trace.operations) if operation.optype == optypes.OPTIMIZER]
    return Graph(
        predecessors=tuple(tuple(sorted(waits)) for waits in before),
        groups=tuple(group._replace(spent=tuple(done)) for group, done in zip(ordered, spent, strict=True)),
        last=frozenset(last or range(len(trace.operations))),
        inside=tuple(edge for stage in stages for edge in stage.inside),
    )


def _of_one_chunk(stage: StageOperations, computes: tuple[int, ...], optype: str) -> Iterable[tuple[list[int], ...]]:
    """Yield the passes of each model chunk with its collectives of a type, or with those that name no chunk."""
    collectives = stage.by_chunk(stage.of(optype))
    for chunk, passes in stage.by_chunk(computes).items():
        yield passes, collectives.get(chunk, collectives.get(-1, []))


def _pipeline_edges(stage: StageOperations) -> Iterable[Edge]:
    """Yield recv(i) -> compute(i) -> send(i); compute(i-1) -> recv(i), both of one direction."""
    for direction in stage.directions:
        yield from (*direction.received, *direction.sent)
        # what is inside a pass is replayed behind it, and before what it sends
        sent = dict(direction.sent)
        yield from ((within, sent[pass_]) for within, pass_ in stage.inside if pass_ in sent)
        previous = {after: before for before, after in pairwise(direction.computes)}
        yield from ((previous[pass_], receive) for receive, pass_ in direction.received if pass_ in previous)
    forward, backward = stage.directions
    if backward.computes:
        place = {operation: i for i, operation in enumerate(stage.streams["compute"])}
        warm_up = [operation for operation in forward.computes if place[operation] < place[backward.computes[0]]]
        if len(warm_up) > 1:
            # the first transfers backward are launched once the warm-up has but one forward pass left
            firsts = (*(receive for receive, _ in backward.received[:1]), *(send for _, send in backward.sent[:1]))
            yield from ((warm_up[-2], first) for first in firsts)


def _groups(trace: Trace, stages: Sequence[StageOperations]) -> Iterable[TransferGroup]:
    """Yield every operation in one group."""
    grouped: set[int] = set()
    joined = {optype: _joined(trace, optype) for optype in {operation.optype for operation in trace.operations}}
    embeddings, clips = ([stage.of(optype) for stage in stages] for optype in (optypes.EMBEDDING, optypes.CLIP))
    # the first and the last stage add up the gradients of their shared embedding
    shared = zip(embeddings[0], embeddings[-1], strict=False) if len(stages) > 1 else ()
    # all stages agree on the norm of the gradients: the barrier at the end of a step
    for group in (*_transfers(trace, stages), *shared, *zip(*clips, strict=False)):
        grouped.update(group)
        yield TransferGroup(group, joined[trace.operations[group[0]].optype])
    for i, operation in enumerate(trace.operations):
        if i not in grouped:
            yield TransferGroup((i,), joined[operation.optype])


def _joined(trace: Trace, optype: str) -> int:
    """Return how many neighbouring data-parallel ranks take part in a transfer of a type: ALL, or 1 = it has none."""
    if optype not in optypes.INSIDE:
        return ALL if optype in optypes.JOINED else 1
    sizes, ranks = trace.sizes, len(trace.dp_ranks)
    # the ranks of one sequence are data-parallel ranks of the trace, or parts of one
    apart = sizes.dsp > 1 and ranks == sizes.dp * sizes.dsp
    if optype.startswith("cp-"):
        joined = sizes.dsp if apart else 1
    elif sizes.ep > 1:
        joined = sizes.ep if apart else max(sizes.ep // sizes.dsp, 1)
    else:
        joined = _together(trace, [i for i, operation in enumerate(trace.operations) if operation.optype == optype])
    return joined if ranks % joined == 0 else ALL


def _together(trace: Trace, places: Sequence[int]) -> int:
    """Return how many neighbouring ranks are in collectives together: as many as have all begun when the first ends."""
    start, end = trace.start[places], trace.start[places] + trace.duration[places]
    ranks, doubt = len(trace.dp_ranks), SKEW * (trace.start + trace.duration).max(axis=(0, 1))
    for joined in (size for size in range(ranks, 1, -1) if ranks % size == 0):
        parts = (len(places), ranks // joined, joined, len(trace.steps))
        if (start.reshape(parts).max(axis=2) <= end.reshape(parts).min(axis=2) + doubt).all():
            return joined
    return 1


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


def _transfers(trace: Trace, stages: Sequence[StageOperations]) -> Iterator[Edge]:
    """Yield pairs (send, receive) of all stages.

    The rows do not say which send belongs to which receive.  The k-th send of a stage carries the k-th pass that has
    somewhere to go; what it carries is received by the next stage for the same chunk and microbatch, or, from the last
    stage, by the first stage for the chunk after it (interleaved schedules).  Gradients go the other way.  A transfer
    where the model begins or ends is empty and has no partner.
    """
    parts = trace.sizes.parts

    def part_of_model(place: int) -> tuple[int, int]:
        """Return which part, counted along the forward pass, and which microbatch."""
        operation = trace.operations[place]
        return parts.of(operation.stage, operation.chunk), operation.microbatch

    for direction, step in ((0, 1), (1, -1)):
        awaited: dict[tuple[int, int], int] = {}
        for receive, receiver in (pair for stage in stages for pair in stage.directions[direction].received):
            here = part_of_model(receiver)
            if not parts.has_transfer(here[0], here[0] - step):
                continue
            if here in awaited:
                raise _unpaired(trace, receive, "is received twice for one microbatch")
            awaited[here] = receive
        for sender, send in (pair for stage in stages for pair in stage.directions[direction].sent):
            part, microbatch = part_of_model(sender)
            if not parts.has_transfer(part, part + step):
                continue
            receive = awaited.pop((part + step, microbatch), -1)
            if receive < 0:
                raise _unpaired(trace, send, "is sent and never received")
            yield send, receive
        if awaited:
            raise _unpaired(trace, next(iter(awaited.values())), "is received and never sent")


def _unpaired(trace: Trace, place: int, problem: str) -> TraceFormatError:
    operation = trace.operations[place]
    return TraceFormatError(
        f"{operation.optype} {trace.sequence[place]} of stage {operation.stage} {problem}: unpaired",
        where=trace.at(place),
        fix="trace all stages of a rank over whole steps; passes of a microbatch carry the same mb_id in every stage",
    )


def _tail_edges(stage: StageOperations) -> Iterable[Edge]:
    """Yield edges of the end of a step.

    Overlap of gradient reduction with the backward pass shows by ``separate-grads-all-reduce``:

    - with it, a chunk's reduce-scatter waits for the chunk's last backward pass, and the tail is
      {last reduce-scatter, gc} -> layer-norm -> embedding -> separate -> clip -> optimizer;
    - without it, last compute -> gc -> layer-norm -> embedding -> reduce-scatters -> clip -> optimizer.

    Operations that a trace does not have are passed over.
    """
    compute = [i for i in stage.streams.get("compute", ()) if stage.operations[i].optype != optypes.OPTIMIZER]
    heads: Sequence[int] = compute[-1:]
    reduction = optypes.REDUCE_SCATTER
    if stage.of(optypes.SEPARATE):
        backward = stage.directions[1].computes
        for passes, scatters in _of_one_chunk(stage, backward, optypes.REDUCE_SCATTER):
            yield from ((passes[-1], scatter) for scatter in scatters)
        heads = (*stage.of(optypes.REDUCE_SCATTER)[-1:], *(stage.of(optypes.GC)[-1:] or backward[-1:] or heads))
        reduction = optypes.SEPARATE
    for optype in (optypes.LAYERNORM, optypes.EMBEDDING, reduction, optypes.CLIP, optypes.OPTIMIZER):
        link = stage.of(optype)
        yield from ((head, link[0]) for head in heads if link)
        yield from pairwise(link)
        heads = link[-1:] or heads
