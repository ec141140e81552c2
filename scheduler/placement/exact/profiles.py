"""Width profiles: how many columns each domain might serve, before deciding which.

The inequalities on widths, rows and cells are so tight at the interesting pairs that they leave few profiles, and a
small model over *kinds* of domains (equal capacities together) produces them in hundredths of a second.  With the
widths fixed, :class:`scheduler.placement.exact.skeleton.SkeletonModel` decides about as fast which columns they are.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.exact.cpsat import Answer, Slice, solve
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.totals import cover_weights, minimal_patterns, usable_domains
from scheduler.placement.types import Pair
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class Profiles:
    """A stream of all width profiles of one pair.

    :param spare_rows: see :class:`scheduler.placement.exact.skeleton.SkeletonModel`.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        from ortools.sat.python import cp_model

        self._dp, self._pp = pair
        self._problem = problem
        self._spare_rows = spare_rows
        self._capacities = problem.capacities[: usable_domains(problem, pair)]
        self._cp = cp_model.CpModel()
        self._kinds = Counter(self._capacities)
        self._how_many: dict[tuple[int, int], cp_model.IntVar] = {}
        self._at_least: dict[tuple[int, int, int], cp_model.IntVar] = {}
        self._rows: dict[tuple[int, int], cp_model.IntVar] = {}
        self._constrain()

    def _constrain(self) -> None:
        """The rectangle inequalities, the bound on domains in use, and rows of enough widths, per kind."""
        cp, problem = self._cp, self._problem
        cells = []
        for capacity, count in self._kinds.items():
            of_kind = []
            for q in range(1, min(problem.columns, capacity) + 1):
                height, rest = divmod(capacity, q)
                top = self._tallest(capacity, q)
                most = min(capacity, problem.rows * q)
                z = cp.new_int_var(0, count, "")
                r = cp.new_int_var(0, count * top, "")
                n = cp.new_int_var(0, count * most, "")
                cp.add(r <= top * z)
                cp.add(n <= q * r)
                cp.add(n <= most * z)
                cp.add(n >= z)
                if height < problem.rows:
                    cp.add(n <= rest * r + (q - rest) * height * z)
                self._how_many[capacity, q], self._rows[capacity, q] = z, r
                of_kind.append(z)
                cells.append(n)
            cp.add(sum(of_kind) <= count)
        cp.add(sum(cells) == problem.cells)
        cp.add(sum(self._rows.values()) <= self._pp * problem.rows)
        cp.add(sum(q * z for (_, q), z in self._how_many.items()) <= self._dp * problem.columns)
        cp.add(sum((q - 1) * z for (_, q), z in self._how_many.items()) >= problem.columns - self._pp)
        heights = {(c, q): self._tallest(c, q) for c, q in self._how_many}
        for weight, least in cover_weights(problem.rows, self._dp, heights.values()):
            touches = [q * weight[heights[c, q]] * z for (c, q), z in self._how_many.items()]
            cp.add(sum(touches) >= least * problem.columns)
        patterns = list(minimal_patterns(problem.columns, self._pp))
        rows_with = [cp.new_int_var(0, problem.rows, "") for _ in patterns]
        cp.add(sum(rows_with) == problem.rows)
        for q in range(1, problem.columns + 1):
            wanted = [sum(w >= q for w in pattern) * y for pattern, y in zip(patterns, rows_with, strict=True)]
            cp.add(sum(r for (_, width), r in self._rows.items() if width >= q) >= sum(wanted))

    def _tallest(self, capacity: int, q: int) -> int:
        return min(self._problem.rows, capacity, -(-capacity // q) + self._spare_rows)

    def next(self, limit: Slice) -> tuple[Answer, IntArray | None]:
        """A profile not given before and not excluded.

        :returns: ``"yes"`` with the columns that each domain serves, shape [usable domains], in the order of the
            problem's domains; ``"no"`` when there is none left.
        """
        answer, solver = solve(self._cp, limit)
        if answer != "yes":
            return answer, None
        chosen = {key: solver.value(z) for key, z in self._how_many.items()}
        differs = []
        for key, z in self._how_many.items():
            other = self._cp.new_bool_var("")
            self._cp.add(z != chosen[key]).only_enforce_if(other)
            differs.append(other)
        self._cp.add_bool_or(differs)
        return "yes", self._spelled_out(chosen)

    def on_largest(self, widths: IntArray) -> IntArray:
        """The same widths in the same order on the largest domains, a profile that dominates this one."""
        moved = np.zeros_like(widths)
        used = widths[widths > 0]
        moved[: len(used)] = used
        order = np.lexsort((-moved, -np.asarray(self._capacities)))
        return moved[order]

    def exclude(self, widths: IntArray) -> None:
        """Never give a profile that these widths dominate: they have no placement, so it has none.

        Of two profiles one dominates the other when the domains of each width can be matched one to one with as large
        or larger ones of that width: a placement on the smaller domains is one on the larger.  So in another profile
        some width q has more domains or fewer, or its i-th largest is larger than here.  One with fewer domains may
        have a placement all the same: the domain that it leaves out finds no columns with fewer than S domains.
        """
        beyond: list[cp_model.LiteralT] = []
        for q in range(1, self._problem.columns + 1):
            here = [self._capacities[k] for k in np.flatnonzero(widths == q)]
            beyond += [self._more_than(capacity, q, i) for i, capacity in enumerate(here)]
            beyond.append(self._more_than(0, q, len(here)))
            if here:
                beyond.append(~self._more_than(0, q, len(here) - 1))
        self._cp.add_bool_or(beyond)

    def _more_than(self, capacity: int, q: int, count: int) -> cp_model.IntVar:
        """Whether more than so many domains larger than the capacity have width q."""
        key = capacity, q, count
        if key not in self._at_least:
            more = self._at_least[key] = self._cp.new_bool_var("")
            larger = sum(z for (c, width), z in self._how_many.items() if c > capacity and width == q)
            self._cp.add(larger > count).only_enforce_if(more)
            self._cp.add(larger <= count).only_enforce_if(~more)
        return self._at_least[key]

    def _spelled_out(self, chosen: dict[tuple[int, int], int]) -> IntArray:
        """One width a domain; among domains of equal capacity in descending order."""
        widths: list[int] = []
        for capacity, count in self._kinds.items():
            own = [q for q in range(self._problem.columns, 0, -1) for _ in range(chosen.get((capacity, q), 0))]
            widths += own + [0] * (count - len(own))
        return np.array(widths, dtype=np.int32)
