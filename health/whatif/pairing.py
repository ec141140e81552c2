"""Which send belongs to which receive.

The rows do not say it.  The k-th send of a stage carries the k-th pass that has somewhere to go; what it carries is
received by the next stage for the same chunk and microbatch, or, from the last stage, by the first stage for the chunk
after it (interleaved schedules).  Gradients go the other way.  A transfer where the model begins or ends is empty and
has no partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from health.whatif.result import Operation
from health.whatif.stage import StageOperations
from health.whatif.trace import Trace
from topology.errors import TraceFormatError


def pairs_of(trace: Trace, stages: Sequence[StageOperations]) -> Iterator[tuple[int, int]]:
    """Pairs (send, receive) of all stages.

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
    """Which part of the model, counted along the forward pass, and which microbatch."""
    return operation.chunk * trace.sizes.pp + operation.stage, operation.microbatch


def _unpaired(trace: Trace, place: int, problem: str) -> TraceFormatError:
    operation = trace.operations[place]
    return TraceFormatError(
        f"{operation.optype} {trace.sequence[place]} of stage {operation.stage} {problem}: unpaired",
        where=trace.at(place),
        fix="trace all stages of a rank over whole steps; passes of a microbatch carry the same mb_id in every stage",
    )
