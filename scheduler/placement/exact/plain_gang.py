"""The short way of a plain gang, for callers that read the placement alone: from the cluster to nodes without a solver.

A gang is plain where the pair (S, R) is its whole objective and nothing is held together, on nodes that are all as
fast, and the pair leaves no choice to expert groups.  Its pair comes from a closed form, which proves it, or from the
search of pairs; its domains by best fit; and the closer levels are met by quick seating: good, and not proved.  Any
other gang goes the long way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.job import Job
from scheduler.objective import TOLERANCE, objective_of
from scheduler.placement.admission import admissible
from scheduler.placement.exact.closed_forms import ClosedForm, closed_form, least_cost
from scheduler.placement.exact.goals import weighed
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.solve import search_grid, usable_part
from scheduler.placement.exact.starts import quick_starts
from scheduler.placement.quick_seating import (
    FreeNodes,
    Indices,
    SeatedGang,
    fill_tightest,
    listed,
    pair_of,
    seat_apart,
    seat_together,
    table_of,
)
from scheduler.placement.seating import nodes_of
from scheduler.placement.types import Limits, Pair, Proposal
from scheduler.work_clock import stopwatch
from topology.cluster import Cluster, IntArray
from topology.flags import HEALTHY


def plain_gang(cluster: Cluster, job: Job, limits: Limits, params: ExactParams) -> PlainStrategy | None:
    """Return the short way of a gang; ``None`` = it is not plain, too large, or too few nodes are free for it."""
    if not is_plain(job) or job.grid.cells > params.plain_cells:
        return None
    begun = stopwatch()
    gang = PlainGang.of(cluster, job, HEALTHY if cluster.flags else None)
    # an expert group lies in a column: where columns lie in one domain each it does, too
    if gang is None or (job.experts_apart and gang.form.pair[0] > 1):
        return None
    if cluster.flags and job.avoid != "strict":
        # slow nodes are of no use where the least objective with them is not below that without them
        every = PlainGang.of(cluster, job, None)
        if every is not None and every.free.total > gang.free.total:
            no_better = gang.form.proved and every.form.bound >= gang.form.cost - TOLERANCE
            if job.avoid != "price" or not no_better:
                return None
    return PlainStrategy(gang, limits, params, begun)


def is_plain(job: Job) -> bool:
    """Return whether the pair is all of a job's objective, and nothing of it is held together."""
    return job.grid.aligned and not job.soft and not job.holds_groups


@dataclass(frozen=True, slots=True)
class PlainStrategy:
    """The short way of one gang."""

    gang: PlainGang
    limits: Limits
    params: ExactParams
    begun: float  # on the stopwatch, before the closed form

    def propose(self) -> Proposal:
        """Propose a placement whose objective is proved as far as time allows."""
        gang, limits, params = self.gang, self.limits, self.params
        job, form = gang.job, gang.form
        pair, bound, complete, part = form.pair, form.bound, True, None
        if not form.proved:
            answer = search_grid(form.problem, job.alpha, limits, params)
            pair, bound, complete, part = answer.pair, answer.bound, answer.complete, answer.cells
        solved = stopwatch()
        closest = gang.fill(pair, part) if limits.told == "spread" else gang.seat(pair, part).closest
        nodes = nodes_of(gang.free.cluster, job, closest, gang.free.admitted)
        if bound < objective_of(job, *pair) - TOLERANCE:
            # not proved: the best of it and what the quick rules say, goal by goal
            cluster = gang.free.cluster
            placements = [nodes, *quick_starts(GridReduction(cluster, job, HEALTHY), limits, params)]
            worths = [worth for placed in placements if (worth := weighed(cluster, job, placed)) is not None]
            nodes = min(worths).nodes
        return Proposal(
            nodes,
            lower_bound=bound,
            complete=complete,
            solve_seconds=solved - self.begun,
            statistics={"afterwards_seconds": stopwatch() - solved, "domains": float(np.count_nonzero(gang.room))},
        )


