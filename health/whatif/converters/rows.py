"""Operations of a job on their way into the op trace, and what could not be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from health.whatif import optypes
from health.whatif.analysis_result import Cause
from health.whatif.converters.rank_layout import RankLayout
from health.whatif.optypes import OPTYPES, PIPELINE
from topology.json_record import JsonRecord


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of one worker in one step: a row of the op trace before it is numbered."""

    rank: int
    step: int
    optype: str
    start: float  # seconds on a clock that all ranks share; of a transfer, when its rank was ready for it
    end: float  # seconds on the same clock
    microbatch: int = -1  # -1 = has none
    chunk: int = -1  # model chunk of the stage, -1 = has none


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
    """An op trace made from something else."""

    source: str  # kineto or megatron-timers
    ops: Sequence[Op]  # rows, in any order
    missing: tuple[Missing, ...]  # what could not be recovered and what that disables
    notes: tuple[str, ...]  # what was decided on the way, and what was dropped and why
    untold: tuple[Cause, ...] = ()  # causes of the analysis that rows from this source would only seem to show

    def counts(self) -> dict[str, int]:
        """Return rows of each type that was recovered, in the order of :data:`OPTYPES`."""
        found = Counter(op.optype for op in self.ops)
        return {optype: found[optype] for optype in OPTYPES if found[optype]}


DISABLES: dict[str, str] = {
    optypes.FORWARD: "everything: there is nothing to replay",
    optypes.BACKWARD: "everything: there is nothing to replay",
    optypes.GC: "the cause 'garbage collection': pauses stay inside other operations",
    optypes.OPTIMIZER: "the end of a step, so all step times",
    **dict.fromkeys(
        PIPELINE, "the replay across stages, so S, S_t, S_w, M_W and M_S: nothing ties a stage to its neighbours"
    ),
    optypes.ALL_GATHER: "its own S_t; data-parallel ranks start a step untied",
    optypes.REDUCE_SCATTER: "its own S_t; data-parallel ranks of a stage meet only at the end of the step",
    optypes.LAYERNORM: "its own S_t",
    optypes.EMBEDDING: "its own S_t; first and last stage do not wait for each other's embedding gradients",
    optypes.SEPARATE: "its own S_t, and the recognition of overlapped data-parallel communication",
    optypes.CLIP: (
        "its own S_t and the barrier at the end of a step: a slow worker delays the others only through transfers"
    ),
}
"""What the analysis loses without each type of operation."""


def missing_types(
    ops: Iterable[Op], layout: RankLayout, reason: str, *, besides: Collection[str] = ()
) -> list[Missing]:
    """Return the types of operation that a job of this shape has and its rows lack, in the order of :data:`OPTYPES`.

    :param besides: types that are left out, as ``separate-grads-all-reduce`` always is: only jobs that overlap
        data-parallel communication have it.
    """
    left_out = {optypes.SEPARATE, *besides, *(op.optype for op in ops)}
    if layout.pp == 1:
        left_out |= {*PIPELINE, optypes.EMBEDDING}
    if layout.tp == 1:
        left_out.add(optypes.LAYERNORM)
    return [Missing(optype, reason, DISABLES[optype]) for optype in OPTYPES if optype not in left_out]
