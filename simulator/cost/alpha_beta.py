"""Alpha-beta: each collective at the bus bandwidth that a table has for its size and its spread.

The table is as NCCL tests print it, read between its lines; the built-in one is drawn from the four figures of the
characterisation.  A transfer of S bytes takes ``alpha + S / beta``, so its bandwidth is ``beta * S / (S + S_half)``
with ``S_half = alpha * beta``; what size saturates it fixes S_half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.hierarchical import Crossing, expert_spread, hops_of
from simulator.cost.step import (
    Communication,
    Independent,
    pipeline_seconds,
    reduction_seconds,
    schedule_of,
    step_time,
)
from simulator.cost.types import PlacedJob, StepTime
from topology.cluster import FloatArray, IntArray

SIZES: FloatArray = np.exp2(np.arange(10.0, 37.0))  # 1 KiB to 64 GiB


@dataclass(frozen=True, slots=True, eq=False)
class BusBandwidth:
    """One collective."""

    sizes: FloatArray  # ascending, bytes that a node gives
    spreads: FloatArray  # ascending, minipods that the group touches, from 1 on
    share: FloatArray  # shape [sizes, spreads], bus bandwidth as a share of the node's bandwidth

    def at(self, size: float, spread: npt.ArrayLike) -> FloatArray:
        """Return the share of the node's bandwidth: linear in log size and in spread, beyond entries as at the end."""
        log_size = np.log(size) if size > 0 else -np.inf
        of_size = [np.interp(log_size, np.log(self.sizes), column) for column in self.share.T]
        return np.asarray(np.interp(np.asarray(spread, dtype=np.float64), self.spreads, np.array(of_size)))


def drawn(collective: Literal["all-reduce", "send-recv"], calibration: Calibration) -> BusBandwidth:
    """Return the built-in table of a collective."""
    is_reduction = collective == "all-reduce"
    curve = calibration.collective_curve if is_reduction else calibration.send_recv_curve
    saturation = calibration.collective_saturation if is_reduction else calibration.send_recv_saturation
    half = saturation * (1.0 - calibration.saturated) / calibration.saturated
    spreads = np.arange(1.0, calibration.full_loss_from + 1.0)
    left = [1.0 - curve.at(int(minipods)) for minipods in spreads]
    return BusBandwidth(SIZES, spreads, np.outer(SIZES / (SIZES + half), left))


def alpha_beta(
    calibration: Calibration = PUBLISHED,
    *,
    all_reduce: BusBandwidth | None = None,
    send_recv: BusBandwidth | None = None,
) -> Independent:
    """Return the model; a table that is ``None`` is drawn from the calibration."""
    reductions = all_reduce or drawn("all-reduce", calibration)
    transfers = send_recv or drawn("send-recv", calibration)

    def price(placed: PlacedJob) -> StepTime:
        traffic, bandwidth = placed.traffic, placed.bandwidth
        schedule = schedule_of(placed, calibration)
        domains = placed.cluster.level(placed.job.level).domain_of[placed.nodes]
        one, other = hops_of(domains, around=schedule.around)
        ordered = np.sort(domains, axis=1)
        of_row = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1, keepdims=True)
        # a hop inside a minipod loses nothing, however many the rest of its PP group touches
        spreads = np.where(one != other, of_row, 1)

        def communication(dp_spread: int, hop_spread: IntArray, ep_spread: int) -> Communication:
            hops = traffic.pp / (bandwidth * transfers.at(traffic.pp, hop_spread))
            sent = traffic.microbatches * traffic.ep / bandwidth
            return Communication(
                dp=reduction_seconds(placed, bandwidth * float(reductions.at(traffic.dp, dp_spread))),
                pp=pipeline_seconds(hops, schedule, calibration.transfer_exposure),
                ep=sent / float(reductions.at(traffic.ep_message, ep_spread)) if sent else 0.0,
            )

        touched = int(Crossing.of(domains, placed.job.grid.dp_group).touched.max())
        found = communication(touched, spreads, expert_spread(placed, domains))
        ideal = communication(1, np.ones((1, spreads.shape[1]), dtype=np.int32), 1)
        return step_time(placed, schedule, found, ideal, calibration)

    return Independent(
        "alpha-beta",
        "each collective at the bus bandwidth measured for its size and its number of minipods",
        (
            f"A collective loses up to {calibration.collective_loss:.0%} of its bus bandwidth, evenly more with each "
            f"minipod up to {calibration.full_loss_from}; send-recv, when it crosses between minipods, up to "
            f"{calibration.send_recv_loss:.0%}.",
            "A hop inside a minipod loses nothing, wherever the rest of its PP group lies.",
            *calibration.volume_assumptions,
            "Others on the network are as they were when the bandwidth was measured.",
        ),
        price,
    )
