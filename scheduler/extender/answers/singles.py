"""Single pods with GPUs: where they do the least harm to gangs.

Of the nodes that are promised to nobody, those come first that are in use anyway, the fullest of them; an idle node is
broken into last, and then one whose domains have the fewest idle nodes left, the broadest level first, so that large
free domains stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import compress, repeat

import numpy as np

from scheduler.extender.fleet import Fleet, Occupancy
from topology.cluster import IntArray


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
    best = _best(occupancy, rows[fits], gpus)
    chosen = position[fits][best].tolist()
    return [names[i] for i in chosen], refused


def _best(occupancy: Occupancy, rows: IntArray, gpus: int) -> IntArray:
    """Indices into ``rows``: those that are least in order, all that are equal."""
    left = np.arange(len(rows), dtype=np.int32)
    keys = (occupancy.idle[rows], occupancy.free[rows] - gpus, *(count[rows] for count in occupancy.idle_in_domain))
    for key in keys:
        if len(left) > 1:
            left = left[key[left] == key[left].min()]
    return left
