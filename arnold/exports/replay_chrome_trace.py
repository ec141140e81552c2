"""Jobs on nodes as a Chrome trace, for Perfetto.

A process is a domain of the closest level, a thread a lane of one of its nodes: jobs that share a node stand in lanes
below each other.  Where GPUs were only counted there is one process with as many lanes as jobs ran at once.  Counters
show queue and GPUs in use.  Format: "Trace Event Format", complete events (``"ph": "X"``), times in microseconds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import numpy as np

from simulator.results import TimeSeries
from simulator.run_history import ENDED, FAILURE, RunHistory

MOST_EVENTS = 600_000  # Events that Perfetto still opens with ease; of a longer run the largest attempts are written
_END = {ENDED: "ended", FAILURE: "cut short by a failure"}
_LANES = 1_000  # Lanes that a node has numbers for


def attempts_to_export(past: RunHistory, *, most_events: int = MOST_EVENTS) -> list[int]:
    """Return attempts to write, by begin: all, or as many of those with most GPU-seconds as fit."""
    attempts = past.attempts
    size = np.maximum(np.diff(attempts.first), 1)
    worth = attempts.gpus * (attempts.end - attempts.begin)
    order = np.argsort(-worth, kind="stable")
    fitting = order[np.cumsum(size[order]) <= most_events]
    return sorted(fitting.tolist(), key=lambda i: (attempts.begin[i], attempts.job[i]))


def chrome_trace(past: RunHistory, over_time: TimeSeries, chosen: Sequence[int], *, packed: bool = False) -> bytes:
    """Return the file.  Same input, same bytes.

    :param chosen: attempts, by begin.
    :param packed: gzip, which Perfetto opens as well.
    """
    text = ",\n".join(_events(past, over_time, chosen))
    document = f'{{"displayTimeUnit": "ms", "traceEvents": [\n{text}\n]}}\n'.encode()
    return gzip.compress(document, mtime=0) if packed else document


def _events(past: RunHistory, over_time: TimeSeries, chosen: Sequence[int]) -> Iterator[str]:
    yield from _counters(over_time)
    cluster, attempts = past.cluster, past.attempts
    names: Sequence[str] = ("jobs" if cluster is None else "nodes",)
    domain = None
    if cluster is not None and cluster.levels:
        closest = cluster.levels[-1]
        names, domain = closest.domains, closest.domain_of
    for number, name in enumerate(names):
        yield from _named("process", name, number + 2, pid=number + 2)
    lanes = _Lanes()  # process 1 is that of the counters, 2 the first domain
    for i in chosen:
        tail = _tail(past, i)
        begin, end = float(attempts.begin[i]), float(attempts.end[i])
        nodes = attempts.places[attempts.first[i] : attempts.first[i + 1]].tolist() or [0]
        for node in nodes:
            process = 2 if domain is None else int(domain[node]) + 2
            lane, new = lanes.take(node, begin, end)
            thread = node * _LANES + lane if cluster is not None else lane
            if new:
                label = cluster.names[node] if cluster is not None else f"lane {lane}"
                yield from _named("thread", label, thread, pid=process, tid=thread)
            yield (
                f'{{"ph": "X", "pid": {process}, "tid": {thread}, "ts": {begin * 1e6:.0f}, '
                f'"dur": {max(end * 1e6 - begin * 1e6, 1):.0f}, {tail}'
            )


def _named(kind: str, name: str, order: int, **ids: int) -> Iterator[str]:
    """Yield the name of a process or thread, and its place among the others."""
    for what, value in (("name", name), ("sort_index", order)):
        yield json.dumps({"ph": "M", **ids, "name": f"{kind}_{what}", "args": {what: value}})


def _counters(over_time: TimeSeries) -> Iterator[str]:
    yield json.dumps({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "cluster"}})
    columns = (over_time.edges[:-1], over_time.waiting, over_time.held, over_time.away)
    for time, waiting, held, away in zip(*(column.tolist() for column in columns), strict=True):
        for name, value in (("jobs waiting", waiting), ("GPUs held", held), ("GPUs away", away)):
            event = {"ph": "C", "pid": 1, "ts": round(time * 1e6), "name": name, "args": {"": round(value, 3)}}
            yield json.dumps(event)


def _tail(past: RunHistory, i: int) -> str:
    """Return name and arguments of an attempt, to the end of its event."""
    attempts = past.attempts
    job = past.jobs[attempts.job[i]]
    arguments: dict[str, object] = {
        "gpus": float(attempts.gpus[i]),
        "waited": round(job.first_start - job.submitted, 3),
        "how": _END.get(int(attempts.why[i]), "preempted"),
    }
    if attempts.dp[i]:
        arguments |= {"dp_spread": int(attempts.dp[i]), "pp_spread": int(attempts.pp[i])}
    if job.record.user:
        arguments["user"] = job.record.user
    kind = f"{attempts.gpus[i]:g} GPUs"
    return f'"name": {json.dumps(job.record.job_id)}, "cat": {json.dumps(kind)}, "args": {json.dumps(arguments)}}}'


class _Lanes:
    """Lanes of nodes: an attempt takes the least one that is free."""

    def __init__(self) -> None:
        self._busy: dict[int, list[tuple[float, int]]] = {}
        self._free: dict[int, list[int]] = {}
        self._made: dict[int, int] = {}

    def take(self, node: int, begin: float, end: float) -> tuple[int, bool]:
        """Return a lane of a node, and whether it is new; asked by begin."""
        busy, free = self._busy.setdefault(node, []), self._free.setdefault(node, [])
        while busy and busy[0][0] <= begin:
            heappush(free, heappop(busy)[1])
        new = not free
        if new:
            self._made[node] = self._made.get(node, 0) + 1
        lane = self._made[node] - 1 if new else heappop(free)
        heappush(busy, (end, lane))
        return lane, new
