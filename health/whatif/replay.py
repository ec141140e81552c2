"""The replay: what a step would have taken with other durations, and the what-ifs that are asked of a trace.

An operation is launched when all it waits for has ended; a compute operation ends its duration later, a transfer its
own duration after the last launch in its group.  Arrays are [..., dp, steps]; durations may leave axes out, so that
what no straggler touches costs next to nothing.  Ideal is the mean of an operation type for compute, where work moves
from one worker to another, and the median for transfers, where outliers are faults (arXiv 2505.05713).

Steps are also written as a Chrome trace, for Perfetto: as traced, replayed, and replayed with ideal durations.  A
process is one worker in one of the three, a thread one of its streams; the three stand together, worker by worker.
Each step starts at the same moment in all three, so that what stragglers cost can be seen as the gap before the next.
Format: "Trace Event Format", complete events (``"ph": "X"``), times in microseconds.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ground.errors import TraceFormatError
from ground.groups import grouped
from health.whatif.analysis_result import Analysis, Stream, Timeline, Timelines
from health.whatif.graph import ALL, SKEW, Graph, build_graph
from health.whatif.optypes import CLIP, COMPUTE, SENDS
from health.whatif.trace import Trace

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Durations of all operations, without waiting."""

    traced: Array  # [operations, dp, steps], seconds
    ideal: Array  # [operations], seconds
    # [steps], seconds: by how much a transfer seems to have ended before its last member was launched, at most; zero
    # where the clocks of the ranks agree
    early: Array
    earliest: NDArray[np.int64]  # [steps], the operation that shows it


def durations_of(trace: Trace, graph: Graph) -> Durations:
    """Return durations of a trace; an end is start + duration in the file's precision, as in the published analysis."""
    traced = trace.duration.astype(np.float64)
    filled = np.zeros(traced.shape, dtype=np.bool_) if trace.filled is None else trace.filled
    early, earliest = np.zeros(len(trace.steps)), np.zeros(len(trace.steps), dtype=np.int64)
    for group in graph.groups:
        members = list(group.members)
        if len(members) == 1 and group.joined == 1:
            continue
        # a member that is missing was launched before the others, as far as is known
        start = np.where(filled[members], 0.0, trace.start[members])
        launched = _met(start.max(axis=0), group.joined)
        own = np.where(filled[members], 0.0, start + trace.duration[members] - launched).astype(np.float64)
        for member, seconds in zip(members, own, strict=True):
            if trace.operations[member].optype in SENDS:  # a small message is sent once it is buffered, received or not
                continue
            too_early = -seconds.min(axis=0)
            earliest[too_early > early] = member
            np.maximum(early, too_early, out=early)
        traced[members] = np.maximum(own, 0.0)
    # a pass computes nothing while a collective inside it lasts
    for within, around in graph.inside:
        begin = np.maximum(trace.start[within], trace.start[around])
        end = np.minimum(trace.start[within] + trace.duration[within], trace.start[around] + trace.duration[around])
        traced[around] = np.maximum(traced[around] - np.maximum(end - begin, 0.0), 0.0)
    # ideal is the mean or median of a type over steps, microbatches, stages and ranks together
    kinds = grouped((operation.optype, place) for place, operation in enumerate(trace.operations))
    ideal = np.empty(len(traced))
    for optype, places in kinds.items():
        values, there = traced[places], ~filled[places]
        usual = values[there].mean() if optype in COMPUTE else np.median(values[there])
        traced[places] = np.where(there, values, usual)
        ideal[places] = usual
    return Durations(traced=traced, ideal=ideal, early=early, earliest=earliest)


