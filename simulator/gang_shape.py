"""How many nodes a job takes, and how many GPUs of each: the one place where this is decided.

A trace says how many GPUs a job had; few say on how many nodes.  The scheduler places gangs of equal cells, so a job
that does not say takes, on nodes of g GPUs:

- up to g GPUs: one node;
- more: n >= ceil(G / g) nodes of G / n GPUs each, for the smallest n that divides G and leaves the nodes at least half
  full (n <= 2 ceil(G / g)): 12 GPUs lie on 2 nodes of 8 as 6 + 6, 20 on 4 as 5 + 5 + 5 + 5;
- where no such n divides G (13, 17), or the cluster has fewer than n such nodes (20 GPUs on 3 nodes of 8): ceil(G / g)
  whole nodes; what is over stays idle and is held all the same;
- where the cluster has not even these: as many of its larger nodes as hold it in equal parts, if there are any.

A job with parallelism of more than one node takes whole nodes, as its groups cut them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from ground.errors import InvalidJob
from simulator.job_record import JobRecord


def shape(
    record: JobRecord, gpus_per_node: int, *, nodes_with: Callable[[float], int] | None = None
) -> tuple[int, float]:
    """Return nodes of a job, and the GPUs it holds on each: whole ones, or a share of one below 1.

    The product is what the job holds: ``record.gpus``, or more where it was rounded up to whole nodes.

    :param nodes_with: how many nodes have so many GPUs for jobs; ``None`` = as many of the usual size as may be needed.
    :raises InvalidJob: the nodes it asks for would need more GPUs each, or its parallelism does not cut into nodes.
    """
    gpus = record.gpus

    def there_are(nodes: int) -> bool:
        each = gpus / nodes
        return each <= gpus_per_node if nodes_with is None else nodes_with(each) >= nodes

    if record.nodes is not None:
        each = gpus / record.nodes
        if each > gpus_per_node and not there_are(record.nodes):
            raise InvalidJob(
                f"job {record.job_id} asks for {each:g} GPUs on each of {record.nodes} nodes",
                fix=f"nodes have {gpus_per_node} GPUs: ask for more of them, or leave the number of nodes open",
            )
        if record.parallelism is not None and record.nodes > 1:
            record.parallelism.shape(int(each))
        return record.nodes, each
    if gpus <= gpus_per_node:
        return 1, gpus
    if record.parallelism is not None:
        rows, columns = record.parallelism.shape(gpus_per_node)
        return rows * columns, float(gpus_per_node)
    least = ceil(gpus / gpus_per_node)
    divisions = list(range(least, 2 * least + 1))
    if nodes_with is None or nodes_with(gpus_per_node) < least:
        divisions += range(least - 1, 0, -1)
    nodes = next((nodes for nodes in divisions if gpus % nodes == 0 and there_are(nodes)), None)
    return (least, float(gpus_per_node)) if nodes is None else (nodes, gpus / nodes)
