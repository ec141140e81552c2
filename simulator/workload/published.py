"""What is published of the workload of an LLM cluster, which the generator is fitted to; and the same of any trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.job_record import JobRecord, Status

STATUSES: tuple[Status, ...] = ("completed", "cancelled", "failed")


@dataclass(frozen=True, slots=True)
class Published:
    """Figures of one cluster, of its jobs with GPUs."""

    name: str
    jobs: int
    days: float  # length of the trace
    gpus_mean: float
    gpus_median: float
    gpus_max: int
    seconds_mean: float  # of run times, as the two below
    seconds_median: float
    seconds_max: float
    job_share: Mapping[Status, float]  # of jobs, by how they ended; sums to 1
    gpu_time_share: Mapping[Status, float]  # of GPU time, by how its job ended; sums to 1
    gpu_time_mean: float  # GPU seconds of a job
    evaluation_share: tuple[float, float]  # evaluation jobs among all, and their share of GPU time
    pretraining_share: tuple[float, float]  # the same of pretraining


KALOS = Published(
    name="kalos",
    jobs=19_907,
    days=184.0,
    gpus_mean=26.77,
    gpus_median=1.0,
    gpus_max=1_024,
    seconds_mean=1_259.689,
    seconds_median=124.0,
    seconds_max=625_740.0,
    job_share={"completed": 0.541, "cancelled": 0.062, "failed": 0.397},
    gpu_time_share={"completed": 0.313, "cancelled": 0.607, "failed": 0.080},
    gpu_time_mean=(1_667_685_146 + 3_239_202_064 + 426_292_851) / 19_907,
    evaluation_share=(0.929, 0.008),
    pretraining_share=(0.032, 0.940),
)
"""Kalos, a cluster of 2,416 A100 GPUs, March to August 2023.

Source: cluster_summary.csv of github.com/InternLM/AcmeTrace (CC-BY-4.0), the columns of jobs with GPUs; the last two
from section 3.2 of Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024.
"""


def summary(records: Sequence[JobRecord], *, name: str = "generated") -> Published:
    """Return figures of jobs with GPUs; shares by kind are those of the queues ``evaluation`` and ``pretraining``."""
    gpus = np.array([record.gpus for record in records])
    seconds = np.array([record.duration for record in records])
    submit = np.array([record.submit for record in records])
    gpu_time = gpus * seconds
    status, queue = (np.array([getattr(record, name) for record in records]) for name in ("status", "queue"))

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
