"""Whether a trace and a cluster belong together, said before anything runs.

A job that no state of the cluster can hold would wait for ever, and under first-in-first-out all behind it too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.gang_shape import node_size, shape
from simulator.job_record import JobRecord
from simulator.traces.job_trace import JobTrace
from topology.cluster import Cluster, IntArray
from topology.errors import InvalidJob, InvalidTopology, TraceFormatError

TOO_LARGE = "larger than the cluster"  # The reason by which such jobs are counted
NAMED = 3  # Jobs that the message names


def check_against(trace: JobTrace, cluster: Cluster, *, lenient: bool = False) -> JobTrace:
    """Return the trace, once it is sure that every job of it fits into the cluster when no other is there.

    :param lenient: drop jobs that do not fit and count them as :data:`TOO_LARGE`.
    :raises TraceFormatError: some do not fit and reading is strict, or none is left; names the first.
    :raises InvalidTopology: the cluster has no node that a job could ever use.
    """
    free = np.sort(usable_gpus(cluster))
    size = node_size(cluster)
    reasons = {record.job_id: reason for record in trace.records if (reason := misfit(record, size, free))}
    if not reasons:
        return trace
    if not lenient or len(reasons) == len(trace):
        raise TraceFormatError(_complaint(list(reasons.values())), where=trace.source, fix=_FIX)
    return trace.without(dict.fromkeys(reasons, TOO_LARGE))


def usable_gpus(cluster: Cluster) -> IntArray:
    """Return GPUs that jobs can use, shape [nodes]: those that are free now, none of a faulty node.

    :raises InvalidTopology: there are none at all.
    """
    usable = np.where(np.isfinite(cluster.slowdown), cluster.free_gpus, 0)
    if not len(cluster) or usable.max() < 1:
        raise InvalidTopology(
            f"none of the {len(cluster):,} nodes of the cluster can be used: they are all faulty or busy",
            fix="give a cluster with nodes that have free GPUs and are not faulty",
        )
    return usable


_FIX = "give a larger cluster, leave large jobs out with --max-gpus, or drop those that do not fit with --lenient"


def misfit(record: JobRecord, gpus_per_node: int, free: IntArray) -> str:
    """Return why a job can never run; empty when it can.

    :param free: shape [nodes], GPUs that a job can use on each node, ascending.
    """

    def nodes_with(gpus: float) -> int:
        return len(free) - int(np.searchsorted(free, gpus, side="left"))

    try:
        nodes, gpus = shape(record, gpus_per_node, nodes_with=nodes_with)
    except InvalidJob as error:
        return f"job {record.job_id}: {error.message}"
    fitting = nodes_with(gpus)
    if fitting >= nodes:
        return ""
    where = "one node" if nodes == 1 else f"{nodes:,} nodes with {gpus:g} each"
    return f"job {record.job_id} needs {record.gpus:,g} GPUs ({where}), and the cluster has {fitting:,} such nodes"


def _complaint(reasons: Sequence[str]) -> str:
    count = len(reasons)
    jobs = "a job of the trace does" if count == 1 else f"{count:,} jobs of the trace do"
    rest = f"; and {count - NAMED:,} more" if count > NAMED else ""
    return f"{jobs} not fit into the cluster: {'; '.join(reasons[:NAMED])}{rest}"
