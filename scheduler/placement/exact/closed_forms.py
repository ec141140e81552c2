"""Closed forms: the best pair of a grid by counting alone, in microseconds, with what no pair is below.

Nearly every gang of up to some hundred nodes ends here.  Three facts are enough (docs: exact.md): the fewest domains
that take whole columns, or whole rows, are the least R where S = 1, and the least S where R = 1; every other pair has
S, R >= 2; and S * R is at least what the product bound says.  Where one affinity is zero a fourth is added: rows on two
domains each are had from the fewest domains that hold all cells, unless these are more than rows by two.
"""

import heapq
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np

from scheduler.objective import TOLERANCE
from scheduler.placement.exact.bounds import contiguous, fewest_for_lines, product_bound, whole_columns
from scheduler.placement.exact.lattice import pair_cost, pair_order
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.types import Pair
from scheduler.work_clock import spend
from topology.cluster import IntArray

NODES = 20_000  # Of searches for packings: some hundredths of a second; 500 mostly do
_NODE_SECONDS = 2e-6  # Of work to look at one count of one size

Fill = Literal["whole columns", "contiguous", "cut-outs", "chains"]


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """The best of the placements that counting gives, and a bound."""

    problem: GridProblem
    pair: Pair
    cost: float  # Eq. 2 of the pair
    bound: float  # no pair has less of Eq. 2
    proved: bool  # whether no pair has less of Eq. 2
    fill: Fill
    transposed: bool

    @property
    def cells(self) -> IntArray:
        """Shape [rows, columns], the domain of each cell."""
        view = self.problem.transposed if self.transposed else self.problem
        made = filled(view, self.fill)
        assert made is not None, "the pair was counted, so there is a placement"
        return made.T if self.transposed else made


def closed_form(problem: GridProblem, alpha: float) -> ClosedForm:
    """Return the best of whole columns, whole rows and domains filled one by one; the grid fits its domains.

    It is the answer of the whole search wherever it is proved.
    """
    forms: list[tuple[Pair, Fill, bool]] = [(pair, "whole columns", pair[0] > 1) for pair in edge_pairs(problem)]
    # domains filled one by one give S = 1 or R = 1 on no fewer domains, or else no less than (2, 2)
    if not forms or min(pair_order(pair, alpha) for pair, *_ in forms) > pair_order((2, 2), alpha):
        dp, pp = contiguous_pair(problem.rows, problem.columns, problem.capacities)
        forms.append(((dp, pp), "contiguous", False))
        pp, dp = contiguous_pair(problem.columns, problem.rows, problem.capacities)
        forms.append(((dp, pp), "contiguous", True))
    pair, fill, transposed = min(forms, key=lambda form: pair_order(form[0], alpha))
    cost = pair_cost(pair, alpha)
    rival = _cheapest_rival(problem, alpha, cost)
    if rival is not None and alpha in (0.0, 1.0):
        for fill, transposed in fills_without_affinity(alpha):
            cells = filled(problem.transposed if transposed else problem, fill)
            if cells is not None:
                forms.append((problem.pair_of(cells.T if transposed else cells), fill, transposed))
        pair, fill, transposed = min(forms, key=lambda form: pair_order(form[0], alpha))
        cost = pair_cost(pair, alpha)
        rival = _cheapest_rival(problem, alpha, cost)
    least = inf if rival is None else pair_cost(rival, alpha)
    return ClosedForm(problem, pair, cost, min(cost, least), least >= cost - TOLERANCE, fill, transposed)


def filled(problem: GridProblem, fill: Fill) -> IntArray | None:
    """Return a placement that counting gives, shape [rows, columns], the domain of each cell; ``None`` = none."""
    match fill:
        case "whole columns":
            return whole_columns(problem)
        case "contiguous":
            return contiguous(problem)
        case "cut-outs":
            return cut_outs(problem)
        case "chains":
            return chained_rows(problem)


def fills_without_affinity(alpha: float) -> tuple[tuple[Fill, bool], ...]:
    """Return what is looked at beside the edges where one affinity is zero, and whether on the transposed grid."""
    return ("cut-outs", alpha == 0.0), ("chains", alpha == 1.0)


def least_cost(problem: GridProblem, alpha: float) -> float:
    """Return what Eq. 2 is at least, whatever the placement; the grid fits its domains."""
    pairs = edge_pairs(problem)
    if rival := _cheapest_rival(problem, alpha, min((pair_cost(pair, alpha) for pair in pairs), default=inf)):
        pairs.append(rival)
    # where no pair of either kind is known nothing is less than one domain
    return min((pair_cost(pair, alpha) for pair in pairs), default=1.0)


def edge_pairs(problem: GridProblem) -> list[Pair]:
    """Return the least pairs with S = 1, and with R = 1, as far as there are any."""
    pairs = []
    if (fewest := fewest_for_lines(problem.rows, problem.columns, problem.capacities)) is not None:
        pairs.append((1, fewest))
    if (fewest := fewest_for_lines(problem.columns, problem.rows, problem.capacities)) is not None and fewest > 1:
        pairs.append((fewest, 1))
    return pairs


