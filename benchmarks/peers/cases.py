"""Recordings that detectors are judged on: a job, and a fault in it or none."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.faults import KINDS, Fault, draw_fault, inject
from benchmarks.peers.streams import healthy_job, recording
from health.peers.streams import MetricRecording

SIZES_OF_JOBS = (4, 8, 16, 32, 64, 128)  # Machines of a job; the paper's faults are from 4 to 1,500


@dataclass(frozen=True, slots=True)
class Case:
    """A recording and what is wrong in it."""

    recording: MetricRecording
    fault: Fault | None  # `None` = nothing is


def cases(count: int, seed: int, *, healthy: bool) -> Iterator[Case]:
    """Recordings from a seed, with one fault each or none."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, healthy])
        job = healthy_job(int(rng.choice(SIZES_OF_JOBS)), rng)
        fault = None
        if not healthy:
            kind, fault = draw_fault(job, rng, kind=KINDS[k] if k < len(KINDS) else None)
            fault = inject(job, kind, fault, rng)
        yield Case(recording(job, rng, source=f"case {k}"), fault)
