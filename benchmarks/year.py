"""A year of an LLM cluster of 2,046 nodes with failures, replayed; and whether the whole search agrees on each gang."""

import resource
from dataclasses import dataclass, field
from time import perf_counter, process_time
from unittest.mock import patch

import numpy as np

from benchmarks.report import promises, section, table
from scheduler.algorithm_run import run
from scheduler.job import Job
from scheduler.outcome import Outcome
from scheduler.placement.exact.lattice import Lattice, PairSearch
from scheduler.placement.exact.problem import GridProblem, GridReduction
from scheduler.placement.exact.schedule import search_pairs
from scheduler.placement.types import Limits, Pair, PlacementAlgorithm
from simulator.failures.cluster_failures import FailureModel, FailureSettings
from simulator.failures.rates import RATES
from simulator.replay import prepare
from simulator.replay_settings import ReplaySettings
from simulator.results import run_ettr
from simulator.traces import JobTrace
from simulator.workload import WorkloadSpec, generate
from topology.cluster import Cluster, FloatArray
from topology.generate import minipods

MOST_SECONDS = 60.0
MOST_MS = 0.5
YEAR_DAYS = 365.0
SEARCH = Limits(workers=1)


@dataclass(frozen=True, slots=True)
class Answered:
    """One gang: its grid on the cluster of that moment, and its spreads; ``None`` = it has no room."""

    problem: GridProblem | None
    alpha: float
    pair: Pair | None
    proved: bool


@dataclass
class Calls:
    """The placement calls of a run, algorithm and evaluator."""

    every: int = 0  # Each so manieth is kept, to be checked; 0 = none is
    count: int = 0
    seconds: float = 0.0  # of the processor
    keeping: float = 0.0  # of these, to keep some
    kept: list[Answered] = field(default_factory=list)

    def run(
        self,
        algorithm: PlacementAlgorithm,
        cluster: Cluster,
        job: Job,
        limits: Limits,
        *,
        costs: FloatArray | None = None,
    ) -> Outcome:
        """Ask the algorithm as the replay does."""
        begun = process_time()
        outcome = run(algorithm, cluster, job, limits, costs=costs)
        ended = process_time()
        self.count += 1
        self.seconds += ended - begun
        if self.every and self.count % self.every == 0:
            found, reduction = outcome.evaluation, GridReduction(cluster, job, 1.0)
            problem = None if reduction.refusal else reduction.problem
            pair = None if found is None else (found.dp, found.pp)
            self.kept.append(Answered(problem, job.alpha, pair, outcome.status in ("optimal", "infeasible")))
            self.keeping += process_time() - ended
        return outcome


@dataclass(frozen=True, slots=True)
class Checked:
    """What the whole search of pairs said of some calls."""

    calls: int
    same: int  # with the same (S, R), or no room either way
    dearer: int  # with a dearer pair than that of the search
    cheaper: int  # with a cheaper one: the search had run out of time
    unproved: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """One run."""

    algorithm: str
    days: float
    jobs: int
    events: int
    interrupted: int
    making: float  # Seconds to make the workload and put the run together
    seconds: float  # Of the run
    cpu: float  # Processor seconds of the run, which a busy machine stretches less
    calls: int  # Placement calls; `call_ms`: of the processor, each on average
    call_ms: float
    megabytes: float  # Peak memory of the process
    ettr: float
    checked: Checked | None = None


def measure(days: float, algorithm: str, *, check: int = 0) -> Replayed:
    """Gangs of 1 to 128 nodes that ask for 80 % of the cluster, the failures of RSC-1, 20 spares, EASY backfill.

    :param check: placement calls, evenly spread over the run, that the whole search is asked as well.
    """
    cluster = minipods()
    start = perf_counter()
    spec = WorkloadSpec(days=days, gpus=int(cluster.gpus.sum()), load=0.8, kinds=("other", "pretraining"))
    failures = FailureSettings(FailureModel(rate=RATES["rsc-1"]), spares=20)
    settings = ReplaySettings(policy="fifo-backfill", cost="none", algorithm=algorithm, failures=failures)
    trace = JobTrace(generate(spec))
    replay = prepare(trace, cluster, settings)
    # two calls of three jobs on average, at least
    calls = Calls(every=max(1, 2 * len(trace.records) // (3 * check)) if check else 0)
    engine, made, cpu = replay.engine, perf_counter(), process_time()
    with patch("simulator.pools.run", calls.run):
        engine.run()
    ended, spent = perf_counter(), process_time() - cpu - calls.keeping
    return Replayed(
        algorithm=algorithm,
        days=days,
        jobs=engine.completed,
        events=engine.events,
        interrupted=sum(len(job.runs) for job in engine.jobs),
        making=made - start,
        seconds=ended - made,
        cpu=spent,
        calls=calls.count,
        call_ms=1e3 * calls.seconds / max(1, calls.count),
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        ettr=run_ettr(engine.jobs) or 0.0,
        checked=checked(calls.kept, check) if check else None,
    )


def checked(answers: list[Answered], most: int) -> Checked:
    """Ask the whole search of pairs for some of the grids, evenly spread, and compare."""
    some = [answers[i] for i in np.linspace(0, len(answers) - 1, min(most, len(answers))).astype(int)]
    same = dearer = cheaper = unproved = 0
    for one in some:
        unproved += not one.proved
        if one.problem is None or one.pair is None:
            same += one.problem is None and one.pair is None
            continue
        lattice = Lattice(one.problem, one.alpha, 1.0 - one.alpha)
        search_pairs(PairSearch(lattice, SEARCH))
        same += one.pair == lattice.best
        dearer += lattice.cost(one.pair) > lattice.cost(lattice.best)
        cheaper += lattice.cost(one.pair) < lattice.cost(lattice.best)
    return Checked(len(some), same, dearer, cheaper, unproved)


def report(run: Replayed) -> str:
    """The run, and the promise for a whole year."""
    times = ("making, s", "replay, s", "processor, s", "calls", "ms a call")
    header = ("algorithm", "days", "jobs", "events", "interrupted", *times, "MB", "ETTR")
    row = (
        run.algorithm,
        f"{run.days:g}",
        f"{run.jobs:,}",
        f"{run.events:,}",
        f"{run.interrupted:,}",
        f"{run.making:.1f}",
        f"{run.seconds:.1f}",
        f"{run.cpu:.1f}",
        f"{run.calls:,}",
        f"{run.call_ms:.2f}",
        f"{run.megabytes:.0f}",
        f"{run.ettr:.4f}",
    )
    kept = [
        (
            f"a year of 2,046 nodes with failures in less than {MOST_SECONDS:g} s of the processor",
            f"{run.cpu:.1f} s for {run.days:g} days",
            run.cpu < MOST_SECONDS and run.days >= YEAR_DAYS,
        ),
        (f"{MOST_MS:g} ms a call, with the evaluator, on average", f"{run.call_ms:.2f} ms", run.call_ms <= MOST_MS),
    ]
    if (found := run.checked) is not None:
        said = f"{found.same:,} of {found.calls:,}; {found.dearer} dearer, {found.cheaper} cheaper"
        kept.append(("the (S, R) of the whole search on every call", said, found.same == found.calls))
        kept.append(("every objective proved", f"all but {found.unproved}", found.unproved == 0))
    return section("A year of an LLM cluster with failures", table(header, [row]), promises(*kept))
