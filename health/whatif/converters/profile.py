"""One rank's Kineto trace and its operations, step by step.

A trace is reduced to what the op trace needs: steps, named ranges, kernels, calls of process groups.  A range says on
the host which operation it is; when the operation ran is said by the kernels that were launched inside it, on whatever
thread (the backward pass launches from the autograd thread).  Launches and kernels share a ``correlation`` number.

Jobs without a pipeline have ranges that give passes no numbers, or do not name them at all.  There a forward pass is a
range around the whole model, its backward pass a range too, or what autograd ran after it and before the next.  Where
no range names the forward pass, it is what lies between the loading of data and the first node of autograd; without
autograd the step infers, and is one forward pass.
"""

import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ground.errors import TraceFormatError
from ground.groups import grouped
from health.whatif import optypes
from health.whatif.conversion import Op
from health.whatif.converters import names
from health.whatif.converters.chrome_json import ChromeTrace
from health.whatif.converters.degrees import JobEvidence, ProcessGroup, groups_of
from health.whatif.optypes import ALL_GATHER, BACKWARD, CLIP, FORWARD, GC, OPTIMIZER, PIPELINE, REDUCE_SCATTER
from health.whatif.trace import RankLayout

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CoveredTime:
    """The union of stretches, such as those in which a device computes."""

    start: Floats  # [stretches], seconds, ascending
    end: Floats  # [stretches], each at or before the next start
    before: Floats  # [stretches], seconds covered by those before

    @classmethod
    def of(cls, start: Floats, end: Floats) -> Self:
        """Return the union of stretches that may overlap, in any order."""
        order = np.argsort(start, kind="stable")
        start, end = start[order], np.maximum.accumulate(end[order]) if len(end) else end
        first = np.ones(len(start), dtype=np.bool_)
        first[1:] = start[1:] > end[:-1]
        last = np.append(first[1:], True)[: len(start)]
        start, end = start[first], end[last]
        return cls(start, end, np.concatenate([[0.0], np.cumsum(end - start)[:-1]])[: len(start)])

    @property
    def total(self) -> float:
        """Return seconds covered in all."""
        return float((self.end - self.start).sum())

    def until(self, moment: Floats | float) -> Floats:
        """Return seconds covered before each moment."""
        if not len(self.start):
            return np.zeros(np.shape(moment))
        place = np.maximum(np.searchsorted(self.start, moment, side="right") - 1, 0)
        inside = np.clip(moment, self.start[place], self.end[place]) - self.start[place]
        covered: Floats = self.before[place] + inside
        return covered

    def within(self, start: Floats | float, end: Floats | float) -> Floats:
        """Return seconds covered between two moments, or pairs of them."""
        return self.until(end) - self.until(start)


_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_]?(\d{1,9})(?!\d)")
# Categories, in small letters; those of PyTorch before 1.12 are Operator, Runtime, Kernel, Memcpy, Memset
_RANGES = frozenset({"user_annotation", "cpu_op", "operator", "python_function"})
_LAUNCHES = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "runtime"})
_KERNELS = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_COMMUNICATES = re.compile(r"\A[nrox]\w{0,3}ccl|\b[nr]ccl(?:Dev)?Kernel", re.IGNORECASE)  # NCCL, RCCL, oneCCL

MOST = 1 << 62  # Numbers beyond this are no correlation and no time in nanoseconds


class KernelKind(NamedTuple):
    """What sort of kernel one is."""

    family: str  # what its process group is, "" = it computes, "copy" = it moves memory
    collective: str  # all-gather, ..., "" = none
    group: str  # name and members of its process group as recorded; "" = not recorded


COMPUTE_KERNEL = KernelKind("", "", "")
COPY = KernelKind("copy", "", "")  # It moves or sets memory


