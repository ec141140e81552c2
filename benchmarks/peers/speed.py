"""How long it takes to judge a minute of metrics of 1,500 machines, and a whole call of 15 minutes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.peers.streams import healthy_job, recording
from benchmarks.report import promises, section, table
from health.peers.comparison import ComparisonSettings, detect
from health.peers.streams import MetricRecording, Samples

MINUTE = 60
LIMIT = 3.6  # Seconds: the mean that the paper reports for a call, data fetched as well, on 128 cores


CALL = 900  # Seconds of data that a call of Minder looks at


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each repetition of one measurement."""

    name: str
    length: int
    seconds: Sequence[float]


def measure(machines: int, length: int, *, runs: int) -> list[Timing]:
    """All seven metrics judged: of healthy machines, and where one is broken throughout."""
    rng = np.random.default_rng(1)
    healthy = recording(healthy_job(machines, rng, seconds=length), rng, source="healthy")
    broken = replace(healthy, metrics={name: _one_off(samples) for name, samples in healthy.metrics.items()})
    given = {"healthy": healthy, "one broken": broken}
    return [Timing(name, length, [_seconds(one) for _ in range(runs)]) for name, one in given.items()]


def report(machines: int) -> str:
    """A minute against the promise, and a whole call for information."""
    minute = measure(machines, MINUTE, runs=5)
    call = measure(machines, CALL, runs=1)
    rows = [
        (one.name, f"{one.length} s", f"{median(one.seconds):.2f}", f"{max(one.seconds):.2f}")
        for one in [*minute, *call]
    ]
    slowest = max(max(one.seconds) for one in minute)
    return section(
        f"{machines:,} machines, seven metrics at one sample a second",
        table(["machines", "of data", "median s", "slowest s"], rows),
        promises((f"a minute is judged in below {LIMIT:g} s", f"{slowest:.2f} s", slowest < LIMIT)),
    )


def _one_off(samples: Samples) -> Samples:
    """The same, machine 7 far away from all others."""
    return replace(samples, value=np.where(samples.machine == 7, 0.2 * samples.value + 1.0, samples.value))


def _seconds(given: MetricRecording) -> float:
    begin = perf_counter()
    for _ in detect(given, ComparisonSettings()):
        pass
    return perf_counter() - begin
