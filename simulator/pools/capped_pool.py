"""A cluster whose power domains have caps: a job whose peak does not fit waits."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.power_caps import PowerCaps
from scheduler.queue.policy import Keep
from simulator.job_record import JobRecord
from simulator.pools.node_pool import NodePool
from simulator.pools.pool import Disagreement, Found
from simulator.sim_job import UNITS, Need, SimJob
from topology.cluster import BoolArray, Cluster, FloatArray, most_together


class CappedPool(NodePool):
    """Nodes in domains, and in power domains.

    A part of a node draws as large a part of what its GPUs add at most; GPUs in use from the start count too.

    :param idle: shape [nodes], watts without a job.
    :param peak: shape [nodes], watts at most.
    """

    def __init__(
        self, cluster: Cluster, *, caps: PowerCaps, idle: FloatArray, peak: FloatArray, **settings: Any
    ) -> None:
        super().__init__(cluster, **settings)
        self._caps, self._idle = caps, idle
        self._of_unit: FloatArray = (peak - idle) / (cluster.gpus * UNITS)
        self._others: FloatArray = idle + self._of_unit * (cluster.gpus - cluster.free_gpus) * UNITS

    def need(self, record: JobRecord) -> Need:
        """Return nodes and units on each, as without caps.

        :raises Disagreement: also where the caps would not let it run on the empty cluster.
        """
        need = super().need(record)
        usable = self._usable_for(need.nodes, need.gpus, record.gpu_types)
        admitted = self._admitted(usable, need.gpus, self._others)
        if most_together(self.cluster, admitted, mix_types=record.mix_types) < need.nodes:
            asked = f"{need.nodes} nodes with {need.gpus / UNITS:g} GPUs each at their peak"
            fix = "raise the caps of the power file, or ask for less"
            raise Disagreement("power cap", f"{asked}; {self._caps.level.name} has power for fewer", fix=fix)
        return need

    def find(self, job: SimJob, keep: Keep) -> Found | None:
        """Return nodes for the job on which its peak keeps all caps."""
        kept = np.zeros_like(self.free) if keep is None else keep
        fits: BoolArray = self.usable(job) & (self.free - kept >= job.gpus)
        admitted = self._admitted(fits, job.gpus, self._others + self._of_unit * (self.total - self.free))
        if admitted is fits:
            return super().find(job, keep)
        return super().find(job, np.where(admitted, kept, np.maximum(self.free, kept)))

    def _admitted(self, nodes: BoolArray, units: int, drawn: FloatArray) -> BoolArray:
        return self._caps.admitted(self.cluster, nodes, self._of_unit * units, drawn)
