"""The operations of one pipeline stage, sorted by what they are to each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ground.errors import TraceFormatError
from health.whatif.analysis_result import Operation, Stream
from health.whatif.optypes import (
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_SEND,
    FORWARD,
    FORWARD_RECV,
    FORWARD_SEND,
    PIPELINE,
)
from health.whatif.trace import Trace

Places = tuple[int, ...]
Edge = tuple[int, int]


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

    def of(self, optype: str) -> Places:
        """Return the operations of one type."""
        return self.kinds.get(optype, ())

    def by_chunk(self, places: Places) -> dict[int, list[int]]:
        """Return places by model chunk, in their order."""
        chunks: dict[int, list[int]] = defaultdict(list)
        for place in places:
            chunks[self.operations[place].chunk].append(place)
        return chunks


def stages_of(trace: Trace) -> tuple[StageOperations, ...]:
    """Return the stages of a trace, first to last."""
    members: list[list[int]] = [[] for _ in range(trace.sizes.pp)]
    began = trace.start[:, 0, 0]
    for place in sorted(range(len(trace.operations)), key=lambda i: (float(began[i]), int(trace.sequence[i]))):
        members[trace.operations[place].stage].append(place)
    return tuple(_stage(trace, stage, places) for stage, places in enumerate(members))


def is_tied(trace: Trace) -> bool:
    """Return whether stages are tied to their neighbours: a trace without any transfer says nothing of them."""
    return trace.sizes.pp > 1 and any(operation.optype in PIPELINE for operation in trace.operations)


def _stage(trace: Trace, stage: int, places: Sequence[int]) -> StageOperations:
    streams: dict[Stream, list[int]] = defaultdict(list)
    kinds: dict[str, list[int]] = defaultdict(list)
    for place in places:
        streams[trace.operations[place].stream].append(place)
        kinds[trace.operations[place].optype].append(place)
    _check_order(trace, streams["compute"])
    first, last = (0, 0), (trace.sizes.pp - 1, trace.sizes.vpp - 1)
    forward, backward = (FORWARD, FORWARD_RECV, FORWARD_SEND), (BACKWARD, BACKWARD_RECV, BACKWARD_SEND)
    return StageOperations(
        operations=trace.operations,
        streams={stream: tuple(queue) for stream, queue in streams.items()},
        directions=(
            _direction(trace, stage, kinds, forward, first=first, last=last),
            _direction(trace, stage, kinds, backward, first=last, last=first),
        ),
        kinds={optype: tuple(found) for optype, found in kinds.items()},
    )


def _check_order(trace: Trace, compute: Sequence[int]) -> None:
    """Make sure that a backward pass comes after the forward pass of its chunk and microbatch."""
    forwarded: set[tuple[int, int]] = set()
    for place in compute:
        operation = trace.operations[place]
        piece = (operation.chunk, operation.microbatch)
        if operation.optype == FORWARD:
            forwarded.add(piece)
        elif operation.optype == BACKWARD and piece not in forwarded:
            raise TraceFormatError(
                f"the backward pass of microbatch {operation.microbatch} in stage {operation.stage} begins before its "
                "forward pass",
                where=trace.at(place),
                fix="check start_ts, mc and mb_id of the first step",
            )


def _direction(
    trace: Trace,
    stage: int,
    kinds: Mapping[str, list[int]],
    optypes: tuple[str, str, str],
    *,
    first: tuple[int, int],
    last: tuple[int, int],
) -> Direction:
    """Return passes with their transfers, of types ``optypes``; nothing is received at ``first``, nor sent at ``last``.

    Both are (stage, chunk): where the direction begins and ends.
    """
    computes, receives, sends = (kinds.get(optype, []) for optype in optypes)
    alone = not is_tied(trace)
    receivers = [] if alone else [i for i in computes if (stage, trace.operations[i].chunk) != first]
    senders = [] if alone else [i for i in computes if (stage, trace.operations[i].chunk) != last]
    if trace.sizes.vpp > 1 and not alone:
        receivers = _with_empty(receivers, computes, len(receives), first_left_out=True)
        senders = _with_empty(senders, computes, len(sends), first_left_out=False)
    for optype, transfers, passes in ((optypes[1], receives, receivers), (optypes[2], sends, senders)):
        if len(transfers) != len(passes):
            raise TraceFormatError(
                f"stage {stage} has {len(transfers)} {optype} for {len(passes)} {optypes[0]} that need one: unpaired",
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
