"""Peeled bands: some bands in whole rows first, and an interval flow over the columns and domains that they leave.

A *band* is a set of at most S domains that hold all cells of some columns, each row in one of them.  So b bands leave a
problem with fewer columns, without their domains, whose pair is (S, R - b).  It is so small that an interval flow takes
hundredths of a second, and many choices of bands can be tried, where one flow over all columns takes seconds.

Rows and columns that are left are worth most where the domains left need few touches: by the product bound their
``(sum sqrt n_k)^2`` must be at most S (R - b) D times the columns left.  Bands are chosen by what they do to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import comb, sqrt

import numpy as np

from scheduler.placement.exact.bands.column_bands import lay_bands
from scheduler.placement.exact.flows.interval_flow import count_intervals, interval_flow
from scheduler.placement.exact.flows.whole_rows import FlowLimit
from scheduler.placement.exact.grid.params import ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.bounds import CoverageBound, product_bound
from scheduler.placement.types import Pair
from scheduler.work_clock import clock, spend
from topology.cluster import FloatArray, IndexArray, IntArray

_ALIKE = 4  # Choices looked at for each that is kept: some are other bands on the same domains
_MOST_DOMAINS = 62  # Sets of domains are the bits of an integer
# Of work: to list a set of domains, and to join a band to a choice of others
_SET_SECONDS, _JOIN_SECONDS = 1e-6, 2e-8


def peeled_bands(
    problem: GridProblem, pair: Pair, *, flows: int, limit: FlowLimit, params: ExactParams
) -> IntArray | None:
    """Return a placement of some bands and an interval flow beside them; ``None`` when none was found.

    Nothing found proves nothing.

    :param flows: choices of bands that a flow is looked for beside.
    :param limit: of each flow; its seconds are those of all.
    :returns: shape [rows, columns], the domain of each cell.
    """
    if pair[1] < 3 or pair[0] > params.peel_domains or len(problem.capacities) > _MOST_DOMAINS:
        return None
    if _count_bands(problem, pair[0]) > params.peel_sets:
        return None
    end = clock() + limit.seconds
    choices = _Choices(problem, pair, params)
    for i, choice in enumerate(islice(choices, flows // 2)):
        # an even seed and an odd one, with which dives ask for different things
        for seed in range(2 * (limit.seed + i), 2 * (limit.seed + i) + 2):
            if clock() >= end:
                return None
            cells = choices.lay(choice, replace(limit, seconds=end - clock(), seed=seed))
            if cells is not None:
                return cells
    return None


def _count_bands(problem: GridProblem, dp: int) -> int:
    """Return how many sets of domains there are for a band, times the widths that each may have."""
    return len(_widths_fewer(problem)) * sum(comb(len(problem.capacities), size) for size in range(1, dp + 1))


def _widths_fewer(problem: GridProblem) -> range:
    """Return how many columns fewer than it could a band may have, for its waste to be no more than is to spare."""
    spare = sum(problem.capacities) - problem.cells
    return range(min(spare // problem.rows + 1, problem.columns))


@dataclass(frozen=True, slots=True)
class _Bands:
    """Bands, one in each place of the arrays."""

    domains: IndexArray  # bits
    widths: IndexArray
    waste: IndexArray  # cells of its domains that it leaves free
    gain: FloatArray  # by which it raises what is left of the product bound, in square roots of cells


@dataclass(frozen=True, slots=True)
class _Choice:
    """Some bands, and the problem that they leave; rows and columns may be exchanged, so that columns are few."""

    bands: tuple[int, ...]  # places
    others: tuple[int, ...]  # domains that are in none
    rest: GridProblem
    pair: Pair  # of the rest
    transposed: bool
    left: float  # S (R - b), less what the domains left need of it by the product bound


class _Choices:
    """Choices of bands, those that leave the easiest problems first."""

    def __init__(self, problem: GridProblem, pair: Pair, params: ExactParams) -> None:
        self._problem, self._pair, self._params = problem, pair, params
        self._capacities = np.array(problem.capacities, dtype=np.int64)
        self._spare = int(self._capacities.sum()) - problem.cells
        self._bands = self._listed(params.peel_bands)
        self._parts = [parts for parts in params.peel_parts if parts < pair[1]]

    def __iter__(self) -> Iterator[_Choice]:
        """Yield choices, so that each number of bands has as many intervals in all."""
        # most bands first, which leave least to a flow
        waiting = [sorted(choices, key=lambda choice: choice.left) for choices in self._left()][::-1]
        done = [0] * len(waiting)
        while any(waiting):
            some = min((i for i, choices in enumerate(waiting) if choices), key=lambda i: done[i])
            choice = waiting[some].pop()
            done[some] += count_intervals(choice.rest, choice.pair)
            yield choice

    def lay(self, choice: _Choice, limit: FlowLimit) -> IntArray | None:
        """Return a placement with these bands, or nothing."""
        rest, pair, params = choice.rest, choice.pair, self._params
        if rest.columns > params.flow_columns or count_intervals(rest, pair) > params.flow_intervals:
            return None
        coverage = CoverageBound(rest, params)
        found = None if coverage.refutes(*pair) else interval_flow(rest, pair, limit=limit, coverage=coverage)
        if found is None:
            return None
        beside = np.array(choice.others, dtype=np.int32)[found.T if choice.transposed else found]
        chosen = list(choice.bands)
        widths = self._bands.widths[chosen]
        inside = self._bands.domains[chosen] >> np.arange(self._capacities.size)[:, None] & 1
        bands = lay_bands(self._problem.rows, widths.tolist(), inside * (self._capacities[:, None] // widths))
        return np.column_stack([bands, beside])

    def _listed(self, most: int) -> _Bands:
        """Return the bands that waste no more than there is to spare; where there are many those that gain most."""
        (dp, pp), problem = self._pair, self._problem
        found: list[tuple[IndexArray, ...]] = []
        for size in range(1, min(dp, len(self._capacities)) + 1):
            sets = np.array(list(combinations(range(len(self._capacities)), size)), dtype=np.int64)
            held = self._capacities[sets]
            room = held.sum(axis=1)
            spend(_SET_SECONDS * len(sets))
            bits, roots = (1 << sets).sum(axis=1), np.sqrt(held).sum(axis=1)
            for fewer in _widths_fewer(problem):
                widths = np.maximum(room // problem.rows - fewer, 1)
                waste = room - widths * problem.rows
                whole = np.minimum(held // widths[:, None], problem.rows).sum(axis=1) >= problem.rows
                good = whole & (waste <= self._spare) & (widths < problem.columns)
                found.append((bits[good], widths[good], waste[good], roots[good]))
        bits, widths, waste, roots = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        # a cell wasted is one that the smallest domain in use must hold
        last = int(np.searchsorted(np.cumsum(self._capacities), problem.cells))
        price = 1 / sqrt(self._capacities[last])
        budget = sqrt(dp * pp * problem.cells) / 2
        gain = roots - budget * (1 / pp + widths / problem.columns) - price * waste
        best = np.argsort(-gain, kind="stable")[:most]
        return _Bands(bits[best], widths[best], waste[best], gain[best])

    def _left(self) -> Iterator[list[_Choice]]:
        """Yield the best choices of each number of bands, one for each set of domains and number of columns left."""
        bands, problem, kept = self._bands, self._problem, self._params.peel_kept
        # of each choice: domains, columns left, cells to spare left, gain
        domains, columns = np.zeros(1, dtype=np.int64), np.full(1, problem.columns)
        spare, gain = np.full(1, self._spare), np.zeros(1)
        chosen: list[tuple[int, ...]] = [()]
        for parts in range(self._pair[1] - 1, min(self._parts, default=self._pair[1]) - 1, -1):
            fits = (domains[:, None] & bands.domains) == 0
            fits &= (columns[:, None] > bands.widths) & (spare[:, None] >= bands.waste)
            spend(_JOIN_SECONDS * fits.size)
            state, band = np.nonzero(fits)
            value = gain[state] + bands.gain[band]
            best = np.argsort(-value, kind="stable")[: _ALIKE * kept]
            state, band, value = state[best], band[best], value[best]
            both = np.column_stack([domains[state] | bands.domains[band], columns[state] - bands.widths[band]])
            first = np.sort(np.unique(both, axis=0, return_index=True)[1])[:kept]
            chosen = [(*chosen[i], int(j)) for i, j in zip(state[first], band[first], strict=True)]
            spare = spare[state[first]] - bands.waste[band[first]]
            (domains, columns), gain = both[first].T, value[first]
            if parts in self._parts:
                found = zip(chosen, domains.tolist(), columns.tolist(), strict=True)
                choices = (self._choice(*one, parts) for one in found)
                yield [choice for choice in choices if choice.left >= 0]

    def _choice(self, bands: tuple[int, ...], domains: int, columns: int, parts: int) -> _Choice:
        """Return what bands on these domains leave."""
        problem, dp = self._problem, self._pair[0]
        others = tuple(k for k in range(len(problem.capacities)) if not domains >> k & 1)
        rest = GridProblem(problem.rows, columns, tuple(problem.capacities[k] for k in others))
        left = dp * parts - product_bound(rest)
        if columns > problem.rows:
            return _Choice(bands, others, rest.transposed, (parts, dp), True, left)
        return _Choice(bands, others, rest, (dp, parts), False, left)
