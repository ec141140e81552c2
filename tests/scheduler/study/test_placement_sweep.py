"""Running every algorithm on every case: same rows in any number of processes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from ground.errors import UnknownName
from scheduler.job import Job, Parallelism
from scheduler.objective import Spread
from scheduler.placement.types import Limits
from scheduler.study.executors import local_executor
from scheduler.study.placement_sweep import sweep_placements
from topology.cluster import Cluster
from topology.generate import minipods


@dataclass(frozen=True)
class Grid:
    """Two minipods of ``room`` nodes, a job of four cells."""

    room: int

    @property
    def name(self) -> str:
        """How many nodes."""
        return f"room {self.room}"

    def instance(self) -> tuple[Cluster, Job]:
        """The cluster and the job."""
        return minipods(minipods=2, nodes=2 * self.room), Job("job", Parallelism(tp=8, dp=2, pp=2), alpha=0.5)


CASES = [Grid(1), Grid(2), Grid(4)]
"""The job does not fit, fits on both minipods, fits on one."""


def test_results_come_by_case_and_in_the_order_of_algorithms() -> None:
    """Three cases, two algorithms: six results, and a step after each."""
    steps: list[str] = []
    results = sweep_placements(CASES, ["gpu-packing", "best-fit"], Limits(), step=steps.append)
    assert [[result.algorithm for result in of_case] for of_case in results] == [["gpu-packing", "best-fit"]] * 3
    assert steps[0] == "room 1: gpu-packing"
    assert len(steps) == 6


def test_results_say_what_the_evaluator_says() -> None:
    """Refused for want of nodes; a row in each minipod, S = 2 and R = 1; everything in one minipod."""
    ((small,), (medium,), (large,)) = sweep_placements(CASES, ["gpu-packing"], Limits())
    assert (small.status, small.objective, small.spread) == ("infeasible", None, None)
    assert "4 free nodes" in (small.reason or "")
    assert (medium.spread, medium.objective) == (Spread(2, 1), 1.5)
    assert (large.spread, large.proved) == (Spread(1, 1), True)


def test_processes_change_nothing_but_times() -> None:
    """One process and two give the same rows."""
    algorithms = ["gpu-packing", "random-fit", "arnold-mip"]
    one, two = (
        [
            replace(result, solve_seconds=0.0)
            for of_case in sweep_placements(CASES, algorithms, Limits(seed=3), local_executor(processes))
            for result in of_case
        ]
        for processes in (1, 2)
    )
    assert one == two


def test_unknown_algorithm_is_noticed_before_the_first_run() -> None:
    """A slip in a name is an error at once, with the closest name."""
    with pytest.raises(UnknownName, match="best-fitt"):
        sweep_placements(CASES, ["gpu-packing", "best-fitt"], Limits(), step=lambda _: pytest.fail("something ran"))
