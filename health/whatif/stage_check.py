"""The operations of one pipeline stage, sorted by what they are to each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from health.whatif.analysis_result import Operation, Stream
from health.whatif.optypes import (
    ALL_GATHER,
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_SEND,
    CLIP,
    EMBEDDING,
    FORWARD,
    FORWARD_RECV,
    FORWARD_SEND,
    LAYERNORM,
    OPTIMIZER,
    REDUCE_SCATTER,
    SEPARATE,
)
from health.whatif.trace import Trace
from topology.errors import TraceFormatError

Places = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Direction:
    """The passes of one direction, forward or backward, in the order in which they ran.

    :param computes: all passes.
    :param receivers: those that begin with a receive, be it empty; ``receives[k]`` is that of ``receivers[k]``.
    :param senders: those that end with a send, be it empty; ``sends[k]`` is that of ``senders[k]``.
    """

    computes: Places
    receivers: Places
    receives: Places
    senders: Places
    sends: Places


@dataclass(frozen=True, slots=True)
class StageOperations:
    """One stage: places of its operations in the trace.

    :param streams: the six queues, each in traced order.
    :param directions: forward, backward.
    :param compute_place: operation of the compute stream -> its place there.
    """

    operations: tuple[Operation, ...]
    streams: Mapping[Stream, Places]
    directions: tuple[Direction, Direction]
    compute_place: Mapping[int, int]
    gathers: Places
    scatters: Places
    layernorms: Places
    embeddings: Places
    separates: Places
    clips: Places
    optimizers: Places

    def by_chunk(self, places: Iterable[int]) -> dict[int, list[int]]:
        """Return places by model chunk, in their order."""
        chunks: dict[int, list[int]] = defaultdict(list)
        for place in places:
            chunks[self.operations[place].chunk].append(place)
        return chunks


def stages_of(trace: Trace) -> tuple[StageOperations, ...]:
    """Return the stages of a trace, first to last.

    :raises TraceFormatError: the passes of a stage and its sends or receives do not match in number.
    """
    members: list[list[int]] = [[] for _ in range(trace.sizes.pp)]
    began = trace.start[:, 0, 0]
    for place in sorted(range(len(trace.operations)), key=lambda i: (float(began[i]), int(trace.sequence[i]))):
        members[trace.operations[place].stage].append(place)
    return tuple(_stage(trace, stage, places) for stage, places in enumerate(members))


def _stage(trace: Trace, stage: int, places: Sequence[int]) -> StageOperations:
    operations = trace.operations
    streams: dict[Stream, list[int]] = defaultdict(list)
    kinds: dict[str, list[int]] = defaultdict(list)
    for place in places:
        streams[operations[place].stream].append(place)
        kinds[operations[place].optype].append(place)
    _check_order(trace, streams["compute"])
    first, last = (0, 0), (trace.sizes.pp - 1, trace.sizes.vpp - 1)
    directed = partial(_direction, trace, stage, kinds)
    return StageOperations(
        operations=operations,
        streams={stream: tuple(queue) for stream, queue in streams.items()},
        directions=(
            directed((FORWARD, FORWARD_RECV, FORWARD_SEND), first=first, last=last),
            directed((BACKWARD, BACKWARD_RECV, BACKWARD_SEND), first=last, last=first),
        ),
        compute_place={place: i for i, place in enumerate(streams["compute"])},
        gathers=tuple(kinds[ALL_GATHER]),
        scatters=tuple(kinds[REDUCE_SCATTER]),
        layernorms=tuple(kinds[LAYERNORM]),
        embeddings=tuple(kinds[EMBEDDING]),
        separates=tuple(kinds[SEPARATE]),
        clips=tuple(kinds[CLIP]),
        optimizers=tuple(kinds[OPTIMIZER]),
    )


def _check_order(trace: Trace, compute: Sequence[int]) -> None:
    """A backward pass comes after the forward pass of its chunk and microbatch."""
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
    """Return passes with their transfers.

    :param first: (stage, chunk) where the direction begins: nothing is received there.
    :param last: (stage, chunk) where it ends: nothing is sent there.
    """
    compute, receive, send = optypes
    computes = kinds.get(compute, [])
    alone = trace.sizes.pp == 1
    receivers = [] if alone else [i for i in computes if (stage, trace.operations[i].chunk) != first]
    senders = [] if alone else [i for i in computes if (stage, trace.operations[i].chunk) != last]
    if trace.sizes.vpp > 1 and not alone:
        receivers = _with_empty(receivers, computes, len(kinds.get(receive, ())), first_left_out=True)
        senders = _with_empty(senders, computes, len(kinds.get(send, ())), first_left_out=False)
    for optype, passes in ((receive, receivers), (send, senders)):
        transfers = kinds.get(optype, [])
        if len(transfers) != len(passes):
            at = (transfers or passes or computes)[-1]
            raise TraceFormatError(
                f"stage {stage} has {len(transfers)} {optype} for {len(passes)} {compute} that need one: unpaired",
                where=trace.at(at),
                fix=f"trace whole steps with every {optype}; check pp_size and vpp_size in the metadata",
            )
    return Direction(
        computes=tuple(computes),
        receivers=tuple(receivers),
        receives=tuple(kinds.get(receive, ())),
        senders=tuple(senders),
        sends=tuple(kinds.get(send, ())),
    )


def _with_empty(needed: list[int], computes: list[int], transfers: int, *, first_left_out: bool) -> list[int]:
    """Return the passes that transfers belong to, where some transfers may be empty.

    Profilers of interleaved schedules record a transfer for every pass, also where the model begins or ends and nothing
    is moved; only the very first receive, or the last send, is sometimes left out.

    :param needed: passes that have something to move.
    :param transfers: how many transfers there are.
    """
    if transfers <= len(needed) or len(computes) - transfers not in (0, 1):
        return needed
    return computes[len(computes) - transfers :] if first_left_out else computes[:transfers]
