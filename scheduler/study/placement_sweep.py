"""Every algorithm on every case, in one process or several."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Protocol

from ground.records import JsonRecord, NotNegative, record_of
from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.objective import Spread
from scheduler.placement.types import ALGORITHMS, Limits, Status
from scheduler.study.executors import Executor, Here
from topology.cluster import Cluster


class Case(Protocol):
    """One placement problem, described by a few numbers so that it travels between processes."""

    @property
    def name(self) -> str:
        """What the case is called in tables."""

    def instance(self) -> tuple[Cluster, Job]:
        """Make the cluster and the job: always the same."""


class CaseResult(JsonRecord, kw_only=True):
    """What one algorithm made of one case.  Numbers of a placement are null when there is none."""

    algorithm: str
    """Name of the algorithm."""
    status: Status
    """optimal, feasible, infeasible, timeout, gave-up, refused."""
    reason: str | None
    """Why there is no placement."""
    spread: Spread | None
    """Spread at the level that counts."""
    objective: float | None
    """Objective, Eq. 2 at the job's level."""
    bound: float | None
    """What this algorithm proved: no placement has a smaller objective."""
    solve_seconds: NotNegative
    """Wall time of the algorithm alone."""

    @property
    def proved(self) -> bool:
        """Whether the placement is proved optimal."""
        return self.status == "optimal"


CaseResults = tuple[CaseResult, ...]  # Results of one case, in the order of the algorithms


def sweep_placements(
    cases: Sequence[Case],
    algorithms: Sequence[str],
    limits: Limits,
    executor: Executor | None = None,
    *,
    step: Callable[[str], None] = lambda _: None,
) -> list[CaseResults]:
    """Run every algorithm on every case, each within the limits; return the results of each case.

    :param executor: with several processes, runs share the cores, and times and time limits feel it.
    :param step: called after each run with a short sentence.
    """
    for name in algorithms:
        ALGORITHMS.load(name)
    pairs = list(product(range(len(cases)), algorithms))
    results = {}
    for case, result in (executor or Here()).run(_run, (cases, replace(limits, progress=None)), pairs):
        results[case, result.algorithm] = result
        step(f"{cases[case].name}: {result.algorithm}")
    return [tuple(results[case, name] for name in algorithms) for case in range(len(cases))]


def _run(study: tuple[Sequence[Case], Limits], pair: tuple[int, str]) -> tuple[int, CaseResult]:
    (cases, limits), (case, name) = study, pair
    cluster, job = cases[case].instance()
    outcome = run(ALGORITHMS.load(name), cluster, job, limits)
    seconds = outcome.proposal.solve_seconds
    return case, record_of(CaseResult, outcome, reason=outcome.reason or None, solve_seconds=seconds)
