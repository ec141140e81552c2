"""Hierarchical: what crosses a shared tier is slowed as if every node below sent at once.

A shared tier is a level of the tree whose switches hash flows onto links upwards, of which there may be fewer than
below.  A send waits for the flows on its link, a collective of many sub-flows for their mean
(:mod:`simulator.cost.collisions`): by so much, the stretch rho, each is slower that leaves a domain.  A DP group of n
nodes with k domains of a level, w nodes in the one with fewest, reduces in turns: inside the domains, between them with
w nodes of each side by side, inside again.  With bandwidth B of a node each half of it takes

    T = V / B * [ (n - 1) / n + sum over tiers of (k - 1) / k * (rho - rho of the next closer tier) / w ]

which for equal domains is what the turns take, and for rho 1 the flat ``(n - 1) / n * V / B``.  A hop of a PP group is
slowed as much as the broadest boundary that it crosses says; of what experts send, the part that crosses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ground.errors import InvalidInput
from scheduler.objective import spread
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.collisions import Hashing
from simulator.cost.step import (
    Communication,
    Independent,
    ideal_communication,
    pipeline_seconds,
    schedule_of,
    step_time,
)
from simulator.cost.types import PlacedJob, StepTime
from topology.cluster import Cluster, FloatArray, IntArray, Level

Oversubscription = Mapping[str, float]
"""Level -> ratio of bandwidth below its switches to bandwidth upwards, 1 = as many links up as down; across levels left
out nothing is slowed.  As for :func:`simulator.cost.shared_flows.uplinks`."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One such level, and by what is slower what leaves a domain of it when every node below sends at once."""

    level: Level
    dp: float  # reductions, and what experts send
    pp: float  # transfers between stages


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where the groups of a placed job lie, and what its DP groups touch, at one level."""

    domains: IntArray  # shape [rows, columns], domain of each cell
    dp_group: IntArray  # shape [rows, columns], DP group of each cell
    touched: IntArray  # shape [DP groups], number of domains of each DP group
    fewest: IntArray  # shape [DP groups], cells in the domain that has fewest of them, at least 1

    @staticmethod
    def of(domains: IntArray, dp_group: IntArray) -> Crossing:
        """Count what each DP group touches."""
        groups, width = int(dp_group.max()) + 1, int(domains.max()) + 1
        pairs = domains.astype(np.int64) + dp_group.astype(np.int64) * width
        found, cells = np.unique(pairs.ravel(), return_counts=True)
        group = found // width
        fewest = np.full(groups, domains.shape[0], dtype=np.int32)
        np.minimum.at(fewest, group, cells.astype(np.int32))
        return Crossing(domains, dp_group, np.bincount(group, minlength=groups).astype(np.int32), fewest)


def oversubscription_of(cluster: Cluster, given: Oversubscription | None) -> Oversubscription:
    """Return ratios that are given; else one shared tier without any, the broadest level with more than one domain."""
    if given is not None:
        return given
    return {cluster.default_level().name: 1.0} if cluster.levels else {}


def tier_assumptions(given: Oversubscription | None, calibration: Calibration) -> tuple[str, str]:
    """Return what tiers are shared, and how they hash flows, in two sentences."""
    of_links = f"A switch hashes flows onto {calibration.uplinks} links as fast as a GPU's, a send as "
    hashing = (
        f"{of_links}{calibration.send_recv_flows:g} sub-flow and a collective as {calibration.collective_flows:g}; the "
        "slowest flow sets the pace."
    )
    if given is None:
        return "Minipods have as much bandwidth upwards as below; closer levels slow nothing.", hashing
    words = ", ".join(f"{level} {ratio:g}" for level, ratio in given.items()) or "no level slows anything"
    return f"Oversubscription: {words}.", hashing


def tiers_of(cluster: Cluster, oversubscription: Oversubscription, calibration: Calibration) -> tuple[Tier, ...]:
    """Return the shared levels, from the broadest to the closest.

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
    load = 1.0  # flows for each link when all nodes below send
    for level in reversed(cluster.levels):
        if level.name in oversubscription:
            load *= oversubscription[level.name]
            tiers.append(Tier(level, *_busy(load, calibration)))
    return tuple(reversed(tiers))


@lru_cache(maxsize=1024)
def _busy(load: float, calibration: Calibration) -> tuple[float, float]:
    """Return by what collectives and sends are slowed on links with so many flows each."""
    collectives, sends = hashing_of(calibration)
    return float(collectives.slowdown(load)), float(sends.slowdown(load))


