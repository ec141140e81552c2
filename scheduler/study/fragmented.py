"""Fragmented clusters: all algorithms side by side, as on a cluster that other jobs use too.

Each case is a cluster of minipods of racks of four nodes, part of it in use the way running jobs use it (gangs on
neighbouring nodes, small jobs anywhere), and a job that wants between a quarter and nearly all of what is free.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean, median

from ground.records import JsonRecord, NotNegative
from scheduler.job import Job, Parallelism
from scheduler.objective import TOLERANCE
from scheduler.placement.types import Limits
from scheduler.study.placement_sweep import CaseResult, CaseResults
from scheduler.study.table1 import EXACT, ratio
from topology.cluster import Cluster
from topology.generate import fragment, minipods

MAX_CELLS = 1200  # The 9,600-GPU job of the paper
SYSTEMS = ("kueue", "volcano", "slurm")  # Systems with several modes; the name of a mode begins with that of its system


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
        """Return a cluster of 4 to 24 minipods of 16 to 96 nodes, 20 to 60 percent in use, and a job for it."""
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
    """Return the first so many cases of a seed."""
    return [Fragmented(seed, number) for number in range(count)]


class AlgorithmLine(JsonRecord, kw_only=True):
    """What one algorithm made of all clusters.  Null = of none of them."""

    algorithm: str
    """Name of the algorithm, or of a system with its best mode chosen by hand for each job."""
    placed: int
    """Clusters on which it found a valid placement."""
    infeasible: int
    """Clusters on which its rule refuses the job, though there are nodes enough."""
    unsolved: int
    """Clusters on which it ran out of time, gave up, or broke a rule."""
    proved: int
    """Placements proved optimal."""
    objective: float | None
    """Mean objective of its placements."""
    mean_ratio: float | None
    """Mean of objective over that of exact, where both have one."""
    largest_ratio: float | None
    """Largest ratio of its objective to that of exact, where both have one."""
    level_with_exact: int
    """Clusters on which it is no worse than exact."""
    mean_seconds: NotNegative
    """Mean wall time of the algorithm alone, seconds."""
    median_seconds: NotNegative
    """Median wall time of the algorithm alone, seconds."""


class ClusterResults(JsonRecord):
    """One cluster and all that was made of it."""

    cluster: str
    """Its name."""
    results: CaseResults
    """One for each algorithm."""


class FragmentedStudy(JsonRecord, kw_only=True):
    """Fragmented clusters, all algorithms side by side."""

    seed: int
    """Seed of clusters, jobs and algorithms."""
    clusters: int
    """How many."""
    time_limit: float
    """Seconds for each algorithm on each cluster."""
    lines: tuple[AlgorithmLine, ...]
    """One for each algorithm."""
    best_modes: tuple[AlgorithmLine, ...]
    """One for each system with several modes."""
    cases: tuple[ClusterResults, ...]
    """Every single result."""


def fragmented_study(cases: Sequence[Fragmented], results: Sequence[CaseResults], limits: Limits) -> FragmentedStudy:
    """Return what the results of a sweep say; its limits have the seed of the cases."""
    return FragmentedStudy(
        seed=limits.seed,
        clusters=len(cases),
        time_limit=limits.seconds,
        lines=lines(results, results),
        best_modes=lines(best_modes(results), results),
        cases=tuple(ClusterResults(case.name, result) for case, result in zip(cases, results, strict=True)),
    )


def best_modes(results: Sequence[CaseResults]) -> list[CaseResults]:
    """Return for each case and system the best of its modes, as if the mode were chosen by hand for each job.

    Time is that of all modes together.  Systems of which fewer than two modes ran are left out.
    """
    return [tuple(_best_modes(result)) for result in results]


def _best_modes(results: CaseResults) -> Iterator[CaseResult]:
    for system in SYSTEMS:
        modes = [result for result in results if result.algorithm.startswith(f"{system}-")]
        if len(modes) > 1:
            best = min(modes, key=lambda result: inf if result.objective is None else result.objective)
            seconds = sum(result.solve_seconds for result in modes)
            yield replace(best, algorithm=f"{system}, best of {len(modes)} modes", solve_seconds=seconds)


def lines(results: Sequence[CaseResults], all_results: Sequence[CaseResults]) -> tuple[AlgorithmLine, ...]:
    """Return one line for each algorithm, in the order of the results; ``all_results`` has those of ``exact`` too."""
    exact = [
        next((result.objective for result in all_result if result.algorithm == EXACT), None)
        for all_result in all_results
    ]
    return tuple(_line(of_one, exact) for of_one in zip(*results, strict=True))


def _line(results: Sequence[CaseResult], exact: Sequence[float | None]) -> AlgorithmLine:
    """Return the line of one algorithm, given the objective of ``exact`` on each case."""
    worth = [result.objective for result in results if result.objective is not None]
    pairs = zip(results, exact, strict=True)
    ratios = [value for result, best in pairs if (value := ratio(result.objective, best)) is not None]
    infeasible = sum(result.status == "infeasible" for result in results)
    seconds = [result.solve_seconds for result in results]
    return AlgorithmLine(
        algorithm=results[0].algorithm,
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