@dataclass(frozen=True, slots=True)
class Range:
    """A named stretch of the host, seconds on the file's clock."""

    start: float
    end: float
    meaning: names.Meaning

    def holds(self, *of: str) -> bool:
        """Return whether it holds operations of any of these types."""
        return any(optype in of for optype in self.meaning.optypes)


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A call of a process group, seconds on the file's clock; on a CPU it lasts until the call is over."""

    start: float
    end: float
    call: names.HostCall


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What one rank's file says."""

    name: str
    rank: int
    world_size: int | None
    evidence: JobEvidence  # what it shows of the degrees of the job
    on_cpu: bool  # the process groups are those of a job without devices: what the host timed is what ran
    epoch_ns: int  # what the file's clock counts from, nanoseconds since 1970; 0 = its times are absolute already
    steps: tuple[tuple[int, float, float], ...]  # number, start and end of each step on the host; empty = none marked
    extent: tuple[float, float]  # start of the first and end of the last event of the host
    ranges: tuple[Range, ...]  # by their start, of the plainest dialect that each type of operation occurs in
    autograd: NDArray[np.float64]  # float [nodes, (start, end)] of the backward pass, on the host, ascending
    loaded: NDArray[np.float64]  # float [batches], when each was loaded, ascending
    calls: tuple[TimedCall, ...]  # by their start
    launch: NDArray[np.float64]  # float [kernels], when each kernel was launched, ascending
    start: NDArray[np.float64]  # float [kernels], when it began on the device
    end: NDArray[np.float64]  # float [kernels]
    kind: NDArray[np.int64]  # int [kernels], index into kinds
    stream: NDArray[np.int64]  # int [kernels], number of its stream on the device
    kinds: tuple[KernelKind, ...]  # COMPUTE_KERNEL and COPY first
    busy: CoveredTime  # when anything ran on the device, also what was launched before the file begins
    repaired: int  # holes in the JSON that were filled


def read_profile(path: str, layout: RankLayout) -> Profile:
    """Read a rank's file."""
    trace = ChromeTrace(path)
    collected = _Collector(trace.name, layout)
    for event in trace:
        if event.get("ph") == "X":
            collected.take(event)
    return collected.profile(trace)


