"""Peak memory and whole time of ``arnold place`` on a cluster file of 100,000 nodes: reading, placing, printing."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import perf_counter

import numpy as np

from benchmarks.instances import GPUS
from benchmarks.report import Promise, promises, section
from benchmarks.scale import COLUMNS, HUGE_NODES, HUGE_SECONDS, JOB_SHARE, growing_cluster
from topology.cluster import Cluster

GIGABYTE = 1e9
MEMORY = 1.0
ALPHA = 0.5


@dataclass(frozen=True, slots=True)
class Usage:
    """One run of the command.

    :param peak: largest resident memory of the process, bytes.
    :param seconds: wall time of the whole process.
    """

    nodes: int
    cells: int
    status: str
    gap: float
    solve_seconds: float
    seconds: float
    peak: int


def measure(nodes: int = HUGE_NODES) -> Usage:
    """Run ``arnold place --json`` on a seeded cluster of that size.

    :raises RuntimeError: the command failed.
    """
    cluster = growing_cluster(nodes, seed=1)
    rows = int(JOB_SHARE * np.count_nonzero(cluster.idle)) // COLUMNS
    with TemporaryDirectory() as name, TemporaryFile("w+") as out:
        folder = Path(name)
        _write_csv(cluster, folder / "cluster.csv")
        job = f"name: large\nparallelism: {{tp: {GPUS}, dp: {rows}, pp: {COLUMNS}}}\nalpha: {ALPHA}\nlevel: minipod\n"
        (folder / "job.yaml").write_text(job, encoding="utf-8")
        arnold = str(Path(sysconfig.get_path("scripts")) / "arnold")
        command = [arnold, "place", "--cluster", "cluster.csv", "--job", "job.yaml", "--json"]
        start = perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - start
        if code := os.waitstatus_to_exitcode(status):
            raise RuntimeError(f"{' '.join(command)} ended with {code}")
        out.seek(0)
        document = json.load(out)
    unit = 1 if sys.platform == "darwin" else 1024
    return Usage(
        nodes=nodes,
        cells=rows * COLUMNS,
        status=document["status"],
        gap=document["gap"],
        solve_seconds=document["solve_seconds"],
        seconds=seconds,
        peak=usage.ru_maxrss * unit,
    )


def report(usage: Usage) -> str:
    """Memory and time against what we promise."""
    gigabytes = usage.peak / GIGABYTE
    return section(
        f"`arnold place` on a file of {usage.nodes:,} nodes, {usage.cells:,} cells",
        f"{usage.status}, gap {usage.gap:.1%}; solver {usage.solve_seconds:.1f} s of {usage.seconds:.1f} s.",
        promises(
            [
                Promise(f"peak memory below {MEMORY:g} GB", f"{gigabytes:.2f} GB", gigabytes < MEMORY),
                Promise(
                    f"whole command below {HUGE_SECONDS:g} s", f"{usage.seconds:.1f} s", usage.seconds < HUGE_SECONDS
                ),
            ]
        ),
    )


def _write_csv(cluster: Cluster, file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["node", *(level.name for level in cluster.levels), "gpus", "free_gpus"])
        writer.writerows([node.name, *node.path, node.gpus, node.free_gpus] for node in cluster)