@dataclass(frozen=True, slots=True)
class PlainGang:
    """A plain gang on the nodes that it may use, and its closed form."""

    job: Job
    free: FreeNodes
    form: ClosedForm

    @classmethod
    def of(cls, cluster: Cluster, job: Job, slowest: float | None) -> PlainGang | None:
        """Return it on nodes up to some slowdown, ``None`` = any; ``None`` where these are too few."""
        grid = job.grid
        free = FreeNodes.of(cluster, admissible(cluster, job, slowest=slowest), cluster.level_index(job.level))
        if free.total < grid.cells:
            return None
        room = np.sort(free.counts[0])[::-1]
        capacities = room[: min(grid.cells, int(np.count_nonzero(room)))].tolist()
        return cls(job, free, closed_form(usable_part(grid.rows, grid.columns, capacities), job.alpha))

    @property
    def room(self) -> Indices:
        """Shape [domains], free nodes of each."""
        return self.free.counts[0]

    def fill(self, pair: Pair, part: IntArray | None) -> IntArray:
        """Return the closest domain of each cell of the best pair, shape [rows, columns]; inside the domains of the
        job's level cells fill the fewest closer ones, in any order.

        :param part: as of :meth:`seat`.
        """
        grid = self.job.grid
        if pair == (1, 1):
            domain = self._domain_for(grid.cells, self.room)
            return fill_tightest(self.free, np.full((grid.rows, grid.columns), domain, dtype=np.int32))
        return fill_tightest(self.free, self._domains_of(self.form.cells if part is None else part))

    def seat(self, pair: Pair, part: IntArray | None) -> SeatedGang:
        """Return where the cells of the best pair go: at closer levels no worse than the roomiest domains listed.

        :param part: domains of a placement with the pair, as the problem numbers them; ``None`` = of the closed form.
        """
        together, domain = pair == (1, 1), -1
        if together:
            domain = self._domain_for(self.job.grid.cells, self.room)
            seated = seat_together(self.free, self.job, domain)
        else:
            domains = self._domains_of(self.form.cells if part is None else part)
            seated = seat_apart(self.free, self.job, domains, pair)
        # nothing is closer than one domain
        if not seated.costs or seated.costs[0] <= 1.0:
            return seated
        others = self._roomiest()
        if together and (others == [domain] or not self._better_inside(others[0], seated.costs)):
            return seated
        closest = listed(self.free, self.job, others)
        costs = self._costs(closest, (objective_of(self.job, *pair), seated.costs[0]))
        return SeatedGang(closest, costs) if costs and costs < seated.costs else seated

    def _domains_of(self, part: IntArray) -> IntArray:
        """Return the domains of the job's level that the parts of a placement go to, shape [rows, columns] both.

        The largest part comes first: what holds a larger part holds a smaller one, so there is always room for others.
        """
        sizes, left = np.bincount(part.ravel()), self.room.copy()
        domain_of_part = np.zeros(len(sizes), dtype=np.int32)
        for number in np.argsort(-sizes, kind="stable")[: int(np.count_nonzero(sizes))].tolist():
            domain_of_part[number] = domain = self._domain_for(int(sizes[number]), left)
            left[domain] = 0
        return domain_of_part[part]

    def _better_inside(self, domain: int, costs: tuple[float, ...]) -> bool:
        """Return whether Eq. 2 at the next closer level might be better where all cells lie in some domain."""
        counts = self.free.counts[1][table_of(self.free.levels[1]).children[domain]].tolist()
        capacities = tuple(sorted(filter(None, counts), reverse=True))
        grid = self.job.grid
        least = least_cost(GridProblem(grid.rows, grid.columns, capacities), self.job.alpha)
        # where it may be as good yet closer levels decide
        return least < costs[0] - TOLERANCE if len(costs) == 1 else least <= costs[0] + TOLERANCE

    def _domain_for(self, cells: int, room: Indices) -> int:
        """Return the domain where so many cells touch the fewest closer ones, of equals the tightest.

        :param room: shape [domains], free nodes of those that are not taken.
        """
        free = self.free
        fits = (room >= cells).nonzero()[0]
        if len(fits) == 1 or len(free.levels) == 1:
            return int(fits[room[fits].argmin()])
        if cells <= table_of(free.levels[1]).largest and (whole := (free.counts[1] >= cells).nonzero()[0]).size:
            # a closer domain holds them all
            above = free.levels[1].parent_of[whole]
            best = int(above[np.where(room[above] >= cells, room[above], free.total + 1).argmin()])
            if room[best] >= cells:
                return best
        order = free.fewest_children(cells, fits) * (free.total + 1) + room[fits]
        return int(fits[order.argmin()])

    def _roomiest(self) -> list[int]:
        """Return the roomiest domains that hold all cells, the last of them the tightest that holds the rest."""
        left, room = self.job.grid.cells, self.room
        # of equal ones the last
        if (fits := (room >= left).nonzero()[0][::-1]).size:
            return [int(fits[room[fits].argmin()])]
        roomiest = np.argsort(-room, kind="stable").tolist()
        domains: list[int] = []
        while room[roomiest[len(domains)]] < left:
            domains.append(roomiest[len(domains)])
            left -= int(room[domains[-1]])
        return [*domains, next(k for k in reversed(roomiest[len(domains) :]) if room[k] >= left)]

    def _costs(self, closest: IntArray, most: Sequence[float]) -> tuple[float, ...]:
        """Return Eq. 2 at each closer level; empty where at the first levels, the job's one first, it is more than
        ``most``.
        """
        by_level = [closest]
        for closer in self.free.levels[:0:-1]:
            by_level.append(closer.parent_of[by_level[-1]])
        costs: list[float] = []
        for domains in reversed(by_level):
            costs.append(objective_of(self.job, *pair_of(self.job, domains)))
            if len(costs) <= len(most) and costs[-1] > most[len(costs) - 1] + TOLERANCE:
                return ()
        return tuple(costs[1:])
