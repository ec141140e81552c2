"""Failures of a cluster, drawn before a replay begins: same seed, same failures, whatever the jobs do.

Every node fails at the same rate, at random (a Poisson process), and not while it is away.  Each purpose (failures,
slow spells) has a generator of its own, so that asking for slow nodes does not move the failures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulator.failures.failure_kinds import MIXES, FailureKind, Mix
from simulator.failures.rates import HOUR, RATES, FailureRate
from simulator.failures.slow_spells import Slowness

if TYPE_CHECKING:
    import numpy as np

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
    """Return failures before the horizon, in order of time.

    :param horizon: seconds.
    """
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
