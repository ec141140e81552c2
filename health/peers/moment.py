"""What can be said of machines at one moment: how far each metric goes, and which machine stands out just then.

A machine is judged by what it does for minutes, so nothing follows from a moment: no alert and no flag.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ground.quantities import number, plural
from health.peers.distance import LEAST_MACHINES, candidates
from health.peers.metrics import KNOWN, counts_errors, in_order, metric_of
from health.peers.peers_verdict import Examined, PeersVerdict, Stretch
from health.peers.pipeline import LEVEL_SHARE
from health.peers.streams import MetricRecording, Samples

SHORT = 1.0  # Seconds within which samples are of one moment
NOTE = "one scrape; ask Prometheus for a range: /api/v1/query_range"
MOST = 6  # Metrics whose values are told


def is_moment(recording: MetricRecording) -> bool:
    """Return whether no machine has samples of more than one moment."""
    return all(_span(samples) < SHORT for samples in recording.metrics.values())


def _span(samples: Samples) -> float:
    """Return the longest time between the first and the last sample of a machine, seconds."""
    first = np.full(len(samples.machines), np.inf)
    last = np.full(len(samples.machines), -np.inf)
    np.minimum.at(first, samples.machine, samples.time)
    np.maximum.at(last, samples.machine, samples.time)
    return float((last - first).max(initial=0.0))


def at_moment(recording: MetricRecording) -> PeersVerdict:
    """Return what one moment shows, metrics in the order in which they would be judged."""
    names = in_order(recording.metrics)
    examined = [_examined(recording.metrics[name]) for name in names]
    out = [f"{each.machine} in {metric_of(one.metric).title}" for one in examined for each in one.stretches]
    machines = plural(len(recording.machines), "machine")
    standing = f"; just then these stand out: {', '.join(out[:MOST])}" if out else ""
    known = {metric.name for metric in KNOWN}
    told = sorted(names, key=lambda name: name not in known)[:MOST]
    values = "; ".join(f"{metric_of(name).title} {_range(recording.metrics[name])}" for name in told)
    return PeersVerdict(
        verdict=f"one moment of {machines}, which nothing can be judged by{standing}",
        source=recording.source,
        machines=len(recording.machines),
        metrics=tuple(examined),
        flags=(),
        notes=(*recording.notes, NOTE, *_errors(recording), f"{plural(len(names), 'metric')}: {values}"),
    )


def _errors(recording: MetricRecording) -> Iterator[str]:
    """Yield which machines have counted errors, whatever they did before."""
    for name, samples in sorted(recording.metrics.items()):
        if counts_errors(name) and (samples.value > 0).any():
            pairs = zip(samples.value.tolist(), samples.machine.tolist(), strict=True)
            most = {samples.machines[k]: value for value, k in sorted(pairs) if value > 0}
            told = [f"{machine} {number(value)}" for machine, value in list(most.items())[:MOST]]
            yield f"not zero: {metric_of(name).title} of {', '.join(told)}"


def _range(samples: Samples) -> str:
    low, high = float(samples.value.min()), float(samples.value.max())
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _examined(samples: Samples) -> Examined:
    count = np.bincount(samples.machine, minlength=len(samples.machines))
    there = np.flatnonzero(count)
    mean = np.bincount(samples.machine, samples.value, len(samples.machines))[there] / count[there]
    stretches = []
    if len(there) >= LEAST_MACHINES:
        least = max(metric_of(samples.metric).noticeable, LEVEL_SHARE * float(np.abs(mean).mean()), 1e-12)
        found = candidates(mean[None, :, None], threshold=None, least=least)
        time = float(samples.time.min())
        for row, score in zip(found.machine.tolist(), found.score.tolist(), strict=True):
            name, peers = samples.machines[there[row]], float(np.median(np.delete(mean, row)))
            own = float(mean[row])
            stretches.append(
                Stretch(name, time, time, None, score, own, peers, None, None, lasting=True, late=None, doubt=None)
            )
    return Examined(samples.metric, len(there), step=0.0, needed=0.0, stretches=tuple(stretches), silent=())
