"""Failures and slow spells of a cluster: same seed, same failures, whatever the jobs do.

Every node fails at the same rate, at random (a Poisson process), and not while it is away.  Each purpose (failures,
slow spells) has a generator of its own, so that asking for slow nodes does not move the failures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from ground.quantities import DAY, HOUR
from simulator.failures.rates import MIXES, RATES, FailureKind, FailureRate, Mix

if TYPE_CHECKING:
    import numpy as np

CONTINUITY = 240.0  # Seconds that the same machine must stand out (Minder, arXiv 2411.01791)
CALLED_EVERY = 480.0  # Seconds between two looks (the same)
RECALL = 0.883  # Share of faults found (the same)


@dataclass(frozen=True, slots=True)
class SlowSpell:
    """A node that is slow for a while."""

    node: int  # index of the node
    since: float  # when it became slow, seconds
    until: float  # when it is well again
    slowdown: float  # factor on compute time
    detected: float  # when it is flagged; inf = never


@dataclass(frozen=True, slots=True)
class Slowness:
    """How often nodes become slow, for how long, and who notices.

    Factors are those of the stragglers injected and measured by the what-if analysis (arXiv 2505.05713: 1.16 to 2.03),
    small ones more likely, as in :func:`topology.generate.flag_some`.  How often it happens is not published: 0 unless
    somebody knows.
    """

    per_thousand_node_days: float = 0.0  # spells in 1,000 days of a node
    mean_hours: float = 6.0  # of a spell, exponential
    recall: float = RECALL  # share that is ever detected


def draw_spells(slowness: Slowness, *, nodes: int, horizon: float, rng: np.random.Generator) -> list[SlowSpell]:
    """Return slow spells that begin before the horizon, in seconds, in order of their beginning."""
    import numpy as np

    count = int(rng.poisson(slowness.per_thousand_node_days / 1_000.0 / DAY * nodes * horizon))
    since = np.sort(rng.uniform(0.0, horizon, count))
    which = rng.integers(0, nodes, count)
    length = rng.exponential(slowness.mean_hours * HOUR, count)
    factor = np.round(1.1 + 0.9 * rng.beta(1.0, 3.0, count), 2)
    noticed = since + CONTINUITY + rng.uniform(0.0, CALLED_EVERY, count)
    noticed[(rng.uniform(size=count) >= slowness.recall) | (noticed >= since + length)] = inf
    columns = (which, since, since + length, factor, noticed)
    return [SlowSpell(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


REPAIR_HOURS = 24.0  # Mean hours until a technician has a node back: our assumption, a day; say your own
REBOOT_HOURS = 0.5  # Hours until a node whose software failed is back


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One failure of one node."""

    time: float  # seconds
    node: int  # index of the node
    kind: FailureKind
    back: float  # when the node can be used again


@dataclass(frozen=True, slots=True)
class FailureModel:
    """What goes wrong on a cluster."""

    rate: FailureRate = RATES["rsc-1"]
    mix: Mix = MIXES["llama3"]
    repair_hours: float = REPAIR_HOURS  # mean time of a repair of hardware, exponential
    reboot_hours: float = REBOOT_HOURS  # time after a failure of software
    slowness: Slowness = field(default=Slowness())


def draw_breakdowns(model: FailureModel, *, nodes: int, horizon: float, rng: np.random.Generator) -> list[Breakdown]:
    """Return failures before the horizon, in seconds, in order of time."""
    import numpy as np

    count = int(rng.poisson(model.rate.per_second(nodes) * horizon))
    times = np.sort(rng.uniform(0.0, horizon, count))
    which = rng.integers(0, nodes, count)
    shares = np.array([kind.count for kind in model.mix.kinds], dtype=np.float64)
    kinds = rng.choice(len(shares), size=count, p=shares / shares.sum())
    repairs = rng.exponential(model.repair_hours * HOUR, count)
    back_at: dict[int, float] = {}
    breakdowns = []
    rows = zip(times.tolist(), which.tolist(), kinds.tolist(), repairs.tolist(), strict=True)
    for time, node, number, repair in rows:
        if time < back_at.get(node, 0.0):
            continue
        kind = model.mix.kinds[number]
        back_at[node] = time + (repair if kind.hardware else model.reboot_hours * HOUR)
        breakdowns.append(Breakdown(time, node, kind, back_at[node]))
    return breakdowns
