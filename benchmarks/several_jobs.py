"""Several jobs at once on 1,200 fragmented nodes, beside one after the other: sums, gaps, seconds."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import factorial
from time import perf_counter

from benchmarks.instances import grid_job
from benchmarks.report import promises, section, table_of
from benchmarks.rows import watched
from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.several.joint_question import JointQuestion
from scheduler.several.together import JointOutcome, in_turn, place_together
from topology.cluster import Cluster
from topology.generate import fragment, minipods

NODES, MINIPODS, BUSY_SHARE, UNEVENNESS = 1_200, 24, 0.25, 0.5
COUNTS = (2, 4, 8)
SIZES = (16, 32, 64, 128, 256)
STAGES = (2, 4, 8)
ALPHAS = (0.3, 0.5)
MOST_USED = 0.9  # Of the free nodes, by all jobs together
MOST_ORDERS = 24  # Orders that are tried one after the other; of eight jobs there are 40,320
LIMIT, SECONDS, GAP = 8.0, 10.0, 0.05  # What the search gets, what we promise, and the gap that is promised


@dataclass(frozen=True, slots=True)
class JointRun:
    """One question."""

    jobs: int
    seed: int
    free: int
    cells: int
    outcome: JointOutcome
    seconds: float
    # Sums of one after the other, for each order that was tried; infinite where a job finds no place
    orders: tuple[float, ...]


def instance(count: int, seed: int) -> tuple[Cluster, list[Job]]:
    """A cluster of 1,200 nodes of which a quarter is in use here and there, and some jobs."""
    whole = minipods(minipods=MINIPODS, nodes=NODES, rack_nodes=8, unevenness=UNEVENNESS, seed=seed)
    cluster, rng = fragment(whole, BUSY_SHARE, seed), random.Random(f"several {count} {seed}")
    while True:
        shapes = [(rng.choice(SIZES), rng.choice(STAGES), rng.choice(ALPHAS)) for _ in range(count)]
        if sum(cells for cells, _, _ in shapes) <= MOST_USED * int(cluster.idle.sum()):
            break
    jobs = [grid_job(cells // stages, stages, alpha=alpha) for cells, stages, alpha in shapes]
    return cluster, [job.replace(name=f"job-{i}") for i, job in enumerate(jobs)]


def measure(seeds: int, counts: Sequence[int] = COUNTS, *, seconds: float = LIMIT) -> list[JointRun]:
    """All at once, and one after the other in some orders, the same for every question of a size."""
    exact = ALGORITHMS.load("exact")
    cases = [(count, seed) for count in counts for seed in range(1, seeds + 1)]
    runs = []
    for count, seed in watched(cases, label="several jobs", total=len(cases)):
        cluster, jobs = instance(count, seed)
        weights = [1.0] * count
        start = perf_counter()
        outcome = place_together(cluster, jobs, weights, solver=exact, limits=Limits(seconds=seconds, seed=seed))
        took = perf_counter() - start
        question = JointQuestion(cluster, tuple(jobs), tuple(weights))
        alone = {j: run(exact, cluster, job, Limits(seconds=1.0)) for j, job in enumerate(jobs)}
        sums = []
        for order in _orders(count, seed):
            result, _ = in_turn(question, order, exact, alone=alone, limits=Limits(seconds=float(count)))
            sums.append(float("inf") if result.objective is None else result.objective)
        cells = sum(job.grid.cells for job in jobs)
        runs.append(JointRun(count, seed, int(cluster.idle.sum()), cells, outcome, took, tuple(sums)))
    return runs


def _orders(count: int, seed: int) -> list[tuple[int, ...]]:
    """All orders of a few jobs; of more some, drawn."""
    if factorial(count) <= MOST_ORDERS:
        return list(permutations(range(count)))
    rng = random.Random(seed)
    return [tuple(rng.sample(range(count), count)) for _ in range(MOST_ORDERS)]


def report(runs: Sequence[JointRun]) -> str:
    """A row for each question, and what is promised."""
    slowest = max(one.seconds for one in runs)
    gaps = [1.0 if one.outcome.gap is None else one.outcome.gap for one in runs]
    within = sum(gap <= GAP for gap in gaps)
    proved = sum(one.outcome.status == "optimal" for one in runs)
    better = all((one.outcome.objective or 0.0) <= min(one.orders) + 1e-9 for one in runs)
    lines = [
        (f"every run below {SECONDS:g} s", f"{slowest:.1f} s", slowest < SECONDS),
        (f"proved, or a gap of at most {GAP:.0%}", f"{within} of {len(runs)}, {proved} proved", within == len(runs)),
        ("never worse than the best order that was tried", "yes" if better else "no", better),
    ]
    return section("Several jobs at once on 1,200 fragmented nodes", _table(runs), promises(*lines))


def _table(runs: Sequence[JointRun]) -> str:
    def total(run: JointRun) -> float:
        return run.outcome.objective or float("nan")

    def worse(run: JointRun) -> str:
        worst = max(run.orders)
        return "a job is stuck" if worst == float("inf") else f"{worst / total(run) - 1:+.1%}"

    columns: dict[str, Callable[[JointRun], object]] = {
        "jobs": lambda run: run.jobs,
        "seed": lambda run: run.seed,
        "nodes wanted": lambda run: run.cells,
        "free": lambda run: run.free,
        "sum": lambda run: f"{total(run):.1f}",
        "bound": lambda run: f"{run.outcome.bound or 0.0:.1f}",
        "gap": lambda run: f"{run.outcome.gap or 0.0:.1%}",
        "best order": lambda run: f"{min(run.orders):.1f}",
        "worst order": lambda run: f"{max(run.orders):.1f}",
        "worst is": worse,
        "s": lambda run: f"{run.seconds:.1f}",
    }
    return table_of(runs, columns)
