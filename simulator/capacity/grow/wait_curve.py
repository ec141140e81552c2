"""How long jobs wait by load: replays of one workload, whose jobs come closer and closer.

At a load of 1 or more a queue grows without end, and how long jobs wait hangs on how long it is watched: the wait has
no answer.  Below, the same jobs come in the same order, all times of submission divided by the load (common random
numbers), so that curves of several seeds differ by the jobs alone, and each rises with the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from scheduler.queue.queue_policy import POLICIES
from simulator.capacity.cluster_question import background_jobs
from simulator.engine.engine import Engine
from simulator.pools.gpu_pool import GpuPool
from simulator.replay_settings import QueueSettings
from topology.cluster import Cluster, FloatArray
from topology.quantities import DAY

if TYPE_CHECKING:
    from simulator.job_record import JobRecord

LOADS = (0.8, 0.9, 0.95)  # Loads that are replayed; lower ones hardly make jobs wait
WARM = 0.25  # Share of the jobs that fill the empty cluster, and are not counted
PERCENT = 95.0  # Percentile of the waits


@dataclass(frozen=True, slots=True)
class WaitCurve:
    """The 95th percentile of the waits of one workload, by load."""

    loads: tuple[float, ...]
    """Loads that were replayed, ascending, all above 0 and below 1."""
    waits: tuple[float, ...]
    """Seconds at each of them, not falling."""
    jobs: int = 0
    """Jobs of the workload."""

    def at(self, load: npt.ArrayLike) -> FloatArray:
        """Return seconds at loads of any shape, at least 0; infinite from 1 on.

        In heavy traffic the wait is proportional to 1 / (1 - load) (Kingman, 1961): wait times (1 - load) goes straight
        from point to point, from 0 at no load, and stays as it is above the highest load.
        """
        loads = np.asarray(load, dtype=np.float64)
        places = np.array([0.0, *self.loads])
        scaled = np.array([0.0, *(wait * (1.0 - at) for at, wait in zip(self.loads, self.waits, strict=True))])
        room = np.maximum(1.0 - loads, 1e-12)
        return np.where(loads < 1.0, np.interp(loads, places, scaled) / room, inf)

    def breaks(self, objective: float) -> float:
        """Return the load from which the wait is above an objective, in seconds, above 0; at most 1."""
        # to a ten-thousandth: the loads of a quarter are not known better
        loads = np.linspace(0.0, 1.0, 10_001)
        return float(loads[int(np.argmax(self.at(loads) > objective))])


def wait_curve(cluster: Cluster, settings: QueueSettings, *, days: float, seed: int) -> WaitCurve:
    """Replay the jobs of a seed at each of :data:`LOADS` on the empty cluster, whose GPUs are counted.

    :param days: for how long jobs are submitted at a load of 1.
    :raises ArnoldError: no policy is called that, or it shares and no job names its namespace.
    """
    made = background_jobs(cluster, load=1.0, seconds=days * DAY, seed=seed)
    waits = [_replay(cluster, settings, made.records, stretch=made.asked / load) for load in LOADS]
    # the later of two jobs may pass the earlier under some policies: what is left of that in the percentile is chance
    return WaitCurve(LOADS, tuple(np.maximum.accumulate(waits).tolist()), len(made.records))


def _replay(cluster: Cluster, settings: QueueSettings, records: Sequence[JobRecord], *, stretch: float) -> float:
    """Return the 95th percentile of the waits, seconds, with times of submission stretched."""
    policy = POLICIES.load(settings.policy)
    settings.check_policies([policy], records)
    jobs = [replace(one, submit=one.submit * stretch) for one in records]
    engine = Engine(jobs, GpuPool(cluster), policy, weights=settings.weight_of, share_by=settings.share_by)
    engine.run()
    counted = engine.jobs[int(WARM * len(jobs)) :]
    return float(np.percentile([job.first_start - job.submitted for job in counted], PERCENT)) if counted else 0.0
