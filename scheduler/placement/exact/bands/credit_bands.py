"""Credit bands: ragged bands whose shared rows are paid for, for clusters so full that whole rows waste too much.

In a ragged band a domain gives any number of cells, laid row after row; where one domain ends and the next begins they
share a row, which touches one domain more.  Nothing is wasted, and R bands make rows that touch R + 1.  A *double*
pays for that: a domain that serves two bands in the same whole rows.  These rows touch one domain less, and each has
room for one row of another band that two domains share.  The rows of a band may be put in any order, so every shared
row can be laid on a row with a credit.

Bands that some double does not serve may be ragged.  With two doubles of two bands each these are all of four bands or
more; with one double, or with three bands, some bands have whole rows, as long as there are not three doubles.  What
is left is to share out the other domains, by swaps: each band needs cells (or whole rows), and has slots for S domains
less those of its doubles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product

import numpy as np

from scheduler.placement.exact.bands.column_bands import partitions
from scheduler.placement.exact.bands.slot_swaps import SlotSwaps
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.types import Pair
from topology.cluster import IntArray


@dataclass(frozen=True, slots=True)
class Double:
    """A domain that serves two bands in the same rows."""

    domain: int
    bands: tuple[int, int]
    rows: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The widths of the bands, and their doubles."""

    widths: tuple[int, ...]
    doubles: tuple[Double, ...]

    def rows_left(self, rows: int) -> list[int]:
        """Return the rows of each band that its doubles leave to the other domains."""
        return [rows - sum(d.rows for d in self.doubles if band in d.bands) for band in range(len(self.widths))]

    def ragged(self, band: int) -> bool:
        """Return whether a double pays for shared rows of the band: one that does not serve it."""
        return any(band not in double.bands for double in self.doubles)

    def pays(self, rows: int, dp: int, domains: int) -> bool:
        """Return whether doubles leave rows to each band, and have as many as the other domains may share.

        ``m`` domains of a ragged band share at most m - 1 rows.
        """
        credit = sum(double.rows for double in self.doubles)
        ragged = [band for band in range(len(self.widths)) if self.ragged(band)]
        slots = sum(dp - sum(band in double.bands for double in self.doubles) for band in ragged)
        shared = min(domains - len(self.doubles), slots) - len(ragged)
        return shared <= credit <= rows and min(double.rows for double in self.doubles) > 0


