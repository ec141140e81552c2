"""What the front of spreads finds after the search was stopped is what the job gets."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.exact import algorithm
from scheduler.placement.exact.algorithm import Exact, search_thresholds
from scheduler.placement.types import Limits
from topology.generate import fragment, minipods

JOB = Job("job", Parallelism(tp=8, dp=8, pp=4), alpha=0.3)


def test_a_better_pair_of_the_front_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends before its best pair, and a front that builds it: the placement is that of the best pair.

    On this cluster no other pair and no quick rule gives the objective of the full search.  Before, the table of trades
    had a pair that costs less than the placement beside it.
    """
    cluster = fragment(minipods(minipods=6, nodes=72), 0.5, 0)
    limits = Limits(seconds=3, workers=1, clock="work")
    full = run(Exact(), cluster, JOB, limits)
    missed: dict[tuple[int, int], Any] = {}

    def stopped(*given: Any) -> Any:
        searched = search_thresholds(*given)
        lattice = searched.widest.lattice
        pair = lattice.best
        missed[pair] = lattice.built.pop(pair)
        return searched

    monkeypatch.setattr(algorithm, "search_thresholds", stopped)
    monkeypatch.setattr(algorithm, "fill_front", lambda found, seconds: found.lattice.built.update(missed))
    late = run(Exact(), cluster, JOB, limits)
    assert missed
    assert late.objective == full.objective
    trades = [JOB.alpha * point.dp + (1 - JOB.alpha) * point.pp for point in late.proposal.pareto]
    assert min(trades) == pytest.approx(late.objective)
