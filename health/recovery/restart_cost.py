"""What a restart costs: the job queued again against its processes updated in place.

Source: ByteRobust (arXiv 2509.16293), measured on machines of 16 GPUs.  A requeue gives the job new pods; a hot update
keeps the pods and restarts the training process alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RestartKind = Literal["requeue", "hot-update"]


@dataclass(frozen=True, slots=True)
class RestartCost:
    """One measurement.

    :param machines: of the job, 16 GPUs each.
    :param requeue: seconds.
    :param hot_update: seconds.
    """

    machines: int
    requeue: float
    hot_update: float


RESTART_COSTS: tuple[RestartCost, ...] = (
    RestartCost(128, requeue=454.0, hot_update=46.0),
    RestartCost(256, requeue=545.0, hot_update=51.0),
    RestartCost(512, requeue=635.0, hot_update=54.0),
    RestartCost(1024, requeue=768.0, hot_update=65.0),
)


def restart_seconds(machines: float, kind: RestartKind) -> float:
    """Return seconds that a restart takes, between the measurements linear in the logarithm of the size.

    Outside of them it is the nearest measurement: nothing is known there.

    :param machines: above 0.
    """
    import numpy as np

    sizes = np.log2([cost.machines for cost in RESTART_COSTS])
    seconds = [cost.requeue if kind == "requeue" else cost.hot_update for cost in RESTART_COSTS]
    return float(np.interp(np.log2(machines), sizes, seconds))
