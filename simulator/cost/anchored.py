"""Anchored: what was measured between two minipods for the job's kind, drawn out over more by the losses of NCCL.

With S and R the DP and PP spread, j_dp and j_pp the share of its step that the spread of each family over two minipods
cost a job of the kind (:class:`scheduler.affinity.Record`), and lambda the time that a loss of bandwidth adds

    step / ideal step = 1 + j_dp * lambda_c(S) / lambda_c(2) + j_pp * lambda_p(R) / lambda_p(2)

``lambda(r) = 1 / (1 - l(r)) - 1``, l the loss of collectives for DP and of send-recv for PP groups.  A job brings its
amplitudes along: together they are its ``spread_cost``, and alpha is the part of j_dp in it.  So over two minipods a
placement with a smaller objective is a faster step, by as much as the objective says.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.job import DEFAULT_ALPHA, DEFAULT_SPREAD_COST
from scheduler.objective import spread
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.step import Independent, flat_step
from simulator.cost.types import PlacedJob, StepTime


def anchored(calibration: Calibration = PUBLISHED) -> Independent:
    """Return the model."""

    def price(placed: PlacedJob) -> StepTime:
        job, flat = placed.job, flat_step(placed, calibration)
        domains = placed.cluster.level(job.level).domain_of[placed.nodes]
        groups, unit = job.grid.groups, flat.ideal * job.spread_cost
        dp = calibration.collective_curve.of_two(spread(*groups["dp"].paired(domains)))
        pp = calibration.send_recv_curve.of_two(spread(*groups["pp"].paired(domains)))
        return replace(flat, dp=flat.dp + unit * job.alpha * dp, pp=flat.pp + unit * job.beta * pp)

    return Independent(
        "anchored",
        "what spread was measured to cost jobs of the kind, drawn out by the losses of NCCL",
        (
            "What the spread of DP and of PP groups over two domains costs is what aligning them was measured to gain "
            "a job of the kind, at 96 GPUs.",
            'A job that does not say what it trains costs what the record "24B MoE on H800" has, '
            f"{DEFAULT_SPREAD_COST:.2%} of the step for both, of which alpha, {DEFAULT_ALPHA:g} unless it says, is for "
            "DP groups.",
            f"Over more domains it grows as the time that NCCL loses: up to {calibration.collective_loss:.0%} of the "
            f"bandwidth of collectives, {calibration.send_recv_loss:.0%} of send-recv, evenly more with each domain "
            f"up to {calibration.full_loss_from}.",
            "Volumes, who else runs and how a group is cut make no difference.",
            *calibration.compute_assumptions,
        ),
        price,
    )
