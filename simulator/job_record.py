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

    :param job_id: unique in a trace.
    :param submit: when it was submitted.
    :param duration: how long it runs on the nodes it needs, above 0 seconds.
    :param gpus: GPUs in all; below 1 for a share of one, in hundredths.
    :param nodes: nodes that these GPUs lie on, the same number on each; ``None`` = the trace does not say.
    :param user: who submitted it; empty where unknown, as the next two.
    :param queue: virtual cluster, partition or queue.
    :param group: department or project of the user.
    :param cpus: CPU cores in all; ``None`` = unknown, as below.
    :param memory: bytes in all.
    :param status: how it ended.
    :param priority: higher first.
    :param preemptible: whether it may be stopped and queued again.
    :param announced: when its arrival was announced, at or before ``submit``; ``None`` = it was not.
    :param estimate: seconds that its user said it would take.
    :param parallelism: how a training job is divided; ``None`` = data parallel over its nodes.
    :param model: name of the model in the job's own terms, for its cost of communication.
    """

    job_id: str
    submit: float
    duration: float
    gpus: float
    nodes: int | None = None
    user: str = ""
    queue: str = ""
    group: str = ""
    cpus: float | None = None
    memory: float | None = None
    status: Status = "unknown"
    priority: int = 0
    preemptible: bool = False
    announced: float | None = None
    estimate: float | None = None
    parallelism: Parallelism | None = None
    model: str = ""
