"""Kineto traces of a job, one file a rank, as an op trace: each rank's ranges and kernels become its operations.

The files are read one after the other, and checked to be of one job.  Transfers between pipeline stages are matched to
the passes they serve, or laid out between passes where none are known: a stage that computes a microbatch has received
it from the stage before, which sent it after its own pass.  So the order of the passes says which transfers there were,
also where a recorder writes none, or not which is which.  How long they took it does not say: they take no time once
both sides are there.

Which rank comes last to collectives is told too: all ranks leave a collective together, so the rank that spends least
time in it came last, whatever the clocks say.  The others waited from their start until it came; what they computed
meanwhile is no loss.  Collectives overlap, and a rank that waits in two of them at once waits once: what a rank waits
in a step is never longer than the step.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter, itemgetter
from statistics import median
from typing import NamedTuple

import numpy as np

from ground.errors import TraceFormatError, few
from ground.formats import NEARLY, FileFormat, begins_as_json
from ground.groups import grouped
from health.whatif import optypes
from health.whatif.analysis_result import Cause
from health.whatif.conversion import (
    DISABLES,
    NOTICED,
    Arrivals,
    Conversion,
    ConversionSettings,
    Latecomer,
    Missing,
    Op,
    StepBreakdown,
    missing_types,
)
from health.whatif.converters.degrees import check_layout, degrees_of_profiles
from health.whatif.converters.names import OTHER
from health.whatif.converters.profile import CoveredTime, RankOps, read_profile
from health.whatif.optypes import Parts
from health.whatif.trace import JobSizes, RankLayout

TRIFLE = 20e-6  # Seconds; ranks that come closer together come together
Key = tuple[int, str, str, int]  # step, group, collective, its number among those


class _Inside(NamedTuple):
    """A rank inside one collective."""

    rank: int
    start: float
    end: float
    computing: CoveredTime


class ArrivalOrder:
    """Collects the collectives of ranks, one rank after the other."""

    def __init__(self) -> None:
        self._inside: dict[Key, list[_Inside]] = defaultdict(list)
        self._counts: dict[tuple[int, str, str], set[int]] = defaultdict(set)
        self._lengths: list[float] = []  # of a step, by rank

    def add(self, rank: RankOps, length: float) -> None:
        """Add the collectives of one rank, whose steps have this mean length."""
        profile = rank.profile
        self._lengths.append(length)
        for step, begin, end in rank.steps:
            numbers: dict[tuple[str, str], int] = defaultdict(int)
            for group, collective, start, stop in sorted(_collectives(rank, begin, end), key=itemgetter(2)):
                number = numbers[group, collective]
                numbers[group, collective] += 1
                inside = _Inside(profile.rank, start, stop, rank.computing)
                self._inside[step, group, collective, number].append(inside)
            for (group, collective), count in numbers.items():
                self._counts[step, group, collective].add(count)

    def found(self, workers: int) -> Arrivals | None:
        """Return which rank comes last, of a job of so many workers; ``None`` = no collective was seen on two ranks."""
        last: dict[int, int] = defaultdict(int)
        waits: dict[int, dict[int, list[_Inside]]] = defaultdict(lambda: defaultdict(list))
        compared, ranks, steps = 0, set(), set()
        for (step, group, collective, _), members in self._inside.items():
            # ranks that called a collective of a group more often than others may count them differently
            if len(members) < 2 or len(self._counts[step, group, collective]) > 1:
                continue
            compared += 1
            steps.add(step)
            ranks |= {member.rank for member in members}
            latest = min(members, key=lambda wait: wait.end - wait.start)
            least = latest.end - latest.start
            waited = [
                member._replace(end=member.start + max(member.end - member.start - least, 0.0))
                for member in members
                if member is not latest
            ]
            if float(np.median([_idle([wait]) for wait in waited])) > TRIFLE:
                last[latest.rank] += 1
                for wait in waited:
                    waits[latest.rank][wait.rank].append(wait)
        if not compared:
            return None
        length = float(np.mean(self._lengths))
        latecomers = [
            Latecomer(rank, last[rank], seconds, min(seconds / length, 1.0) if length else 0.0)
            for rank in last
            for seconds in [float(np.median([_idle(own) for own in waits[rank].values()])) / len(steps)]
        ]
        latecomers.sort(key=lambda wait: (-wait.seconds, wait.rank))
        return Arrivals(compared, len(ranks), workers, len(steps), length, tuple(latecomers))


def _idle(waits: Sequence[_Inside]) -> float:
    """Return seconds in which one rank waited, in collectives that may overlap, and computed nothing."""
    covered = CoveredTime.of(np.array([wait.start for wait in waits]), np.array([wait.end for wait in waits]))
    return covered.total - float(np.sum(waits[0].computing.within(covered.start, covered.end)))


def _collectives(rank: RankOps, begin: float, end: float) -> Iterable[tuple[str, str, float, float]]:
    """Yield group, collective, start and end of what a rank's step launched; of a CPU the calls themselves."""
    profile = rank.profile
    if profile.on_cpu and not len(profile.launch):
        for call in profile.calls:
            if call.call.collective != OTHER and begin <= call.start < end:
                yield call.call.backend, call.call.collective, call.start, call.end
        return
    kernels = rank.kernels_launched(begin, end)
    for kernel in kernels[rank.communicates[kernels]]:
        kind = profile.kinds[profile.kind[kernel]]
        if kind.collective != OTHER:
            yield kind.group, kind.collective, float(profile.start[kernel]), float(profile.end[kernel])


