"""Hierarchical: what crosses a tier is slowed by its oversubscription, as if every node below sent at once.

A tier is a level of the tree with links upwards that carry less than those below.  A DP group of n nodes with k domains
of a level, w nodes in the one with fewest, reduces in three turns: inside the domains, between them with w nodes of
each side by side, inside again.  With bandwidth B of a node and stretch rho of the tier (its ratio times those of
closer tiers)

    T = 2 V / B * [ (n - 1) / n + sum over tiers of (k - 1) / k * (rho - rho of the next closer tier) / w ]

which for equal domains is what the three turns take, and for no oversubscription the flat ``2 (n - 1) / n * V / B``.
A hop of a PP group is slowed as much as the broadest boundary that it crosses says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.step import Communication, Independent, ideal_communication, pipeline_seconds, step_time
from simulator.cost.types import PlacedJob, StepTime
from topology.cluster import Cluster, FloatArray, IntArray, Level
from topology.errors import InvalidInput

Oversubscription = Mapping[str, float]
"""Level -> ratio of bandwidth below its switches to bandwidth upwards; levels left out have 1.  As for
:func:`topology.graph.uplinks`."""


@dataclass(frozen=True, slots=True)
class Tier:
    """One such level."""

    level: Level
    # by what a transfer that leaves a domain of the level is slower than one that does not leave any, when every node
    # below sends at once: the ratios of this level and of all closer ones multiplied
    stretch: float


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


def oversubscription_of(cluster: Cluster, given: Oversubscription | None, calibration: Calibration) -> Oversubscription:
    """Return ratios that are given; else what send-recv shows, at the broadest level with more than one domain."""
    if given is not None:
        return given
    return {cluster.default_level().name: calibration.send_recv_stretch} if cluster.levels else {}


def oversubscription_assumption(given: Oversubscription | None, calibration: Calibration) -> str:
    """Return how narrow the tiers are, in a sentence."""
    if given is None:
        return (
            f"Minipods have {calibration.send_recv_stretch:.3g} times less bandwidth upwards than below: what "
            f"send-recv loses when all nodes send between minipods.  Closer levels are not oversubscribed."
        )
    return f"Oversubscription: {', '.join(f'{level} {ratio:g}' for level, ratio in given.items()) or 'none anywhere'}."


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


def hops_of(cells: IntArray, *, around: bool) -> tuple[IntArray, IntArray]:
    """Return the two ends of each hop of each PP group, twice shape [rows, hops], of cells of shape [rows, columns].

    :param around: with the hop from the last column back to the first (interleaved schedule).
    """
    if around and cells.shape[1] > 1:
        return cells, np.roll(cells, -1, axis=1)
    return cells[:, :-1], cells[:, 1:]


def crossing_step(
    placed: PlacedJob,
    crossings: Sequence[Crossing],
    dp: Sequence[FloatArray | float],
    pp: Sequence[FloatArray | float],
    calibration: Calibration,
) -> StepTime:
    """Return the step of a job with groups that are slowed where they cross tiers, from the broadest to the closest.

    :param dp: by what DP groups are slowed at each tier: shape [DP groups] or one number.  A broader tier is taken as
        at least as slow as a closer one.
    :param pp: the same of PP groups, shape [rows].
    """
    traffic, ideal = placed.traffic, ideal_communication(placed)
    excess: FloatArray = np.zeros(1)
    closer: FloatArray = np.ones(1)
    slowed = np.ones(hops_of(placed.nodes, around=placed.around)[0].shape)
    for crossing, of_groups, of_rows in reversed(list(zip(crossings, dp, pp, strict=True))):
        touched = crossing.touched
        stretch = np.where(touched > 1, np.maximum(of_groups, closer), closer)
        excess = excess + (touched - 1) / touched * (stretch - closer) / crossing.fewest
        closer = stretch
        one, other = hops_of(crossing.domains, around=placed.around)
        of_hops = np.broadcast_to(np.reshape(of_rows, (-1, 1)), slowed.shape)
        slowed = np.where(one != other, np.maximum(slowed, of_hops), slowed)
    hops = slowed * traffic.pp / placed.bandwidth
    found = Communication(
        dp=ideal.dp + 2.0 * traffic.dp / placed.bandwidth * float(excess.max()),
        pp=pipeline_seconds(hops, microbatches=traffic.microbatches, chunks=placed.chunks),
    )
    return step_time(placed, found, ideal, calibration)


def hierarchical(
    calibration: Calibration = PUBLISHED, *, oversubscription: Oversubscription | None = None
) -> Independent:
    """Return the model; ratios that are ``None`` are those of the calibration, between minipods."""

    def price(placed: PlacedJob) -> StepTime:
        cluster = placed.cluster
        tiers = tiers_of(cluster, oversubscription_of(cluster, oversubscription, calibration))
        dp_group = placed.job.grid.dp_group
        crossings = [Crossing.of(tier.level.domain_of[placed.nodes], dp_group) for tier in tiers]
        stretch = [tier.stretch for tier in tiers]
        return crossing_step(placed, crossings, stretch, stretch, calibration)

    return Independent(
        "hierarchical",
        "what leaves a domain is slowed by the oversubscription of its tier",
        (
            "Every node below an oversubscribed switch sends upwards at once, so that each has its share and no more: "
            "a busy cluster.",
            oversubscription_assumption(oversubscription, calibration),
            "Gradients are reduced inside the domains of a tier first, then between them, all nodes side by side.",
            *calibration.volume_assumptions,
        ),
        price,
    )
