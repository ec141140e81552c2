"""Several jobs and their weights on one cluster, and what every search of them shares.

What a placement of one of them costs in the sum; the placements that were seen so far, to be laid out anew, and what
every placement satisfies, in a program (:mod:`scheduler.placement.share_program`); and the way from shares of classes
back to nodes that no two jobs share, and cells on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import floor, inf, lcm
from typing import TYPE_CHECKING

import numpy as np

from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.job_on_cluster import closest_named, within_the_tree
from scheduler.objective import Evaluation, objective_of, objective_terms, slowest_in_use, trivial_bound, worth_of
from scheduler.outcome import Outcome
from scheduler.placement.admission import blocks_at, for_each_size
from scheduler.placement.exact.solve import solve_grid
from scheduler.placement.node_classes import NodeClasses, NodeDemand, NodeOption, orderly, seat_in_classes
from scheduler.placement.seating import seat
from scheduler.placement.share_parts import CellWays, OptionCosts, PlacementShape, even_rectangles, shape_placed
from scheduler.placement.types import Limits, PlacementAlgorithm
from topology.cluster import BoolArray, Cluster, IntArray

if TYPE_CHECKING:
    from scheduler.placement.share_parts import JobWays, SharePart
    from scheduler.placement.share_program import Solution, Variable

MOST_SCALE = 10**6  # Whole numbers in a program are at most so many to one: finer ones make its arithmetic slow
WHOLE = 1e-6  # A bound in floating point that is this close above a whole number is that number
ROUNDING = 1e-9  # A number this close to a fraction of a small denominator is that fraction


@dataclass(frozen=True)
class JointQuestion:
    """Where several jobs go; the sum of ``weight * objective / speed`` is to be least."""

    cluster: Cluster
    jobs: tuple[Job, ...]
    weights: tuple[float, ...]  # one for each job, above 0
    # the cluster as each job has it: flags and nodes that are kept out may differ; empty = all have it alike
    seen: tuple[Cluster, ...] = ()

    def seen_by(self, j: int) -> Cluster:
        """Return the cluster as one job has it."""
        return self.seen[j] if self.seen else self.cluster

    @cached_property
    def emptied(self) -> tuple[Cluster, ...]:
        """The cluster as each job has it, with no node in use."""
        return tuple(self.seen_by(j).emptied() for j in range(len(self.jobs)))

    @cached_property
    def _ways(self) -> tuple[Mapping[int, Job], ...]:
        """Each job as one for nodes of one size, by that size."""
        return tuple({way.gpus_per_node: way for way in for_each_size(self.cluster, job)} for job in self.jobs)

    def sized(self, j: int, nodes: IntArray) -> Job:
        """Return one job as one for nodes of the size that some nodes have, shape [rows, columns]."""
        return self._ways[j].get(int(self.cluster.gpus[nodes.flat[0]]), self.jobs[j])

    def cost(self, j: int, nodes: IntArray) -> float:
        """Return what a placement of one job adds to the sum; infinite where it breaks a rule."""
        worth = worth_of(self.seen_by(j), self.sized(j, nodes), nodes)
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
            speeds = {speed.factor for speed in job.speed} | {1.0}
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
                *(self.whole(self.priced(j, part, option.speed)) for part in (job.alpha, job.beta, job.least_soft))
            )
            for option in options
        ]

    def term_prices(self, j: int, options: Sequence[NodeOption]) -> list[list[int]]:
        """Return in whole numbers what one domain more costs in each term of one job's objective, for each option."""
        terms = objective_terms(self.cluster, self.jobs[j])
        return [[self.whole(self.priced(j, term.weight, option.speed)) for term in terms] for option in options]


def only(cluster: Cluster, nodes: BoolArray) -> Cluster:
    """Return the cluster with all other nodes in use than some, shape [nodes]."""
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
    placed = [outcome.evaluation for outcome in tried if outcome is not None and outcome.evaluation is not None]
    if job.avoid != "price" or not placed:
        return inf
    return max(slowest_in_use(cluster, worth) for worth in placed)


def least_alone(question: JointQuestion, j: int, alone: Outcome) -> float | None:
    """Return what one job adds to the sum at least, on nodes no slower than it may have; ``None`` = nothing is known.

    :param alone: the outcome of the job by itself, whose slowest node says which these are.
    """
    slowest = slowest_allowed(question.seen_by(j), question.jobs[j], [alone])
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


