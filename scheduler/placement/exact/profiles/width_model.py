"""What each domain k does in total, for one pair (S, R): q_k columns served (its *width*), r_k rows touched, n_k cells.

These totals know no column and no row by name, and satisfy five families of inequalities that every placement of the
pair satisfies.  Two models state them: :class:`DomainTotals` domain by domain, to be joined by a model of the columns,
and :class:`WidthProfiles`, which counts domains of equal capacity together and enumerates the widths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import usable_domains
from scheduler.placement.types import Pair
from topology.cluster import IntArray

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


class WidthModel:
    """The variables of the totals and the families of constraints, whether domains are told apart or not.

    Domains come in *classes*, one for each domain or one for each capacity.  For class i and width q there are
    ``count[i, q]`` domains that serve q columns, and ``rows_at[i, q]`` rows touched by these together.

    :param spare_rows: a domain with c cells in q columns may touch so many more rows than ceil(c / q).  With ``R * D``
        minus the least sum of rows of the rectangle bound nothing is lost, as the sum of ceil(n / q) over the domains
        is at least that; with less the search is faster and its ``"no"`` proves nothing.
    """

    def __init__(self, problem: GridProblem, pair: Pair, spare_rows: int, params: ExactParams) -> None:
        from ortools.sat.python import cp_model

        self.cp = cp_model.CpModel()
        self.problem = problem
        self.dp, self.pp = pair
        self.params = params
        self.capacities = problem.capacities[: usable_domains(problem, pair)]
        self._spare_rows = spare_rows
        self._tallest: dict[tuple[int, int], int] = {}
        self.count: dict[tuple[int, int], cp_model.IntVar] = {}
        self.rows_at: dict[tuple[int, int], cp_model.IntVar] = {}

    def _rectangle(
        self, key: tuple[int, int], capacity: int, *, domains: int = 1
    ) -> tuple[cp_model.LinearExprT, cp_model.LinearExprT]:
        """Add the rows of a class at a width, and return two bounds on the cells that its domains hold.

        :param key: class and width q; the count is there already.
        """
        q, count, rows = key[1], self.count[key], self.problem.rows
        height, rest = divmod(capacity, q)
        # a row need not use all q columns of the domain, so there may be more rows than ceil(c / q)
        top = self._tallest[key] = min(rows, capacity, -(-capacity // q) + self._spare_rows)
        r = self.rows_at[key] = self.cp.new_int_var(0, domains * top, "")
        # rows only where there are such domains
        self.cp.add(r <= top * count)
        if height >= rows:
            return q * r, q * rows * count
        # n <= c too, which at this width is: beyond its full height a domain gives at most (c mod q) more cells, so
        # n <= q * height + (c mod q) * (r - height), a line through (height, q * height) and (height + 1, c)
        return q * r, rest * r + (q - rest) * height * count

    def _bound_touches(self) -> None:
        """Add sum r <= R * D and sum q <= S * P: each row touches R domains at most, each column S."""
        self.cp.add(sum(self.rows_at.values()) <= self.pp * self.problem.rows)
        self.cp.add(sum(q * count for (_, q), count in self.count.items()) <= self.dp * self.problem.columns)

    def _connect_columns(self) -> None:
        """Add sum (q - 1) >= P - R over the domains in use: they join the columns to at most R components.

        Start with P columns, each a component of its own.  A domain that serves q columns joins q components to one at
        best, so it takes away q - 1.  Every row touches every component, hence at most R may be left.
        """
        joined = sum((q - 1) * count for (_, q), count in self.count.items())
        self.cp.add(joined >= self.problem.columns - self.pp)

    def _cover_rows(self) -> None:
        """Add that every row has domains enough: at most R, with widths that add up to P or more.

        Such a row follows a multiset of at most R widths with sum P, its *pattern*, with domains as wide or wider.  So
        for every q, rows touched by domains of width q or more are at least those that the patterns of all rows ask.
        """
        columns, rows = self.problem.columns, self.problem.rows
        patterns = list(minimal_patterns(columns, self.pp))
        rows_with = [self.cp.new_int_var(0, rows, "") for _ in patterns]
        self.cp.add(sum(rows_with) == rows)
        for q in range(1, columns + 1):
            wanted = [sum(w >= q for w in pattern) * y for pattern, y in zip(patterns, rows_with, strict=True)]
            self.cp.add(sum(r for (_, width), r in self.rows_at.items() if width >= q) >= sum(wanted))

    def _cover_columns(self) -> None:
        """Add that every column has domains enough: at most S, with heights that add up to D or more.

        Each weighing of heights that reaches its least sum in every such choice holds for each of the P columns, hence
        for all together; a domain of width q counts in q of them.
        """
        for weight, least in cover_weights(self.problem.rows, self.dp, self._tallest.values(), self.params):
            touches = [key[1] * weight[height] * self.count[key] for key, height in self._tallest.items()]
            self.cp.add(sum(touches) >= least * self.problem.columns)


class DomainTotals(WidthModel):
    """The totals of every single domain: widths as booleans, so that a model of the columns can speak of each."""

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int, params: ExactParams = DEFAULTS) -> None:
        super().__init__(problem, pair, spare_rows, params)
        self.domains = range(len(self.capacities))
        self.width_is = [
            {q: self.cp.new_bool_var("") for q in range(min(problem.columns, c) + 1)} for c in self.capacities
        ]
        self.count = {(k, q): is_q for k in self.domains for q, is_q in self.width_is[k].items() if q}
        self.cells = [self.cp.new_int_var(0, c, "") for c in self.capacities]
        for k, capacity in enumerate(self.capacities):
            self.cp.add_exactly_one(self.width_is[k].values())
            bounds = [self._rectangle((k, q), capacity) for q in self.width_is[k] if q]
            for of_width in zip(*bounds, strict=True):
                self.cp.add(self.cells[k] <= sum(of_width))
        self._bound_touches()
        self.cp.add(sum(self.cells) == problem.cells)
        self._connect_columns()
        self._cover_rows()
        self._cover_columns()
        for j, k in pairwise(self.domains):
            # domains of equal capacity are interchangeable: in descending width
            if self.capacities[j] == self.capacities[k]:
                self.cp.add(self.width(j) >= self.width(k))

    def rows(self, k: int) -> cp_model.LinearExprT:
        """Return the rows that domain k touches."""
        return sum(self.rows_at[k, q] for q in self.width_is[k] if q)

    def width(self, k: int) -> cp_model.LinearExprT:
        """Return the columns that domain k serves."""
        return sum(q * is_q for q, is_q in self.width_is[k].items())

    def with_widths(self, widths: IntArray, heights: IntArray | None = None) -> cp_model.CpModel:
        """Return a copy of the model in which the number of columns each domain serves is given, and that of rows."""
        copy = self.cp.clone()
        for k, q in enumerate(widths):
            index = self.width_is[k][int(q)].index
            copy.add(copy.get_bool_var_from_proto_index(index) == 1)
            if q and heights is not None:
                copy.add(copy.get_int_var_from_proto_index(self.rows_at[k, int(q)].index) == int(heights[k]))
        return copy

    def alike(self, widths: IntArray) -> Iterator[tuple[int, int]]:
        """Yield neighbours in the order of domains that are interchangeable: of equal capacity and width."""
        for j, k in pairwise(self.domains):
            if widths[k] and widths[j] == widths[k] and self.capacities[j] == self.capacities[k]:
                yield j, k


class WidthProfiles(WidthModel):
    """A stream of all *width profiles* of one pair: how many columns each domain might serve, before deciding which.

    At the interesting pairs the constraints leave few, and a small model over the distinct capacities finds each in
    hundredths of a second.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int, params: ExactParams = DEFAULTS) -> None:
        super().__init__(problem, pair, spare_rows, params)
        self._more: dict[tuple[int, int, int], cp_model.IntVar] = {}
        cells = []
        for capacity, domains in Counter(self.capacities).items():
            widths = range(1, min(problem.columns, capacity) + 1)
            cells += [self._cells_at((capacity, q), domains) for q in widths]
            self.cp.add(sum(self.count[capacity, q] for q in widths) <= domains)  # the others are not used
        self.cp.add(sum(cells) == problem.cells)
        self._bound_touches()
        self._connect_columns()
        self._cover_columns()
        self._cover_rows()

    def _cells_at(self, key: tuple[int, int], domains: int) -> cp_model.IntVar:
        """Add the domains of a capacity that serve q columns, and return the cells that they hold together."""
        capacity, q = key
        most = min(capacity, self.problem.rows * q)
        count = self.count[key] = self.cp.new_int_var(0, domains, "")
        by_width, by_remainder = self._rectangle(key, capacity, domains=domains)
        cells = self.cp.new_int_var(0, domains * most, "")
        self.cp.add(cells <= by_width)
        self.cp.add(cells <= most * count)
        self.cp.add(cells >= count)  # a domain without a cell serves no column
        if capacity < self.problem.rows * q:
            self.cp.add(cells <= by_remainder)
        return cells

    def next(self, limit: Slice) -> tuple[Answer, IntArray | None]:
        """Find a profile not given before and not excluded; ``"no"`` = none is left.

        :returns: with ``"yes"`` the columns that each domain serves, shape [usable domains], in the problem's order.
        """
        answer, solver = solve(self.cp, limit)
        if answer != "yes":
            return answer, None
        chosen = {key: solver.value(count) for key, count in self.count.items()}
        differs = []  # from now on some count differs
        for key, count in self.count.items():
            other = self.cp.new_bool_var("")
            self.cp.add(count != chosen[key]).only_enforce_if(other)
            differs.append(other)
        self.cp.add_bool_or(differs)
        widths: list[int] = []  # among domains of equal capacity in descending order
        for capacity, domains in Counter(self.capacities).items():
            own = [q for q in range(self.problem.columns, 0, -1) for _ in range(chosen.get((capacity, q), 0))]
            widths += own + [0] * (domains - len(own))
        return "yes", np.array(widths, dtype=np.int32)

    def on_largest(self, widths: IntArray) -> IntArray:
        """Return the same widths in the same order on the largest domains, a profile that dominates this one."""
        moved = widths[np.argsort(widths == 0, kind="stable")]
        order = np.lexsort((-moved, -np.asarray(self.capacities)))
        return moved[order]

    def exclude(self, widths: IntArray) -> None:
        """Never give a profile that these widths dominate: they have no placement, so it has none.

        Of two profiles one dominates the other when the domains of each width can be matched one to one with as large
        or larger ones of that width: a placement on the smaller domains is one on the larger.  So in another profile
        some width q has more domains or fewer, or its i-th largest is larger than here.  One with fewer domains may
        have a placement all the same: the domain that it leaves out finds no columns with fewer than S domains.
        """
        beyond: list[cp_model.LiteralT] = []
        for q in range(1, self.problem.columns + 1):
            here = [self.capacities[k] for k in np.flatnonzero(widths == q)]
            beyond += [self._more_than(capacity, q, i) for i, capacity in enumerate(here)]
            beyond.append(self._more_than(0, q, len(here)))
            if here:
                beyond.append(~self._more_than(0, q, len(here) - 1))
        self.cp.add_bool_or(beyond)

    def _more_than(self, capacity: int, q: int, count: int) -> cp_model.IntVar:
        """Return whether more than so many domains larger than the capacity have width q."""
        key = capacity, q, count
        if key not in self._more:
            more = self._more[key] = self.cp.new_bool_var("")
            larger = sum(z for (c, width), z in self.count.items() if c > capacity and width == q)
            self.cp.add(larger > count).only_enforce_if(more)
            self.cp.add(larger <= count).only_enforce_if(~more)
        return self._more[key]


