"""Several jobs and their weights on one cluster, and what a placement of one of them costs in the sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor, inf, lcm

import numpy as np

from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.objective import Evaluation, objective_of, objective_terms, slowest_in_use, trivial_bound, worth_of
from scheduler.outcome import Outcome
from scheduler.placement.admission import for_each_size
from scheduler.placement.sharing.job_shapes import PlacementShape
from scheduler.placement.sharing.node_classes import NodeOption
from scheduler.placement.sharing.share_part import OptionCosts
from scheduler.placement.types import Limits, PlacementAlgorithm
from scheduler.second_levels import closest_named
from topology.cluster import BoolArray, Cluster, IntArray

MOST_SCALE = 10**6  # Whole numbers in a program are at most so many to one: finer ones make its arithmetic slow
ROUNDING = 1e-9  # A number this close to a fraction of a small denominator is that fraction


@dataclass(frozen=True)
class JointQuestion:
    """Where several jobs go; the sum of ``weight * objective / speed`` is to be least."""

    cluster: Cluster
    jobs: tuple[Job, ...]
    weights: tuple[float, ...]  # one for each job, above 0

    @cached_property
    def emptied(self) -> Cluster:
        """The cluster with no node in use."""
        return self.cluster.emptied()

    @cached_property
    def _ways(self) -> tuple[Mapping[int, Job], ...]:
        """Each job as one for nodes of one size, by that size."""
        return tuple({way.gpus_per_node: way for way in for_each_size(self.cluster, job)} for job in self.jobs)

    def sized(self, j: int, nodes: IntArray) -> Job:
        """Return one job as one for nodes of the size that some nodes have, shape [rows, columns]."""
        return self._ways[j].get(int(self.cluster.gpus[nodes.flat[0]]), self.jobs[j])

    def cost(self, j: int, nodes: IntArray) -> float:
        """Return what a placement of one job adds to the sum; infinite where it breaks a rule."""
        worth = worth_of(self.cluster, self.sized(j, nodes), nodes)
        return inf if worth is None else self.cost_of(j, worth)

    def cost_of(self, j: int, worth: Evaluation) -> float:
        """Return what an evaluated placement of one job adds to the sum."""
        return self.priced(j, worth.objective, self.jobs[j].speed_on(worth.gpu_types))

    def shape_cost(self, j: int, shape: PlacementShape, speed: float) -> float:
        """Return what a shape of one job adds to the sum, its parts in as many domains, at a speed."""
        return self.priced(j, objective_of(self.jobs[j], *shape.pair, shape.soft), speed)

    def priced(self, j: int, objective: float, speed: float) -> float:
        """Return what an objective of one job adds to the sum, at a speed."""
        return self.weights[j] * objective / speed

    @cached_property
    def scale(self) -> int:
        """By how much costs are multiplied to become whole numbers: exact where weights and affinities are simple."""
        denominators = 1
        for job, weight in zip(self.jobs, self.weights, strict=True):
            speeds = {one.factor for one in job.speed} | {1.0}
            shares = {job.alpha, job.beta, *(term.weight for term in job.soft)}
            for number in (weight * share / speed for share in sorted(shares) for speed in speeds):
                near = Fraction(number).limit_denominator(1000)
                if abs(near - number) > ROUNDING:
                    return MOST_SCALE
                denominators = lcm(denominators, near.denominator)
        return min(denominators, MOST_SCALE)

    def whole(self, cost: float) -> int:
        """Return a cost as a whole number, rounded down: what is least in whole numbers is a bound."""
        return floor(cost * self.scale + ROUNDING * self.scale)

    def option_costs(self, j: int, options: Sequence[NodeOption]) -> list[OptionCosts]:
        """Return Eq. 2 of one job in whole numbers, for each of its options; the soft terms are their least."""
        job = self.jobs[j]
        return [
            OptionCosts(
                *(self.whole(self.priced(j, part, one.speed)) for part in (job.alpha, job.beta, job.least_soft))
            )
            for one in options
        ]

    def term_prices(self, j: int, options: Sequence[NodeOption]) -> list[list[int]]:
        """Return in whole numbers what one domain more costs in each term of one job's objective, for each option."""
        terms = objective_terms(self.cluster, self.jobs[j])
        return [[self.whole(self.priced(j, term.weight, one.speed)) for term in terms] for one in options]

    def shape_costs(self, j: int, shapes: Sequence[PlacementShape], options: Sequence[NodeOption]) -> list[list[int]]:
        """Return what each shape of one job adds to the sum with each of its options, in whole numbers."""
        return [[self.whole(self.shape_cost(j, shape, one.speed)) for one in options] for shape in shapes]


def only(cluster: Cluster, nodes: BoolArray) -> Cluster:
    """Return the cluster with all other nodes in use.

    :param nodes: shape [nodes].
    """
    return cluster.replace(free_gpus=np.where(nodes, cluster.free_gpus, 0).astype(cluster.free_gpus.dtype))


def run_on_its_levels(solver: PlacementAlgorithm, cluster: Cluster, job: Job, limits: Limits) -> Outcome:
    """Place one job on a cluster without the levels that its objective and constraints do not name.

    The objective is the same, and most of the time goes to closer levels, which the sum of several jobs does not count.
    """
    closest = max(closest_named(cluster, way) for way in for_each_size(cluster, job))
    cluster = cluster.replace(levels=cluster.levels[: closest + 1])
    return run(solver, cluster, job, limits)


def slowest_allowed(cluster: Cluster, job: Job, tried: Sequence[Outcome | None]) -> float:
    """Return up to which slowdown a job may have nodes: under ``price`` as slow as a placement of it took."""
    placed = [one.evaluation for one in tried if one is not None and one.evaluation is not None]
    if job.avoid != "price" or not placed:
        return inf
    return max(slowest_in_use(cluster, one) for one in placed)


def least_alone(question: JointQuestion, j: int, alone: Outcome) -> float | None:
    """Return what one job adds to the sum at least, on nodes no slower than it may have; ``None`` = nothing is known.

    :param alone: the outcome of the job by itself, whose slowest node says which these are.
    """
    slowest = slowest_allowed(question.cluster, question.jobs[j], [alone])
    if alone.evaluation is None:
        return None
    if not alone.by_type:
        bound, speed = alone.bound_up_to(slowest), question.jobs[j].speed_on(alone.evaluation.gpu_types)
        return None if bound is None else question.priced(j, bound, speed)
    costs = []
    for option, (job, there) in zip(alone.types, alone.by_type, strict=True):
        if there.status != "infeasible":
            bound = there.bound_up_to(slowest) or trivial_bound(job)
            costs.append(question.priced(j, bound, job.speed_on(option.gpu_types)))
    return min(costs)


def bound_at(speed: float, job: Job, proved: Outcome) -> float | None:
    """Return a bound of the objective on nodes of a speed, from one that holds for all types, in its own speed."""
    if proved.bound is None or proved.evaluation is None:
        return None
    return proved.bound / job.speed_on(proved.evaluation.gpu_types) * speed
