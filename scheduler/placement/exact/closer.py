"""Eq. 2 at a closer level by the search of pairs, among placements that are as good at the level above.

The level above allows some pairs (S, R), mostly one.  With S = R = 1 the job lies in one of its domains, and each that
has room is a grid problem of its own.  With S = 1, or R = 1, lines lie whole in domains: say pods, and rows of the
grid.  At most S pods are in use, each with a number of whole rows, and what is left is to share out the rows: counting
says how many racks the columns of a pod touch at least, for each number of rows, and a knapsack over the pods adds that
up; and each pod with its rows is a small grid problem again, which the search decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from scheduler.objective import TOLERANCE, closer_levels
from scheduler.placement.exact.closed_forms import closed_form
from scheduler.placement.exact.goals import GoalSearch
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.level_bounds import LevelBounds
from scheduler.placement.exact.params import ExactParams
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.schedule import search_pairs
from scheduler.placement.exact.solve import seat_cells, seating_seconds, usable_part
from scheduler.placement.types import Limits, Pair
from scheduler.work_clock import clock, spend
from topology.cluster import BoolArray, FloatArray, IntArray, Level


@dataclass
class TargetLattice(Lattice):
    """A lattice on which one pair alone is looked for."""

    target: Pair = (1, 1)

    def open(self) -> list[Pair]:
        """Return the pair while it is neither refuted nor built."""
        return [] if self.is_refuted(self.target) or self.is_built(self.target) else [self.target]


class Decisions:
    """Whether grids have a placement of a pair, each asked of the search and kept."""

    def __init__(self, limits: Limits, params: ExactParams) -> None:
        self._limits = limits
        self._params = params
        self._searches: dict[GridProblem, PairSearch] = {}
        self._left_open: set[tuple[GridProblem, Pair, float]] = set()

    def decide(self, problem: GridProblem, pair: Pair, seconds: float) -> IntArray | bool | None:
        """Return a placement of a pair, shape [rows, columns]; ``False`` = there is none, ``None`` = open."""
        pair = min(pair[0], problem.largest_pair[0]), min(pair[1], problem.largest_pair[1])
        if problem not in self._searches:
            lattice = TargetLattice(problem, 0.5, 0.5, target=pair)
            self._searches[problem] = PairSearch(lattice, replace(self._limits, seconds=seconds), self._params)
        search = self._searches[problem]
        lattice = search.lattice
        assert isinstance(lattice, TargetLattice)
        lattice.target = pair
        if (not lattice.built or lattice.open()) and (problem, pair, seconds) not in self._left_open:
            search.limits = replace(self._limits, seconds=seconds)
            search.extend(seconds)
            search_pairs(search)
        if lattice.is_refuted(pair):
            return False
        for (dp, pp), cells in lattice.built.items():
            if dp <= pair[0] and pp <= pair[1]:
                return cells
        self._left_open.add((problem, pair, seconds))
        return None


# Whole lines in pods: how many racks their columns touch at least, and a knapsack over the pods.


_ELEMENT_SECONDS = 2e-9  # Of work for an element of a table


@dataclass(frozen=True)
class ColumnTouches:
    """What the columns of a pod touch at least, for each number of whole rows in it, by Lagrangian relaxation.

    A rack that h rows and w columns touch holds min(c, h * w) cells.  For all prices lam of a row's touch and mu > 0 of
    a column's ``a P <= lam r a + mu T + sum over racks of max over (h <= a, w) of [min(c, h w) - lam h - mu w]^+``,
    where each of a rows touches r racks at most and the columns T together.
    """

    rows: int  # of the grid
    columns: int
    racks: tuple[tuple[int, ...], ...]  # of each pod its racks' capacities, descending
    points: int = 16  # Prices of each kind

    @cached_property
    def _gains(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Prices of row and column touches, and the sum of the gains, shape [lams, mus, pods, rows + 1]."""
        kinds, of_rack = np.unique(np.concatenate([np.asarray(racks) for racks in self.racks]), return_inverse=True)
        pod_of = np.repeat(np.arange(len(self.racks)), [len(racks) for racks in self.racks])
        count = np.zeros((len(self.racks), len(kinds)))
        np.add.at(count, (pod_of, of_rack), 1.0)
        lams = np.concatenate([[0.0], np.geomspace(0.05, self.columns, self.points)])
        mus = np.geomspace(0.05, self.rows, self.points)
        widths = np.arange(1, self.columns + 1)
        rows = np.arange(self.rows + 1)
        # shape [2, widths, kinds, rows + 1]: below and above the height that fills a rack
        heights = np.stack([kinds // widths[:, None], -(-kinds // widths[:, None])])[..., None]
        heights = np.minimum(heights, rows)
        cells = np.minimum(heights * widths[:, None, None], kinds[:, None])
        gains = np.empty((len(lams), len(mus), len(self.racks), len(rows)))
        for i, lam in enumerate(lams):
            net = (cells - lam * heights).max(axis=0)
            for j, mu in enumerate(mus):
                best = np.maximum((net - mu * widths[:, None, None]).max(axis=0), 0.0)
                gains[i, j] = count @ best
        spend(_ELEMENT_SECONDS * cells.size * len(lams) * (1 + len(mus)))
        return lams, mus, gains

    def least(self, most: int) -> FloatArray:
        """Return what the columns touch together, shape [pods, rows + 1], where no row touches more racks than so many;
        infinite where a pod has no room for the rows.
        """
        lams, mus, gains = self._gains
        rows = np.arange(self.rows + 1)
        bound = (rows * (self.columns - lams[:, None, None, None] * most) - gains) / mus[:, None, None]
        touched = np.ceil(bound.max(axis=(0, 1)) - 1e-6)
        touched[:, 1:] = np.maximum(touched[:, 1:], self.columns)
        touched[:, 0] = 0.0
        for pod, racks in enumerate(self.racks):
            touched[pod, sum(racks) // self.columns + 1 :] = inf
            if most == 1:
                # each row lies in a rack whole, and each column touches all of these
                whole = np.cumsum(np.asarray(racks) // self.columns)
                racks_of = np.searchsorted(whole, rows[1:]) + 1.0
                touched[pod, 1:] = np.where(racks_of > len(racks), inf, racks_of * self.columns)
        return touched


def share_rows(cost: FloatArray, rows: int, most: int) -> tuple[float, list[int]]:
    """Share whole rows out among pods at the least cost; return the cost, and the rows of each pod.

    :param cost: shape [pods, rows + 1], of so many rows in a pod; ``most``: pods that may be in use.
    """
    best = np.full((most + 1, rows + 1), inf)
    best[:, 0] = 0.0
    taken = np.zeros((len(cost), most + 1, rows + 1), dtype=np.int32)
    for pod, of_pod in enumerate(cost):
        onward = best.copy()
        for some in np.flatnonzero(of_pod[1 : rows + 1] < inf) + 1:
            through = best[:-1, : rows + 1 - some] + of_pod[some]
            less = through < onward[1:, some:] - TOLERANCE
            onward[1:, some:][less] = through[less]
            taken[pod, 1:, some:][less] = some
        best = onward
    spend(_ELEMENT_SECONDS * cost.size * best.size)
    if best[most, rows] == inf:
        return inf, []
    shares, left, pods = [0] * len(cost), rows, most
    for pod in reversed(range(len(cost))):
        shares[pod] = int(taken[pod, pods, left])
        left -= shares[pod]
        pods -= bool(shares[pod])
    return float(best[most, rows]), shares


@dataclass
class WholeLines:
    """The pairs of a closer level where rows lie whole in pods, of which so many may be in use."""

    rows: int
    columns: int
    racks: tuple[tuple[int, ...], ...]  # of each pod its racks' capacities, descending
    most: int  # pods that may be in use
    decisions: Decisions
    lattice: Lattice = field(init=False)
    _touches: ColumnTouches = field(init=False)

    def __post_init__(self) -> None:
        every = sorted((c for racks in self.racks for c in racks), reverse=True)
        self.lattice = Lattice(GridProblem(self.rows, self.columns, tuple(every)), 0.5, 0.5)
        self._touches = ColumnTouches(self.rows, self.columns, self.racks)

    @cached_property
    def _least(self) -> dict[int, FloatArray]:
        return {}

    def count(self, most: int) -> None:
        """Refute what counting can where no row touches more racks than so many."""
        if most in self._least:
            return
        self._least[most] = touched = self._touches.least(most)
        total, _ = share_rows(touched, self.rows, self.most)
        dp = self.lattice.problem.largest_pair[0] if total == inf else int(-(-total // self.columns)) - 1
        self.lattice.refute((dp, most), "whole lines", "")

    def build(self, pair: Pair, seconds: float, end: float) -> list[tuple[int, IntArray]] | None:
        """Return the rows of each pod in use, with a placement of each in its racks; ``None`` = none was found."""
        dp, pp = pair
        self.count(pp)
        # racks that a column touches in each pod at least, as far as is known
        racks = np.maximum(np.ceil(self._least[pp] / self.columns), 0.0)
        while clock() < end:
            total, shares = share_rows(racks, self.rows, self.most)
            if total > dp:
                return None
            parts: list[tuple[int, IntArray]] = []
            for pod, rows in enumerate(shares):
                if not rows:
                    continue
                problem = GridProblem(rows, self.columns, self.racks[pod])
                cells = self.decisions.decide(problem, (int(racks[pod, rows]), pp), seconds)
                if isinstance(cells, np.ndarray):
                    parts.append((pod, cells))
                    continue
                # all pods alike, and more rows in them
                for other, of_other in enumerate(self.racks):
                    if of_other == self.racks[pod]:
                        racks[other, rows:] = np.maximum(racks[other, rows:], racks[pod, rows] + 1)
                break
            else:
                return parts
        return None


# All closer levels of a job, one after another.


class CloserSearch:
    """The search of one job's closer levels, after its objective is settled."""

    def __init__(self, goals: GoalSearch, bounds: LevelBounds, limits: Limits, params: ExactParams, end: float) -> None:
        self._goals = goals
        self._bounds = bounds
        self._limits = limits
        self._params = params
        self._end = end
        self._decisions = Decisions(limits, params)

    def search(self) -> None:
        """Search each closer level in turn, as long as those before are settled."""
        goals, reduction = self._goals, self._goals.reduction
        cluster, job = reduction.cluster, reduction.job
        levels = closer_levels(cluster, job)
        first = len(goals.goals) - len(levels)
        # nodes among which the best placements lie whole, whichever of these it is
        regions = [reduction.admitted]
        before, above = 0, reduction.level
        for number, name in enumerate(levels, start=first):
            goals.count(number)
            if not all(goals.settled(earlier) for earlier in range(number)):
                return
            if above.name != cluster.levels[cluster.level_index(name) - 1].name or not self._bounds.sees_lines(name):
                return
            pairs = self._bounds.allowed(above.name, goals.goals[before], goals.best.costs[before])
            if pairs == [(1, 1)]:
                regions = [part for region in regions for part in self._domains(above, region)]
            if not goals.settled(number):
                regions = self._level(number, name, above, regions, pairs)
            before, above = number, cluster.level(name)

    def _domains(self, level: Level, region: BoolArray) -> list[BoolArray]:
        """Return the nodes of each domain of a level that has room for the job."""
        cells = self._goals.reduction.job.grid.cells
        room = np.bincount(level.domain_of[region], minlength=len(level))
        return [region & (level.domain_of == k) for k in np.flatnonzero(room >= cells)]

    def _level(
        self, number: int, name: str, above: Level, regions: list[BoolArray], pairs: list[Pair]
    ) -> list[BoolArray]:
        """Search one level; return the regions where the best placements may lie."""
        goals, reduction = self._goals, self._goals.reduction
        closer = GridReduction(reduction.cluster, reduction.job.replace(level=name), reduction.slowest)
        job = reduction.job
        searched: list[tuple[BoolArray, float]] = []
        inside = pairs == [(1, 1)]
        parts = []
        for region in regions:
            pods = self._pods(closer, above, region)
            if sum(sum(racks) for _, racks in pods) < closer.problem.cells:
                continue
            for pair in [(1, 1)] if inside else pairs:
                parts.append((region, pods, pair))
        bounds = []
        if inside:
            bounds = self._inside(number, closer, parts)
        else:
            bounds = [self._held(number, closer, pods, pair) for _, pods, pair in parts]
        bound = min(bounds, default=inf)
        goals.certified[number] = max(goals.certified[number], min(bound, goals.best.costs[number]))
        kept = {id(region): region for (region, *_), least in zip(parts, bounds, strict=True) if least <= goals.best.costs[number] + TOLERANCE}
        return list(kept.values())

    def _pods(self, closer: GridReduction, above: Level, region: BoolArray) -> list[tuple[IntArray, tuple[int, ...]]]:
        """Return the racks of each pod of a region, as domains of the closer level, the roomiest first, and their room."""
        parent, pods = closer.level.parent_of, []
        for pod in np.unique(above.domain_of[region]):
            racks = np.flatnonzero((parent == pod) & (closer.room > 0))
            racks = racks[np.argsort(-closer.room[racks], kind="stable")]
            if len(racks):
                pods.append((racks, tuple(int(c) for c in closer.room[racks])))
        return pods

    def _inside(self, number: int, closer: GridReduction, parts: Sequence[tuple]) -> list[float]:
        """Search the pairs inside each region; return what each costs at least."""
        goals, job = self._goals, closer.job
        searches: dict[GridProblem, PairSearch] = {}
        problems = []
        for _, pods, _ in parts:
            racks = sorted((c for _, racks in pods for c in racks), reverse=True)
            problem = usable_part(closer.problem.rows, closer.problem.columns, racks)
            problems.append(problem)
            if problem not in searches:
                searches[problem] = PairSearch(Lattice(problem, job.alpha, job.beta), self._limits, self._params)
        order = sorted(searches, key=lambda problem: closed_form(problem, job.alpha).cost)
        for place, problem in enumerate(order):
            search = searches[problem]
            search.lattice.most = goals.best.costs[number]
            search.extend(max(self._params.least_seconds, (self._end - clock()) / (len(order) - place)))
            search_pairs(search)
            lattice = search.lattice
            if lattice.cost(lattice.best) < goals.best.costs[number] - TOLERANCE:
                pods = parts[problems.index(problem)][1]
                racks = np.concatenate([racks for racks, _ in pods])
                racks = racks[np.argsort(-closer.room[racks], kind="stable")]
                self._offer(closer, racks[lattice.built[lattice.best]], [racks])
        return [searches[problem].lattice.bound() for problem in problems]

    def _held(self, number: int, closer: GridReduction, pods: list[tuple[IntArray, tuple[int, ...]]], pair: Pair) -> float:
        """Search the pairs of a region with the level above held to a pair; return what they cost at least."""
        goals, job = self._goals, closer.job
        grid = closer.problem
        if min(pair) > 1:
            return -inf
        transposed = pair[1] > 1
        rows, columns = (grid.columns, grid.rows) if transposed else (grid.rows, grid.columns)
        lines = WholeLines(rows, columns, tuple(racks for _, racks in pods), max(pair), self._decisions)
        alpha, beta = (job.beta, job.alpha) if transposed else (job.alpha, job.beta)
        lattice = lines.lattice
        lattice.alpha, lattice.beta = alpha, beta
        known = self._bounds.lattices.get(closer.level.name)
        lattice.most = goals.best.costs[number]
        if known is not None and len(pods) == len(np.unique(closer.level.parent_of[closer.domains])):
            for refutation in known.refutations:
                refuted = refutation.pair[::-1] if transposed else refutation.pair
                lattice.refute(refuted, refutation.by, "")
        for pp in range(1, lattice.problem.largest_pair[1] + 1):
            if alpha + beta * pp >= lattice.most - TOLERANCE:
                break
            lines.count(pp)
        tried = set()
        while clock() < self._end:
            waiting = [p for p in lattice.open() if p not in tried]
            if not waiting:
                break
            target = waiting[0]
            tried.add(target)
            parts = lines.build(target, 0.1, self._end)
            if parts is None:
                continue
            cells = self._laid_out(parts, pods)
            self._offer(closer, cells.T if transposed else cells, [pods[pod][0] for pod, _ in parts])
            lattice.most = goals.best.costs[number]
        return lattice.bound()

    @staticmethod
    def _laid_out(parts: Sequence[tuple[int, IntArray]], pods: Sequence[tuple[IntArray, tuple[int, ...]]]) -> IntArray:
        """Return the rack of each cell, the rows of one pod after those of another; columns that touch many racks in
        one touch few in the next.
        """
        touched, laid = None, []
        for pod, cells in parts:
            racks = pods[pod][0][cells]
            own = np.array([len(np.unique(column)) for column in racks.T])
            if touched is None:
                touched = own
                laid.append(racks)
                continue
            order = np.empty(len(own), dtype=np.int64)
            order[np.argsort(touched, kind="stable")] = np.argsort(-own, kind="stable")
            laid.append(racks[:, order])
            touched = touched + own[order]
        return np.concatenate(laid)

    def _offer(self, closer: GridReduction, rack_of_block: IntArray, inside: Sequence[IntArray]) -> None:
        """Offer a placement on racks; in each of some sets of racks cells move to the tightest that hold them.

        :param rack_of_block: shape [rows, columns] of blocks, domains of the closer level.
        """
        room, moved = closer.room, rack_of_block.copy()
        for racks in inside:
            loads = [(int((rack_of_block == rack).sum()), int(rack)) for rack in racks]
            free = sorted((int(room[rack]), int(rack)) for rack in racks)
            for load, rack in sorted(loads, reverse=True):
                if load:
                    at = next(i for i, (most, _) in enumerate(free) if most >= load)
                    moved[rack_of_block == rack] = free.pop(at)[1]
        blocks = closer.blocks
        cells = moved[blocks.row_of[:, None], blocks.column_of[None, :]].astype(np.int32)
        seconds = seating_seconds(self._limits, self._params)
        self._goals.offer(seat_cells(closer, cells, seconds, self._params, end=self._end))
