"""Peak memory and whole time of ``arnold place`` on a cluster file of 100,000 nodes: reading, placing, printing."""

import csv
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.commands import run_command
from benchmarks.instances import GPUS
from benchmarks.report import promises, section
from benchmarks.scale import COLUMNS, HUGE_NODES, JOB_SHARE, growing_cluster
from topology.cluster import Cluster

GIGABYTE = 1e9
MEMORY = 1.0
ALPHA = 0.5
COMMAND_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class Usage:
    """One run of the command."""

    nodes: int
    cells: int
    status: str
    gap: float
    solve_seconds: float
    seconds: float  # Wall time of the whole process
    peak: int  # Largest resident memory of the process, bytes


def measure(nodes: int = HUGE_NODES) -> Usage:
    """Run ``arnold place --json`` on a seeded cluster of that size.

    :raises RuntimeError: the command failed.
    """
    cluster = growing_cluster(nodes, seed=1)
    rows = int(JOB_SHARE * np.count_nonzero(cluster.idle)) // COLUMNS
    with TemporaryDirectory() as name:
        file, job = Path(name) / "cluster.csv", Path(name) / "job.yaml"
        _write_csv(cluster, file)
        text = f"name: large\nparallelism: {{tp: {GPUS}, dp: {rows}, pp: {COLUMNS}}}\nalpha: {ALPHA}\nlevel: minipod\n"
        job.write_text(text, encoding="utf-8")
        run = run_command("place", "--cluster", str(file), "--job", str(job))
    return Usage(
        nodes=nodes,
        cells=rows * COLUMNS,
        status=run.document["status"],
        gap=run.document["gap"],
        solve_seconds=run.document["solve_seconds"],
        seconds=run.seconds,
        peak=run.peak,
    )


def report(usage: Usage) -> str:
    """Memory and time against what we promise."""
    gigabytes = usage.peak / GIGABYTE
    return section(
        f"`arnold place` on a file of {usage.nodes:,} nodes, {usage.cells:,} cells",
        f"{usage.status}, gap {usage.gap:.1%}; solver {usage.solve_seconds:.1f} s of {usage.seconds:.1f} s.",
        promises(
            (f"peak memory below {MEMORY:g} GB", f"{gigabytes:.2f} GB", gigabytes < MEMORY),
            (f"whole command below {COMMAND_SECONDS:g} s", f"{usage.seconds:.1f} s", usage.seconds < COMMAND_SECONDS),
        ),
    )


def _write_csv(cluster: Cluster, file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["node", *(level.name for level in cluster.levels), "gpus", "free_gpus"])
        writer.writerows([node.name, *node.path, node.gpus, node.free_gpus] for node in cluster)
