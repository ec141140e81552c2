"""Skeletons: which domains serve which columns, by one model of a pair; then whole rows on these.

The model refutes where it has no solution.  For R = 2 a solution is a placement; else column generation over covers
realises it by whole rows, or says which rows it lacks, and the model asks for one of these.

Where the domains lie in broader ones, *pods*, that are held to a pair of their own, the same totals and columns are
modelled of the pods beside those of the domains: what a domain serves its pod serves, and holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import accumulate, combinations, count, pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from scheduler.placement.cpsat import Answer, Slice, solve
from scheduler.placement.exact.bounds import usable_domains
from scheduler.placement.exact.closed_forms import NODES
from scheduler.placement.exact.lattice import GridView, PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scheduler.placement import cp_model


Variables = list[list["cp_model.IntVar"]]
"""By domain and column."""


class DomainTotals:
    """What each domain k does in total: q_k columns served (its *width*), r_k rows touched, n_k cells.

    These totals know no column and no row by name, and satisfy five families of inequalities that every placement of
    the pair satisfies.  Widths are booleans, so that a model of the columns can speak of each.

    :param kinds: of the domains that may be in use; neighbours of one kind are interchangeable.
    :param spare_rows: a domain with c cells in q columns may touch so many more rows than ceil(c / q).  With ``R * D``
        minus any lower bound on the sum of ceil(n / q) over the domains nothing is lost; with less the search is faster
        and its ``"no"`` proves nothing.
    """

    def __init__(
        self, cp: cp_model.CpModel, problem: GridProblem, pair: Pair, *, kinds: Sequence[Hashable], spare_rows: int
    ) -> None:
        self.cp = cp
        self.problem = problem
        self.dp, self.pp = pair
        self.capacities = problem.capacities[: len(kinds)]
        self._spare_rows = spare_rows
        self._tallest: dict[tuple[int, int], int] = {}
        self.domains = range(len(self.capacities))
        self.width_is = [{q: cp.new_bool_var("") for q in range(min(problem.columns, c) + 1)} for c in self.capacities]
        self.rows_at: dict[tuple[int, int], cp_model.IntVar] = {}  # by domain and width
        self.cells = [cp.new_int_var(0, c, "") for c in self.capacities]
        for k in self.domains:
            cp.add_exactly_one(self.width_is[k].values())
            for of_width in zip(*(self._rectangle(k, q) for q in self.width_is[k] if q), strict=True):
                cp.add(self.cells[k] <= sum(of_width))
        # each row touches R domains at most, each column S
        cp.add(sum(self.rows_at.values()) <= self.pp * problem.rows)
        cp.add(sum(self.width(k) for k in self.domains) <= self.dp * problem.columns)
        cp.add(sum(self.cells) == problem.cells)
        # start with P columns, each a component of its own: a domain that serves q of them joins q components to one at
        # best, and as every row touches every component at most R may be left
        joined = (self.width(k) - 1 + self.width_is[k][0] for k in self.domains)
        cp.add(sum(joined) >= problem.columns - self.pp)
        self._cover_rows()
        self._cover_columns()
        for j, k in pairwise(self.domains):
            if kinds[j] == kinds[k]:  # in descending width
                cp.add(self.width(j) >= self.width(k))

    def _rectangle(self, k: int, q: int) -> tuple[cp_model.LinearExprT, cp_model.LinearExprT]:
        """Add the rows of a domain at a width, and return two bounds on the cells that it holds."""
        rows, capacity, is_q = self.problem.rows, self.capacities[k], self.width_is[k][q]
        height, rest = divmod(capacity, q)
        # a row need not use all q columns of the domain, so there may be more rows than ceil(c / q); none to spare by
        # far is a pair that counting refutes
        top = self._tallest[k, q] = max(0, min(rows, capacity, -(-capacity // q) + self._spare_rows))
        r = self.rows_at[k, q] = self.cp.new_int_var(0, top, "")
        self.cp.add(r <= top * is_q)
        if height >= rows:
            return q * r, q * rows * is_q
        # n <= c too, which at this width is: beyond its full height a domain gives at most (c mod q) more cells, so
        # n <= q * height + (c mod q) * (r - height), a line through (height, q * height) and (height + 1, c)
        return q * r, rest * r + (q - rest) * height * is_q

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
            touches = [q * weight[height] * self.width_is[k][q] for (k, q), height in self._tallest.items()]
            self.cp.add(sum(touches) >= least * self.problem.columns)

    def rows(self, k: int) -> cp_model.LinearExprT:
        """Return the rows that domain k touches."""
        return sum(self.rows_at[k, q] for q in self.width_is[k] if q)

    def width(self, k: int) -> cp_model.LinearExprT:
        """Return the columns that domain k serves."""
        return sum(q * is_q for q, is_q in self.width_is[k].items())

    def add_columns(self) -> tuple[Variables, Variables]:
        """Add whether each domain serves each column, and the cells that it gives; return both.

        A column has at most S domains, which give its D cells.
        """
        cp, columns = self.cp, range(self.problem.columns)
        serves = [[cp.new_bool_var("") for _ in columns] for _ in self.domains]
        gives = []
        for k, capacity in enumerate(self.capacities):
            cp.add(sum(serves[k]) == self.width(k))
            top = min(self.problem.rows, capacity)
            gives.append([cp.new_int_var(0, top, "") for _ in columns])
            for p, cells in enumerate(gives[k]):
                # cells only in columns that it serves, and in each at most one of every row that it touches
                cp.add(cells <= top * serves[k][p])
                cp.add(cells <= self.rows(k))
            cp.add(sum(gives[k]) == self.cells[k])
        for p in columns:
            cp.add(sum(serves[k][p] for k in self.domains) <= self.dp)
            cp.add(sum(gives[k][p] for k in self.domains) == self.problem.rows)
        return serves, gives


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


# Which domains serve which column: a relaxation strong enough to refute, and a skeleton to realise.
#
# A pair without a solution of :class:`SkeletonModel` is refuted; a solution is a *skeleton*, the domains of each
# column, which is realised below.  The model has three parts: what every domain does in total, which columns it serves,
# and, for R = 2, which two domains each row lies on.


_ORDERED = 20  # Domains that enter the order of columns: its weights are powers of two, and small integers


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A solution."""

    serves: BoolArray  # shape [domains, columns], whether the domain may hold cells of the column
    cells: IntArray | None  # shape [rows, columns], the domain of each cell, where the model is exact (R = 2)