def _met(launched: Array, joined: int) -> Array:
    """Return [..., dp, steps]: when the last of so many neighbouring data-parallel ranks is there; ALL = of all."""
    ranks = launched.shape[-2]
    if joined == 1:
        return launched
    if joined == ALL or ranks % joined:  # of a rank and another one that stands for all, both are
        latest: Array = launched.max(axis=-2, keepdims=True)
        return latest
    parted = launched.reshape(*launched.shape[:-2], ranks // joined, joined, launched.shape[-1])
    return np.broadcast_to(parted.max(axis=-2, keepdims=True), parted.shape).reshape(launched.shape)


DurationOf = Callable[[int], Array | float]  # Operation -> its duration: a number or [..., dp, steps]


class Event(NamedTuple):
    """One operation, replayed."""

    operation: int
    start: Array
    end: Array


def replay(graph: Graph, durations: DurationOf) -> Iterator[Event]:
    """Yield all operations, each after those it waits for."""
    ends: dict[int, Array] = {}
    zero: Array = np.zeros(())
    for group in graph.groups:
        starts = []
        for member in group.members:
            start = zero
            for waits in graph.predecessors[member]:
                start = ends[waits] if start is zero else np.maximum(start, ends[waits])
            starts.append(start)
        launched = starts[0]
        for start in starts[1:]:
            launched = np.maximum(launched, start)
        if launched.ndim > 1:
            launched = _met(launched, group.joined)
        for member, start in zip(group.members, starts, strict=True):
            end: Array = np.add(launched, durations(member))
            ends[member] = end
            yield Event(member, start, end)
        for operation in group.spent:
            del ends[operation]


def step_seconds(graph: Graph, durations: DurationOf) -> Array:
    """Return [..., steps], or a plain number if no duration has axes: the latest end of an optimizer in each step."""
    latest: Array = np.zeros(())
    for event in replay(graph, durations):
        if event.operation in graph.last:
            latest = np.maximum(latest, event.end)
    return latest.max(axis=-2) if latest.ndim > 1 else latest


class Replayed(NamedTuple):
    """A trace with what is needed to replay it, and its what-ifs, whose results are step times in seconds.

    Where only one data-parallel rank is traced, all other ranks do the same: one of them stands for all, and all
    what-ifs "only rank k" run in one replay over arrays [k, (k itself, another rank), steps].  So the slowdown of every
    single worker costs two replays for each stage, however many ranks there are.
    """

    trace: Trace
    graph: Graph
    durations: Durations

    def ideal_step(self) -> float:
        """Return the step time with all operations ideal: the same for all steps."""
        return float(step_seconds(self.graph, self.durations.ideal.__getitem__))

    def steps_if(self, traced_here: NDArray[np.bool_]) -> Array:
        """Return [steps]: traced where ``traced_here``, [operations] or [operations, dp], says so, ideal elsewhere."""
        traced, ideal = self.durations.traced, self.durations.ideal
        here = traced_here.reshape(len(ideal), -1, 1)
        everywhere, anywhere = np.all(here, axis=(1, 2)), np.any(here, axis=(1, 2))

        def duration(i: int) -> Any:
            if everywhere[i]:
                return traced[i]
            return np.where(here[i], traced[i], ideal[i]) if anywhere[i] else float(ideal[i])

        return self._each_step(duration)

    def steps_with(self, others: Mapping[int, Array]) -> Array:
        """Return [steps]: all operations traced, but these with other durations [dp, steps]."""
        return self._each_step(lambda i: others[i] if i in others else self.durations.traced[i])

    def steps_of_each_rank(self, chosen: NDArray[np.bool_]) -> Array:
        """Return [dp, steps]: for each rank, the chosen operations of this rank traced, everything else ideal."""
        traced, ideal = self.durations.traced, self.durations.ideal
        _, ranks, steps = traced.shape

        def duration(i: int) -> Array | float:
            if not chosen[i]:
                return float(ideal[i])
            both = np.full((ranks, min(ranks, 2), steps), ideal[i])
            both[:, 0] = traced[i]
            return both

        return np.broadcast_to(step_seconds(self.graph, duration), (ranks, steps))

    def _each_step(self, duration: DurationOf) -> Array:
        return np.broadcast_to(step_seconds(self.graph, duration), self.durations.traced.shape[2:])


def prepare(trace: Trace, *, lenient: bool = False, align: bool = False) -> Replayed:
    """Return graph and durations of a trace.

    :param lenient: leave out steps in which the clocks of the ranks disagree, and count their rows.
    :param align: shift the clock of each worker so that the barrier of a step ends at once.
    """
    trace = _aligned(trace) if align else trace
    graph = build_graph(trace)
    durations = durations_of(trace, graph)
    ends = (trace.start + trace.duration).max(axis=(0, 1))
    skewed = durations.early > SKEW * ends
    if not skewed.any():
        return Replayed(trace, graph, durations)
    step = int(np.argmax(durations.early))
    place = int(durations.earliest[step])
    if not lenient or skewed.all():
        operation = trace.operations[place]
        raise TraceFormatError(
            f"clocks disagree by at least {durations.early[step]:.3f} s: in step {trace.steps[step]}, "
            f"{operation.optype} {trace.sequence[place]} of stage {operation.stage} ends before all its partners began",
            where=trace.at(place, step=step),
            fix="give files of one run; --align-clocks shifts clocks that differ"
            + ("" if skewed.all() else ", or use --lenient to leave such steps out"),
        )
    trace = trace.without_steps(skewed, "step with clocks that disagree")
    return Replayed(trace, graph, durations_of(trace, graph))


def _aligned(trace: Trace) -> Trace:
    """Return a trace whose workers' clocks are shifted, each by the median over the steps of how much later than for
    the others a step's barrier ends for it; raise :class:`TraceFormatError` where a stage has no barrier.
    """
    barriers = {op.stage: i for i, op in enumerate(trace.operations) if op.optype == CLIP}
    if len(barriers) < trace.sizes.pp:
        problem = f"no {CLIP} in it ends at once on all ranks, so that clocks cannot be compared"
        raise TraceFormatError(problem, where=trace.source, fix="leave --align-clocks out")
    places = [barriers[stage] for stage in range(trace.sizes.pp)]
    ends = trace.start[places].astype(np.float64) + trace.duration[places]
    late = np.median(ends - np.median(ends, axis=(0, 1)), axis=2)  # [pp, dp], seconds
    start = trace.start - late[[operation.stage for operation in trace.operations]][:, :, None]
    return replace(trace, start=(start - start.min(axis=(0, 1))).astype(trace.start.dtype))


def timelines_of(replayed: Replayed, steps: Sequence[int] | None = None) -> Timelines:
    """Return every operation's times in the traced, the simulated and the ideal run of some steps.

    :param steps: places of the steps in ``Analysis.steps``; ``None`` = all, which takes six arrays of the trace's size.
    """
    trace, durations = replayed.trace, replayed.durations
    chosen = list(range(len(trace.steps)) if steps is None else steps)
    start, duration = trace.start[:, :, chosen], trace.duration[:, :, chosen]

    def timeline(start: Array, end: Array) -> Timeline:
        return Timeline(trace.operations, tuple(trace.steps[i] for i in chosen), start, end)

    def replayed_with(seconds: DurationOf) -> Timeline:
        begin, end = np.empty(start.shape), np.empty(start.shape)
        for event in replay(replayed.graph, seconds):
            begin[event.operation], end[event.operation] = event.start, event.end
        return timeline(begin, end)

    return Timelines(
        traced=timeline(start.astype(np.float64), (start + duration).astype(np.float64)),
        simulated=replayed_with(lambda i: durations.traced[i][:, chosen]),
        ideal=replayed_with(durations.ideal.__getitem__),
    )


# Threads of a process, from the top
STREAMS: tuple[Stream, ...] = ("compute", "dp-comm", "forward-recv", "forward-send", "backward-recv", "backward-send")
# Events that Perfetto still opens with ease, about 90 MB; of a larger trace the slowest steps are written
MOST_EVENTS = 600_000


def steps_to_export(analysis: Analysis, operations: int, *, most_events: int = MOST_EVENTS) -> list[int]:
    """Return places of the steps to write: all, or as many of the slowest as fit, by how many operations one has."""
    room = max(1, most_events // max(3 * operations * analysis.dp, 1))
    return sorted(int(place) for place in np.argsort(-analysis.step_slowdown, kind="stable")[:room])


def chrome_trace(timelines: Timelines, ranks: Sequence[int], *, packed: bool = False) -> bytes:
    """Return the file with all steps of the timelines, gzip if ``packed``, which Perfetto opens as well."""
    text = ",\n".join(_events(timelines, ranks))
    document = f'{{"displayTimeUnit": "ms", "traceEvents": [\n{text}\n]}}\n'.encode()
    return gzip.compress(document, mtime=0) if packed else document


def _events(timelines: Timelines, ranks: Sequence[int]) -> Iterator[str]:
    versions = timelines._asdict()
    length = np.max([timeline.end.max(axis=(0, 1)) for timeline in versions.values()], axis=0)
    # 2 % of a step keep it apart from the next
    offsets = np.concatenate([[0.0], np.cumsum(1.02 * length)[:-1]])
    operations = timelines.traced.operations
    stages = sorted({operation.stage for operation in operations})
    workers = [(dp, stage) for dp in range(len(ranks)) for stage in stages]
    processes = [(*worker, version) for worker in workers for version in versions]
    numbers = {process: number for number, process in enumerate(processes, 1)}
    for (dp, stage, version), number in numbers.items():
        yield _metadata(number, "process_name", {"name": f"dp {ranks[dp]} stage {stage}, {version}"})
        yield _metadata(number, "process_sort_index", {"sort_index": number})
        for thread, stream in enumerate(STREAMS, 1):
            yield _metadata(number, "thread_name", {"name": stream}, thread)
            yield _metadata(number, "thread_sort_index", {"sort_index": thread}, thread)
    labels = []  # name and arguments of each operation, up to where the step follows
    for operation in operations:
        name = operation.optype + (f" {operation.microbatch}" if operation.microbatch >= 0 else "")
        arguments = json.dumps({"optype": operation.optype, "mb": operation.microbatch, "chunk": operation.chunk})
        labels.append(f'"name": {json.dumps(name)}, "args": {arguments[:-1]}, ')
    queues = grouped(((operation.stage, operation.stream), place) for place, operation in enumerate(operations))
    for version, timeline in versions.items():
        for (stage, stream), members in queues.items():
            thread = STREAMS.index(stream) + 1
            for dp in range(len(ranks)):
                head = f'{{"ph": "X", "pid": {numbers[dp, stage, version]}, "tid": {thread}, "cat": "{version}", '
                for place, offset in enumerate(offsets):
                    start, end = timeline.start[members, dp, place], timeline.end[members, dp, place]
                    # times of a trace are rounded, so that operations of a stream seem to overlap: they are cut
                    order = np.argsort(start, kind="stable")
                    end[order[:-1]] = np.minimum(end[order[:-1]], start[order[1:]])
                    begin, took = (start + offset) * 1e6, np.maximum(end - start, 0.0) * 1e6
                    tail = f'"step": {timeline.steps[place]}}}}}'
                    for member, ts, dur in zip(members, begin.tolist(), took.tolist(), strict=True):
                        yield f'{head}"ts": {ts:.3f}, "dur": {dur:.3f}, {labels[member]}{tail}'


def _metadata(process: int, name: str, arguments: dict[str, object], thread: int | None = None) -> str:
    event: dict[str, object] = {"ph": "M", "pid": process, "name": name, "args": arguments}
    return json.dumps(event if thread is None else event | {"tid": thread})
