"""S = 2: which domains can form a component of columns, and how many row touches such a component takes at least.

With S = 2 every column lies on one domain or on two, so columns are loops and edges of a graph on the domains. A
*component* of the graph has e columns on v <= e + 1 domains, which hold its e * D cells: their capacities exceed that
by its *waste*, and all wastes together are what the domains in use have to spare.  On a full cluster few sets of
domains have so little waste, and :mod:`scheduler.placement.exact.components.component_packing` puts them together.

Domains of equal capacity are one *class*: a component says how many it takes of each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.work_clock import spend
from topology.cluster import BoolArray, IndexArray

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
    found = [Components(listing.sizes, none.reshape(0, classes), none, none)]
    listed = 0
    while len(sets):
        listed += len(sets)
        spend(_SET_SECONDS * len(sets))
        if listed > most:
            return None
        found += listing.components_on(sets)
        sets = np.concatenate([listing.joined(sets, k) for k in range(classes)])
    members, columns, rows = (
        np.concatenate([getattr(one, field) for one in found]) for field in ("members", "columns", "rows")
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
