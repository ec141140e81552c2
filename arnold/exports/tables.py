"""Tables of a replay, a row per job or per bucket of time: CSV, Parquet or JSON lines by the suffix of the file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, isnan
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ground.errors import InvalidInput
from simulator.results import TimeSeries
from simulator.run_history import RunHistory
from simulator.sim_job import SimJob
from simulator.traces.readers.own_tables import COLUMNS, asking_cells

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
"""Of ``--jobs-out``: one row per job; times are seconds on the trace's own clock.  Last what it asks of placement."""


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

_SERIES_FIELDS = {
    "gpus_held": "held",
    "gpus_away": "away",
    "nodes_slow": "slow",
    "jobs_running": "running",
    "jobs_waiting": "waiting",
    "dp_spread": "spread",
    "throughput_lost": "lost",
    "jobs_submitted": "submitted",
    "jobs_ended": "ended",
}
"""Columns that are called otherwise than the field they come from."""


def series_rows(found: TimeSeries, origin: float) -> Iterator[Row]:
    """Yield the buckets in order; ``None`` = there was nothing of which to take a mean.

    :param origin: the first submission, on the trace's clock.
    """
    fields = {name: getattr(found, _SERIES_FIELDS.get(name, name)).tolist() for name in list(SERIES_COLUMNS)[2:]}
    edges = found.edges.tolist()
    for i in range(len(edges) - 1):
        values = {name: _number(column[i], SERIES_COLUMNS[name]) for name, column in fields.items()}
        yield {"time": origin + edges[i], "seconds": edges[i + 1] - edges[i], **values}


def _number(value: float, kind: type) -> float | int | None:
    if isnan(value):
        return None
    return int(value) if kind is int else value


def check_suffix(path: str, option: str) -> None:
    """Refuse a file whose suffix says no format, before anything is computed for it.

    :param option: as the user called it.
    :raises InvalidInput: another suffix.
    """
    if Path(path).suffix.lower() not in WRITERS:
        raise InvalidInput(
            f"{Path(path).suffix or 'no suffix'!r} says no format",
            where=option,
            fix=f"name the file with one of {', '.join(WRITERS)}",
        )


def table_bytes(path: str, rows: Sequence[Row], columns: Mapping[str, type]) -> bytes:
    """Return a table in the format of its file.  Same rows, same bytes.

    :param columns: names and types, in order; they hold where there is no row, too.
    :raises InvalidInput: a suffix that says no format.
    """
    check_suffix(path, path)
    return WRITERS[Path(path).suffix.lower()](rows, columns)


def job_table(path: str, past: RunHistory, startup: Mapping[int, float]) -> bytes:
    """Return the file of ``--jobs-out``; ``startup`` as in :func:`job_rows`."""
    names = () if past.cluster is None else past.cluster.names
    return table_bytes(path, list(job_rows(past.jobs, names, startup)), JOB_COLUMNS)


def series_table(path: str, found: TimeSeries, origin: float) -> bytes:
    """Return the file of ``--series-out``; ``origin`` is the first submission, on the trace's clock."""
    return table_bytes(path, list(series_rows(found, origin)), SERIES_COLUMNS)


def _csv(rows: Sequence[Row], columns: Mapping[str, type]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _json_lines(rows: Sequence[Row], columns: Mapping[str, type]) -> bytes:
    lines = (json.dumps({name: row[name] for name in columns}, allow_nan=False) + "\n" for row in rows)
    return "".join(lines).encode()


def _parquet(rows: Sequence[Row], columns: Mapping[str, type]) -> bytes:
    from ground.columns import parquet_bytes

    return parquet_bytes(rows, columns)


WRITERS: Mapping[str, Callable[[Sequence[Row], Mapping[str, type]], bytes]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
}
