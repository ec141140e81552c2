"""Hierarchical: what crosses a tier is slowed by its oversubscription, as if every node below sent at once."""

from __future__ import annotations

from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.step import Independent
from simulator.cost.tiers import (
    Crossing,
    Oversubscription,
    crossing_step,
    oversubscription_assumption,
    oversubscription_of,
    tiers_of,
)
from simulator.cost.types import PlacedJob, StepTime


def hierarchical(
    calibration: Calibration = PUBLISHED, *, oversubscription: Oversubscription | None = None
) -> Independent:
    """Return the model.

    :param oversubscription: ratio of each tier; ``None`` = that of the calibration, between minipods.
    """

    def price(placed: PlacedJob) -> StepTime:
        cluster = placed.cluster
        tiers = tiers_of(cluster, oversubscription_of(cluster, oversubscription, calibration))
        crossings = [Crossing.of(tier.level.domain_of[placed.nodes]) for tier in tiers]
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
