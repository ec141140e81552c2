"""``arnold stragglers``: the published traces against the artifact's own analysis, and a trace of 1,024 workers.

The published traces are read from the folder that ``ARNOLD_DATA`` names.  Their own analysis, the artifact
ByteDance-Seed/StragglerAnalysis, is not run here: its time is the stated one, of two cores.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.commands import ROOT, CommandRun, run_command
from benchmarks.public_data import public_data
from benchmarks.report import promises, section, table

ARTIFACT_SECONDS = 13.0  # Of AR and ST together, on two cores; stated by those who ran it, not measured here

TIMES_FASTER = 20.0
DIGITS = 1e-6
LARGE_SECONDS = 20.0
LARGE_GIGABYTES = 4.0
GIGABYTE = 1e9
PUBLISHED = ("AR", "ST")

BOTH = """
import json, sys
from health import whatif
from ground.files import read_source
for trace, meta in zip(sys.argv[1::2], sys.argv[2::2]):
    read = whatif.read_trace(trace, sizes=whatif.read_metadata(read_source(meta)))
    found = whatif.analyse(whatif.prepare(read))
    print(found.slowdown, found.m_w, found.m_s)
"""
"""The three metrics of several traces in one process."""


@dataclass(frozen=True, slots=True)
class Large:
    """The synthetic trace."""

    workers: int
    steps: int
    rows: int
    megabytes: float
    run: CommandRun


@dataclass(frozen=True, slots=True)
class Published:
    """The published traces."""

    # Seconds of one process that computes the three metrics of both, interpreter and imports included
    both: list[float]
    runs: list[tuple[str, CommandRun]]  # Of the command, each with the name of its trace
    difference: float  # Largest relative difference of a metric from the published


def measure_published(rounds: int) -> Published:
    """Every published trace, ``rounds`` times in turn.

    :raises RuntimeError: the command failed, or ``ARNOLD_DATA`` is not set.
    """
    folder = public_data("straggler")
    files = {name: (str(folder / f"trace-{name}.parquet"), str(folder / f"meta-{name}.yaml")) for name in PUBLISHED}
    both, runs = [], []
    for _ in range(rounds + 1):  # the first warms byte code and disk cache
        start = perf_counter()
        arguments = [argument for pair in files.values() for argument in pair]
        subprocess.run([sys.executable, "-c", BOTH, *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        both.append(perf_counter() - start)
        runs += [(name, run_command("stragglers", trace, "--meta", meta)) for name, (trace, meta) in files.items()]
    difference = max(_difference(folder, name, run) for name, run in runs[-len(PUBLISHED) :])
    return Published(both[1:], runs[len(PUBLISHED) :], difference)


def measure_large(*, dp: int, pp: int, microbatches: int, steps: int) -> Large:
    """A trace of ``dp * pp`` workers, made in a process of its own so that its memory does not count.

    :raises RuntimeError: a process failed.
    """
    with TemporaryDirectory() as name:
        trace, meta = Path(name) / "trace.parquet", Path(name) / "meta.yaml"
        code = (
            "import sys; from health.whatif.synthetic import Recipe, make_trace;"
            "from health.whatif.synthetic import trace_file; from health.whatif.trace import metadata_file;"
            "from ground.files import write_file;"
            f"made = make_trace(Recipe(dp={dp}, pp={pp}, tp=8, microbatches={microbatches}, steps={steps}, seed=1, "
            f"slow={{({dp // 2}, {pp // 2}): 1.5}}));"
            "write_file(sys.argv[1], trace_file(made)); write_file(sys.argv[2], metadata_file(made.sizes))"
        )
        subprocess.run([sys.executable, "-c", code, trace, meta], check=True, cwd=ROOT)
        import pyarrow.parquet as pq

        rows = pq.read_metadata(trace).num_rows
        run = run_command("stragglers", str(trace), "--meta", str(meta))
        return Large(dp * pp, steps, rows, trace.stat().st_size / 1e6, run)


def report_published(published: Published) -> str:
    """Times and digits of the published traces."""
    runs = published.runs
    of = {name: [run for ran, run in runs if ran == name] for name in PUBLISHED}
    seconds = {name: median(run.seconds for run in of[name]) for name in PUBLISHED}
    both = median(published.both)
    faster, worst = ARTIFACT_SECONDS / both, published.difference
    rows = [
        (
            name,
            f"{seconds[name]:.2f}",
            f"{of[name][0].peak / 1e6:.0f}",
            f"{of[name][0].document['slowdown']:.4f}",
            f"{of[name][0].document['m_w']:.4f}",
            f"{of[name][0].document['m_s']:.4f}",
            of[name][0].document["cause"],
        )
        for name in PUBLISHED
    ]
    return section(
        f"`arnold stragglers` on the published traces, median of {len(runs) // len(PUBLISHED)} runs",
        table(["trace", "seconds", "MB", "S", "M_W", "M_S", "cause"], rows),
        "Whole processes, interpreter and imports included. The three metrics of both traces in one process, without "
        f"the command line: {both:.2f} s, at best {min(published.both):.2f} s; the artifact takes "
        f"{ARTIFACT_SECONDS:g} s for both (stated, on two cores).",
        promises(
            (f"at least {TIMES_FASTER:g} times faster", f"{faster:.0f} times", faster >= TIMES_FASTER),
            (f"S, M_W and M_S within {DIGITS:g} of the published", f"{worst:.1e}", worst <= DIGITS),
        ),
    )


def report_large(large: Large) -> str:
    """Time and memory of the synthetic trace."""
    seconds, gigabytes = large.run.seconds, large.run.peak / GIGABYTE
    return section(
        f"`arnold stragglers` on a synthetic trace of {large.workers:,} workers, {large.steps} steps",
        f"{large.rows:,} rows, {large.megabytes:.0f} MB; S {large.run.document['slowdown']:.3f}, "
        f"cause {large.run.document['cause']}, S_w of every worker exact.",
        promises(
            (f"below {LARGE_SECONDS:g} s", f"{seconds:.1f} s", seconds < LARGE_SECONDS),
            (f"below {LARGE_GIGABYTES:g} GB", f"{gigabytes:.2f} GB", gigabytes < LARGE_GIGABYTES),
        ),
    )


def _difference(folder: Path, name: str, run: CommandRun) -> float:
    """Largest relative difference of S, M_W and M_S from the published."""
    published = {
        "slowdown": _published(folder, f"result-{name}.json", "blocking_slowdown"),
        "m_w": _published(folder, f"mw-{name}.json", "Mw"),
        "m_s": _published(folder, f"ms-{name}.json", "Ms"),
    }
    return max(abs(float(run.document[key]) / value - 1.0) for key, value in published.items())


def _published(folder: Path, file: str, key: str) -> float:
    return float(json.loads((folder / file).read_text(encoding="utf-8"))[key])
