"""One row per job: CSV, Parquet or JSON lines, by the suffix of the file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from simulator.engine.job import SimJob
from topology.errors import InvalidInput
from topology.files import write_file

Row = dict[str, Any]


def rows(jobs: Sequence[SimJob], names: Sequence[str]) -> Iterator[Row]:
    """The jobs in order of submission.

    Times are seconds on the trace's own clock; what did not happen is ``None``.

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
            "nodes": len(places) if names else record.nodes,
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


def check_suffix(path: str) -> None:
    """Refuse a file whose suffix says no format, before anything is computed for it.

    :raises InvalidInput: another suffix than those of :data:`WRITERS`.
    """
    if Path(path).suffix.lower() not in WRITERS:
        raise InvalidInput(
            f"{Path(path).suffix or 'no suffix'!r} says no format for the rows of jobs",
            where="--jobs-out",
            fix=f"name the file with one of {', '.join(WRITERS)}",
        )


def write_rows(path: str, found: Sequence[Row]) -> None:
    """Write the rows, whole or not at all.

    :raises InvalidInput: a suffix that says no format, or a place that cannot be written to.
    """
    check_suffix(path)
    write_file(path, WRITERS[Path(path).suffix.lower()](found))


def _finite(time: float) -> float | None:
    return time if isfinite(time) else None


def _csv(found: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(found[0]) if found else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue().encode()


def _json_lines(found: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in found).encode()


def _parquet(found: Sequence[Row]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(found)), buffer, compression="zstd")
    return buffer.getvalue()


WRITERS: Mapping[str, Callable[[Sequence[Row]], bytes]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
}
