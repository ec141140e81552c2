"""Operations of a job on their way into the op trace, and what could not be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from health.whatif.analysis_result import Cause
from health.whatif.optypes import (
    ALL_GATHER,
    BACKWARD,
    CLIP,
    EMBEDDING,
    FORWARD,
    GC,
    LAYERNORM,
    OPTIMIZER,
    OPTYPES,
    PIPELINE,
    REDUCE_SCATTER,
    SEPARATE,
)
from topology.json_record import JsonRecord


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of one worker in one step: a row of the op trace before it is numbered.

    :param start: seconds on a clock that all ranks share; of a transfer, when its rank was ready for it.
    :param end: seconds on the same clock.
    :param microbatch: -1 = has none.
    :param chunk: model chunk of the stage, -1 = has none.
    """

    rank: int
    step: int
    optype: str
    start: float
    end: float
    microbatch: int = -1
    chunk: int = -1


@dataclass(frozen=True, slots=True)
class Missing(JsonRecord):
    """A type of operation, or a property of one, that the source does not hold."""

    optype: str
    """Type of operation, or property of one; several may share one entry, comma between them."""
    reason: str
    """Why it could not be recovered."""
    disables: str
    """Which part of the analysis cannot be done, or means nothing, without it."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """An op trace made from something else.

    :param source: ``kineto`` or ``megatron-timers``.
    :param ops: rows, in any order.
    :param missing: what could not be recovered and what that disables.
    :param notes: what was decided on the way, and what was dropped and why.
    :param untold: causes of the analysis that rows from this source would only seem to show.
    """

    source: str
    ops: Sequence[Op]
    missing: tuple[Missing, ...]
    notes: tuple[str, ...]
    untold: tuple[Cause, ...] = ()

    def counts(self) -> dict[str, int]:
        """Return rows of each type that was recovered, in the order of :data:`OPTYPES`."""
        found = Counter(op.optype for op in self.ops)
        return {optype: found[optype] for optype in OPTYPES if found[optype]}


DISABLES: dict[str, str] = {
    FORWARD: "everything: there is nothing to replay",
    BACKWARD: "everything: there is nothing to replay",
    GC: "the cause 'garbage collection': pauses stay inside other operations",
    OPTIMIZER: "the end of a step, so all step times",
    **dict.fromkeys(
        PIPELINE, "the replay across stages, so S, S_t, S_w, M_W and M_S: nothing ties a stage to its neighbours"
    ),
    ALL_GATHER: "its own S_t; data-parallel ranks start a step untied",
    REDUCE_SCATTER: "its own S_t; data-parallel ranks of a stage meet only at the end of the step",
    LAYERNORM: "its own S_t",
    EMBEDDING: "its own S_t; first and last stage do not wait for each other's embedding gradients",
    SEPARATE: "its own S_t, and the recognition of overlapped data-parallel communication",
    CLIP: "its own S_t and the barrier at the end of a step: a slow worker delays the others only through transfers",
}
"""What the analysis loses without each type of operation."""

FATAL = (FORWARD, BACKWARD)
"""Types without which there is no trace at all."""


def expected(*, pp: int, tp: int) -> tuple[str, ...]:
    """Return types of operation that a job of this shape has, in the order of :data:`OPTYPES`.

    ``separate-grads-all-reduce`` is left out: only jobs that overlap data-parallel communication have it.
    """
    absent = {SEPARATE}
    if pp == 1:
        absent |= {*PIPELINE, EMBEDDING}
    if tp == 1:
        absent.add(LAYERNORM)
    return tuple(optype for optype in OPTYPES if optype not in absent)
