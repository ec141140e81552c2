"""Enumerating the width profiles of the open pairs, until each pair is built or refuted.

Each open pair gets a slice of time, two searches side by side, then longer slices.  The profiles of
:class:`scheduler.placement.exact.profiles.width_model.WidthProfiles` are few at the interesting pairs, and with the
widths fixed a skeleton is found or excluded in hundredths of a second.  When the profiles are used up and each was
excluded, the pair is refuted; every single verdict of that is confirmed by a second search with another seed first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from scheduler.placement.cpsat import Answer, Slice
from scheduler.placement.exact.grid.params import DEFAULTS, ExactParams
from scheduler.placement.exact.grid.problem import GridProblem
from scheduler.placement.exact.pairs.pair_search import GridView, PairSearch
from scheduler.placement.exact.profiles.realise import realise
from scheduler.placement.exact.profiles.skeleton import Skeleton, SkeletonModel
from scheduler.placement.exact.profiles.width_model import WidthProfiles
from scheduler.placement.types import Pair
from scheduler.work_clock import clock
from topology.cluster import IntArray

_SEEDS_OF_A_ROUND = 1000
"""Seeds between two rounds, more than the first ones have profiles; a seed that comes twice would do no harm."""

_SEEDS_OF_A_SEARCH = 10_000
"""Seeds between the search of a verdict and its confirmation: the two shall not be the same search."""


SkeletonSearch = Callable[[], tuple[Answer, Skeleton | None]]
SideBySide = Callable[[Sequence[SkeletonSearch]], list[tuple[Answer, Skeleton | None]]]


def _one_by_one(searches: Sequence[SkeletonSearch]) -> list[tuple[Answer, Skeleton | None]]:
    return [search() for search in searches]


def enumerate_profiles(search: PairSearch) -> None:
    """Search the width profiles of open pairs in growing slices, from the dearest pair down, two at a time."""

    @cache
    def profiles_of(pair: Pair, view: GridView) -> PairProfiles:
        spare = search.spare_rows(view, pair)
        return PairProfiles(view.problem, view.turn(pair), spare_rows=spare, params=search.params)

    effort, turn = search.params.first_effort, 0
    while search.left > 0 and not search.lattice.proved:
        tasks = [
            _Task(pair, view, partial(profiles_of(pair, view).search, effort=effort, seed=turn))
            for pair in reversed(search.lattice.open())
            for view in _narrow_views(search)
        ]
        if not tasks:
            return
        _run_by_twos(search, tasks)
        effort, turn = effort * search.params.effort_growth, turn + 1


@dataclass(frozen=True, slots=True)
class _Task:
    """A search for one pair on one view, to be run beside another; it is given how many seconds are left."""

    pair: Pair
    view: GridView
    search: Callable[..., tuple[Answer, IntArray | None]]


def _narrow_views(search: PairSearch) -> list[GridView]:
    """Return the views on which skeleton models are quick; if there is none, those on which they are of any use."""
    params = search.params
    narrow = [view for view in search.views if view.problem.columns <= params.narrow_columns]
    return narrow or [view for view in search.views if view.problem.columns <= params.widest_columns]


def _run_by_twos(search: PairSearch, tasks: Sequence[_Task]) -> None:
    """Run searches two at a time; results are taken in the order of the tasks."""
    waiting = list(tasks)
    while waiting and search.left > 0:
        batch, rest = waiting[:2], waiting[2:]
        search.say(f"skeletons for DP spread {batch[0].pair[0]}, PP spread {batch[0].pair[1]}")
        confirm = search.side_by_side if len(batch) == 1 else _one_by_one
        results = search.side_by_side([partial(one.search, wall=search.left, side_by_side=confirm) for one in batch])
        for task, (answer, cells) in zip(batch, results, strict=True):
            if answer == "no":
                sentence = (
                    f"two complete searches over which domains serve which stage found none in which no DP group "
                    f"touches more than {task.pair[0]} domains and no PP group more than {task.pair[1]}"
                )
                search.lattice.refute(task.pair, "skeleton", sentence)
            elif cells is not None:
                search.build(task.view, cells, "skeleton")
        still = set(search.lattice.open())
        waiting = [task for task in rest if task.pair in still]


class PairProfiles:
    """The width profiles of one pair on one view: each in turn, until one can be built or none is left.

    Models and profiles are kept from one slice of time to the next.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int, params: ExactParams = DEFAULTS) -> None:
        self._problem = problem
        self._pair = pair
        self._params = params
        self._profiles = WidthProfiles(problem, pair, spare_rows=spare_rows, params=params)
        self._skeletons = SkeletonModel(problem, pair, spare_rows=spare_rows, params=params)
        self._ways = list(params.skeleton_attempts)
        self._undecided: list[IntArray] = []
        self._excluded: list[IntArray] = []
        self._used_up = False

    def search(
        self, *, effort: float, wall: float, seed: int, side_by_side: SideBySide = _one_by_one
    ) -> tuple[Answer, IntArray | None]:
        """Go on for a while.

        :param effort: 1 stands for ``profiles_per_effort`` new profiles with CP-SAT's effort 1 for each, or as much for
            the undecided ones.
        :param side_by_side: runs the confirmations, two at once where a core is idle else.
        :returns: ``"yes"`` with the domain of each cell, shape [rows, columns]; ``"no"`` when the pair is refuted.
        """
        end = clock() + wall
        go_on = self._undecided_profiles if self._used_up else self._new_profiles
        if (cells := go_on(effort, end, seed)) is not None:
            return "yes", cells
        if not self._used_up or self._undecided:
            return "unknown", None
        confirmed = self._confirmed(effort, end, seed + _SEEDS_OF_A_SEARCH, side_by_side)
        return ("no" if confirmed else "unknown"), None

    def _new_profiles(self, effort: float, end: float, seed: int) -> IntArray | None:
        for step in range(int(self._params.profiles_per_effort * effort)):
            step_seed = _SEEDS_OF_A_ROUND * seed + step
            limit = Slice(self._params.profile_effort * effort, end - clock(), step_seed, light=True)
            answer, widths = self._profiles.next(limit)
            self._used_up = answer == "no"
            if widths is None:
                return None
            if (cells := self._try(widths, effort, end, step_seed)) is not None:
                return cells
        return None

    def _undecided_profiles(self, effort: float, end: float, seed: int) -> IntArray | None:
        waiting, self._undecided = self._undecided, []
        for i, widths in enumerate(waiting):
            if clock() > end:
                self._undecided += waiting[i:]
                return None
            if (cells := self._try(widths, self._params.retry_effort * effort, end, seed)) is not None:
                return cells
        return None

    def _try(self, widths: IntArray, effort: float, end: float, seed: int) -> IntArray | None:
        """Build a placement with these widths, exclude them, or leave them undecided.

        A skeleton that cannot be realised says which rows are missing; the model learns to ask for them.
        """
        for _ in range(self._params.skeletons_per_profile):
            answer, skeleton = self._skeleton(widths, effort, end, seed)
            if answer == "no":
                self._exclude(widths, effort, end, seed)
                return None
            if skeleton is None:
                break
            if skeleton.cells is not None:
                return skeleton.cells
            rounding = Slice(self._params.rounding_effort, end - clock(), seed)
            made = realise(self._problem, skeleton.serves, pp=self._pair[1], limit=rounding, params=self._params)
            if made.cells is not None:
                return made.cells
            if made.prices is None:
                break
            self._skeletons.ask_for_row(made.prices)
        self._undecided.append(widths)
        return None

    def _skeleton(
        self, widths: IntArray, effort: float, end: float, seed: int, *, backwards: bool = False
    ) -> tuple[Answer, Skeleton | None]:
        """Look for a skeleton with these widths, in one way after another: first the one that settled the last profile.

        :param backwards: in the opposite order of those that are given, for a confirmation.
        """
        for way in self._params.skeleton_attempts[::-1] if backwards else self._ways:
            limit = Slice(way.share * effort, end - clock(), seed, way.linearization, light=way.light)
            answer, skeleton = self._skeletons.find(limit, widths)
            if answer != "unknown":
                if not backwards:
                    self._ways = [way, *(other for other in self._ways if other != way)]
                break
        return answer, skeleton

    def _exclude(self, widths: IntArray, effort: float, end: float, seed: int) -> None:
        """Exclude a profile; where possible the one with the same widths on the largest domains, which says more."""
        largest = self._profiles.on_largest(widths)
        if not np.array_equal(largest, widths) and self._skeleton(largest, effort, end, seed)[0] == "no":
            widths = largest
        self._profiles.exclude(widths)
        self._excluded.append(widths)

    def _confirmed(self, effort: float, end: float, seed: int, side_by_side: SideBySide) -> bool:
        """Return whether a second search says "no" to every profile, and to there being another.

        It starts with presolve, which the first comes to last, so that it is another search and not the same again: a
        false "infeasible" of CP-SAT with one worker has been reported.
        """
        effort = self._params.confirm_effort * effort + self._params.confirm_least
        answer, missed = self._profiles.next(Slice(effort, end - clock(), seed))
        if missed is not None:
            self._undecided.append(missed)
        checks = [partial(self._skeleton, widths, effort, end, seed, backwards=True) for widths in self._excluded]
        return answer == "no" and all(
            found == "no" for i in range(0, len(checks), 2) for found, _ in side_by_side(checks[i : i + 2])
        )
