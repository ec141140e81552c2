"""S = 2 decided by components: which domains share columns, packed together, until a pair is built or refuted.

A placement that uses m domains is one on the m largest, so for each m *all* of the first m are to be used: without that
a component could leave out whatever does not suit.  For each the candidates are listed and packed.  Packings are looked
at one by one: their components are given better bounds, which rule out other packings too, until none is left or one
can be built.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.exact.components.column_components import Components, list_components
from scheduler.placement.exact.components.component_columns import Columns
from scheduler.placement.exact.components.component_heights import ComponentHeights, Touches
from scheduler.placement.exact.components.component_packing import Packings, master_prices
from scheduler.placement.exact.components.component_trees import least_tree
from scheduler.placement.exact.components.tree_shares import TreeShares
from scheduler.placement.exact.grid.params import ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.pair_search import GridView, PairSearch
from scheduler.placement.exact.profiles.realise import realise
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
    end = search.end_of(params.component_share)
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
    for turn in range(len(left[0].params.component_states) if left else 0):
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
        """Look at packings one after another and try to build them, with more effort for each turn by turn.

        What is found out of a component in one packing is kept, and rules out others.

        :returns: ``"yes"`` with the domain of each cell, shape [rows, columns]; ``"no"`` when there is no packing.
        """
        end = clock() + wall
        components = self._listed[pp] if pp in self._listed else self._list(pp)
        if components is None:
            return "unknown", None
        packings = self._packings(components, pp)
        states = self.params.component_states[turn]
        unsettled = False
        for looks, packing in enumerate(packings, start=1):
            cells = self._look(packings, packing, states, end, seed)
            if cells is not None:
                return "yes", cells
            unsettled |= packings.rows_left(packing) >= 0
            if looks >= self.params.component_looks or clock() >= end:
                unsettled = True
                break
        self._listed[pp] = packings.components
        return "unknown" if unsettled or packings.stopped else "no", None

    def _list(self, pp: int) -> Components | None:
        components = None if self.too_many else list_components(self.problem, pp, most=self.params.component_sets)
        self.too_many = components is None
        return components

    def _packings(self, components: Components, pp: int) -> Packings:
        prices = master_prices(self.problem, components)
        return Packings(self.problem, pp, components, prices, most=self.params.component_nodes)

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
        found = [one for one in columns if one is not None]
        if len(found) < len(columns) or (packings.pp, tuple(packed)) in self._tried:
            return None
        self._tried.add((packings.pp, tuple(packed)))
        limit = Slice(self.params.component_rounding, end - clock(), seed)
        return realise(
            self.problem, self._skeleton(packed, found), pp=packings.pp, limit=limit, params=self.params
        ).cells

    def _skeleton(self, packed: Sequence[Key], columns: Sequence[Columns]) -> BoolArray:
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
