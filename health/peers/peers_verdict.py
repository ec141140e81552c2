"""What the comparison of machines means: flags for the scheduler, and sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from health.peers.metrics import is_step_time, metric_of
from health.peers.streams import MetricRecording
from health.peers.stretches import Doubt, Examined, Stretch
from topology.flags import FAULTY, NodeFlag
from topology.quantities import number, plural

SOURCE = "peers"
"""The detector's name in flags."""

CANNOT_TELL: tuple[Doubt, ...] = ("idle-peers", "many")
"""Doubts that leave it open whether a machine is at fault."""


class Alert(NamedTuple):
    """A stretch that lasted long enough.

    :param metric: the one in which the machine stands out.
    """

    metric: str
    stretch: Stretch


@dataclass(frozen=True, slots=True)
class PeersVerdict:
    """What was found.

    :param headline: the verdict in a sentence.
    :param examined: metrics in the order in which they were asked.
    :param alerts: one for each machine and metric.
    :param notes: what was left out, and what limits the verdict.
    """

    headline: str
    machines: int
    examined: tuple[Examined, ...]
    alerts: tuple[Alert, ...]
    flags: tuple[NodeFlag, ...]
    notes: tuple[str, ...]


def judge(recording: MetricRecording, examined: Sequence[Examined]) -> PeersVerdict:
    """Return the verdict on a recording.

    A machine that stands out in a machine metric is ``faulty``, as the paper blocks it.  One whose training steps are
    slow is a ``straggler`` by the factor that was measured, and ``degraded`` when a machine metric says why: a factor
    that is known is worth more than an exclusion.
    """
    alerts: dict[tuple[str, str], Stretch] = {}
    for one in examined:
        for alert in one.alerts:
            held = alerts.get((alert.machine, one.metric))
            if held is None or alert.end - alert.start > held.end - held.start:
                alerts[alert.machine, one.metric] = alert
    by_machine: dict[str, list[Alert]] = {}
    for (machine, metric), alert in alerts.items():
        by_machine.setdefault(machine, []).append(Alert(metric, alert))
    peers = len(recording.machines) - 1
    flags = tuple(_flag(found, recording, peers) for found in by_machine.values())
    return PeersVerdict(
        headline=_headline(flags, recording, examined),
        machines=peers + 1,
        examined=tuple(examined),
        alerts=tuple(Alert(metric, alert) for (_, metric), alert in alerts.items()),
        flags=flags,
        notes=(*recording.notes, *_notes(examined)),
    )


def evidence(alert: Alert, *, peers: int, absolute: bool) -> str:
    """Return one alert in a sentence.

    >>> evidence(alert, peers=9, absolute=False)  # doctest: +SKIP
    'batch_time 745 against 424 of its 9 peers, from 1771 s to 1921 s; 14 times farther from them than they are apart'
    """
    one = alert.stretch
    when = f"from {clock(one.start, absolute)} " + ("on" if one.lasting else f"to {clock(one.end, absolute)}")
    score = f"{one.score:.1f}" if one.score < 100 else "over 100"
    return (
        f"{metric_of(alert.metric).title} {number(one.own)} against {number(one.peers)} of its {peers} peers, {when}; "
        f"{score} times farther from them than they are from each other"
    )


def clock(seconds: float, absolute: bool) -> str:
    """Return an instant as people read it: ``2026-11-21T12:00:00Z``, or ``1771 s``."""
    if not absolute:
        return f"{seconds:g} s"
    return instant(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def instant(seconds: float) -> datetime:
    """Return seconds since 1970 as an instant."""
    return datetime.fromtimestamp(seconds, UTC)


def _flag(found: list[Alert], recording: MetricRecording, peers: int) -> NodeFlag:
    slow = [alert.stretch for alert in found if is_step_time(alert.metric)]
    causes = [alert.stretch for alert in found if not is_step_time(alert.metric)]
    chosen = (slow or causes)[0]
    factor = max(1.0, chosen.own / chosen.peers) if slow and chosen.peers > 0 else FAULTY
    stretches = [alert.stretch for alert in found]
    ended = factor < FAULTY and not any(one.lasting for one in stretches)
    return NodeFlag(
        node=chosen.machine,
        kind="faulty" if factor == FAULTY else "degraded" if causes else "straggler",
        slowdown=factor if factor == FAULTY else round(factor, 3),
        score=round(chosen.score, 2),
        source=SOURCE,
        since=instant(min(one.start for one in stretches)) if recording.absolute else None,
        until=instant(max(one.end for one in stretches)) if recording.absolute and ended else None,
        evidence="; and ".join(evidence(alert, peers=peers, absolute=recording.absolute) for alert in found),
    )


def _headline(flags: Sequence[NodeFlag], recording: MetricRecording, examined: Sequence[Examined]) -> str:
    machines = len(recording.machines)
    unsure = [_cannot_tell(one) for one in examined if any(s.doubt in CANNOT_TELL for s in one.stretches)]
    if not flags and unsure:
        return f"whether a machine of {machines} is at fault cannot be told: {'; '.join(unsure)}"
    if not flags:
        asked = f"{len(examined)} metrics" if len(examined) != 1 else metric_of(examined[0].metric).title
        return f"no machine of {machines} stands out for long enough: {asked} compared"
    words = []
    for flag in flags:
        what = "is faulty" if flag.kind == "faulty" else f"is {flag.slowdown:.2f}x slower than its peers"
        words.append(f"{flag.node} {what}: {flag.evidence}")
    return "; ".join(words)


def _cannot_tell(examined: Examined) -> str:
    """Return why nothing is said of the machines that stand out in a metric."""
    many, among_idle = examined.doubtful("many"), examined.doubtful("idle-peers")
    reasons = []
    if many:
        reasons.append(
            f"{len(many)} of {examined.machines} stand out in {metric_of(examined.metric).title}, so they are no peers"
        )
    if among_idle:
        reasons.append(f"{_few(among_idle)} stands out in {metric_of(examined.metric).title} among machines that idle")
    return "; ".join(reasons)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def _notes(examined: Sequence[Examined]) -> list[str]:
    """Return what limits the verdict."""
    notes = []
    silent = sorted({machine for one in examined for machine in one.silent})
    if silent:
        notes.append(
            f"{plural(len(silent), 'machine')} had fallen silent by the end, which is not judged: {_few(silent)}"
        )
    for one in examined:
        busier = one.doubtful("busier")
        if busier:
            who = f"{plural(len(busier), 'machine')} not judged: {_few(busier)}"
            notes.append(f"more {metric_of(one.metric).title} than peers have is no fault; {who}")
        if any(s.doubt in CANNOT_TELL for s in one.stretches):
            notes.append(f"not judged: {_cannot_tell(one)}")
    shifted = {one.machine: one.late for each in examined for one in each.stretches if one.late is not None}
    for machine, late in sorted(shifted.items()):
        when = f"{abs(late):g} s {'later' if late > 0 else 'earlier'}"
        notes.append(f"{machine} does what its peers do, {when}, which is no fault: check its clock")
    coarse = [one for one in examined if one.step > 5.0]
    if coarse:
        step = max(one.step for one in coarse)
        notes.append(f"samples are up to {step:g} s apart; the method was published for one a second")
    return notes
