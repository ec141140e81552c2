"""Fragmented clusters: always the same for a seed, always with nodes enough, and honestly summed up."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.placement.admission import shortage
from scheduler.placement.types import Status
from scheduler.study.fragmented import MAX_CELLS, best_modes, cases, lines
from scheduler.study.placement_sweep import CaseResult


def test_every_job_has_nodes_enough() -> None:
    """No case lacks nodes, none is larger than the paper's largest job, and every cluster is part in use."""
    for case in cases(30, seed=1):
        cluster, job = case.instance()
        assert shortage(cluster, job) == ""
        assert job.grid.cells <= MAX_CELLS
        assert 0.2 <= 1 - cluster.idle.mean() <= 0.6 + 1 / len(cluster)


def test_a_case_does_not_depend_on_how_many_there_are() -> None:
    """Case 2 of three is case 2 of ten, and another seed makes another."""
    (few, job), (many, same_job) = cases(3, seed=5)[2].instance(), cases(10, seed=5)[2].instance()
    assert np.array_equal(few.free_gpus, many.free_gpus)
    assert job.name == same_job.name
    other, _ = cases(3, seed=6)[2].instance()
    assert len(few) != len(other) or not np.array_equal(few.free_gpus, other.free_gpus)


def result(name: str, objective: float | None, status: Status = "feasible", seconds: float = 1.0) -> CaseResult:
    """A result; without an objective its rule refuses the job unless the status says otherwise."""
    status = "infeasible" if objective is None and status == "feasible" else status
    return CaseResult(
        algorithm=name,
        status=status,
        reason=None,
        spread=None,
        objective=objective,
        bound=None,
        solve_seconds=seconds,
    )


RESULTS = [
    (result("exact", 2.0, "optimal"), result("kueue-preferred", 2.0), result("kueue-slice-p", 4.0)),
    (result("exact", 1.0, "feasible", 3.0), result("kueue-preferred", 3.0), result("kueue-slice-p", None)),
    (result("exact", 2.0, "optimal"), result("kueue-preferred", None, "timeout"), result("kueue-slice-p", 3.0)),
]
"""Three cases, three algorithms."""


def test_a_line_counts_and_compares() -> None:
    """kueue-preferred: two placements, at 1.0 and 3.0 times exact, level once, out of time once."""
    exact, preferred, slices = lines(RESULTS, RESULTS)
    assert (exact.proved, exact.placed) == (2, 3)
    assert exact.mean_seconds == pytest.approx(5 / 3)
    assert (preferred.placed, preferred.infeasible, preferred.unsolved) == (2, 0, 1)
    assert (preferred.objective, preferred.mean_ratio, preferred.largest_ratio) == (2.5, 2.0, 3.0)
    assert preferred.level_with_exact == 1
    assert (slices.infeasible, slices.unsolved) == (1, 0)
    assert exact.mean_ratio == 1.0


def test_best_modes_choose_for_each_job() -> None:
    """Of Kueue's two modes the better on each case: 2.0, 3.0, 3.0; the time is that of both."""
    best = [row for (row,) in best_modes(RESULTS)]
    assert [row.objective for row in best] == [2.0, 3.0, 3.0]
    assert {row.algorithm for row in best} == {"kueue, best of 2 modes"}
    assert best[0].solve_seconds == 2.0


def test_one_mode_is_no_choice() -> None:
    """With one mode of a system there is nothing to choose."""
    assert best_modes([results[:2] for results in RESULTS]) == [(), (), ()]


def test_nothing_placed_has_no_mean() -> None:
    """An algorithm without a placement has counts and times only."""
    nothing = [(result("kueue-slice-d", None),)]
    (line,) = lines(nothing, nothing)
    assert (line.objective, line.mean_ratio, line.largest_ratio, line.level_with_exact) == (None, None, None, 0)
