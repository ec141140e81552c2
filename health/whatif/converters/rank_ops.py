"""From one rank's ranges and kernels to its operations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from health.whatif import optypes
from health.whatif.converters.names import Meaning
from health.whatif.converters.op_trace_output import Op
from health.whatif.converters.profile import Profile, Range
from health.whatif.optypes import BACKWARD, COMPUTE, FORWARD, GC

Span = tuple[float, float]

_OUTSIDE = frozenset({"dp", "pp", "embedding", "tail", "unknown", "other"})
"""Families whose kernels are no part of a compute operation; those of tensor and sequence parallelism are."""


class RankOps:
    """Operations of one rank, step by step; ``shift`` is added to its clock, in seconds."""

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
        for number, start, end in self._profile.steps:
            inside = [each for each in believed if start <= each.start < end]
            yield from self._from_ranges(inside, number)
            yield from self._from_kernels(inside, (start, end), number)

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
        spans: dict[str, list[tuple[Span, Meaning]]] = defaultdict(list)
        for each in ranges:
            if (span := self._span(each)) is not None:
                for optype in each.meaning.optypes:
                    spans[optype].append((span, each.meaning))
        for optype, found in spans.items():
            # these happen once a step, however many ranges they are made of
            if optype in (optypes.OPTIMIZER, optypes.CLIP, optypes.LAYERNORM, optypes.EMBEDDING):
                yield self._op(step, optype, _hull([span for span, _ in found]))
            else:
                for span, meaning in found:
                    yield self._op(step, optype, span, meaning.microbatch, meaning.chunk)

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

    def _from_kernels(self, ranges: list[Range], step: Span, number: int) -> Iterator[Op]:
        """Yield collectives that no range names, told by their process group and their place in the step."""
        profile = self._profile
        kernels = self._launched(*step)
        have = {optype for each in ranges for optype in each.meaning.optypes}
        computing = [each for each in ranges if {FORWARD, BACKWARD} & set(each.meaning.optypes)]
        forward = [each for each in computing if FORWARD in each.meaning.optypes]
        last = max((each.end for each in computing), default=step[1])
        updated = min((each.start for each in ranges if optypes.OPTIMIZER in each.meaning.optypes), default=step[1])
        scatters = ("dp", "reduce-scatter") in {profile.kinds[kind] for kind in profile.kind[kernels]}
        found: dict[tuple[int, str], list[Span]] = defaultdict(list)
        for kernel in kernels[self._communicates[kernels]]:
            launch = float(profile.launch[kernel])
            in_forward = any(each.start <= launch < each.end for each in forward)
            match profile.kinds[profile.kind[kernel]]:
                case ("dp", "all-gather"):
                    optype = optypes.ALL_GATHER
                case ("dp", "reduce-scatter"):
                    optype = optypes.REDUCE_SCATTER
                case ("dp", "all-reduce") if not (scatters or in_forward) and launch < updated:
                    optype = optypes.REDUCE_SCATTER
                case ("embedding" | "pp", "all-reduce") if last <= launch < updated:
                    optype = optypes.EMBEDDING
                case ("tp", "all-reduce") if last <= launch < updated:
                    optype = optypes.LAYERNORM
                case ("tail", "all-reduce") if last <= launch < updated:
                    optype = optypes.CLIP
                case _:
                    continue
            if optype not in have:
                # parameters gathered after the update are those of the next step
                of_next = optype == optypes.ALL_GATHER and launch >= updated
                span = (float(profile.start[kernel]), float(profile.end[kernel]))
                found[number + of_next, optype].append(span)
        for (of_step, optype), spans in found.items():
            yield self._op(of_step, optype, _hull(spans))

    def _launched(self, start: float, end: float) -> NDArray[np.int64]:
        """Return kernels launched in a stretch of the host."""
        first, stop = np.searchsorted(self._profile.launch, (start, end))
        return np.arange(first, stop)

    def _op(self, step: int, optype: str, span: Span, microbatch: int = -1, chunk: int = -1) -> Op:
        start, end = span
        return Op(self._profile.rank, step, optype, start + self._shift, end + self._shift, microbatch, chunk)


def _hull(spans: list[Span]) -> Span:
    return min(start for start, _ in spans), max(end for _, end in spans)