def credit_bands(problem: GridProblem, pair: Pair, *, seed: int, params: ExactParams = DEFAULTS) -> IntArray | None:
    """Return a placement of bands with credits; shape [rows, columns], the domain of each cell.

    :returns: ``None`` when none was found, which proves nothing.
    """
    dp, pp = pair
    # whole rows leave less than a row of its band in each slot: with that to spare nothing has to be paid for
    spare = sum(problem.capacities[: dp * pp]) - problem.cells
    if not 3 <= pp <= problem.columns or spare > dp * problem.columns:
        return None
    for doubles in (2, 1, 3) if pp == 3 else (2, 1):
        plans = _plans(problem, pair, doubles, params)[: max(1, params.tabu_elements // (dp * dp * pp))]
        if not plans:
            continue
        search = _dealt(problem, dp, plans)
        left = search.run(params.credit_steps, np.random.default_rng(seed))
        for i in np.flatnonzero(left == 0):
            cells = lay_ragged(problem, plans[i], search.capacities[i], search.slots[i])
            if problem.pair_of(cells)[1] <= pp:
                return cells
    return None


def _plans(problem: GridProblem, pair: Pair, doubles: int, params: ExactParams) -> list[Plan]:
    """Return the plans with so many doubles that waste least, of those that pay for all rows that can be shared."""
    dp, pp = pair
    domains = problem.capacities[: dp * pp - doubles]
    spare = sum(domains) - problem.cells
    found: list[tuple[int, int, Plan]] = []
    for widths in islice(partitions(problem.columns, pp), params.credit_partitions):
        for pairs in _pairs_of_bands(widths, doubles):
            # what a domain wastes as a double of each of these pairs of bands
            both = [widths[a] + widths[b] for a, b in pairs]
            cheap = [np.argsort(np.array(domains) % w, kind="stable")[: params.credit_domains].tolist() for w in both]
            for chosen in product(*cheap):
                wasted = sum(domains[k] % w for k, w in zip(chosen, both, strict=True))
                if wasted > spare or len(set(chosen)) < len(chosen):
                    continue
                plan = Plan(
                    widths, tuple(Double(k, ab, domains[k] // w) for k, ab, w in zip(chosen, pairs, both, strict=True))
                )
                if plan.pays(problem.rows, dp, len(domains)):
                    found.append((wasted, len(found), plan))
    return [plan for _, _, plan in sorted(found)[: params.credit_plans]]


def _pairs_of_bands(widths: Sequence[int], doubles: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield ways to choose the bands of the doubles, one of each that is the same by its widths."""
    seen = set()
    for chosen in combinations(combinations(range(len(widths)), 2), doubles):
        kind = tuple(sorted((widths[a], widths[b]) for a, b in chosen))
        # of three bands two pairs have one in common
        apart = len(widths) == 3 or len({band for pair in chosen for band in pair}) == 2 * doubles
        if apart and kind not in seen:
            seen.add(kind)
            yield chosen


def _dealt(problem: GridProblem, dp: int, plans: Sequence[Plan]) -> SlotSwaps:
    """Deal the domains that are no doubles, the largest to the bands that need most for a slot."""
    bands = len(plans[0].widths)
    size = dp * bands
    capacities = np.zeros((len(plans), size), dtype=np.int32)
    needs = np.empty((len(plans), bands), dtype=np.int32)
    units = np.empty((len(plans), bands), dtype=np.int32)
    slots = np.empty((len(plans), bands, dp), dtype=np.int32)
    closed = np.zeros(slots.shape, dtype=np.bool_)
    for i, plan in enumerate(plans):
        some = problem.capacities[: size - len(plan.doubles)]
        capacities[i, : len(some)] = some
        capacities[i, [double.domain for double in plan.doubles]] = 0
        units[i] = [1 if plan.ragged(band) else plan.widths[band] for band in range(bands)]
        needs[i] = np.array(plan.rows_left(problem.rows)) * plan.widths // units[i]
        doubles = [sum(band in double.bands for double in plan.doubles) for band in range(bands)]
        # numbers of the domains that exist, in order, then of empty ones
        order = iter(np.argsort(-capacities[i], kind="stable").tolist())
        for band in sorted(
            range(bands), key=lambda band: -needs[i, band] * units[i, band] / max(1, dp - doubles[band])
        ):
            for slot in range(dp - doubles[band]):
                slots[i, band, slot] = next(order)
        for band in range(bands):
            for slot in range(dp - doubles[band], dp):
                slots[i, band, slot] = next(order)
                closed[i, band, slot] = True
    return SlotSwaps(needs, units, capacities, slots, closed)


def lay_ragged(problem: GridProblem, plan: Plan, capacities: IntArray, slots: IntArray) -> IntArray:
    """Return the domain of each cell: the doubles in rows of their own, shared rows where rows touch fewest domains.

    :param slots: shape [bands, S], the domains of each band, with room for what doubles leave.
    """
    cells = np.empty((problem.rows, problem.columns), dtype=np.int32)
    touched = np.zeros(problem.rows, dtype=np.int32)  # domains that each row touches, but for one of each band
    taken = np.zeros((problem.rows, len(plan.widths)), dtype=np.bool_)
    first = np.cumsum((0, *plan.widths))
    start = 0
    for double in plan.doubles:
        rows = slice(start, start + double.rows)
        for band in double.bands:
            cells[rows, first[band] : first[band + 1]] = double.domain
            taken[rows, band] = True
        touched[rows] -= 1
        start += double.rows
    # bands with doubles first: they may use the credits of others only
    for band in sorted(range(len(plan.widths)), key=lambda band: -int(taken[:, band].sum())):
        free = np.flatnonzero(~taken[:, band])
        width = plan.widths[band]
        used = slots[band][capacities[slots[band]] > 0]
        gives = capacities[used] if plan.ragged(band) else capacities[used] // width * width
        laid = np.repeat(used, gives)[: len(free) * width].reshape(-1, width)
        shared = (np.diff(laid, axis=1) != 0).sum(axis=1).astype(np.int32)
        order = free[np.argsort(touched[free], kind="stable")]
        most_first = np.argsort(-shared, kind="stable")
        cells[order, first[band] : first[band + 1]] = laid[most_first]
        touched[order] += shared[most_first]
    return cells
