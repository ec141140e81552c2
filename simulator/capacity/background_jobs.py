"""The other jobs of a cluster: of the LLM workload generator, asking for a given share of its GPU time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.job_record import JobRecord
    from topology.cluster import Cluster

DAY = 86_400.0

GENERATED_NODE = 8
"""GPUs of the nodes that the generator divides its jobs over."""


@dataclass(frozen=True, slots=True)
class BackgroundJobs:
    """Jobs in order of submission."""

    records: tuple[JobRecord, ...]
    asked: float
    """GPU time that the jobs ask for, as a share of the cluster's."""


def background_jobs(
    cluster: Cluster, *, load: float, seconds: float, seed: int, longest: float = inf
) -> BackgroundJobs:
    """Draw jobs of debugging, fine-tuning and small training, 8 to 256 GPUs.

    More jobs are made than are wanted, and a random part of them is kept: so the share comes out as asked for, however
    few the jobs and however much run times are cut.  On nodes of another size than the generator's they are data
    parallel.

    :param load: GPU time wanted, as a share of what the cluster has.
    :param seconds: for how long they are submitted.
    :param longest: run times are cut to it, seconds.
    """
    import numpy as np

    from simulator.gang_shape import node_size
    from simulator.workload import WorkloadSpec, generate

    gpus = int(cluster.gpus.sum())
    spec = WorkloadSpec(
        days=seconds / DAY,
        gpus=gpus,
        # four times what is wanted, for most run times may be cut; the generator takes 10 at most
        load=min(10.0, 4.0 * load),
        seed=seed,
        kinds=("other",),
        max_gpus=max(GENERATED_NODE, gpus // 4),
    )
    made = [replace(one, duration=min(one.duration, longest)) for one in generate(spec)]
    if node_size(cluster) != GENERATED_NODE:
        made = [replace(one, parallelism=None) for one in made]
    order = np.random.default_rng((seed, 1)).permutation(len(made))
    asked = np.cumsum([made[i].gpus * made[i].duration for i in order]) / (gpus * seconds)
    kept = min(len(made), int(np.searchsorted(asked, load)) + 1)
    records = tuple(made[i] for i in sorted(order[:kept].tolist()))
    return BackgroundJobs(records, float(asked[kept - 1]) if kept else 0.0)