def hashing_of(calibration: Calibration) -> tuple[Hashing, Hashing]:
    """Return how collectives and how sends are hashed on the links of a shared tier."""
    flows = (calibration.collective_flows, calibration.send_recv_flows)
    collectives, sends = (Hashing(calibration.uplinks, each) for each in flows)
    return collectives, sends


def hops_of(cells: IntArray, *, around: bool) -> tuple[IntArray, IntArray]:
    """Return the two ends of each hop of each PP group, twice shape [rows, hops], of cells of shape [rows, columns].

    :param around: with the hop from the last column back to the first (interleaved schedule).
    """
    if around and cells.shape[1] > 1:
        return cells, np.roll(cells, -1, axis=1)
    return cells[:, :-1], cells[:, 1:]


def expert_spread(placed: PlacedJob, domains: IntArray) -> int:
    """Return the largest number of domains that a group of experts touches; 1 if none of them sends between nodes.

    :param domains: shape [rows, columns], domain of each cell.
    """
    return spread(*placed.job.grid.groups["ep"].paired(domains)) if placed.traffic.ep else 1


def crossing_step(
    placed: PlacedJob,
    crossings: Sequence[Crossing],
    dp: Sequence[FloatArray | float],
    pp: Sequence[FloatArray | float],
    calibration: Calibration,
) -> StepTime:
    """Return the step of a job with groups that are slowed where they cross tiers, from the broadest to the closest.

    :param dp: by what DP groups are slowed at each tier: shape [DP groups] or one number.  A broader tier is taken as
        at least as slow as a closer one.  Experts are slowed as the slowest of them.
    :param pp: the same of PP groups, shape [rows].
    """
    traffic, schedule = placed.traffic, schedule_of(placed, calibration)
    ideal = ideal_communication(placed, schedule, calibration)
    excess: FloatArray = np.zeros(1)
    closer: FloatArray = np.ones(1)
    experts = 0.0
    slowed = np.ones(hops_of(placed.nodes, around=schedule.around)[0].shape)
    for crossing, of_groups, of_rows in reversed(list(zip(crossings, dp, pp, strict=True))):
        touched = crossing.touched
        stretch = np.where(touched > 1, np.maximum(of_groups, closer), closer)
        excess = excess + (touched - 1) / touched * (stretch - closer) / crossing.fewest
        if traffic.ep:
            domains = expert_spread(placed, crossing.domains)
            experts += (domains - 1) / domains * float(stretch.max() - closer.max())
        closer = stretch
        one, other = hops_of(crossing.domains, around=schedule.around)
        of_hops = np.broadcast_to(np.reshape(of_rows, (-1, 1)), slowed.shape)
        slowed = np.where(one != other, np.maximum(slowed, of_hops), slowed)
    hops = slowed * traffic.pp / placed.bandwidth
    found = Communication(
        dp=ideal.dp + traffic.dp / placed.bandwidth * float(excess.max()),
        pp=pipeline_seconds(hops, schedule, calibration.transfer_exposure),
        ep=ideal.ep * (1.0 + experts),
    )
    return step_time(placed, schedule, found, ideal, calibration)


def hierarchical(
    calibration: Calibration = PUBLISHED, *, oversubscription: Oversubscription | None = None
) -> Independent:
    """Return the model.

    :param oversubscription: of its tiers; ``None`` = one tier between minipods, which is shared but not oversubscribed.
    """

    def price(placed: PlacedJob) -> StepTime:
        cluster = placed.cluster
        tiers = tiers_of(cluster, oversubscription_of(cluster, oversubscription), calibration)
        dp_group = placed.job.grid.dp_group
        crossings = [Crossing.of(tier.level.domain_of[placed.nodes], dp_group) for tier in tiers]
        dp, pp = [tier.dp for tier in tiers], [tier.pp for tier in tiers]
        return crossing_step(placed, crossings, dp, pp, calibration)

    return Independent(
        "hierarchical",
        "what leaves a domain is slowed as if all nodes below its switch sent at once",
        (
            "Every node below a shared switch sends upwards at once: a busy cluster.",
            *tier_assumptions(oversubscription, calibration),
            "Gradients are reduced inside the domains of a tier first, then between them, all nodes side by side.",
            *calibration.volume_assumptions,
        ),
        price,
    )