def breakdown_of(rank: RankOps) -> StepBreakdown:
    """Return where the mean step of a rank goes, as far as its device tells; :func:`with_passes_of` adds the passes.

    A device is as far behind its host after the last step as before the first: a step lasts from its first kernel to
    that of the next.  A file of one step, or with steps left out, has the host's, and what the device still does.
    """
    profile, steps = rank.profile, rank.steps
    count = max(len(steps), 1)
    length = sum(end - start for _, start, end in steps) / count
    waiting = idle = None
    if len(profile.launch):
        launched = [rank.kernels_launched(start, end) for _, start, end in steps]
        first = [float(profile.start[kernels].min()) for kernels in launched if len(kernels)]
        if count > 1 and len(first) == count == steps[-1][0] - steps[0][0] + 1:
            count, (begin, *_, over) = count - 1, first
            launched = launched[:-1]
        else:
            begin = min(start for _, start, _ in steps)
            over = max(*(end for _, _, end in steps), *(profile.end[kernels].max(initial=0.0) for kernels in launched))
        kernels = np.concatenate(launched)
        own = kernels[~rank.communicates[kernels]]
        computing = CoveredTime.of(profile.start[own], profile.end[own]).total / count
        busy = CoveredTime.of(profile.start[kernels], profile.end[kernels]).total / count
        length = (over - begin) / count
        ran = float(profile.busy.within(begin, over)) / count
        waiting, idle = busy - computing, max(length - ran, 0.0)
    return StepBreakdown(profile.rank, len(steps), length, 0.0, 0.0, 0.0, waiting, idle)


def with_passes_of(breakdown: Iterable[StepBreakdown], ops: Sequence[Op]) -> Iterator[StepBreakdown]:
    """Yield where steps go, with the passes and the update of the operations, without waits."""
    spent: dict[tuple[int, str], float] = defaultdict(float)
    steps: dict[int, set[int]] = defaultdict(set)
    for op in ops:
        spent[op.rank, op.optype] += op.end - op.start
        if op.optype == optypes.FORWARD:
            steps[op.rank].add(op.step)
    for step in breakdown:
        count = max(len(steps[step.rank]), 1)
        forward, backward, update = (
            spent[step.rank, optype] / count for optype in (optypes.FORWARD, optypes.BACKWARD, optypes.OPTIMIZER)
        )
        yield replace(step, forward=forward, backward=backward, optimizer=update)


NAMED = 8  # Most ranks or steps that a sentence names


class RankFile(NamedTuple):
    """What stands for a worker: the file of one of its ranks."""

    rank: int
    computed: float  # seconds, as in Conversion
    ops: list[Op]
    breakdown: StepBreakdown
    host_timed: Counter[str]


