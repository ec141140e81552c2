"""Single pods with GPUs: of the nodes that are promised to nobody, the best by ``scheduler.placement.singles``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import compress, repeat

import numpy as np

from scheduler.extender.fleet import Fleet
from scheduler.placement import singles


def tightest(fleet: Fleet, names: Sequence[str], gpus: int, now: datetime) -> tuple[list[str], dict[str, str]]:
    """The nodes that fit a pod best, all equally well; and those that no preemption would open to it, with the reason.

    :param names: the nodes that the scheduler thinks fit.
    :param gpus: GPUs that the pod asks for, at least 1.
    """
    occupancy = fleet.occupancy
    rows = np.fromiter(map(fleet.table.index_of.get, names, repeat(-1)), np.int32, len(names))
    position = np.flatnonzero(rows >= 0)
    rows = rows[position]
    promised = np.zeros(len(names), dtype=np.bool_)
    promised[position] = occupancy.promised[rows]
    refused = dict.fromkeys(compress(names, promised.tolist()), "promised to a gang")
    fits = (occupancy.free[rows] >= gpus) & ~occupancy.promised[rows]
    for i in np.flatnonzero(fits & occupancy.annotated[rows]).tolist():
        name = names[position[i]]
        if ailment := fleet.ailing(name, now):
            refused[name] = ailment
            fits[i] = False
    best = singles.tightest(
        rows[fits], free=occupancy.free, idle=occupancy.idle, idle_in_domain=occupancy.idle_in_domain
    )
    chosen = position[np.isin(rows, best)].tolist()
    return [names[i] for i in chosen], refused
