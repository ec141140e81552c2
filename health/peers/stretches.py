"""What is seen in one metric: machines that stood out for a while, and which of them are not at fault."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from health.peers.metrics import is_step_time, is_work, metric_of, tells_idleness
from health.peers.streams import MetricRecording, Samples
from topology.json_record import JsonRecord

FEW = 2  # So many machines may stand out in one metric of any job, ...
FEW_SHARE = 0.05  # ... and of a large one this share of them: a job of 1,500 does not lose more than some tens at once
Doubt = Literal["busier", "idle-peers", "many"]
"""Why a machine that stands out is not at fault, or cannot be told to be: it works more than its peers, these do not
work at all, or too many stand out.
"""


@dataclass(frozen=True, slots=True)
class Stretch(JsonRecord):
    """A machine that stood out for a while in one metric."""

    machine: str
    """Name of the machine."""
    start: float
    """Beginning of its first window, seconds on the clock of the recording."""
    end: float
    """End of its last window."""
    alert: float | None
    """When it had lasted long enough; null = it never had."""
    score: float
    """How many times farther it was from its peers than they were from each other, median over its windows."""
    own: float
    """Its median value meanwhile, in the metric's unit."""
    peers: float
    """Its peers' median value meanwhile."""
    lasting: bool
    """Whether it went on to the end of the recording."""
    late: float | None
    """Seconds by which it follows its peers, where that alone makes it stand out, which is no alert."""
    doubt: Doubt | None
    """Why it is no alert although it lasted long enough: it works more than its peers, which is no fault; its peers
    idle; or so many machines stand out that they are no peers. null = it is one, or did not last."""


@dataclass(frozen=True, slots=True)
class Examined(JsonRecord):
    """What was seen in one metric."""

    metric: str
    """Name of the metric."""
    machines: int
    """Machines with samples of it."""
    step: float
    """Seconds between samples."""
    needed: float
    """Seconds for which a machine has to stand out."""
    stretches: tuple[Stretch, ...]
    """Machines that stood out, the longest first; in JSON at most five."""
    silent: tuple[str, ...]
    """Machines that had fallen silent by the end; they are not judged on it."""

    @property
    def alerts(self) -> list[Stretch]:
        """Stretches that lasted long enough, in order of time."""
        return sorted((one for one in self.stretches if one.alert is not None), key=lambda one: one.start)

    def doubtful(self, doubt: Doubt) -> list[str]:
        """Return machines that raise no alert for this reason, in order of their names."""
        return sorted({one.machine for one in self.stretches if one.doubt == doubt})


def doubted(examined: Examined, recording: MetricRecording) -> Examined:
    """Return the same, with alerts that are to be doubted taken back.

    The comparison supposes that healthy machines do the same.  Where it does not hold there are no peers, and a verdict
    would accuse a machine that works.  Step times are left alone: they are measured where a machine works, and count
    only where it is slower.
    """
    if is_step_time(examined.metric) or not examined.alerts:
        return examined
    doubts = {one: _doubt(one, examined.metric, recording) for one in examined.alerts}
    if len({one.machine for one, doubt in doubts.items() if doubt is None}) > max(FEW, FEW_SHARE * examined.machines):
        doubts = {one: doubt or "many" for one, doubt in doubts.items()}
    judged = [
        replace(one, alert=None, doubt=doubt) if (doubt := doubts.get(one)) is not None else one
        for one in examined.stretches
    ]
    return replace(examined, stretches=tuple(judged))


def _doubt(one: Stretch, metric: str, recording: MetricRecording) -> Doubt | None:
    if one.own > one.peers and is_work(metric):
        return "busier"
    telling = [samples for name, samples in recording.metrics.items() if tells_idleness(name) or name == metric]
    return "idle-peers" if any(_idle(samples, one) for samples in telling) else None


def _idle(samples: Samples, one: Stretch) -> bool:
    """Return whether the other machines do not work by this metric while one stands out."""
    level = metric_of(samples.metric).idle
    if level is None:
        return False
    own = samples.machines.index(one.machine) if one.machine in samples.machines else -1
    value = samples.value[(samples.time >= one.start) & (samples.time <= one.end) & (samples.machine != own)]
    return len(value) > 0 and float(np.median(value)) <= level