class RankFiles:
    """What the files of a job hold, read one after the other.

    :param guessed: nobody said the layout, so that files may refute it.
    """

    def __init__(self, layout: RankLayout, *, guessed: bool = False) -> None:
        self.layout, self._guessed = layout, guessed
        self.ops: list[Op] = []
        self.host_timed: Counter[str] = Counter()
        self.arrivals = ArrivalOrder()
        self.breakdown: list[StepBreakdown] = []
        self.absent: list[int] = []  # workers of which no file is there, by their rank
        self.v_schedule, self.on_cpu = False, True
        self.computed: dict[int, float] = {}  # by rank, as in Conversion
        self._of_worker: dict[tuple[int, int], RankFile] = {}
        self._ranks: dict[int, str] = {}
        self._assumed: Counter[str] = Counter()
        self._skipped = self._repaired = 0
        self._origin: int | None = None

    def take(self, path: str) -> None:
        """Read one file."""
        layout = self.layout
        profile = read_profile(path, layout)
        if profile.rank in self._ranks:
            fix = "give one file a rank"
            raise TraceFormatError(f"is of rank {profile.rank}, as {self._ranks[profile.rank]} is", where=path, fix=fix)
        self._ranks[profile.rank] = path
        if profile.world_size not in (None, layout.world_size):
            problem = f"is of a job of {profile.world_size} ranks, but the metadata describes {layout.world_size}"
            raise TraceFormatError(problem, where=profile.name, fix="give the metadata of this job")
        check_layout(layout, profile.evidence, where=profile.name, guessed=self._guessed)
        # that the stages that ranges name are those of the rank
        layout = self.layout
        stage = layout.worker(profile.rank)[1]
        for part in sorted({range_.meaning.part for range_ in profile.ranges} - {-1}):
            chunk, place = divmod(part, layout.pp)
            if chunk >= layout.vpp:
                raise TraceFormatError(
                    f"names stage {part} of the model, and pp_size {layout.pp} x vpp_size {layout.vpp} makes "
                    f"{layout.pp * layout.vpp}",
                    where=profile.name,
                    fix="give pp_size, and as vpp_size how many stages a rank has",
                )
            if place != stage and (chunk % 2 == 0 or place != layout.pp - 1 - stage):
                raise TraceFormatError(
                    f"names stage {part} of the model, which is not on rank {profile.rank} with pp_size {layout.pp} "
                    f"and dp_size {layout.dp}",
                    where=profile.name,
                    fix="give the sizes of this job; ranks are numbered in Megatron's order, tp, cp, dp, pp",
                )
            self.v_schedule |= place != stage
        self._origin = profile.epoch_ns if self._origin is None else self._origin
        plain = layout.pp * layout.tp * layout.dsp == 1
        shift = (profile.epoch_ns - self._origin) * 1e-9
        rank = RankOps(profile, plain=plain, staged=layout.pp > 1, shift=shift)
        ops = list(rank.ops())
        breakdown = breakdown_of(rank)
        self.arrivals.add(rank, breakdown.step)
        self.computed[profile.rank] = rank.seconds_computed
        self.on_cpu &= profile.on_cpu and not len(profile.launch)
        self._repaired += profile.repaired
        self._assumed.update(rank.notes)
        taken = RankFile(profile.rank, rank.seconds_computed, ops, breakdown, rank.host_timed)
        standing = self._of_worker.get(worker := layout.worker(profile.rank))
        self._skipped += standing is not None
        # of several the one that computes clearly longest stands for its worker, and else the first of all
        if (
            standing is None
            or taken.computed >= (1 + NOTICED) * standing.computed
            or (taken.rank < standing.rank and standing.computed < (1 + NOTICED) * taken.computed)
        ):
            self._of_worker[worker] = taken

    def check(self) -> None:
        """Make sure that enough workers have files: without a pipeline any one, with one all stages of some rank."""
        layout = self.layout
        for file in self._of_worker.values():
            self.ops += file.ops
            self.breakdown.append(file.breakdown)
            self.host_timed += file.host_timed
        self.absent = [rank for rank in layout.representatives() if layout.worker(rank) not in self._of_worker]
        if not self.absent:
            return
        partial = {layout.worker(rank)[0] for rank in self.absent}
        whole = {dp for dp in range(layout.dp) if dp not in partial}
        if not whole:
            problem = f"{len(self.absent)} of {layout.dp * layout.pp} workers have no file: rank {few(self.absent)}"
            fix = "profile one rank of every tensor-parallel group (Megatron: --profile-ranks) and give all files"
            raise TraceFormatError(problem, where="FILES", fix=fix)
        self.ops = [op for op in self.ops if layout.worker(op.rank)[0] in whole]

    def notes(self) -> list[str]:
        """Return what to know about the files."""
        notes = []
        if self.absent:
            count = self.layout.dp * self.layout.pp
            notes.append(f"{len(self.absent)} of {count} workers have no file and are not judged: {few(self.absent)}")
        if self._skipped:
            notes.append(f"{self._skipped} files of ranks that share a worker with another were left out")
        if self._repaired:
            notes.append(f"{self._repaired} empty fields in the JSON were filled")
        return notes + list(self._assumed)


