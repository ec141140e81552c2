"""Alerts that are to be doubted: where healthy machines do not do the same, those that work would be accused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from health.peers.distance import default_threshold, few
from health.peers.metrics import idle_level, is_step_time, is_work, tells_idleness
from health.peers.peers_verdict import Doubt, Examined, Stretch, is_busier_cpu
from health.peers.streams import MetricRecording, Samples

NEW_SHARE = 0.5  # From this part of its distance on, what a machine differs by is new, and not its role


def new_beside(past: tuple[float, float] | None, *, own: float, peers: float) -> bool:
    """Return whether at least :data:`NEW_SHARE` of what a machine differs by is new; without a past it is not.

    What is not new is that it stands to its peers as it stood before, whatever both did meanwhile.

    :param past: what it and its peers had before; ``None`` = not known.
    """
    if past is None:
        return False
    before, peers_before = past
    usual = before * peers / peers_before if peers_before > 0.0 else before
    return abs(own - usual) >= NEW_SHARE * abs(own - peers)


def doubted(
    examined: Examined,
    recording: MetricRecording,
    *,
    threshold: float | None = None,
    changed: Collection[str] = (),
) -> Examined:
    """Return the same, with alerts that are to be doubted taken back.

    Where healthy machines do not do the same, there are no peers, and a verdict would accuse a machine that works.
    Step times are left alone: they are measured where a machine works, and count only where it is slower.

    :param threshold: the score of candidates; ``None`` = that of so many machines.
    :param changed: machines that were seen to change before the recording began.
    """
    if is_step_time(examined.metric) or not examined.alerts:
        return examined
    doubts = {one: _doubt(one, examined.metric, recording) for one in examined.alerts}
    if len({one.machine for one, doubt in doubts.items() if doubt is None}) > few(examined.machines):
        doubts = {one: doubt or "many" for one, doubt in doubts.items()}
    least = (threshold or default_threshold(examined.machines)) / NEW_SHARE
    of_role = {one for one in doubts if one.machine not in changed and _may_be_its_role(one, examined.metric, least)}
    doubts = {one: doubt or ("role" if one in of_role else None) for one, doubt in doubts.items()}
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


def _may_be_its_role(one: Stretch, metric: str, least: float) -> bool:
    """Return whether a machine may always have differed as much: it did before, or has since the recording began.

    Healthy machines differ for good, a few of many by far more than most.  Without a past half of the distance is taken
    for that, so it must be as far again; more CPU usage is never believed then, as that of rank 0, which also logs and
    writes checkpoints.

    :param least: the score from which on it is believed without a past.
    """
    if one.past is None or one.past_peers is None:
        return one.score < least or is_busier_cpu(one, metric)
    return not new_beside((one.past, one.past_peers), own=one.own, peers=one.peers)


def _idle(samples: Samples, one: Stretch) -> bool:
    """Return whether the other machines do not work by this metric while one stands out."""
    level = idle_level(samples.metric)
    if level is None:
        return False
    own = samples.machines.index(one.machine) if one.machine in samples.machines else -1
    value = samples.value[(samples.time >= one.start) & (samples.time <= one.end) & (samples.machine != own)]
    return len(value) > 0 and float(np.median(value)) <= level
