"""Every algorithm on every case, in one process or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as dataclass_replace
from itertools import product
from typing import Protocol

from scheduler.job import Job
from scheduler.outcome import Outcome, Status, run
from scheduler.placement.registry import load_algorithm
from scheduler.placement.types import Limits
from scheduler.study.executors import Executor, Here, Processes
from topology.cluster import Cluster


class Case(Protocol):
    """One placement problem, told by a few numbers so that it travels between processes."""

    @property
    def name(self) -> str:
        """What the case is called in tables."""

    def instance(self) -> tuple[Cluster, Job]:
        """Make the cluster and the job: always the same."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one algorithm made of one case; numbers of a placement are ``None`` where there is none.

    :param case: position of the case in the study.
    :param dp: S, DP spread.
    :param pp: R, PP spread.
    :param bound: what the algorithm itself proved.
    :param seconds: wall time inside the algorithm.
    """

    case: int
    algorithm: str
    status: Status
    reason: str
    dp: int | None
    pp: int | None
    objective: float | None
    bound: float | None
    seconds: float

    @property
    def proved(self) -> bool:
        """Whether the placement is proved optimal."""
        return self.status == "optimal"


def sweep(
    cases: Sequence[Case],
    algorithms: Sequence[str],
    limits: Limits,
    *,
    jobs: int = 1,
    step: Callable[[str], None] = lambda _: None,
) -> list[Result]:
    """Run every algorithm on every case.

    :param algorithms: names of installed algorithms.
    :param limits: hold for each run.
    :param jobs: processes; with more than one, runs share the cores, and times and time limits feel it.
    :param step: called after each run with a short sentence.
    :returns: sorted by case, then in the order of ``algorithms``.
    :raises UnknownName: an algorithm is not installed.
    :raises WorkerLost: a process died.
    """
    for name in algorithms:
        load_algorithm(name)
    pairs = list(product(range(len(cases)), algorithms))
    executor: Executor = Processes(jobs) if min(jobs, len(pairs)) > 1 else Here()
    results = {}
    for result in executor.run(_run, (cases, dataclass_replace(limits, progress=None)), pairs):
        results[result.case, result.algorithm] = result
        step(f"{cases[result.case].name}: {result.algorithm}")
    return [results[pair] for pair in pairs]


def _run(study: tuple[Sequence[Case], Limits], pair: tuple[int, str]) -> Result:
    (cases, limits), (case, name) = study, pair
    cluster, job = cases[case].instance()
    return _result(case, run(load_algorithm(name), cluster, job, limits))


def _result(case: int, outcome: Outcome) -> Result:
    evaluation = outcome.evaluation
    return Result(
        case=case,
        algorithm=outcome.algorithm,
        status=outcome.status,
        reason=outcome.reason,
        dp=None if evaluation is None else evaluation.dp,
        pp=None if evaluation is None else evaluation.pp,
        objective=outcome.objective,
        bound=outcome.bound,
        seconds=outcome.proposal.solve_seconds,
    )