PassKey = tuple[str, int, int, int]  # type, part of the model, data-parallel rank, microbatch
NOT_ALL = "not all of them are recorded"
HOST_TIMED = "the host records when it waited for them, not when they were there"
_OF_PASS = {
    optypes.FORWARD: (optypes.FORWARD_RECV, optypes.FORWARD_SEND),
    optypes.BACKWARD: (optypes.BACKWARD_RECV, optypes.BACKWARD_SEND),
}


def with_whole_backwards(ops: Sequence[Op]) -> tuple[list[Op], list[str]]:
    """Return operations in which each half of a backward pass that was put off is added to the other half."""
    late: dict[tuple[int, int, int, int], float] = defaultdict(float)
    for op in ops:
        if op.optype == optypes.WEIGHT:
            late[op.rank, op.step, op.chunk, op.microbatch] += op.end - op.start
    if not late:
        return list(ops), []
    whole = [
        replace(op, end=op.end + late.get((op.rank, op.step, op.chunk, op.microbatch), 0.0))
        if op.optype == optypes.BACKWARD
        else op
        for op in ops
        if op.optype != optypes.WEIGHT
    ]
    note = "the backward pass of a microbatch is for its input and, later, for its weights: both were added up"
    return whole, [note]


TOGETHER = 5e-3  # Seconds between the ends of a barrier of processes that share processors


def with_barriers(ops: Sequence[Op]) -> list[Op]:
    """Return operations of a job on CPUs: the last all-reduce of a step is its barrier if all ranks leave it together,
    and else one more of gradients, as calls there do not say which group they are of.
    """
    ends = grouped((op.step, op.end) for op in ops if op.optype == optypes.CLIP)
    apart = median(max(of_step) - min(of_step) for of_step in ends.values()) if ends else 0.0
    if apart <= TOGETHER:
        return list(ops)
    last = {(op.rank, op.step): op.end for op in ops if op.optype == optypes.CLIP}
    return [
        replace(op, end=max(op.end, last.get((op.rank, op.step), op.end)))
        if op.optype == optypes.REDUCE_SCATTER
        else op
        for op in ops
        if op.optype != optypes.CLIP
    ]


