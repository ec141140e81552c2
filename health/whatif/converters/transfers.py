"""Transfers between pipeline stages: matched to the passes they serve, or laid out between passes where none are known.

A stage that computes a microbatch has received it from the stage before, which sent it after its own pass.  So the
order of the passes says which transfers there were, also where a recorder writes none, or not which is which.  How long
they took it does not say: they take no time once both sides are there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from health.whatif.converters.names import WEIGHT
from health.whatif.converters.op_trace_output import DISABLES, Missing, Op
from health.whatif.optypes import (
    BACKWARD,
    BACKWARD_RECV,
    BACKWARD_SEND,
    FORWARD,
    FORWARD_RECV,
    FORWARD_SEND,
    PIPELINE,
)
from health.whatif.trace import RankLayout

Key = tuple[str, int, int, int]  # type, part of the model, data-parallel rank, microbatch
NOT_ALL = "not all of them are recorded"
HOST_TIMED = "the host records when it waited for them, not when they were there"
_OF_PASS = {FORWARD: (FORWARD_RECV, FORWARD_SEND), BACKWARD: (BACKWARD_RECV, BACKWARD_SEND)}


def with_whole_backwards(ops: Sequence[Op]) -> tuple[list[Op], list[str]]:
    """Return operations in which each half of a backward pass that was put off is added to the other half."""
    late: dict[tuple[int, int, int, int], float] = defaultdict(float)
    for op in ops:
        if op.optype == WEIGHT:
            late[op.rank, op.step, op.chunk, op.microbatch] += op.end - op.start
    if not late:
        return list(ops), []
    whole = [
        replace(op, end=op.end + late.get((op.rank, op.step, op.chunk, op.microbatch), 0.0))
        if op.optype == BACKWARD
        else op
        for op in ops
        if op.optype != WEIGHT
    ]
    note = "the backward pass of a microbatch is for its input and, later, for its weights: both were added up"
    return whole, [note]


class Transfers:
    """The transfers of all ranks and steps, by the passes they serve."""

    def __init__(self, ops: Sequence[Op], layout: RankLayout) -> None:
        self._layout = layout
        self._passes: dict[tuple[int, int], list[Op]] = defaultdict(list)
        self._known: dict[tuple[int, int, str], list[Op]] = defaultdict(list)
        self._rest = []
        for op in sorted(ops, key=lambda op: op.start):
            if op.optype in _OF_PASS:
                self._passes[op.rank, op.step].append(op)
            elif op.optype in PIPELINE:
                self._known[op.rank, op.step, op.optype].append(op)
            else:
                self._rest.append(op)

    def complete(self, *, turning: bool, host_timed: bool) -> tuple[list[Op], list[Missing]]:
        """Return all operations, with transfers that the analysis can pair, and what of them is missing.

        :param turning: the stages of a rank are not those of an interleaved schedule: its transfers are left out.
        :param host_timed: times are those of the host, so that a pass still holds the wait for what it receives.
        """
        passes = [op for found in self._passes.values() for op in found]
        if turning:
            reason = "the model turns round at the last rank, and the replay knows interleaved schedules only"
            return [*self._rest, *passes], [Missing(", ".join(PIPELINE), reason, DISABLES[PIPELINE[0]])]
        if whole := self._is_whole():
            if not host_timed:
                served = [transfer for key in self._passes for transfer in self._in_order(key)]
                return [*self._rest, *passes, *served], []
            passes = self._without_waits()
        by_step: dict[int, dict[Key, Op]] = defaultdict(dict)
        for op in passes:
            by_step[op.step][op.optype, self._part(op), self._layout.worker(op.rank)[0], op.microbatch] = op
        steps = [_laid_out(found) for found in by_step.values()]
        laid_out = [transfer for made in steps for transfer in made]
        if not all(steps):
            reason = "not all of them are recorded, and the passes of the stages do not match"
            return [*self._rest, *passes], [Missing(", ".join(PIPELINE), reason, DISABLES[PIPELINE[0]])]
        disabled = "their own S_t, and what transfers add to S"
        reason = f"{HOST_TIMED if whole else NOT_ALL}; they take no time once both sides are there"
        return [*self._rest, *passes, *laid_out], [Missing(", ".join(PIPELINE), reason, disabled)]

    def _part(self, op: Op) -> int:
        """Return the place of a pass along the model."""
        return max(op.chunk, 0) * self._layout.pp + self._layout.worker(op.rank)[1]

    def _needs(self, op: Op, optype: str) -> bool:
        """Return whether a pass has such a transfer: at the ends of the model there is one to send or receive less."""
        end = 0 if optype in (FORWARD_RECV, BACKWARD_SEND) else self._layout.pp * self._layout.vpp - 1
        return self._part(op) != end

    def _served(self, key: tuple[int, int], optype: str) -> list[Op]:
        passes = [op for op in self._passes[key] if optype in _OF_PASS[op.optype]]
        return [op for op in passes if self._needs(op, optype)]

    def _is_whole(self) -> bool:
        """Return whether each pass that needs a transfer has one, or with virtual stages each but one pass at all."""
        for key, passes in self._passes.items():
            for optype in PIPELINE:
                count, needed = len(self._known[*key, optype]), len(self._served(key, optype))
                whole = sum(optype in _OF_PASS[op.optype] for op in passes)
                if count != needed and not (self._layout.vpp > 1 and needed < count and whole - count in (0, 1)):
                    return False
        return True

    def _ordered(self, key: tuple[int, int], optype: str) -> list[Op]:
        """Return the transfers of one type in the order of the passes they serve."""
        known = self._known[*key, optype]
        place = {(op.chunk, op.microbatch): i for i, op in enumerate(self._served(key, optype))}
        if all((op.chunk, op.microbatch) in place for op in known):
            return sorted(known, key=lambda op: place[op.chunk, op.microbatch])
        return known

    def _in_order(self, key: tuple[int, int]) -> Iterator[Op]:
        """Yield the transfers of a rank's step, each type in the order of its passes, without their numbers."""
        for optype in PIPELINE:
            start = float("-inf")
            for op in self._ordered(key, optype):
                start = max(start, op.start)  # a receive may have been posted before that of an earlier pass
                yield replace(op, start=min(start, op.end), microbatch=-1, chunk=-1)

    def _without_waits(self) -> list[Op]:
        """Return passes that begin when what they receive is there."""
        arrived: dict[int, float] = {}
        for key in self._passes:
            for optype in (FORWARD_RECV, BACKWARD_RECV):
                served, known = self._served(key, optype), self._ordered(key, optype)
                if len(served) == len(known):
                    arrived |= {id(op): received.end for op, received in zip(served, known, strict=True)}
        return [
            replace(op, start=min(max(op.start, arrived.get(id(op), op.start)), op.end))
            for found in self._passes.values()
            for op in found
        ]


def _laid_out(passes: Mapping[Key, Op]) -> list[Op]:
    """Return transfers between the passes of one step, empty if one has no counterpart."""
    before: dict[int, float] = {}
    for rank in {op.rank for op in passes.values()}:
        queue = sorted((op for op in passes.values() if op.rank == rank), key=lambda op: op.start)
        before |= {id(after): op.end for op, after in pairwise(queue)}
    end = max(part for _, part, _, _ in passes)
    made: list[Op] = []
    for (optype, part, dp, microbatch), sender in passes.items():
        after = part + 1 if optype == FORWARD else part - 1
        if not 0 <= after <= end:
            continue
        receiver = passes.get((optype, after, dp, microbatch))
        if receiver is None:
            return []
        received, sent = _OF_PASS[optype]
        done = sender.end
        ready = before.get(id(receiver), min(receiver.start, done))
        met = max(done, ready)
        made.append(Op(sender.rank, sender.step, sent, done, met))
        made.append(Op(receiver.rank, receiver.step, received, ready, met))
    return made
