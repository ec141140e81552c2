"""S = 2 decided by components: which domains share columns, packed together, until a pair is built or refuted.

A placement that uses m domains is one on the m largest, so for each m *all* of the first m are to be used: without that
a component could leave out whatever does not suit.  For each the candidates are listed, packed, and those that are in
some packing are given better bounds, until no packing is left or one can be built.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from scheduler.placement.exact.column_components import Components, list_components
from scheduler.placement.exact.component_columns import Columns
from scheduler.placement.exact.component_heights import ComponentHeights, Touches
from scheduler.placement.exact.component_packing import Packings, master_prices
from scheduler.placement.exact.component_trees import least_tree
from scheduler.placement.exact.cpsat import Answer, Slice
from scheduler.placement.exact.lattice import GridView, PairSearch
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.realise import realise
from scheduler.placement.exact.tree_shares import TreeShares
from scheduler.work_clock import clock
from topology.cluster import BoolArray, IntArray

Key = tuple[tuple[int, ...], int]  # a component: capacities of its domains, descending, and how many columns it has
Packed = tuple[Key, ...]


def pack_components(search: PairSearch) -> None:
    """Decide open pairs with S = 2 (R = 2 on the transpose), the largest R first: a "no" there refutes all below."""
    _pack(search, search.params)


def pack_quick_components(search: PairSearch) -> None:
    """Decide them with the least effort alone: what components settle they mostly settle in tenths of a second."""
    params = search.params
    first = params.component_states[:1]
    _pack(search, replace(params, component_share=params.quick_component_share, component_states=first))


def _pack(search: PairSearch, params: ExactParams) -> None:
    end = clock() + min(search.left, params.component_share * search.limits.seconds)
    for view in search.views:
        if view.problem.columns > params.component_columns:
            continue
        known = [UsedDomains(view.problem, domains, params) for domains in _numbers_of_domains(view.problem)]
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
            answer, cells = _decide(known, pp, end, search.limits.seed)
            if cells is not None:
                search.build(view, cells, "components")
            elif answer == "no":
                search.lattice.refute(two, "components", _no_packing(view, pp))


def _numbers_of_domains(problem: GridProblem) -> Iterator[int]:
    """Yield how many domains a placement with S = 2 may use: v domains have v - 1 columns or more that join them."""
    room = np.cumsum(problem.capacities)
    most = 2 * problem.columns  # each component has a column of its own, which makes one domain more
    for domains in range(1, min(len(room), most) + 1):
        if room[domains - 1] >= problem.cells:
            yield domains


def _decide(known: Sequence[UsedDomains], pp: int, end: float, seed: int) -> tuple[Answer, IntArray | None]:
    """Try every number of domains, with more effort in each round, until one is built or all are refuted."""
    left = list(known)
    rounds = len(left[0].params.component_states) if left else 0
    for turn in range(rounds + 1):
        still: list[UsedDomains] = []
        for one in left:
            if len(one.problem.capacities) > one.problem.columns + pp:
                # more than R components
                continue
            if still and still[-1].too_many:
                # with more domains there are more sets
                still.append(one)
                continue
            if clock() >= end:
                return "unknown", None
            answer, cells = one.decide(pp, turn=turn, wall=end - clock(), seed=seed)
            if cells is not None:
                return "yes", cells
            if answer != "no":
                still.append(one)
        left = still
        if not left:
            return "no", None
    return "unknown", None


def _no_packing(view: GridView, pp: int) -> str:
    """Return what cannot be had, in a sentence."""
    family, other = ("PP", "DP") if view.transposed else ("DP", "PP")
    return (
        f"if no {family} group touches more than 2 domains, the domains fall into sets that have no {family} group in "
        f"common, and every {other} group touches each set; no sets leave every {other} group on at most {pp} domains"
    )


class UsedDomains:
    """The largest domains of a problem, so many of them, all of which are to be used; bounds are kept from R to R."""

    def __init__(self, problem: GridProblem, domains: int, params: ExactParams) -> None:
        self.problem = GridProblem(problem.rows, problem.columns, problem.capacities[:domains])
        self.params = params
        self._heights = ComponentHeights(problem.rows, sum(self.problem.capacities) - problem.cells)
        self._trees = TreeShares(self.problem)
        self._touches: dict[Key, Touches] = {}
        self._ended: dict[Key, int] = {}  # States with which a search for columns ended early
        self._listed: dict[int, Components] = {}  # by R
        self.too_many = False  # Whether there are too many sets of domains to list
        self._tried: set[tuple[int, Packed]] = set()  # R and packings that were not realised

    def decide(self, pp: int, *, turn: int, wall: float, seed: int) -> tuple[Answer, IntArray | None]:
        """Look for packings and try to build them; in turns after the first with better bounds of their components.

        :returns: ``"yes"`` with the domain of each cell, shape [rows, columns]; ``"no"`` when there is no packing.
        """
        end = clock() + wall
        components = self._listed[pp] if pp in self._listed else self._list(pp)
        if components is None:
            return "unknown", None
        if turn:
            components = self._bounded(components, pp, self.params.component_states[turn - 1], end)
        packings = self._packings(components, pp)
        some = list(islice(packings, self.params.component_packings))
        if not some and not packings.stopped:
            return "no", None
        components = packings.components
        if len(some) < self.params.component_packings and not packings.stopped:
            # these are all packings: no other component is of use
            used = np.zeros(len(components), dtype=np.bool_)
            used[[i for packing in some for i in packing]] = True
            self._listed[pp] = components.where(used)
        else:
            self._listed[pp] = components
        states = self.params.component_states[max(0, turn - 1)]
        cells = self._built([self._packed(components, packing) for packing in some], pp, states, end, seed)
        return ("unknown", None) if cells is None else ("yes", cells)

    @staticmethod
    def _packed(components: Components, packing: Sequence[int]) -> Packed:
        return tuple((components.capacities(i), int(components.columns[i])) for i in packing)

    def _list(self, pp: int) -> Components | None:
        components = None if self.too_many else list_components(self.problem, pp, most=self.params.component_sets)
        self.too_many = components is None
        return components

    def _packings(self, components: Components, pp: int) -> Packings:
        prices = master_prices(self.problem, components)
        return Packings(self.problem, pp, components, prices, most=self.params.component_nodes)

    def _bounded(self, components: Components, pp: int, states: int, end: float) -> Components:
        """Return the components that may be in a packing, with better bounds of their row touches."""
        packings = self._packings(components, pp)
        components, most = packings.components, packings.most_rows()
        rows = components.rows.copy()
        for i in range(len(components)):
            if clock() >= end:
                break
            key = components.capacities(i), int(components.columns[i])
            rows[i] = max(rows[i], self._least_rows(key, int(rows[i]), int(most[i]), states, end))
        return replace(components, rows=rows)

    def _least_rows(self, key: Key, at_least: int, at_most: int, states: int, end: float) -> int:
        capacities, columns = key
        known = self._touches.get(key)
        if known is None:
            rows = max(at_least, self._heights.rectangles(capacities, columns))
            if columns == len(capacities) - 1 and columns < self.params.component_trees:
                waste = sum(capacities) - columns * self.problem.rows
                rows = max(rows, least_tree(capacities, self.problem.rows, waste))
            known = Touches(rows)
        tree = columns == len(capacities) - 1 and self._trees.work(capacities) <= self.params.tree_elements * states
        if known.columns is None and known.rows <= at_most and tree:
            known = self._trees.least(capacities)
        elif known.columns is None and known.rows <= at_most and self._ended.get(key, 0) < states:
            graphs = self.params.component_graphs * states // 1000
            known = self._heights.touches(
                capacities, columns, at_least=known.rows, at_most=at_most, states=states, graphs=graphs, end=end
            )
            if known.columns is None and known.rows <= at_most:
                self._ended[key] = states
        self._touches[key] = known
        return max(at_least, known.rows)

    def _built(self, packings: Sequence[Packed], pp: int, states: int, end: float, seed: int) -> IntArray | None:
        """Return a placement with one of the packings: the first few whose columns are found are tried."""
        for packed in packings[: self.params.component_builds]:
            columns = None if (pp, packed) in self._tried else self._columns_of(packed, pp, states, end)
            if columns is None:
                continue
            self._tried.add((pp, packed))
            limit = Slice(self.params.component_rounding, end - clock(), seed)
            serves = self._skeleton(packed, columns)
            made = realise(self.problem, serves, pp=pp, limit=limit, params=self.params)
            if made.cells is not None:
                return made.cells
        return None

    def _columns_of(self, packed: Packed, pp: int, states: int, end: float) -> list[Columns] | None:
        """Return the columns of each component of a packing, within R D row touches in all."""
        rows = [self._touches[key].rows if key in self._touches else self.problem.rows for key in packed]
        found = []
        for i, key in enumerate(packed):
            others = sum(rows) - rows[i]
            rows[i] = self._least_rows(key, rows[i], pp * self.problem.rows - others, states, end)
            columns = self._touches[key].columns
            if columns is None or others + rows[i] > pp * self.problem.rows or clock() >= end:
                return None
            found.append(columns)
        return found

    def _skeleton(self, packed: Packed, columns: Sequence[Columns]) -> BoolArray:
        """Return which domain serves which column, shape [domains, columns]; of equal domains one after another."""
        free: dict[int, list[int]] = defaultdict(list)
        for k, capacity in enumerate(self.problem.capacities):
            free[capacity].append(k)
        serves = np.zeros((len(self.problem.capacities), self.problem.columns), dtype=np.bool_)
        p = 0
        for (capacities, _), own in zip(packed, columns, strict=True):
            domains = [free[capacity].pop() for capacity in capacities]
            for column in own:
                serves[[domains[place] for place in column], p] = True
                p += 1
        return serves
