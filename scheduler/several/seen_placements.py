"""What a program knows of one job: placements seen so far, to be laid out anew, and what every placement satisfies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from scheduler.objective import objective_of, worth_of
from scheduler.placement.sharing.cell_choice import CellWays
from scheduler.placement.sharing.job_shapes import PlacementShape, even_rectangles, pairs_up_to, shape_placed
from scheduler.placement.sharing.node_classes import NodeClasses, NodeDemand
from scheduler.several.joint_question import JointQuestion
from topology.cluster import IntArray

if TYPE_CHECKING:
    from scheduler.placement.sharing.job_ways import JobWays
    from scheduler.placement.sharing.share_model import Variable


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
        question, empty = self._question, self._question.emptied
        job = question.sized(self._j, nodes)
        if (worth := worth_of(empty, job, nodes)) is None:
            return
        sizes = [demand.job.gpus_per_node for demand in self._classes.demands[self._j]]
        w = sizes.index(job.gpus_per_node)
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
                known = sorted(self._cells[w].values(), key=lambda one: one[1])
                costs.append(way.add_known(known[:count]))
            else:
                shapes = self._offered(way.demand, self._shapes[w].values(), most=most, count=count)
                prices, edges = question.shape_costs(j, shapes, options), question.option_costs(j, options)
                costs.append(way.add_shapes(shapes, prices, edges, most=most))
        return part.together(costs)

    def _offered(
        self, demand: NodeDemand, known: Iterable[PlacementShape], *, most: int | None, count: int
    ) -> list[PlacementShape]:
        """Return known shapes of one way, and even rectangles, the cheapest; parameters as of :meth:`offer`."""
        question, j, shapes = self._question, self._j, list(known)
        job = question.jobs[j]
        if demand.movable:
            domains = len(np.unique(demand.blocks.domain_of[demand.admits]))
            pairs = list(pairs_up_to(demand.rows, demand.columns, (domains, domains)))
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
