"""A study on four Dask workers against one process, on the cores there are; with the same rows."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter, process_time

import numpy as np

from benchmarks.report import promises, section, table
from scheduler.study.executors import Executor, Here, Processes
from simulator.job_record import JobRecord
from simulator.study import Inputs, OnDask, StudyGrid, Swept, sweep
from simulator.traces import JobTrace
from topology.generate import minipods

WORKERS = 4
RATIO = 1.6
SIZES = (1, 2, 4, 8, 16, 64, 256)
SHARES = (0.4, 0.1, 0.1, 0.2, 0.1, 0.07, 0.03)


@dataclass(frozen=True, slots=True)
class Race:
    """One study, several ways."""

    runs: int
    jobs: int
    seconds: dict[str, float]  # Wall time by way; workers that stand already are not started in it
    # CPU seconds of all processes by way: what wall time would be made of on a machine that is left alone
    work: dict[str, float]
    same: bool  # Whether all ways gave the same rows

    def ratio(self, way: str) -> float:
        """How many times as fast as one process."""
        return self.seconds["one process"] / self.seconds[way]


def study_of(jobs: int) -> Inputs:
    """So many jobs on 640 GPUs in minipods, about as much work as they can do."""
    rng = np.random.default_rng(1)
    gpus = rng.choice(SIZES, size=jobs, p=SHARES)
    durations = rng.lognormal(8.0, 1.2, jobs)
    span = float((gpus * durations).sum()) / (640 * 0.85)
    submits = np.sort(rng.uniform(0.0, span, jobs))
    rows = zip(submits.tolist(), durations.tolist(), gpus.tolist(), strict=True)
    records = tuple(JobRecord(f"j{i}", submit, took, size) for i, (submit, took, size) in enumerate(rows))
    return Inputs(JobTrace(records, source="drawn"), {"pods": minipods(minipods=4, nodes=80)}, resample=span / 12)


def measure(jobs: int, seeds: int) -> Race:
    """Make the study in this process, in two, and on a Dask cluster of this machine."""
    from distributed import Client, LocalCluster

    inputs = study_of(jobs)
    grid = StudyGrid(["fifo", "fifo-backfill"], ["gpu-packing"], ["pods"], seeds=range(seeds))
    seconds, work = dict[str, float](), dict[str, float]()
    found: list[Swept] = []

    def race(way: str, executor: Executor, used: Callable[[], float]) -> None:
        begin, before = perf_counter(), used()
        found.append(sweep(inputs, grid.points, executor, title="drawn", version="benchmark"))
        seconds[way], work[way] = perf_counter() - begin, used() - before

    race("one process", Here(), _used)
    race("2 processes", Processes(2), _used)
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as to,
    ):
        warm = StudyGrid(["fifo"], ["gpu-packing"], ["pods"], seeds=range(WORKERS))
        small = Inputs(JobTrace(inputs.trace.records[:10]), inputs.clusters)
        sweep(small, warm.points, OnDask(cluster.scheduler_address), title="warm", version="benchmark")
        race(f"{WORKERS} Dask workers", OnDask(cluster.scheduler_address), lambda: sum(to.run(process_time).values()))
    return Race(len(grid.points), jobs, seconds, work, all(one.rows == found[0].rows for one in found))


def _used() -> float:
    """CPU seconds of this process and of those that it has started and that have ended."""
    return sum(one.ru_utime + one.ru_stime for one in (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)))


def report(race: Race) -> str:
    """The table and the promise."""
    rows = [
        (way, f"{took:.1f}", f"{race.work[way]:.1f}", f"{race.ratio(way):.2f}") for way, took in race.seconds.items()
    ]
    ratio = race.ratio(f"{WORKERS} Dask workers")
    lines = [
        (f"{WORKERS} Dask workers at least {RATIO} times one process", f"{ratio:.2f}", ratio >= RATIO),
        ("the same rows every way", "the same" if race.same else "different", race.same),
    ]
    what = f"{race.runs} runs of {race.jobs:,} jobs on 80 nodes, on {len(os.sched_getaffinity(0))} cores."
    return section(
        "Studies in parallel", what, table(["where", "seconds", "CPU seconds", "times as fast"], rows), promises(*lines)
    )