class _Collector:
    """Sorts events as they come."""

    def __init__(self, name: str, layout: RankLayout) -> None:
        self._name = name
        self._layout = layout
        self._steps: dict[int, tuple[float, float]] = {}
        self._ranges: list[Range] = []
        self._calls: list[TimedCall] = []
        self._launched: dict[int, float] = {}
        self._correlation, self._kind, self._stream = array("q"), array("q"), array("q")
        self._start, self._end = array("d"), array("d")
        self._autograd, self._loaded = array("d"), array("d")
        self._extent = (math.inf, -math.inf)
        self._kinds: dict[KernelKind, int] = {COMPUTE_KERNEL: 0, COPY: 1}
        self._groups: dict[tuple[str, str], None] = {}  # description and members of process groups, as recorded
        self._hops: set[int] = set()
        self._parts = 0

    def take(self, event: Mapping[str, Any]) -> None:
        category = event.get("cat")
        if not isinstance(category, str):
            return
        category = category.lower()
        if category in _RANGES:
            self._range(event, is_frame=category == "python_function")
        elif category in _LAUNCHES or category in _KERNELS:
            arguments = event.get("args")
            correlation = arguments.get("correlation") if isinstance(arguments, dict) else None
            if not isinstance(correlation, int) or not isinstance(arguments, dict) or abs(correlation) >= MOST:
                return
            if category in _LAUNCHES:
                self._launched.setdefault(correlation, self._host_times(event)[0])
            else:
                name = str(event.get("name", ""))
                kind = COPY if "mem" in str(event["cat"]).lower() else COMPUTE_KERNEL
                if _COMMUNICATES.search(name):
                    collective = names.collective_of(name, str(arguments.get("Collective name", "")))
                    members = str(arguments.get("Process Group Ranks", ""))
                    self._groups[str(arguments.get("Process Group Description", "")), members] = None
                    if str(arguments.get("Collective name", "")).lower() in (names.SEND, names.RECEIVE):
                        self._hops.add(0)
                    group = f"{arguments.get('Process Group Name', '')} {members}".strip()
                    kind = KernelKind(self._family(arguments), collective, group)
                start, end = self._times(event)
                self._correlation.append(correlation)
                self._kind.append(self._kinds.setdefault(kind, len(self._kinds)))
                stream = arguments.get("stream")
                self._stream.append(stream if isinstance(stream, int) and abs(stream) < MOST else 0)
                self._start.append(start)
                self._end.append(end)

    def _range(self, event: Mapping[str, Any], *, is_frame: bool) -> None:
        name = str(event.get("name", ""))
        if meaning := names.meaning_of(name, stages=self._layout.pp):
            self._ranges.append(Range(*self._host_times(event), meaning))
            if meaning.staged:
                self._parts = max(self._parts, meaning.part + 1, 1)
            elif set(PIPELINE) & set(meaning.optypes):
                self._hops.add(0)
        if is_frame:
            return
        start, end = self._host_times(event)
        if step := names.STEP.match(name):
            self._steps.setdefault(int(step[1]), (start, end))
        elif names.AUTOGRAD.match(name):
            self._autograd.extend((start, end))
        elif name.startswith(names.LOADS_DATA):
            self._loaded.append(end)
        elif (hop := names.hop_of(name)) is not None:
            self._hops.add(hop)
            self._calls.append(TimedCall(start, end, names.HostCall(name.split(":", maxsplit=1)[0], names.OTHER)))
        elif call := names.host_call(name):
            self._calls.append(TimedCall(start, end, call))

    def _family(self, arguments: Mapping[str, Any]) -> str:
        if described := names.described_family(str(arguments.get("Process Group Description", ""))):
            return described
        ranks = arguments.get("Process Group Ranks")
        members = [int(text) for text in re.findall(r"\d{1,9}", str(ranks))]
        whole = "..." not in str(ranks) and all(rank < self._layout.world_size for rank in members)
        return self._layout.family(members) if members and whole else "unknown"

    def _host_times(self, event: Mapping[str, Any]) -> tuple[float, float]:
        start, end = self._times(event)
        self._extent = (min(start, self._extent[0]), max(end, self._extent[1]))
        return start, end

    def _times(self, event: Mapping[str, Any]) -> tuple[float, float]:
        try:
            start, duration = float(event["ts"]), float(event.get("dur", 0.0))
        except (KeyError, TypeError, ValueError):
            start, duration = math.nan, math.nan
        if not (math.isfinite(start) and 0.0 <= duration < math.inf):
            raise TraceFormatError(
                f"the event {str(event.get('name'))[:60]!r} has no usable time: "
                f"ts {event.get('ts')!r}, dur {event.get('dur')!r}",
                where=self._name,
                fix="export the trace again",
            )
        return start * 1e-6, (start + duration) * 1e-6

    def profile(self, trace: ChromeTrace) -> Profile:
        info = trace.beside.get("distributedInfo")
        info = info if isinstance(info, dict) else {}
        if self._layout.pp > 1 and not self._steps:
            problem = "has no ProfilerStep# range, so its steps cannot be told apart"
            raise TraceFormatError(problem, where=self._name, fix="call step() of the profiler once an iteration")
        if not math.isfinite(self._extent[0]):
            fix = "record activities of the CPU too, and call step() of the profiler once an iteration"
            raise TraceFormatError("has no event of the host, so nothing can be told apart", where=self._name, fix=fix)
        launch = np.array([self._launched.get(number, math.nan) for number in self._correlation])
        launched = np.isfinite(launch)
        order = np.flatnonzero(launched)[np.argsort(launch[launched], kind="stable")]
        autograd = np.array(self._autograd).reshape(-1, 2)
        calls = tuple(sorted(self._calls, key=lambda entry: entry.start))
        # kinds of kernels, where a kernel that names no collective (RCCL's) has that of the call around it
        kind = np.array(self._kind, dtype=np.int64)
        kinds = dict(self._kinds)
        begins = np.array([call.start for call in calls])
        for number, unnamed in enumerate(self._kinds):
            for kernel in np.flatnonzero(kind == number) if unnamed.collective == names.OTHER and calls else ():
                around = calls[max(int(np.searchsorted(begins, launch[kernel], side="right")) - 1, 0)]
                if around.start <= launch[kernel] <= around.end:
                    named = unnamed._replace(collective=around.call.collective)
                    kind[kernel] = kinds.setdefault(named, len(kinds))
        # members that are cut short show nothing of the degrees of the job
        groups = dict.fromkeys(groups_of(info))
        for description, members in self._groups:
            ranks = tuple(sorted({int(text) for text in re.findall(r"\d{1,9}", members)}))
            if "..." not in members and 1 < len(ranks) < self._layout.world_size:
                groups[ProcessGroup(description, ranks)] = None
        best: dict[str, int] = {}
        for range_ in self._ranges:
            for optype in range_.meaning.optypes:
                best[optype] = min(best.get(optype, range_.meaning.dialect), range_.meaning.dialect)
        plain = (
            range_
            for range_ in self._ranges
            if all(best[kind] == range_.meaning.dialect for kind in range_.meaning.optypes)
        )
        value = trace.beside.get("baseTimeNanoseconds", 0)
        if not isinstance(value, int) or not 0 <= value < MOST:
            fix = "export the trace again"
            raise TraceFormatError(f"baseTimeNanoseconds is {str(value)[:40]!r}, no time", where=self._name, fix=fix)
        in_name = _RANK_IN_NAME.search(self._name.rsplit("/", 1)[-1])
        alone = 0 if self._layout.world_size == 1 else None
        rank = info.get("rank", int(in_name[1]) if in_name and alone is None else alone)
        if not isinstance(rank, int):
            fix = "name the files rank-0.json, rank-1.json, ..."
            raise TraceFormatError("does not say which rank it is of", where=self._name, fix=fix)
        if not 0 <= rank < self._layout.world_size:
            problem = f"is of rank {rank}, but the metadata describes {self._layout.world_size} ranks"
            raise TraceFormatError(problem, where=self._name, fix="give the metadata of this job")
        return Profile(
            name=self._name,
            rank=rank,
            world_size=info.get("world_size") if isinstance(info.get("world_size"), int) else None,
            evidence=JobEvidence(tuple(groups), tuple(sorted(self._hops)), self._parts),
            on_cpu=isinstance(info.get("backend"), str) and not names.HostCall(info["backend"].lower(), "").on_device,
            epoch_ns=value,
            steps=tuple((number, *times) for number, times in sorted(self._steps.items())),
            extent=self._extent,
            ranges=tuple(sorted(plain, key=lambda entry: entry.start)),
            autograd=autograd[np.argsort(autograd[:, 0], kind="stable")],
            loaded=np.sort(np.array(self._loaded)),
            calls=calls,
            launch=launch[order],
            start=np.array(self._start)[order],
            end=np.array(self._end)[order],
            kind=kind[order],
            stream=np.array(self._stream, dtype=np.int64)[order],
            kinds=tuple(kinds),
            busy=CoveredTime.of(np.array(self._start), np.array(self._end)),
            repaired=trace.repaired,
        )


