"""Width profiles: how many columns each domain serves, then which ones (a skeleton), then whole rows on these.

A model over kinds of domains lists the profiles that the slack of the bounds leaves; a second one decides which columns
each domain serves; column generation over covers realises a skeleton by whole rows, or says what it lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.bounds import usable_domains
from scheduler.placement.exact.lattice import GridView, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model

# What each domain k does in total, for one pair (S, R): q_k columns served (its *width*), r_k rows touched, n_k cells.
#
# These totals know no column and no row by name, and satisfy five families of inequalities that every placement of the
# pair satisfies.  Two models state them: :class:`DomainTotals` domain by domain, to be joined by a model of the
# columns, and :class:`WidthProfiles`, which counts domains of equal capacity together and enumerates the widths.


class WidthModel:
    """The variables of the totals and the families of constraints, whether domains are told apart or not.

    Domains come in *classes*, one for each domain or one for each capacity.  For class i and width q there are
    ``count[i, q]`` domains that serve q columns, and ``rows_at[i, q]`` rows touched by these together.

    :param spare_rows: a domain with c cells in q columns may touch so many more rows than ceil(c / q).  With ``R * D``
        minus any lower bound on the sum of ceil(n / q) over the domains nothing is lost; with less the search is faster
        and its ``"no"`` proves nothing.
    """

    def __init__(self, problem: GridProblem, pair: Pair, spare_rows: int) -> None:
        from scheduler.placement import cp_model

        self.cp = cp_model.CpModel()
        self.problem = problem
        self.dp, self.pp = pair
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
        # a row need not use all q columns of the domain, so there may be more rows than ceil(c / q); none to spare by
        # far is a pair that counting refutes
        top = self._tallest[key] = max(0, min(rows, capacity, -(-capacity // q) + self._spare_rows))
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
        for weight, least in cover_weights(self.problem.rows, self.dp, self._tallest.values()):
            touches = [key[1] * weight[height] * self.count[key] for key, height in self._tallest.items()]
            self.cp.add(sum(touches) >= least * self.problem.columns)


class DomainTotals(WidthModel):
    """The totals of every single domain: widths as booleans, so that a model of the columns can speak of each."""

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        super().__init__(problem, pair, spare_rows)
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
            copy.add(copy.own(self.width_is[k][int(q)]) == 1)
            if q and heights is not None:
                copy.add(copy.own(self.rows_at[k, int(q)]) == int(heights[k]))
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

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        super().__init__(problem, pair, spare_rows)
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


_OFFSETS = 12  # The largest useful ones, from which weights of column covers are made: each adds four constraints
_SCALES = 3  # Largest numerator of the rounded weights: 1 counts domains, 2 and 3 see one that does half or a third


def cover_weights(total: int, parts: int, heights: Iterable[int]) -> Iterator[tuple[dict[int, int], int]]:
    """Yield weights that every choice of at most ``parts`` heights with sum >= ``total`` must reach together.

    For an offset d < total / parts such a choice has ``sum (h - d)^+ >= total - parts * d``, and rounding each term up
    after scaling by m / (total - parts * d) leaves at least m.

    :returns: pairs of (weight of each height, least sum).
    """
    distinct = sorted(set(heights))
    low = [h for h in distinct if h * parts < total]
    for offset in [0, *low[-_OFFSETS:]]:
        left = total - parts * offset
        above = {h: max(0, h - offset) for h in distinct}
        # a term beyond the least sum reaches it alone: no more is to be gained
        yield {h: min(left, a) for h, a in above.items()}, left
        for scale in range(1, _SCALES + 1):
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


_ORDERED = 20  # Domains that enter the order of columns: its weights are powers of two, and small integers


# Which columns each domain serves: one model for every S, and one for S = 2 in which no two columns are told apart.


class FreeColumns:
    """Any S: a boolean for each domain and column, and the cells that it gives."""

    def __init__(self, totals: DomainTotals) -> None:
        cp, problem = totals.cp, totals.problem
        self._totals = totals
        self.serves = [[cp.new_bool_var("") for _ in range(problem.columns)] for _ in totals.domains]
        gives = []
        for k, capacity in enumerate(totals.capacities):
            cp.add(sum(self.serves[k]) == totals.width(k))
            top = min(problem.rows, capacity)
            gives.append([cp.new_int_var(0, top, "") for _ in range(problem.columns)])
            for p, cells in enumerate(gives[k]):
                # cells only in columns that it serves, and in each at most one of every row that it touches
                cp.add(cells <= top * self.serves[k][p])
                cp.add(cells <= totals.rows(k))
            cp.add(sum(gives[k]) == totals.cells[k])
        for p in range(problem.columns):
            # at most S domains in a column, which give its D cells
            cp.add(sum(self.serves[k][p] for k in totals.domains) <= totals.dp)
            cp.add(sum(gives[k][p] for k in totals.domains) == problem.rows)
        # columns are interchangeable: in descending order as binary numbers, the first domain its highest digit
        ordered = min(len(totals.capacities), _ORDERED)
        value = [
            sum((1 << (ordered - 1 - k)) * self.serves[k][p] for k in range(ordered)) for p in range(problem.columns)
        ]
        for left, right in pairwise(value):
            cp.add(left >= right)

    def add_row(self, prices: Sequence[int], most: int) -> None:
        """Ask for a row that touches at most R domains and costs at most so much, by prices of a domain's cells."""
        cp = self._totals.cp
        touches = [cp.new_bool_var("") for _ in self._totals.domains]
        cp.add(sum(touches) <= self._totals.pp)
        cost = []
        for p in range(self._totals.problem.columns):
            # its cell in column p lies in one domain, which it touches and which serves the column
            takes = [cp.new_bool_var("") for _ in touches]
            cp.add_exactly_one(takes)
            for k, take in enumerate(takes):
                cp.add_implication(take, touches[k])
                cp.add_implication(take, self.serves[k][p])
                cost.append(prices[k] * take)
        cp.add(sum(cost) <= most)

    def order_alike(self, copy: cp_model.CpModel, widths: IntArray) -> None:
        """Put interchangeable domains in descending order as binary numbers too.

        Both orders at once lose nothing: of all ways to exchange columns and equal domains, the one that is largest
        when read row by row is in order both ways.
        """
        for j, k in self._totals.alike(widths):
            first, second = (
                sum(copy.own(b) * (1 << p) for p, b in enumerate(reversed(self.serves[d]))) for d in (j, k)
            )
            copy.add(first >= second)

    def found(self, solver: cp_model.CpSolver) -> list[list[bool]]:
        """Return for each domain whether it serves each column."""
        return [[solver.boolean_value(b) for b in row] for row in self.serves]


