"""What the order of a long backlog costs: jobs that come faster than they end, under several policies."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from benchmarks.report import promises, section, table
from scheduler.placement.types import ALGORITHMS, Limits
from scheduler.queue.policy import POLICIES
from simulator.engine import Engine
from simulator.job_record import JobRecord
from simulator.pools import NodePool
from topology.generate import generate

NODES = 128
SIZES = (1, 1, 1, 2, 2, 4, 8, 16)  # nodes of a job
NAMESPACES = 6, 200
GROWTH = 1.5  # exponent of processor time against jobs; 2 if every pass looked at every job that waits


@dataclass(frozen=True, slots=True)
class Ordered:
    """One run."""

    policy: str
    namespaces: int
    jobs: int
    cpu: float  # Seconds of processor time, placement by `gpu-packing` included


def measure(sizes: Sequence[int]) -> list[Ordered]:
    """One job a second, each for some hours: all but some hundred of them wait at the end of the submissions."""
    found = []
    for policy, namespaces in (("priority-age", 1), *(("fair-share", count) for count in NAMESPACES)):
        for jobs in sizes:
            pool = NodePool(
                generate("minipods", minipods=8, nodes=NODES),
                algorithm=ALGORITHMS.load("gpu-packing"),
                limits=Limits(workers=1),
            )
            engine = Engine(_jobs(jobs, namespaces), pool, POLICIES.load(policy))
            before = process_time()
            engine.run()
            found.append(Ordered(policy, namespaces, jobs, process_time() - before))
    return found


def _jobs(count: int, namespaces: int) -> list[JobRecord]:
    rng = np.random.default_rng(1)
    nodes, seconds = rng.choice(SIZES, count), rng.integers(600, 40_000, count)
    rows = zip(nodes.tolist(), seconds.tolist(), rng.integers(namespaces, size=count).tolist(), strict=True)
    return [
        JobRecord(f"j{i}", i, runs, 8 * of_job, nodes=of_job, queue=f"team-{team}")
        for i, (of_job, runs, team) in enumerate(rows)
    ]


def report(rows: Sequence[Ordered]) -> str:
    """The table, each time beside that of ``priority-age`` with as many jobs, and what was promised."""
    plain = {row.jobs: row.cpu for row in rows if row.policy == "priority-age"}
    cells = [
        [row.policy, row.namespaces, row.jobs, f"{row.cpu:.2f}", f"{row.cpu / plain[row.jobs]:.2f}"] for row in rows
    ]
    kept = []
    for namespaces in NAMESPACES:
        runs = sorted((one.jobs, one.cpu) for one in rows if (one.policy, one.namespaces) == ("fair-share", namespaces))
        (fewest, least), *_, (most, longest) = runs
        exponent = float(np.log(longest / least) / np.log(most / fewest))
        said = f"fair-share of {namespaces} namespaces: processor time grows slower than jobs^{GROWTH:g}"
        kept.append((said, f"jobs^{exponent:.2f}", exponent < GROWTH))
    header = ["policy", "namespaces", "jobs", "CPU, s", "against priority-age"]
    return section("A backlog in order", table(header, cells), promises(*kept))
