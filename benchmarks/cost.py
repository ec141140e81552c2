"""What a question to the models of communication costs: one placed job, and many jobs that share links."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.report import section, table
from scheduler.job import Job, Parallelism
from simulator.cost.shared_flows import SharedFlows
from simulator.cost.step import COMM_MODELS, PlacedJob
from topology.cluster import Cluster
from topology.generate import minipods

T = TypeVar("T")

SHAPES = ((1, 1), (2, 1), (8, 1), (8, 4), (64, 8), (150, 8))  # Rows and columns of the jobs

CROWDS = (1, 10, 50, 200)  # Jobs that run together


@dataclass(frozen=True, slots=True)
class Crowd:
    """Jobs of random sizes on random nodes."""

    jobs: int
    cells: int  # Nodes of all jobs
    first: float  # Seconds of the first question, when the jobs are new
    again: float  # Seconds when they are known and one has ended


def measure_alone(rounds: int) -> dict[tuple[str, tuple[int, int]], float]:
    """Median seconds of ``relative_step_time`` of one job on random nodes, by model and shape."""
    cluster = minipods()
    rng = np.random.default_rng(0)
    seconds = {}
    for name in COMM_MODELS.names():
        model = COMM_MODELS.load(name)
        for shape in SHAPES:
            jobs = [_placed(cluster, rng.permutation(len(cluster)), shape) for _ in range(rounds)]
            seconds[name, shape] = median(_seconds(model.relative_step_time, placed) for placed in jobs)
    return seconds


def measure_crowds(rounds: int) -> list[Crowd]:
    """Seconds of ``step_times`` of ``flows`` for all jobs of a cluster of 2,046 nodes."""
    cluster = minipods()
    crowds = []
    for count in CROWDS:
        model = SharedFlows()
        first, again, cells = [], [], 0
        for seed in range(rounds):
            running = _crowd(cluster, count, seed)
            cells = sum(placed.nodes.size for placed in running)
            first.append(_seconds(model.step_times, running))
            again.append(_seconds(model.step_times, running[1:] or running))
        crowds.append(Crowd(count, cells, median(first), median(again)))
    return crowds


def report(alone: dict[tuple[str, tuple[int, int]], float], crowds: Sequence[Crowd]) -> str:
    """Two tables."""
    header = ["model", *(f"{rows} x {columns}" for rows, columns in SHAPES)]
    names = dict.fromkeys(name for name, _ in alone)
    rows = [[name, *(f"{alone[name, shape] * 1e6:.0f}" for shape in SHAPES)] for name in names]
    shared = [[crowd.jobs, crowd.cells, f"{crowd.first * 1e3:.1f}", f"{crowd.again * 1e3:.1f}"] for crowd in crowds]
    return section(
        "Models of communication",
        "Microseconds to price one job of so many rows and columns, on random nodes of 2,046 in 22 minipods:",
        table(header, rows),
        "Milliseconds to share the links among all jobs (`flows`), on random nodes of the same cluster: new jobs, and "
        "the same when one has ended:",
        table(["jobs", "nodes", "new", "one has ended"], shared),
    )


def _placed(cluster: Cluster, order: npt.NDArray[np.int64], shape: tuple[int, int]) -> PlacedJob:
    job = Job("job", Parallelism(tp=8, dp=shape[0], pp=shape[1]))
    nodes = order[: shape[0] * shape[1]].reshape(shape).astype(np.int32)
    return PlacedJob(job, cluster, nodes)


def _crowd(cluster: Cluster, count: int, seed: int) -> list[PlacedJob]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(cluster))
    most = min(64, len(cluster) // count // 4)
    running = []
    for _ in range(count):
        shape = (int(rng.integers(1, most + 1)), int(rng.choice([1, 2, 4])))
        running.append(_placed(cluster, order, shape))
        order = order[shape[0] * shape[1] :]
    return running


def _seconds(ask: Callable[[T], object], question: T) -> float:
    start = perf_counter()
    ask(question)
    return perf_counter() - start
