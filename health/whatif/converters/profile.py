"""One rank's Kineto trace, reduced to what the op trace needs: steps, named ranges, kernels, calls of process groups.

A range says on the host which operation it is; when the operation ran is said by the kernels that were launched inside
it, on whatever thread (the backward pass launches from the autograd thread).  Launches and kernels share a
``correlation`` number.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ground.errors import TraceFormatError
from health.whatif.converters.chrome_json import ChromeTrace
from health.whatif.converters.covered_time import CoveredTime
from health.whatif.converters.degrees import JobEvidence, ProcessGroup, groups_of
from health.whatif.converters.names import (
    AUTOGRAD,
    LOADS_DATA,
    OTHER,
    RECEIVE,
    SEND,
    STEP,
    HostCall,
    Meaning,
    collective_of,
    described_family,
    hop_of,
    host_call,
    meaning_of,
)
from health.whatif.optypes import PIPELINE
from health.whatif.trace import RankLayout

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
    meaning: Meaning


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A call of a process group, seconds on the file's clock; on a CPU it lasts until the call is over."""

    start: float
    end: float
    call: HostCall


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
                self._kernel(event, arguments, correlation)

    def _range(self, event: Mapping[str, Any], *, is_frame: bool) -> None:
        name = str(event.get("name", ""))
        if meaning := meaning_of(name, stages=self._layout.pp):
            self._ranges.append(Range(*self._host_times(event), meaning))
            if meaning.staged:
                self._parts = max(self._parts, meaning.part + 1, 1)
            elif set(PIPELINE) & set(meaning.optypes):
                self._hops.add(0)
        if is_frame:
            return
        start, end = self._host_times(event)
        if step := STEP.match(name):
            self._steps.setdefault(int(step[1]), (start, end))
        elif AUTOGRAD.match(name):
            self._autograd.extend((start, end))
        elif name.startswith(LOADS_DATA):
            self._loaded.append(end)
        elif (hop := hop_of(name)) is not None:
            self._hops.add(hop)
            self._calls.append(TimedCall(start, end, HostCall(name.split(":", maxsplit=1)[0], OTHER)))
        elif call := host_call(name):
            self._calls.append(TimedCall(start, end, call))

    def _kernel(self, event: Mapping[str, Any], arguments: Mapping[str, Any], correlation: int) -> None:
        name = str(event.get("name", ""))
        kind = COPY if "mem" in str(event["cat"]).lower() else COMPUTE_KERNEL
        if _COMMUNICATES.search(name):
            collective = collective_of(name, str(arguments.get("Collective name", "")))
            members = str(arguments.get("Process Group Ranks", ""))
            self._groups[str(arguments.get("Process Group Description", "")), members] = None
            if str(arguments.get("Collective name", "")).lower() in (SEND, RECEIVE):
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

    def _family(self, arguments: Mapping[str, Any]) -> str:
        if described := described_family(str(arguments.get("Process Group Description", ""))):
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
            raise TraceFormatError(
                "has no ProfilerStep# range, so its steps cannot be told apart",
                where=self._name,
                fix="call step() of the profiler once an iteration",
            )
        if not math.isfinite(self._extent[0]):
            raise TraceFormatError(
                "has no event of the host, so nothing can be told apart",
                where=self._name,
                fix="record activities of the CPU too, and call step() of the profiler once an iteration",
            )
        launch = np.array([self._launched.get(number, math.nan) for number in self._correlation])
        known = np.isfinite(launch)
        order = np.flatnonzero(known)[np.argsort(launch[known], kind="stable")]
        autograd = np.array(self._autograd).reshape(-1, 2)
        calls = tuple(sorted(self._calls, key=lambda each: each.start))
        kinds, kind = self._named_by_calls(calls, launch)
        return Profile(
            name=self._name,
            rank=self._rank(info),
            world_size=info.get("world_size") if isinstance(info.get("world_size"), int) else None,
            evidence=self._evidence(info),
            on_cpu=isinstance(info.get("backend"), str) and not HostCall(info["backend"].lower(), "").on_device,
            epoch_ns=self._epoch(trace.beside.get("baseTimeNanoseconds", 0)),
            steps=tuple((number, *times) for number, times in sorted(self._steps.items())),
            extent=self._extent,
            ranges=self._believed(),
            autograd=autograd[np.argsort(autograd[:, 0], kind="stable")],
            loaded=np.sort(np.array(self._loaded)),
            calls=calls,
            launch=launch[order],
            start=np.array(self._start)[order],
            end=np.array(self._end)[order],
            kind=kind[order],
            stream=np.array(self._stream, dtype=np.int64)[order],
            kinds=kinds,
            busy=CoveredTime.of(np.array(self._start), np.array(self._end)),
            repaired=trace.repaired,
        )

    def _evidence(self, info: Mapping[str, Any]) -> JobEvidence:
        """Return what the profile shows of the degrees of the job; members that are cut short show nothing."""
        groups = dict.fromkeys(groups_of(info))
        for description, members in self._groups:
            ranks = tuple(sorted({int(text) for text in re.findall(r"\d{1,9}", members)}))
            if "..." not in members and 1 < len(ranks) < self._layout.world_size:
                groups[ProcessGroup(description, ranks)] = None
        return JobEvidence(tuple(groups), tuple(sorted(self._hops)), self._parts)

    def _named_by_calls(
        self, calls: tuple[TimedCall, ...], launch: NDArray[np.float64]
    ) -> tuple[tuple[KernelKind, ...], NDArray[np.int64]]:
        """Return kinds of kernels, where a kernel that names no collective (RCCL's) has that of the call around it."""
        kind = np.array(self._kind, dtype=np.int64)
        kinds = dict(self._kinds)
        begins = np.array([each.start for each in calls])
        for number, one in enumerate(self._kinds):
            for kernel in np.flatnonzero(kind == number) if one.collective == OTHER and len(calls) else ():
                around = calls[max(int(np.searchsorted(begins, launch[kernel], side="right")) - 1, 0)]
                if around.start <= launch[kernel] <= around.end:
                    named = one._replace(collective=around.call.collective)
                    kind[kernel] = kinds.setdefault(named, len(kinds))
        return tuple(kinds), kind

    def _believed(self) -> tuple[Range, ...]:
        best: dict[str, int] = {}
        for each in self._ranges:
            for optype in each.meaning.optypes:
                best[optype] = min(best.get(optype, each.meaning.dialect), each.meaning.dialect)
        plain = (
            each for each in self._ranges if all(best[kind] == each.meaning.dialect for kind in each.meaning.optypes)
        )
        return tuple(sorted(plain, key=lambda each: each.start))

    def _epoch(self, value: Any) -> int:
        if not isinstance(value, int) or not 0 <= value < MOST:
            raise TraceFormatError(
                f"baseTimeNanoseconds is {str(value)[:40]!r}, no time", where=self._name, fix="export the trace again"
            )
        return value

    def _rank(self, info: Mapping[str, Any]) -> int:
        named = _RANK_IN_NAME.search(self._name.rsplit("/", 1)[-1])
        alone = 0 if self._layout.world_size == 1 else None
        rank = info.get("rank", int(named[1]) if named and alone is None else alone)
        if not isinstance(rank, int):
            raise TraceFormatError(
                "does not say which rank it is of", where=self._name, fix="name the files rank-0.json, rank-1.json, ..."
            )
        if not 0 <= rank < self._layout.world_size:
            raise TraceFormatError(
                f"is of rank {rank}, but the metadata describes {self._layout.world_size} ranks",
                where=self._name,
                fix="give the metadata of this job",
            )
        return rank
