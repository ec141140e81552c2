"""From one rank's ranges and kernels to its operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from health.whatif.converters.profile import Profile, Range
from health.whatif.converters.rows import Op
from health.whatif.optypes import (
    ALL_GATHER,
    BACKWARD,
    CLIP,
    COMPUTE,
    EMBEDDING,
    FORWARD,
    GC,
    LAYERNORM,
    OPTIMIZER,
    REDUCE_SCATTER,
)

Span = tuple[float, float]

_OUTSIDE = frozenset({"dp", "pp", "embedding", "tail", "unknown", "other"})
"""Families whose kernels are no part of a compute operation; those of tensor and sequence parallelism are."""


class RankOps:
    """Operations of one rank, step by step.

    :param profile: the rank's file.
    :param shift: seconds to add to its clock.
    """

    def __init__(self, profile: Profile, *, shift: float = 0.0) -> None:
        self._profile = profile
        self._shift = shift
        self.host_timed: Counter[str] = Counter()
        families = np.array([family not in _OUTSIDE for family, _ in profile.kinds])
        self._computes = families[profile.kind] if len(profile.kind) else np.zeros(0, dtype=bool)
        self._communicates = profile.kind != 0

    def ops(self) -> Iterator[Op]:
        """Yield all operations, in no order worth relying on."""
        believed = self._believed()
        numbers = [number for number, _, _ in self._profile.steps]
        starts = [start for _, start, _ in self._profile.steps]
        ends = [end for _, _, end in self._profile.steps]
        for place, number in enumerate(numbers):
            inside = [each for each in believed if starts[place] <= each.start < ends[place]]
            yield from self._from_ranges(inside, number)
            optypes = {optype for each in inside for optype in each.meaning.optypes}
            yield from self._from_kernels(inside, optypes, (starts[place], ends[place]), number)

    def _believed(self) -> list[Range]:
        """Return ranges of the plainest dialect that each type of operation occurs in."""
        best: dict[str, int] = {}
        for each in self._profile.ranges:
            for optype in each.meaning.optypes:
                best[optype] = min(best.get(optype, each.meaning.dialect), each.meaning.dialect)
        return [
            each
            for each in self._profile.ranges
            if all(best[optype] == each.meaning.dialect for optype in each.meaning.optypes)
        ]

    def _from_ranges(self, ranges: list[Range], step: int) -> Iterator[Op]:
        spans: dict[str, list[Op]] = {}
        for each in ranges:
            span = self._span(each)
            if span is not None:
                for optype in each.meaning.optypes:
                    op = self._op(step, optype, span, each.meaning.microbatch, each.meaning.chunk)
                    spans.setdefault(optype, []).append(op)
        for optype, found in spans.items():
            if optype in (OPTIMIZER, CLIP, LAYERNORM, EMBEDDING):
                yield self._op(step, optype, _hull([(op.start, op.end) for op in found]), -1, -1, shifted=True)
            else:
                yield from found

    def _span(self, each: Range) -> Span | None:
        """Return when what was launched inside a range ran; of a transfer None if it launched nothing."""
        kernels = self._launched(each.start, each.end)
        compute = any(optype in COMPUTE for optype in each.meaning.optypes)
        chosen = kernels[(self._computes if compute else self._communicates)[kernels]]
        if len(chosen):
            return float(self._profile.start[chosen].min()), float(self._profile.end[chosen].max())
        if len(self._profile.launch) and not compute:
            return None
        if GC not in each.meaning.optypes:
            self.host_timed.update(each.meaning.optypes)
        return each.start, each.end

    def _from_kernels(self, ranges: list[Range], have: set[str], step: Span, number: int) -> Iterator[Op]:
        """Yield collectives that no range names, told by their process group and their place in the step."""
        profile = self._profile
        kernels = self._launched(*step)
        computing = [each for each in ranges if {FORWARD, BACKWARD} & set(each.meaning.optypes)]
        forward = [each for each in computing if FORWARD in each.meaning.optypes]
        last = max((each.end for each in computing), default=step[1])
        updated = min((each.start for each in ranges if OPTIMIZER in each.meaning.optypes), default=step[1])
        scatters = ("dp", "reduce-scatter") in {profile.kinds[kind] for kind in profile.kind[kernels]}
        found: dict[str, list[Span]] = {}
        for kernel in kernels[self._communicates[kernels]]:
            launch = float(profile.launch[kernel])
            match profile.kinds[profile.kind[kernel]]:
                case ("dp", "all-gather"):
                    optype = ALL_GATHER
                case ("dp", "reduce-scatter"):
                    optype = REDUCE_SCATTER
                case ("dp", "all-reduce") if not scatters and not _within(forward, launch) and launch < updated:
                    optype = REDUCE_SCATTER
                case ("embedding" | "pp", "all-reduce") if last <= launch < updated:
                    optype = EMBEDDING
                case ("tp", "all-reduce") if last <= launch < updated:
                    optype = LAYERNORM
                case ("tail", "all-reduce") if last <= launch < updated:
                    optype = CLIP
                case _:
                    continue
            if optype not in have:
                after = optype == ALL_GATHER and launch >= updated
                span = (float(profile.start[kernel]), float(profile.end[kernel]))
                found.setdefault(f"{optype}+" if after else optype, []).append(span)
        for optype, spans in found.items():
            later = optype.endswith("+")
            yield self._op(number + later, optype.removesuffix("+"), _hull(spans), -1, -1)

    def _launched(self, start: float, end: float) -> NDArray[np.int64]:
        """Return kernels launched in a stretch of the host."""
        first, stop = np.searchsorted(self._profile.launch, (start, end))
        return np.arange(first, stop)

    def _op(self, step: int, optype: str, span: Span, microbatch: int, chunk: int, *, shifted: bool = False) -> Op:
        shift = 0.0 if shifted else self._shift
        return Op(self._profile.rank, step, optype, span[0] + shift, span[1] + shift, microbatch, chunk)


def _within(ranges: list[Range], moment: float) -> bool:
    return any(each.start <= moment < each.end for each in ranges)


def _hull(spans: list[Span]) -> Span:
    return min(start for start, _ in spans), max(end for _, end in spans)
