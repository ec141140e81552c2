"""What was seen of machines that stood out, when it is to be doubted, and what it means: flags and sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Literal

import numpy as np

from ground.errors import few
from ground.quantities import number, plural
from ground.records import JsonRecord
from health.peers.metrics import MISSING, counts_errors, is_code, is_mask, is_step_time, metric_of, tells_pace
from health.peers.streams import MetricRecording, Samples
from topology.flags import FALSE_ALARMS, FAULTY, WARNING, NodeFlag
from topology.xids import PROGRAM_XIDS

# Why a machine that stands out is no alert: it works more than its peers, these do not work, too many stand out, or it
# may always have differed as much
Doubt = Literal["busier", "idle-peers", "many", "role"]
SOURCE = "peers"  # The detector's name in flags
CANNOT_TELL: tuple[Doubt, ...] = ("idle-peers", "many", "role")  # Which leave it open whether a machine is at fault
COARSE = 5.0  # Seconds between samples from which on a note says that they are far apart
SLOWEST = 4.0  # Factor from which on a machine hardly works: those that train are 3.04 times slower (arXiv 2505.05713)
MOST_EVIDENCE = 3  # Most metrics that a flag names
MOST_STRETCHES = 5  # Most machines that are listed for a metric


class Stretch(JsonRecord):
    """A machine that stood out for a while in one metric."""

    machine: str
    """Name of the machine."""
    start: float
    """Beginning of its first window, seconds on the clock of the recording."""
    end: float
    """End of its last window, seconds on the clock of the recording."""
    alert: float | None
    """When it had lasted long enough, seconds on that clock; null = it never had."""
    score: float
    """How many times farther it was from its peers than they were from each other, median over its windows."""
    own: float
    """Its median value meanwhile, in the metric's unit."""
    peers: float
    """Its peers' median value meanwhile, in the metric's unit."""
    past: float | None
    """Its own median value before, while the job did what it does now, in the metric's unit; null = for less than half
    of the time that an alert needs.
    """
    past_peers: float | None
    """Its peers' median value then, in the metric's unit; null as of its own."""
    lasting: bool
    """Whether it went on to the end of the recording."""
    late: float | None
    """Seconds by which it follows its peers, where that alone makes it stand out, which is no alert."""
    doubt: Doubt | None
    """Why it is no alert although it lasted long enough: it works more than its peers, which is no fault; its peers
    idle; so many machines stand out that they are no peers; or it may always have differed as much, which is a role of
    its own. null = it is one, or did not last."""
    part: str = ""
    """Which part of the machine it is about, such as GPU 6; empty = all of it, the mean of its parts."""


class Examined(JsonRecord):
    """What was seen in one metric."""

    metric: str
    """Name of the metric."""
    machines: int
    """Machines with samples of it."""
    step: float
    """Seconds between samples."""
    needed: float
    """Seconds for which a machine must stand out."""
    stretches: tuple[Stretch, ...]
    """Machines that stood out, the longest first; in JSON at most five."""
    silent: tuple[str, ...]
    """Machines that had fallen silent by the end; they are not judged on it."""

    @property
    def alerts(self) -> list[Stretch]:
        """Stretches that lasted long enough, in order of time."""
        return sorted((stretch for stretch in self.stretches if stretch.alert is not None), key=attrgetter("start"))

    def doubtful(self, doubt: Doubt) -> list[str]:
        """Return machines that raise no alert for this reason, in order of their names."""
        return sorted({stretch.machine for stretch in self.stretches if stretch.doubt == doubt})


class PeersVerdict(JsonRecord):
    """What the comparison of a job's machines found: what ``arnold health peers --json`` prints."""

    verdict: str
    """What was found, in words."""
    source: str
    """What was read."""
    machines: int
    """How many machines were compared."""
    metrics: tuple[Examined, ...]
    """Metrics in the order in which they were examined."""
    flags: tuple[NodeFlag, ...]
    """What follows for the scheduler."""
    notes: tuple[str, ...]
    """What was left out, and what limits the verdict."""


