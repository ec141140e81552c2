"""What the jobs of a replay draw: the site and the worst power domain, when most GPUs are held and at the largest step.

A replay lasts for days and a step for seconds: power is looked at in full in two windows, not all of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ground.records import JsonRecord, NotNegative
from simulator.power_file import PowerFigures, PowerSettings
from simulator.results.run_history import RunHistory
from simulator.site_power import PowerLoad, SitePower, loads_of

WINDOW = 120.0  # Seconds that are looked at in full


@dataclass(frozen=True, slots=True)
class PowerMoment(JsonRecord):
    """The power of the site, or of one power domain, around one moment of a replay."""

    moment: str
    """Name of the moment."""
    seconds: NotNegative
    """Seconds since the first submission."""
    domain: str
    """What draws the power: `site`, or the power domain that swings most."""
    figures: PowerFigures
    """What is drawn."""
    within: bool
    """Whether it is within the specification, which is of the site."""


def replayed_power(history: RunHistory, settings: PowerSettings, *, seed: int) -> tuple[PowerMoment, ...]:
    """Return the power of a finished run around two moments; nothing of a run in which no job started.

    :param history: of a run whose jobs have places.
    :param seed: of the phases of steps.
    """
    attempts, cluster = history.attempts, history.cluster
    if cluster is None or not len(attempts):
        return ()
    times, where = np.unique(np.concatenate([attempts.begin, attempts.end]), return_inverse=True)
    change = np.bincount(where, np.concatenate([attempts.gpus, -attempts.gpus]))
    moments = {"most GPUs held": int(np.cumsum(change).argmax()), "largest change": int(np.abs(change).argmax())}
    found: list[PowerMoment] = []
    for name, i in moments.items():
        at = float(times[i])
        power = SitePower(cluster=cluster, settings=settings, seconds=WINDOW, begin=at - WINDOW / 2)
        loads = list(_loads(history, power, seed=seed))
        drawn = [("site", power.drawn(loads)), *([power.worst(power.level, loads)] if power.level else [])]
        within = power.figures(drawn[0][1]).within(settings)
        found += [PowerMoment(name, at, domain, power.figures(watts), within) for domain, watts in drawn]
    return tuple(found)


def _loads(history: RunHistory, power: SitePower, *, seed: int) -> Iterator[PowerLoad]:
    """Yield what runs in the time that is looked at: steps as slow as the pace of each attempt, phases drawn."""
    runs = history.attempts
    phases = np.random.default_rng(seed).random(len(runs))
    end = power.begin + power.seconds
    there = (runs.begin < end) & (runs.end + power.settings.stop_seconds > power.begin)
    for i in np.flatnonzero(there).tolist():
        nodes = runs.places[runs.first[i] : runs.first[i + 1]]
        pace = float(runs.pace[i]) if np.isfinite(runs.pace[i]) else 1.0
        name = history.jobs[int(runs.job[i])].record.job_id
        for load in loads_of(power.cluster, nodes, power.settings, job=name):
            part = float(runs.each[i] / power.cluster.gpus[load.nodes[0]])
            begin, end, phase = (float(one[i]) for one in (runs.begin, runs.end, phases))
            yield replace(load, begin=begin, end=end, step=pace * load.step, phase=phase, part=part)
