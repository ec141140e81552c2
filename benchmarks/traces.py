"""Reading traces: rows a second, and memory, for Philly and for a trace of our own of a million jobs."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.public_data import public_data
from benchmarks.report import section, table

ROOT = Path(__file__).parents[1]

PROGRAM = """
import json, sys
from pathlib import Path
from time import process_time
from simulator.traces import read_trace
from simulator.traces.trace_loading import TRACE_READERS

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

for name in TRACE_READERS.names():
    TRACE_READERS.load(name)
before, start = peak(), process_time()
trace = read_trace(sys.argv[1])
seconds = process_time() - start
print(json.dumps({
    "format": trace.format, "jobs": len(trace), "seconds": seconds, "before": before, "after": peak()
}))
"""
"""The peak is that of the address space: what getrusage says includes the process that started this one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One trace read in a process of its own."""

    name: str
    format: str
    jobs: int
    seconds: float  # CPU time of reading, without starting Python
    peak: float  # Largest resident memory in MB, without what stood before reading


def measure(jobs: int) -> list[Reading]:
    """Philly, and our own columns as CSV, JSON lines and Parquet.

    :raises RuntimeError: ``ARNOLD_DATA`` is not set, or a trace cannot be read.
    """
    philly = public_data("philly", "philly.csv.gz")
    with TemporaryDirectory() as name:
        made = _write(Path(name), jobs)
        return [_read("Philly", philly), *(_read("made", file) for file in made)]


def report(readings: Sequence[Reading]) -> str:
    """Speed and memory of each."""
    rows = [
        (
            reading.name,
            reading.format,
            f"{reading.jobs:,}",
            f"{reading.seconds:.2f}",
            f"{reading.jobs / reading.seconds:,.0f}",
            f"{reading.peak:.0f}",
            f"{reading.peak * 1e6 / reading.jobs:.0f}",
        )
        for reading in readings
    ]
    return section(
        "Reading traces",
        table(("trace", "format", "jobs", "CPU s", "jobs a second", "MB", "bytes a job"), rows),
        "Memory is the growth of the largest resident size while reading, each trace in a process of its own (Linux).",
    )


def _write(folder: Path, jobs: int) -> list[Path]:
    """The same jobs in three ways of writing."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    generator = np.random.default_rng(1)
    columns = {
        "job_id": [f"job-{i}" for i in range(jobs)],
        "submit_time": np.sort(generator.random(jobs)) * 3e7,
        "duration": np.exp(generator.normal(6, 2, jobs)) + 1,
        "gpus": 2 ** generator.integers(0, 8, jobs),
        "user": [f"u{i}" for i in generator.integers(0, 500, jobs)],
        "queue": [f"q{i}" for i in generator.integers(0, 20, jobs)],
    }
    rows = pa.table(columns)
    files = [folder / "jobs.csv", folder / "jobs.jsonl", folder / "jobs.parquet"]
    csv.write_csv(rows, files[0])
    with files[1].open("w", encoding="utf-8") as file:
        for batch in rows.to_batches(10_000):
            file.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
    parquet.write_table(rows, files[2])
    return files


def _read(name: str, path: Path) -> Reading:
    command = [sys.executable, "-c", PROGRAM, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{path.name} cannot be read: {done.stderr}")
    found = json.loads(done.stdout)
    peak = (found["after"] - found["before"]) * 1024 / 1e6
    return Reading(name, found["format"], found["jobs"], found["seconds"], peak)