Steps = tuple[tuple[int, float, float], ...]
TOLD_BY_ORDER = names.WHOLE_MODEL + 2  # Dialect of passes that no range names
FEWEST_UPDATES = 3  # From so many on, the first step, which began before the file, is not needed


def steps_of(profile: Profile) -> tuple[Steps, str]:
    """Return number, start and end of each step, and a sentence on where they are from; empty = marked as such."""
    if profile.steps:
        return profile.steps, ""
    updates = [range_ for range_ in profile.ranges if range_.holds(OPTIMIZER)]
    nodes = profile.autograd[:, 0]
    # several optimizers of one step have no backward pass between them
    ends = [
        before.end
        for before, after in pairwise(updates)
        if not len(nodes) or np.searchsorted(nodes, before.end) < np.searchsorted(nodes, after.start)
    ] + [update.end for update in updates[-1:]]
    begin, end = profile.extent
    end = max(end, float(profile.end.max(initial=end)))
    if not ends:
        return ((0, begin, end),), "no ProfilerStep# range is in it: the whole file is taken as one step"
    numbered = tuple((number, *span) for number, span in enumerate(pairwise([begin, *ends])))
    why = "no ProfilerStep# range is in it: a step is what ends with an optimizer's"
    return (numbered[1:] if len(numbered) >= FEWEST_UPDATES else numbered), why


