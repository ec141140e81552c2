"""S = 2 (R = 2 on the transpose) by components: columns are loops and edges of a graph on the domains.

A placement is a packing of connected components.  Candidates are the sets of domains with little waste; the least row
touches of each are counted; a linear program and a search with memory pack them, or no packing is left, which refutes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, product
from math import inf, prod

import numpy as np

from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.exact.closed_forms import NODES
from scheduler.placement.exact.flows import SETS
from scheduler.placement.exact.lattice import PairSearch
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.skeletons import EFFORT, realise
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, IndexArray, IntArray

# S = 2: which domains can form a component of columns, and how many row touches such a component takes at least.
#
# With S = 2 every column lies on one domain or on two, so columns are loops and edges of a graph on the domains. A
# *component* of the graph has e columns on v <= e + 1 domains, which hold its e * D cells: their capacities exceed that
# by its *waste*, and all wastes together are what the domains in use have to spare.  On a full cluster few sets of
# domains have so little waste, and these are put together below.
#
# Domains of equal capacity are one *class*: a component says how many it takes of each.


_SET_SECONDS = 1e-6  # Of work to list a set of domains
_FINE = 1 << 32  # Units of a row: bounds are rounded down to it, far finer than fractions of small widths differ


@dataclass(frozen=True, slots=True)
class Components:
    """Candidates for the components of a placement, one in each place of the arrays."""

    sizes: IndexArray  # shape [classes], capacity of each class, descending
    members: IndexArray  # shape [candidates, classes], domains that it takes of each class
    columns: IndexArray  # shape [candidates], its columns
    rows: IndexArray  # shape [candidates], row touches of its domains together, at least

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.columns)

    def where(self, keep: BoolArray) -> Components:
        """Return some of them."""
        return replace(self, members=self.members[keep], columns=self.columns[keep], rows=self.rows[keep])

    def capacities(self, i: int) -> tuple[int, ...]:
        """Return the capacities of a candidate's domains, descending."""
        return tuple(int(c) for c in np.repeat(self.sizes, self.members[i]))


def list_components(problem: GridProblem, pp: int, *, most: int) -> Components | None:
    """Return all components that a placement with S = 2 and R = ``pp`` on *all* domains of the problem may have.

    Sets grow from the largest domain to the smallest.  A component needs v - 1 columns or more, so (v - 1) * D cells:
    where a set has less room, and the next domain less than D, no larger set has enough.

    :param most: sets that may be listed; ``None`` where there are more.
    """
    listing = _Listing(problem, pp)
    classes = len(listing.sizes)
    sets = np.arange(classes, dtype=np.int64)[:, None]
    none = np.zeros(0, dtype=np.int64)
    parts = [Components(listing.sizes, none.reshape(0, classes), none, none)]
    listed = 0
    while len(sets):
        listed += len(sets)
        spend(_SET_SECONDS * len(sets))
        if listed > most:
            return None
        parts += listing.components_on(sets)
        sets = np.concatenate([listing.joined(sets, k) for k in range(classes)])
    members, columns, rows = (
        np.concatenate([getattr(part, field) for part in parts]) for field in ("members", "columns", "rows")
    )
    return Components(listing.sizes, members, columns, rows)


