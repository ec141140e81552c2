"""Skeletons for one pair, on one view of the problem: built from width profiles, or shown not to exist.

Keeps its models from one slice of time to the next, so that a longer slice goes on where the shorter one stopped.
"""

from __future__ import annotations

from functools import cached_property
from time import perf_counter

from scheduler.placement.exact.cpsat import Answer, Slice
from scheduler.placement.exact.problem import GridProblem
from scheduler.placement.exact.profiles import Profiles
from scheduler.placement.exact.realise import realise
from scheduler.placement.exact.skeleton import SkeletonModel
from scheduler.placement.types import Pair
from topology.cluster import IntArray

_PROFILE_EFFORT = 0.05
_ARRANGE_EFFORT = 0.15
_REALISE_EFFORT = 0.5
_SKELETONS_PER_PROFILE = 3


class Workshop:
    """Everything that is tried for one pair.

    :param spare_rows: see :class:`SkeletonModel`: how much slack refutations must allow.
    """

    def __init__(self, problem: GridProblem, pair: Pair, *, spare_rows: int) -> None:
        self._problem = problem
        self._pair = pair
        self._spare_rows = spare_rows
        self._profiles_seen = 0

    @cached_property
    def _profiles(self) -> Profiles:
        return Profiles(self._problem, self._pair)

    @cached_property
    def _tight(self) -> SkeletonModel:
        return SkeletonModel(self._problem, self._pair, spare_rows=0)

    @cached_property
    def _loose(self) -> SkeletonModel:
        return SkeletonModel(self._problem, self._pair, spare_rows=self._spare_rows)

    def build(self, *, effort: float, wall: float, seed: int) -> tuple[Answer, IntArray | None]:
        """Try some width profiles.

        :param effort: 1 stands for 16 profiles.
        :param wall: limit in seconds.
        :returns: ``"yes"`` with the domain of each cell, shape [rows, columns], or ``"unknown"``.
        """
        end = perf_counter() + wall
        for _ in range(max(4, int(16 * effort))):
            self._profiles_seen += 1
            chance = 1000 * seed + self._profiles_seen
            widths = self._profiles.next(Slice(_PROFILE_EFFORT, end - perf_counter(), chance, light=True))
            if widths is None or perf_counter() > end:
                break
            for attempt in range(_SKELETONS_PER_PROFILE):
                arranging = Slice(_ARRANGE_EFFORT, end - perf_counter(), chance + attempt, 0, light=True)
                serves = self._tight.find(arranging, widths)[1]
                if serves is None:
                    break
                rounding = Slice(_REALISE_EFFORT, end - perf_counter(), seed)
                cells = realise(self._problem, serves, pp=self._pair[1], limit=rounding)
                if cells is not None:
                    return "yes", cells
        return "unknown", None

    def refute(self, *, effort: float, wall: float, seed: int) -> tuple[Answer, IntArray | None]:
        """Search all skeletons; that none exists counts when a second search with another seed says so too.

        :returns: ``"no"`` when the pair is refuted; ``"yes"`` with the domain of each cell, shape [rows, columns], when
            the search found one instead; else ``"unknown"``.
        """
        end = perf_counter() + wall
        answer, serves = self._loose.find(Slice(effort, wall, seed, 0))
        if answer == "no":
            again = Slice(4 * effort + 1, end - perf_counter(), seed + 1, 0)
            return ("no" if self._loose.find(again)[0] == "no" else "unknown"), None
        if serves is not None:
            rounding = Slice(_REALISE_EFFORT, end - perf_counter(), seed)
            cells = realise(self._problem, serves, pp=self._pair[1], limit=rounding)
            if cells is not None:
                return "yes", cells
        return "unknown", None
