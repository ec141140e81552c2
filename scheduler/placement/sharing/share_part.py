"""One job in a program that shares classes of nodes out: what it takes, and what it does with its share.

- as *cases* of S and R, what every placement satisfies (:mod:`scheduler.placement.sharing.spread_cases`): the least
  cost is a bound;
- as *shapes*: placements that are known, laid out anew, so what is found can be realised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.sharing.job_shapes import PlacementShape
from scheduler.placement.sharing.node_classes import NodeDemand, WholeBlocks
from scheduler.placement.sharing.spread_cases import EdgeCase, edge_cases, rectangle_case
from scheduler.placement.types import Pair
from topology.cluster import IntArray

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
            admits = [(on, bool(of.admits[c])) for on, of in zip(self.options, demand.options, strict=True)]
            only_if_admitted(cp, taken, int(sizes[c]), admits)
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
        return self._cost(costs, self._add_cases(costs, most), least)

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
        self.cp.add_exactly_one(on for on, _, _ in cases)
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


def top(variable: cp_model.IntVar) -> int:
    """Return the largest value of a variable with one interval."""
    return int(variable.proto.domain[1])  # of this kind of list the index -1 is not the last
