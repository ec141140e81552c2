"""One row per bucket of time: ``--series-out``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan

from arnold.exports.tables import Row
from simulator.results.time_series import TimeSeries

COLUMNS: Mapping[str, type] = {
    "time": float,
    "seconds": float,
    "gpus_held": float,
    "gpus_away": float,
    "allocation": float,
    "utilization": float,
    "jobs_running": float,
    "jobs_waiting": float,
    "gpus_waiting": float,
    "fragmentation": float,
    "dp_spread": float,
    "throughput_lost": float,
    "ettr": float,
    "ettr_hour": float,
    "ettr_so_far": float,
    "jobs_submitted": int,
    "jobs_ended": int,
    "failures": int,
    "preemptions": int,
}
"""What a row says: ``time`` is the beginning of the bucket on the trace's clock, the rest are means or counts."""

_FIELDS = {
    "gpus_held": "held",
    "gpus_away": "away",
    "jobs_running": "running",
    "jobs_waiting": "waiting",
    "dp_spread": "spread",
    "throughput_lost": "lost",
    "jobs_submitted": "submitted",
    "jobs_ended": "ended",
}
"""Columns that are called otherwise than the field they come from."""


def rows(found: TimeSeries, origin: float) -> Iterator[Row]:
    """Yield the buckets in order; ``None`` = there was nothing of which to take a mean.

    :param origin: the first submission, on the trace's clock.
    """
    fields = {name: getattr(found, _FIELDS.get(name, name)).tolist() for name in list(COLUMNS)[2:]}
    edges = found.edges.tolist()
    for i in range(len(edges) - 1):
        values = {name: _plain(column[i], COLUMNS[name]) for name, column in fields.items()}
        yield {"time": origin + edges[i], "seconds": edges[i + 1] - edges[i], **values}


def _plain(value: float, kind: type) -> float | int | None:
    if isnan(value):
        return None
    return int(value) if kind is int else value
