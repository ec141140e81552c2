"""Kineto traces of a job, one file a rank, as an op trace: each rank's ranges and kernels become its operations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from ground.errors import TraceFormatError
from ground.formats import FileFormat
from health.whatif.analysis_result import Cause
from health.whatif.converters.arrivals import with_passes_of
from health.whatif.converters.op_trace_output import DISABLES, Conversion, Missing, Op, missing_types
from health.whatif.converters.rank_files import RankFiles, few
from health.whatif.converters.transfers import Transfers, with_whole_backwards
from health.whatif.optypes import (
    ALL_GATHER,
    BACKWARD,
    CLIP,
    FORWARD,
    GC,
    OPTIMIZER,
    PIPELINE,
    REDUCE_SCATTER,
    interleaved,
)
from health.whatif.trace import RankLayout

FORMAT = FileFormat(
    name="kineto",
    source="PyTorch profiler (Kineto): Chrome trace events in JSON, plain or gzip, a file a rank; CUDA, ROCm, CPU",
    export="torch.profiler.profile(...).export_chrome_trace('rank-0.json.gz'), step() once an iteration",
    read="steps, ranges of passes and transfers, autograd, launches, kernels with their process groups",
    left_out="other operators, shapes, stacks, memory, counters; device events of MTIA and other accelerators",
    marks=('"traceevents"',),
)
SKEW = 1e-3  # Seconds between the ends of one barrier on different ranks from which clocks are said to differ
# A job without a pipeline need not have these
_OPTIONAL = (ALL_GATHER, CLIP, REDUCE_SCATTER)


def convert_kineto(
    paths: Sequence[str],
    layout: RankLayout,
    *,
    align_clocks: bool,
    guessed: bool,
    progress: Callable[[str], None],
) -> Conversion:
    """Read the files of all representative ranks.

    :param guessed: nobody said the layout: files that refute it are refused with the degrees that they propose.
    :param align_clocks: shift each rank's clock so that the barrier at the end of a step ends at once for all.
    """
    read = RankFiles(layout, guessed=guessed)
    for path in paths:
        progress(path)
        read.take(path)
    read.check()
    ops, notes = with_whole_backwards(read.ops)
    for change in (_one_pause_a_step, lambda ops: _whole_steps(_numbered(ops, layout))):
        ops, said = change(ops)
        notes += said
    if not ops:
        raise TraceFormatError(
            ": ".join(("no step is whole on every rank", *said)),
            where=paths[0],
            fix="profile the same steps of one run on all ranks",
        )
    missing = _missing(ops, read, paths[0])
    if layout.pp > 1:
        ops, of_transfers = Transfers(ops, layout).complete(turning=read.turning, host_timed=read.on_cpu)
        missing = [entry for entry in missing if entry.optype not in PIPELINE] + of_transfers
    else:
        ops = _after_passes(ops)
    notes = [*read.notes(), *notes, *_timed_by_the_host(read)]
    # without a pipeline all ranks leave the reduction of gradients together, too
    barriers = (CLIP, REDUCE_SCATTER) if layout.pp == 1 else (CLIP,)
    ops, about_clocks = _clocks(ops, barriers, align=align_clocks)
    untold: tuple[Cause, ...] = ()
    if read.host_timed[FORWARD] or read.host_timed[BACKWARD]:
        untold = ("worker", "link", "stage", "last-stage", "sequence-length", "garbage-collection")
        missing.append(Missing("device times of compute", "no kernels were recorded", "every cause, and all flags"))
    return Conversion(
        "kineto",
        ops,
        tuple(missing),
        (*notes, *about_clocks),
        untold,
        absent=tuple(read.absent),
        arrivals=read.arrivals.found(layout.dp) if layout.pp == 1 else None,
        # of all steps, as the rest of it is; those of a pipeline hold waits until its transfers are known
        breakdown=tuple(
            with_passes_of(sorted(read.breakdown, key=lambda one: one.rank), ops if layout.pp > 1 else read.ops)
        ),
    )


def _timed_by_the_host(read: RankFiles) -> list[str]:
    return [
        f"{count} of {optype} are timed by the host, as no kernel was launched inside: launch times, not run times"
        for optype, count in sorted(read.host_timed.items())
    ]


def _missing(ops: Sequence[Op], read: RankFiles, where: str) -> list[Missing]:
    """Return what could not be told.

    :raises TraceFormatError: passes could not, so that nothing can be said.
    """
    layout = read.layout
    besides = _OPTIONAL if layout.pp == 1 else ()
    missing = missing_types(ops, layout, "no range and no kernel of it was recognised", besides=besides)
    fatal = [entry.optype for entry in missing if entry.optype in (FORWARD, BACKWARD)]
    if layout.pp == 1:
        missing = [
            replace(entry, disables="nothing, if the job infers") if entry.optype in (BACKWARD, OPTIMIZER) else entry
            for entry in missing
        ]
    elif fatal:
        raise TraceFormatError(
            f"no {' and no '.join(fatal)} can be told in it: nothing says which kernels belong to which microbatch",
            where=where,
            fix="PyTorch's Schedule1F1B records nothing, nor does Megatron-LM without call stacks: record these "
            "(--pytorch-profiler-collect-callstack), or put torch.profiler.record_function('forward-compute') and "
            "'backward-compute' around each microbatch",
        )
    if layout.vpp > 1:
        missing += [
            Missing(f"{optype} (chunk)", "its kernels do not say which model chunk they serve", DISABLES[optype])
            for optype in (ALL_GATHER, REDUCE_SCATTER)
            if any(op.optype == optype and op.chunk < 0 for op in ops)
        ]
    return missing


def _after_passes(ops: Sequence[Op]) -> list[Op]:
    """Return operations of which the reduction of gradients has only what is left of it after the passes.

    Without a pipeline it overlaps with the backward pass, and costs no more than what stands out.
    """
    last: dict[tuple[int, int], float] = {}
    for op in ops:
        if op.optype in (FORWARD, BACKWARD):
            last[op.rank, op.step] = max(last.get((op.rank, op.step), op.end), op.end)
    return [
        replace(op, start=max(op.start, end), end=max(op.end, end))
        if op.optype == REDUCE_SCATTER and (end := last.get((op.rank, op.step), op.start)) > op.start
        else op
        for op in ops
    ]


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
    # the most frequent count, of equally frequent ones the largest, of the steps in which the rank was recorded; a rank
    # without any forward pass has no whole step
    usual = {
        (rank, optype): max(Counter(seen).items(), key=lambda each: (each[1], each[0]))[0] if seen else -1
        for rank, optype in keys
        for seen in [[count[rank, optype] for count in counts.values() if count[rank, FORWARD]]]
    }
    lacking = {step: {key[0] for key in keys if count[key] != usual[key]} for step, count in counts.items()}
    cut = {step for step, ranks in lacking.items() if ranks}
    if computed and len(cut) == len(counts):
        best = min(cut, key=lambda step: (len(lacking[step]), step))
        return [], [f"step {best} is cut off or absent on rank {few(sorted(lacking[best]))}"]
    notes = []
    if cut:
        notes.append(
            f"{len(cut)} steps were dropped, as operations are cut off or absent on some rank: {few(sorted(cut))}"
        )
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


def _clocks(ops: list[Op], barriers: Sequence[str], *, align: bool) -> tuple[list[Op], list[str]]:
    """Return operations on clocks that agree as far as can be known, and what was found of them.

    :param barriers: types that end at once for all ranks; the first that is there counts.
    """
    there = {op.optype for op in ops}
    barrier = next((optype for optype in barriers if optype in there), None)
    ends: dict[int, dict[int, float]] = defaultdict(dict)
    for op in ops:
        if op.optype == barrier:
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
            f"much; --align-clocks shifts them, if all files are of one run"
        ]
    return ops, []
