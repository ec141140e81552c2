"""A year of an LLM cluster of 2,046 nodes with failures, replayed."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from time import perf_counter, process_time

from benchmarks.report import Promise, promises, section, table
from simulator.failures.cluster_failures import FailureSettings
from simulator.failures.failure_process import FailureModel
from simulator.failures.rates import RATES
from simulator.replay import prepare
from simulator.replay_settings import ReplaySettings
from simulator.results.run_summary import run_ettr
from simulator.traces import JobTrace
from simulator.workload import WorkloadSpec, generate
from topology.generate import minipods

MOST_SECONDS = 60.0
YEAR_DAYS = 365.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """One run.

    :param making: seconds to make the workload and put the run together.
    :param seconds: of the run.
    :param policy: of these, inside the scheduler.
    :param cpu: processor seconds of the run, which a busy machine does not stretch.
    :param megabytes: peak memory of the process.
    """

    algorithm: str
    days: float
    jobs: int
    events: int
    interrupted: int
    making: float
    seconds: float
    policy: float
    cpu: float
    megabytes: float
    ettr: float


def measure(days: float, algorithm: str) -> Replayed:
    """Gangs of 1 to 128 nodes that ask for 80 % of the cluster, the failures of RSC-1, 20 spares, EASY backfill."""
    cluster = minipods()
    start = perf_counter()
    spec = WorkloadSpec(days=days, gpus=int(cluster.gpus.sum()), load=0.8, kinds=("other", "pretraining"))
    failures = FailureSettings(FailureModel(rate=RATES["rsc-1"]), spares=20)
    settings = ReplaySettings(policy="fifo-backfill", cost="none", algorithm=algorithm, failures=failures)
    replay = prepare(JobTrace(generate(spec)), cluster, settings)
    engine, made, cpu = replay.engine, perf_counter(), process_time()
    engine.run()
    ended = perf_counter()
    return Replayed(
        algorithm=algorithm,
        days=days,
        jobs=engine.completed,
        events=engine.events,
        interrupted=sum(len(job.runs) for job in engine.jobs),
        making=made - start,
        seconds=ended - made,
        policy=engine.policy_seconds,
        cpu=process_time() - cpu,
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        ettr=run_ettr(engine.jobs) or 0.0,
    )


def report(run: Replayed) -> str:
    """The run, and the promise for a whole year."""
    times = ("making, s", "replay, s", "scheduler, s", "processor, s")
    header = ("algorithm", "days", "jobs", "events", "interrupted", *times, "MB", "ETTR")
    row = (
        run.algorithm,
        f"{run.days:g}",
        f"{run.jobs:,}",
        f"{run.events:,}",
        f"{run.interrupted:,}",
        f"{run.making:.1f}",
        f"{run.seconds:.1f}",
        f"{run.policy:.1f}",
        f"{run.cpu:.1f}",
        f"{run.megabytes:.0f}",
        f"{run.ettr:.4f}",
    )
    wanted = Promise(
        f"a year of 2,046 nodes with failures in less than {MOST_SECONDS:g} s",
        f"{run.seconds:.1f} s for {run.days:g} days",
        run.seconds < MOST_SECONDS and run.days >= YEAR_DAYS,
    )
    return section("A year of an LLM cluster with failures", table(header, [row]), promises([wanted]))
