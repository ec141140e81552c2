"""One job in a program that shares classes of nodes out: what it takes, and what it does with its share.

- as *cases* of S and R, what every placement satisfies: the least cost is a bound;
- as *shapes*: placements that are known, laid out anew, so what is found can be realised;
- as *cells*, each with a class of its own, which is both, and too much to decide for large jobs;
- as one of some placements that are known, each cell in the class that it has there.

*Cases*: with R = 1 every row lies in one domain: a domain takes whole rows, and S is the number of domains in use;
S = 1 is the same, transposed.  These *edge cases* say all there is to say, one for each number of domains: what such a
job leaves to others is sharp then, as no fraction of one case mixes with a fraction of another.  Where S and R are both
at least 2, domain k holds at most r_k * q_k blocks, of r_k rows and q_k columns, with sum r <= R * D and
sum q <= S * P, as each row touches R domains and each column S.

*Shapes*: the parts of a job that lie together, without saying where.  A placement with some (S, R) stays one, or gets
better, when all cells of a domain move together to another domain with room: so a placement stands for every way to lay
its parts out, also several parts in one domain.

A job has one of its *ways*: on nodes of one size of those it may have; one that says the size has one way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from scheduler.job import Job
from scheduler.objective import Evaluation, objective_of, spread
from scheduler.placement.admission import blocks_at
from scheduler.placement.cell_choice import MOST_CHOICES, CellChoice
from scheduler.placement.node_classes import NodeDemand, WholeBlocks
from scheduler.placement.types import Pair
from topology.cluster import BoolArray, Cluster, IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

    Variable = cp_model.IntVar
    Expression = cp_model.LinearExprT
    Case = tuple[Variable, Expression, Expression]  # whether the job has it, S and R, which are 0 where it has not


class JobWays:
    """The variables of one job; no class is of use to two of its ways, as nodes of a class have one size."""

    def __init__(self, cp: cp_model.CpModel, demands: Sequence[NodeDemand], sizes: IntArray, *, optional: bool) -> None:
        self.cp = cp
        self.ways = [SharePart(cp, demand, sizes, optional=optional or len(demands) > 1) for demand in demands]
        self.takes = {c: taken for way in self.ways for c, taken in way.takes.items()}
        presents = [way.present for way in self.ways]
        if optional:
            self.present = cp.new_bool_var("")
            cp.add(sum(presents) == self.present)
        elif len(presents) > 1:
            cp.add_exactly_one(presents)

    def together(self, costs: Sequence[cp_model.IntVar]) -> cp_model.IntVar:
        """Return the cost of the job, given that of each way, 0 where the job has another."""
        if len(costs) == 1:
            return costs[0]
        cost = self.cp.new_int_var(0, max(map(top, costs)), "")
        self.cp.add(cost == sum(costs))
        return cost

    def chosen(self, solver: cp_model.CpSolver) -> SharePart:
        """Return the way that the job has in a solution."""
        if len(self.ways) == 1:
            return self.ways[0]
        return next(way for way in self.ways if solver.boolean_value(way.present))

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


@dataclass(frozen=True, slots=True)
class OptionCosts:
    """Whole numbers for Eq. 2 of a job with one option: ``per_dp * S + per_pp * R + fixed``."""

    per_dp: int
    per_pp: int
    fixed: int

    def of(self, dp: int, pp: int) -> int:
        """Return the cost of a pair (S, R)."""
        return self.per_dp * dp + self.per_pp * pp + self.fixed


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
        inside: dict[int, list[int]] = {}
        for c, k in zip(self.takes, blocks.domain_of[list(self.takes)].tolist(), strict=True):
            inside.setdefault(k, []).append(c)
        counts = {}
        for k in sorted(inside):
            most = min(int(sizes[inside[k]].sum()), self.demand.nodes) // blocks.block
            counts[k] = self.cp.new_int_var(0, most, "")
            self.cp.add(sum(self.takes[c] for c in inside[k]) == blocks.block * counts[k])
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
        cells = self.cells = CellChoice(cp, demand.admits, self.sizes, units, present=present)
        for c, taken in self.takes.items():
            cp.add(taken == cells.takes.get(c, 0))
        for held in demand.holds:
            cells.hold(held)
        families = {hold.family for hold in demand.job.holds} | {count.family for count in demand.job.soft}
        if demand.aligned and demand.job.grid.parts == 1 and families <= {"dp", "pp"} and not self.optional:
            cells.order(demand.job.grid.rows)
        if prices is None:
            return cp.new_constant(0)
        most = [len(np.unique(term.domain_of)) for term in demand.terms]
        dearest = max(sum(price * count for price, count in zip(of_option, most, strict=True)) for of_option in prices)
        cost = cp.new_int_var(0, dearest, "")
        spreads = [cells.spread(term) for term in demand.terms]
        for chosen, of_option in zip(self.options, prices, strict=True):
            dear = cp.add(cost >= sum(price * spread for price, spread in zip(of_option, spreads, strict=True)))
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
            cases.append(inner[0])
        self._one_of(on for on, _, _ in cases)
        for k, blocks in self.blocks_in.items():
            inside = self._along_edges(k)
            if inner is not None and k in inner[1]:
                inside.append(inner[1][k])
            self.cp.add(sum(inside) == blocks)
        return cases

    def _room(self) -> dict[int, int]:
        return {k: top(blocks) for k, blocks in self.blocks_in.items()}

    def _add_edges(
        self, costs: Sequence[OptionCosts], most: int | None, counted: tuple[bool, bool] | None = None
    ) -> list[Case]:
        """Add the cases with R = 1 or S = 1; by default numbers of domains are told apart where they cost anything."""
        counted = counted or (any(cost.per_dp for cost in costs), any(cost.per_pp for cost in costs))
        self.edges = edge_cases(self.cp, self.demand, self._room(), partial(_worthy, costs, most), counted=counted)
        return [(edge.on, *edge.pair) for edge in self.edges]

    def _along_edges(self, k: int) -> list[cp_model.LinearExprT]:
        return [edge.width(self.demand) * edge.lines[k] for edge in self.edges if k in edge.lines]

    def _cost(
        self, costs: Sequence[OptionCosts], cases: Sequence[Case], least: int, highest: int = 0
    ) -> cp_model.IntVar:
        """Add a cost that is at least that of the chosen case with the chosen option."""
        most = max(cost.of(self.demand.rows, self.demand.columns) for cost in costs)
        cost = self.cp.new_int_var(min(least, most), max(most, highest), "")
        for chosen, of_option in zip(self.options, costs, strict=True):
            parts: list[cp_model.LinearExprT] = [of_option.fixed * on for on, _, _ in cases]
            parts += [of_option.per_dp * dp for _, dp, _ in cases]
            parts += [of_option.per_pp * pp for _, _, pp in cases]
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
            parts: dict[tuple[int, int], cp_model.IntVar] = {}
            if not shape.homes:
                for size, copies in Counter(shape.sizes).items():
                    most_in = {k: min(copies, top(blocks) // size) for k, blocks in self.blocks_in.items()}
                    of_size = {(size, k): cp.new_int_var(0, many, "") for k, many in most_in.items() if many}
                    cp.add(sum(of_size.values()) == copies * on)
                    parts |= of_size
            elif all(k in self.blocks_in for k in shape.homes):
                # each part lies where it was found; a domain holds one of them
                parts = dict.fromkeys(zip(shape.sizes, shape.homes, strict=True), on)
            else:
                cp.add(on == 0)
            for (size, k), count in parts.items():
                filled[k].append(size * count)
            self.parts.append(parts)
        for k, blocks in self.blocks_in.items():
            cp.add(blocks == sum(filled[k]))
        cost = self._cost(costs, edges, 0, highest=max((max(price) for price in prices), default=0))
        for (_, on), of_shape in zip(self.shapes, prices, strict=True):
            for chosen, amount in zip(self.options, of_shape, strict=True):
                cp.add(cost >= amount).only_enforce_if([on, chosen])
        return cost

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
                return np.array([places[size].pop() for size in shape.sizes], dtype=np.int32)[shape.part_of_block]
        return None


def _worthy(costs: Sequence[OptionCosts], most: int | None, pair: Pair) -> bool:
    """Return whether a pair costs no more than that with some option."""
    return most is None or any(cost.of(*pair) <= most for cost in costs)


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


def top(variable: cp_model.IntVar) -> int:
    """Return the largest value of a variable with one interval."""
    return int(variable.proto.domain[1])  # of this kind of list the index -1 is not the last


MOST_CASES = 8  # Of a job by rows, and by columns; the last one is of all larger numbers, as a job hardly needs so many
MOST_WIDTHS = 16  # Widths of a domain up to which cells <= rows * columns is stated width by width, which is sharper


@dataclass(frozen=True, slots=True)
class EdgeCase:
    """R = 1, or S = 1, on one number of domains or a range of it."""

    by_rows: bool  # whole rows in each domain (R = 1); else whole columns
    on: Variable  # whether the job has it
    spread: Expression  # the number of domains; 0 where it is off
    lines: Mapping[int, Variable]  # domain -> whole rows or columns in it

    @property
    def pair(self) -> tuple[Expression, Expression]:
        """(S, R); 0 where it is off."""
        return (self.spread, self.on) if self.by_rows else (self.on, self.spread)

    def width(self, demand: NodeDemand) -> int:
        """Return the blocks of each line."""
        return demand.columns if self.by_rows else demand.rows

    def laid_out(self, solver: cp_model.CpSolver, demand: NodeDemand) -> IntArray:
        """Return the domain of each block in a solution with this case, shape [rows, columns]."""
        counts = [int(solver.value(count)) for count in self.lines.values()]
        homes = np.repeat(np.array(list(self.lines), dtype=np.int32), counts)
        line = homes[:, None] if self.by_rows else homes[None, :]
        return np.broadcast_to(line, (demand.rows, demand.columns)).copy()


def edge_cases(
    cp: cp_model.CpModel,
    demand: NodeDemand,
    room: Mapping[int, int],
    worthy: Callable[[Pair], bool],
    *,
    counted: tuple[bool, bool] = (True, True),
) -> list[EdgeCase]:
    """Add the edge cases of a job.

    :param room: domain -> most blocks that it takes.
    :param worthy: whether a pair is of use; where it is not, nor is a larger one.
    :param counted: by rows, and by columns: whether the number of domains is told apart; else there is one case of all.
    """
    cases = []
    for by_rows, lines, width in ((True, demand.rows, demand.columns), (False, demand.columns, demand.rows)):
        tops = {k: top for k, blocks in room.items() if (top := min(lines, blocks // width))}
        enough = np.flatnonzero(np.cumsum(sorted(tops.values(), reverse=True)) >= lines)
        # one domain alone is a case by rows already
        fewest = max(int(enough[0]) + 1, 1 if by_rows else 2) if enough.size else lines + 1
        numbers = [
            count for count in range(fewest, min(lines, len(tops)) + 1) if worthy((count, 1) if by_rows else (1, count))
        ]
        if not counted[0 if by_rows else 1]:
            if numbers:
                # a case of any number of domains up to the last; its spread says no more than that
                on, counts = cp.new_bool_var(""), {k: cp.new_int_var(0, top, "") for k, top in tops.items()}
                cp.add(sum(counts.values()) == lines * on)
                if numbers[-1] < min(lines, len(tops)):
                    uses = {k: cp.new_bool_var("") for k in tops}
                    for k, top in tops.items():
                        cp.add(counts[k] <= top * uses[k])
                    cp.add(sum(uses.values()) <= numbers[-1])
                cases.append(EdgeCase(by_rows, on, numbers[-1] * on, counts))
            continue
        alone = numbers[: MOST_CASES - 1] if len(numbers) > MOST_CASES else numbers
        cases += [_case(cp, by_rows, lines, tops, (count, count)) for count in alone]
        if len(alone) < len(numbers):
            cases.append(_case(cp, by_rows, lines, tops, (numbers[len(alone)], numbers[-1])))
    return cases


def _case(
    cp: cp_model.CpModel, by_rows: bool, lines: int, tops: Mapping[int, int], domains: tuple[int, int]
) -> EdgeCase:
    """Return a case of some number of domains, least and most."""
    low, high = domains
    on, counts, uses = cp.new_bool_var(""), {}, []
    largest = sorted(tops.values(), reverse=True)
    for k, top in tops.items():
        among = high > 1 and top >= largest[high - 2]
        others = sum(largest[:high]) - top if among else sum(largest[: high - 1])
        # what the others cannot take; and each of them takes one at least
        least, most = max(1, lines - others), min(top, lines - low + 1)
        if least <= most:
            use = cp.new_bool_var("")
            count = counts[k] = cp.new_int_var(0, most, "")
            cp.add(count <= most * use)
            cp.add(count >= least * use)
            uses.append(use)
    cp.add(sum(counts.values()) == lines * on)
    if low == high:
        cp.add(sum(uses) == low * on)
        return EdgeCase(by_rows, on, low * on, counts)
    spread = cp.new_int_var(0, high, "")
    cp.add(sum(uses) == spread)
    cp.add(spread >= low * on)
    return EdgeCase(by_rows, on, spread, counts)


def rectangle_case(
    cp: cp_model.CpModel, demand: NodeDemand, room: Mapping[int, int], worthy: Callable[[Pair], bool]
) -> tuple[Case, Mapping[int, Variable]] | None:
    """Add what every placement with S and R both at least 2 satisfies; return the case, and the blocks in each domain.

    ``None`` = there is none that is of use.
    """
    room = {k: top for k, top in room.items() if top}
    most = min(demand.rows, len(room)), min(demand.columns, len(room))
    if min(most) < 2 or not worthy((2, 2)):
        return None
    on, dp, pp = cp.new_bool_var(""), cp.new_int_var(0, most[0], ""), cp.new_int_var(0, most[1], "")
    for touched, largest in ((dp, most[0]), (pp, most[1])):
        cp.add(touched >= 2 * on)
        cp.add(touched <= largest * on)
    blocks = {k: cp.new_int_var(0, top, "") for k, top in room.items()}
    rows, columns = zip(*(_rectangle(cp, demand, blocks[k], room[k]) for k in blocks), strict=True)
    cp.add(sum(blocks.values()) == demand.rows * demand.columns * on)
    cp.add(sum(rows) <= demand.rows * pp)
    cp.add(sum(columns) <= demand.columns * dp)
    return (on, dp, pp), blocks


def _rectangle(cp: cp_model.CpModel, demand: NodeDemand, blocks: Variable, most: int) -> tuple[Expression, Expression]:
    """Return rows and columns that a domain touches, enough for its blocks."""
    short, long = sorted((demand.rows, demand.columns))
    long, widths = min(long, most), range(1, min(short, most) + 1)
    across: Expression
    along: Expression
    if len(widths) > MOST_WIDTHS:
        across, along = cp.new_int_var(0, len(widths), ""), cp.new_int_var(0, long, "")
        area = cp.new_int_var(0, len(widths) * long, "")
        cp.add_multiplication_equality(area, [across, along])
        cp.add(blocks <= area)
    else:
        chosen = [cp.new_bool_var("") for _ in widths]
        # lines of the longer side that it touches with each width; no more than hold as many blocks as there can be
        tops = [min(long, -(-most // q)) for q in widths]
        lines = [cp.new_int_var(0, line, "") for line in tops]
        cp.add_at_most_one(chosen)
        for line, highest, on in zip(lines, tops, chosen, strict=True):
            cp.add(line <= highest * on)
        cp.add(blocks <= most * sum(chosen))
        across, along = sum(q * on for q, on in zip(widths, chosen, strict=True)), sum(lines)
        cp.add(blocks <= sum(q * line for q, line in zip(widths, lines, strict=True)))
    return (across, along) if demand.rows <= demand.columns else (along, across)


@dataclass(frozen=True)
class PlacementShape:
    """A grid of blocks cut into parts."""

    part_of_block: IntArray  # shape [rows, columns] of blocks, parts numbered from 0
    soft: float = 0.0  # soft terms of the placement that it was taken from; others have what the evaluator says
    homes: tuple[int, ...] = ()  # the domain that each part must lie in; empty = any

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Blocks of each part."""
        return tuple(np.bincount(self.part_of_block.ravel()).tolist())

    @cached_property
    def pair(self) -> Pair:
        """(S, R) with every part in a domain of its own: no way to lay the parts out has a larger S or R."""
        position = np.indices(self.part_of_block.shape, dtype=np.int32)
        return spread(position[1], self.part_of_block), spread(position[0], self.part_of_block)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What two shapes share that are the same to a program: spreads, sizes of parts, homes."""
        return self.pair, tuple(sorted(Counter(self.sizes).items())), self.homes, round(self.soft, 9)


def shape_placed(cluster: Cluster, job: Job, worth: Evaluation, nodes: IntArray, *, movable: bool) -> PlacementShape:
    """Return the shape of a placement.

    :param nodes: shape [rows, columns], node of each cell; ``worth``: what that is worth.
    :param movable: whether its parts may go to other domains with room.
    """
    level = cluster.level(job.level)
    blocks, domain_of_cell = blocks_at(cluster, job, cluster.level_index(level.name)), level.domain_of[nodes]
    soft = worth.objective - objective_of(job, worth.dp, worth.pp)
    first_row = np.unique(blocks.row_of, return_index=True)[1]
    first_column = np.unique(blocks.column_of, return_index=True)[1]
    homes, parts = np.unique(domain_of_cell[np.ix_(first_row, first_column)], return_inverse=True)
    part_of_block: IntArray = parts.reshape(len(first_row), len(first_column)).astype(np.int32)
    return PlacementShape(part_of_block, soft, () if movable else tuple(homes.tolist()))


def even_rectangles(rows: int, columns: int, pair: Pair) -> PlacementShape:
    """Return the grid cut into S bands of rows and R bands of columns, as even as can be."""
    bands, stacks = np.arange(rows) * pair[0] // rows, np.arange(columns) * pair[1] // columns
    return PlacementShape((bands[:, None] * pair[1] + stacks[None, :]).astype(np.int32))


CellWays = frozenset[tuple[int, int]]  # Ways of jobs, each the number of the job and of the way


def ways_by_cell(demands: Sequence[Sequence[NodeDemand]]) -> CellWays:
    """Return the ways of some jobs of which a program may decide each cell: those of which blocks of nodes and cases of
    S and R do not say all, constraints at second hierarchies first, as long as all together are few.
    """
    wanted = [
        (not demand.beside, demand.job.grid.cells * int(demand.admits.sum()), j, w)
        for j, ways in enumerate(demands)
        for w, demand in enumerate(ways)
        if demand.beside or demand.job.soft or not demand.aligned
    ]
    chosen, left = set(), MOST_CHOICES
    for _, choices, j, w in sorted(wanted):
        if choices <= left:
            chosen.add((j, w))
            left -= choices
    return frozenset(chosen)
