"""JobRecord: one job of a trace, whatever format it came in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler.job import Parallelism

Status = Literal["completed", "failed", "cancelled", "unknown"]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as it was submitted, and how long it ran.

    Times are seconds on the trace's own clock: what it says if it has numbers, else seconds since 1970 UTC.
    """

    job_id: str  # unique in a trace
    submit: float  # when it was submitted
    duration: float  # how long it runs on the nodes it needs, above 0 seconds
    gpus: float  # GPUs in all; below 1 for a share of one, in hundredths
    nodes: int | None = None  # nodes that these GPUs lie on, the same number on each; None = the trace does not say
    user: str = ""  # who submitted it; empty where unknown, as the next two
    queue: str = ""  # virtual cluster, partition or queue
    group: str = ""  # department or project of the user
    cpus: float | None = None  # CPU cores in all; None = unknown, as below
    memory: float | None = None  # bytes in all
    status: Status = "unknown"  # how it ended
    priority: int = 0  # higher first
    preemptible: bool = False  # whether it may be stopped and queued again
    announced: float | None = None  # when its arrival was announced, at or before submit; None = it was not
    estimate: float | None = None  # seconds that its user said it would take
    parallelism: Parallelism | None = None  # how a training job is divided; None = data parallel over its nodes
    model: str = ""  # name of the model in the job's own terms, for its cost of communication
