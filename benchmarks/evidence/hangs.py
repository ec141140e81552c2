"""Jobs that hang, by their Flight Recorder dumps: made here, run with PyTorch and gloo, and published."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.evidence.hung_jobs import FaultKind, Shape, hang
from benchmarks.evidence.naming import HEADER, Naming, rows
from benchmarks.evidence.rules import fr_trace, nvrx_attribution, two_rules
from benchmarks.report import section
from benchmarks.report import table as markdown
from ground.files import Source
from health.collectives.flight_recorder_to_json import convert
from health.collectives.reading import diagnose_files, read_trace

SHAPES = (Shape(2, 2, 2), Shape(4, 2, 2), Shape(2, 3, 2), Shape(1, 2, 4))
MADE: tuple[tuple[FaultKind, int], ...] = (
    *(("none", 0), ("lock", 1), ("lock", 2), ("error", 1), ("error", 2)),
    *(("died", 1), ("died", 2), ("gpu", 1)),
)
PUBLISHED = Path("tests", "attribution", "unit", "fr_traces")
EXAMPLE = Path(__file__).parents[2] / "examples" / "hangs" / "hang.py"
JOBS, FAULTS = ("ddp", "fsdp", "groups", "pipeline"), ("none", "hang", "crash", "order", "size")


class HungCase(NamedTuple):
    """A job's dumps, and the ranks to be named."""

    kind: str
    culprits: frozenset[int]
    dumps: list[Source]


def table(*, seeds: int, torch: str, nvrx: str, runs: Path, **_: object) -> str:
    """Who is named, by Arnold, by two rules, by PyTorch's fr_trace where an interpreter has it, and by NVRx where its
    source is given.
    """
    parts = [("Made here", list(made(seeds)))]
    if torch:
        parts.append(("PyTorch with gloo, 4 processes", list(run_here(torch, runs))))
    if nvrx:
        parts.append(("Published by NVIDIA: Megatron, NCCL, 16 GPUs", list(published(Path(nvrx)))))
    tools: dict[str, Callable[[Sequence[HungCase]], list[set[int]]]] = {"Arnold": named_by_arnold}
    tools["two rules"] = lambda cases: [two_rules(case.dumps) for case in cases]
    if torch:
        tools["fr_trace"] = lambda cases: fr_trace(torch, [case.dumps for case in cases])
    if nvrx:
        tools["NVRx"] = lambda cases: nvrx_attribution(nvrx, [case.dumps for case in cases])
    sections = []
    for title, cases in parts:
        lines: list[list[str]] = []
        for tool, name in tools.items():
            namings = (
                Naming(case.kind, case.culprits, frozenset(ranks))
                for case, ranks in zip(cases, name(cases), strict=True)
            )
            lines += rows(tool, namings)
        sections.append(section(title, markdown(["fault", "tool", *HEADER], lines)))
    return "\n".join(["# Hangs: ranks named from Flight Recorder dumps\n", *sections])


def named_by_arnold(cases: Sequence[HungCase]) -> list[set[int]]:
    """The ranks of the culprits of ``arnold health collectives``, however sure."""
    found = [diagnose_files(case.dumps)[1] for case in cases]
    return [{one.members[culprit.member].rank or 0 for culprit in one.culprits} for one in found]


def made(seeds: int) -> Iterator[HungCase]:
    """Every fault in jobs of every shape, in dumps of what is pending alone and of all with its times."""
    for kind, faults in MADE:
        for shape in SHAPES:
            for seed in range(seeds):
                random = np.random.default_rng(seed)
                culprits, dumps = hang(shape, kind, faults, random, timed=bool(seed % 2))
                yield HungCase(f"{kind} x{faults}" if faults else kind, frozenset(culprits), dumps)


def run_here(python: str, folder: Path) -> Iterator[HungCase]:
    """Every fault in every job of ``examples/hangs/hang.py``, by rank 2 early and by rank 1 later.

    :param folder: of the dumps; what stands there is not run again.
    """
    for job in JOBS:
        for fault in FAULTS:
            for rank, after in ((2, 3), (1, 9 if job == "pipeline" else 5)):
                place = folder / f"{job}-{fault}-{rank}"
                if not place.exists():
                    options = ["--job", job, "--fault", fault, "--rank", str(rank), "--after", str(after)]
                    subprocess.run([python, str(EXAMPLE), *options, "--out", str(place)], check=True)
                dumps = [read_trace(str(path)) for path in sorted(place.glob("*.json"))]
                yield HungCase(fault, frozenset({rank} if fault != "none" else ()), dumps)


def published(checkout: Path) -> Iterator[HungCase]:
    """The dumps that NVIDIA's resiliency extension is tested with, and the ranks that its log says were made faulty."""
    for folder in sorted((checkout / PUBLISHED).iterdir()):
        said = re.search(r"Fault ranks: \[([0-9, ]+)\]", (folder / "fault_injection.log").read_text())
        assert said is not None, folder
        with TemporaryDirectory() as place:
            copies = [shutil.copy(path, place) for path in sorted(folder.glob("_dump_*"))]
            dumps = [read_trace(convert(str(copy), "")) for copy in copies]
        yield HungCase(folder.name, frozenset(map(int, said[1].split(","))), dumps)
