"""The pairs (S, R) that a job may have, case by case.

With R = 1 every row lies in one domain: a domain takes whole rows, and S is the number of domains in use; S = 1 is the
same, transposed.  These *edge cases* say all there is to say, one for each number of domains: what such a job leaves to
others is sharp then, as no fraction of one case mixes with a fraction of another.  Where S and R are both at least 2,
domain k holds at most r_k * q_k blocks, of r_k rows and q_k columns, with sum r <= R * D and sum q <= S * P, as each
row touches R domains and each column S (:mod:`scheduler.placement.exact.bounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.sharing.node_classes import NodeDemand
from scheduler.placement.types import Pair
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    Variable = cp_model.IntVar
    Expression = cp_model.LinearExprT

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
            cases += [_any_case(cp, by_rows, lines, tops, numbers[-1])] if numbers else []
            continue
        alone = numbers[: MOST_CASES - 1] if len(numbers) > MOST_CASES else numbers
        cases += [_case(cp, by_rows, lines, tops, (count, count)) for count in alone]
        if len(alone) < len(numbers):
            cases.append(_case(cp, by_rows, lines, tops, (numbers[len(alone)], numbers[-1])))
    return cases


def _any_case(cp: cp_model.CpModel, by_rows: bool, lines: int, tops: Mapping[int, int], most: int) -> EdgeCase:
    """Return a case of any number of domains up to some; its spread says no more than that."""
    on, counts = cp.new_bool_var(""), {k: cp.new_int_var(0, top, "") for k, top in tops.items()}
    cp.add(sum(counts.values()) == lines * on)
    if most < min(lines, len(tops)):
        uses = {k: cp.new_bool_var("") for k in tops}
        for k, top in tops.items():
            cp.add(counts[k] <= top * uses[k])
        cp.add(sum(uses.values()) <= most)
    return EdgeCase(by_rows, on, most * on, counts)


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


@dataclass(frozen=True, slots=True)
class RectangleCase:
    """S and R both at least 2."""

    on: Variable
    pair: tuple[Variable, Variable]  # (S, R); 0 where it is off
    blocks: Mapping[int, Variable]  # domain -> blocks in it


def rectangle_case(
    cp: cp_model.CpModel, demand: NodeDemand, room: Mapping[int, int], worthy: Callable[[Pair], bool]
) -> RectangleCase | None:
    """Add what every placement with S and R both at least 2 satisfies; ``None`` = there is none that is of use."""
    room = {k: top for k, top in room.items() if top}
    most = min(demand.rows, len(room)), min(demand.columns, len(room))
    if min(most) < 2 or not worthy((2, 2)):
        return None
    on, dp, pp = cp.new_bool_var(""), cp.new_int_var(0, most[0], ""), cp.new_int_var(0, most[1], "")
    for spread, largest in ((dp, most[0]), (pp, most[1])):
        cp.add(spread >= 2 * on)
        cp.add(spread <= largest * on)
    blocks = {k: cp.new_int_var(0, top, "") for k, top in room.items()}
    rows, columns = zip(*(_rectangle(cp, demand, blocks[k], room[k]) for k in blocks), strict=True)
    cp.add(sum(blocks.values()) == demand.rows * demand.columns * on)
    cp.add(sum(rows) <= demand.rows * pp)
    cp.add(sum(columns) <= demand.columns * dp)
    return RectangleCase(on, (dp, pp), blocks)


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
