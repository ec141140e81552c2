"""Fields of a JobRecord from the cells of a row: numbers, and what no job can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from sys import intern
from typing import Any

from ground.rows import BadRow
from scheduler.job import Parallelism
from simulator.job_record import JobRecord, Status

MAX_WHOLE = 2**53  # Largest whole number: beyond it a float has not every one, and Parquet ends soon after
MAX_GPUS = 10_000_000  # GPUs of the largest job: a hundred times the largest cluster
_WORDS: dict[Status, str] = {
    "completed": "completed terminated succeeded pass",
    "failed": "failed timeout node_fail out_of_memory boot_fail deadline",
    "cancelled": "cancelled canceled killed preempted revoked",
}
STATUS: dict[str, Status] = {word: ended for ended, words in _WORDS.items() for word in words.split()}
"""Words of the public traces.  Time-outs and lost nodes count as failed, as the Acme and Helios papers count them."""


def text(cells: Mapping[str, Any], column: str) -> str:
    """Return the text of a cell; empty where there is none.

    :raises BadRow: it is a list or a mapping, as JSON may hold.
    """
    value = cells.get(column)
    if isinstance(value, list | dict):
        raise BadRow("not text", f"{column} is {str(value)[:60]}", fix=f"give {column} as text or a number")
    return "" if value is None else str(value)


def number(cell: Any, column: str) -> float:
    """Return a finite number.

    :raises BadRow: empty, not a number, true or false, NaN or infinite.
    """
    try:
        value = float(str(cell) if isinstance(cell, bool) else cell)  # "True" is none
    except OverflowError:
        value = math.inf  # a whole number of more than 308 digits, as JSON may hold
    except (TypeError, ValueError):
        what = f"is {str(cell)[:60]!r}, not a number" if cell not in ("", None) else "is empty"
        raise BadRow("not a number", f"{column} {what}", fix=f"give {column} as a number") from None
    if not math.isfinite(value):
        raise BadRow("not a number", f"{column} is {value}", fix=f"give {column} as a finite number")
    return value


def optional(cell: Any, column: str) -> float | None:
    """Return a finite number as :func:`number` does, or ``None`` for an empty cell."""
    return None if cell in ("", None) else number(cell, column)


def whole(cell: Any, column: str) -> int:
    """Return a whole number, as :func:`number` does; ``8.0`` is one.

    :raises BadRow: beyond :data:`MAX_WHOLE`, too.
    """
    value = number(cell, column)
    if abs(value) > MAX_WHOLE:
        raise BadRow(
            "not a whole number", f"{column} is {value:g}", fix=f"give {column} as a number up to {MAX_WHOLE:,}"
        )
    if value != int(value):
        raise BadRow("not a whole number", f"{column} is {value:g}", fix=f"give {column} as a whole number")
    return int(value)


def status(cell: Any) -> Status:
    """Return how a job ended; ``unknown`` for words of no public trace."""
    return STATUS.get(str(cell).strip().lower(), "unknown")


def record(
    *,
    job_id: str,
    submit: float,
    duration: float,
    gpus: float,
    nodes: int | None = None,
    user: str = "",
    queue: str = "",
    group: str = "",
    waited: float | None = None,
    **others: Any,
) -> JobRecord:
    """Return a JobRecord that can have happened, but for how long it ran: ``trace_loading`` refuses what is too long.

    Nodes that do not hold equally many GPUs are no shape of a gang: their number is left open then.  A wait below 0 is
    not known.

    :raises BadRow: no id, no GPUs, no duration, or a number that no job has.
    """
    _check_id(job_id)
    gpus = checked_gpus(job_id, gpus)
    _check_duration(job_id, duration)
    if nodes is not None and not 1 <= nodes <= max(1.0, gpus):
        raise BadRow(
            "impossible nodes",
            f"job {job_id} has {gpus:g} GPUs on {nodes} nodes",
            fix="give at least one GPU a node, or leave the number of nodes open",
        )
    if nodes is not None and nodes > 1 and gpus % nodes:
        nodes = None
    parallelism = others.get("parallelism")
    if isinstance(parallelism, Parallelism) and parallelism.gpus != gpus:
        raise BadRow(
            "parallelism",
            f"job {job_id} has {gpus:g} GPUs, its parallelism {parallelism.gpus}",
            fix="make tp * cp * dp * pp equal to gpus",
        )
    return JobRecord(
        job_id=job_id,
        submit=submit,
        duration=duration,
        gpus=gpus,
        nodes=nodes,
        user=intern(user),
        queue=intern(queue),
        group=intern(group),
        waited=waited if waited is not None and waited >= 0 else None,
        **others,
    )


def _check_id(job_id: str) -> None:
    if not job_id:
        raise BadRow("no id", "the job has no id", fix="give every job an id of its own")
    if not job_id.isprintable():
        wrong = f"the id of the job has control characters: {job_id[:60]!r}"
        raise BadRow("not text", wrong, fix="give it a printable id")


def _check_duration(job_id: str, duration: float) -> None:
    if not duration > 0:
        reason = "negative duration" if duration < 0 else "zero duration"
        raise BadRow(reason, f"job {job_id} ran for {duration:g} seconds", fix="give how long it ran")


def summed_shares(shares: float, instances: float) -> float:
    """Return the GPUs of instances that hold so many in all: a share of one GPU only where there is a single instance,
    else whole GPUs, rounded up.
    """
    single = instances <= 1 and shares < 1
    return shares if single or not 0 < shares <= MAX_GPUS else math.ceil(shares - 1e-9)


def checked_gpus(job_id: str, gpus: float) -> float:
    """Return a whole number of GPUs, or a share of one in hundredths, rounded up.

    :raises BadRow: none, less than none, a fraction above 1, or more than :data:`MAX_GPUS`.
    """
    if gpus == 0:
        raise BadRow("no GPUs", f"job {job_id} has no GPUs", fix="leave out jobs that need only CPUs")
    if gpus < 0 or gpus > MAX_GPUS:
        raise BadRow("impossible GPUs", f"job {job_id} has {gpus:g} GPUs", fix="give the number of GPUs it needs")
    if gpus < 1:
        return math.ceil(gpus * 100 - 1e-9) / 100
    if gpus != int(gpus):
        raise BadRow(
            "impossible GPUs",
            f"job {job_id} has {gpus:g} GPUs",
            fix="give a whole number, or a share of one GPU below 1",
        )
    return float(gpus)
