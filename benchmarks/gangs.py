"""Gangs of 1 to 128 nodes on congested clusters: milliseconds of a placement, and whether the whole search agrees.

All times are of the processor, of one thread, from the state of the cluster (a new object, as in a replay) to nodes.
Both ways are measured in one run: what replays and the extender ask for (the placement, with the proof of its
objective), one gang after another, and what ``arnold place`` asks for (all there is to tell).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from time import process_time

import numpy as np

from benchmarks.instances import grid_job
from benchmarks.report import promises, section, table
from benchmarks.rows import watched
from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.objective import TOLERANCE
from scheduler.outcome import Outcome
from scheduler.placement.exact.algorithm import Exact
from scheduler.placement.exact.params import DEFAULTS
from scheduler.placement.exact.problem import GridReduction
from scheduler.placement.exact.solve import search_reduction
from scheduler.placement.types import ALGORITHMS, Limits, Pair
from topology.cluster import Cluster
from topology.generate import fragment, minipods

NODES = (2_000, 25_000)
MINIPOD_NODES, RACK_NODES = 92, 4
BUSY_SHARES = (0.3, 0.6, 0.9)
STATES = 4
LARGEST = 128
STAGES = (1, 2, 4, 8, 16)
ALPHAS = (0.0, 0.3, 0.5, 0.7)
WANTED_MS = {2_000: 0.3, 25_000: 1.0}
TOLD_ALL = Limits(workers=1)
TOLD_PLACEMENT = replace(TOLD_ALL, told="placement")


@dataclass(frozen=True, slots=True)
class Placed:
    """One gang, placed."""

    nodes: int  # of the cluster
    busy: float
    cells: int
    seconds: float  # of the placement call of `exact`, as replays and the extender ask
    weighed: float  # the same with the evaluator and all around it
    pair: Pair | None  # (S, R); `None` = it has no room
    searched: Pair | None  # that of the whole search of pairs
    same_objective: bool  # as the search of pairs; true where neither places it
    worse_than_packing: bool  # goal by goal than gpu-packing
    proved: bool
    whole_seconds: float | None  # of `exact` when it tells everything; `None` = not asked
    closer: float  # Eq. 2 at racks; `whole_closer`: when it tells everything
    whole_closer: float


def states(nodes: int) -> dict[tuple[float, int], Cluster]:
    """Clusters of minipods and racks, a share of the nodes busy in a fragmented way."""
    whole = minipods(minipods=nodes // MINIPOD_NODES, nodes=nodes, rack_nodes=RACK_NODES)
    return {(busy, seed): fragment(whole, busy, seed) for busy in BUSY_SHARES for seed in range(STATES)}


def gang(chance: random.Random) -> Job:
    """A gang of 1 to 128 nodes, many small and few large, of as many stages as its nodes can be cut into."""
    size = min(LARGEST, int(exp(chance.uniform(0.0, log(LARGEST + 1)))))
    columns = chance.choice([stages for stages in STAGES if stages <= size])
    return grid_job(max(1, size // columns), columns, alpha=chance.choice(ALPHAS))


@dataclass(frozen=True, slots=True)
class _Timed:
    """One gang, placed as replays and the extender ask."""

    cluster: Cluster
    job: Job
    busy: float
    seconds: float
    weighed: float
    outcome: Outcome


def measure(n: int, *, seed: int, whole: int) -> list[Placed]:
    """Place n gangs on each size of cluster; then search the pairs of all, and place ``whole`` of them in both ways."""
    rows = []
    for nodes in NODES:
        clusters, chance = states(nodes), random.Random(f"gangs {seed} {nodes}")
        run(Exact(), clusters[BUSY_SHARES[0], 0], gang(chance), TOLD_ALL)  # imports solvers
        timed = []
        for _ in range(n):
            busy, state = chance.choice(BUSY_SHARES), chance.randrange(STATES)
            timed.append(_timed(clusters[busy, state], gang(chance), busy))
        for number, one in enumerate(watched(timed, label=f"gangs on {nodes:,} nodes", total=n)):
            rows.append(_compared(one, whole=number < whole))
    return rows


def _timed(cluster: Cluster, job: Job, busy: float) -> _Timed:
    exact = Exact()
    _ = job.grid  # what a job is cut into is known before it is asked where it goes
    start = process_time()
    exact.place(cluster.replace(), job, TOLD_PLACEMENT)
    placed = process_time()
    outcome = run(exact, cluster.replace(), job, TOLD_PLACEMENT)
    return _Timed(cluster, job, busy, placed - start, process_time() - placed, outcome)


def _compared(timed: _Timed, *, whole: bool) -> Placed:
    cluster, job, short = timed.cluster, timed.job, timed.outcome
    packed = run(ALGORITHMS.load("gpu-packing"), cluster, job, TOLD_PLACEMENT)
    reduction = GridReduction(cluster, job, 1.0)
    lattice = None if reduction.refusal else search_reduction(reduction, TOLD_ALL, 10.0, DEFAULTS).lattice
    best = None if lattice is None else lattice.best
    begun = process_time()
    everything = run(Exact(), cluster.replace(), job, TOLD_ALL) if whole else None
    ended = process_time()
    found = short.evaluation
    return Placed(
        nodes=len(cluster),
        busy=timed.busy,
        cells=job.grid.cells,
        seconds=timed.seconds,
        weighed=timed.weighed,
        pair=None if found is None else (found.dp, found.pp),
        searched=best,
        same_objective=found is None
        if lattice is None or best is None
        else found is not None and abs(found.objective - lattice.cost(best)) <= TOLERANCE,
        worse_than_packing=_goals(packed) < _goals(short),
        proved=short.status in ("optimal", "infeasible"),
        whole_seconds=None if everything is None else ended - begun,
        closer=_goals(short)[-1],
        whole_closer=np.nan if everything is None else _goals(everything)[-1],
    )


def _goals(outcome: Outcome) -> tuple[float, ...]:
    if outcome.evaluation is None:
        return (np.inf,)
    costs = outcome.evaluation.objective, *outcome.evaluation.closer.values()
    return tuple(round(cost, 9) for cost in costs)


def report(rows: Sequence[Placed]) -> str:
    """Times by size of cluster and share of busy nodes, and the promises."""
    header = ["nodes", "busy", "gangs", "exact, ms", "p99", "with the evaluator, ms", "told all, ms", "ratio"]
    header += ["(S, R) the same", "another of its cost", "proved", "Eq. 2 at racks", "told all"]
    sizes = sorted({row.nodes for row in rows})
    groups = [(n, f"{b:.0%}", [r for r in rows if (r.nodes, r.busy) == (n, b)]) for n in sizes for b in BUSY_SHARES]
    groups += [(n, "all", [r for r in rows if r.nodes == n]) for n in sizes]
    lines = [_line(nodes, busy, some) for nodes, busy, some in groups if some]
    kept = []
    for nodes in sizes:
        mean = 1e3 * float(np.mean([row.seconds for row in rows if row.nodes == nodes]))
        wanted = WANTED_MS.get(nodes, 1.0)
        kept.append((f"{nodes:,} nodes: {wanted:g} ms on average", f"{mean:.2f} ms", mean <= wanted))
    other = sum(not row.same_objective for row in rows)
    worse = sum(row.worse_than_packing for row in rows)
    kept.append(("the objective of the whole search", f"{other} others", other == 0))
    kept.append(("never worse than gpu-packing, goal by goal", f"{worse} times", worse == 0))
    return section(
        "Gangs of 1 to 128 nodes",
        table(header, lines),
        "Milliseconds of the processor. Another pair of the same cost is taken where it is better at racks, as goals "
        "are met in order.",
        promises(*kept),
    )


def _line(nodes: int, busy: str, rows: Sequence[Placed]) -> list[str]:
    seconds = [row.seconds for row in rows]
    both = [row for row in rows if row.whole_seconds is not None]
    whole = [row.whole_seconds for row in both if row.whole_seconds is not None]
    same = sum(row.pair == row.searched for row in rows)
    # gangs without room have no racks
    closer = [(row.closer, row.whole_closer) for row in both if np.isfinite(row.closer)]
    short, full = np.mean(closer, axis=0) if closer else (np.nan, np.nan)
    mean, told = 1e3 * float(np.mean(seconds)), 1e3 * float(np.mean(whole)) if whole else np.nan
    return [
        f"{nodes:,}",
        busy,
        f"{len(rows):,}",
        f"{mean:.2f}",
        f"{1e3 * float(np.quantile(seconds, 0.99)):.2f}",
        f"{1e3 * float(np.mean([row.weighed for row in rows])):.2f}",
        f"{told:.1f}" if whole else "-",
        f"{told / mean:.0f}" if whole else "-",
        f"{same:,}",
        str(sum(row.pair != row.searched and row.same_objective for row in rows)),
        f"{sum(row.proved for row in rows):,}",
        f"{short:.3f}" if closer else "-",
        f"{full:.3f}" if closer else "-",
    ]