def contiguous_pair(rows: int, columns: int, capacities: Sequence[int]) -> Pair:
    """Return (S, R) of the cells filled column by column, from the largest domain on.

    Domain after domain begins in the order of the cells, so a line touches one domain more wherever the next differs.

    :param capacities: descending, at least ``rows * columns`` together.
    """
    cells, filled, used = rows * columns, 0, 0
    while filled < cells:
        filled += capacities[used]
        used += 1
    if used == 1:
        return 1, 1
    if used == 2:
        return 2 if capacities[0] % rows else 1, min(2, columns)
    domain = np.repeat(np.arange(used), capacities[:used])[:cells].reshape(columns, rows)
    dp = 1 if rows == 1 else 1 + int(np.count_nonzero(domain[:, 1:] != domain[:, :-1], axis=1).max())
    pp = 1 if columns == 1 else 1 + int(np.count_nonzero(domain[1:] != domain[:-1], axis=0).max())
    return dp, pp


def _cheapest_rival(problem: GridProblem, alpha: float, most: float) -> Pair | None:
    """Return the cheapest pair with S, R >= 2 that the product bound leaves; ``None`` = none costs less than ``most``.

    Pairs with S = 1 or R = 1 are settled by counting: those below the fewest domains do not exist.
    """
    if pair_cost((2, 2), alpha) >= most - TOLERANCE:
        return None
    most_dp, most_pp = problem.largest_pair
    least = product_bound(problem)
    best: Pair | None = None
    for dp in range(2, most_dp + 1):
        pair = dp, max(2, -int(-least // dp))
        if pair_cost((dp, 2), alpha) >= most - TOLERANCE:
            break
        if pair[1] <= most_pp and (best is None or pair_cost(pair, alpha) < pair_cost(best, alpha)):
            best = pair
    return best


# Rectangles cut out of the largest domain: S = 2 or R = 2 where one domain is much larger than the rest.
#
# The largest domain lies under all cells, and every other one in use covers a rectangle of rows by columns.  Where the
# rectangles share no columns, a column touches two domains at most; where they go round the rows, each of them adds one
# domain to the rows that it has, and S = 2 comes with R = 1 + ceil(sum of heights / D).  Unbalanced trees have such
# clusters: half of the nodes below one switch, the others below many.


def cut_outs(problem: GridProblem) -> IntArray | None:
    """Return the domain of each cell, shape [rows, columns], with at most two domains a column; ``None`` = not so."""
    # cells on each of the largest domains but the first, as few of them as hold all cells
    sizes: list[int] = []
    left = problem.cells - problem.capacities[0]
    for capacity in problem.capacities[1:]:
        if left <= 0:
            break
        sizes.append(min(capacity, left))
        left -= capacity
    # each rectangle is as narrow as its height allows, and then one column wider where that saves most rows
    widths = [max(1, -(-size // problem.rows)) for size in sizes]
    if sum(widths) > problem.columns:
        return None
    saved = [(_saving(size, width), k) for k, (size, width) in enumerate(zip(sizes, widths, strict=True))]
    heapq.heapify(saved)
    for _ in range(problem.columns - sum(widths) if saved else 0):
        _, k = saved[0]
        widths[k] += 1
        heapq.heapreplace(saved, (_saving(sizes[k], widths[k]), k))
    heights = [-(-size // width) for size, width in zip(sizes, widths, strict=True)]
    cells = np.zeros((problem.rows, problem.columns), dtype=np.int32)
    row = column = 0
    for k, (size, width, height) in enumerate(zip(sizes, widths, heights, strict=True), 1):
        rows = (row + np.arange(size) // width) % problem.rows
        cells[rows, column + np.arange(size) % width] = k
        row, column = row + height, column + width
    return cells


def _saving(size: int, width: int) -> float:
    """Return what one column more changes the height by, rows in fractions: negative."""
    return size / (width + 1) - size / width


# Rows that touch at most R domains each, whatever the columns touch, where S has no affinity: by counting alone.
#
# The m largest domains that hold all D * P cells are a *chain* of rows on R domains each wherever m <= D (R - 1) + 1.
# Rows on two domains join the domains that they touch into groups of v domains with e >= v - 1 rows, which hold e P
# cells; and every such group has rows on two domains each.  So D rows exist iff the K domains fall into at most K - D
# groups with C_g >= (v_g - 1) P: the items P - c_k, negative for large domains, in as many bins of size P (docs:
# exact.md).


Part = tuple[int, int]  # Cells, and the domain that they lie on


def chained_rows(problem: GridProblem) -> IntArray:
    """Return the domain of each cell, shape [rows, columns]: rows on the fewest domains that a single chain needs."""
    parts = _shrunk([(c, k) for k, c in enumerate(problem.capacities)], problem.cells)
    most = max(1, 1 - (1 - len(parts)) // problem.rows)
    return _chain(parts, problem.rows, problem.columns, most)


def _shrunk(parts: Sequence[Part], cells: int) -> list[Part]:
    """Return the first parts that hold so many cells, the last of them as small as that allows."""
    kept: list[Part] = []
    for size, domain in parts:
        kept.append((min(size, cells), domain))
        cells -= size
        if cells <= 0:
            break
    return kept


def _chain(parts: Sequence[Part], rows: int, width: int, most: int) -> IntArray:
    """Return the domain of each cell, shape [rows, width], of ``most`` domains a row at the most.

    :param parts: ``rows * width`` cells together, and ``rows * (most - 1) + 1`` parts at the most.
    """
    laid: list[Part] = []  # one after another, row by row
    left = sorted(parts)
    for _ in range(rows):
        first, inside = 0, sum(size for size, _ in left[: most - 1])
        if len(left) <= most or inside > width:
            break
        # a window of parts that is filled up from the largest, moved to larger ones until that is enough
        size, domain = left.pop()
        while inside + size < width:
            inside += left[first + most - 1][0] - left[first][0]
            first += 1
        last = first + most - 1
        laid += [*left[first:last], (width - inside, domain)]
        del left[first:last]
        if size > width - inside:
            insort(left, (size - width + inside, domain))
    sizes, domains = zip(*laid, *left, strict=True)
    return np.repeat(np.array(domains, dtype=np.int32), sizes).reshape(rows, width)


def rows_on_two(problem: GridProblem, nodes: int = NODES) -> IntArray | None:
    """Return the domain of each cell, shape [rows, columns], each row on two domains at most; ``None`` = there is none.

    :param nodes: of the search, at most; raises OutOfNodes beyond that.
    """
    width, domains = problem.columns, problem.capacities
    bins = len(domains) - problem.rows
    packed = [list(domains)] if bins < 1 else BinPacking(Counter(width - c for c in domains), width, nodes).pack(bins)
    if packed is None:
        return None
    groups = packed if bins < 1 else [[width - item for item in items] for items in packed]
    numbers = defaultdict[int, list[int]](list)
    for number, capacity in enumerate(domains):
        numbers[capacity].append(number)
    cells = np.empty((0, width), dtype=np.int32)
    for group in groups:
        parts = sorted(((c, numbers[c].pop()) for c in group), reverse=True)
        if count := min(sum(group) // width, problem.rows - len(cells)):
            cells = np.concatenate([cells, _chain(_shrunk(parts, count * width), count, width, 2)])
    return cells


Counts = tuple[int, ...]  # Items of each size that are left


class OutOfNodes(Exception):
    """The packing is not decided within its limit."""


class BinPacking:
    """Items of a few sizes, some of them negative, in bins of one size: bin by bin, the largest item left first."""

    def __init__(self, items: Counter[int], size: int, nodes: int) -> None:
        self._sizes = sorted(items, reverse=True)
        self._counts = tuple(items[item] for item in self._sizes)
        self._size = size
        self._nodes = nodes
        self._failed: set[tuple[Counts, int]] = set()

    def pack(self, bins: int) -> list[list[int]] | None:
        """Return the items of each bin; ``None`` = so many bins do not hold them; raises OutOfNodes."""
        return self._pack(self._counts, bins)

    def _pack(self, counts: Counts, bins: int) -> list[list[int]] | None:
        total = sum(item * count for item, count in zip(self._sizes, counts, strict=True))
        if total > bins * self._size or (counts, bins) in self._failed:
            return None
        if bins == 1:
            return [self._items(counts)]
        first = next(i for i, count in enumerate(counts) if count)
        for taken in self._bins(counts, first, bins * self._size - total):
            left = tuple(count - here for count, here in zip(counts, taken, strict=True))
            if not any(left):
                return [self._items(taken)]
            others = self._pack(left, bins - 1)
            if others is not None:
                return [self._items(taken), *others]
        self._failed.add((counts, bins))
        return None

    def _bins(self, counts: Counts, first: int, waste: int) -> Iterator[Counts]:
        """Yield what one bin takes, the largest item left in it, with no more waste than all bins may have."""
        above, below = [0], [0]  # what the sizes from the i-th on may add at most, and take away
        for item, count in zip(reversed(self._sizes), reversed(counts), strict=True):
            above.append(above[-1] + max(0, item * count))
            below.append(below[-1] + min(0, item * count))
        above.reverse()
        below.reverse()
        taken = [0] * len(counts)

        def fill(i: int, held: int) -> Iterator[Counts]:
            self._nodes -= 1
            if self._nodes < 0:
                raise OutOfNodes
            spend(_NODE_SECONDS)
            if held + above[i] < self._size - waste or held + below[i] > self._size:
                return
            if i == len(counts):
                yield tuple(taken)
                return
            for here in range(counts[i], (1 if i == first else 0) - 1, -1):
                taken[i] = here
                yield from fill(i + 1, held + here * self._sizes[i])
            taken[i] = 0

        yield from fill(first, 0)

    def _items(self, counts: Counts) -> list[int]:
        return [item for item, count in zip(self._sizes, counts, strict=True) for _ in range(count)]
