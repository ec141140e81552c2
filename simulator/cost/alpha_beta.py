"""Alpha-beta: each collective at the bus bandwidth that a table has for its size and its spread."""

from __future__ import annotations

import numpy as np

from scheduler.objective import job_level
from simulator.cost.assumptions import of_volumes
from simulator.cost.bus_bandwidth import BusBandwidth, drawn
from simulator.cost.calibration import PUBLISHED, Calibration
from simulator.cost.group_crossings import columns_at, hops_of, spread_of_rows
from simulator.cost.independent import Independent
from simulator.cost.reduction import node_bandwidth, reduction_seconds
from simulator.cost.step import Communication, pipeline_seconds, step_time
from simulator.cost.traffic import traffic_of
from simulator.cost.types import PlacedJob, StepTime
from topology.cluster import IntArray


def alpha_beta(
    calibration: Calibration = PUBLISHED,
    *,
    all_reduce: BusBandwidth | None = None,
    send_recv: BusBandwidth | None = None,
) -> Independent:
    """Return the model.

    :param all_reduce: a table of one's own measurements; ``None`` = drawn from the calibration, as the next.
    """
    reductions = all_reduce or drawn("all-reduce", calibration)
    transfers = send_recv or drawn("send-recv", calibration)

    def price(placed: PlacedJob) -> StepTime:
        traffic, bandwidth = traffic_of(placed.job, placed.model), node_bandwidth(placed)
        rows = len(placed.nodes)
        domains = job_level(placed.cluster, placed.job).domain_of[placed.nodes]
        one, other = hops_of(domains, around=placed.chunks > 1)
        spreads = np.where(one != other, spread_of_rows(domains)[:, None], 1)

        def communication(dp_spread: int, hop_spread: IntArray) -> Communication:
            share = float(reductions.at(traffic.dp, dp_spread))
            hops = traffic.pp / (bandwidth * transfers.at(traffic.pp, hop_spread))
            return Communication(
                dp=reduction_seconds(traffic, rows, bandwidth * share),
                pp=pipeline_seconds(hops, microbatches=traffic.microbatches, chunks=placed.chunks),
            )

        found = communication(int(columns_at(domains).touched.max()), spreads)
        ideal = communication(1, np.ones((1, spreads.shape[1]), dtype=np.int32))
        return step_time(placed, found, ideal, calibration)

    return Independent(
        "alpha-beta",
        "each collective at the bus bandwidth measured for its size and its number of minipods",
        (
            f"A collective loses up to {calibration.collective_loss:.0%} of its bus bandwidth, evenly more with each "
            f"minipod up to {calibration.full_loss_from}; send-recv, when it crosses between minipods, up to "
            f"{calibration.send_recv_loss:.0%}.",
            "A hop inside a minipod loses nothing, wherever the rest of its PP group lies.",
            *of_volumes(calibration),
            "Others on the network are as they were when the bandwidth was measured.",
        ),
        price,
    )
