"""How long ``arnold --help`` takes against an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.report import Promise, promises, section

RATIO = 6.0

Times = tuple[list[float], list[float]]


def measure(runs: int) -> Times:
    """Seconds of the bare interpreter and of ``arnold --help``, run in turn so that both see the same machine."""
    bare = [sys.executable, "-c", "pass"]
    arnold = [str(Path(sysconfig.get_path("scripts")) / "arnold"), "--help"]
    for command in (bare, arnold):
        _seconds(command)  # byte code and disk cache
    pairs = [(_seconds(bare), _seconds(arnold)) for _ in range(runs)]
    return [first for first, _ in pairs], [second for _, second in pairs]


def report(times: Times) -> str:
    """Medians and their ratio."""
    bare, arnold = (median(side) for side in times)
    ratio = arnold / bare
    return section(
        f"Start-up, median of {len(times[0])} runs in turn",
        f"`python -c pass` {bare * 1000:.1f} ms, `arnold --help` {arnold * 1000:.1f} ms.",
        promises([Promise(f"at most {RATIO:g} times the bare interpreter", f"{ratio:.1f} times", ratio <= RATIO)]),
    )


def _seconds(command: Sequence[str]) -> float:
    start = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - start