def judge(recording: MetricRecording, examined: Sequence[Examined]) -> PeersVerdict:
    """Return the verdict on a recording.

    A machine that stands out in a machine metric is ``faulty``, as the paper blocks it; by more CPU usage alone it is
    ``degraded`` at a small price, as a role may have begun, and so by codes that a program causes.  One with slow
    training steps is a ``straggler`` by the factor that was measured, and ``degraded`` when a machine metric says why:
    a known factor is worth more than an exclusion.
    """
    alerts: dict[str, dict[str, list[Stretch]]] = {}
    for metric in examined:
        for alert in metric.alerts:
            alerts.setdefault(alert.machine, {}).setdefault(metric.metric, []).append(alert)
    kinds = Counter((machine, part.partition(" ")[0]) for machine, part in recording.parts.values())
    longest = {
        machine: {metric: _telling(several, kinds) for metric, several in of_machine.items()}
        for machine, of_machine in alerts.items()
    }
    machines_of = {metric.metric: metric.machines for metric in examined}
    # where exporters call a machine each by another name, none of its names has all metrics
    machines = max((count for name, count in machines_of.items() if name != MISSING), default=len(recording.machines))
    masks = sorted(filter(is_mask, recording.metrics))
    flags = [_flag(stretches, recording, machines_of=machines_of) for stretches in longest.values()]
    return PeersVerdict(
        verdict=_in_words(flags, machines, examined),
        source=recording.source,
        machines=machines,
        metrics=tuple(replace(metric, stretches=metric.stretches[:MOST_STRETCHES]) for metric in examined),
        flags=tuple(sorted(flags, key=lambda flag: flag.node)) if recording.of_nodes else (),
        notes=(*recording.notes, *(f"masks of bits, not compared: {name}" for name in masks), *_notes(examined)),
    )


def _telling(alerts: Sequence[Stretch], kinds: Mapping[tuple[str, str], int]) -> Stretch:
    """Return the stretch that tells best what stands out in a metric of a machine: a part, or where half of its kind
    does as well the machine itself; of the same the longest.

    :param kinds: how many parts of a kind a machine has.
    """
    by_length = sorted(alerts, key=lambda alert: (alert.start - alert.end, -alert.score))
    of_parts = [alert for alert in by_length if alert.part]
    whole = [alert for alert in by_length if not alert.part]
    if whole and of_parts:
        count, kind = len({alert.part for alert in of_parts}), of_parts[0].part.partition(" ")[0]
        of_parts = of_parts if 2 * count < kinds[whole[0].machine, kind] else []
    return max(of_parts, key=attrgetter("score")) if of_parts else whole[0]


def evidence(stretch: Stretch, samples: Samples | None, *, peers: int, absolute: bool) -> str:
    """Return one alert in a sentence; its metric is that of the samples, ``None`` = that there are none any more."""
    end = "on" if stretch.lasting else f"to {clock(stretch.end, absolute)}"
    when = f"from {clock(stretch.start, absolute)} {end}"
    score = f"{stretch.score:.1f}" if stretch.score < 100 else "over 100"
    # parts are compared with those of their kind in all machines
    of, others = (f"{stretch.part}: ", "its peers") if stretch.part else ("", f"its {peers} peers")
    if samples is None:
        return f"{of}sends nothing {when}, while most others of its kind in the machine do"
    metric = samples.metric
    if is_code(metric):
        codes = ", ".join(number(code) for code in _codes(samples, stretch))
        return f"{of}{metric_of(metric).title} {codes}, of most of {others} none, {when}"
    past = "" if stretch.past is None else f" and {number(stretch.past)} of its own past"
    if stretch.past and stretch.peers and min(stretch.own, stretch.past, stretch.peers) > 0.0:
        past += (
            f" ({number(stretch.own / stretch.peers)}x its peers, {number(stretch.own / stretch.past)}x its own past)"
        )
    return (
        f"{of}{metric_of(metric).title} {number(stretch.own)} against {number(stretch.peers)} of {others}"
        f"{past}, {when}; {score} times the spread of its peers"
    )


