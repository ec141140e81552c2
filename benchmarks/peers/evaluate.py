"""How many faults are found, how many alarms are false, how long it takes, beside what the paper reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.peers.faults import KINDS, Fault, draw_fault, inject
from benchmarks.peers.streams import healthy_job, recording
from scheduler.health.peers.detect import Settings, Stretch, detect
from scheduler.health.peers.streams import Recording

SIZES_OF_JOBS = (4, 8, 16, 32, 64, 128)
"""Machines of a job; the paper's faults are from 4 to 1,500."""


@dataclass(frozen=True, slots=True)
class Case:
    """A recording and what is wrong in it.

    :param fault: ``None`` = nothing is.
    """

    recording: Recording
    fault: Fault | None


def cases(count: int, seed: int, *, healthy: bool) -> Iterator[Case]:
    """Recordings from a seed, with one fault each or none."""
    for k in range(count):
        rng = np.random.default_rng([seed, k, healthy])
        job = healthy_job(int(rng.choice(SIZES_OF_JOBS)), rng)
        fault = None
        if not healthy:
            kind, fault = draw_fault(job, rng, kind=KINDS[k] if k < len(KINDS) else None)
            inject(job, kind, fault, rng)
        yield Case(recording(job, rng, source=f"case {k}"), fault)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a case.

    :param alert: the first alert; ``None`` = none.
    """

    fault: Fault | None
    alert: Stretch | None

    @property
    def right(self) -> bool:
        """The alert names the machine with the fault, and after it began."""
        fault, alert = self.fault, self.alert
        return fault is not None and alert is not None and alert.machine == fault.machine and alert.end > fault.onset


Detector = Callable[[Recording], Stretch | None]


def with_settings(settings: Settings) -> Detector:
    """The first alert that these settings raise."""

    def run(given: Recording) -> Stretch | None:
        for examined in detect(given, settings):
            if examined.alerts:
                return examined.alerts[0]
        return None

    return run


def judge(given: Iterator[Case], detectors: dict[str, Detector]) -> dict[str, list[Result]]:
    """Every detector on every case; each case is made once."""
    results: dict[str, list[Result]] = {name: [] for name in detectors}
    for case in given:
        for name, detector in detectors.items():
            results[name].append(Result(case.fault, detector(case.recording)))
    return results


@dataclass(frozen=True, slots=True)
class Quality:
    """Figures over many cases.

    :param precision: right alerts among all alerts, those on healthy recordings counted.
    :param recall: faults that were found.
    :param false: alerts on healthy recordings.
    :param seconds: from the beginning of the fault to the alert, median over those found.
    """

    precision: float
    recall: float
    f1: float
    false: int
    seconds: float


def quality(results: Sequence[Result]) -> Quality:
    """Figures of one detector."""
    right = [one for one in results if one.right]
    alerts = sum(one.alert is not None for one in results)
    faults = sum(one.fault is not None for one in results)
    precision = len(right) / alerts if alerts else 0.0
    recall = len(right) / faults if faults else 0.0
    delays = [one.alert.alert - one.fault.onset for one in right if one.alert and one.fault and one.alert.alert]
    return Quality(
        precision,
        recall,
        2 * precision * recall / (precision + recall) if right else 0.0,
        sum(one.alert is not None for one in results if one.fault is None),
        median(delays) if delays else 0.0,
    )