class Transfers:
    """The transfers of all ranks and steps, by the passes they serve."""

    def __init__(self, ops: Sequence[Op], layout: RankLayout, parts: Parts) -> None:
        self._layout, self._parts = layout, parts
        self._passes: dict[tuple[int, int], list[Op]] = defaultdict(list)
        self._known: dict[tuple[int, int, str], list[Op]] = defaultdict(list)
        self._rest = []
        for op in sorted(ops, key=lambda op: op.start):
            if op.optype in _OF_PASS:
                self._passes[op.rank, op.step].append(op)
            elif op.optype in optypes.PIPELINE:
                self._known[op.rank, op.step, op.optype].append(op)
            else:
                self._rest.append(op)

    def complete(self, *, host_timed: bool) -> tuple[list[Op], list[Missing]]:
        """Return all operations, with transfers that the analysis can pair, and what of them is missing.

        :param host_timed: times are those of the host, so that a pass still holds the wait for what it receives.
        """
        passes = [op for passes_of_step in self._passes.values() for op in passes_of_step]
        # each pass that needs a transfer has one, or with virtual stages each but one pass at all
        whole = True
        for key, of_key in self._passes.items():
            for kind in optypes.PIPELINE:
                count, needed = len(self._known[*key, kind]), len(self._served(key, kind))
                empty = sum(kind in _OF_PASS[op.optype] for op in of_key) - count
                whole &= count == needed or (self._layout.vpp > 1 and needed < count and empty in (0, 1))
        if whole:
            if not host_timed:
                # the transfers of a rank's step, each type in the order of its passes, without their numbers
                in_order = []
                for key in self._passes:
                    for kind in optypes.PIPELINE:
                        start = float("-inf")
                        for op in self._ordered(key, kind):
                            start = max(start, op.start)  # a receive may be posted before that of an earlier pass
                            in_order.append(replace(op, start=min(start, op.end), microbatch=-1, chunk=-1))
                return [*self._rest, *passes, *in_order], []
            # passes that begin when what they receive is there
            arrived: dict[int, float] = {}
            for key in self._passes:
                for optype in (optypes.FORWARD_RECV, optypes.BACKWARD_RECV):
                    served, transfers = self._served(key, optype), self._ordered(key, optype)
                    if len(served) == len(transfers):
                        arrived |= {id(op): received.end for op, received in zip(served, transfers, strict=True)}
            passes = [replace(op, start=min(max(op.start, arrived.get(id(op), op.start)), op.end)) for op in passes]
        by_step: dict[int, dict[PassKey, Op]] = defaultdict(dict)
        for op in passes:
            by_step[op.step][op.optype, self._part(op), self._layout.worker(op.rank)[0], op.microbatch] = op
        steps = [_laid_out(passes_of_step, self._parts) for passes_of_step in by_step.values()]
        laid_out = [transfer for made in steps for transfer in made]
        if not all(steps):
            reason = "not all of them are recorded, and the passes of the stages do not match"
            return [*self._rest, *passes], [Missing(", ".join(optypes.PIPELINE), reason, DISABLES[optypes.PIPELINE[0]])]
        disabled = "their own S_t, and what transfers add to S"
        reason = f"{HOST_TIMED if whole else NOT_ALL}; they take no time once both sides are there"
        return [*self._rest, *passes, *laid_out], [Missing(", ".join(optypes.PIPELINE), reason, disabled)]

    def _part(self, op: Op) -> int:
        """Return the place of a pass along the model."""
        return self._parts.of(self._layout.worker(op.rank)[1], max(op.chunk, 0))

    def _served(self, key: tuple[int, int], optype: str) -> list[Op]:
        """Return the passes with such a transfer: at the ends of the model there is one to send or receive less."""
        step = -1 if optype in (optypes.FORWARD_RECV, optypes.BACKWARD_SEND) else 1
        return [
            op
            for op in self._passes[key]
            if optype in _OF_PASS[op.optype] and self._parts.has_transfer(part := self._part(op), part + step)
        ]

    def _ordered(self, key: tuple[int, int], optype: str) -> list[Op]:
        """Return the transfers of one type in the order of the passes they serve."""
        transfers = self._known[*key, optype]
        place = {(op.chunk, op.microbatch): i for i, op in enumerate(self._served(key, optype))}
        if all((op.chunk, op.microbatch) in place for op in transfers):
            return sorted(transfers, key=lambda op: place[op.chunk, op.microbatch])
        return transfers


def _laid_out(passes: Mapping[PassKey, Op], parts: Parts) -> list[Op]:
    """Return transfers between the passes of one step, empty if one has no counterpart."""
    before: dict[int, float] = {}
    for rank in {op.rank for op in passes.values()}:
        queue = sorted((op for op in passes.values() if op.rank == rank), key=lambda op: op.start)
        before |= {id(after): op.end for op, after in pairwise(queue)}
    made: list[Op] = []
    for (optype, part, dp, microbatch), sender in passes.items():
        after = part + 1 if optype == optypes.FORWARD else part - 1
        if not parts.has_transfer(part, after):
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


SKEW = 1e-3  # Seconds between the ends of one barrier on different ranks from which clocks are said to differ
# A job without a pipeline need not have these
_OPTIONAL = (optypes.ALL_GATHER, optypes.CLIP, optypes.REDUCE_SCATTER)


