"""Dives for rows that are listed: every way to cut the columns into pieces, as many as there are.

Where few cuts are possible, the rows of a program need not be a flow over the columns: there is a number of rows for
each cut, and each piece of it is hosted by a domain.  What pieces and cuts are is for ring flow and set flow to say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.flows.interval_flow import Dives
from scheduler.placement.exact.flows.whole_rows import FlowLimit, Segment, found_whole
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.linear_solver import pywraplp

_NOISE = 1e-3  # Rows that a domain in a place is worth at most, at random: all orders of the columns are as good

Cut = tuple[Segment, ...]  # Pieces that make a row


class ListedRowsDives(Dives):
    """A depth-first search over the places of domains, with a list of the cuts of a row."""

    @cached_property
    def cuts(self) -> list[Cut]:
        """Every way to cut a row into at most R pieces."""
        raise NotImplementedError

    def _pieces(self, place: Segment) -> list[Segment]:
        """Return the pieces of rows that a domain in a place may host."""
        raise NotImplementedError

    def _places(self) -> Mapping[int, Segment]:
        """Return the place of each domain in use."""
        return dict(self._served())

    def _worth(self, width: int) -> float:
        # a little noise chooses other places with every seed
        return super()._worth(width) + _NOISE * self._rng.random()

    def _add_rows(self) -> pywraplp.Constraint:
        return self._add_cuts(self.solver, self.hosted, whole=False)[0]

    def _add_cuts(
        self, solver: pywraplp.Solver, hosted: Mapping[Segment, list[pywraplp.Variable]], *, whole: bool
    ) -> tuple[pywraplp.Constraint, dict[Cut, pywraplp.Variable]]:
        """Add the rows of every cut whose pieces are hosted.

        :param hosted: variables whose sum is the rows on a piece; ``whole``: in whole numbers.
        :returns: the constraint that there are D rows, and the rows of each cut.
        """
        of_piece = {piece: solver.Constraint(0, 0) for piece in hosted}
        for piece, rows in hosted.items():
            for y in rows:
                of_piece[piece].SetCoefficient(y, -1)
        start = solver.Constraint(self.problem.rows, self.problem.rows)
        found = {}
        for cut in self.cuts:
            if all(piece in of_piece for piece in cut):
                f = found[cut] = solver.Var(0, solver.infinity(), whole, "")
                start.SetCoefficient(f, 1)
                for piece in cut:
                    of_piece[piece].SetCoefficient(f, 1)
        return start, found

    def _whole_rows(self, limit: FlowLimit) -> IntArray | None:
        from ortools.linear_solver import pywraplp

        solver, problem = pywraplp.Solver.CreateSolver("SCIP"), self.problem
        hosted: dict[tuple[int, Segment], pywraplp.Variable] = {}
        on_piece: dict[Segment, list[pywraplp.Variable]] = defaultdict(list)
        for k, place in self._places().items():
            capacity = problem.capacities[k]
            cells = solver.Constraint(-solver.infinity(), capacity)
            for piece in self._pieces(place):
                width = len(self._columns(piece))
                y = hosted[k, piece] = solver.IntVar(0, min(problem.rows, capacity // width), "")
                cells.SetCoefficient(y, width)
                on_piece[piece].append(y)
        _, cut_rows = self._add_cuts(solver, on_piece, whole=True)
        if not found_whole(solver, limit):
            return None
        rows = [cut for cut, f in cut_rows.items() for _ in range(round(f.solution_value()))]
        return self._lay_out(rows, {key: round(y.solution_value()) for key, y in hosted.items()})

    def _lay_out(self, rows: list[Cut], hosted: Mapping[tuple[int, Segment], int]) -> IntArray:
        """Lay out the rows, each cut in its way; rows on one piece go to its domains in any order."""
        domains: dict[Segment, list[int]] = defaultdict(list)
        for (k, piece), count in hosted.items():
            domains[piece] += [k] * count
        cells = np.empty((self.problem.rows, self.problem.columns), dtype=np.int32)
        for row, cut in enumerate(rows):
            for piece in cut:
                cells[row, self._columns(piece)] = domains[piece].pop()
        return cells
