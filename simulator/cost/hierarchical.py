"""Hierarchical: what crosses a tier is slowed by its oversubscription, as if every node below sent at once.

A group of n nodes with k domains of a level, w nodes in the one with fewest, reduces in three turns: inside the
domains, between them with w nodes of each side by side, inside again.  With bandwidth B of a node and stretch rho of
the tier (its ratio times those of closer tiers)

    T = 2 V / B * [ (n - 1) / n + sum over tiers of (k - 1) / k * (rho - rho of the next closer tier) / w ]

which for equal domains is what the three turns take, and for no oversubscription the flat ``2 (n - 1) / n * V / B``.
"""

from __future__ import annotations

from simulator.cost.assumptions import of_tiers, of_volumes
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.group_crossings import columns_at, stretch_of_hops
from simulator.cost.independent import Independent
from simulator.cost.reduction import node_bandwidth, tier_excess
from simulator.cost.step import Communication, ideal_communication, pipeline_seconds, step_time
from simulator.cost.tiers import Oversubscription, calibrated, tiers_of
from simulator.cost.traffic import traffic_of
from simulator.cost.types import PlacedJob, StepTime


def hierarchical(
    calibration: Calibration = PUBLISHED, *, oversubscription: Oversubscription | None = None
) -> Independent:
    """Return the model.

    :param oversubscription: ratio of each tier; ``None`` = that of the calibration, between minipods.
    """

    def price(placed: PlacedJob) -> StepTime:
        ratios = calibrated(placed.cluster, calibration) if oversubscription is None else oversubscription
        tiers = tiers_of(placed.cluster, ratios)
        traffic, bandwidth = traffic_of(placed.job, placed.model), node_bandwidth(placed)
        rows, columns = placed.nodes.shape
        ideal = ideal_communication(placed)
        domains = [(tier.level.domain_of[placed.nodes], tier.stretch) for tier in tiers]
        hops = stretch_of_hops(domains, (rows, columns), around=placed.chunks > 1) * traffic.pp / bandwidth
        excess = tier_excess((columns_at(of_cell), stretch) for of_cell, stretch in domains)
        found = Communication(
            dp=ideal.dp + 2.0 * traffic.dp / bandwidth * float(excess.max()),
            pp=pipeline_seconds(hops, microbatches=traffic.microbatches, chunks=placed.chunks),
        )
        return step_time(placed, found, ideal, calibration)

    return Independent(
        "hierarchical",
        "what leaves a domain is slowed by the oversubscription of its tier",
        (
            "Every node below an oversubscribed switch sends upwards at once, so that each has its share and no more: "
            "a busy cluster.",
            of_tiers(calibration, oversubscription),
            "Gradients are reduced inside the domains of a tier first, then between them, all nodes side by side.",
            *of_volumes(calibration),
        ),
        price,
    )
