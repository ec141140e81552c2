"""Whether answers come at once: ``arnold --help`` against a bare interpreter, and ``arnold place`` from the first
import to the last line, in processor time.
"""

import csv
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.report import promises, section
from benchmarks.scale import DOMAIN_NODES, HUGE_NODES, UNEVENNESS
from topology.generate import fragment, minipods

RATIO = 6.0
BUSY_SHARE = 0.4  # Of the nodes of the drawn clusters, where earlier jobs came and went
ZONE_MINIPODS = 2  # Minipods of a zone, the broadest of the three levels that the drawn clusters have
GANG = "name: gang\ngpus_per_node: 8\nparallelism: {tp: 8, pp: 4, dp: 8}\nalpha: 0.5\n"  # 32 nodes

TUTORIAL = {  # docs/tutorial/first-placement.md
    "cluster.csv": """\
node,minipod,rack,gpus,free_gpus
n01,mp1,r1,8,8
n02,mp2,r3,8,8
n03,mp1,r1,8,8
n04,mp2,r3,8,8
n05,mp1,r2,8,0
n06,mp2,r4,8,8
""",
    "job.yaml": "name: small\ngpus_per_node: 8\nparallelism: {tp: 8, dp: 2, pp: 2}\nalpha: 0.7\n",
}

COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of what is measured: modules are compiled once, not by each run."""

PLACE = ("place", "--cluster", "cluster.csv", "--job", "job.yaml")

READ = """
from time import process_time
from topology.load import load_topology
import topology.readers.cluster_csv
begun = process_time()
load_topology("cluster.csv")
print(process_time() - begun)
"""
"""Prints the processor seconds of reading a cluster, without those of imports."""

AGAIN = """
from time import process_time
from scheduler.library import load, place
instance = load("cluster.csv", "job.yaml")
place(instance)
begun = process_time()
place(instance)
print(process_time() - begun)
"""
"""Prints the processor seconds of the second placement of a job on a cluster in one process."""

Times = tuple[list[float], list[float]]


@dataclass(frozen=True, slots=True)
class Line:
    """What somebody waits for, in processor seconds, the least of some runs."""

    what: str
    wanted: float
    seconds: float


def measure(runs: int) -> Times:
    """Seconds of the bare interpreter and of ``arnold --help``, run in turn so that both see the same machine."""
    bare = [sys.executable, "-c", "pass"]
    arnold = [*_arnold(), "--help"]
    for command in (bare, arnold):
        _seconds(command)  # byte code and disk cache
    pairs = [(_seconds(bare), _seconds(arnold)) for _ in range(runs)]
    return [first for first, _ in pairs], [second for _, second in pairs]


def measure_place(runs: int) -> list[Line]:
    """Processor seconds of ``arnold place`` and of its parts, on clusters that are drawn and written here."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        tutorial, demo, small, large = (folder / part for part in ("tutorial", "demo", "small", "large"))
        for made in (tutorial, small, large):
            made.mkdir()
        for file, text in TUTORIAL.items():
            (tutorial / file).write_text(text, encoding="utf-8")
        for drawn, nodes in ((small, 1_000), (large, HUGE_NODES)):
            (drawn / "job.yaml").write_text(GANG, encoding="utf-8")
            _draw(drawn / "cluster.csv", nodes)
        page = str(folder / "demo.html")
        subprocess.run(
            [*_arnold(), "demo", "--html", page, "--save", str(demo), "--time-limit", "0.1"],
            check=True,
            capture_output=True,
            env=COMPILED,
        )
        read, again = ([sys.executable, "-c", code] for code in (READ, AGAIN))
        place = [*_arnold(), *PLACE]
        asked: list[tuple[str, float, Callable[[], float]]] = [
            ("`place`, six nodes (the tutorial's)", 0.5, partial(_processor, place, tutorial)),
            ("gang of 32 on 1,000 nodes", 0.6, partial(_processor, place, small)),
            (f"{HUGE_NODES:,} nodes read", 0.35, partial(_printed, read, large)),
            (f"gang of 32 on {HUGE_NODES:,} nodes, whole command", 1.0, partial(_processor, place, large)),
            ("`place` on them in one process, second time", 0.05, partial(_printed, again, large)),
            ("README's 1,200-node job, whole command", 1.5, partial(_processor, place, demo)),
        ]
        return [Line(what, wanted, min(run() for _ in range(runs))) for what, wanted, run in asked]


def report(times: Times, lines: Sequence[Line]) -> str:
    """Medians and their ratio, and the processor time of answers."""
    bare, arnold = (median(side) for side in times)
    ratio = arnold / bare
    return section(
        f"Start-up, median of {len(times[0])} runs in turn",
        f"`python -c pass` {bare * 1000:.1f} ms, `arnold --help` {arnold * 1000:.1f} ms.",
        promises(
            (f"at most {RATIO:g} times the bare interpreter", f"{ratio:.1f} times", ratio <= RATIO),
            *(
                (f"{line.what}: {line.wanted:g} s", f"{line.seconds:.2f} s", line.seconds <= line.wanted)
                for line in lines
            ),
        ),
    )


def _arnold() -> list[str]:
    return [str(Path(sysconfig.get_path("scripts")) / "arnold")]


def _draw(file: Path, nodes: int) -> None:
    """Write a cluster of three levels with a share of its nodes in use, in our own format."""
    whole = minipods(minipods=nodes // DOMAIN_NODES, nodes=nodes, rack_nodes=8, unevenness=UNEVENNESS, seed=1)
    cluster = fragment(whole, BUSY_SHARE, seed=1)
    with file.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["node", "zone", "minipod", "rack", "gpus", "free_gpus"])
        minipod_of = cluster.levels[0].domain_of.tolist()
        zones = (f"z{minipod // ZONE_MINIPODS + 1:02d}" for minipod in minipod_of)
        rows.writerows(
            [node.name, zone, *node.path, node.gpus, node.free_gpus] for node, zone in zip(cluster, zones, strict=True)
        )


def _seconds(command: Sequence[str]) -> float:
    start = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=COMPILED)
    return perf_counter() - start


def _processor(command: Sequence[str], folder: Path) -> float:
    """Return the processor seconds, user and system, of a command that runs in a folder."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, check=True, cwd=folder, capture_output=True, env=COMPILED)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _printed(command: Sequence[str], folder: Path) -> float:
    """Return the seconds that a program prints which runs in a folder."""
    return float(subprocess.run(command, check=True, cwd=folder, stdout=subprocess.PIPE, env=COMPILED).stdout)
