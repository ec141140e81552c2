"""Phases that may be long look at the clock: where time is up they stop, and what is said stays true."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np
import pytest

from scheduler.job import Count, Job, Parallelism
from scheduler.placement.exact import starts
from scheduler.placement.exact.goals import GoalSearch, weighed
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.level_bounds import LevelBounds, LineTouches
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.schedule import apply_coverage, count_edges, fill_front, search_pairs
from scheduler.placement.types import Limits
from topology.build import build_cluster
from topology.cluster import IntArray, Node

OPEN = GridProblem(24, 8, (31, 29, 28, 26, 25, 24, 22, 19))
"""Pairs of it are left open by counting on the edges."""


def reduction(**changes: object) -> GridReduction:
    """12 cells on three minipods of two racks of three."""
    nodes = [Node(f"n{i}", (f"m{i // 6}", f"r{i // 3}"), 8, 8) for i in range(18)]
    job = Job("job", Parallelism(tp=8, dp=6, pp=2), level="minipod").replace(**changes)
    return GridReduction(build_cluster(["minipod", "rack"], nodes), job, inf)


def test_coverage_leaves_pairs_open_where_time_is_up() -> None:
    """With time it refutes some of them, long after it none; and the front is not filled in either."""
    refuted = []
    for seconds in (60.0, -1.0):
        search = PairSearch(Lattice(OPEN, 0.5, 0.5), Limits(workers=1))
        count_edges(search)
        known = len(search.lattice.refutations)
        search.extend(seconds)
        apply_coverage(search, search.lattice.undecided())
        refuted.append(len(search.lattice.refutations) - known)
    assert refuted[0] > 0 == refuted[1]
    before = dict(search.lattice.built)
    fill_front(search, seconds=-1.0)
    assert search.lattice.built == before


def test_a_search_without_time_has_a_placement_and_a_bound() -> None:
    """Counting on the edges builds one before the clock is read."""
    search = PairSearch(Lattice(OPEN, 0.5, 0.5), Limits(seconds=1e-9, workers=1))
    search.extend(-1.0)
    search_pairs(search)
    assert search.stopped
    assert search.lattice.built
    assert search.lattice.bound() <= search.lattice.cost(search.lattice.best)


def test_knapsacks_over_broader_levels_wait_for_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound without them is no larger than one with them."""
    one = reduction(alpha=0.5)
    rack, minipod = one.job.eq2_terms("rack"), one.job.eq2_terms("minipod")
    among = [(minipod, 1.5)]
    with_time = LevelBounds(one, Limits(), DEFAULTS).least(rack, among=among)

    def never(*_: object) -> int:
        raise AssertionError("time is up")

    monkeypatch.setattr(LineTouches, "fewest", never)
    assert LevelBounds(one, Limits(), DEFAULTS, end=-inf).least(rack, among=among) <= with_time


def test_other_starts_wait_for_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is one; of those that break a hold none counts."""
    one = reduction(counts=(Count("dp", "rack", 0.5),))
    made = []

    def counted(*_: object) -> Iterator[IntArray]:
        for first in range(5):
            made.append(first)
            yield np.arange(first, first + 12, dtype=np.int32).reshape(6, 2)

    monkeypatch.setattr(starts, "_starts", counted)
    search = PairSearch(Lattice(one.problem, 0.3, 0.7), Limits(workers=1))
    starts.goals_of(one, search, Limits(), -inf, DEFAULTS)
    assert made == [0]
    made.clear()
    starts.goals_of(one, search, Limits(), inf, DEFAULTS)
    assert made == [0, 1, 2, 3, 4]


def test_other_seats_wait_for_time() -> None:
    """None of some placements is looked at where time is up."""
    one = reduction()
    best = weighed(one.cluster, one.job, np.arange(12, dtype=np.int32).reshape(6, 2))
    assert best is not None
    bounds = LevelBounds(one, Limits(), DEFAULTS)
    goals = GoalSearch(one, bounds, best, [], Limits(), DEFAULTS, effort=1.0, end=-inf)
    goals.offer_in_time(np.arange(first, first + 12, dtype=np.int32).reshape(6, 2) for first in range(9))
    assert goals.best is best
