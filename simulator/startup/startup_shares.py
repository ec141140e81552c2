"""The share of GPU time that start-up took, in all and by size of job; and what it would be with each technique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ground.records import AtLeastOne, JsonRecord, NotNegative, Share
from simulator.results.run_history import RunHistory
from simulator.startup.start_seconds import TECHNIQUES
from simulator.startup.start_ups import Started
from topology.cluster import FloatArray

LIMITS = (8.0, 64.0, 512.0, 2048.0, 8192.0)  # Largest number of GPUs of each class of size but the last
ALL = "all sizes"
CLASSES = ("8 GPUs or less", "9 to 64", "65 to 512", "513 to 2,048", "2,049 to 8,192", "over 8,192")


@dataclass(frozen=True, slots=True)
class StartUpShare(JsonRecord):
    """Start-up of the jobs of one class of size.

    The shares with techniques are of the same starts on the same nodes: what the time that is won would change about
    which rank runs where is not in them.
    """

    size: str
    """Class of size; the first is of all jobs."""
    starts: AtLeastOne
    """Starts and restarts."""
    seconds: NotNegative
    """Mean time of a start-up, seconds, each weighed by its GPUs."""
    lost: Share
    """Share of the GPU time held that went into start-up, with the techniques in use."""
    none: Share
    """Share of the GPU time held that the same starts take without any technique."""
    prefetch: Share
    """Share with record and prefetch of hot blocks alone."""
    snapshots: Share
    """Share with snapshots of environments alone."""
    striped_reads: Share
    """Share with striped reads of checkpoints alone."""
    all_three: Share
    """Share with all three techniques."""


def startup_shares(past: RunHistory, log: Sequence[Started]) -> tuple[StartUpShare, ...]:
    """Return the shares of a run that is over; empty = no job started."""
    held, gpus, seconds = _starts(past, log)
    if not len(held):
        return ()
    classes = np.searchsorted(LIMITS, gpus, side="left")
    groups = [(ALL, np.ones(len(held), dtype=np.bool_)), *((name, classes == i) for i, name in enumerate(CLASSES))]
    return tuple(_share(name, held[mine], gpus[mine], seconds[mine]) for name, mine in groups if held[mine].sum() > 0.0)


def seconds_by_job(past: RunHistory, log: Sequence[Started]) -> dict[int, float]:
    """Return the seconds that all starts of each job took, by its key."""
    _, _, seconds = _starts(past, log)
    totals = np.bincount(np.sort(past.attempts.job), weights=seconds[:, 0], minlength=len(past.jobs))
    return dict(enumerate(totals.tolist()))


def _starts(past: RunHistory, log: Sequence[Started]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each start, by job and time: seconds held, GPUs, and shape [starts, 1 + techniques] its start-up, no
    longer than that: as it was, then with each of TECHNIQUES.
    """
    attempts = past.attempts
    order = np.lexsort((attempts.begin, attempts.job))
    held, gpus = (attempts.end - attempts.begin)[order], attempts.gpus[order]
    # each start is an attempt of the history, and the other way round
    rows = [(one.seconds, *one.weighed) for one in sorted(log, key=lambda one: (one.key, one.begin))]
    seconds = np.array(rows, dtype=np.float64).reshape(-1, 1 + len(TECHNIQUES))
    return held, gpus, np.minimum(seconds, held[:, None])


def _share(name: str, held: FloatArray, gpus: FloatArray, seconds: FloatArray) -> StartUpShare:
    lost = gpus @ seconds
    # what a technique wins is held no longer; nothing is left where all of it was start-up that is won
    shares = (lost / np.maximum(gpus @ held - lost[0] + lost, 1e-9)).clip(0.0, 1.0).tolist()
    by_technique = dict(zip(TECHNIQUES, shares[1:], strict=True))
    return StartUpShare(name, len(held), float(lost[0] / gpus.sum()), shares[0], **by_technique)
