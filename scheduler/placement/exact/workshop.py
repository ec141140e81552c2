"""One pair on one view of the problem: every width profile in turn, until one can be built or none is left.

The profiles of :mod:`scheduler.placement.exact.profiles` are few at the interesting pairs, and with the widths fixed a
skeleton is found or excluded in hundredths of a second.  When the profiles are used up and each was excluded, the pair
is refuted; every single verdict of that is confirmed by a second search with another seed first.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from scheduler.placement.exact.cpsat import Answer, Slice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.profiles import Profiles
from scheduler.placement.exact.realise import realise
from scheduler.placement.exact.skeleton import Skeleton, SkeletonModel
from scheduler.placement.types import Pair
from topology.cluster import IntArray

_REALISE_EFFORT = 0.5
_Way = tuple[float, int, bool]
_WAYS: Sequence[_Way] = ((0.2, 0, True), (1.0, 2, True), (1.0, 1, False))
"""How a skeleton is looked for, one way after another: part of the effort, linearization, light presolve."""

_LESSONS = 12
"""Skeletons tried for a profile in one go."""

_CONFIRMED = 10_000
"""Added to the seed for the second search of a verdict."""


class Workshop:
    """Keeps its models and its profiles from one slice of time to the next.

    :param spare_rows: see :class:`scheduler.placement.exact.skeleton.SkeletonModel`; what a refutation must allow.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        self._problem = problem
        self._pair = pair
        self._profiles = Profiles(problem, pair, spare_rows=spare_rows)
        self._skeletons = SkeletonModel(problem, pair, spare_rows=spare_rows)
        self._undecided: list[IntArray] = []
        self._excluded: list[IntArray] = []
        self._used_up = False

    def search(self, *, effort: float, wall: float, seed: int) -> tuple[Answer, IntArray | None]:
        """Go on for a while.

        :param effort: 1 stands for 32 new profiles with CP-SAT's effort 1 for each, or as much for the undecided ones.
        :param wall: limit in seconds.
        :returns: ``"yes"`` with the domain of each cell, shape [rows, columns]; ``"no"`` when the pair is refuted.
        """
        end = perf_counter() + wall
        if not self._used_up:
            cells = self._new_profiles(effort, end, seed)
        else:
            cells = self._undecided_profiles(effort, end, seed)
        if cells is not None:
            return "yes", cells
        if self._used_up and not self._undecided and self._confirmed(effort, end, seed + _CONFIRMED):
            return "no", None
        return "unknown", None

    def _new_profiles(self, effort: float, end: float, seed: int) -> IntArray | None:
        for step in range(int(32 * effort)):
            chance = 1000 * seed + step
            answer, widths = self._profiles.next(Slice(4 * effort, end - perf_counter(), chance, light=True))
            self._used_up = answer == "no"
            if widths is None:
                return None
            cells = self._try(widths, effort, end, chance)
            if cells is not None:
                return cells
        return None

    def _undecided_profiles(self, effort: float, end: float, seed: int) -> IntArray | None:
        waiting, self._undecided = self._undecided, []
        for i, widths in enumerate(waiting):
            if perf_counter() > end:
                self._undecided += waiting[i:]
                return None
            cells = self._try(widths, 4 * effort, end, seed)
            if cells is not None:
                return cells
        return None

    def _try(self, widths: IntArray, effort: float, end: float, seed: int) -> IntArray | None:
        """Build a placement with these widths, exclude them, or leave them undecided.

        A skeleton that cannot be realised says which rows are missing; the model learns to ask for them.
        """
        for _ in range(_LESSONS):
            answer, skeleton = self._skeleton(widths, effort, end, seed)
            if answer == "no":
                self._exclude(widths, effort, end, seed)
                return None
            if skeleton is None:
                break
            if skeleton.cells is not None:
                return skeleton.cells
            rounding = Slice(_REALISE_EFFORT, end - perf_counter(), seed)
            realised = realise(self._problem, skeleton.serves, pp=self._pair[1], limit=rounding)
            if realised.cells is not None:
                return realised.cells
            if realised.prices is None:
                break
            self._skeletons.ask_for_row(realised.prices)
        self._undecided.append(widths)
        return None

    def _skeleton(
        self, widths: IntArray, effort: float, end: float, seed: int, ways: Sequence[_Way] = _WAYS
    ) -> tuple[Answer, Skeleton | None]:
        """A skeleton with these widths, by search alone, by search with an LP, and by presolve and both."""
        for share, linearization, light in ways:
            limit = Slice(share * effort, end - perf_counter(), seed, linearization, light=light)
            answer, skeleton = self._skeletons.find(limit, widths)
            if answer != "unknown":
                break
        return answer, skeleton

    def _exclude(self, widths: IntArray, effort: float, end: float, seed: int) -> None:
        """Exclude a profile; where possible the one with the same widths on the largest domains, which says more."""
        largest = self._profiles.on_largest(widths)
        if not np.array_equal(largest, widths) and self._skeleton(largest, effort, end, seed)[0] == "no":
            widths = largest
        self._profiles.exclude(widths)
        self._excluded.append(widths)

    def _confirmed(self, effort: float, end: float, seed: int) -> bool:
        """Whether a second search says "no" to every profile, and to there being another.

        It starts with presolve, which the first comes to last, so that it is another search and not the same again.
        """
        answer, missed = self._profiles.next(Slice(16 * effort + 1, end - perf_counter(), seed))
        if missed is not None:
            self._undecided.append(missed)
        return answer == "no" and all(
            self._skeleton(widths, 16 * effort + 1, end, seed, _WAYS[::-1])[0] == "no" for widths in self._excluded
        )
