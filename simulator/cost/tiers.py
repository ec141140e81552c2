"""The levels of a tree whose links upwards carry less than those below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.cost.calibration import Calibration
from topology.cluster import Cluster, Level
from topology.errors import InvalidInput

Oversubscription = Mapping[str, float]
"""Level -> ratio of bandwidth below its switches to bandwidth upwards; levels left out have 1.  As for
:func:`topology.graph.uplinks`."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One such level.

    :param stretch: by what a transfer that leaves a domain of the level is slower than one that does not leave any,
        when every node below sends at once: the ratios of this level and of all closer ones multiplied.
    """

    level: Level
    stretch: float


def calibrated(cluster: Cluster, calibration: Calibration) -> Oversubscription:
    """Return the ratio that send-recv between minipods shows, at the broadest level with more than one domain."""
    return {cluster.default_level().name: calibration.send_recv_stretch} if cluster.levels else {}


def tiers_of(cluster: Cluster, oversubscription: Oversubscription) -> tuple[Tier, ...]:
    """Return the oversubscribed levels, from the broadest to the closest.

    :raises UnknownName: no level is called that.
    :raises InvalidInput: a ratio below 1.
    """
    for name, ratio in oversubscription.items():
        cluster.level(name)
        if not ratio >= 1.0:
            raise InvalidInput(
                f"the oversubscription of {name} is {ratio}", where=name, fix="a ratio is at least 1; 1 = none"
            )
    tiers: list[Tier] = []
    stretch = 1.0
    for level in reversed(cluster.levels):
        if oversubscription.get(level.name, 1.0) > 1.0:
            stretch *= oversubscription[level.name]
            tiers.append(Tier(level, stretch))
    return tuple(reversed(tiers))
