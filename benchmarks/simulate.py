"""``arnold simulate``: all Philly jobs on 2,500 GPUs, events a second, and cost against jobs and nodes.

The trace is read from the folder that ``ARNOLD_DATA`` names.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

from benchmarks.commands import run_command
from benchmarks.growth import draw_power, exponent, save
from benchmarks.public_data import public_data
from benchmarks.report import promises, section, table
from simulator.replay import prepare
from simulator.replay_settings import ReplaySettings
from simulator.traces import JobTrace, read_trace, scale_load
from topology.build import build_cluster
from topology.cluster import Cluster, Node
from topology.writers import ClusterCsvWriter

PHILLY = ("philly", "philly.csv.gz")
GPUS, RACK, MINIPOD = 8, 16, 64
NODES = 313  # 312 nodes of 8 GPUs and one of 4: 2,500 GPUs

SECONDS, MEMORY, RATE = 30.0, 1e9, 200_000.0


@dataclass(frozen=True, slots=True)
class Whole:
    """One run of the command."""

    policy: str
    load: float  # Factor of `--scale-load`
    # Wall time of the whole process, reading included; `run` of the run alone, `policy` in the scheduler
    seconds: float
    run: float
    policy_seconds: float
    wait: float
    peak: int  # Largest resident memory, bytes


@dataclass(frozen=True, slots=True)
class Part:
    """One run in this process."""

    policy: str
    jobs: int
    nodes: int
    events: int
    seconds: float  # Wall time; `cpu` time of this process, which others on the machine disturb less
    cpu: float


def philly_cluster(nodes: int = NODES) -> Cluster:
    """Racks of 16 nodes of 8 GPUs, minipods of 64; where it is the 313th, the last node has 4."""
    return build_cluster(
        ["minipod", "rack"],
        [
            Node(f"n{i:05d}", (f"m{i // MINIPOD}", f"r{i // RACK}"), gpus, gpus)
            for i in range(nodes)
            for gpus in [GPUS // 2 if i == NODES - 1 else GPUS]
        ],
    )


def measure_whole(loads: Sequence[float]) -> list[Whole]:
    """The command on all jobs, first in first out and with backfilling."""
    found = []
    with TemporaryDirectory() as folder:
        cluster = Path(folder) / "cluster.csv"
        cluster.write_text(ClusterCsvWriter().write(philly_cluster()).text, encoding="utf-8")
        for load in loads:
            for policy in ("fifo", "fifo-backfill"):
                arguments = ["--cluster", str(cluster), "--trace", str(public_data(*PHILLY)), "--policy", policy]
                found.append(_whole([*arguments, "--scale-load", str(load)], policy, load))
    return found


def _whole(arguments: Sequence[str], policy: str, load: float) -> Whole:
    run = run_command("simulate", *arguments)
    told = run.document
    wait = told["wait_seconds"]["mean"]
    return Whole(policy, load, run.seconds, told["wall_seconds"], told["policy_seconds"], wait, run.peak)


def measure_rate(rounds: int) -> Part:
    """The fastest of some runs that count GPUs."""
    trace = read_trace(public_data(*PHILLY))
    runs = [_part(trace, NODES, "fifo", algorithm="none") for _ in range(rounds)]
    return min(runs, key=lambda part: part.seconds)


def measure_jobs(sizes: Sequence[int], policy: str) -> list[Part]:
    """The first jobs of the trace, more and more of them, at six times the load."""
    trace = scale_load(read_trace(public_data(*PHILLY)), 6.0)
    return [_part(replace(trace, records=trace.records[:size]), NODES, policy) for size in sizes]


def measure_nodes(sizes: Sequence[int], policy: str) -> list[Part]:
    """All jobs on more and more nodes, with as many jobs a node and second as the trace has: no job waits."""
    trace = read_trace(public_data(*PHILLY))
    return [_part(scale_load(trace, size / NODES), size, policy) for size in sizes]


def _part(trace: JobTrace, nodes: int, policy: str, *, algorithm: str = "exact") -> Part:
    replay = prepare(trace, philly_cluster(nodes), ReplaySettings(policy, algorithm, cost="none"), lenient=True)
    engine = replay.engine
    started, before = perf_counter(), process_time()
    engine.run()
    return Part(policy, len(engine.jobs), nodes, engine.events, perf_counter() - started, process_time() - before)


def report(whole: Sequence[Whole], rate: Part, jobs: Sequence[Part], nodes: Sequence[Part]) -> str:
    """The tables and what was promised."""
    rows = [
        [
            one.policy,
            f"{one.load:g}",
            f"{one.wait / 3600:.2f}",
            f"{one.seconds:.1f}",
            f"{one.run:.1f}",
            f"{one.policy_seconds:.1f}",
            f"{one.peak / 1e6:.0f}",
        ]
        for one in whole
    ]
    usual = [one for one in whole if one.load == 1.0]
    slowest, largest = max(one.seconds for one in usual), max(one.peak for one in usual)
    speed = rate.events / rate.seconds
    lines = [
        (f"fifo and fifo-backfill below {SECONDS:g} s", f"{slowest:.1f} s", slowest < SECONDS),
        (f"below {MEMORY / 1e9:g} GB", f"{largest / 1e9:.2f} GB", largest < MEMORY),
        (f"at least {RATE:,.0f} events/s without placement", f"{speed:,.0f}", speed >= RATE),
    ]
    return section(
        "All 82,247 Philly jobs on 2,500 GPUs: 312 nodes of 8 and one of 4, racks of 16 nodes, minipods of 64",
        table(["policy", "load", "mean wait, h", "process, s", "run, s", "scheduler, s", "peak, MB"], rows),
        promises(*lines),
        _growth("jobs", jobs, [part.jobs for part in jobs]),
        _growth("nodes, each with the trace's load, at which no job waits", nodes, [part.nodes for part in nodes]),
    )


def plot(jobs: Sequence[Part], nodes: Sequence[Part], file: Path) -> None:
    """Draw CPU time over jobs and over nodes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    draw_power(left, [part.jobs for part in jobs], [part.cpu for part in jobs], what="jobs", label="replay")
    left.set(xlabel="jobs, at six times the load", ylabel="CPU seconds", title="Philly on 313 nodes: jobs wait")
    draw_power(right, [part.nodes for part in nodes], [part.cpu for part in nodes], what="nodes", label="replay")
    right.set(xlabel="nodes, with as much load each", title="82,247 jobs: nobody waits")
    for axes, sizes in ((left, [part.jobs for part in jobs]), (right, [part.nodes for part in nodes])):
        axes.set_xticks(sizes, labels=[f"{size:,}" for size in sizes])
        axes.set_xticks([], minor=True)
    seconds = [1, 2, 5, 10]
    left.set_yticks(seconds, labels=[f"{one}" for one in seconds])
    left.set_yticks([], minor=True)
    save(figure, file)


def _growth(what: str, parts: Sequence[Part], sizes: Sequence[int]) -> str:
    """Cost against a size, and its exponent: the slope of a line through the logarithms."""
    if len(parts) < 2:
        return ""
    slope = exponent(sizes, [part.cpu for part in parts])
    rows = [[part.policy, part.jobs, part.nodes, f"{part.seconds:.1f}", f"{part.cpu:.1f}"] for part in parts]
    header = ["policy", "jobs", "nodes", "wall, s", "CPU, s"]
    return "\n\n".join([f"Against {what}: CPU time grows with the power {slope:.2f}.", table(header, rows)])