def with_passes(profile: Profile, ranges: Sequence[Range], span: tuple[float, float]) -> tuple[list[Range], str]:
    """Return the ranges of one step with forward and backward passes among them, and a sentence on what was assumed."""
    passes = [range_ for range_ in ranges if range_.holds(FORWARD, BACKWARD)]
    if any(range_.holds(FORWARD) and range_.meaning.dialect < names.WHOLE_MODEL for range_ in passes):
        return list(ranges), ""
    others = [range_ for range_ in ranges if range_ not in passes]
    forward = _outermost([range_ for range_ in passes if range_.holds(FORWARD)])
    backward = _outermost([range_ for range_ in passes if range_.holds(BACKWARD)])
    if not backward:
        # what autograd ran from the start of each forward pass to that of the next
        begins = [range_.start for range_ in forward] or [span[0]]
        end = span[1]
        nodes, runs = profile.autograd, []
        for start, stop in pairwise([*begins, end]):
            first, last = np.searchsorted(nodes[:, 0], (start, stop))
            if first < last:
                run = nodes[first:last]
                runs.append(Range(float(run[0, 0]), float(run[:, 1].max()), names.Meaning(TOLD_BY_ORDER, (BACKWARD,))))
        backward = runs
    if forward:
        return sorted([*others, *forward, *backward], key=lambda range_: range_.start), ""
    updates = [range_ for range_ in others if range_.holds(OPTIMIZER)]
    until = min((range_.start for range_ in (*backward, *updates)), default=span[1])
    ready = profile.loaded[(profile.loaded >= span[0]) & (profile.loaded < until)]
    begin = float(ready[-1]) if len(ready) and backward else span[0]  # a step that infers may load many batches
    inferred = Range(begin, until, names.Meaning(TOLD_BY_ORDER, (FORWARD,)))
    note = (
        "no range names a forward pass: it is taken to lie between the data and the first backward operation"
        if backward
        else "no range and no autograd tells its passes: a step is taken as one forward pass, as inference has it"
    )
    return sorted([inferred, *others, *backward], key=lambda range_: range_.start), note


def _outermost(ranges: Sequence[Range]) -> list[Range]:
    """Return ranges that lie in no other."""
    outermost: list[Range] = []
    for range_ in sorted(ranges, key=lambda range_: (range_.start, -range_.end)):
        if not outermost or range_.start >= outermost[-1].end:
            outermost.append(range_)
    return outermost


Span = tuple[float, float]