class SeenPlacements:
    """Placements of one job, by its ways: as shapes, whose parts may go elsewhere, or, where a constraint is at a
    second hierarchy, as the classes of their cells.

    :param j: number of the job; ``by_cell``: its ways of which a program may decide each cell.
    """

    def __init__(self, question: JointQuestion, j: int, classes: NodeClasses, by_cell: CellWays) -> None:
        self._question, self._j, self._classes, self._by_cell = question, j, classes, by_cell
        self._shapes: list[dict[tuple[object, ...], PlacementShape]] = [{} for _ in classes.demands[j]]
        self._cells: list[dict[bytes, tuple[IntArray, int]]] = [{} for _ in classes.demands[j]]

    def __len__(self) -> int:
        return sum(map(len, self._shapes)) + sum(map(len, self._cells))

    def learn(self, nodes: IntArray) -> None:
        """Take in a placement, on any nodes of the cluster; one that breaks a rule is left out."""
        question, empty = self._question, self._question.emptied[self._j]
        job = question.sized(self._j, nodes)
        if (worth := worth_of(empty, job, nodes)) is None:
            return
        w = [demand.job.gpus_per_node for demand in self._classes.demands[self._j]].index(job.gpus_per_node)
        demand, classes = self._classes.demands[self._j][w], self._classes.class_of[nodes.ravel()]
        if not demand.beside:
            shape = shape_placed(empty, job, worth, nodes, movable=demand.movable)
            self._shapes[w].setdefault(shape.key, shape)
        elif (classes >= 0).all() and demand.admits[classes].all():
            self._cells[w][classes.tobytes()] = classes, question.whole(question.cost_of(self._j, worth))

    def offer(self, part: JobWays, *, most: int | None, count: int) -> Variable:
        """Add that the job has one of these placements, or another with the same shape; return its cost.

        :param most: in whole numbers, what a placement may cost; ``None`` = anything.
        :param count: how many placements of each way at most, the cheapest.
        """
        question, j, costs = self._question, self._j, []
        for w, way in enumerate(part.ways):
            options = way.demand.options
            if way.demand.beside and (j, w) in self._by_cell:
                costs.append(way.add_cells(question.term_prices(j, options)))
            elif way.demand.beside:
                costs.append(way.add_known(sorted(self._cells[w].values(), key=lambda seen: seen[1])[:count]))
            else:
                shapes = self._offered(way.demand, self._shapes[w].values(), most=most, count=count)
                prices = [
                    [question.whole(question.shape_cost(j, shape, option.speed)) for option in options]
                    for shape in shapes
                ]
                costs.append(way.add_shapes(shapes, prices, question.option_costs(j, options), most=most))
        return part.together(costs)

    def _offered(
        self, demand: NodeDemand, seen: Iterable[PlacementShape], *, most: int | None, count: int
    ) -> list[PlacementShape]:
        """Return known shapes of one way, and even rectangles, the cheapest; parameters as of :meth:`offer`."""
        question, j, shapes = self._question, self._j, list(seen)
        job = question.jobs[j]
        if demand.movable:
            domains = len(np.unique(demand.blocks.domain_of[demand.admits]))
            dp, pp = (range(1, min(lines, domains) + 1) for lines in (demand.rows, demand.columns))
            pairs = list(product(dp, pp))
            if demand.aligned:
                # R = 1 and S = 1 need no shape; only with soft terms one that is known says more
                pairs = [pair for pair in pairs if min(pair) > 1]
                shapes = [shape for shape in shapes if min(shape.pair) > 1 or job.soft]
            cheap = sorted(pairs, key=lambda pair: (objective_of(job, *pair), max(pair)))[:count]
            shapes += [even_rectangles(demand.rows, demand.columns, pair) for pair in cheap]
        costs = {shape.key: (question.shape_cost(j, shape, demand.fastest), len(shape.sizes)) for shape in shapes}
        distinct = {shape.key: shape for shape in shapes if most is None or question.whole(costs[shape.key][0]) <= most}
        return sorted(distinct.values(), key=lambda shape: costs[shape.key])[:count]


def bounded_cost(
    question: JointQuestion, j: int, part: JobWays, *, least: int, most: int | None, by_cell: CellWays
) -> Variable:
    """Add what every placement of a job satisfies; return its cost.

    :param least: in whole numbers, a cost below which it has no placement, whatever the others take.
    :param most: a cost above which a placement is of no use; ``None`` = any may be.
    :param by_cell: ways of which each cell is decided: then nothing is left out.
    """
    costs = []
    for w, way in enumerate(part.ways):
        options = way.demand.options
        cost = way.add_rectangles(question.option_costs(j, options), least=least, most=most)
        if (j, w) in by_cell:
            # by cells is what the job costs, by cases what it costs at least: the program sees that sooner
            by_cases, cost = cost, way.add_cells(question.term_prices(j, options))
            part.cp.add(cost >= by_cases)
        costs.append(cost)
    return part.together(costs)


