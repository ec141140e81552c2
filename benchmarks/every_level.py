"""Soft terms and closer levels: whether any other algorithm is ever better, and what jobs without either pay.

Every second instance of the seed has one or two soft terms at either level; of all, placements are compared by their
objective and then by Eq. 2 in racks.  The price is measured on the same instances without racks, where the pair decides
alone: the whole algorithm against the search of pairs and seating, in turn in one run.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time

import numpy as np

from benchmarks.instances import GPUS, Instance, instances
from benchmarks.report import promises, section, table
from benchmarks.rows import watched
from scheduler.algorithm_run import run
from scheduler.job import Count, Family, Job, Parallelism
from scheduler.outcome import Outcome
from scheduler.placement.exact.algorithm import Exact, thresholds
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.exact.schedule import fill_front
from scheduler.placement.exact.solve import search_reduction, seat_cells
from scheduler.placement.types import ALGORITHMS, Limits
from topology.build import build_cluster
from topology.cluster import Cluster, Node

WEIGHTS = (0.1, 0.3, 1.0)
EXPERTS = (2, 4, 8)
SLOWER = 1.2


@dataclass(frozen=True, slots=True)
class Compared:
    """One instance: whether each was proved, which was better, and what ``exact`` took."""

    soft: bool
    proved: bool
    closer_proved: bool
    better: tuple[str, ...]  # algorithms that were better
    seconds: float  # wall time of all of it


def with_terms(instance: Instance) -> Job:
    """The job with soft terms; expert groups where its rows can be cut into them."""
    chance = random.Random(f"terms {instance.number}")
    job, experts = instance.job(), chance.choice(EXPERTS)
    families: list[Family] = ["dp", "pp"]
    if instance.rows % experts == 0:
        job = job.replace(parallelism=Parallelism(tp=GPUS, dp=instance.rows, pp=instance.columns, ep=experts))
        families += ["ep", "ep"]
    counts = tuple(
        Count(chance.choice(families), chance.choice(["minipod", "rack"]), chance.choice(WEIGHTS))
        for _ in range(chance.choice([1, 2]))
    )
    return job.replace(level=chance.choice(["minipod", "minipod", "rack"]), counts=counts)


def measure(n: int, *, seed: int, seconds: float) -> list[Compared]:
    """Compare on the first n instances of a seed."""
    exact = ALGORITHMS.load("exact")
    others = {name: ALGORITHMS.load(name) for name in ALGORITHMS.names() if name != "exact"}
    rows = []
    for instance in watched(instances(n, seed=seed), label="every level", total=n):
        soft = bool(instance.number % 2)
        cluster, job = instance.cluster(), with_terms(instance) if soft else instance.job()
        start = perf_counter()
        ours = run(exact, cluster, job, Limits(seconds=seconds))
        took = perf_counter() - start
        goals = _goals(ours)
        limits = Limits(seconds=seconds)
        better = [name for name, one in others.items() if _goals(run(one, cluster, job, limits)) < goals]
        closer = all(found.proved for found in ours.closer.values())
        rows.append(Compared(soft, ours.status == "optimal", closer, tuple(better), took))
    return rows


def _goals(outcome: Outcome) -> tuple[float, ...]:
    """What placements are compared by, the least the best."""
    if outcome.evaluation is None:
        return (np.inf,)
    costs = outcome.evaluation.objective, *outcome.evaluation.closer.values()
    return tuple(round(cost, 9) for cost in costs)


def measure_price(n: int, *, seed: int, seconds: float) -> list[tuple[float, float]]:
    """Processor seconds of the whole algorithm and of pairs and seating alone, without racks or soft terms.

    Not wall time, and of three turns the least, so that other work on the machine counts as little as may be: half of
    the instances take less than 2 ms.
    """
    limits = Limits(seconds=seconds)
    pairs = []
    for instance in watched(instances(n, seed=seed), label="without either", total=n):
        cluster, job = _without_racks(instance.cluster()), instance.job()
        turns: list[Callable[[], object]] = [
            partial(Exact().place, cluster, job, limits),
            partial(_bare, cluster, job, limits),
        ]
        taken = [np.inf, np.inf]
        # each goes first in every second turn, so that neither always finds the other's memory warm
        for which in (0, 1, 1, 0, 0, 1):
            start = process_time()
            turns[which]()
            taken[which] = min(taken[which], process_time() - start)
        pairs.append((taken[0], taken[1]))
    return pairs


def _bare(cluster: Cluster, job: Job, limits: Limits) -> None:
    """Check that the job fits, search the pairs, seat the best one, fill the front in."""
    reduction = GridReduction(cluster, job, thresholds(cluster, job)[-1])
    if reduction.refusal:
        return
    search = search_reduction(reduction, limits, limits.seconds, DEFAULTS)
    cells = reduction.domain_of_cell(search.lattice.built[search.lattice.best])
    seat_cells(reduction, cells, DEFAULTS.short_share * limits.seconds, DEFAULTS)
    fill_front(search, seconds=DEFAULTS.short_share * limits.seconds)


def _without_racks(cluster: Cluster) -> Cluster:
    nodes = [Node(node.name, node.path[:1], node.gpus, node.free_gpus) for node in cluster]
    return build_cluster(["minipod"], nodes)


def report(rows: Sequence[Compared], price: Sequence[tuple[float, float]]) -> str:
    """What was proved, which was better, and the ratio of times."""
    lines = []
    for name, some in (("two levels", [r for r in rows if not r.soft]), ("soft terms", [r for r in rows if r.soft])):
        if some:
            lines.append(
                [
                    name,
                    str(len(some)),
                    str(sum(row.proved for row in some)),
                    str(sum(row.closer_proved for row in some)),
                    str(sum(bool(row.better) for row in some)),
                    f"{np.median([row.seconds for row in some]):.2f}",
                ]
            )
    beaten = sum(bool(row.better) for row in rows)
    whole, bare = np.median(np.array(price), axis=0)
    header = ["instances", "number", "objective proved", "closer levels proved", "another better", "p50 s"]
    return section(
        "Soft terms and closer levels",
        table(header, lines),
        f"Without either: p50 {whole:.3f} s of processor time, and {bare:.3f} s for pairs and seating alone. Seconds "
        "in the table are of wall time, with seating and the front.",
        promises(
            ("no other algorithm better, goal by goal", f"{beaten} times", beaten == 0),
            (f"p50 at most {SLOWER:g} times that of pairs alone", f"{whole / bare:.2f}", whole <= SLOWER * bare),
        ),
    )