def cover_weights(
    total: int, parts: int, heights: Iterable[int], params: ExactParams = DEFAULTS
) -> Iterator[tuple[dict[int, int], int]]:
    """Yield weights that every choice of at most ``parts`` heights with sum >= ``total`` must reach together.

    For an offset d < total / parts such a choice has ``sum (h - d)^+ >= total - parts * d``, and rounding each term up
    after scaling by m / (total - parts * d) leaves at least m.

    :returns: pairs of (weight of each height, least sum).
    """
    distinct = sorted(set(heights))
    low = [h for h in distinct if h * parts < total]
    for offset in [0, *low[-params.cover_offsets :]]:
        left = total - parts * offset
        above = {h: max(0, h - offset) for h in distinct}
        # a term beyond the least sum reaches it alone: no more is to be gained
        yield {h: min(left, a) for h, a in above.items()}, left
        for scale in params.cover_scales:
            yield {h: min(scale, -(-scale * a // left)) for h, a in above.items()}, scale


def minimal_patterns(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield the multisets of at most that many positive widths that add up to the total, each in descending order."""

    def extend(pattern: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        if not left:
            yield pattern
            return
        room = parts - len(pattern)
        largest = min(pattern[-1] if pattern else total, left)
        for width in range(largest, 0, -1):
            # narrower ones fall short even if all that follow are as wide
            if width * room < left:
                return
            yield from extend((*pattern, width), left - width)

    yield from extend((), total)
