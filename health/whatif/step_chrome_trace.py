"""Steps as a Chrome trace, for Perfetto: as traced, replayed, and replayed with ideal durations.

A process is one worker in one of the three, a thread one of its streams; the three stand together, worker by worker.
Each step starts at the same moment in all three, so that what stragglers cost can be seen as the gap before the next.
Format: "Trace Event Format", complete events (``"ph": "X"``), times in microseconds.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from health.whatif.analysis_result import Analysis, Floats, Operation, Stream, Timelines

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
    labels = [_label(operation) for operation in operations]
    queues: dict[tuple[int, Stream], list[int]] = defaultdict(list)
    for place, operation in enumerate(operations):
        queues[operation.stage, operation.stream].append(place)
    for version, timeline in versions.items():
        for (stage, stream), members in queues.items():
            thread = STREAMS.index(stream) + 1
            for dp in range(len(ranks)):
                head = f'{{"ph": "X", "pid": {numbers[dp, stage, version]}, "tid": {thread}, "cat": "{version}", '
                for place, offset in enumerate(offsets):
                    start = timeline.start[members, dp, place]
                    end = _disjoint(start, timeline.end[members, dp, place])
                    begin, took = (start + offset) * 1e6, np.maximum(end - start, 0.0) * 1e6
                    tail = f'"step": {timeline.steps[place]}}}}}'
                    for member, ts, dur in zip(members, begin.tolist(), took.tolist(), strict=True):
                        yield f'{head}"ts": {ts:.3f}, "dur": {dur:.3f}, {labels[member]}{tail}'


def _metadata(process: int, name: str, arguments: dict[str, object], thread: int | None = None) -> str:
    event: dict[str, object] = {"ph": "M", "pid": process, "name": name, "args": arguments}
    return json.dumps(event if thread is None else event | {"tid": thread})


def _label(operation: Operation) -> str:
    """Return name and arguments of an operation, up to where the step follows."""
    number = f" {operation.microbatch}" if operation.microbatch >= 0 else ""
    arguments = json.dumps({"optype": operation.optype, "mb": operation.microbatch, "chunk": operation.chunk})
    return f'"name": {json.dumps(operation.optype + number)}, "args": {arguments[:-1]}, '


def _disjoint(start: Floats, end: Floats) -> Floats:
    """Return the ends in one stream, cut at the next start: events of a thread may not overlap in part.

    Operations of a stream do not overlap; times of a trace are rounded, and then they seem to.
    """
    order = np.argsort(start, kind="stable")
    cut = end.copy()
    cut[order[:-1]] = np.minimum(end[order[:-1]], start[order[1:]])
    return cut