def _codes(samples: Samples, stretch: Stretch) -> list[float]:
    """Return the codes of a machine while it stood out."""
    there = (samples.time >= stretch.start) & (samples.time <= stretch.end) & (samples.value != 0.0)
    # of the part, else of the machine with all its parts
    row = f"{stretch.machine} {stretch.part}".strip()
    rows = [k for k, name in enumerate(samples.machines) if name == row or name.startswith(f"{row} ")]
    own = np.isin(samples.machine, rows)
    return [float(code) for code in np.unique(samples.value[there & own])]


def clock(seconds: float, absolute: bool) -> str:
    """Return an instant as people read it: ``2026-11-21T12:00:00Z``, or ``1771 s``."""
    return instant(seconds).strftime("%Y-%m-%dT%H:%M:%SZ") if absolute else f"{seconds:g} s"


def instant(seconds: float) -> datetime:
    """Return seconds since 1970 as an instant."""
    return datetime.fromtimestamp(seconds, UTC)


def priced(flag: NodeFlag, verdict: PeersVerdict) -> NodeFlag:
    """Return a flag as the price of a slow machine, where the verdict says how much slower its GPUs work than others.

    One with errors of hardware, or with a part that sends nothing, stays as it is, and one that hardly works at all.
    """
    alerts = [(seen.metric, alert) for seen in verdict.metrics for alert in seen.alerts if alert.machine == flag.node]
    slower = [alert.peers / alert.own for name, alert in alerts if tells_pace(name) and 0.0 < alert.own < alert.peers]
    pace = max(slower, default=FAULTY)
    if flag.kind != "faulty" or flag.hardware or pace > SLOWEST or any(name == MISSING for name, _ in alerts):
        return flag
    return replace(flag, kind="degraded", slowdown=round(pace, 3))


def _flag(stretches: Mapping[str, Stretch], recording: MetricRecording, *, machines_of: Mapping[str, int]) -> NodeFlag:
    """Return the flag of a machine by its stretches in each metric, of which so many machines have samples."""
    absolute = recording.absolute
    slow = [stretch for metric, stretch in stretches.items() if is_step_time(metric)]
    causes = [stretch for metric, stretch in stretches.items() if not is_step_time(metric)]
    chosen = slow[0] if slow else max(causes, key=attrgetter("score"))
    factor = max(1.0, chosen.own / chosen.peers) if slow and chosen.peers > 0 else FAULTY
    if factor == FAULTY and all(_of_program(metric, stretch, recording) for metric, stretch in stretches.items()):
        factor = WARNING
    # step times, errors, then what is farthest
    told = sorted(
        stretches.items(), key=lambda told: (not is_step_time(told[0]), not counts_errors(told[0]), -told[1].score)
    )
    # beside its peers, and beside its own past
    factors = [
        round(max(1.0, value), 3)
        for stretch in slow
        for value in (stretch.own / stretch.peers, stretch.own / (stretch.past or stretch.own / factor))
        if factor < FAULTY and stretch.peers > 0
    ]
    ended = factor < FAULTY and not any(stretch.lasting for stretch in stretches.values())
    return NodeFlag(
        node=chosen.machine,
        kind="faulty" if factor == FAULTY else "degraded" if causes else "straggler",
        slowdown=factor if factor == FAULTY else round(factor, 3),
        score=round(chosen.score, 2),
        source=SOURCE,
        since=instant(min(stretch.start for stretch in stretches.values())) if absolute else None,
        until=instant(max(stretch.end for stretch in stretches.values())) if absolute and ended else None,
        probability=FALSE_ALARMS[SOURCE].probability if WARNING < factor < FAULTY else None,
        slowdown_range=(min(factors), max(factors)) if factors else None,
        evidence="; and ".join(
            evidence(stretch, recording.metrics.get(metric), peers=machines_of[metric] - 1, absolute=absolute)
            for metric, stretch in told[:MOST_EVIDENCE]
        ),
        # it stands out by errors of a device: counted ones, or a code that no program causes
        hardware=any(
            counts_errors(metric) and stretch.own > stretch.peers and not _of_program(metric, stretch, recording)
            for metric, stretch in stretches.items()
        ),
    )


