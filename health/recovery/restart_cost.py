"""What a restart costs: the job queued again against its processes updated in place.

Source: ByteRobust (arXiv 2509.16293), measured on machines of 16 GPUs.  A requeue gives the job new pods; a hot update
keeps the pods and restarts the training process alone.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

RestartKind = Literal["requeue", "hot-update"]


class RestartCost(NamedTuple):
    """One measurement: machines of the job, 16 GPUs each, and seconds of both kinds of restart."""

    machines: int
    requeue: float
    hot_update: float


RESTART_COSTS = (
    RestartCost(128, requeue=454.0, hot_update=46.0),
    RestartCost(256, requeue=545.0, hot_update=51.0),
    RestartCost(512, requeue=635.0, hot_update=54.0),
    RestartCost(1024, requeue=768.0, hot_update=65.0),
)


def restart_seconds(machines: float, kind: RestartKind) -> float:
    """Return seconds that a restart of so many machines takes, between the measurements linear in the logarithm of the
    size; outside of them that of the nearest: nothing is known there.
    """
    import numpy as np

    sizes, requeue, hot_update = zip(*RESTART_COSTS, strict=True)
    return float(np.interp(np.log2(machines), np.log2(sizes), requeue if kind == "requeue" else hot_update))
