"""What is asked of the generator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulator.workload.published import KALOS

KindName = Literal["evaluation", "other", "pretraining"]
KINDS: tuple[KindName, ...] = ("evaluation", "other", "pretraining")


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload to be made.

    :param days: for how long jobs are submitted.
    :param per_day: jobs submitted a day, on average; by default as many as in Kalos.
    :param gpus: GPUs of the cluster, for ``load``.
    :param load: GPU time asked for, as a share of what the cluster has; it sets the rate in place of ``per_day``.
    :param seed: same seed, same jobs.
    :param rhythm: how much the rate of submission swings over the day, 0 to below 1.
    :param max_gpus: larger jobs are not made; the smaller sizes of their kind take their place.
    :param kinds: the kinds of jobs that are made.
    :param preemptible: the kinds whose jobs may be stopped and queued again.
    :param announce_gpus: jobs from this size on are announced before they are submitted; ``None`` = none is.
    :param announce_seconds: how long before.
    """

    days: float = KALOS.days
    per_day: float = KALOS.jobs / KALOS.days
    gpus: int | None = None
    load: float | None = None
    seed: int = 0
    rhythm: float = 0.0
    max_gpus: int = KALOS.gpus_max
    kinds: tuple[KindName, ...] = KINDS
    preemptible: tuple[KindName, ...] = ()
    announce_gpus: int | None = None
    announce_seconds: float = 4 * 3600.0
