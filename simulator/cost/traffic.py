"""What a job sends between nodes in one step.

The volumes are those of the placement's own affinity (:func:`scheduler.affinity.volumes`; paper, appendix), cut to
nodes: what replicas in one node have in common crosses the network once, what they send each crosses for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from scheduler.affinity import Model, microbatches, volumes
from scheduler.job import Job, Parallelism

DEFAULT_MODEL = Model(hidden=4096, layers=32, vocab=32_000, sequence_length=4096)
"""What a job trains that does not say: the 7B model by which the paper checks its volumes (2 GB DP, 30 MB PP)."""

MICROBATCHES_A_STAGE = 4
"""Microbatches of a step for each pipeline stage where neither job nor model says: from there on the idle slots were
found negligible (Huang et al., "GPipe", NeurIPS 2019)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes between nodes.

    :param dp: gradients that a node reduces with its DP group in a step.
    :param pp: activations that a node sends to the next node of its PP group for one microbatch; their gradients come
        back, as many.
    :param stages: pipeline stages p.
    :param microbatches: m of a step.
    :param known_microbatches: whether job or model says m; else it is :data:`MICROBATCHES_A_STAGE` times p.
    """

    dp: float
    pp: float
    stages: int
    microbatches: int
    known_microbatches: bool


def traffic_of(job: Job, model: Model | None) -> Traffic:
    """Return the traffic of a job.

    :param model: ``None`` = :data:`DEFAULT_MODEL`.
    :raises InvalidJob: the groups do not cut into nodes, or the global batch not into microbatches.
    """
    return _traffic(job.parallelism, job.gpus_per_node, job.microbatches, model or DEFAULT_MODEL)


@lru_cache(maxsize=4096)
def _traffic(parallelism: Parallelism, gpus_per_node: int, given: int | None, model: Model) -> Traffic:
    rows, columns = parallelism.shape(gpus_per_node)
    sizes = volumes(model, parallelism)
    replicas_in_node = parallelism.cp * parallelism.dp // rows
    known = microbatches(model, parallelism) if given is None else given
    return Traffic(
        dp=sizes.dp * (parallelism.pp // columns),
        pp=sizes.pp * replicas_in_node,
        stages=parallelism.pp,
        microbatches=known or MICROBATCHES_A_STAGE * parallelism.pp,
        known_microbatches=known is not None,
    )
