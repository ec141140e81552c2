"""What the objective of a job depends on: families, levels and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from scheduler.job import Family, Job
from scheduler.objective import job_level
from topology.cluster import Cluster, IntArray

_LARGEST_SCALE = 10**9


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the objective: ``weight`` times the spread of a family at the level of a depth."""

    depth: int
    family: Family
    weight: float


def terms_of(cluster: Cluster, job: Job) -> tuple[Term, ...]:
    """Eq. 2 and the soft terms.

    :raises UnknownName: the job names a level that the cluster does not have.
    """
    depth = cluster.level_index(job_level(cluster, job).name)
    soft = (Term(cluster.level_index(count.level), count.family, count.weight) for count in job.counts)
    return (Term(depth, "dp", job.alpha), Term(depth, "pp", job.beta), *soft)


def closest_depth(cluster: Cluster, job: Job) -> int:
    """Depth of the closest level that the objective or a hold looks at."""
    held = (cluster.level_index(hold.level) for hold in job.holds)
    return max(*(term.depth for term in terms_of(cluster, job)), *held)


def ancestors(cluster: Cluster, depth: int, above: int) -> IntArray:
    """For each domain of one level its domain at a broader one (or itself), shape [domains]."""
    found = np.arange(len(cluster.levels[depth]), dtype=np.int32)
    for closer in range(depth, above, -1):
        found = cluster.levels[closer].parent_of[found]
    return found


def integer_weights(terms: Sequence[Term]) -> tuple[list[int], int]:
    """Weights times a common scale: exact where they are plain decimals, within half a billionth elsewhere."""
    scale = lcm(*(Fraction(term.weight).limit_denominator(10**6).denominator for term in terms))
    scale = min(scale, _LARGEST_SCALE)
    return [round(term.weight * scale) for term in terms], scale