class _Listing:
    """Sets of equally many domains, shape [sets, domains]: the class of each domain, ascending."""

    def __init__(self, problem: GridProblem, pp: int) -> None:
        self._problem, self._pp = problem, pp
        kinds = Counter(problem.capacities)
        self.sizes: IndexArray = np.array(list(kinds), dtype=np.int64)
        self._many = list(kinds.values())
        self._spare = sum(problem.capacities) - problem.cells

    def joined(self, sets: IndexArray, k: int) -> IndexArray:
        """Return the sets to which a domain of class k, not larger than their smallest, can be joined, with it."""
        count, size = sets.shape[1], int(self.sizes[k])
        fits = sets[:, -1] <= k
        if count >= self._many[k]:
            # not all domains of the class are taken yet
            fits &= sets[:, -self._many[k]] != k
        room = self.sizes[sets].sum(axis=1) + size
        # it has at most all columns
        fits &= room - self._spare <= self._problem.cells
        if size < self._problem.rows:
            fits &= room >= count * self._problem.rows
        return np.column_stack([sets[fits], np.full(int(fits.sum()), k)])

    def components_on(self, sets: IndexArray) -> list[Components]:
        """Return the components on these sets, for every number of columns that their waste allows."""
        domains, size = len(self._problem.capacities), sets.shape[1]
        rows, columns = self._problem.rows, self._problem.columns
        room = self.sizes[sets].sum(axis=1)
        most = np.minimum(room // rows, columns)
        fewest = np.maximum(max(1, size - 1), -(-(room - self._spare) // rows))
        found = []
        for fewer in range(int((most - fewest).max(initial=-1)) + 1):
            own = most - fewer
            # what is left: v domains on e columns need v - e components or more, each of which every row touches
            left = columns - own
            others = np.maximum(domains - size - left, left > 0)
            chosen = np.flatnonzero((own >= fewest) & ((left > 0) == (size < domains)) & (others < self._pp))
            if not len(chosen):
                continue
            touches = least_touches(self.sizes[sets[chosen]], own[chosen], rows)
            within = touches <= rows * (self._pp - others[chosen])
            chosen = chosen[within]
            members = np.stack([(sets[chosen] == k).sum(axis=1) for k in range(len(self.sizes))], axis=1)
            found.append(Components(self.sizes, members, own[chosen], touches[within]))
        return found


def least_touches(capacities: IndexArray, columns: IndexArray, height: int) -> IndexArray:
    """Return a lower bound on the row touches of each component: rectangles with 2 e columns in all.

    Domain k serves q_k columns with sum q_k <= 2 e and touches n_k / q_k rows or more.  With all its cells that is
    c_k / q_k, convex in q_k, so giving one column after another to the domain that gains most is exact; each cell
    wasted saves one row at most.

    :param capacities: shape [components, domains].
    :param columns: shape [components], e.
    :param height: D.
    """
    width = np.ones_like(capacities)
    waste = capacities.sum(axis=1) - columns * height
    extra = 2 * columns - capacities.shape[1]
    for step in range(int(extra.max(initial=0))):
        active = np.flatnonzero(extra > step)
        wide = width[active]
        # two gains that differ do so by 1 / q^4 or more, which floating point tells apart
        gain = np.where(wide < columns[active, None], capacities[active] / (wide * (wide + 1.0)), 0.0)
        width[active, gain.argmax(axis=1)] += gain.max(axis=1) > 0
    rows = ((capacities * _FINE) // width).sum(axis=1) - waste * _FINE
    bound: IndexArray = np.maximum(height, -(-rows // _FINE))
    return bound


# S = 2: which domains share a column, for given widths and heights of the domains of one component.
#
# The columns are the edges of a graph, in which domain k has q_k of them; a loop is a column on one domain alone.  Two
# domains can share a column if their heights reach D.  Then the one holds in it at least the rows that the other does
# not touch, and what both touch goes to either.


_MOST_DOMAINS = 12  # With more there are too many subsets to look at: that the columns can be filled is taken as given

Columns = tuple[tuple[int, ...], ...]  # the one or two domains of each column


def share_columns(
    capacities: Sequence[int], widths: Sequence[int], heights: Sequence[int], columns: int, height: int
) -> Columns | None:
    """Return columns that join all domains and may be filled within the capacities; ``None`` where there are none.

    :param height: D, cells of a column.
    """
    loops = 2 * columns - sum(widths)
    return _Graph(capacities, heights, height).extend(list(widths), list(capacities), loops, ())


class _Graph:
    """The search for one component: the lowest domain with columns left has the fewest partners, so it comes first."""

    def __init__(self, capacities: Sequence[int], heights: Sequence[int], height: int) -> None:
        self._capacities, self._heights, self._height = capacities, heights, height
        self._order = sorted(range(len(heights)), key=lambda k: heights[k])

    def extend(self, widths: list[int], room: list[int], loops: int, columns: Columns) -> Columns | None:
        """Go on for what is left.

        :param widths: columns that each domain still needs.
        :param room: cells of each domain beyond those that it must hold in the columns so far.
        :param loops: columns that lie on one domain alone.
        """
        lowest = next((k for k in self._order if widths[k]), None)
        if lowest is None:
            part = list(range(len(self._heights)))
            for column in columns:
                kept, joined = part[column[0]], part[column[-1]]
                part = [kept if k == joined else k for k in part]
            connected = len(set(part)) == 1
            return columns if not loops and connected and self._filled(room, columns) else None
        tried = [(lowest, lowest)] if loops and self._heights[lowest] == self._height else []
        # columns of the same domain in the order of their partners
        first = columns[-1][-1] if columns and columns[-1][0] == lowest else lowest
        later = self._order[self._order.index(first) :]
        tried += [(lowest, k) for k in later if k != lowest and widths[k]]
        for low, other in tried:
            column = (low,) if low == other else (low, other)
            must = {k: self._height - self._heights[column[0] + column[-1] - k] for k in column}
            if low == other:
                must = {low: self._height}
            elif self._heights[low] + self._heights[other] < self._height:
                continue
            if any(room[k] < cells for k, cells in must.items()):
                continue
            less = [width - (k in column) for k, width in enumerate(widths)]
            rest = [cells - must.get(k, 0) for k, cells in enumerate(room)]
            extended = self.extend(less, rest, loops - (low == other), (*columns, column))
            if extended is not None:
                return extended
        return None

    def _filled(self, room: list[int], columns: Columns) -> bool:
        """Return whether rows that both domains of a column touch find room in one of them: Hall's condition."""
        if len(room) > _MOST_DOMAINS:
            return True
        surplus = [
            (1 << one | 1 << other, self._heights[one] + self._heights[other] - self._height)
            for one, other in (column for column in columns if len(column) == 2)
        ]
        for some in range(1, 1 << len(room)):
            cells = sum(rows for both, rows in surplus if both & some == both)
            if cells > sum(c for k, c in enumerate(room) if some >> k & 1):
                return False
        return True


# S = 2: the fewest rows that the domains of one component touch, and the columns that they share in it.
#
# A domain of *width* q serves q of the e columns and touches as many rows as is its *height* r, so it holds q r cells
# or fewer.  A column on two domains is full only if their heights reach D together.  So domains lower than D / 2 share
# no column with each other, and those up to a height t share all their columns with domains of height D - t or more,
# which serve as many columns and hold, with them, all cells of these.


# Of work: to look at a shape of a domain beside those before it, to look for the columns of shapes, an element of the
# tables of trees, and one of the tables of rows
_STATE_SECONDS, _GRAPH_SECONDS, _TREE_SECONDS, _ROW_SECONDS = 2e-7, 1e-4, 2e-9, 3e-9

NEVER = 1 << 20  # More row touches than any placement has
_TABLES = 256  # Tables kept at a time: a loose cluster has large ones, some hundred kilobytes each


@dataclass(frozen=True, slots=True)
class Touches:
    """What is known of the row touches of a component."""

    rows: int  # at least
    columns: Columns | None = (
        None  # with which so few may be enough: the domains of each, by their place; None = unknown
    )


class ComponentHeights:
    """Least sums of rows of components of one grid; tables are kept from one to the next.

    :param height: D, cells of a column.
    :param waste: most cells that a component has to spare.
    """

    def __init__(self, height: int, waste: int) -> None:
        self._height, self._waste = height, waste
        self._table: Callable[[tuple[int, ...], int], IntArray] = lru_cache(_TABLES)(self._make_table)
        self._options: Callable[[int, int, int], IndexArray] = lru_cache(_TABLES)(self._make_options)

    def rectangles(self, capacities: tuple[int, ...], columns: int) -> int:
        """Return the least sum of rows with which rectangles cover the component, with two domains for each column."""
        waste = sum(capacities) - columns * self._height
        return max(self._height, int(self._table(capacities, columns)[2 * columns, columns, waste]))

    def touches(
        self,
        capacities: tuple[int, ...],
        columns: int,
        *,
        at_least: int,
        at_most: int,
        states: int,
        graphs: int,
        end: float = inf,
    ) -> Touches:
        """Return the least sum of rows from one number to another, ``at_most + 1`` where none is enough.

        :param states: widths and heights that are compared at a time; where there are more the search ends with what is
            known until then.
        :param graphs: most widths and heights for which columns are looked for.
        :param end: when it ends with what is known until then, on the clock: thousands of graphs take seconds.
        """
        for rows in range(at_least, at_most + 1):
            shapes = self._shapes(capacities, columns, rows, states)
            if shapes is None:
                return Touches(rows)
            for widths, heights in islice(zip(*shapes, strict=True), graphs):
                spend(_GRAPH_SECONDS)
                shared = share_columns(capacities, widths.tolist(), heights.tolist(), columns, self._height)
                if shared is not None:
                    return Touches(rows, shared)
                if clock() >= end:
                    return Touches(rows)
            if len(shapes[0]) > graphs:
                return Touches(rows)
        return Touches(max(at_least, at_most + 1))

    def _make_table(self, capacities: tuple[int, ...], columns: int) -> IntArray:
        """Return the least sum of rows within each sum of widths, of widths of domains lower than D / 2, and of waste.

        :returns: shape [2 * columns + 1, columns + 1, waste + 1].
        """
        if not capacities:
            return np.zeros((2 * columns + 1, columns + 1, self._waste + 1), dtype=np.int32)
        before = self._table(capacities[:-1], columns)
        table = np.full_like(before, NEVER)
        capacity, half, elements = capacities[-1], (self._height + 1) // 2, 0
        for width in range(1, min(columns, capacity) + 1):
            rows = min(self._height, -(-capacity // width))
            if rows < half <= capacity:
                # higher than its cells need, so that it may share columns with low ones
                part = table[width:]
                np.minimum(part, before[: len(before) - width] + half, out=part)
            # with fewer rows it wastes more; in each of its columns it holds a cell
            while rows and (waste := max(0, capacity - rows * width)) <= min(self._waste, capacity - width):
                low = width if 2 * rows < self._height else 0
                part = table[width:, low:, waste:]
                rest = before[: len(before) - width, : columns + 1 - low, : self._waste + 1 - waste]
                np.minimum(part, rest + rows, out=part)
                elements += part.size
                rows -= 1
        spend(_ROW_SECONDS * elements)
        return table

    def _shapes(
        self, capacities: tuple[int, ...], columns: int, rows: int, states: int
    ) -> tuple[IndexArray, IndexArray] | None:
        """Return widths and heights of all domains with so many rows in all, shape [choices, domains] each.

        ``None`` where there are too many.  Domains join one by one from the smallest on, all choices side by side.
        """
        waste = sum(capacities) - columns * self._height
        # what is left: widths, widths of low domains, waste, rows
        left: IndexArray = np.array([[2 * columns, columns, waste, rows]], dtype=np.int64)
        widths: IndexArray = np.empty((1, 0), dtype=np.int64)
        heights = widths
        for i, capacity in reversed(list(enumerate(capacities))):
            table = self._table(capacities[:i], columns)
            options = self._options(capacity, columns, waste)
            # the other domains need some rows too
            options = options[options[:, 1] <= int(left[:, 3].max(initial=0) - table[-1, -1, waste])]
            if len(left) * len(options) > states:
                return None
            spend(_STATE_SECONDS * len(left) * len(options))
            new = left[:, None, :] - options[:, 2:][None, :, :]
            state, option = np.nonzero(new.min(axis=2) >= 0)
            left = new[state, option]
            # what the other domains need within that
            enough = table[left[:, 0], left[:, 1], left[:, 2]] <= left[:, 3]
            left, state, option = left[enough], state[enough], option[enough]
            widths = np.column_stack([options[option, 0], widths[state]])
            heights = np.column_stack([options[option, 1], heights[state]])
            joined = self._joined(widths, heights, left[:, 0])
            left, widths, heights = left[joined], widths[joined], heights[joined]
        whole = np.where(heights == self._height, widths, 0).sum(axis=1)
        # widths not used are columns on one domain alone, which touches all rows; v - 1 others join the domains
        good = (left[:, 3] == 0) & (left[:, 0] <= np.minimum(whole, columns - len(capacities) + 1))
        good[good] &= self._filled(np.asarray(capacities), widths[good], heights[good])
        return widths[good], heights[good]

    def _make_options(self, capacity: int, columns: int, waste: int) -> IndexArray:
        """Return the shapes of one domain: width, height, and what they take of widths, low widths, waste and rows."""
        shapes = []
        for width in range(1, min(columns, capacity) + 1):
            for height in range(-(-(capacity - waste) // width), min(self._height, capacity) + 1):
                if height > 0:
                    low = width if 2 * height < self._height else 0
                    shapes.append((width, height, width, low, max(0, capacity - width * height), height))
        table: IndexArray = np.array(shapes, dtype=np.int64).reshape(-1, 6)
        return table

    def _joined(self, widths: IndexArray, heights: IndexArray, left: IndexArray) -> BoolArray:
        """Return where low domains find partners enough for their columns, those that are to come included.

        :param left: shape [choices], widths of domains to come.
        """
        good = np.ones(len(widths), dtype=np.bool_)
        for low in heights.T:
            lower = np.where(heights <= low[:, None], widths, 0).sum(axis=1)
            partners = np.where(heights >= self._height - low[:, None], widths, 0).sum(axis=1)
            good &= (2 * low >= self._height) | (lower <= partners + left)
        return good

    def _filled(self, capacities: IndexArray, widths: IndexArray, heights: IndexArray) -> BoolArray:
        """Return where low domains and their partners hold the cells of the columns of the low ones."""
        good = np.ones(len(widths), dtype=np.bool_)
        cells = np.minimum(capacities, widths * heights)
        for low in heights.T:
            lower, partners = heights <= low[:, None], heights >= self._height - low[:, None]
            wanted = self._height * np.where(lower, widths, 0).sum(axis=1)
            good &= (2 * low >= self._height) | (wanted <= np.where(lower | partners, cells, 0).sum(axis=1))
        return good


# S = 2: components that are trees, the fewest rows that these touch, exactly, and columns with which they do.
#
# A tree of v domains has v - 1 columns.  Cut the column between a subtree and the rest: what the subtree holds of it is
# its *share* s, and the rest holds D - s.  Colour the domains in two classes and give one class the top rows of each of
# its columns, the other the bottom rows: then the rows of a domain are nested, and it touches as many as its largest
# share.  No domain touches fewer, so the least sum of largest shares is exact.
#
# Domains of equal capacity are not told apart: a subtree is known by its capacities and its share.


_SHARE_TABLES = 2000  # Tables kept at a time, some ten kilobytes each

Domains = tuple[int, ...]  # capacities of domains, descending


class TreeShares:
    """Trees on domains of one grid; what is known of subtrees is kept from one tree to the next."""

    def __init__(self, problem: GridProblem) -> None:
        self._height = problem.rows
        # most cells that a subtree leaves free, and that a domain holds
        self._spare = sum(problem.capacities) - problem.cells
        self._largest = problem.capacities[0]
        self._branch = lru_cache(_SHARE_TABLES)(self._make_branch)
        self._hung = lru_cache(_SHARE_TABLES)(self._make_hung)

    def work(self, capacities: Domains) -> int:
        """Return about how many array elements a tree on these domains takes: parts, parts of them, and shares."""
        parts = prod((many + 1) * (many + 2) // 2 for many in Counter(capacities).values())
        return parts * min(self._spare + 1, self._height) * self._height * self._largest

    def least(self, capacities: Domains) -> Touches:
        """Return the least row touches of all trees on these domains, and the columns of one that has them."""
        root, others = capacities[0], capacities[1:]
        rows = self._hung(others)[:, root] + np.arange(self._height + 1)
        height = int(rows.argmin())
        if rows[height] >= NEVER:
            return Touches(NEVER)
        free: dict[int, list[int]] = {}
        for place, capacity in enumerate(capacities):
            free.setdefault(capacity, []).append(place)
        return Touches(int(rows[height]), self._columns(free[root].pop(), others, height, root, free))

    def _shares(self, domains: Domains) -> range:
        """Return the shares that a subtree may have: its other columns are full, and it leaves little free."""
        most = sum(domains) - (len(domains) - 1) * self._height
        return range(max(0, most - self._spare), min(most, self._height) + 1)

    def _make_branch(self, domains: Domains) -> IndexArray:
        """Return the least row touches of a subtree, of all its domains as the root the best, shape [shares]."""
        return np.array([self._best_root(domains, share)[0] for share in self._shares(domains)], dtype=np.int64)

    def _best_root(self, domains: Domains, share: int) -> tuple[int, int, int]:
        """Return the least row touches of a subtree with this share, and the capacity and height of its root."""
        best = (NEVER, 0, 0)
        for root in dict.fromkeys(domains):
            if share <= root:
                # it touches as many rows as its share of the column above, or more
                rows = self._hung(_without(domains, (root,)))[share:, root - share] + np.arange(share, self._height + 1)
                height = int(rows.argmin())
                best = min(best, (int(rows[height]), root, share + height))
        return best

    def _make_hung(self, domains: Domains) -> IndexArray:
        """Return the least row touches of subtrees that hang on a root, shape [height of the root + 1, cells + 1].

        The root touches at most so many rows, and holds at most so many cells in the columns above the subtrees.
        """
        best = np.full((self._height + 1, self._largest + 1), 0 if not domains else NEVER, dtype=np.int64)
        for part, share, needed in self._hangings(domains):
            rows = int(self._branch(part)[share])
            if rows < NEVER:
                rest = self._hung(_without(domains, part))[needed:, : self._largest + 1 - needed] + rows
                np.minimum(best[needed:, needed:], rest, out=best[needed:, needed:])
        return best

    def _hangings(self, domains: Domains) -> Iterator[tuple[Domains, int, int]]:
        """Yield subtrees with the first of some domains, the place of a share, and what the root holds beside it."""
        many = Counter(domains)
        for taken in product(*(range(count + 1) for count in many.values())):
            if not taken or not taken[0]:
                continue
            part = tuple(c for c, count in zip(many, taken, strict=True) for _ in range(count))
            for i, share in enumerate(self._shares(part)):
                if self._height - share <= self._largest:
                    yield part, i, self._height - share

    def _columns(self, root: int, domains: Domains, height: int, cells: int, free: dict[int, list[int]]) -> Columns:
        """Return the columns of the best subtrees that hang on a root, by its place, and take places for them."""
        if not domains:
            return ()
        least = self._hung(domains)[height, cells]
        for part, i, needed in self._hangings(domains):
            if needed > min(height, cells):
                continue
            rest = _without(domains, part)
            if self._branch(part)[i] + self._hung(rest)[height, cells - needed] == least:
                _, below, tall = self._best_root(part, share := self._height - needed)
                place = free[below].pop()
                inside = self._columns(place, _without(part, (below,)), tall, below - share, free)
                return ((root, place), *inside, *self._columns(root, rest, height, cells - needed, free))
        raise AssertionError("the least is that of one of them")


def _without(domains: Domains, part: Domains) -> Domains:
    """Return the domains of a set without some of them, descending."""
    left = Counter(domains)
    left.subtract(part)
    return tuple(left.elements())


# S = 2: putting components together, each domain in one, until they have all columns and few enough row touches.
#
# The columns of a placement fall into components, all of whose row touches together are R D at most.  A linear program
# over the candidates says what a domain and a column are worth in row touches: its prices refute at once where even the
# cheapest fractions cost too much, and rule out candidates that no packing within the budget has.  What is left is
# searched depth first, domain by domain.
#
# Prices are rounded to integers and then hold whatever they are: in a packing the row touches are the prices of all
# domains and columns and, for each component, its *regret*, rows minus the prices of what it takes.


_NODE_SECONDS = 5e-5  # Of work to look at a node of the search
_UNIT = 1000  # Price of a row touch: prices are integers, and a thousandth of a row is as fine as rounding needs
_JOINING = 500  # Candidates in the linear program to begin with, the cheapest, and that join it in each round


@dataclass(frozen=True, slots=True)
class Prices:
    """What components pay for what they take, in thousandths of a row touch."""

    of_class: IndexArray  # shape [classes], of a domain
    of_column: int

    def regrets(self, components: Components) -> IndexArray:
        """Return what each component costs beyond the prices of what it takes."""
        paid = components.members @ self.of_class + components.columns * self.of_column
        return _UNIT * components.rows - paid


def master_prices(problem: GridProblem, components: Components) -> Prices:
    """Return prices from the linear program over the components, by column generation.

    minimise sum rows x, each domain in one component, sum of columns = P; domains and columns that no component takes
    cost as much as all rows together, so that there always is a solution.
    """
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    many = list(Counter(problem.capacities).values())
    domains = [solver.Constraint(float(n), float(n)) for n in many]
    columns = solver.Constraint(float(problem.columns), float(problem.columns))
    objective = solver.Objective()
    objective.SetMinimization()
    penalty = float(problem.rows * len(problem.capacities))
    for constraint in (*domains, columns):
        without = solver.NumVar(0.0, solver.infinity(), "")
        objective.SetCoefficient(without, penalty)
        constraint.SetCoefficient(without, 1.0)
    prices = Prices(np.zeros(len(many), dtype=np.int64), 0)
    joined = np.zeros(len(components), dtype=np.bool_)
    newest = np.argsort(components.rows / components.columns, kind="stable")[:_JOINING]
    while len(newest):
        for i in newest:
            joined[i] = True
            variable = solver.NumVar(0.0, solver.infinity(), "")
            objective.SetCoefficient(variable, float(components.rows[i]))
            columns.SetCoefficient(variable, float(components.columns[i]))
            for k in np.flatnonzero(components.members[i]):
                domains[k].SetCoefficient(variable, float(components.members[i, k]))
        if solver.Solve() != pywraplp.Solver.OPTIMAL:
            break
        prices = Prices(
            np.array([round(_UNIT * domain.dual_value()) for domain in domains], dtype=np.int64),
            round(_UNIT * columns.dual_value()),
        )
        regrets = prices.regrets(components)
        # rounding alone makes regrets of a few units
        cheap = np.flatnonzero((regrets < -len(problem.capacities)) & ~joined)
        newest = cheap[np.argsort(regrets[cheap], kind="stable")[:_JOINING]]
    return prices


class Packings:
    """All packings of components within R D row touches, one after another, those of little regret first.

    While they are gone through, row touches of components may be raised: what then costs too much is passed over.
    """

    def __init__(self, problem: GridProblem, pp: int, components: Components, prices: Prices, *, most: int) -> None:
        self.nodes = 0  # of the search tree
        self.pp = pp
        self._problem, self._prices, self._most = problem, prices, most
        self._many = np.array(list(Counter(problem.capacities).values()), dtype=np.int64)
        regrets = prices.regrets(components)
        self._least = min(0, int(regrets.min(initial=0)))
        within = regrets - self._least <= self._slack(self._many, problem.columns, pp * problem.rows)
        kept = components.where(within)
        self.components = replace(kept, rows=kept.rows.copy())
        self._regrets = regrets[within]
        self._failed: dict[tuple[bytes, int], int] = {}
        self._seen: set[tuple[int, ...]] = set()

    @property
    def stopped(self) -> bool:
        """Whether the limit of nodes was reached, so that no packing found means nothing."""
        return self.nodes >= self._most

    def rows_left(self, chosen: Sequence[int]) -> int:
        """Return the row touches that some components leave to others; negative where they are too many."""
        return self.pp * self._problem.rows - int(self.components.rows[list(chosen)].sum())

    def raise_rows(self, i: int, rows: int) -> None:
        """Note that a component touches so many rows or more."""
        self._regrets[i] += _UNIT * (rows - self.components.rows[i])
        self.components.rows[i] = rows

    def _slack(self, left: IndexArray, columns: int, rows: int) -> int:
        """Return the most regret, beyond the least, that so many row touches leave one component."""
        budget = _UNIT * rows - int(left @ self._prices.of_class) - columns * self._prices.of_column
        # each component touches D rows or more, so there are at most rows // D of them
        return budget - rows // self._problem.rows * self._least

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield packings, each as the places of its components."""
        every = np.arange(len(self.components), dtype=np.int64)
        yield from self._extend((), self._many, self._problem.columns, every)

    def _extend(
        self, chosen: tuple[int, ...], left: IndexArray, columns: int, candidates: IndexArray
    ) -> Generator[tuple[int, ...], None, bool]:
        """Yield the packings that begin with those chosen, for the domains and columns that are left.

        :returns: whether there may be any, here or where the same were chosen in another order.
        """
        if not left.any():
            if not columns and chosen not in self._seen:
                self._seen.add(chosen)
                yield chosen
            # while it was looked at its row touches may have been raised
            return not columns and self.rows_left(chosen) >= 0
        key = left.tobytes(), columns
        if self._failed.get(key, -1) >= self.rows_left(chosen):
            return False
        if self.stopped or chosen in self._seen:
            return True
        self._seen.add(chosen)
        self.nodes += 1
        spend(_NODE_SECONDS)
        every = self.components
        # there is room for them, and their regret is not more than what is left allows
        rows = self.rows_left(chosen)
        slack = self._slack(left, columns, rows)
        fits = (self._regrets[candidates] - self._least <= slack) & (every.columns[candidates] <= columns)
        candidates = candidates[fits & (every.rows[candidates] <= rows)]
        # the dearest comparison for those alone that the others leave
        candidates = candidates[(every.members[candidates] <= left).all(axis=1)]
        # each class of which domains are left needs a component: the one with the fewest to choose from
        takes = every.members[candidates] > 0
        options = np.where(left > 0, takes.sum(axis=0), len(candidates) + 1)
        some = candidates[takes[:, int(options.argmin())]]
        may_pack = False
        for i in some[np.argsort(self._regrets[some], kind="stable")]:
            if self.rows_left((*chosen, int(i))) < 0:
                continue
            rest = left - every.members[i], columns - int(every.columns[i])
            may_pack |= yield from self._extend(tuple(sorted((*chosen, int(i)))), *rest, candidates)
        if not may_pack:
            # with as many rows as are left now, which may be fewer than at first
            self._failed[key] = max(self._failed.get(key, -1), self.rows_left(chosen))
        return may_pack


# S = 2 decided by components: which domains share columns, packed together, until a pair is built or refuted.
#
# A placement that uses m domains is one on the m largest, so for each m *all* of the first m are to be used: without
# that a component could leave out whatever does not suit.  For each the candidates are listed and packed.  Packings are
# looked at one by one: their components are given better bounds, which rule out other packings too, until none is left
# or one can be built.


_LOOKS = 240  # at packings in one turn, most of which take a millisecond, as they share components with others
_STATES = 50_000  # Widths and heights of a component's domains that are compared at a time: milliseconds
_ROUNDS = 3  # turn by turn with five times as many of these, at last seconds

Key = tuple[tuple[int, ...], int]  # a component: capacities of its domains, descending, and how many columns it has
Packed = tuple[Key, ...]


def pack_components(search: PairSearch) -> None:
    """Decide open pairs with S = 2 (R = 2 on the transpose), the largest R first: a "no" there refutes all below."""
    _pack(search, search.params.long_share, rounds=_ROUNDS)


def pack_quick_components(search: PairSearch) -> None:
    """Decide them with the least effort alone: what components settle they mostly settle in tenths of a second."""
    _pack(search, search.params.quick_share, rounds=1)


def _pack(search: PairSearch, share: float, *, rounds: int) -> None:
    """Decide them in a share of the time limit, with five times the effort in each round."""
    end = search.end_of(share)
    for view in search.views:
        # with more columns some are in parallel, and too many sets of domains have little waste
        if view.problem.columns > search.params.narrow_columns:
            continue
        # v domains have v - 1 columns or more that join them; each component has a column of its own, which makes one
        # domain more
        room = np.cumsum(view.problem.capacities)[: 2 * view.problem.columns]
        numbers = np.flatnonzero(room >= view.problem.cells) + 1
        known = [UsedDomains(view.problem, domains) for domains in numbers.tolist()]
        tried: set[int] = set()
        while clock() < end:
            pairs = [view.turn(pair) for pair in search.lattice.open()]
            waiting = [pp for dp, pp in pairs if dp == 2 and pp not in tried]
            if not waiting:
                break
            # one that is built says nothing of those below: go on in the middle
            tried.add(pp := sorted(waiting)[len(waiting) // 2] if tried else max(waiting))
            two = view.turn((2, pp))
            search.say(f"components for DP spread {two[0]}, PP spread {two[1]}")
            answer, cells = _decide(known, pp, end, search.limits.seed, rounds)
            if cells is not None:
                search.build(view, cells, "components")
            elif answer == "no":
                family, other = ("PP", "DP") if view.transposed else ("DP", "PP")
                sentence = (
                    f"if no {family} group touches more than 2 domains, the domains fall into sets that have no "
                    f"{family} group in common, and every {other} group touches each set; no sets leave every {other} "
                    f"group on at most {pp} domains"
                )
                search.lattice.refute(two, "components", sentence)


def _decide(
    known: Sequence[UsedDomains], pp: int, end: float, seed: int, rounds: int
) -> tuple[Answer, IntArray | None]:
    """Try every number of domains, with more effort in each round, until one is built or all are refuted."""
    left = list(known)
    for effort in range(rounds if left else 0):
        still: list[UsedDomains] = []
        for used in left:
            if len(used.problem.capacities) > used.problem.columns + pp:
                # more than R components
                continue
            if still and still[-1].too_many:
                # with more domains there are more sets
                still.append(used)
                continue
            if clock() >= end:
                return "unknown", None
            answer, cells = used.decide(pp, states=_STATES * 5**effort, wall=end - clock(), seed=seed)
            if cells is not None:
                return "yes", cells
            if answer != "no":
                still.append(used)
        left = still
        if not left:
            return "no", None
    return "unknown", None


class UsedDomains:
    """The largest domains of a problem, so many of them, all of which are to be used; bounds are kept from R to R."""

    def __init__(self, problem: GridProblem, domains: int) -> None:
        self.problem = GridProblem(problem.rows, problem.columns, problem.capacities[:domains])
        self._heights = ComponentHeights(problem.rows, sum(self.problem.capacities) - problem.cells)
        self._trees = TreeShares(self.problem)
        self._touches: dict[Key, Touches] = {}
        self._ended: dict[Key, int] = {}  # States with which a search for columns ended early
        self._listed: dict[int, Components] = {}  # by R
        self.too_many = False  # Whether there are too many sets of domains to list
        self._tried: set[tuple[int, Packed]] = set()  # R and packings that were not realised

    def decide(self, pp: int, *, states: int, wall: float, seed: int) -> tuple[Answer, IntArray | None]:
        """Look at packings one after another and try to build them, with more effort for each turn by turn.

        What is found out of a component in one packing is kept, and rules out others.

        :param states: widths and heights of a component's domains that are compared at a time.
        :returns: ``"yes"`` with the domain of each cell, shape [rows, columns]; ``"no"`` when there is no packing.
        """
        end = clock() + wall
        components = self._listed.get(pp)
        if components is None and not self.too_many:
            components = list_components(self.problem, pp, most=SETS)
        if components is None:
            self.too_many = True
            return "unknown", None
        prices = master_prices(self.problem, components)
        packings = Packings(self.problem, pp, components, prices, most=NODES)
        unsettled = False
        for looks, packing in enumerate(packings, start=1):
            cells = self._look(packings, packing, states, end, seed)
            if cells is not None:
                return "yes", cells
            unsettled |= packings.rows_left(packing) >= 0
            if looks >= _LOOKS or clock() >= end:
                unsettled = True
                break
        self._listed[pp] = packings.components
        return "unknown" if unsettled or packings.stopped else "no", None

    def _least_rows(self, key: Key, at_least: int, at_most: int, states: int, end: float) -> int:
        capacities, columns = key
        known = self._touches.get(key)
        if known is None:
            rows = max(at_least, self._heights.rectangles(capacities, columns))
            known = Touches(rows)
        tree = (
            columns == len(capacities) - 1 and _TREE_SECONDS * self._trees.work(capacities) <= _STATE_SECONDS * states
        )
        if known.columns is None and known.rows <= at_most and tree:
            known = self._trees.least(capacities)
        elif known.columns is None and known.rows <= at_most and self._ended.get(key, 0) < states:
            graphs = int(_STATE_SECONDS * states / _GRAPH_SECONDS)
            known = self._heights.touches(
                capacities, columns, at_least=known.rows, at_most=at_most, states=states, graphs=graphs, end=end
            )
            if known.columns is None and known.rows <= at_most:
                self._ended[key] = states
        self._touches[key] = known
        return max(at_least, known.rows)

    def _look(self, packings: Packings, packing: Sequence[int], states: int, end: float, seed: int) -> IntArray | None:
        """Return a placement with a packing, or ``None``, with what was found out of its components noted.

        Small components come first: they take least time, and are in most other packings.
        """
        components, packed, columns = packings.components, [], []
        for i in sorted(packing, key=lambda i: int(components.members[i].sum())):
            key = components.capacities(i), int(components.columns[i])
            rows = int(components.rows[i])
            packings.raise_rows(i, self._least_rows(key, rows, rows + packings.rows_left(packing), states, end))
            if packings.rows_left(packing) < 0 or clock() >= end:
                return None
            packed.append(key)
            columns.append(self._touches[key].columns)
        known_columns = [own for own in columns if own is not None]
        if len(known_columns) < len(columns) or (packings.pp, tuple(packed)) in self._tried:
            return None
        self._tried.add((packings.pp, tuple(packed)))
        limit = Slice(EFFORT, end - clock(), seed)
        # which domain serves which column, shape [domains, columns]; of equal domains one after another
        free: dict[int, list[int]] = defaultdict(list)
        for k, capacity in enumerate(self.problem.capacities):
            free[capacity].append(k)
        serves = np.zeros((len(self.problem.capacities), self.problem.columns), dtype=np.bool_)
        p = 0
        for (capacities, _), own in zip(packed, known_columns, strict=True):
            domains = [free[capacity].pop() for capacity in capacities]
            for column in own:
                serves[[domains[place] for place in column], p] = True
                p += 1
        return realise(self.problem, serves, pp=packings.pp, limit=limit)[0]
