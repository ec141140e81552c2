"""The figures of a trace in the terms in which Acme publishes its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.job_record import JobRecord
from simulator.workload.job_kinds import STATUSES
from simulator.workload.published import Published


def summary(records: Sequence[JobRecord], *, name: str = "generated") -> Published:
    """Return figures of jobs with GPUs; shares by kind are those of the queues ``evaluation`` and ``pretraining``."""
    gpus = np.array([record.gpus for record in records])
    seconds = np.array([record.duration for record in records])
    submit = np.array([record.submit for record in records])
    gpu_time = gpus * seconds
    status = np.array([record.status for record in records])
    queue = np.array([record.queue for record in records])

    def shares(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[float, float]:
        return float(mask.mean()), float(gpu_time[mask].sum() / gpu_time.sum())

    by_status = {each: shares(status == each) for each in STATUSES}
    return Published(
        name=name,
        jobs=len(records),
        days=float(np.ptp(submit)) / 86_400,
        gpus_mean=float(gpus.mean()),
        gpus_median=float(np.median(gpus)),
        gpus_max=int(gpus.max()),
        seconds_mean=float(seconds.mean()),
        seconds_median=float(np.median(seconds)),
        seconds_max=float(seconds.max()),
        job_share={each: jobs for each, (jobs, _) in by_status.items()},
        gpu_time_share={each: time for each, (_, time) in by_status.items()},
        gpu_time_mean=float(gpu_time.mean()),
        evaluation_share=shares(queue == "evaluation"),
        pretraining_share=shares(queue == "pretraining"),
    )
