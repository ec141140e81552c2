"""How each kind of refutation is recounted: one function a kind, each in whole numbers.

A function is given the grid as recounted, the pair, and its witness.  It says whether the refutation *holds*, *fails*
(the certificate claims what it does not show), or cannot be *told* without more, and why, in words.  A new kind is one
more function and its line in :data:`KINDS`.

*Effort*: a certificate may come from anyone.  What it claims must not make its verifier run for hours or fill the
memory, so whatever grows with a claim is counted first, and left open where it would be too much.  Steps are counted,
not seconds: the verdict is the same on every machine.

*Covering*: domain k is touched by r rows and q columns and holds at most min(c_k, r q) cells; all r come to at most
R D, all q to at most S P.  Charge every touched row and every touched column something, and call what a domain holds
less its charges its *worth*.  In any placement the cells D P are at most the worths and all that can be charged,
whatever the charges are.  By how much these are more than D P is the *slack*: below zero the pair is impossible.  Else
no placement gives up more than the slack, where a choice (r, q) of a domain gives up what the domain's best choice is
worth more.  So few choices are left that all their combinations can be tried, a table of row and column touches, domain
by domain.  Charges are whole parts of a cell, so nothing is rounded.

*Patterns*: the domains that a row touches are at most R, and their widths come to P or more; those that a column
touches are at most S, and their heights come to D or more.  Weigh every width and every height somehow: let U be the
least weight of such widths, V of such heights.  A domain of r rows and q columns is in r rows with its width and in q
columns with its height, so all these weights come to D U and P V at least.  So to the worth of a domain come r times
the weight of its width and q times that of its height, and from what all domains may have go D U and P V.  What is left
below D P refutes the pair, whatever charges and weights are.

*Groups* (S = 2): every column lies on one domain or on two, so columns join the domains that share them, and the
domains in use fall into *groups*: v domains joined by e columns, v <= e + 1, which hold the e D cells of these.  Every
row touches every group.  So what a placement needs is an exact cover of its domains by groups, with P columns in all
and at most R D row touches, of which a group needs D or more.  A larger domain can take the place of a smaller one: the
domains in use are the largest, however many they are; and as groups are R at most, there are P + R at most.

The fewest row touches of a group are bounded from below by shapes: domain k touches r rows and serves q of the e
columns, so it holds min(c_k, q r) cells or fewer, and all q come to 2 e at most.  Two domains that share a column touch
D rows together or more.  So of those lower than D / 2 no two share one, and their q come to e at most.  Equal domains
are not told apart: a set of domains says how many it has of each capacity, as bits of one number.

*Trees*: a group of v domains and v - 1 columns is a tree, each column of which joins two domains.  Cut a column: one
side is a set U of domains with |U| - 1 columns among them, so of the column cut it holds what its domains have beyond
these, its *share*, cap(U) - (|U| - 1) D; less, by no more than the waste of the group, where cells stay free.  The
domain at the other end holds the rest of the column.  A domain touches as many rows as it holds cells of any one
column, or more.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import isqrt, prod
from typing import Literal, Self

import numpy as np

from scheduler.objective import Spread
from scheduler.verification.question import CountedGrid
from scheduler.witnesses import Multipliers, PatternPrices, Witness
from topology.cluster import IndexArray

OF_ONE = 400_000_000  # Steps for one refutation: a step is an entry of a table, and these are about a second
OF_ALL = 20 * OF_ONE  # For all refutations of a certificate
MOST_ENTRIES = 20_000_000  # Entries of tables that are kept at once: 160 MB
CALL = 5_000  # Steps that a small array operation takes, whatever its size


class TooMuch(Exception):
    """There is more to try than is worth it."""


class Effort:
    """The steps that are left."""

    def __init__(self, *, of_one: int = OF_ONE, of_all: int = OF_ALL) -> None:
        self._of_one, self._all = of_one, of_all
        self._one = min(of_one, of_all)

    def begin(self) -> None:
        """Begin with another refutation."""
        self._one = min(self._of_one, self._all)

    def take(self, steps: int) -> None:
        """Use steps up before they are done; raise TooMuch where there are not as many left."""
        if steps > self._one:
            raise TooMuch
        self._one -= steps
        self._all -= steps


Told = Literal["holds", "fails", "not told"]


@dataclass(frozen=True, slots=True)
class Recount:
    """What recounting a refutation says."""

    told: Told
    sentence: str


RecountKind = Callable[[CountedGrid, Spread, Witness | None, Effort], Recount]
ROOT = 250  # Steps for each domain, whatever the kind
_BITS = 64  # Binary places of a square root: far more than tell a product bound from the next whole number


def recount_edges(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:  # noqa: ARG001
    """Recount spread 1: every line lies in one domain, so a domain takes whole lines, and all domains in use are
    touched by every line across.
    """
    roomy = []
    for family, own, other, line, lines in (
        ("DP", pair.dp, pair.pp, grid.rows, grid.columns),
        ("PP", pair.pp, pair.dp, grid.columns, grid.rows),
    ):
        if own > 1:
            continue
        fewest = fewest_for_whole(line, lines, grid.capacities)
        if fewest is None:
            takes = sum(capacity // line for capacity in grid.capacities)
            return Recount("holds", f"the domains take {takes} whole {family} groups, and there are {lines}")
        if fewest > other:
            return Recount("holds", f"{lines} whole {family} groups fill {fewest} domains, and the pair allows {other}")
        roomy.append(f"{lines} whole {family} groups find room in {fewest} domains")
    return Recount("fails", "; ".join(roomy) or "neither spread is 1")


def recount_product(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:  # noqa: ARG001
    """Recount the product bound: the sum of the square roots of what the domains hold is at most the root of
    (R D) (S P), by Cauchy-Schwarz, and it is least with the largest domains filled first.
    """
    squared = squared_roots(grid)
    least = squared / (1 << 2 * _BITS) / grid.cells
    if pair.dp * pair.pp < least_product(grid, squared):
        return Recount("holds", f"DP spread x PP spread is at least {least:.3f}, and here {pair.dp * pair.pp}")
    return Recount("fails", f"DP spread x PP spread may be {least:.3f}, and here it is {pair.dp * pair.pp}")


def fewest_for_whole(line: int, lines: int, capacities: Sequence[int]) -> int | None:
    """Return the fewest domains that take so many lines whole; ``None`` = all of them take too few.

    :param capacities: in descending order.
    """
    taken = accumulate(capacity // line for capacity in capacities)
    return next((k for k, whole in enumerate(taken, start=1) if whole >= lines), None)


def squared_roots(grid: CountedGrid) -> int:
    """Return 4^_BITS times the square of the sum of the roots of what the domains hold, the largest filled first."""
    left, roots = grid.cells, 0
    for capacity in grid.capacities:
        held = min(capacity, left)
        # rounded down, so that the sum is no larger than it is
        roots += isqrt(held << 2 * _BITS)
        left -= held
    return roots * roots


def least_product(grid: CountedGrid, squared: int) -> int:
    """Return the least S R with S R D P >= (sum of roots)^2, both sides times 4^_BITS."""
    return -(-squared // (grid.cells << 2 * _BITS))


def recount_coverage(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:
    """Recount the most cells that a pair covers, touches charged."""
    if not isinstance(witness, Multipliers):
        return Recount("fails", "its multipliers are missing")
    covering = Covering.of(grid, pair, witness)
    effort.take(covering.work)
    slack = covering.slack
    most = grid.cells + slack / witness.unit
    if slack < 0:
        return Recount("holds", f"at most {most:.2f} of {grid.cells} cells can be covered")
    return Recount("fails", f"with its multipliers {most:.2f} of {grid.cells} cells may be covered")


def recount_rectangles(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:
    """Recount that no rows and columns touched, domain by domain, cover all cells: charges leave few to be tried."""
    if not isinstance(witness, Multipliers):
        return Recount("fails", "its multipliers are missing")
    covering = Covering.of(grid, pair, witness)
    effort.take(covering.work)
    if (slack := covering.slack) < 0:
        return Recount("holds", f"at most {grid.cells + slack / witness.unit:.2f} of {grid.cells} cells can be covered")
    if covering.fits(slack, effort):
        return Recount("fails", f"rectangles cover all {grid.cells} cells")
    return Recount("holds", f"no choice of rectangles covers all {grid.cells} cells")


def recount_patterns(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:
    """Recount the most cells that a pair covers, where widths must add up row by row and heights column by column
    .
    """
    if not isinstance(witness, PatternPrices):
        return Recount("fails", "its prices are missing")
    if (len(witness.widths), len(witness.heights)) != (grid.columns, grid.rows):
        return Recount("fails", f"its weights are not those of {grid.columns} widths and {grid.rows} heights")
    slack = pattern_slack(grid, pair, witness, effort)
    most = grid.cells + slack / witness.unit
    if slack < 0:
        return Recount("holds", f"at most {most:.2f} of {grid.cells} cells can be covered by widths that add up")
    return Recount("fails", f"with its prices {most:.2f} of {grid.cells} cells may be covered")


def recount_groups(grid: CountedGrid, pair: Spread, witness: Witness | None, effort: Effort) -> Recount:  # noqa: ARG001
    """Recount a spread of 2: no groups of domains without a common line.

    What a search has refuted may be beyond it: then it is left open.
    """
    for family, own, other, line, lines in (
        ("DP", pair.dp, pair.pp, grid.rows, grid.columns),
        ("PP", pair.pp, pair.dp, grid.columns, grid.rows),
    ):
        if own != 2:
            continue
        with suppress(TooMuch):
            if not can_be_covered(line, lines, grid.capacities, other, effort):
                across = "PP" if family == "DP" else "DP"
                sets = f"with {family} spread 2 the domains fall into sets that have no {family} group in common"
                return Recount("holds", f"{sets}, and no such sets leave every {across} group on {other} domains")
    return Recount("not told", "not checked without a solver")


KINDS: Mapping[str, RecountKind] = {
    "edges": recount_edges,
    "product": recount_product,
    "coverage": recount_coverage,
    "rectangles": recount_rectangles,
    "patterns": recount_patterns,
    "components": recount_groups,
    "shapes": recount_groups,
    "pieces": recount_groups,
    "skeleton": recount_groups,
}
"""Kinds of refutation, and what recounts them; the last four come from searches, and may need a solver."""


def recount(grid: CountedGrid, pair: Spread, by: str, witness: Witness | None, effort: Effort | None = None) -> Recount:
    """Recount a refutation of any kind; one that is not known is left open, as a later version may have more.

    :param effort: what all refutations of a certificate may take; ``None`` = this one is alone.
    """
    if by not in KINDS:
        return Recount("not told", f"the kind {by!r} is not known")
    effort = effort or Effort()
    effort.begin()
    try:
        effort.take(CALL + ROOT * len(grid.capacities))
        return KINDS[by](grid, pair, witness, effort)
    except TooMuch:
        return Recount("not told", "too large to be recounted without a solver")


WORTH = 1_000  # Steps that it takes to weigh the choices of a domain that have one width
LARGEST = 2**61  # Numbers up to which sums of two fit into 64 bits

_NO_SLACK = np.int64(2**62)  # More than any slack


@dataclass(frozen=True, slots=True)
class Covering:
    """One pair on one grid, with charges; lines of the longer side of the grid are called rows."""

    rows: int
    columns: int
    row_touches: int  # at most, of all domains together
    column_touches: int
    row_charge: int  # in parts of a cell
    column_charge: int
    unit: int  # parts of a cell
    capacities: tuple[int, ...]

    @classmethod
    def of(cls, grid: CountedGrid, pair: Spread, charges: Multipliers) -> Self:
        """Return the covering for a pair, turned so that there are no more columns than rows."""
        touches = pair.pp * grid.rows, pair.dp * grid.columns
        sides, charged = (grid.rows, grid.columns), (charges.row, charges.column)
        if grid.columns > grid.rows:
            sides, touches, charged = sides[::-1], touches[::-1], charged[::-1]
        return cls(*sides, *touches, *charged, charges.unit, grid.capacities)

    @property
    def work(self) -> int:
        """Return the steps that it takes to find the slack."""
        return WORTH * self.columns * len(set(self.capacities))

    @property
    def slack(self) -> int:
        """What the charged bound is above the cells to place, in parts of a cell; below 0 the pair is impossible."""
        worth = sum(count * self._best(capacity) for capacity, count in Counter(self.capacities).items())
        charged = self.row_charge * self.row_touches + self.column_charge * self.column_touches
        return worth + charged - self.unit * self.rows * self.columns

    def _best(self, capacity: int) -> int:
        """Return the largest worth of a domain, 0 where none is better than not to be touched."""
        best = 0
        for width in range(1, self.columns + 1):
            # the worth of a width rises or falls by one amount for each row that is filled, and falls beyond
            for height in (capacity // width, -(-capacity // width)):
                rows = min(height, self.rows)
                cells = min(capacity, rows * width)
                best = max(best, self.unit * cells - self.row_charge * rows - self.column_charge * width)
        return best

    def fits(self, slack: int, effort: Effort) -> bool:
        """Return whether some choice for every domain covers all cells; raise TooMuch where that is too large.

        :param slack: that of the pair, not below 0.
        """
        if max(slack, self.unit * max(self.capacities), self.row_charge, self.column_charge) * 4 >= LARGEST:
            raise TooMuch
        table = np.zeros((1, 1), dtype=np.int64)  # least given up, by rows and columns touched
        corner = (0, 0)  # touches that the first entry of the table stands for
        for capacity, count in sorted(Counter(self.capacities).items(), reverse=True):
            effort.take(CALL + 10 * self.rows * self.columns)
            rows, columns = np.arange(1, self.rows + 1)[:, None], np.arange(1, self.columns + 1)[None, :]
            cells = np.minimum(capacity, rows * columns).astype(np.int64)
            given_up = self._best(capacity) - (
                self.unit * cells - self.row_charge * rows - self.column_charge * columns
            )
            r, q = np.nonzero(given_up <= slack)
            within = np.stack([r + 1, q + 1, given_up[r, q]], axis=1)
            untouched = [[0, 0, self._best(capacity)]] if self._best(capacity) <= slack else np.empty((0, 3), np.int64)
            choices = np.concatenate([untouched, within]).astype(np.int64)
            for _ in range(count):
                effort.take(len(choices) * (table.size + CALL))
                table, corner = self._with_domain(table, corner, choices, slack)
                if not table.size:
                    return False
        # a touch that is left over is charged, and was given up too
        rows = self.row_touches - corner[0] - np.arange(table.shape[0])
        columns = self.column_touches - corner[1] - np.arange(table.shape[1])
        return bool((table + (self.row_charge * rows[:, None] + self.column_charge * columns[None, :]) <= slack).any())

    def _with_domain(
        self, table: IndexArray, corner: tuple[int, int], choices: IndexArray, slack: int
    ) -> tuple[IndexArray, tuple[int, int]]:
        """Return the table with one domain more, cut to what gives up no more than the slack."""
        if not len(choices):
            return np.empty((0, 0), dtype=np.int64), corner
        low, high = choices[:, :2].min(axis=0), choices[:, :2].max(axis=0)
        first = corner[0] + int(low[0]), corner[1] + int(low[1])
        # no more touches than the pair allows
        shape = (
            min(table.shape[0] + int(high[0] - low[0]), self.row_touches - first[0] + 1),
            min(table.shape[1] + int(high[1] - low[1]), self.column_touches - first[1] + 1),
        )
        if min(shape) < 1:
            return np.empty((0, 0), dtype=np.int64), first
        if shape[0] * shape[1] > MOST_ENTRIES:
            raise TooMuch
        wider = np.full(shape, _NO_SLACK, dtype=np.int64)
        for r, q, given_up in choices.tolist():
            at = wider[r - low[0] :, q - low[1] :][: table.shape[0], : table.shape[1]]
            np.minimum(at, table[: at.shape[0], : at.shape[1]] + given_up, out=at)
        alive = wider <= slack
        wider[~alive] = _NO_SLACK
        rows, columns = np.flatnonzero(alive.any(axis=1)), np.flatnonzero(alive.any(axis=0))
        if not len(rows):
            return np.empty((0, 0), dtype=np.int64), first
        cut = wider[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        return cut, (first[0] + int(rows[0]), first[1] + int(columns[0]))


_LARGEST = 2**62  # Numbers up to which sums of two fit into 64 bits
_TABLES = 5  # Of all shapes, that are made for each capacity


def pattern_slack(grid: CountedGrid, pair: Spread, prices: PatternPrices, effort: Effort) -> int:
    """Return how many more cells than those of the grid may be covered, in parts; below 0 the pair is refuted.

    :param prices: with a weight for every width up to P and every height up to D.
    :raises TooMuch: the grid or the numbers are too large.
    """
    rows, columns = grid.rows, grid.columns
    weights = rows * max(prices.widths) + columns * max(prices.heights)
    largest = weights + prices.unit * grid.cells + prices.row * rows + prices.column * columns
    if largest >= _LARGEST or _TABLES * grid.cells > MOST_ENTRIES:
        raise TooMuch
    row = least_weight(prices.widths, pair.pp, effort)
    column = least_weight(prices.heights, pair.dp, effort)
    slack = prices.row * pair.pp * rows + prices.column * pair.dp * columns - rows * row - columns * column
    effort.take(CALL + _TABLES * grid.cells)
    r, q = np.arange(1, rows + 1)[:, None], np.arange(1, columns + 1)[None, :]
    gained = r * np.array(prices.widths)[None, :] + q * np.array(prices.heights)[:, None]
    gained -= prices.row * r + prices.column * q
    for capacity, count in Counter(grid.capacities).items():
        effort.take(CALL + _TABLES * grid.cells)
        worth = prices.unit * np.minimum(capacity, r * q) + gained
        slack += count * max(0, int(worth.max()))
    return slack - prices.unit * grid.cells


def least_weight(weights: Sequence[int], parts: int, effort: Effort) -> int:
    """Return the least weight of at most so many sizes that add up to the largest one or more.

    :param weights: of the sizes 1, 2, ...; none below zero.
    """
    total = len(weights)
    # least[t]: of so many sizes that add up to t or more
    least = np.full(total + 1, _LARGEST, dtype=np.int64)
    least[0] = 0
    for _ in range(min(parts, total)):
        effort.take(total * CALL)
        lighter = least.copy()
        for size, weight in enumerate(weights, start=1):
            with_one = np.concatenate([np.full(size, least[0]), least[: total + 1 - size]]) + weight
            np.minimum(lighter, with_one, out=lighter)
        if np.array_equal(lighter, least):
            break
        least = lighter
    return int(least[total])


MOST_SETS = 1 << 20  # Of domains in use, up to which all are looked at
GROUP, HEIGHT = 20_000, 200  # Steps that it takes to list a group, and to pass over a height
MOST_TREES, LARGEST_TREE = 200, 7  # Trees whose row touches are counted domain by domain, and their domains

Capacities = tuple[int, ...]


_NO_COVER = 1 << 40  # More row touches than any grid has


def can_be_covered(rows: int, columns: int, capacities: Capacities, most: int, effort: Effort) -> bool:
    """Return whether groups cover the domains in use with so much as ``most`` rows touched by each; raise TooMuch where
    that is too large to be tried.

    :param capacities: in descending order.
    :param most: R, domains that a row touches at most.
    """
    for used in range(1, min(len(capacities), columns + most) + 1):
        own = capacities[:used]
        if sum(own) >= rows * columns and _Cover(rows, columns, own, most, effort).exists():
            return True
    return False


class _Cover:
    """Exact covers of some domains by groups."""

    def __init__(self, rows: int, columns: int, capacities: Capacities, most: int, effort: Effort) -> None:
        self._rows, self._columns = rows, columns
        self._sets = _Sets(capacities)
        if self._sets.number > MOST_SETS:
            raise TooMuch
        self._budget = most * rows
        self._spare = sum(capacities) - rows * columns
        self._effort = effort
        self._shapes = _GroupShapes(rows, self._spare, effort)
        # by the largest capacity in a group: (domains, columns, row touches)
        self._groups: list[list[tuple[int, int, int]]] = [[] for _ in self._sets.kinds]
        codes, room, size = self._sets.listed()
        # every set of domains that can be a group, with each number of columns that it can have
        for held in range(1, columns + 1):
            effort.take(CALL + 5 * len(room))
            waste = room - held * rows
            sets = np.flatnonzero((waste >= 0) & (waste <= self._spare) & (size <= held + 1) & (size > 0))
            effort.take(GROUP * len(sets))
            for domains in codes[sets].tolist():
                touches = self._shapes.fewest_rows(self._sets.capacities(domains), held)
                if touches <= self._budget:
                    self._groups[self._sets.largest(domains)].append((domains, held, touches))

    def exists(self) -> bool:
        """Return whether some cover has few enough row touches."""
        every = self._sets.every
        if self._least(every, self._columns, {}) > self._budget:
            return False
        # groups that are trees touch more rows, as far as there are not too many to be counted
        tree_rows: dict[Capacities, int] = {}
        rose = False
        for groups in self._groups:
            for i, (domains, columns, touches) in enumerate(groups):
                own = self._sets.capacities(domains)
                if len(own) != columns + 1 or len(own) > LARGEST_TREE:
                    continue
                if own not in tree_rows and len(tree_rows) < MOST_TREES:
                    tree_rows[own] = fewest_tree_rows(own, self._rows)
                if tree_rows.get(own, 0) > touches:
                    groups[i] = domains, columns, tree_rows[own]
                    rose = True
        return not rose or self._least(every, self._columns, {}) <= self._budget

    def _least(self, domains: int, columns: int, memory: dict[tuple[int, int], int]) -> int:
        """Return the fewest row touches of covers of some domains with so many columns in all."""
        if not domains or not columns:
            return 0 if not domains and not columns else _NO_COVER
        if (domains, columns) not in memory:
            best = _NO_COVER
            for group, own, touches in self._groups[self._sets.largest(domains)]:
                self._effort.take(CALL)
                if own <= columns and self._sets.holds(domains, group):
                    best = min(best, touches + self._least(domains - group, columns - own, memory))
            memory[domains, columns] = best
        return memory[domains, columns]


class _Sets:
    """Sets of some domains: of each capacity, the largest first, how many; a bit above each count is left free."""

    def __init__(self, capacities: Capacities) -> None:
        self.kinds = sorted(Counter(capacities).items(), reverse=True)
        self.number = prod(count + 1 for _, count in self.kinds)
        widths = [count.bit_length() + 1 for _, count in self.kinds]
        self._shifts = [sum(widths[:i]) for i in range(len(widths))]
        self._kind_of_bit = [i for i, width in enumerate(widths) for _ in range(width)]
        self._free = sum(1 << (shift + width - 1) for shift, width in zip(self._shifts, widths, strict=True))
        self.every = sum(count << shift for (_, count), shift in zip(self.kinds, self._shifts, strict=True))

    def listed(self) -> tuple[IndexArray, IndexArray, IndexArray]:
        """Return all sets, the cells of each and its number of domains."""
        codes, room, size = (np.zeros(1, dtype=np.int64) for _ in range(3))
        for (capacity, count), shift in zip(self.kinds, self._shifts, strict=True):
            some = np.arange(count + 1, dtype=np.int64)[:, None]
            codes, room = (codes + (some << shift)).ravel(), (room + some * capacity).ravel()
            size = (size + some).ravel()
        return codes, room, size

    def capacities(self, domains: int) -> Capacities:
        """Return the capacities of a set, in descending order."""
        counts = [
            domains >> shift & (1 << count.bit_length()) - 1
            for (_, count), shift in zip(self.kinds, self._shifts, strict=True)
        ]
        return tuple(c for (c, _), many in zip(self.kinds, counts, strict=True) for _ in range(many))

    def largest(self, domains: int) -> int:
        """Return which capacity the largest domain of a set has, by its place."""
        return self._kind_of_bit[(domains & -domains).bit_length() - 1]

    def holds(self, domains: int, part: int) -> bool:
        """Return whether one set is part of another: no count borrows from the bit above it."""
        return (domains | self._free) - part & self._free == self._free


class _GroupShapes:
    """Least sums of heights of groups; tables are kept from one group to the next."""

    def __init__(self, rows: int, spare: int, effort: Effort) -> None:
        self._rows, self._spare, self._effort = rows, spare, effort
        self._entries = 0  # of all tables
        self._table = cache(self._make_table)

    def fewest_rows(self, capacities: Capacities, columns: int) -> int:
        """Return a lower bound on the row touches of all domains of a group."""
        waste = sum(capacities) - columns * self._rows
        table = self._table(capacities, columns)
        return max(self._rows, int(table[: 2 * columns + 1, : columns + 1, : waste + 1].min()))

    def _make_table(self, capacities: Capacities, columns: int) -> IndexArray:
        """Return the least sum of heights by the sum of widths, that of low domains, and cells given up, each at most
        as many, shape [2 * columns + 1, columns + 1, spare + 1].
        """
        shape = 2 * columns + 1, columns + 1, self._spare + 1
        self._entries += (entries := prod(shape))
        if self._entries > MOST_ENTRIES:
            raise TooMuch
        if not capacities:
            return np.zeros(shape, dtype=np.int64)
        before, capacity = self._table(capacities[:-1], columns), capacities[-1]
        table = np.full(shape, _NO_COVER, dtype=np.int64)
        for width in range(1, columns + 1):
            heights = min(self._rows, -(-capacity // width))
            self._effort.take(HEIGHT * heights)
            for height in range(1, heights + 1):
                given_up = max(0, capacity - width * height)
                if given_up > self._spare:
                    continue
                self._effort.take(CALL + entries)
                self._offer(table, before, width, height, given_up)
            # touched by more rows than its cells need, so that it may share columns with low domains
            half = -(-self._rows // 2)
            if -(-capacity // width) < half:
                self._offer(table, before, width, half, 0)
        return table

    def _offer(self, table: IndexArray, before: IndexArray, width: int, height: int, given_up: int) -> None:
        low = width if 2 * height < self._rows else 0
        rest = before[: max(0, len(before) - width), : max(0, before.shape[1] - low), : self._spare + 1 - given_up]
        part = table[width:, low:, given_up:]
        np.minimum(part, rest + height, out=part)


def fewest_tree_rows(capacities: tuple[int, ...], rows: int) -> int:
    """Return a lower bound on the row touches of all domains of a tree; ``rows``: D, cells of a column."""
    every = (1 << len(capacities)) - 1
    waste = sum(capacities) - (len(capacities) - 1) * rows

    @cache
    def share(some: int) -> int:
        return sum(capacity for k, capacity in enumerate(capacities) if some >> k & 1) - (some.bit_count() - 1) * rows

    @cache
    def least(some: int) -> int:
        """Return the row touches of the domains on one side of a column, whichever of them the column ends at."""
        own = max(0, share(some) - waste)
        return min(rooted(some ^ 1 << k, own) for k in range(len(capacities)) if some >> k & 1)

    @cache
    def rooted(others: int, own: int) -> int:
        """Return the row touches of a domain with ``own`` or more and of the others, in branches that end at it."""
        if not others:
            return own
        first, best = others & -others, _NO_COVER
        rest = others ^ first
        more = rest
        while True:
            branch = first | more
            if 0 <= share(branch) <= rows + waste:
                # the largest share of the branch leaves the domain the fewest cells of the column
                best = min(best, least(branch) + rooted(others ^ branch, max(own, rows - share(branch))))
            if not more:
                return best
            more = (more - 1) & rest

    return rooted(every ^ 1, 0)