SEATING_SECONDS = 0.1  # Most wall time of seating one job: its spread is fixed, this is about closer levels


def disjoint_grants(
    cluster: Cluster, classes: NodeClasses, shares: Sequence[Mapping[int, int]], *, free: BoolArray
) -> list[BoolArray]:
    """Return nodes for each job, shape [nodes], no node twice: all of a class that no other job takes, else its share.

    :param shares: class -> nodes, for each job.
    :param free: shape [nodes], nodes to choose among; of each class at least as many as all shares together.
    """
    grants = [np.zeros(len(cluster), dtype=np.bool_) for _ in shares]
    ordered = orderly(cluster, free & (classes.class_of >= 0))
    for c in {c for share in shares for c in share}:
        left = ordered[classes.class_of[ordered] == c]
        takers = sorted((j for j, share in enumerate(shares) if share.get(c)), key=lambda j: -shares[j][c])
        for j in takers:
            count = len(left) if len(takers) == 1 else shares[j][c]
            grants[j][left[:count]] = True
            left = left[count:]
    return grants


def last_of_each(cluster: Cluster, classes: NodeClasses, nodes: BoolArray, counts: Mapping[int, int]) -> BoolArray:
    """Return the last of some nodes, in order: as many of each class as are counted; shape [nodes]."""
    ordered, last = orderly(cluster, nodes), np.zeros_like(nodes)
    for c, count in counts.items():
        # a slice from -0 on would be all of them
        if count:
            last[ordered[classes.class_of[ordered] == c][-count:]] = True
    return last


def placed_as_in(
    cluster: Cluster, way: SharePart, solver: Solution, *, classes: NodeClasses, granted: BoolArray
) -> IntArray | None:
    """Return the node of each cell, shape [rows, columns], as a way of a job is in a solution; ``None`` = the program
    does not say where its cells are.

    :param granted: shape [nodes], of each class at least as many nodes as the job takes.
    """
    job = way.demand.job
    if (class_of_cell := way.class_of_cell(solver)) is not None:
        return seat_in_classes(cluster, job, class_of_cell, classes.class_of, granted)
    if (domain_of_block := way.laid_out(solver)) is None:
        return None
    blocks = blocks_at(cluster, job, cluster.level_index(job.level))
    domain_of_cell = domain_of_block[blocks.row_of[:, None], blocks.column_of[None, :]]
    return _seated(cluster, job, domain_of_cell, granted & classes.nodes_of(way.admitted(solver)))


def seated_again(
    question: JointQuestion, jobs: Sequence[Job], *, nodes: Sequence[IntArray], classes: NodeClasses
) -> list[IntArray]:
    """Return other nodes for some placements, closer together at closer levels: each cell stays in its domain.

    :param jobs: those of the question, each as one for nodes of the size that it has.
    :param nodes: of each job, shape [rows, columns], none twice.
    """
    left, after = classes.class_of >= 0, []
    for own in nodes:
        left[own.ravel()] = False
    for j, (job, own) in enumerate(zip(jobs, nodes, strict=True)):
        cluster = question.seen_by(j)
        left[own.ravel()] = True
        after.append(own)
        if job.grid.aligned:
            alike = np.isin(cluster.gpu_type_of, cluster.gpu_type_of[own]) & (cluster.gpus == job.gpus_per_node)
            granted = left & classes.admitted(j) & alike & (cluster.slowdown <= cluster.slowdown[own].max())
            # one after the other a job may have come to nodes slower than it has alone
            granted[own.ravel()] = True
            again = _seated(cluster, within_the_tree(cluster, job), cluster.level(job.level).domain_of[own], granted)
            now, then = (worth_of(cluster, job, placed) for placed in (own, again))
            if now is not None and then is not None and _rank(then) < _rank(now):
                after[-1] = again
        left[after[-1].ravel()] = False
    return after


def _rank(worth: Evaluation) -> tuple[float, ...]:
    return tuple(round(goal, 9) for goal in worth.goals)


def _seated(cluster: Cluster, job: Job, domain_of_cell: IntArray, granted: BoolArray) -> IntArray:
    return seat(
        cluster,
        job,
        level=cluster.level(job.level),
        domain_of_cell=domain_of_cell,
        admitted=granted,
        solve_grid=solve_grid,
        seconds=SEATING_SECONDS,
    )