# Families whose kernels, and copies, are no part of a compute operation; those of tensor parallelism are
_OUTSIDE = frozenset({"copy", "dp", "pp", "cp", "ep", "embedding", "tail", "unknown", "other"})
# What an all-reduce between the last backward pass and the update is, by its family
_REDUCED = {"embedding": optypes.EMBEDDING, "pp": optypes.EMBEDDING, "tp": optypes.LAYERNORM, "tail": CLIP}
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
        self._family = [
            "dp" if plain and kind.collective and kind.family != "ep" else kind.family for kind in profile.kinds
        ]
        # which collective inside a pass a kernel of each kind is; empty = none
        inside = (
            f"{family}-{'send-recv' if kind.collective == names.OTHER else kind.collective}"
            for family, kind in zip(self._family, profile.kinds, strict=True)
        )
        self._inside = [optype if optype in optypes.INSIDE else "" for optype in inside]
        self._within = np.array([optype != "" for optype in self._inside])[profile.kind]
        computes = np.array([family not in _OUTSIDE for family in self._family])
        self._computes = computes[profile.kind]
        self.communicates = np.array([kind.collective != "" for kind in profile.kinds])[profile.kind]
        self.computing = CoveredTime.of(profile.start[self._computes], profile.end[self._computes])
        # the main stream is that on which most is computed
        streams, place = np.unique(self.profile.stream, return_inverse=True)
        seconds = np.bincount(place, (self.profile.end - self.profile.start) * self._computes, minlength=1)
        self._main = self._computes & (profile.stream == (int(streams[np.argmax(seconds)]) if len(streams) else 0))
        either = self._computes | self.communicates
        self._busy = CoveredTime.of(profile.start[either], profile.end[either])
        passes = self._computes | self._within
        self._passing = CoveredTime.of(profile.start[passes], profile.end[passes])
        self._calls = np.array([call.start for call in profile.calls])

    def ops(self) -> Iterator[Op]:
        """Yield all operations, in no order worth relying on."""
        for number, start, end in self.steps:
            inside = [range_ for range_ in self.profile.ranges if start <= range_.start < end and self._began(range_)]
            if self._staged:
                inside = directed(part for range_ in inside for part in self._one_pass(range_))
            else:
                inside, note = with_passes(self.profile, inside, (start, end))
                self.notes += [note] if note and note not in self.notes else []
            yield from self._from_ranges(inside, number)
            # collectives that no range names, told by their process group and their place in the step
            profile = self.profile
            kernels = self.kernels_launched(start, end)
            have = {optype for range_ in inside for optype in range_.meaning.optypes}
            computing = [range_ for range_ in inside if range_.holds(FORWARD, BACKWARD)]
            forward = [range_ for range_ in computing if range_.holds(FORWARD)]
            first = min((range_.start for range_ in forward), default=start)
            last = max((range_.end for range_ in computing), default=end)
            updated = min((range_.start for range_ in inside if range_.holds(OPTIMIZER)), default=end)
            collectives = [(self._family[kind], profile.kinds[kind].collective) for kind in profile.kind[kernels]]
            scatters = ("dp", "reduce-scatter") in collectives
            spans_of: dict[tuple[int, str], list[Span]] = defaultdict(list)
            for kernel, what in zip(kernels, collectives, strict=True):
                launch = float(profile.launch[kernel])
                match what:
                    case ("dp", "all-gather") if not self.plain or launch < first or launch >= updated:
                        optype = ALL_GATHER
                    case ("dp", "reduce-scatter"):
                        optype = REDUCE_SCATTER
                    case ("dp", "all-reduce") if (
                        not scatters
                        and not any(range_.start <= launch < range_.end for range_ in forward)
                        and launch < updated
                    ):
                        optype = REDUCE_SCATTER
                    case (family, "all-reduce") if (family in _REDUCED or self.plain) and last <= launch < updated:
                        optype = _REDUCED.get(family, CLIP)
                    case _:
                        continue
                if optype not in have:
                    # parameters gathered after the update are those of the next step
                    of_next = optype == ALL_GATHER and launch >= updated
                    span = (float(profile.start[kernel]), float(profile.end[kernel]))
                    spans_of[number + of_next, optype].append(span)
            for (of_step, optype), spans in spans_of.items():
                yield self._op(of_step, optype, _hull(spans))
            for range_ in computing:
                yield from self._inside_of(range_, number)
            if self.profile.on_cpu and not len(self.profile.launch):
                yield from self._from_calls(inside, (start, end), number)

    @property
    def seconds_computed(self) -> float:
        """Seconds in kernels that compute, less those in collectives of tensor and context parallelism, in which the
        other ranks of its worker wait for the slowest.
        """
        profile = self.profile
        own = np.array([family in ("tp", "cp") for family in self._family])[profile.kind] & self.communicates
        lengths = profile.end - profile.start
        return float(lengths[~self.communicates].sum() - lengths[own].sum())

    def _inside_of(self, range_: Range, number: int) -> Iterator[Op]:
        """Yield the collectives of context and expert parallelism that a pass launched: of each the time in which
        nothing was computed beside it, at its end.
        """
        kernels = self.kernels_launched(range_.start, range_.end)
        for kernel in kernels[self._within[kernels]]:
            start, end = float(self.profile.start[kernel]), float(self.profile.end[kernel])
            start += float(self.computing.within(start, end))
            yield self._op(number, self._inside[self.profile.kind[kernel]], (min(start, end), end))

    def _began(self, range_: Range) -> bool:
        """Return whether anything began in a range: on a CPU a schedule names reductions of each chunk, of which a job
        that reduces its gradients itself makes none there.
        """
        first, stop = np.searchsorted(self._calls, (range_.start, range_.end))
        timed_by_host = self.profile.on_cpu and not len(self.profile.launch)
        return bool(first < stop) or not timed_by_host or not range_.holds(*optypes.COLLECTIVE)

    def kernels_launched(self, start: float, end: float) -> NDArray[np.int64]:
        """Return kernels launched in a stretch of the host."""
        first, stop = np.searchsorted(self.profile.launch, (start, end))
        return np.arange(first, stop)

    def _one_pass(self, range_: Range) -> Iterator[Range]:
        """Yield a range, or the two passes that it holds, parted where autograd begins or ends."""
        if (then := range_.meaning.then) is None:
            yield range_
            return
        first, last = np.searchsorted(self.profile.autograd[:, 0], (range_.start, range_.end))
        nodes = self.profile.autograd[first:last]
        if len(nodes):
            forward_first = range_.holds(FORWARD)
            middle = min(float(nodes[0, 0] if forward_first else nodes[:, 1].max()), range_.end)
            yield Range(range_.start, middle, replace(range_.meaning, then=None))
            yield Range(middle, range_.end, then)

    def _from_ranges(self, ranges: list[Range], step: int) -> Iterator[Op]:
        ran = ((span, range_.meaning) for range_ in ranges if (span := self._span(range_)) is not None)
        spans = grouped((optype, (span, meaning)) for span, meaning in ran for optype in meaning.optypes)
        for optype, of_type in spans.items():
            if optype in _ONCE:
                yield self._op(step, optype, _hull([span for span, _ in of_type]))
            else:
                for span, meaning in of_type:
                    yield self._op(step, optype, span, meaning.microbatch, meaning.chunk)

    def _span(self, range_: Range) -> Span | None:
        """Return when what was launched inside a range ran, without waits; of a transfer None if it launched nothing.

        A compute operation waits while kernels of other ranks' collectives run and none of its own does: its start is
        moved by as much.
        """
        kernels = self.kernels_launched(range_.start, range_.end)
        compute = range_.holds(*optypes.COMPUTE)
        chosen = kernels[(self._computes if compute else self.communicates)[kernels]]
        if compute:
            # what a pass launches on another stream may run long after it
            main = chosen[self._main[chosen]]
            chosen = main if len(main) else kernels[~self.communicates[kernels]]
        if len(chosen):
            start, end = float(self.profile.start[chosen].min()), float(self.profile.end[chosen].max())
            if compute:
                start += float(self._busy.within(start, end) - self._passing.within(start, end))
            return start, end
        if len(self.profile.launch) and not compute:
            return None
        if compute and not self.profile.on_cpu and not range_.holds(GC):
            self.host_timed.update(range_.meaning.optypes)
        if compute:
            return range_.start, range_.end
        # a transfer is over when the calls of process groups that began in it are
        first, stop = np.searchsorted(self._calls, (range_.start, range_.end))
        return range_.start, max([range_.end, *(call.end for call in self.profile.calls[first:stop])])

    def _from_calls(self, ranges: list[Range], stretch: Span, number: int) -> Iterator[Op]:
        """Yield the reduction of gradients of a job on CPUs: what is left of its all-reduces after the last pass; the
        last of several as the barrier of the step, if it is one.
        """
        last = max((range_.end for range_ in ranges if range_.holds(BACKWARD)), default=stretch[1])
        updated = min((range_.start for range_ in ranges if range_.holds(OPTIMIZER)), default=stretch[1])
        first, stop = np.searchsorted(self._calls, stretch)
        calls = [
            (max(call.start, last), call.end)
            for call in self.profile.calls[first:stop]
            if call.call.collective in ("all-reduce", "reduce-scatter") and last < call.end <= updated
        ]
        if calls and not any(range_.holds(REDUCE_SCATTER) for range_ in ranges):
            if self._staged and len(calls) > 1:
                yield self._op(number, CLIP, calls.pop())
            yield self._op(number, REDUCE_SCATTER, _hull(calls))

    def _op(self, step: int, optype: str, span: Span, microbatch: int = -1, chunk: int = -1) -> Op:
        start, end = span
        return Op(self.profile.rank, step, optype, start + self.shift, end + self.shift, microbatch, chunk)


