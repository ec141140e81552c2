"""One row per run of an algorithm on an instance, kept as JSON lines, so that a long benchmark can stop and resume."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from benchmarks.instances import Instance, draw
from scheduler.algorithm_run import run
from scheduler.placement.types import ALGORITHMS, Limits

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Row:
    """What an algorithm made of an instance."""

    number: int
    family: str
    free: tuple[int, ...]
    rows: int
    columns: int
    alpha: float
    algorithm: str
    status: str  # As in `scheduler.outcome`
    dp: int | None  # S, DP spread; `None` = no placement, as for the other results
    pp: int | None
    objective: float | None
    bound: float | None
    gap: float | None
    seconds: float  # Solver alone
    wall_seconds: float  # Solver and evaluation
    refuted_by: dict[str, int]  # Bound or search -> pairs (S, R) it refuted
    statistics: dict[str, float]  # What the algorithm says of its run
    notes: tuple[str, ...]

    @property
    def proved(self) -> bool:
        """Whether the placement is proved optimal."""
        return self.status == "optimal"


def measure(instance: Instance, algorithm: str, limits: Limits) -> Row:
    """Run an algorithm on an instance; the one evaluator says what came of it."""
    cluster, job = instance.cluster(), instance.job()
    start = perf_counter()
    outcome = run(ALGORITHMS.load(algorithm), cluster, job, limits)
    wall = perf_counter() - start
    found = outcome.evaluation
    return Row(
        **asdict(instance),
        algorithm=algorithm,
        status=outcome.status,
        dp=found.dp if found else None,
        pp=found.pp if found else None,
        objective=outcome.objective,
        bound=outcome.bound,
        gap=outcome.gap,
        seconds=outcome.proposal.solve_seconds,
        wall_seconds=wall,
        refuted_by=dict(Counter(refutation.by for refutation in outcome.proposal.refutations)),
        statistics=dict(outcome.proposal.statistics),
        notes=(*outcome.notes, outcome.reason) if outcome.reason else outcome.notes,
    )


@dataclass(frozen=True, slots=True)
class Campaign:
    """The first ``n`` instances of a seed, by one algorithm, under one limit."""

    algorithm: str
    n: int
    seed: int
    seconds: float  # Time limit of one instance
    jobs: int  # Processes; each solver uses two threads, so 1 is honest on two cores
    folder: Path

    @property
    def file(self) -> Path:
        """Where the rows stand."""
        return self.folder / f"{self.algorithm}-seed{self.seed}-{self.seconds:g}s.jsonl"

    def collect(self, *, fresh: bool = False) -> list[Row]:
        """All rows in order of instance, running only what is missing.

        :param fresh: forget the rows that stand, for example because the algorithm changed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            self.file.unlink(missing_ok=True)
        rows = {row.number: row for row in read_rows(self.file) if row.number < self.n}
        missing = [number for number in range(self.n) if number not in rows]
        if rows and missing:
            print(f"{len(rows)} of {self.n} rows stand in {self.file} (--fresh starts over)", file=sys.stderr)
        with self.file.open("a", encoding="utf-8") as out:
            for row in watched(self._run(missing), label=self.algorithm, total=len(missing)):
                out.write(json.dumps(asdict(row)) + "\n")
                out.flush()
                rows[row.number] = row
        return [rows[number] for number in range(self.n)]

    def _run(self, numbers: Sequence[int]) -> Iterator[Row]:
        if self.jobs == 1:
            yield from map(self.measure, numbers)
            return
        with ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn")) as pool:
            yield from pool.map(self.measure, numbers)

    def measure(self, number: int) -> Row:
        """Run one instance."""
        return measure(draw(number, seed=self.seed), self.algorithm, Limits(seconds=self.seconds, seed=self.seed))


def read_rows(file: Path) -> list[Row]:
    """The rows of a file; none where there is no file.  A last line cut off by an interruption is taken away."""
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        file.write_text(whole, encoding="utf-8")
    return [_row(line) for line in whole.splitlines()]


def _row(line: str) -> Row:
    fields = json.loads(line)
    return Row(**{**fields, "free": tuple(fields["free"]), "notes": tuple(fields["notes"])})


def watched(items: Iterable[Item], *, label: str, total: int) -> Iterator[Item]:
    """Pass items through and say on stderr how far they are: in place at a terminal, else every 50."""
    terminal = sys.stderr.isatty()
    for done, item in enumerate(items, start=1):
        if terminal:
            print(f"\r{label}: {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
        elif done % 50 == 0:
            print(f"{label}: {done}/{total}", file=sys.stderr, flush=True)
        yield item
