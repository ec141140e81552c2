"""Models that look at spread alone, or not even at that."""

from __future__ import annotations

from dataclasses import replace

from scheduler.objective import spread
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.step import Independent, flat_step
from simulator.cost.types import PlacedJob, StepTime


def no_cost(calibration: Calibration = PUBLISHED) -> Independent:
    """Return the model in which communication costs the same wherever a job lies."""
    return Independent(
        "none",
        "place has no effect; slow nodes cost what they cost in all models",
        (
            "A job's place has no effect on its step, but for the slowest of its nodes.",
            *calibration.compute_assumptions,
        ),
        lambda placed: flat_step(placed, calibration),
    )


def spread_counters(calibration: Calibration = PUBLISHED) -> Independent:
    """Return the paper's objective as a price: each unit above the least costs the same share of the ideal step."""
    cost = calibration.spread_cost

    def price(placed: PlacedJob) -> StepTime:
        job, flat = placed.job, flat_step(placed, calibration)
        domains = placed.cluster.level(job.level).domain_of[placed.nodes]
        groups, unit = job.grid.groups, flat.ideal * cost
        return replace(
            flat,
            dp=flat.dp + unit * job.alpha * (spread(*groups["dp"].paired(domains)) - 1),
            pp=flat.pp + unit * job.beta * (spread(*groups["pp"].paired(domains)) - 1),
        )

    return Independent(
        "spread",
        "Eq. 2 as a price: alpha and beta weigh the spread of DP and PP groups",
        (
            f"Each further domain that a DP group touches costs alpha times {cost:.2%} of the step, each that a PP "
            f"group touches beta times as much, without end.",
            f"That share is what a collective loses for each further minipod, when communication is "
            f"{calibration.communication_share:.0%} of the step.",
            "Volumes, sizes and who else runs make no difference.",
            *calibration.compute_assumptions,
        ),
        price,
    )