class Kineto:
    """Reads the profiles of a job, one file a rank."""

    format = FileFormat(
        name="kineto",
        source="PyTorch profiler (Kineto): Chrome trace events in JSON, plain or gzip, a file a rank; CUDA, ROCm, CPU",
        export="torch.profiler.profile(...).export_chrome_trace('rank-0.json.gz'), step() once an iteration",
        read="steps, ranges of passes and transfers, autograd, launches, kernels with their process groups",
        left_out="other operators, shapes, stacks, memory, counters; device events of MTIA and other accelerators",
        marks=('"traceevents"',),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether it is JSON with trace events; other JSON, and a list of events, is asked what is wrong."""
        if not begins_as_json(head):
            return 0.0
        return 1.0 if b'"traceEvents"' in head else NEARLY

    def sizes(self, paths: Sequence[str]) -> JobSizes:
        """Return the sizes that the process groups in the profiles say; without groups, data-parallel ranks alone."""
        return degrees_of_profiles(paths)

    def read(self, paths: Sequence[str], layout: RankLayout, settings: ConversionSettings) -> Conversion:
        """Convert the profiles of all representative ranks.

        Where nobody said the layout, files that refute it are refused with the degrees that they propose.
        """
        read = RankFiles(layout, guessed=settings.guessed)
        for path in paths:
            settings.progress(path)
            read.take(path)
        read.check()
        ops, notes = with_whole_backwards(with_barriers(read.ops) if read.on_cpu else read.ops)
        for change in (_one_pause_a_step, lambda ops: _whole_steps(_numbered(ops, layout))):
            ops, remarks = change(ops)
            notes += remarks
        if not ops:
            fix = "profile the same steps of one run on all ranks"
            raise TraceFormatError(": ".join(("no step is whole on every rank", *remarks)), where=paths[0], fix=fix)
        ops, remarks = _alike_inside(ops, layout)
        notes += remarks
        where = paths[0]
        layout = read.layout
        besides = _OPTIONAL if layout.pp == 1 else ()
        missing = missing_types(ops, layout, "no range and no kernel of it was recognised", besides=besides)
        fatal = [entry.optype for entry in missing if entry.optype in (optypes.FORWARD, optypes.BACKWARD)]
        if layout.pp == 1:
            missing = [
                replace(entry, disables="nothing, if the job infers")
                if entry.optype in (optypes.BACKWARD, optypes.OPTIMIZER)
                else entry
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
                for optype in (optypes.ALL_GATHER, optypes.REDUCE_SCATTER)
                if any(op.optype == optype and op.chunk < 0 for op in ops)
            ]
        if layout.pp > 1:
            parts = Parts(layout.pp, layout.vpp, read.v_schedule)
            ops, of_transfers = Transfers(ops, layout, parts).complete(host_timed=read.on_cpu)
            missing = [entry for entry in missing if entry.optype not in optypes.PIPELINE] + of_transfers
        else:
            # without a pipeline the reduction of gradients overlaps with the backward pass, and costs no more than what
            # stands out of it
            last: dict[tuple[int, int], float] = {}
            for op in ops:
                if op.optype in (optypes.FORWARD, optypes.BACKWARD):
                    last[op.rank, op.step] = max(last.get((op.rank, op.step), op.end), op.end)
            ops = [
                replace(op, start=max(op.start, end), end=max(op.end, end))
                if op.optype == optypes.REDUCE_SCATTER and (end := last.get((op.rank, op.step), op.start)) > op.start
                else op
                for op in ops
            ]
        by_the_host = [
            f"{count} of {optype} are timed by the host, as no kernel was launched inside: launch times, not run times"
            for optype, count in sorted(read.host_timed.items())
        ]
        notes = [*read.notes(), *notes, *by_the_host]
        # without a pipeline all ranks leave the reduction of gradients together, too
        barriers = (optypes.CLIP, optypes.REDUCE_SCATTER) if layout.pp == 1 else (optypes.CLIP,)
        ops, about_clocks = _clocks(ops, barriers, align=settings.align_clocks)
        untold: tuple[Cause, ...] = ()
        if read.host_timed[optypes.FORWARD] or read.host_timed[optypes.BACKWARD]:
            untold = ("worker", "link", "stage", "last-stage", "sequence-length", "garbage-collection")
            missing.append(Missing("device times of compute", "no kernels were recorded", "every cause, and all flags"))
        return Conversion(
            self.format.name,
            ops,
            tuple(missing),
            (*notes, *about_clocks),
            untold,
            absent=tuple(read.absent),
            v_schedule=read.v_schedule,
            computed=read.computed,
            arrivals=read.arrivals.found(layout.dp) if layout.pp == 1 else None,
            # of all steps, as the rest of it is; those of a pipeline hold waits until its transfers are known
            breakdown=tuple(
                with_passes_of(sorted(read.breakdown, key=attrgetter("rank")), ops if layout.pp > 1 else read.ops)
            ),
        )


def _numbered(ops: Sequence[Op], layout: RankLayout) -> list[Op]:
    """Return operations with chunks, and passes with microbatches, by their order where the trace does not say them."""
    groups = grouped(((op.rank, op.step, op.optype), op) for op in sorted(ops, key=lambda op: op.start))
    made: list[Op] = []
    for (_, _, optype), group in groups.items():
        for index, op in enumerate(group):
            chunk, microbatch = op.chunk, op.microbatch
            if optype in (optypes.FORWARD, optypes.BACKWARD):
                by_order = optypes.interleaved(
                    index, stages=layout.pp, chunks=layout.vpp, forward=optype == optypes.FORWARD
                )
                chunk, microbatch = by_order[0] if chunk < 0 else chunk, by_order[1] if microbatch < 0 else microbatch
            elif optype in (optypes.ALL_GATHER, optypes.REDUCE_SCATTER) and layout.vpp == 1:
                chunk = 0
            same = (chunk, microbatch) == (op.chunk, op.microbatch)
            made.append(op if same else replace(op, chunk=chunk, microbatch=microbatch))
    return made


def _alike_inside(ops: Sequence[Op], layout: RankLayout) -> tuple[list[Op], list[str]]:
    """Return operations without the collectives inside passes that not all ranks of a stage have as many of; the passes
    are shorter by them, as by other waits.
    """
    counts: dict[tuple[int, int, str], Counter[int]] = defaultdict(Counter)
    ranks: dict[int, set[int]] = defaultdict(set)
    for op in ops:
        stage = layout.worker(op.rank)[1]
        ranks[stage].add(op.rank)
        if op.optype in optypes.INSIDE:
            counts[op.step, stage, op.optype][op.rank] += 1
    odd = {
        optype
        for (_, stage, optype), count in counts.items()
        if len({*count.values()}) > 1 or count.keys() != ranks[stage]
    }
    if not odd:
        return list(ops), []
    spans = grouped(((op.rank, op.step), op) for op in ops if op.optype in odd)

    def shortened(op: Op) -> Op:
        if op.optype not in (optypes.FORWARD, optypes.BACKWARD):
            return op
        waits = (min(op.end, wait.end) - max(op.start, wait.start) for wait in spans[op.rank, op.step])
        return replace(op, start=min(op.start + sum(max(wait, 0.0) for wait in waits), op.end))

    return [shortened(op) for op in ops if op.optype not in odd], [
        f"not all ranks have as many of {', '.join(sorted(odd))}: passes are without them"
    ]


def _whole_steps(ops: Sequence[Op]) -> tuple[list[Op], list[str]]:
    """Return operations of the steps in which every rank did as much as in most of its steps, and what was dropped."""
    counts: dict[int, Counter[tuple[int, str]]] = defaultdict(Counter)
    computed = {op.step for op in ops if op.optype == optypes.FORWARD}
    for op in ops:
        if op.step in computed:
            counts[op.step][op.rank, op.optype] += 1
    keys = {key for count in counts.values() for key in count}
    # the most frequent count, of equally frequent ones the largest, of the steps in which the rank was recorded; a rank
    # without any forward pass has no whole step
    usual = {
        (rank, optype): max(Counter(seen).items(), key=itemgetter(1, 0))[0] if seen else -1
        for rank, optype in keys
        for seen in [[count[rank, optype] for count in counts.values() if count[rank, optypes.FORWARD]]]
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
        if op.optype == optypes.GC:
            pauses[op.rank, op.step].append(op)
        elif op.optype in (optypes.FORWARD, optypes.BACKWARD):
            computed[op.rank, op.step] = max(computed.get((op.rank, op.step), op.end), op.end)
    if not pauses or all(len(pauses[key]) == 1 and pauses[key][0].start >= last for key, last in computed.items()):
        return list(ops), []
    total = {key: sum(op.end - op.start for op in pauses[key]) for key in computed}
    moved = [Op(*key, optypes.GC, last, last + total[key]) for key, last in computed.items()]
    return [op for op in ops if op.optype != optypes.GC] + moved, [
        "pauses of a step were put together after its last backward"
    ]


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
