"""Machines that stand out and are not at fault, or of which that cannot be told.

The comparison supposes that healthy machines do the same.  Where it does not hold there are no peers, and a verdict
would accuse whoever works:

- the machine works *more* than the others: a GPU that is busier than its peers is no broken one;
- the others do not work at all: what a machine does among idle ones is not compared with anything;
- more than a few stand out: the machines do different things.

Step times are left alone: they are measured where a machine works, and count only where it is slower.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from health.peers.metrics import idle_level, is_step_time, is_work, tells_idleness
from health.peers.streams import MetricRecording, Samples
from health.peers.stretches import Doubt, Examined, Stretch

FEW = 2
"""So many machines may stand out in one metric of any job, ..."""

FEW_SHARE = 0.05
"""... and of a large one this share of them: a job of 1,500 does not lose more than some tens at once."""


def doubted(examined: Examined, recording: MetricRecording) -> Examined:
    """Return the same, with alerts that are to be doubted taken back."""
    if is_step_time(examined.metric) or not examined.alerts:
        return examined
    judged = [
        _with(one, _doubt(one, examined.metric, recording)) if one.alert is not None else one
        for one in examined.stretches
    ]
    named = {one.machine for one in judged if one.alert is not None}
    if len(named) > max(FEW, FEW_SHARE * examined.machines):
        judged = [_with(one, "many") if one.alert is not None else one for one in judged]
    return replace(examined, stretches=tuple(judged))


def _with(one: Stretch, doubt: Doubt | None) -> Stretch:
    return one if doubt is None else replace(one, alert=None, doubt=doubt)


def _doubt(one: Stretch, metric: str, recording: MetricRecording) -> Doubt | None:
    if one.own > one.peers and is_work(metric):
        return "busier"
    telling = [samples for name, samples in recording.metrics.items() if tells_idleness(name) or name == metric]
    return "idle-peers" if any(_idle(samples, one) for samples in telling) else None


def _idle(samples: Samples, one: Stretch) -> bool:
    """Return whether the other machines do not work by this metric while one stands out."""
    level = idle_level(samples.metric)
    if level is None:
        return False
    own = samples.machines.index(one.machine) if one.machine in samples.machines else -1
    value = samples.value[(samples.time >= one.start) & (samples.time <= one.end) & (samples.machine != own)]
    return len(value) > 0 and float(np.median(value)) <= level
