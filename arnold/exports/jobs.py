"""One row per job: ``--jobs-out``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from arnold.exports.tables import Row
from simulator.engine.sim_job import SimJob

COLUMNS: Mapping[str, type] = {
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
    "dp_spread": int,
    "pp_spread": int,
    "priority": int,
    "user": str,
    "queue": str,
    "status": str,
    "placed_on": str,
}
"""What a row says; times are seconds on the trace's own clock."""


def rows(jobs: Sequence[SimJob], names: Sequence[str]) -> Iterator[Row]:
    """Yield the jobs in order of submission; what did not happen is ``None``.

    :param names: of the nodes, by number; empty where GPUs were only counted.
    """
    for job in jobs:
        record, start, end = job.record, _finite(job.first_start), _finite(job.end)
        places = job.places if names else ()
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
            "dp_spread": job.spread[0] if job.spread else None,
            "pp_spread": job.spread[1] if job.spread else None,
            "priority": job.priority,
            "user": record.user,
            "queue": record.queue,
            "status": record.status,
            "placed_on": " ".join(names[i] for i in places),
        }


def _finite(time: float) -> float | None:
    return time if isfinite(time) else None
