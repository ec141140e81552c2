"""Fewest nodes moved for a large job on the cluster that a replay left, beside KAI's rule for consolidation.

KAI (docs/developer/action-framework.md, pkg/scheduler/actions/consolidation, v0.14; read, not copied) adds one victim
after the other, the last started first, and takes the first set with which the new job fits and all victims find places
again.  Here both are placed by ``exact``, and the new job fits when it reaches its target; only the moved jobs differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.report import promises, section, table
from scheduler.algorithm_run import run
from scheduler.job import Job, Parallelism
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.several.defragmentation import Defragmentation, defragment
from scheduler.several.running_jobs import RunningJob, opened
from simulator.engine import Engine
from simulator.pools import NodePool
from simulator.replay import prepare
from simulator.replay_settings import ReplaySettings
from simulator.traces import JobTrace
from simulator.workload import WorkloadSpec, generate
from topology.cluster import Cluster
from topology.generate import minipods

NODES, MINIPODS, LOAD = 1_200, 24, 0.85
WARM_DAYS = 2.0  # Replayed before the cluster is looked at: by then jobs have come and gone
JOB = Job("new", Parallelism(tp=8, dp=16, pp=8), level="minipod")
LIMIT = 30.0
SOLVE = Limits(seconds=1.0)  # Of each placement in the greedy rule


@dataclass(frozen=True, slots=True)
class Left:
    """A cluster as a replay left it; running jobs in the order in which they started."""

    cluster: Cluster
    running: list[RunningJob]
    used: float


@dataclass(frozen=True, slots=True)
class MoveRun:
    """One question, and what the greedy rule does; ``evicted`` is ``None`` where it finds nothing."""

    seed: int
    left: Left
    found: Defragmentation
    seconds: float
    evicted: int | None
    elsewhere: int


def left_by_a_replay(seed: int) -> Left:
    """Replay gangs of 1 to 128 nodes until 85 % of the nodes are in use and the job would fit but for its spread."""
    cluster = minipods(minipods=MINIPODS, nodes=NODES, rack_nodes=8, unevenness=0.5, seed=seed)
    gpus = int(cluster.gpus.sum())
    spec = WorkloadSpec(days=30, gpus=gpus, load=0.95, seed=seed, kinds=("other", "pretraining"), max_gpus=1_024)
    settings = ReplaySettings(policy="fifo-backfill", cost="none", placement_seconds=0.3)
    engine = prepare(JobTrace(generate(spec)), cluster, settings).engine
    while not engine.over:
        engine.step()
        if engine.clock.now > WARM_DAYS * 86_400 and _used(engine) >= LOAD and _free(engine) >= JOB.grid.cells:
            break
    pool = engine.cluster.pool
    assert isinstance(pool, NodePool)
    placed = [(job, pool.gang(job) if job.nodes > 1 else _single()) for job in engine.cluster.active.values()]
    whole = [(job, gang) for job, gang in placed if gang.gpus_per_node * len(job.places) == gang.parallelism.gpus]
    running = [
        RunningJob(
            f"job-{job.key}",
            gang.replace(name=f"job-{job.key}"),
            np.array(job.places, dtype=np.int32).reshape(gang.grid.rows, gang.grid.columns),
        )
        for job, gang in whole
        if job.gpus == gang.gpus_per_node * 100
    ]
    free = (engine.cluster.free // 100).astype(cluster.free_gpus.dtype)
    return Left(cluster.replace(free_gpus=free), running, _used(engine))


def _single() -> Job:
    return Job("single", Parallelism(tp=8), level="minipod")


def _used(engine: Engine) -> float:
    return 1.0 - float(engine.cluster.free.sum()) / float(engine.cluster.total.sum())


def _free(engine: Engine) -> int:
    return int((engine.cluster.free == engine.cluster.total).sum())


def greedy(left: Left, target: float) -> tuple[int | None, int]:
    """Return the nodes of the jobs that are evicted, and those of them that end elsewhere."""
    exact = ALGORITHMS.load("exact")
    victims: list[RunningJob] = []
    for one in reversed(left.running):
        victims.append(one)
        now = opened(left.cluster.with_busy(_nodes(left.running)), victims)
        placed = run(exact, now, JOB, SOLVE)
        if placed.objective is None or placed.objective > target + 1e-9 or placed.proposal.nodes is None:
            continue
        now, moved = now.with_busy(placed.proposal.nodes.ravel().tolist()), 0
        for victim in sorted(victims, key=lambda victim: -victim.nodes.size):
            again = run(exact, now, victim.job, SOLVE).proposal.nodes
            if again is None:
                break
            moved += len(set(again.ravel().tolist()) - set(victim.nodes.ravel().tolist()))
            now = now.with_busy(again.ravel().tolist())
        else:
            return sum(victim.nodes.size for victim in victims), moved
    return None, 0


def _nodes(running: Sequence[RunningJob]) -> list[int]:
    return [node for one in running for node in one.nodes.ravel().tolist()]


def measure(seeds: int, *, seconds: float = LIMIT) -> list[MoveRun]:
    """One replay, one defragmentation and one run of the greedy rule for each seed."""
    exact, runs = ALGORITHMS.load("exact"), []
    for seed in range(1, seeds + 1):
        left = left_by_a_replay(seed)
        start = perf_counter()
        found = defragment(left.cluster, JOB, left.running, solver=exact, limits=Limits(seconds=seconds))
        took = perf_counter() - start
        evicted, elsewhere = greedy(left, found.target)
        runs.append(MoveRun(seed, left, found, took, evicted, elsewhere))
    return runs


def report(runs: Sequence[MoveRun]) -> str:
    """A row for each seed."""
    header = ["seed", "running", "in use", "now", "target", "then", "moved", "at least", "s", "KAI evicts", "elsewhere"]
    rows = [
        [
            one.seed,
            len(one.left.running),
            f"{one.left.used:.0%}",
            "-" if one.found.now.objective is None else f"{one.found.now.objective:.1f}",
            f"{one.found.target:.1f}",
            "-" if one.found.outcome.objective is None else f"{one.found.outcome.objective:.1f}",
            f"{one.found.cost:.0f}",
            f"{one.found.least_cost:.0f}",
            f"{one.seconds:.1f}",
            "-" if one.evicted is None else one.evicted,
            "-" if one.evicted is None else one.elsewhere,
        ]
        for one in runs
    ]
    reached = [one for one in runs if one.found.reached <= one.found.target + 1e-9]
    fewer = [one for one in reached if one.evicted is None or one.found.cost <= one.elsewhere]
    lines = [
        ("the target is reached", f"{len(reached)} of {len(runs)}", len(reached) == len(runs)),
        (
            "reached, and no more nodes move than by the greedy rule",
            f"{len(fewer)} of {len(runs)}",
            len(fewer) == len(runs),
        ),
    ]
    return section("Room for 128 nodes at 85 % load", table(header, rows), promises(*lines))
