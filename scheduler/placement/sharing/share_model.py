"""The program that shares classes of nodes out to jobs; what a job does with its share is added in one of two ways.

- as *rectangles*: what every placement satisfies (:mod:`scheduler.placement.exact.bounds`): the least cost is a bound;
- as *shapes*: placements that are known, laid out anew, so what is found can be realised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.cpsat import Answer, Slice, solve
from scheduler.placement.sharing.job_shapes import PlacementShape
from scheduler.placement.sharing.node_classes import NodeDemand, WholeBlocks
from scheduler.placement.sharing.running_part import LeavingPart, RunningPart, RunningShare
from scheduler.placement.sharing.spread_cases import EdgeCase, edge_cases, rectangle_case
from scheduler.placement.types import Pair
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    Variable = cp_model.IntVar
    Expression = cp_model.LinearExpr
    Solution = cp_model.CpSolver


@dataclass(frozen=True, slots=True)
class OptionCosts:
    """Whole numbers for Eq. 2 of a job with one option: ``per_dp * S + per_pp * R + fixed``."""

    per_dp: int
    per_pp: int
    fixed: int


def _worthy(costs: Sequence[OptionCosts], most: int | None, pair: Pair) -> bool:
    """Return whether a pair costs no more than that with some option."""
    return most is None or any(one.per_dp * pair[0] + one.per_pp * pair[1] + one.fixed <= most for one in costs)


class SharePart:
    """The variables of one job."""

    def __init__(self, cp: cp_model.CpModel, demand: NodeDemand, sizes: IntArray, *, optional: bool) -> None:
        self.cp, self.demand = cp, demand
        # nodes of each class that it takes
        self.takes = {
            int(c): cp.new_int_var(0, int(min(sizes[c], demand.nodes)), "") for c in np.flatnonzero(demand.admits)
        }
        self.present = cp.new_bool_var("") if optional else cp.new_constant(1)
        cp.add(sum(self.takes.values()) == demand.nodes * self.present)
        self.options = [cp.new_bool_var("") for _ in demand.options]
        cp.add_exactly_one(self.options)
        for c, taken in self.takes.items():
            admitting = [on for on, option in zip(self.options, demand.options, strict=True) if option.admits[c]]
            # nodes that the chosen option does not admit are not taken
            if len(admitting) < len(self.options):
                cp.add(taken <= int(sizes[c]) * sum(admitting))
        self.blocks_in = self._whole_blocks(demand.blocks, sizes)
        for blocks in demand.other_levels:
            self._whole_blocks(blocks, sizes)
        self.edges: list[EdgeCase] = []

    def _whole_blocks(self, blocks: WholeBlocks, sizes: IntArray) -> dict[int, cp_model.IntVar]:
        """Add that each domain of a level takes whole blocks; return how many each takes."""
        counts = {}
        for k in np.unique(blocks.domain_of[list(self.takes)]).tolist():
            inside = [c for c in self.takes if blocks.domain_of[c] == k]
            most = min(int(sizes[inside].sum()), self.demand.nodes) // blocks.block
            counts[k] = self.cp.new_int_var(0, most, "")
            self.cp.add(sum(self.takes[c] for c in inside) == blocks.block * counts[k])
        return counts

    def add_rectangles(self, costs: Sequence[OptionCosts], *, least: int, most: int | None = None) -> cp_model.IntVar:
        """Add what every placement of the job satisfies, and return its cost.

        :param least: a cost below which it has no placement, whatever the others take.
        :param most: a cost above which a placement is of no use; ``None`` = any may be.
        """
        if not self.demand.aligned:
            return self._cost(costs, [], least)
        cases = [*self._add_edges(costs, most)]
        worthy = partial(_worthy, costs, most)
        if (inner := rectangle_case(self.cp, self.demand, self._room(), worthy)) is not None:
            cases.append((inner.on, *inner.pair))
        self.cp.add_exactly_one(on for on, _, _ in cases)
        for k, blocks in self.blocks_in.items():
            self.cp.add(blocks == sum(self._along_edges(k)) + (inner.blocks.get(k, 0) if inner else 0))
        return self._cost(costs, cases, least)

    def _room(self) -> dict[int, int]:
        return {k: top(blocks) for k, blocks in self.blocks_in.items()}

    def _add_edges(
        self, costs: Sequence[OptionCosts], most: int | None
    ) -> list[tuple[cp_model.IntVar, cp_model.LinearExprT, cp_model.LinearExprT]]:
        """Add the cases with R = 1 or S = 1, and return for each whether the job has it, S and R."""
        self.edges = edge_cases(self.cp, self.demand, self._room(), partial(_worthy, costs, most))
        return [(edge.on, *edge.pair) for edge in self.edges]

    def _along_edges(self, k: int) -> list[cp_model.LinearExprT]:
        return [edge.width(self.demand) * edge.lines[k] for edge in self.edges if k in edge.lines]

    def _cost(
        self,
        costs: Sequence[OptionCosts],
        cases: Sequence[tuple[cp_model.IntVar, cp_model.LinearExprT, cp_model.LinearExprT]],
        least: int,
        highest: int = 0,
    ) -> cp_model.IntVar:
        """Add a cost that is at least that of the chosen case with the chosen option."""
        most = max(one.per_dp * self.demand.rows + one.per_pp * self.demand.columns + one.fixed for one in costs)
        cost = self.cp.new_int_var(min(least, most), max(most, highest), "")
        dp, pp = sum(dp for _, dp, _ in cases), sum(pp for _, _, pp in cases)
        some = sum(on for on, _, _ in cases)
        for chosen, one in zip(self.options, costs, strict=True):
            self.cp.add(cost >= one.per_dp * dp + one.per_pp * pp + one.fixed * some).only_enforce_if(chosen)
        return cost

    def exclude(self, share: IntArray, *, cost: cp_model.IntVar, least: int) -> None:
        """Add that within this share, shape [classes], or less of it no placement costs less than that."""
        beyond = []
        for c, taken in self.takes.items():
            if share[c] < top(taken):
                more = self.cp.new_bool_var("")
                self.cp.add(taken > int(share[c])).only_enforce_if(more)
                beyond.append(more)
        dear = self.cp.new_bool_var("")
        self.cp.add(cost >= least).only_enforce_if(dear)
        self.cp.add_bool_or([*beyond, dear])

    def add_shapes(
        self,
        shapes: Sequence[PlacementShape],
        prices: Sequence[Sequence[int]],
        costs: Sequence[OptionCosts],
        *,
        most: int | None = None,
    ) -> cp_model.IntVar:
        """Add that the job has one of some shapes, its parts laid out in any domains with room; return its cost.

        Where its parts may go to any domain, it may also have R = 1 or S = 1, which needs no shape.

        :param prices: of each shape with each option; ``costs``, ``most``: as for :meth:`add_rectangles`.
        """
        cp = self.cp
        edges = self._add_edges(costs, most) if self.demand.movable and self.demand.aligned else []
        self.shapes = [cp.new_bool_var("") for _ in shapes]
        cp.add_exactly_one([*self.shapes, *(on for on, _, _ in edges)])
        # how many parts of each shape and size lie in each domain
        self.parts: list[dict[tuple[int, int], cp_model.IntVar]] = []
        filled = {k: self._along_edges(k) for k in self.blocks_in}
        for shape, on in zip(shapes, self.shapes, strict=True):
            parts = self._parts_fixed(shape, on) if shape.homes else self._parts(shape, on)
            for (size, k), count in parts.items():
                filled[k].append(size * count)
            self.parts.append(parts)
        for k, blocks in self.blocks_in.items():
            cp.add(blocks == sum(filled[k]))
        cost = self._cost(costs, edges, 0, highest=max((max(one) for one in prices), default=0))
        for on, of_shape in zip(self.shapes, prices, strict=True):
            for chosen, amount in zip(self.options, of_shape, strict=True):
                cp.add(cost >= amount).only_enforce_if([on, chosen])
        return cost

    def _parts(self, shape: PlacementShape, on: cp_model.IntVar) -> dict[tuple[int, int], cp_model.IntVar]:
        parts: dict[tuple[int, int], cp_model.IntVar] = {}
        for size, count in Counter(shape.sizes).items():
            most = {k: min(count, top(blocks) // size) for k, blocks in self.blocks_in.items()}
            of_size = {(size, k): self.cp.new_int_var(0, top, "") for k, top in most.items() if top}
            self.cp.add(sum(of_size.values()) == count * on)
            parts |= of_size
        return parts

    def _parts_fixed(self, shape: PlacementShape, on: cp_model.IntVar) -> dict[tuple[int, int], cp_model.IntVar]:
        """Return the parts of a shape that must lie where it was found; a domain holds one of them."""
        if any(k not in self.blocks_in for k in shape.homes):
            self.cp.add(on == 0)
            return {}
        return dict.fromkeys(zip(shape.sizes, shape.homes, strict=True), on)

    def laid_out(self, solver: cp_model.CpSolver, shapes: Sequence[PlacementShape] = ()) -> IntArray | None:
        """Return the domain of each block, shape [rows, columns]; ``None`` = nothing says more than how many."""
        for edge in self.edges:
            if solver.boolean_value(edge.on):
                return edge.laid_out(solver, self.demand)
        for number, shape in enumerate(shapes):
            if solver.boolean_value(self.shapes[number]):
                places = dict[int, list[int]]()
                for (size, k), count in self.parts[number].items():
                    places.setdefault(size, []).extend([k] * solver.value(count))
                home = np.array([places[size].pop() for size in shape.sizes], dtype=np.int32)
                return home[shape.part_of_block]
        return None


class ShareModel:
    """Jobs beside each other on some classes of nodes."""

    def __init__(self, sizes: IntArray) -> None:
        from ortools.sat.python import cp_model

        self.cp = cp_model.CpModel()
        self.sizes = sizes
        self.parts: list[SharePart] = []
        self.running: list[RunningPart | LeavingPart] = []

    def add_job(self, demand: NodeDemand, *, optional: bool = False) -> SharePart:
        """Add a job; its share is chosen by the program."""
        part = SharePart(self.cp, demand, self.sizes, optional=optional)
        self.parts.append(part)
        return part

    def add_running(self, share: RunningShare, units: IntArray | None) -> RunningPart:
        """Add a running job, which may move in some units; ``None`` as in :class:`RunningPart`."""
        part = RunningPart(self.cp, share, self.sizes, units)
        self.running.append(part)
        return part

    def add_leaving(self, share: RunningShare) -> None:
        """Add a running job of which only is decided what leaves."""
        self.running.append(LeavingPart(self.cp, share, self.sizes))

    def share(self) -> None:
        """Add that no class is used up twice."""
        used: list[Mapping[int, cp_model.LinearExprT]] = [part.takes for part in self.parts]
        used += [part.takes for part in self.running]
        for c, size in enumerate(self.sizes.tolist()):
            taken = [takes[c] for takes in used if c in takes]
            if taken:
                self.cp.add(sum(taken) <= size)

    def least(self, cost: cp_model.LinearExprT, limit: Slice) -> tuple[Answer, cp_model.CpSolver]:
        """Search for the least cost within a limit."""
        self.cp.minimize(cost)
        return solve(self.cp, limit)


def load_solver() -> None:
    """Import the solver, which takes a third of a second, before the clock of a search starts."""
    import ortools.sat.python.cp_model  # noqa: F401  (the import is what is wanted)


def total(weights: Sequence[int], expressions: Sequence[cp_model.LinearExprT]) -> cp_model.LinearExpr:
    """Return a weighted sum; of none at all 0."""
    from ortools.sat.python import cp_model

    return cp_model.LinearExpr.sum([weight * one for weight, one in zip(weights, expressions, strict=True)])


def top(variable: cp_model.IntVar) -> int:
    """Return the largest value of a variable with one interval."""
    return int(variable.proto.domain[1])  # of this kind of list the index -1 is not the last


def taken(part: SharePart | RunningPart | LeavingPart, solver: cp_model.CpSolver) -> Counter[int]:
    """Return the nodes of each class that a job takes in a solution, classes without any left out."""
    return Counter({c: count for c, one in part.takes.items() if (count := int(solver.value(one)))})
