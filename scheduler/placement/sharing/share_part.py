"""One job in a program that shares classes of nodes out: what it takes, and what it does with its share.

- as *cases* of S and R, what every placement satisfies (:mod:`scheduler.placement.sharing.spread_cases`): the least
  cost is a bound;
- as *shapes*: placements that are known, laid out anew, so what is found can be realised;
- as *cells*, each with a class of its own, which is both, and too much to decide for large jobs;
- as one of some placements that are known, each cell in the class that it has there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.sharing.cell_choice import CellChoice
from scheduler.placement.sharing.job_shapes import PlacementShape
from scheduler.placement.sharing.node_classes import NodeDemand, WholeBlocks
from scheduler.placement.sharing.spread_cases import EdgeCase, edge_cases, rectangle_case
from scheduler.placement.types import Pair
from topology.cluster import BoolArray, IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    # whether the job has it, S and R, which are 0 where it has not
    Case = tuple[cp_model.IntVar, cp_model.LinearExprT, cp_model.LinearExprT]


@dataclass(frozen=True, slots=True)
class OptionCosts:
    """Whole numbers for Eq. 2 of a job with one option: ``per_dp * S + per_pp * R + fixed``."""

    per_dp: int
    per_pp: int
    fixed: int

    def of(self, dp: int, pp: int) -> int:
        """Return the cost of a pair (S, R)."""
        return self.per_dp * dp + self.per_pp * pp + self.fixed


def _worthy(costs: Sequence[OptionCosts], most: int | None, pair: Pair) -> bool:
    """Return whether a pair costs no more than that with some option."""
    return most is None or any(one.of(*pair) <= most for one in costs)


def only_if_admitted(
    cp: cp_model.CpModel, takes: cp_model.IntVar, most: int, admits: Sequence[tuple[cp_model.IntVar, bool]]
) -> None:
    """Add that nodes of a class are taken only by an option that admits them.

    :param takes: how many are taken, ``most`` at most.
    :param admits: of each option whether it is chosen, and whether it admits the class.
    """
    admitting = [chosen for chosen, does in admits if does]
    if len(admitting) < len(admits):
        cp.add(takes <= most * sum(admitting))


class SharePart:
    """The variables of one job, on nodes of one size."""

    def __init__(self, cp: cp_model.CpModel, demand: NodeDemand, sizes: IntArray, *, optional: bool) -> None:
        self.cp, self.demand, self.sizes, self.optional = cp, demand, sizes, optional
        # nodes of each class that it takes
        self.takes = {
            int(c): cp.new_int_var(0, int(min(sizes[c], demand.nodes)), "") for c in np.flatnonzero(demand.admits)
        }
        self.present = cp.new_bool_var("") if optional else cp.new_constant(1)
        cp.add(sum(self.takes.values()) == demand.nodes * self.present)
        self.options = [cp.new_bool_var("") for _ in demand.options]
        cp.add_exactly_one(self.options)
        for c, taken in self.takes.items():
            admits = [(on, bool(of.admits[c])) for on, of in zip(self.options, demand.options, strict=True)]
            only_if_admitted(cp, taken, int(sizes[c]), admits)
        self.blocks_in = self._whole_blocks(demand.blocks, sizes)
        for blocks in demand.other_levels:
            self._whole_blocks(blocks, sizes)
        self.edges: list[EdgeCase] = []
        self.shapes: list[tuple[PlacementShape, cp_model.IntVar]] = []
        self.known: list[tuple[IntArray, cp_model.IntVar]] = []
        self.cells: CellChoice | None = None

    def _one_of(self, cases: Iterable[cp_model.IntVar]) -> None:
        """Add that the job has one of some cases, where it is there."""
        self.cp.add_exactly_one([*cases, ~self.present] if self.optional else cases)

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
        cases = self._add_cases(costs, most) if self.demand.aligned else []
        cost = self._cost(costs, cases, 0 if self.optional else least)
        if self.optional:
            self.cp.add(cost >= min(least, top(cost))).only_enforce_if(self.present)
        return cost

    def add_cells(self, prices: Sequence[Sequence[int]] | None = None) -> cp_model.IntVar:
        """Add the class of each cell, by which all hard constraints are kept; return the cost.

        :param prices: of each option, of one domain more for each term of the objective; ``None`` = nothing costs.
        """
        cp, demand = self.cp, self.demand
        present = self.present if self.optional else None
        units = np.arange(demand.job.grid.cells, dtype=np.int32)
        cells = self.cells = CellChoice(cp, demand, self.sizes, units, present=present)
        for c, taken in self.takes.items():
            cp.add(taken == cells.takes.get(c, 0))
        for held in demand.holds:
            cells.spread(held, cells.members(held), hard=True)
        families = {hold.family for hold in demand.job.holds} | {count.family for count in demand.job.soft}
        if demand.aligned and demand.job.grid.parts == 1 and families <= {"dp", "pp"} and not self.optional:
            cells.order()
        if prices is None:
            return cp.new_constant(0)
        most = [len(np.unique(term.domain_of)) for term in demand.terms]
        cost = cp.new_int_var(0, max(_times(one, most) for one in prices), "")
        spreads = [cells.spread(term, cells.members(term), hard=False) for term in demand.terms]
        for chosen, of_option in zip(self.options, prices, strict=True):
            dear = cp.add(cost >= sum(price * one for price, one in zip(of_option, spreads, strict=True)))
            dear.only_enforce_if([chosen, self.present] if self.optional else chosen)
        return cost

    def add_known(self, placements: Sequence[tuple[IntArray, int]]) -> cp_model.IntVar:
        """Add that the job has one of some placements; return its cost.

        :param placements: the class of each cell, shape [cells], and the cost.
        """
        self.known = [(classes, self.cp.new_bool_var("")) for classes, _ in placements]
        self._one_of(on for _, on in self.known)
        counts = [Counter(classes.tolist()) for classes, _ in placements]
        for c, taken in self.takes.items():
            self.cp.add(taken == sum(count[c] * on for count, (_, on) in zip(counts, self.known, strict=True)))
        cost = self.cp.new_int_var(0, max((price for _, price in placements), default=0), "")
        self.cp.add(cost == sum(price * on for (_, price), (_, on) in zip(placements, self.known, strict=True)))
        return cost

    def add_within(self, costs: OptionCosts, most: int) -> None:
        """Add what every placement of the job satisfies that costs no more than that, with any option."""
        if self.demand.aligned:
            for on, dp, pp in self._add_cases([costs], most, counted=(False, False))[len(self.edges) :]:
                parts: list[cp_model.LinearExprT] = [costs.per_dp * dp, costs.per_pp * pp, costs.fixed * on]
                self.cp.add(sum(parts) <= most)

    def _add_cases(
        self, costs: Sequence[OptionCosts], most: int | None, counted: tuple[bool, bool] | None = None
    ) -> list[Case]:
        cases = self._add_edges(costs, most, counted)
        inner = rectangle_case(self.cp, self.demand, self._room(), partial(_worthy, costs, most))
        if inner is not None:
            cases.append((inner.on, *inner.pair))
        self._one_of(on for on, _, _ in cases)
        for k, blocks in self.blocks_in.items():
            inside = self._along_edges(k)
            if inner is not None and k in inner.blocks:
                inside.append(inner.blocks[k])
            self.cp.add(sum(inside) == blocks)
        return cases

    def _room(self) -> dict[int, int]:
        return {k: top(blocks) for k, blocks in self.blocks_in.items()}

    def _add_edges(
        self, costs: Sequence[OptionCosts], most: int | None, counted: tuple[bool, bool] | None = None
    ) -> list[Case]:
        """Add the cases with R = 1 or S = 1; by default numbers of domains are told apart where they cost anything."""
        counted = counted or (any(one.per_dp for one in costs), any(one.per_pp for one in costs))
        self.edges = edge_cases(self.cp, self.demand, self._room(), partial(_worthy, costs, most), counted=counted)
        return [(edge.on, *edge.pair) for edge in self.edges]

    def _along_edges(self, k: int) -> list[cp_model.LinearExprT]:
        return [edge.width(self.demand) * edge.lines[k] for edge in self.edges if k in edge.lines]

    def _cost(
        self,
        costs: Sequence[OptionCosts],
        cases: Sequence[Case],
        least: int,
        highest: int = 0,
    ) -> cp_model.IntVar:
        """Add a cost that is at least that of the chosen case with the chosen option."""
        most = max(one.of(self.demand.rows, self.demand.columns) for one in costs)
        cost = self.cp.new_int_var(min(least, most), max(most, highest), "")
        for chosen, one in zip(self.options, costs, strict=True):
            parts: list[cp_model.LinearExprT] = [one.fixed * on for on, _, _ in cases]
            parts += [one.per_dp * dp for _, dp, _ in cases]
            parts += [one.per_pp * pp for _, _, pp in cases]
            self.cp.add(cost >= sum(parts)).only_enforce_if(chosen)
        return cost

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
        self.shapes = [(shape, cp.new_bool_var("")) for shape in shapes]
        self._one_of([*(on for _, on in self.shapes), *(on for on, _, _ in edges)])
        # how many parts of each shape and size lie in each domain
        self.parts: list[dict[tuple[int, int], cp_model.IntVar]] = []
        filled = {k: self._along_edges(k) for k in self.blocks_in}
        for shape, on in self.shapes:
            parts = self._parts_fixed(shape, on) if shape.homes else self._parts(shape, on)
            for (size, k), count in parts.items():
                filled[k].append(size * count)
            self.parts.append(parts)
        for k, blocks in self.blocks_in.items():
            cp.add(blocks == sum(filled[k]))
        cost = self._cost(costs, edges, 0, highest=max((max(one) for one in prices), default=0))
        for (_, on), of_shape in zip(self.shapes, prices, strict=True):
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

    def admitted(self, solver: cp_model.CpSolver) -> BoolArray:
        """Return the classes that the option admits which the job has in a solution, shape [classes]."""
        pairs = zip(self.options, self.demand.options, strict=True)
        return next(option.admits for on, option in pairs if solver.boolean_value(on))

    def class_of_cell(self, solver: cp_model.CpSolver) -> IntArray | None:
        """Return the class of each cell in a solution, shape [cells]; ``None`` = the program does not say that."""
        if self.cells is not None:
            return self.cells.classes(solver)
        return next((classes for classes, on in self.known if solver.boolean_value(on)), None)

    def laid_out(self, solver: cp_model.CpSolver) -> IntArray | None:
        """Return the domain of each block, shape [rows, columns]; ``None`` = nothing says more than how many."""
        for edge in self.edges:
            # where groups are held at broader levels, numbers do not say where whole rows or columns may be
            if self.demand.movable and solver.boolean_value(edge.on):
                return edge.laid_out(solver, self.demand)
        for number, (shape, on) in enumerate(self.shapes):
            if solver.boolean_value(on):
                places = dict[int, list[int]]()
                for (size, k), count in self.parts[number].items():
                    places.setdefault(size, []).extend([k] * solver.value(count))
                home = np.array([places[size].pop() for size in shape.sizes], dtype=np.int32)
                return home[shape.part_of_block]
        return None


def _times(prices: Sequence[int], counts: Sequence[int]) -> int:
    return sum(price * count for price, count in zip(prices, counts, strict=True))


def top(variable: cp_model.IntVar) -> int:
    """Return the largest value of a variable with one interval."""
    return int(variable.proto.domain[1])  # of this kind of list the index -1 is not the last
