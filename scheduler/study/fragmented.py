"""Fragmented clusters: all algorithms side by side, as on a cluster that other jobs use too.

Each case is a cluster of minipods of racks of four nodes, part of it in use the way running jobs use it (gangs on
neighbouring nodes, small jobs anywhere), and a job that wants between a quarter and nearly all of what is free.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean, median

from scheduler.job import Job, Parallelism
from scheduler.outcome import TOLERANCE
from scheduler.study.sweep import Result
from scheduler.study.table1 import EXACT, ratio
from topology.cluster import Cluster
from topology.generate import fragment, minipods

MAX_CELLS = 1200
"""The 9,600-GPU job of the paper."""

SYSTEMS = ("kueue", "volcano", "slurm")
"""Systems with several modes; the name of a mode begins with that of its system."""


@dataclass(frozen=True, slots=True)
class Fragmented:
    """One case of a seed: always the same, however many there are."""

    seed: int
    number: int

    @property
    def name(self) -> str:
        """``cluster 7``."""
        return f"cluster {self.number}"

    def instance(self) -> tuple[Cluster, Job]:
        """A cluster of 4 to 24 minipods of 16 to 96 nodes, 20 to 60 percent in use, and a job for it."""
        rng = random.Random(f"fragmented {self.seed} {self.number}")
        pods, size, busy = rng.randint(4, 24), rng.randint(16, 96), rng.uniform(0.2, 0.6)
        made = minipods(minipods=pods, nodes=pods * size, unevenness=0.05, seed=rng.randrange(2**31))
        cluster = fragment(made, busy, rng.randrange(2**31))
        stages, share = rng.choice((4, 8, 8, 12, 16)), rng.uniform(0.25, 0.97)
        groups = max(2, int(min(share * cluster.idle.sum(), MAX_CELLS)) // stages)
        alpha = rng.choice((0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9))
        job = Job(f"{groups}x{stages}", Parallelism(tp=8, dp=groups, pp=stages), alpha=alpha, level="minipod")
        return cluster, job


def cases(count: int, seed: int) -> list[Fragmented]:
    """The first so many cases of a seed."""
    return [Fragmented(seed, number) for number in range(count)]


@dataclass(frozen=True, slots=True)
class Line:
    """What one algorithm made of all cases.  ``None`` = of none of them.

    :param placed: cases with a placement.
    :param infeasible: cases that the algorithm's rule refuses, though every job has nodes enough.
    :param unsolved: cases without placement or verdict: out of time, gave up, or refused by the evaluator.
    :param proved: cases proved optimal.
    :param objective: mean over the cases with a placement.
    :param mean_ratio: mean of objective over that of ``exact``, over the cases in which both have one.
    :param largest_ratio: the same, the largest.
    :param level_with_exact: cases in which the objective is not above that of ``exact``.
    :param mean_seconds: wall time inside the algorithm.
    :param median_seconds: the same, the median.
    """

    algorithm: str
    cases: int
    placed: int
    infeasible: int
    unsolved: int
    proved: int
    objective: float | None
    mean_ratio: float | None
    largest_ratio: float | None
    level_with_exact: int
    mean_seconds: float
    median_seconds: float


def best_modes(results: Sequence[Result]) -> list[Result]:
    """For each system and case the best of its modes, as if someone chose the mode by hand for each job.

    Time is that of all modes together.  Systems of which fewer than two modes ran are left out.
    """
    chosen = []
    for system in SYSTEMS:
        ran = [result for result in results if result.algorithm.startswith(f"{system}-")]
        modes = len({result.algorithm for result in ran})
        for case in sorted({result.case for result in ran}) if modes > 1 else ():
            of_case = [result for result in ran if result.case == case]
            best = min(of_case, key=lambda result: inf if result.objective is None else result.objective)
            seconds = sum(result.seconds for result in of_case)
            chosen.append(replace(best, algorithm=f"{system}, best of {modes} modes", seconds=seconds))
    return chosen


def lines(algorithms: Sequence[str], results: Sequence[Result]) -> list[Line]:
    """One line for each algorithm, in the order given."""
    exact = {result.case: result.objective for result in results if result.algorithm == EXACT}
    return [_line(name, [result for result in results if result.algorithm == name], exact) for name in algorithms]


def _line(name: str, results: Sequence[Result], exact: dict[int, float | None]) -> Line:
    worth = [result.objective for result in results if result.objective is not None]
    ratios = [value for result in results if (value := ratio(result.objective, exact.get(result.case))) is not None]
    infeasible = sum(result.status == "infeasible" for result in results)
    seconds = [result.seconds for result in results]
    return Line(
        algorithm=name,
        cases=len(results),
        placed=len(worth),
        infeasible=infeasible,
        unsolved=len(results) - len(worth) - infeasible,
        proved=sum(result.proved for result in results),
        objective=fmean(worth) if worth else None,
        mean_ratio=fmean(ratios) if ratios else None,
        largest_ratio=max(ratios, default=None),
        level_with_exact=sum(value <= 1.0 + TOLERANCE for value in ratios),
        mean_seconds=fmean(seconds),
        median_seconds=median(seconds),
    )
