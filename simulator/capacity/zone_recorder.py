"""Who holds a zone, and how much of the cluster is held, sampled while a replay goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SAMPLE = 300.0
"""Seconds between two samples."""


class ZoneRecorder:
    """Samples of one run; an observer of the engine.

    ``samples``: time, share of the GPUs that jobs hold, nodes of the zone that others hold, jobs in the queue; each of
    what was until then.

    :param zone: nodes.
    :param owner: id of the job whose zone it is.
    :param begin: time of the first sample, as the next of the last at most.
    """

    def __init__(self, zone: Sequence[int], *, owner: str, begin: float, end: float) -> None:
        self._owner = owner
        self._zone = np.array(zone, dtype=np.int64)
        self._next, self._end = begin, end
        self.samples: list[tuple[float, float, int, int]] = []

    def elapsed(self, cluster: Any, until: float) -> None:
        """Nothing changes until then."""
        if self._next > min(until, self._end):
            return
        held = cluster.pool.total - cluster.pool.free
        allocation = float(held.sum()) / cluster.pool.capacity
        others = np.zeros(len(held), dtype=np.bool_)
        for job in cluster.active.values():
            if job.record.job_id != self._owner:
                others[list(job.places)] = True
        in_zone = int(others[self._zone].sum())
        while self._next <= min(until, self._end):
            self.samples.append((self._next, allocation, in_zone, len(cluster.backlog)))
            self._next += SAMPLE

    def state(self) -> Any:
        """Nothing: a study is not resumed in the middle of a replay."""

    def restore(self, state: Any) -> None:
        """As :meth:`state`."""