class ColumnPairs:
    """S = 2: how many columns lie on each domain alone and on each pair, so that no two columns are told apart.

    A column on the pair (j, k) gets D cells from the two, from each at most the rows it touches, so together they touch
    all D rows.  The columns of one pair can be taken to share its cells evenly.
    """

    def __init__(self, totals: DomainTotals) -> None:
        self._totals = totals
        self._columns_on: dict[tuple[int, ...], cp_model.IntVar] = {}
        self._serves: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        self._load: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        for k in totals.domains:
            self._alone(k)
        for pair in combinations(totals.domains, 2):
            self._together(pair)
        totals.cp.add(sum(self._columns_on.values()) == totals.problem.columns)
        for k in totals.domains:
            totals.cp.add(sum(self._serves[k]) == totals.width(k))
            totals.cp.add(sum(self._load[k]) == totals.cells[k])

    def _alone(self, k: int) -> None:
        """Add the columns that lie on one domain whole: each takes D of its cells, and it touches every row."""
        totals, rows = self._totals, self._totals.problem.rows
        if not (top := min(totals.capacities[k] // rows, totals.problem.columns)):
            return
        columns = self._columns_on[k,] = totals.cp.new_int_var(0, top, "")
        any_here = totals.cp.new_bool_var("")
        totals.cp.add(columns == 0).only_enforce_if(~any_here)
        totals.cp.add(totals.rows(k) == rows).only_enforce_if(any_here)
        self._serves[k].append(columns)
        self._load[k].append(rows * columns)

    def _together(self, pair: tuple[int, int]) -> None:
        """Add the columns that lie on two domains."""
        totals, rows = self._totals, self._totals.problem.rows
        cp = totals.cp
        top = min(sum(totals.capacities[d] for d in pair) // rows, totals.problem.columns)
        if not top:
            return
        columns = self._columns_on[pair] = cp.new_int_var(0, top, "")
        # at_least[i]: more than i columns, so that cells <= columns * rows, a product, becomes linear for each number
        at_least = [cp.new_bool_var("") for _ in range(top)]
        cp.add(sum(at_least) == columns)
        for more, fewer in pairwise(reversed(at_least)):
            cp.add_implication(more, fewer)
        # the D cells of a column lie in D rows, each touched by one of the two
        cp.add(sum(totals.rows(d) for d in pair) >= rows).only_enforce_if(at_least[0])
        cells = {d: cp.new_int_var(0, min(totals.capacities[d], top * rows), "") for d in pair}
        cp.add(sum(cells.values()) == rows * columns)
        for d in pair:
            # each of the two gives every column a cell, else the column would lie on the other alone
            cp.add(cells[d] >= columns)
            for count in range(top):
                # in each column at most a cell of every row that the domain touches
                within = cp.add(cells[d] <= (count + 1) * totals.rows(d))
                if count + 1 < top:
                    within.only_enforce_if(~at_least[count + 1])
            cp.add(cells[d] == 0).only_enforce_if(~at_least[0])
            self._serves[d].append(columns)
            self._load[d].append(cells[d])

    def add_row(self, prices: Sequence[int], most: int) -> None:
        """Ask for a row that touches at most R domains and costs at most so much, by prices of a domain's cells."""
        cp, top = self._totals.cp, self._totals.problem.columns
        touches = [cp.new_bool_var("") for _ in self._totals.domains]
        cp.add(sum(touches) <= self._totals.pp)
        cost: list[cp_model.LinearExprT] = []
        for on, columns in self._columns_on.items():
            # its cells in the columns of a pair, shared out between the two
            cells = [cp.new_int_var(0, top, "") for _ in on]
            cp.add(sum(cells) == columns)
            for k, count in zip(on, cells, strict=True):
                cp.add(count <= top * touches[k])
                cost.append(prices[k] * count)
        cp.add(sum(cost) <= most)

    def order_alike(self, copy: cp_model.CpModel, widths: IntArray) -> None:
        """Put interchangeable domains in descending order of the rows they touch: there are no columns to compare."""
        for j, k in self._totals.alike(widths):
            first, second = (copy.own(self._totals.rows_at[d, int(widths[d])]) for d in (j, k))
            copy.add(first >= second)

    def found(self, solver: cp_model.CpSolver) -> list[list[bool]]:
        """Return for each domain whether it serves each column."""
        columns = [on for on, count in self._columns_on.items() for _ in range(solver.value(count))]
        return [[k in on for on in columns] for k in self._totals.domains]


# Which domains serve which column: a relaxation strong enough to refute, and a skeleton to realise.
#
# A pair without a solution of :class:`SkeletonModel` is refuted; a solution is a *skeleton*, the domains of each
# column, which is realised below.  The model has three parts: what every domain does in total,
# which columns it serves, and, for R = 2, which two domains each row lies on.


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A solution."""

    serves: BoolArray  # shape [domains, columns], whether the domain may hold cells of the column
    cells: IntArray | None  # shape [rows, columns], the domain of each cell, where the model is exact (R = 2)


class SkeletonModel:
    """The model of one pair, made once and solved as often as wanted; ``spare_rows`` as in ``WidthModel``."""

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        self._fits = sum(problem.capacities[: usable_domains(problem, pair)]) >= problem.cells
        self._totals = DomainTotals(problem, pair, spare_rows=spare_rows)
        self._columns: ColumnPairs | FreeColumns
        self._row_pairs: RowsOnDomainPairs | None = None
        # pairs of rows need columns that can be told apart, so for (2, 2) the rows are counted and not the columns
        if pair[0] == 2 and pair[1] != 2:
            self._columns = ColumnPairs(self._totals)
        else:
            self._columns = FreeColumns(self._totals)
            if pair[1] == 2:
                self._row_pairs = RowsOnDomainPairs(self._totals, self._columns.serves)

    def ask_for_row(self, prices: IntArray) -> None:
        """Leave only skeletons with a row as cheap as the average row is in every placement.

        All cells together cost at most ``sum prices * capacities``, so some row costs at most a D-th of that; prices
        are integers, so that it may be rounded down.

        :param prices: shape [usable domains], not negative: what a cell in a domain costs.
        """
        most = int(np.dot(prices, self._totals.capacities)) // self._totals.problem.rows
        self._columns.add_row([int(price) for price in prices], most)

    def find(self, limit: Slice, widths: IntArray | None = None) -> tuple[Answer, Skeleton | None]:
        """Search for a skeleton; shape of widths [usable domains], the columns each domain serves, ``None`` = any."""
        if not self._fits:
            return "no", None
        cp = self._totals.cp
        if widths is not None:
            cp = self._totals.with_widths(widths)
            self._columns.order_alike(cp, widths)
        return self._find(limit, cp)

    def find_shapes(self, limit: Slice, shapes: Sequence[tuple[int, int]]) -> tuple[Answer, Skeleton | None]:
        """Search for a placement of S > 2, R = 2 where every domain touches so many columns and rows, (q, r).

        :param shapes: of all domains, of equal ones in descending order.
        """
        capacities = self._totals.capacities
        usable, rest = shapes[: len(capacities)], shapes[len(capacities) :]
        # the largest domains serve as well, and each column that a domain touches has a cell of it
        if (
            not self._fits
            or any(q for q, _ in rest)
            or any(q > c for (q, _), c in zip(usable, capacities, strict=True))
        ):
            return "no", None
        widths, heights = (np.array(sizes, dtype=np.int32) for sizes in zip(*usable, strict=True))
        cp = self._totals.with_widths(widths, heights)
        # a number for each shape: only domains of the same one are interchangeable
        self._columns.order_alike(cp, widths * (self._totals.problem.rows + 1) + heights)
        return self._find(limit, cp)

    def _find(self, limit: Slice, cp: cp_model.CpModel) -> tuple[Answer, Skeleton | None]:
        answer, solver = solve(cp, limit)
        if answer != "yes":
            return answer, None
        serves = np.array(self._columns.found(solver), dtype=np.bool_)
        return "yes", Skeleton(serves, self._row_pairs.placement(solver, serves) if self._row_pairs else None)


class RowsOnDomainPairs:
    """R = 2: how many rows lie on each domain alone and on each pair, beside the columns that each domain serves.

    Rows on the pair (j, k) are possible only if every column is served by one of the two.  In such rows domain j may
    hold any number of cells between those that only j serves and all that j serves, so the model is exact: a solution
    is a placement.
    """

    def __init__(self, totals: DomainTotals, serves: Sequence[Sequence[cp_model.IntVar]]) -> None:
        self._totals = totals
        self._serves = serves
        self._rows_on: dict[tuple[int, ...], cp_model.IntVar] = {}
        self._cells_of_first: dict[tuple[int, ...], cp_model.LinearExprT] = {}
        self._rows: list[list[cp_model.IntVar]] = [[] for _ in totals.domains]
        self._load: list[list[cp_model.LinearExprT]] = [[] for _ in totals.domains]
        for k in totals.domains:
            self._alone(k)
        for pair in combinations(totals.domains, 2):
            self._together(pair)
        totals.cp.add(sum(self._rows_on.values()) == totals.problem.rows)
        for k in totals.domains:
            totals.cp.add(sum(self._rows[k]) == totals.rows(k))
            totals.cp.add(sum(self._load[k]) == totals.cells[k])

    def _alone(self, k: int) -> None:
        """Add the rows that lie on one domain whole: only where it serves every column."""
        totals, columns = self._totals, self._totals.problem.columns
        if totals.capacities[k] < columns:
            return
        alone = totals.cp.new_int_var(0, min(totals.problem.rows, totals.capacities[k] // columns), "")
        totals.cp.add(alone == 0).only_enforce_if(~totals.width_is[k][columns])
        self._rows_on[k,] = alone
        self._cells_of_first[k,] = columns * alone
        self._rows[k].append(alone)
        self._load[k].append(columns * alone)

    def _together(self, pair: tuple[int, int]) -> None:
        """Add the rows that lie on two domains."""
        totals, cp, columns = self._totals, self._totals.cp, self._totals.problem.columns
        top = min(totals.problem.rows, sum(totals.capacities[k] for k in pair) // columns)
        if not top:
            return
        together = cp.new_int_var(0, top, "")
        paired = cp.new_bool_var("")
        cp.add(together == 0).only_enforce_if(~paired)
        for p in range(columns):
            # every column is served by one of the two
            cp.add_bool_or(~paired, *(self._serves[k][p] for k in pair))
        cells = {k: cp.new_int_var(0, totals.capacities[k], "") for k in pair}
        cp.add(sum(cells.values()) == columns * together)
        for k, other in (pair, pair[::-1]):
            for q, is_q in totals.width_is[k].items():
                # of each row at most the q cells that it serves; with the same of the other, at least what only it does
                cp.add(cells[k] <= q * together).only_enforce_if(is_q)
                # implied, and found sooner so: the other serves the P - q columns that this one does not, or more
                wide = [is_w for w, is_w in totals.width_is[other].items() if w >= columns - q]
                cp.add_bool_or(~paired, ~is_q, *wide)
            self._rows[k].append(together)
            self._load[k].append(cells[k])
        self._rows_on[pair] = together
        self._cells_of_first[pair] = cells[pair[0]]

    def placement(self, solver: cp_model.CpSolver, serves: BoolArray) -> IntArray:
        """Return the placement that a solution is, shape [rows, columns]; ``serves`` is of the same solution."""
        blocks = []
        for on, count in self._rows_on.items():
            first, second = on[0], on[-1]
            # the first takes all that it serves, then gives the second what it has too much, where both serve
            block = np.where(serves[first], first, second)[None, :].repeat(solver.value(count), axis=0)
            surplus = int((block == first).sum()) - solver.value(self._cells_of_first[on])
            either = np.flatnonzero((block == first) & serves[second])
            block.flat[either[:surplus]] = second
            blocks.append(block)
        return np.concatenate(blocks).astype(np.int32)


# From a skeleton to a placement: given the domains each column may use, find rows that touch few of them.
#
# A *skeleton* says for every column which domains serve it (at most S).  A row then follows a *cover*, a set of at most
# R domains that together serve all columns, with each cell going to one domain of the cover that serves its column.
# How many rows can be had under the capacities is a linear program over *patterns* (a cover, and how many cells each
# domain gives), solved by column generation; when it reaches D, a small integer program over the covers that it used
# gives a placement: for whole numbers of rows per cover the rest is a flow, hence integral.


# Of work: to solve a linear program of patterns and look for better ones, and to look at a domain of a cover for that
_ROUND_SECONDS, _COVER_SECONDS = 2e-3, 1e-7

_COVERS = 20_000  # Sets of domains kept; where there are more a skeleton is realised with some of them
_PRICING_ROUNDS = 60  # of pricing, before it gives up
_PATTERNS = 24  # that a round adds, the cheapest: a few make the prices settle in fewer rounds
_PRICE_UNIT = 1000  # Price of the dearest cell of a domain: fine enough to tell rows apart, and small for CP-SAT
_EPS = 1e-6  # Prices and numbers of rows closer than this are equal: the linear program works in floating point


@dataclass(frozen=True, slots=True)
class Realised:
    """A placement made of a skeleton, or why there is none."""

    # shape [rows, columns], the domain of each cell; None when none was found (which proves nothing)
    cells: IntArray | None
    # shape [domains], prices of a cell in each domain at which no row that the search knows is as cheap as the average
    # row has to be; None when fractions of rows could be had
    prices: IntArray | None = None


def realise(problem: GridProblem, serves: BoolArray, *, pp: int, limit: Slice) -> Realised:
    """Place each cell of column p in a domain k with ``serves[k, p]``, in every row at most ``pp`` of them."""
    covers = _covers(serves, pp, _COVERS)
    if not len(covers):
        # no row at all, so any prices will do
        return Realised(None, np.zeros(serves.shape[0], dtype=np.int32))
    chosen, price = _column_generation(problem, serves, covers, pp)
    if chosen is None:
        dearest = max(float(price.max()), _EPS)
        return Realised(None, np.floor(_PRICE_UNIT * price / dearest).astype(np.int32))
    return Realised(_round(problem, serves, chosen, limit))


def _covers(serves: BoolArray, pp: int, most: int) -> BoolArray:
    """Return sets of at most ``pp`` domains that serve all columns, shape [covers, domains], up to so many.

    Branches on the uncovered column with the fewest domains; sets smaller than ``pp`` are filled up later, by price.
    """
    domains_of = [tuple(int(k) for k in np.flatnonzero(column)) for column in serves.T]
    # sets of columns and of domains as bits of an integer
    serves_bits = [int("".join("1" if s else "0" for s in reversed(row)), 2) for row in serves]
    everything = (1 << serves.shape[1]) - 1
    found: set[int] = set()
    visited: set[int] = set()
    stack: list[tuple[int, int]] = [(0, 0)]
    while stack and len(found) < most:
        cover, covered = stack.pop()
        if covered == everything:
            found.add(cover)
            continue
        if cover.bit_count() == pp:
            continue
        column = min((p for p in range(len(domains_of)) if not covered >> p & 1), key=lambda p: len(domains_of[p]))
        for k in domains_of[column]:
            larger = cover | 1 << k
            if larger not in visited:
                visited.add(larger)
                stack.append((larger, covered | serves_bits[k]))
    return np.array([[cover >> k & 1 for k in range(serves.shape[0])] for cover in sorted(found)], dtype=np.bool_)


def _fill_up(serves: BoolArray, covers: BoolArray, pp: int, price: FloatArray) -> BoolArray:
    """Return the covers, those smaller than ``pp`` joined one after another by the domain that saves most."""
    filled = covers.copy()
    for _ in range(pp):
        small = np.flatnonzero(filled.sum(axis=1) < pp)
        paid = price[_cheapest_patterns(serves, filled[small], price)[1]]
        saved = np.stack([np.maximum(paid - p, 0.0) @ s for p, s in zip(price, serves, strict=True)], axis=1)
        useful = saved.max(axis=1, initial=0.0) > _EPS
        if not useful.any():
            break
        filled[small[useful], saved[useful].argmax(axis=1)] = True
    return filled


def _cheapest_patterns(serves: BoolArray, covers: BoolArray, price: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the price of each cover's cheapest row, shape [covers], and its domains, shape [covers, columns]."""
    cost = np.zeros(len(covers))
    domain = np.empty((len(covers), serves.shape[1]), dtype=np.int32)
    for p in range(serves.shape[1]):
        options = np.flatnonzero(serves[:, p])
        of_option = np.where(covers[:, options], price[options], np.inf)
        best = of_option.argmin(axis=1)
        cost += of_option[np.arange(len(covers)), best]
        domain[:, p] = options[best]
    return cost, domain


def _column_generation(
    problem: GridProblem, serves: BoolArray, covers: BoolArray, pp: int
) -> tuple[BoolArray | None, FloatArray]:
    """Return covers with rows that can reach D under the capacities, in fractions, or ``None``; and the last prices.

    Master: max sum y_t over patterns t, with sum_t n_tk * y_t <= c_k for each domain and sum y_t <= D.  Pricing: a new
    pattern improves it when its cells, at the dual prices of the domains, cost less than 1 minus the dual of D.
    """
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    capacity = np.asarray(problem.capacities[: serves.shape[0]], dtype=float)
    room = [solver.Constraint(0.0, float(c)) for c in capacity]
    # D rows are enough: without this limit prices would go on improving what is good already
    goal = solver.Constraint(0.0, float(problem.rows))
    objective = solver.Objective()
    objective.SetMaximization()
    known: set[bytes] = set()
    used: list[BoolArray] = []
    rows_on: list[pywraplp.Variable] = []
    # before the first duals: cells of small domains are dear, and any pattern is welcome
    price, wanted = 1.0 / capacity, np.inf
    for _ in range(_PRICING_ROUNDS):
        candidates = _fill_up(serves, covers, pp, price)
        spend(_ROUND_SECONDS + _COVER_SECONDS * covers.size)
        cost, domain = _cheapest_patterns(serves, candidates, price)
        before = len(used)
        for cover in np.argsort(cost, kind="stable")[:_PATTERNS]:
            if cost[cover] >= wanted - _EPS:
                break
            pattern = np.bincount(domain[cover], minlength=len(capacity))
            if (key := pattern.tobytes() + candidates[cover].tobytes()) in known:
                continue
            known.add(key)
            used.append(candidates[cover])
            variable = solver.NumVar(0.0, solver.infinity(), "")
            rows_on.append(variable)
            objective.SetCoefficient(variable, 1.0)
            goal.SetCoefficient(variable, 1.0)
            for k in np.flatnonzero(pattern):
                room[k].SetCoefficient(variable, float(pattern[k]))
        if len(used) == before or solver.Solve() != pywraplp.Solver.OPTIMAL:
            return None, price
        if objective.Value() >= problem.rows - _EPS:
            # those in use, and the newest, which may help to round
            kept = [cover for i, cover in enumerate(used) if i >= before or rows_on[i].solution_value() > _EPS]
            # unions of two of them that are small enough: whole rows may have to lie between the two
            first, second = np.triu_indices(len(kept))
            unions = np.array(kept)[first] | np.array(kept)[second]
            return np.unique(unions[unions.sum(axis=1) <= pp], axis=0), price
        price = np.maximum([constraint.dual_value() for constraint in room], 0.0)
        wanted = 1.0 - goal.dual_value()
    return None, price


def _round(problem: GridProblem, serves: BoolArray, covers: BoolArray, limit: Slice) -> IntArray | None:
    """Find whole numbers of rows for covers, and return the placement they make."""
    from scheduler.placement import cp_model

    model = cp_model.CpModel()
    rows = [model.new_int_var(0, problem.rows, "") for _ in covers]
    model.add(sum(rows) == problem.rows)
    load: list[list[cp_model.IntVar]] = [[] for _ in range(serves.shape[0])]
    cells_on: dict[tuple[int, int, int], cp_model.IntVar] = {}
    for t, cover in enumerate(covers):
        for p in range(problem.columns):
            options = [int(k) for k in np.flatnonzero(cover & serves[:, p])]
            for k in options:
                cells_on[t, p, k] = model.new_int_var(0, problem.rows, "")
                load[k].append(cells_on[t, p, k])
            # each row of the cover has one cell in column p, in a domain of the cover that serves it
            model.add(sum(cells_on[t, p, k] for k in options) == rows[t])
    for k, cells in enumerate(load):
        if cells:
            model.add(sum(cells) <= problem.capacities[k])
    answer, solver = solve(model, limit)
    if answer != "yes":
        return None
    # the rows of each cover together; in each column its domains follow one another
    placement = np.empty((problem.rows, problem.columns), dtype=np.int32)
    first = [0, *accumulate(solver.value(r) for r in rows)]
    start = {(t, p): first[t] for t in range(len(rows)) for p in range(problem.columns)}
    for (t, p, k), variable in cells_on.items():
        end = start[t, p] + solver.value(variable)
        placement[start[t, p] : end, p] = k
        start[t, p] = end
    return placement


# Enumerating the width profiles of the open pairs, until each pair is built or refuted.
#
# Each open pair gets a slice of time, two searches side by side, then longer slices.  The profiles of
# :class:`WidthProfiles` are few at the interesting pairs, and with the
# widths fixed a skeleton is found or excluded in hundredths of a second.  When the profiles are used up and each was
# excluded, the pair is refuted; every single verdict of that is confirmed by a second search with another seed first.


_FIRST_EFFORT = 0.25  # Effort of the first round over all open pairs, in the unit of ``_PROFILES``
_LAST_EFFORT = 2.0**20  # Rounds that come to that have had twelve days of effort: they end at once, and so would others
_GROWTH = 2.0  # Factor on the effort from round to round: all rounds before one cost together no more than it
# New profiles looked at for each unit of a round's effort: eight in the first round, with an effort of 0.25 each. Of 18
# instances left open before, such looks settled eight, shorter ones five
_PROFILES = 32
# Effort of confirming a verdict, for each unit of the round's, and of finding the next profile, which is hardly ever
# needed: a proof that is nearly there should not fail
_SURE = 16.0
# How a skeleton is looked for, one way after another, as CP-SAT's linearization level and whether presolve is light: by
# search alone, with a linear program, with presolve. They succeed on different instances
_WAYS = ((0, True), (2, True), (1, False))
_SKELETONS = 12  # that may fail to be realised, each with a row asked for, before the profile is left undecided
# Effort of the integer program that makes whole rows of fractions: little, for another skeleton may do as well
ROUNDING_EFFORT = 0.5

_SEEDS_OF_A_ROUND = 1000
"""Seeds between two rounds, more than the first ones have profiles; a seed that comes twice would do no harm."""

_SEEDS_OF_A_SEARCH = 10_000
"""Seeds between the search of a verdict and its confirmation: the two shall not be the same search."""


SkeletonSearch = Callable[[], tuple[Answer, Skeleton | None]]
SideBySide = Callable[[Sequence[SkeletonSearch]], list[tuple[Answer, Skeleton | None]]]


def _one_by_one(searches: Sequence[SkeletonSearch]) -> list[tuple[Answer, Skeleton | None]]:
    return [search() for search in searches]


def enumerate_profiles(search: PairSearch) -> None:
    """Search the width profiles of open pairs in growing slices, from the dearest pair down, two at a time; with many
    cells they get slow and find nothing that bands do not.
    """

    @cache
    def profiles_of(pair: Pair, view: GridView) -> PairProfiles:
        spare = search.spare_rows(view, pair)
        return PairProfiles(view.problem, view.turn(pair), spare_rows=spare)

    if search.problem.cells > search.params.many_cells:
        return
    effort, seed = _FIRST_EFFORT, 0
    while search.left > 0 and not search.lattice.proved and effort < _LAST_EFFORT:
        tasks = [
            _Task(pair, view, partial(profiles_of(pair, view).search, effort=effort, seed=seed))
            for pair in reversed(search.lattice.open())
            for view in _narrow_views(search)
        ]
        if not tasks:
            return
        _run_by_twos(search, tasks)
        effort, seed = effort * _GROWTH, seed + 1


@dataclass(frozen=True, slots=True)
class _Task:
    """A search for one pair on one view, to be run beside another; it is given how many seconds are left."""

    pair: Pair
    view: GridView
    search: Callable[..., tuple[Answer, IntArray | None]]


def _narrow_views(search: PairSearch) -> list[GridView]:
    """Return the views on which skeleton models are quick; if there is none, those on which they are of any use."""
    params = search.params
    narrow = [view for view in search.views if view.problem.columns <= params.narrow_columns]
    return narrow or [view for view in search.views if view.problem.columns <= params.wide_columns]


def _run_by_twos(search: PairSearch, tasks: Sequence[_Task]) -> None:
    """Run searches two at a time; results are taken in the order of the tasks."""
    waiting = list(tasks)
    while waiting and search.left > 0:
        batch, rest = waiting[:2], waiting[2:]
        search.say(f"skeletons for DP spread {batch[0].pair[0]}, PP spread {batch[0].pair[1]}")
        confirm = search.side_by_side if len(batch) == 1 else _one_by_one
        results = search.side_by_side([partial(task.search, wall=search.left, side_by_side=confirm) for task in batch])
        for task, (answer, cells) in zip(batch, results, strict=True):
            if answer == "no":
                sentence = (
                    f"two complete searches over which domains serve which stage found none in which no DP group "
                    f"touches more than {task.pair[0]} domains and no PP group more than {task.pair[1]}"
                )
                search.lattice.refute(task.pair, "skeleton", sentence)
            elif cells is not None:
                search.build(task.view, cells, "skeleton")
        still = set(search.lattice.open())
        waiting = [task for task in rest if task.pair in still]


class PairProfiles:
    """The width profiles of one pair on one view: each in turn, until one can be built or none is left.

    Models and profiles are kept from one slice of time to the next.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        self._problem = problem
        self._pair = pair
        self._profiles = WidthProfiles(problem, pair, spare_rows=spare_rows)
        self._skeletons = SkeletonModel(problem, pair, spare_rows=spare_rows)
        self._ways = list(_WAYS)
        self._undecided: list[IntArray] = []
        self._excluded: list[IntArray] = []
        self._used_up = False

    def search(
        self, *, effort: float, wall: float, seed: int, side_by_side: SideBySide = _one_by_one
    ) -> tuple[Answer, IntArray | None]:
        """Go on for a while.

        :param effort: 1 stands for ``_PROFILES`` new profiles with CP-SAT's effort 1 for each, or as much for
            the undecided ones.
        :param side_by_side: runs the confirmations, two at once where a core is idle else.
        :returns: ``"yes"`` with the domain of each cell, shape [rows, columns]; ``"no"`` when the pair is refuted.
        """
        end = clock() + wall
        go_on = self._undecided_profiles if self._used_up else self._new_profiles
        if (cells := go_on(effort, end, seed)) is not None:
            return "yes", cells
        if not self._used_up or self._undecided:
            return "unknown", None
        # a second search has to say "no" to all profiles, and to there being another.  It starts with presolve, which
        # the first comes to last, so that it is another search and not the same again: a false "infeasible" of CP-SAT
        # with one worker has been reported
        effort, seed = _SURE * effort, seed + _SEEDS_OF_A_SEARCH
        answer, missed = self._profiles.next(Slice(effort, end - clock(), seed))
        if missed is not None:
            self._undecided.append(missed)
        checks = [partial(self._skeleton, widths, effort, end, seed, backwards=True) for widths in self._excluded]
        confirmed = answer == "no" and all(
            second == "no" for i in range(0, len(checks), 2) for second, _ in side_by_side(checks[i : i + 2])
        )
        return ("no" if confirmed else "unknown"), None

    def _new_profiles(self, effort: float, end: float, seed: int) -> IntArray | None:
        for step in range(int(_PROFILES * effort)):
            if clock() > end:
                return None
            step_seed = _SEEDS_OF_A_ROUND * seed + step
            limit = Slice(_SURE * effort, end - clock(), step_seed, light=True)
            answer, widths = self._profiles.next(limit)
            self._used_up = answer == "no"
            if widths is None:
                return None
            if (cells := self._try(widths, effort, end, step_seed)) is not None:
                return cells
        return None

    def _undecided_profiles(self, effort: float, end: float, seed: int) -> IntArray | None:
        waiting, self._undecided = self._undecided, []
        for i, widths in enumerate(waiting):
            if clock() > end:
                self._undecided += waiting[i:]
                return None
            if (cells := self._try(widths, effort, end, seed)) is not None:
                return cells
        return None

    def _try(self, widths: IntArray, effort: float, end: float, seed: int) -> IntArray | None:
        """Build a placement with these widths, exclude them, or leave them undecided.

        A skeleton that cannot be realised says which rows are missing; the model learns to ask for them.
        """
        for _ in range(_SKELETONS):
            if clock() > end:
                break
            answer, skeleton = self._skeleton(widths, effort, end, seed)
            if answer == "no":
                # where possible the one with the same widths on the largest domains, which says more
                largest = self._profiles.on_largest(widths)
                if not np.array_equal(largest, widths) and self._skeleton(largest, effort, end, seed)[0] == "no":
                    widths = largest
                self._profiles.exclude(widths)
                self._excluded.append(widths)
                return None
            if skeleton is None:
                break
            if skeleton.cells is not None:
                return skeleton.cells
            rounding = Slice(ROUNDING_EFFORT, end - clock(), seed)
            made = realise(self._problem, skeleton.serves, pp=self._pair[1], limit=rounding)
            if made.cells is not None:
                return made.cells
            if made.prices is None:
                break
            self._skeletons.ask_for_row(made.prices)
        self._undecided.append(widths)
        return None

    def _skeleton(
        self, widths: IntArray, effort: float, end: float, seed: int, *, backwards: bool = False
    ) -> tuple[Answer, Skeleton | None]:
        """Look for a skeleton with these widths, in one way after another: first the one that settled the last profile.

        :param backwards: in the opposite order of those that are given, for a confirmation.
        """
        for way in _WAYS[::-1] if backwards else self._ways:
            limit = Slice(effort, end - clock(), seed, linearization=way[0], light=way[1])
            answer, skeleton = self._skeletons.find(limit, widths)
            if answer != "unknown":
                if not backwards:
                    self._ways = [way, *(other for other in self._ways if other != way)]
                break
        return answer, skeleton