@dataclass(frozen=True)
class Pods:
    """The broader domains that the domains of a problem lie in, all that a placement may touch."""

    of_domain: tuple[int, ...]  # the pod of each domain of the problem, the roomiest pod 0
    pair: Pair  # (S, R) that is held at their level

    @cached_property
    def inside(self) -> list[list[int]]:
        """The domains in each pod."""
        domains: list[list[int]] = [[] for _ in range(1 + max(self.of_domain))]
        for domain, pod in enumerate(self.of_domain):
            domains[pod].append(domain)
        return domains

    def touched(self, sets: BoolArray) -> BoolArray:
        """Return the pods that sets of domains touch, shape [sets, pods]; ``sets`` has shape [sets, domains]."""
        return np.stack([sets[:, domains].any(axis=1) for domains in self.inside], axis=1)


class SkeletonModel:
    """The model of one pair, made once and solved as often as wanted; ``spare_rows`` as in ``DomainTotals``.

    :param pods: that are held to a pair besides; ``None`` = the domains lie in no broader ones that count.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int, pods: Pods | None = None) -> None:
        from scheduler.placement import cp_model

        self.pair, self.pods = pair, pods
        cp, columns = cp_model.CpModel(), range(problem.columns)
        kinds: list[Hashable] = list(problem.capacities[: usable_domains(problem, pair)])
        if pods is not None:
            kinds = list(zip(problem.capacities, pods.of_domain, strict=True))
        totals = self._totals = DomainTotals(cp, problem, pair, kinds=kinds, spare_rows=spare_rows)
        self._fits = sum(totals.capacities) >= problem.cells
        if pods is None:
            serves = self._serves = totals.add_columns()[0]
        else:
            # the broadest domains tell columns apart
            self._serves, serves = self._add_pods(pods)
        # columns are interchangeable: in descending order as binary numbers, the first domain its highest digit
        ordered = min(len(serves), _ORDERED)
        value = [sum((1 << (ordered - 1 - k)) * serves[k][p] for k in range(ordered)) for p in columns]
        for left, right in pairwise(value):
            cp.add(left >= right)
        self._row_pairs = RowsOnDomainPairs(totals, self._serves) if pair[1] == 2 and pods is None else None

    def _add_pods(self, pods: Pods) -> tuple[Variables, Variables]:
        """Add what pods do in total, then the columns; return which of these each domain serves, and each pod."""
        totals, inside = self._totals, pods.inside
        cp, problem = totals.cp, totals.problem
        kinds = [tuple(problem.capacities[k] for k in domains) for domains in inside]
        grid = GridProblem(problem.rows, problem.columns, tuple(map(sum, kinds)))
        outer = DomainTotals(cp, grid, pods.pair, kinds=kinds, spare_rows=problem.rows)
        for pod, domains in enumerate(inside):
            cp.add(sum(totals.cells[k] for k in domains) == outer.cells[pod])
            for lines in (DomainTotals.rows, DomainTotals.width):
                cp.add(sum(lines(totals, k) for k in domains) >= lines(outer, pod))
                for k in domains:
                    cp.add(lines(totals, k) <= lines(outer, pod))
        self._counts = cp.clone()
        (serves, gives), (pod_serves, pod_gives) = totals.add_columns(), outer.add_columns()
        for (pod, domains), p in product(enumerate(inside), range(problem.columns)):
            for k in domains:
                cp.add_implication(serves[k][p], pod_serves[pod][p])
            cp.add(sum(serves[k][p] for k in domains) >= pod_serves[pod][p])
            cp.add(sum(gives[k][p] for k in domains) == pod_gives[pod][p])
        return serves, pod_serves

    def count(self, limit: Slice) -> Answer:
        """Return ``"no"`` where domains and pods have no totals; others say little of whether there is a skeleton."""
        return solve(self._counts, limit)[0] if self._fits else "no"

    def ask_for_row(self, prices: IntArray) -> None:
        """Leave only skeletons with a row as cheap as the average row is in every placement.

        All cells together cost at most ``sum prices * capacities``, so some row costs at most a D-th of that; prices
        are integers, so that it may be rounded down.

        :param prices: shape [usable domains], not negative: what a cell in a domain costs.
        """
        totals, cp = self._totals, self._totals.cp
        most = int(np.dot(prices, totals.capacities)) // totals.problem.rows
        touches = [cp.new_bool_var("") for _ in totals.domains]
        cp.add(sum(touches) <= totals.pp)
        if self.pods is not None:
            entered = [cp.new_bool_var("") for _ in self.pods.inside]
            cp.add(sum(entered) <= self.pods.pair[1])
            for k, pod in enumerate(self.pods.of_domain):
                cp.add_implication(touches[k], entered[pod])
        cost = []
        for p in range(totals.problem.columns):
            # its cell in column p lies in one domain, which it touches and which serves the column
            takes = [cp.new_bool_var("") for _ in touches]
            cp.add_exactly_one(takes)
            for k, take in enumerate(takes):
                cp.add_implication(take, touches[k])
                cp.add_implication(take, self._serves[k][p])
                cost.append(int(prices[k]) * take)
        cp.add(sum(cost) <= most)

    def find(self, limit: Slice, shapes: Sequence[tuple[int, int]] | None = None) -> tuple[Answer, Skeleton | None]:
        """Search for a skeleton.

        :param shapes: (q, r), how many columns and rows each of all domains touches, of equal ones in descending order;
            ``None`` = any.
        """
        if not self._fits:
            return "no", None
        cp = self._totals.cp
        if shapes is not None:
            capacities = self._totals.capacities
            usable, rest = shapes[: len(capacities)], shapes[len(capacities) :]
            # the largest domains serve as well, and each column that a domain touches has a cell of it
            if any(q for q, _ in rest) or any(q > c for (q, _), c in zip(usable, capacities, strict=True)):
                return "no", None
            cp = self._with_shapes(usable)
        answer, solver = solve(cp, limit)
        if answer != "yes":
            return answer, None
        serves = np.array([[solver.boolean_value(b) for b in row] for row in self._serves], dtype=np.bool_)
        return "yes", Skeleton(serves, self._row_pairs.placement(solver, serves) if self._row_pairs else None)

    def _with_shapes(self, shapes: Sequence[tuple[int, int]]) -> cp_model.CpModel:
        """Return a copy of the model in which the shape of each domain is given."""
        totals, copy = self._totals, self._totals.cp.clone()
        for k, (q, r) in enumerate(shapes):
            copy.add(copy.own(totals.width_is[k][q]) == 1)
            if q:
                copy.add(copy.own(totals.rows_at[k, q]) == r)
        for j, k in pairwise(totals.domains):
            if shapes[j][0] and shapes[j] == shapes[k] and totals.capacities[j] == totals.capacities[k]:
                # interchangeable domains in descending order as binary numbers too.  Both orders at once lose nothing:
                # of all ways to exchange columns and equal domains, the one that is largest when read row by row is in
                # order both ways
                first, second = (
                    sum(copy.own(b) * (1 << p) for p, b in enumerate(reversed(self._serves[d]))) for d in (j, k)
                )
                copy.add(first >= second)
        return copy


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
        for on, rows in self._rows_on.items():
            first, second = on[0], on[-1]
            # the first takes all that it serves, then gives the second what it has too much, where both serve
            block = np.where(serves[first], first, second)[None, :].repeat(solver.value(rows), axis=0)
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

_PATTERNS = 24  # that a round adds, the cheapest: a few make the prices settle in fewer rounds
# Sets on the way to covers, up to which these are listed; and of work, to look at one
_LOOKED_AT, _SET_SECONDS = 100_000, 4e-6
_PRICE_UNIT = 1000  # Price of the dearest cell of a domain: fine enough to tell rows apart, and small for CP-SAT
_EPS = 1e-6  # Prices and numbers of rows closer than this are equal: the linear program works in floating point


def realise(
    problem: GridProblem, serves: BoolArray, *, pp: int, limit: Slice, pods: Pods | None = None
) -> tuple[IntArray | None, IntArray | None]:
    """Place each cell of column p in a domain k with ``serves[k, p]``, in every row at most ``pp`` of them, in no more
    pods than are held to.

    :returns: shape [rows, columns], the domain of each cell, ``None`` when none was found (which proves nothing); and
        shape [domains], prices of a cell in each at which no row that the search knows is as cheap as the average row
        has to be, ``None`` when fractions of rows could be had.
    """
    sets = covers(serves, pp, NODES, pods)  # with more a skeleton is realised with some of them
    if not len(sets):
        # no row at all, so any prices will do
        return None, np.zeros(serves.shape[0], dtype=np.int32)
    chosen, price = _column_generation(problem, serves, sets, pp, clock() + limit.wall, pods=pods)
    if chosen is None:
        dearest = max(float(price.max()), _EPS)
        return None, np.floor(_PRICE_UNIT * price / dearest).astype(np.int32)
    return whole_rows(problem, serves, chosen, limit), None


def covers(serves: BoolArray, pp: int, most: int, pods: Pods | None = None) -> BoolArray:
    """Return sets of at most ``pp`` domains, in the pods that a row may touch, that serve all columns, shape [covers,
    domains], up to so many.

    Branches on the uncovered column with the fewest domains; sets smaller than ``pp`` are filled up later, by price.
    """
    domains_of = [tuple(int(k) for k in np.flatnonzero(column)) for column in serves.T]
    # sets of columns and of domains as bits of an integer
    serves_bits = [int("".join("1" if s else "0" for s in reversed(row)), 2) for row in serves]
    everything = (1 << serves.shape[1]) - 1
    in_pods = [] if pods is None else [sum(1 << k for k in domains) for domains in pods.inside]
    found: set[int] = set()
    visited: set[int] = set()
    stack: list[tuple[int, int]] = [(0, 0)]
    while stack and len(found) < most and len(visited) < _LOOKED_AT:
        cover, covered = stack.pop()
        if covered == everything:
            found.add(cover)
            continue
        if cover.bit_count() == pp:
            continue
        column = min((p for p in range(len(domains_of)) if not covered >> p & 1), key=lambda p: len(domains_of[p]))
        for k in domains_of[column]:
            larger = cover | 1 << k
            if pods is not None and sum(larger & inside > 0 for inside in in_pods) > pods.pair[1]:
                continue
            if larger not in visited:
                visited.add(larger)
                stack.append((larger, covered | serves_bits[k]))
    spend(_SET_SECONDS * len(visited))
    return np.array([[cover >> k & 1 for k in range(serves.shape[0])] for cover in sorted(found)], dtype=np.bool_)


def _fill_up(serves: BoolArray, covers: BoolArray, pp: int, price: FloatArray, pods: Pods | None) -> BoolArray:
    """Return the covers, those smaller than ``pp`` joined one after another by the domain that saves most."""
    filled = covers.copy()
    for _ in range(pp):
        small = np.flatnonzero(filled.sum(axis=1) < pp)
        paid = price[_cheapest_patterns(serves, filled[small], price)[1]]
        saved = np.stack([np.maximum(paid - p, 0.0) @ s for p, s in zip(price, serves, strict=True)], axis=1)
        if pods is not None:
            touched = pods.touched(filled[small])
            saved[(touched.sum(axis=1) == pods.pair[1])[:, None] & ~touched[:, pods.of_domain]] = 0.0
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
    problem: GridProblem, serves: BoolArray, covers: BoolArray, pp: int, end: float, *, pods: Pods | None
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
    while clock() < end:
        candidates = _fill_up(serves, covers, pp, price, pods)
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
            small = unions.sum(axis=1) <= pp
            if pods is not None:
                small &= pods.touched(unions).sum(axis=1) <= pods.pair[1]
            return np.unique(unions[small], axis=0), price
        price = np.maximum([constraint.dual_value() for constraint in room], 0.0)
        wanted = 1.0 - goal.dual_value()
    return None, price


def whole_rows(problem: GridProblem, serves: BoolArray, covers: BoolArray, limit: Slice) -> IntArray | None:
    """Find whole numbers of rows for covers, and return the placement they make, shape [rows, columns]."""
    from scheduler.placement import cp_model

    model = cp_model.CpModel()
    rows = [model.new_int_var(0, problem.rows, "") for _ in covers]
    model.add(sum(rows) == problem.rows)
    load: dict[int, list[cp_model.IntVar]] = defaultdict(list)
    cells_on: dict[tuple[int, int, int], cp_model.IntVar] = {}
    for t, cover in enumerate(covers):
        for p in range(problem.columns):
            options = [int(k) for k in np.flatnonzero(cover & serves[:, p])]
            for k in options:
                cells_on[t, p, k] = model.new_int_var(0, problem.rows, "")
                load[k].append(cells_on[t, p, k])
            # each row of the cover has one cell in column p, in a domain of the cover that serves it
            model.add(sum(cells_on[t, p, k] for k in options) == rows[t])
    for k in sorted(load):
        model.add(sum(load[k]) <= problem.capacities[k])
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


# Deciding open pairs: each gets a slice of time, then longer ones.


# Effort of the first slice of a pair, of each after it twice as much; and of the integer program that makes whole rows
# of fractions, for another skeleton may do as well
EFFORT = 0.5
_COUNT_EFFORT = 0.25  # The same of the first count of the totals of domains and pods
# How a skeleton is looked for, as CP-SAT's linearization level and whether presolve is light: with a linear program, or
# with presolve.  They succeed on different instances, and each confirms what the other refutes: a false "infeasible" of
# CP-SAT with one worker has been reported
_WAYS = ((2, True), (1, False))


def decide_skeletons(search: PairSearch) -> None:
    """Decide open pairs in growing slices, from the dearest pair down; with many cells models get slow and find nothing
    that bands do not.
    """
    effort, seed, model = EFFORT, search.limits.seed, _models(search)
    views = narrow_views(search) if search.problem.cells <= search.params.many_cells else []
    while views and (pairs := search.lattice.open()):
        for pair in reversed(pairs):
            for view in views:
                if search.left <= 0:
                    return
                if not (search.lattice.is_built(pair) or search.lattice.is_refuted(pair)):
                    search.say(f"skeletons for DP spread {pair[0]}, PP spread {pair[1]}")
                    decide_pair(search, view, model(pair, view), Slice(effort, search.left, seed))
        if effort >= search.limits.seconds:
            return  # the same again, as far as time goes
        effort, seed = 2 * effort, seed + 1


def decide_in_pods(search: PairSearch, pods: Pods) -> None:
    """Decide open pairs where pods are held to a pair besides, from the dearest pair down, in growing slices: what the
    totals of domains and pods refute, on either view, then skeletons on the narrower one.
    """
    model, counted = _models(search, pods), set[tuple[Pair, GridView]]()
    views = sorted(narrow_views(search), key=lambda view: view.problem.columns)
    for number in count():
        if not (views and search.lattice.open()):
            return
        effort, seed = _COUNT_EFFORT * 2**number, search.limits.seed + number
        for pair, view in product(reversed(search.lattice.open()), views):
            if search.left <= 0:
                return
            if (pair, view) not in counted and not search.lattice.is_refuted(pair):
                answer = model(pair, view).count(Slice(effort, search.left, seed, linearization=2))
                if answer == "no":
                    search.lattice.refute(pair, "totals", "")
                elif answer == "yes":
                    counted.add((pair, view))
        for pair in reversed(search.lattice.open()):
            if search.left <= 0:
                return
            if not (search.lattice.is_built(pair) or search.lattice.is_refuted(pair)):
                # one "no" is believed, as of all models of closer levels
                ways, limit = [_WAYS[number % len(_WAYS)]], Slice(2 * effort, search.left, seed)
                decide_pair(search, views[0], model(pair, views[0]), limit, ways=ways)


def _models(search: PairSearch, pods: Pods | None = None) -> Callable[[Pair, GridView], SkeletonModel]:
    """Return what makes the model of a pair as a view sees it, each once."""

    @cache
    def model(pair: Pair, view: GridView) -> SkeletonModel:
        around = None if pods is None else replace(pods, pair=view.turn(pods.pair))
        return SkeletonModel(view.problem, view.turn(pair), spare_rows=search.spare_rows(view, pair), pods=around)

    return model


def narrow_views(search: PairSearch) -> list[GridView]:
    """Return the views on which skeleton models are quick; if there is none, those on which they are of any use."""
    params = search.params
    narrow = [view for view in search.views if view.problem.columns <= params.narrow_columns]
    return narrow or [view for view in search.views if view.problem.columns <= 2 * params.narrow_columns]


def decide_pair(
    search: PairSearch,
    view: GridView,
    model: SkeletonModel,
    limit: Slice,
    *,
    ways: Sequence[tuple[int, bool]] = _WAYS,
) -> None:
    """Refute the pair of a model, realise a skeleton of it, or leave it undecided.

    A skeleton that cannot be realised says which rows are missing; the model learns to ask for them.

    :param limit: of each way to look for a skeleton.
    """
    (dp, pp), asked = view.turn(model.pair), True
    end = clock() + len(ways) * limit.effort
    while asked and search.left > 0:
        slices = [replace(limit, wall=search.left, linearization=level, light=light) for level, light in ways]
        answers = search.side_by_side([partial(model.find, of_way) for of_way in slices])
        if all(answer == "no" for answer, _ in answers):
            sentence = (
                f"two complete searches over which domains serve which stage found none in which no DP group touches "
                f"more than {dp} domains and no PP group more than {pp}"
            )
            search.lattice.refute((dp, pp), "skeleton", sentence)
        asked = False
        for skeleton in (skeleton for _, skeleton in answers if skeleton is not None):
            cells, prices = skeleton.cells, None
            if cells is None:
                rounding = Slice(EFFORT, search.left, limit.seed)
                cells, prices = realise(
                    view.problem, skeleton.serves, pp=model.pair[1], limit=rounding, pods=model.pods
                )
            if cells is not None:
                search.build(view, cells, "skeleton")
                return
            if prices is not None:
                model.ask_for_row(prices)
                asked = clock() < end