def directed(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges of a step with transfers whose ranks were not recorded, their direction told by the passes.

    What is received inside a pass, or last before one, is for this pass; what is sent inside a pass or after it is of
    this pass.  Where the schedule names its transfers itself, the calls below them are left out.
    """
    ranges = list(ranges)
    if not any(range_.holds(names.SEND, names.RECEIVE) for range_ in ranges):
        return ranges
    named = any(range_.holds(*PIPELINE) for range_ in ranges)
    passes = [range_ for range_ in ranges if range_.holds(FORWARD, BACKWARD)]
    made: list[Range] = []
    for range_ in ranges:
        if not range_.holds(names.SEND, names.RECEIVE):
            made.append(range_)
            continue
        sent = range_.holds(names.SEND)
        beside = [pass_ for pass_ in passes if (pass_.start <= range_.start if sent else pass_.end > range_.start)]
        if named or not beside:
            continue
        forward = (beside[-1] if sent else beside[0]).holds(FORWARD)
        optype = PIPELINE[(0 if forward else 2) + (0 if sent else 1)]
        made.append(Range(range_.start, range_.end, names.Meaning(range_.meaning.dialect, (optype,))))
    return made


def _hull(spans: Sequence[Span]) -> Span:
    return min(start for start, _ in spans), max(end for _, end in spans)
