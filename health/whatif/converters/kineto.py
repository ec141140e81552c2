"""Kineto traces of a job, one file a rank, as an op trace: each rank's ranges and kernels become its operations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from health.whatif import optypes
from health.whatif.analysis_result import Cause
from health.whatif.converters.names import Meaning
from health.whatif.converters.op_trace_output import DISABLES, Conversion, Missing, Op, missing_types
from health.whatif.converters.profile import Profile, Range, read_profile
from health.whatif.optypes import ALL_GATHER, BACKWARD, CLIP, FORWARD, GC, REDUCE_SCATTER, interleaved
from health.whatif.trace import RankLayout
from topology.errors import TraceFormatError

SKEW = 1e-3  # Seconds between the ends of one barrier on different ranks from which clocks are said to differ
Span = tuple[float, float]

# Families whose kernels are no part of a compute operation; those of tensor and sequence parallelism are
_OUTSIDE = frozenset({"dp", "pp", "embedding", "tail", "unknown", "other"})
# What an all-reduce between the last backward pass and the update is, by its family
_REDUCED = {"embedding": optypes.EMBEDDING, "pp": optypes.EMBEDDING, "tp": optypes.LAYERNORM, "tail": CLIP}


def convert_kineto(
    paths: Sequence[str], layout: RankLayout, *, align_clocks: bool, progress: Callable[[str], None]
) -> Conversion:
    """Read the files of all representative ranks.

    :param align_clocks: shift each rank's clock so that the barrier at the end of a step ends at once for all.
    """
    ops, host_timed, notes = _read(paths, layout, progress)
    ops, about_pauses = _one_pause_a_step(ops)
    ops, dropped = _whole_steps(_numbered(ops, layout))
    if not ops:
        raise TraceFormatError(
            "no step is whole on every rank", where=paths[0], fix="profile the same steps on all ranks"
        )
    missing = missing_types(ops, layout, "no range and no kernel of it was recognised")
    if fatal := [entry.optype for entry in missing if entry.optype in (FORWARD, BACKWARD)]:
        raise TraceFormatError(
            f"no {' and no '.join(fatal)} can be told in it: nothing says which kernels belong to which microbatch",
            where=paths[0],
            fix="record call stacks (Megatron-LM: --pytorch-profiler-collect-callstack), or put "
            "torch.profiler.record_function('forward-compute') and 'backward-compute' around each microbatch",
        )
    if layout.vpp > 1:
        missing += [
            Missing(f"{optype} (chunk)", "its kernels do not say which model chunk they serve", DISABLES[optype])
            for optype in (ALL_GATHER, REDUCE_SCATTER)
            if any(op.optype == optype and op.chunk < 0 for op in ops)
        ]
    notes += about_pauses + dropped
    notes += [
        f"{count} of {optype} are timed by the host, as no kernel was launched inside: launch times, not run times"
        for optype, count in sorted(host_timed.items())
    ]
    ops, about_clocks = _clocks(ops, align=align_clocks)
    untold: tuple[Cause, ...] = ()
    if host_timed[FORWARD] or host_timed[BACKWARD]:
        untold = ("worker", "last-stage", "sequence-length", "garbage-collection")
        missing.append(Missing("device times of compute", "no kernels were recorded", "every cause, and all flags"))
    return Conversion("kineto", ops, tuple(missing), (*notes, *about_clocks), untold)


def _read(
    paths: Sequence[str], layout: RankLayout, progress: Callable[[str], None]
) -> tuple[list[Op], Counter[str], list[str]]:
    """Return operations of all workers, how many of a type the host timed, and what to know about the files."""
    ranks: dict[int, str] = {}
    ops: list[Op] = []
    host_timed: Counter[str] = Counter()
    skipped, repaired, origin = 0, 0, None
    for path in paths:
        progress(path)
        profile = read_profile(path, layout)
        if profile.rank in ranks:
            raise TraceFormatError(
                f"is of rank {profile.rank}, as {ranks[profile.rank]} is", where=path, fix="give one file a rank"
            )
        ranks[profile.rank] = path
        if not layout.is_representative(profile.rank):
            skipped += 1
            continue
        if profile.world_size not in (None, layout.world_size):
            raise TraceFormatError(
                f"is of a job of {profile.world_size} ranks, but the metadata describes {layout.world_size}",
                where=profile.name,
                fix="give the metadata of this job",
            )
        origin = profile.epoch_ns if origin is None else origin
        reader = RankOps(profile, shift=(profile.epoch_ns - origin) * 1e-9)
        ops.extend(reader.ops())
        host_timed += reader.host_timed
        repaired += profile.repaired
    if absent := [rank for rank in layout.representatives() if rank not in ranks]:
        listed = ", ".join(map(str, absent[:8])) + (", ..." if len(absent) > 8 else "")
        raise TraceFormatError(
            f"{len(absent)} of {layout.dp * layout.pp} workers have no file: rank {listed}",
            where="FILES",
            fix="profile one rank of every tensor-parallel group (Megatron: --profile-ranks) and give all files",
        )
    notes = [f"{skipped} files of ranks that share a worker with another were left out"] if skipped else []
    notes += [f"{repaired} empty fields in the JSON were filled"] if repaired else []
    return ops, host_timed, notes


def _numbered(ops: Sequence[Op], layout: RankLayout) -> list[Op]:
    """Return operations with chunks, and passes with microbatches, by their order where the trace does not say them."""
    groups: dict[tuple[int, int, str], list[Op]] = defaultdict(list)
    for op in sorted(ops, key=lambda op: op.start):
        groups[op.rank, op.step, op.optype].append(op)
    made: list[Op] = []
    for (_, _, optype), group in groups.items():
        for index, op in enumerate(group):
            chunk, microbatch = op.chunk, op.microbatch
            if optype in (FORWARD, BACKWARD):
                said = interleaved(index, stages=layout.pp, chunks=layout.vpp, forward=optype == FORWARD)
                chunk, microbatch = said[0] if chunk < 0 else chunk, said[1] if microbatch < 0 else microbatch
            elif optype in (ALL_GATHER, REDUCE_SCATTER) and layout.vpp == 1:
                chunk = 0
            same = (chunk, microbatch) == (op.chunk, op.microbatch)
            made.append(op if same else replace(op, chunk=chunk, microbatch=microbatch))
    return made


def _whole_steps(ops: Sequence[Op]) -> tuple[list[Op], list[str]]:
    """Return operations of the steps in which every rank did as much as in most of its steps, and what was dropped."""
    counts: dict[int, Counter[tuple[int, str]]] = defaultdict(Counter)
    computed = {op.step for op in ops if op.optype == FORWARD}
    for op in ops:
        if op.step in computed:
            counts[op.step][op.rank, op.optype] += 1
    keys = {key for count in counts.values() for key in count}
    # the most frequent count, of equally frequent ones the largest
    usual = {
        key: Counter(sorted((count[key] for count in counts.values()), reverse=True)).most_common(1)[0][0]
        for key in keys
    }
    cut = {step for step, count in counts.items() if any(count[key] != usual[key] for key in keys)}
    if computed and len(cut) == len(counts):
        return [], []
    notes = []
    if cut:
        listed = ", ".join(str(step) for step in sorted(cut)[:8])
        notes.append(f"{len(cut)} steps were dropped, as operations are cut off or absent on some rank: {listed}")
    return [op for op in ops if op.step not in cut and (not computed or op.step in computed)], notes


def _one_pause_a_step(ops: Sequence[Op]) -> tuple[list[Op], list[str]]:
    """Return operations with one ``gc`` a worker and step, after its last backward pass; of no length if none was."""
    pauses: dict[tuple[int, int], list[Op]] = defaultdict(list)
    computed: dict[tuple[int, int], float] = {}
    for op in ops:
        if op.optype == GC:
            pauses[op.rank, op.step].append(op)
        elif op.optype in (FORWARD, BACKWARD):
            computed[op.rank, op.step] = max(computed.get((op.rank, op.step), op.end), op.end)
    if not pauses or all(len(pauses[key]) == 1 and pauses[key][0].start >= last for key, last in computed.items()):
        return list(ops), []
    total = {key: sum(op.end - op.start for op in pauses[key]) for key in computed}
    moved = [Op(*key, GC, last, last + total[key]) for key, last in computed.items()]
    return [op for op in ops if op.optype != GC] + moved, ["pauses of a step were put together after its last backward"]


def _clocks(ops: list[Op], *, align: bool) -> tuple[list[Op], list[str]]:
    """Return operations on clocks that agree as far as can be known, and what was found of them."""
    ends: dict[int, dict[int, float]] = defaultdict(dict)
    for op in ops:
        if op.optype == CLIP:
            ends[op.step][op.rank] = op.end
    if not ends or len({op.rank for op in ops}) == 1:
        return ops, ["clocks of ranks are taken as they are: no barrier was recognised to compare them by"]
    late: dict[int, list[float]] = defaultdict(list)
    for of_step in ends.values():
        middle = median(of_step.values())
        for rank, end in of_step.items():
            late[rank].append(end - middle)
    shift = {rank: median(values) for rank, values in late.items()}
    skew = max(shift.values()) - min(shift.values())
    if align:
        moved = [replace(op, start=op.start - shift[op.rank], end=op.end - shift[op.rank]) for op in ops]
        return moved, [f"clocks were shifted by up to {skew:.6f} s so that the barrier of a step ends at once"]
    if skew > SKEW:
        return ops, [
            f"clocks of ranks differ: one barrier ends {skew:.6f} s apart; transfer times between ranks are off by as "
            f"much; --align-clocks shifts them"
        ]
    return ops, []


class RankOps:
    """Operations of one rank, step by step; ``shift`` is added to its clock, in seconds."""

    def __init__(self, profile: Profile, *, shift: float = 0.0) -> None:
        self._profile, self._shift = profile, shift
        self.host_timed: Counter[str] = Counter()
        families = np.array([family not in _OUTSIDE for family, _ in profile.kinds])
        self._computes = families[profile.kind] if len(profile.kind) else np.zeros(0, dtype=bool)
        self._communicates = profile.kind != 0

    def ops(self) -> Iterator[Op]:
        """Yield all operations, in no order worth relying on."""
        for number, start, end in self._profile.steps:
            inside = [each for each in self._profile.ranges if start <= each.start < end]
            yield from self._from_ranges(inside, number)
            yield from self._from_kernels(inside, (start, end), number)

    def _from_ranges(self, ranges: list[Range], step: int) -> Iterator[Op]:
        spans: dict[str, list[tuple[Span, Meaning]]] = defaultdict(list)
        for each in ranges:
            if (span := self._span(each)) is not None:
                for optype in each.meaning.optypes:
                    spans[optype].append((span, each.meaning))
        for optype, found in spans.items():
            # these happen once a step, however many ranges they are made of
            if optype in (optypes.OPTIMIZER, CLIP, optypes.LAYERNORM, optypes.EMBEDDING):
                yield self._op(step, optype, _hull([span for span, _ in found]))
            else:
                for span, meaning in found:
                    yield self._op(step, optype, span, meaning.microbatch, meaning.chunk)

    def _span(self, each: Range) -> Span | None:
        """Return when what was launched inside a range ran; of a transfer None if it launched nothing."""
        kernels = self._launched(each.start, each.end)
        compute = any(optype in optypes.COMPUTE for optype in each.meaning.optypes)
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
            match profile.kinds[profile.kind[kernel]]:
                case ("dp", "all-gather"):
                    optype = ALL_GATHER
                case ("dp", "reduce-scatter"):
                    optype = REDUCE_SCATTER
                case ("dp", "all-reduce") if not scatters and not _within(forward, launch) and launch < updated:
                    optype = REDUCE_SCATTER
                case (family, "all-reduce") if family in _REDUCED and last <= launch < updated:
                    optype = _REDUCED[family]
                case _:
                    continue
            if optype not in have:
                # parameters gathered after the update are those of the next step
                of_next = optype == ALL_GATHER and launch >= updated
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


def _within(ranges: list[Range], moment: float) -> bool:
    return any(each.start <= moment < each.end for each in ranges)


def _hull(spans: list[Span]) -> Span:
    return min(start for start, _ in spans), max(end for _, end in spans)
