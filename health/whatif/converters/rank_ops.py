"""Operations of one rank: its ranges and kernels, step by step, on the clock of the job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from health.whatif import optypes
from health.whatif.converters.covered_time import CoveredTime
from health.whatif.converters.names import RECEIVE, SEND, WEIGHT, Meaning
from health.whatif.converters.op_trace_output import Op
from health.whatif.converters.profile import Profile, Range
from health.whatif.converters.training_passes import steps_of, with_passes
from health.whatif.optypes import ALL_GATHER, BACKWARD, CLIP, FORWARD, GC, PIPELINE, REDUCE_SCATTER

Span = tuple[float, float]

# Families whose kernels, and copies, are no part of a compute operation; those of tensor and sequence parallelism are
_OUTSIDE = frozenset({"copy", "dp", "pp", "embedding", "tail", "unknown", "other"})
# What an all-reduce between the last backward pass and the update is, by its family
_REDUCED = {"embedding": optypes.EMBEDDING, "pp": optypes.EMBEDDING, "tp": optypes.LAYERNORM, "tail": CLIP}
_COMPUTE = (*optypes.COMPUTE, WEIGHT)
# These happen once a step, however many ranges they are made of
_ONCE = (optypes.OPTIMIZER, CLIP, optypes.LAYERNORM, optypes.EMBEDDING)


class RankOps:
    """Operations of one rank, step by step; ``shift`` is added to its clock, in seconds.

    :param plain: the job has data-parallel ranks only: every collective is theirs.
    :param staged: it has a pipeline.
    """

    def __init__(self, profile: Profile, *, plain: bool, staged: bool, shift: float = 0.0) -> None:
        self.profile, self.shift, self.plain, self._staged = profile, shift, plain, staged
        self.host_timed: Counter[str] = Counter()
        self.notes: list[str] = []
        self.steps = profile.steps
        if not staged:
            self.steps, why = steps_of(profile)
            self.notes += [why] if why else []
        self._family = ["dp" if plain and kind.collective else kind.family for kind in profile.kinds]
        computes = np.array([family not in _OUTSIDE for family in self._family])
        self._computes = computes[profile.kind]
        self.communicates = np.array([kind.collective != "" for kind in profile.kinds])[profile.kind]
        self.computing = CoveredTime.of(profile.start[self._computes], profile.end[self._computes])
        self._main = self._computes & (profile.stream == self._main_stream())
        either = self._computes | self.communicates
        self._busy = CoveredTime.of(profile.start[either], profile.end[either])
        self._calls = np.array([each.start for each in profile.calls])

    def _main_stream(self) -> int:
        """Return the stream on which most is computed."""
        streams, place = np.unique(self.profile.stream, return_inverse=True)
        seconds = np.bincount(place, (self.profile.end - self.profile.start) * self._computes, minlength=1)
        return int(streams[np.argmax(seconds)]) if len(streams) else 0

    def ops(self) -> Iterator[Op]:
        """Yield all operations, in no order worth relying on."""
        for number, start, end in self.steps:
            inside = [each for each in self.profile.ranges if start <= each.start < end]
            if self._staged:
                inside = directed(one for each in inside for one in self._one_pass(each))
            else:
                inside, note = with_passes(self.profile, inside, (start, end))
                self.notes += [note] if note and note not in self.notes else []
            yield from self._from_ranges(inside, number)
            yield from self._from_kernels(inside, (start, end), number)
            if self.profile.on_cpu and not len(self.profile.launch):
                yield from self._from_calls(inside, (start, end), number)

    def launched(self, start: float, end: float) -> NDArray[np.int64]:
        """Return kernels launched in a stretch of the host."""
        first, stop = np.searchsorted(self.profile.launch, (start, end))
        return np.arange(first, stop)

    def _one_pass(self, each: Range) -> Iterator[Range]:
        """Yield a range, or the two passes that it holds, parted where autograd begins or ends."""
        if (then := each.meaning.then) is None:
            yield each
            return
        first, last = np.searchsorted(self.profile.autograd[:, 0], (each.start, each.end))
        nodes = self.profile.autograd[first:last]
        if len(nodes):
            forward_first = FORWARD in each.meaning.optypes
            middle = min(float(nodes[0, 0] if forward_first else nodes[:, 1].max()), each.end)
            yield Range(each.start, middle, replace(each.meaning, then=None))
            yield Range(middle, each.end, then)

    def _from_ranges(self, ranges: list[Range], step: int) -> Iterator[Op]:
        spans: dict[str, list[tuple[Span, Meaning]]] = defaultdict(list)
        for each in ranges:
            if (span := self._span(each)) is not None:
                for optype in each.meaning.optypes:
                    spans[optype].append((span, each.meaning))
        for optype, found in spans.items():
            if optype in _ONCE:
                yield self._op(step, optype, _hull([span for span, _ in found]))
            else:
                for span, meaning in found:
                    yield self._op(step, optype, span, meaning.microbatch, meaning.chunk)

    def _span(self, each: Range) -> Span | None:
        """Return when what was launched inside a range ran, without waits; of a transfer None if it launched nothing.

        A compute operation waits while kernels of other ranks' collectives run and none of its own does: its start is
        moved by as much.
        """
        kernels = self.launched(each.start, each.end)
        compute = any(optype in _COMPUTE for optype in each.meaning.optypes)
        chosen = kernels[(self._computes if compute else self.communicates)[kernels]]
        if compute:
            # what a pass launches on another stream may run long after it
            main = chosen[self._main[chosen]]
            chosen = main if len(main) else kernels[~self.communicates[kernels]]
        if len(chosen):
            start, end = float(self.profile.start[chosen].min()), float(self.profile.end[chosen].max())
            if compute:
                start += float(self._busy.within(start, end) - self.computing.within(start, end))
            return start, end
        if len(self.profile.launch) and not compute:
            return None
        if compute and not self.profile.on_cpu and GC not in each.meaning.optypes:
            self.host_timed.update(each.meaning.optypes)
        return each.start, each.end if compute else self._until_calls_end(each)

    def _until_calls_end(self, each: Range) -> float:
        """Return when a range, and the calls of process groups that began in it, are over."""
        first, stop = np.searchsorted(self._calls, (each.start, each.end))
        return max(each.end, *(self.profile.calls[i].end for i in range(first, stop)), each.end)

    def _from_kernels(self, ranges: list[Range], step: Span, number: int) -> Iterator[Op]:
        """Yield collectives that no range names, told by their process group and their place in the step."""
        profile = self.profile
        kernels = self.launched(*step)
        have = {optype for each in ranges for optype in each.meaning.optypes}
        computing = [each for each in ranges if {FORWARD, BACKWARD} & set(each.meaning.optypes)]
        forward = [each for each in computing if FORWARD in each.meaning.optypes]
        first = min((each.start for each in forward), default=step[0])
        last = max((each.end for each in computing), default=step[1])
        updated = min((each.start for each in ranges if optypes.OPTIMIZER in each.meaning.optypes), default=step[1])
        told = [(self._family[kind], profile.kinds[kind].collective) for kind in profile.kind[kernels]]
        scatters = ("dp", "reduce-scatter") in told
        found: dict[tuple[int, str], list[Span]] = defaultdict(list)
        for kernel, what in zip(kernels, told, strict=True):
            launch = float(profile.launch[kernel])
            match what:
                case ("dp", "all-gather") if not self.plain or launch < first or launch >= updated:
                    optype = ALL_GATHER
                case ("dp", "reduce-scatter"):
                    optype = REDUCE_SCATTER
                case ("dp", "all-reduce") if not scatters and not _within(forward, launch) and launch < updated:
                    optype = REDUCE_SCATTER
                case (family, "all-reduce") if (family in _REDUCED or self.plain) and last <= launch < updated:
                    optype = _REDUCED.get(family, CLIP)
                case _:
                    continue
            if optype not in have:
                # parameters gathered after the update are those of the next step
                of_next = optype == ALL_GATHER and launch >= updated
                span = (float(profile.start[kernel]), float(profile.end[kernel]))
                found[number + of_next, optype].append(span)
        for (of_step, optype), spans in found.items():
            yield self._op(of_step, optype, _hull(spans))

    def _from_calls(self, ranges: list[Range], step: Span, number: int) -> Iterator[Op]:
        """Yield the reduction of gradients of a job on CPUs: what is left of its all-reduces after the last pass."""
        last = max((each.end for each in ranges if BACKWARD in each.meaning.optypes), default=step[1])
        updated = min((each.start for each in ranges if optypes.OPTIMIZER in each.meaning.optypes), default=step[1])
        first, stop = np.searchsorted(self._calls, step)
        ends = [
            one.end
            for one in self.profile.calls[first:stop]
            if one.call.collective in ("all-reduce", "reduce-scatter") and last < one.end <= updated
        ]
        if ends and not any(REDUCE_SCATTER in each.meaning.optypes for each in ranges):
            yield self._op(number, REDUCE_SCATTER, (last, max(ends)))

    def _op(self, step: int, optype: str, span: Span, microbatch: int = -1, chunk: int = -1) -> Op:
        start, end = span
        return Op(self.profile.rank, step, optype, start + self.shift, end + self.shift, microbatch, chunk)


def directed(found: Iterable[Range]) -> list[Range]:
    """Return the ranges of a step with transfers whose ranks were not recorded, their direction told by the passes.

    What is received inside a pass, or last before one, is for this pass; what is sent inside a pass or after it is of
    this pass.  Where the schedule names its transfers itself, the calls below them are left out.
    """
    ranges = list(found)
    if not any({SEND, RECEIVE} & set(each.meaning.optypes) for each in ranges):
        return ranges
    named = any(set(PIPELINE) & set(each.meaning.optypes) for each in ranges)
    passes = [each for each in ranges if {FORWARD, BACKWARD} & set(each.meaning.optypes)]
    made: list[Range] = []
    for each in ranges:
        if not {SEND, RECEIVE} & set(each.meaning.optypes):
            made.append(each)
            continue
        sent = SEND in each.meaning.optypes
        beside = [one for one in passes if (one.start <= each.start if sent else one.end > each.start)]
        if named or not beside:
            continue
        forward = FORWARD in (beside[-1] if sent else beside[0]).meaning.optypes
        optype = PIPELINE[(0 if forward else 2) + (0 if sent else 1)]
        made.append(Range(each.start, each.end, Meaning(each.meaning.dialect, (optype,))))
    return made


def _within(ranges: Sequence[Range], moment: float) -> bool:
    return any(each.start <= moment < each.end for each in ranges)


def _hull(spans: Sequence[Span]) -> Span:
    return min(start for start, _ in spans), max(end for _, end in spans)
