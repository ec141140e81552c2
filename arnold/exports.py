"""A replay for other programs: tables of jobs and of time, and a Chrome trace for Perfetto.

Tables have a row per job or per bucket of time: CSV, Parquet or JSON lines by the suffix of the file.  In the trace a
process is a domain of the closest level, a thread a lane of one of its nodes: jobs that share a node stand in lanes
below each other.  Where GPUs were only counted there is one process with as many lanes as jobs ran at once.  Counters
show queue and GPUs in use.  Format: "Trace Event Format", complete events (``"ph": "X"``), times in microseconds.
"""

import csv
import gzip
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import isfinite, isnan
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ground.errors import InvalidInput
from simulator.history import ENDED, FAILURE, RunHistory
from simulator.results import TimeSeries
from simulator.sim_job import SimJob
from simulator.traces.readers.own_tables import COLUMNS, asking_cells

SUFFIXES = (".csv", ".parquet", ".jsonl", ".ndjson")  # Of files of tables, which say their format
Row = Mapping[str, Any]  # Values by column; None = there is none.  All rows of a table have the same columns
JOB_COLUMNS: Mapping[str, type] = {
    "job_id": str,
    "submit_time": float,
    "start_time": float,
    "end_time": float,
    "gpus": float,
    "nodes": int,
    "wait_seconds": float,
    "jct_seconds": float,
    "duration_seconds": float,
    "restarts": int,
    "startup_seconds": float,
    "dp_spread": int,
    "pp_spread": int,
    "priority": int,
    "user": str,
    "queue": str,
    "status": str,
    "placed_on": str,
    **COLUMNS,
}
"""Of ``--jobs-out``: one row per job; times are seconds on the trace's own clock.  Last what it asks."""


def job_rows(
    jobs: Sequence[SimJob], names: Sequence[str], startup: Mapping[int, float] = MappingProxyType({})
) -> Iterator[Row]:
    """Yield the jobs in order of submission; what did not happen is ``None``.

    :param names: of the nodes, by number; empty where GPUs were only counted.
    :param startup: seconds that all starts of a job took, by its key; of others that is not known.
    """
    for job in jobs:
        record, start, end = job.record, _finite(job.first_start), _finite(job.end)
        places = job.places if names else ()
        asks = asking_cells(record)
        yield {
            "job_id": record.job_id,
            "submit_time": job.submitted,
            "start_time": start,
            "end_time": end,
            "gpus": record.gpus,
            "nodes": (len(places) or None) if names else record.nodes,
            "wait_seconds": None if start is None else start - job.submitted,
            "jct_seconds": None if end is None else end - job.submitted,
            "duration_seconds": record.duration,
            "restarts": len(job.runs),
            "startup_seconds": startup.get(job.key),
            "dp_spread": job.spread[0] if job.spread else None,
            "pp_spread": job.spread[1] if job.spread else None,
            "priority": job.priority,
            "user": record.user,
            "queue": record.queue,
            "status": record.status,
            "placed_on": " ".join(names[i] for i in places),
            **{name: asks.get(name) for name in COLUMNS},
        }


def _finite(time: float) -> float | None:
    return time if isfinite(time) else None


SERIES_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("time", "seconds", "gpus_held", "gpus_away", "nodes_slow", "allocation", "utilization"), float),
    **dict.fromkeys(("jobs_running", "jobs_waiting", "gpus_waiting", "fragmentation", "dp_spread"), float),
    **dict.fromkeys(("throughput_lost", "ettr", "ettr_hour", "ettr_so_far"), float),
    **dict.fromkeys(("jobs_submitted", "jobs_ended", "failures", "preemptions"), int),
}
"""Of ``--series-out``: one row per bucket; ``time`` is its begin on the trace's clock, the rest are means or counts."""


def series_rows(over_time: TimeSeries, origin: float) -> Iterator[Row]:
    """Yield the buckets in order; ``None`` = there was nothing of which to take a mean.

    :param origin: the first submission, on the trace's clock.
    """
    fields = {name: getattr(over_time, name).tolist() for name in list(SERIES_COLUMNS)[2:]}
    edges = over_time.edges.tolist()
    for i in range(len(edges) - 1):
        values = {
            name: None if isnan(column[i]) else SERIES_COLUMNS[name](column[i]) for name, column in fields.items()
        }
        yield {"time": origin + edges[i], "seconds": edges[i + 1] - edges[i], **values}


def check_suffix(path: str, option: str) -> None:
    """Refuse a file whose suffix says no format, before anything is computed for it.

    :param option: as the user called it.
    :raises InvalidInput: another suffix.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        fix = f"name the file with one of {', '.join(SUFFIXES)}"
        raise InvalidInput(f"{Path(path).suffix or 'no suffix'!r} says no format", where=option, fix=fix)


def table_bytes(path: str, rows: Sequence[Row], columns: Mapping[str, type]) -> bytes:
    """Return a table in the format of its file.  Same rows, same bytes.

    :param columns: names and types, in order; they hold where there is no row, too.
    :raises InvalidInput: a suffix that says no format.
    """
    check_suffix(path, path)
    suffix = Path(path).suffix.lower()
    if suffix == ".parquet":
        from ground.columns import parquet_bytes

        return parquet_bytes(rows, columns)
    if suffix == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    lines = (json.dumps({name: row[name] for name in columns}, allow_nan=False) + "\n" for row in rows)
    return "".join(lines).encode()


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
    """Yield the counters, which are process 1, then the attempts, whose processes begin with 2."""
    yield json.dumps({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "cluster"}})
    columns = (over_time.edges[:-1], over_time.jobs_waiting, over_time.gpus_held, over_time.gpus_away)
    for time, waiting, held, away in zip(*(column.tolist() for column in columns), strict=True):
        for name, value in (("jobs waiting", waiting), ("GPUs held", held), ("GPUs away", away)):
            event = {"ph": "C", "pid": 1, "ts": round(time * 1e6), "name": name, "args": {"": round(value, 3)}}
            yield json.dumps(event)
    cluster, attempts = past.cluster, past.attempts
    names: Sequence[str] = ("jobs" if cluster is None else "nodes",)
    domain = None
    if cluster is not None and cluster.levels:
        closest = cluster.levels[-1]
        names, domain = closest.domains, closest.domain_of
    for number, name in enumerate(names):
        yield from _named("process", name, number + 2, pid=number + 2)
    # lanes of each node: an attempt takes the least one that is free
    busy_lanes, free_lanes = defaultdict[int, list[tuple[float, int]]](list), defaultdict[int, list[int]](list)
    for i in chosen:
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
        kind = json.dumps(f"{attempts.gpus[i]:g} GPUs")
        tail = f'"name": {json.dumps(job.record.job_id)}, "cat": {kind}, "args": {json.dumps(arguments)}}}'
        begin, end = float(attempts.begin[i]), float(attempts.end[i])
        nodes = attempts.places[attempts.first[i] : attempts.first[i + 1]].tolist() or [0]
        for node in nodes:
            process = 2 if domain is None else int(domain[node]) + 2
            busy, free = busy_lanes[node], free_lanes[node]
            while busy and busy[0][0] <= begin:
                heappush(free, heappop(busy)[1])
            new = not free
            lane = len(busy) if new else heappop(free)
            heappush(busy, (end, lane))
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