def _of_program(metric: str, stretch: Stretch, recording: MetricRecording) -> bool:
    """Return whether a machine that stands out so may well be sound: it only has more to do for its CPU, as where rank
    0 logs and writes checkpoints, or only codes that a program causes.
    """
    if is_code(metric):
        return all(code in PROGRAM_XIDS for code in _codes(recording.metrics[metric], stretch))
    return metric == "cpu_usage" and stretch.own > stretch.peers


def _in_words(flags: Sequence[NodeFlag], machines: int, examined: Sequence[Examined]) -> str:
    unsure = [_cannot_tell(metric) for metric in examined if any(s.doubt in CANNOT_TELL for s in metric.stretches)]
    if not flags and unsure:
        return f"whether a machine of {machines} is at fault cannot be told: {'; '.join(unsure)}"
    if not flags:
        compared = f"{len(examined)} metrics" if len(examined) != 1 else metric_of(examined[0].metric).title
        return f"no machine of {machines} stands out for long enough: {compared} compared"
    words = [
        "is faulty"
        if flag.kind == "faulty"
        else "stands out by what a program does as well, which alone takes no node out"
        if flag.slowdown == WARNING
        else f"is {flag.slowdown:.2f}x slower than its peers"
        for flag in flags
    ]
    return "; ".join(f"{flag.node} {what}: {flag.evidence}" for flag, what in zip(flags, words, strict=True))


def _cannot_tell(examined: Examined) -> str:
    """Return why nothing is said of the machines that stand out in a metric."""
    title, reasons = metric_of(examined.metric).title, []
    if many := examined.doubtful("many"):
        reasons.append(f"{len(many)} of {examined.machines} stand out in {title}, so they are no peers")
    if of_role := examined.doubtful("role"):
        differ = "differs" if len(of_role) == 1 else "differ"
        reasons.append(
            f"{few(of_role)} {differ} in {title} as before, or since the recording began, as a role of its own"
        )
    if among_idle := examined.doubtful("idle-peers"):
        stand = "stands" if len(among_idle) == 1 else "stand"
        reasons.append(f"{few(among_idle)} {stand} out in {title} among machines that idle")
    return "; ".join(reasons)


def _notes(examined: Sequence[Examined]) -> list[str]:
    """Return what limits the verdict."""
    notes = []
    if silent := sorted({machine for metric in examined for machine in metric.silent}):
        who = f"{plural(len(silent), 'machine')} had fallen silent by the end"
        notes.append(f"{who}, which is not judged: {few(silent)}")
    for metric in examined:
        if busier := metric.doubtful("busier"):
            who = f"{plural(len(busier), 'machine')} not judged: {few(busier)}"
            notes.append(f"more {metric_of(metric.metric).title} than peers have is no fault; {who}")
        if any(s.doubt in CANNOT_TELL for s in metric.stretches):
            notes.append(f"not judged: {_cannot_tell(metric)}")
    shifted = {
        stretch.machine: stretch.late for metric in examined for stretch in metric.stretches if stretch.late is not None
    }
    for machine, late in sorted(shifted.items()):
        when = f"{abs(late):g} s {'later' if late > 0 else 'earlier'}"
        notes.append(f"{machine} does what its peers do, {when}, which is no fault: check its clock")
    step = max((metric.step for metric in examined), default=0.0)
    if step > COARSE:
        notes.append(f"samples are up to {step:g} s apart; the method was published for one a second")
    return notes
