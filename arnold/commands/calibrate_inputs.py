"""What ``arnold calibrate`` reads: a CSV of step times, or of op traces, with the spread of each placement."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ground.errors import InvalidInput, did_you_mean
from ground.files import Source, read_source
from ground.rows import BadRows, CsvRows

if TYPE_CHECKING:
    from scheduler.job import Parallelism
    from simulator.cost.gain_fit import MeasuredRun

COLUMNS = ("step_seconds", "trace", "dp_spread", "pp_spread", "placement", "cluster", "run", "job")
SPELLINGS = {"s": "dp_spread", "r": "pp_spread"}  # As papers call them
LONGEST_STEP = 1e6  # Seconds, twelve days: a longer step is a slip
MOST_DOMAINS = 1_000_000  # A larger spread is a slip
_WHOLE = re.compile(r"[1-9][0-9]{0,6}")
_JOBS = "calibrate each job on its own: keep the rows of one"


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """Step times of one job, by run."""

    runs: tuple[MeasuredRun, ...]
    job: str  # as its rows call it; empty = they do not
    parallelism: Parallelism | None  # as its placements have it; None = they do not say


def read_steps(file: str) -> MeasuredSteps:
    """Read the step times.

    :raises InvalidInput: a column is missing, a number is none, the rows are of different jobs, or there is one row
        only; says the line.  Also as the readers of placements, clusters and op traces.
    """
    source = read_source(file)
    reading = _Reading(source)
    rows = CsvRows(source, BadRows(lenient=None))
    columns = _columns(rows.header, source.at(rows.header_line))
    for line, cells in rows:
        reading.add({name: cells[i] for name, i in columns.items()}, source.at(line))
    return reading.result()


def _columns(header: tuple[str, ...], where: str) -> dict[str, int]:
    """Return where each column that counts stands."""
    names = [SPELLINGS.get(name.lower(), name.lower()) for name in header]
    found = {name: i for i, name in enumerate(names) if name in COLUMNS}
    for name, at in found.items():
        if (first := names.index(name)) != at:
            twice = f"two columns say {name}: {header[first]!r} and {header[at]!r}"
            raise InvalidInput(twice, where=where, fix="keep one of them")
    for choices in (("step_seconds", "trace"), ("dp_spread", "placement"), ("pp_spread", "placement")):
        if not found.keys() & set(choices):
            meant = next((text for name in choices if (text := did_you_mean(name, header))), "")
            missing = " or ".join(repr(name) for name in choices)
            fix = "begin with the line step_seconds,dp_spread,pp_spread (S and R), or with trace,placement"
            raise InvalidInput(f"there is no column {missing}", where=where, fix=f"{meant}{fix}")
    return found


@dataclass(slots=True)
class _Reading:
    """Rows on their way into runs; what is known of the job so far."""

    source: Source
    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    spreads: dict[str, tuple[int, int]] = field(default_factory=dict)
    job: str | None = None
    parallelism: Parallelism | None = None
    traced: tuple[int, ...] | None = None
    known: dict[tuple[str, str], tuple[tuple[int, int], Parallelism]] = field(default_factory=dict)

    def add(self, row: dict[str, str], where: str) -> None:
        """Take a row."""
        for one, other in (("step_seconds", "trace"), ("placement", "dp_spread"), ("placement", "pp_spread")):
            if row.get(one) and row.get(other):
                wrong = f"the row says {one} and {other}, of which one is wanted"
                raise InvalidInput(wrong, where=where, fix=f"leave {one} or {other} empty")
        name = row.get("job", "")
        if self.job is not None and name != self.job:
            raise InvalidInput(f"the job is {name!r}, and above it is {self.job!r}", where=where, fix=_JOBS)
        self.job = name
        spread = self._spread(row, where)
        seconds = self._seconds(row, where)
        run = row.get("run") or row.get("trace") or row.get("placement") or f"S {spread[0]}, R {spread[1]}"
        if self.spreads.setdefault(run, spread) != spread:
            said = f"run {run!r} has S {spread[0]}, R {spread[1]}, and above S {{}}, R {{}}".format(*self.spreads[run])
            raise InvalidInput(said, where=where, fix="give each placement a run of its own")
        self.steps[run] += seconds

    def result(self) -> MeasuredSteps:
        """Return what was read."""
        import numpy as np

        from simulator.cost.gain_fit import MeasuredRun

        if len(self.steps) < 2 and sum(map(len, self.steps.values())) < 2:
            few = "there is no step time" if not self.steps else "there is one step time only"
            fix = "give step times of the same job on two placements or more, some dozens of steps of each"
            raise InvalidInput(few, where=self.source.name, fix=fix)
        runs = (MeasuredRun(run, *self.spreads[run], np.array(seconds)) for run, seconds in self.steps.items())
        return MeasuredSteps(tuple(runs), self.job or "", self.parallelism)

    def _spread(self, row: dict[str, str], where: str) -> tuple[int, int]:
        """Return S and R of a row: as it says, or as its placement has them."""
        if not row.get("placement"):
            return _domains(row, "dp_spread", where), _domains(row, "pp_spread", where)
        key = row["placement"], row.get("cluster", "")
        if key not in self.known:
            self.known[key] = _of_placement(self._path(key[0]), self._path(key[1]) if key[1] else None)
        spread, parallelism = self.known[key]
        if self.parallelism is not None and parallelism != self.parallelism:
            raise InvalidInput(f"the job of {key[0]} is not that of the placements above", where=where, fix=_JOBS)
        self.parallelism = parallelism
        return spread

    def _seconds(self, row: dict[str, str], where: str) -> list[float]:
        """Return the step times of a row: one, or all of its trace."""
        if text := row.get("step_seconds"):
            try:
                seconds = float(text)
            except ValueError:
                seconds = float("nan")
            if not 0.0 < seconds <= LONGEST_STEP:
                fix = f"give the seconds of a step, a number above 0 and at most {LONGEST_STEP:,.0f}"
                raise InvalidInput(f"step_seconds is {text[:40]!r}", where=where, fix=fix)
            return [seconds]
        if not row.get("trace"):
            fix = "give step_seconds, or trace: the file of an op trace"
            raise InvalidInput("the row has no step time", where=where, fix=fix)
        from health import whatif
        from health.whatif.analysis import traced_seconds

        trace = whatif.read_trace(self._path(row["trace"]))
        shape = trace.sizes.dp, trace.sizes.pp, trace.sizes.tp, len(trace.operations)
        if self.traced is not None and shape != self.traced:
            raise InvalidInput(f"the job of {row['trace']} is not that of the traces above", where=where, fix=_JOBS)
        self.traced = shape
        return [float(one) for one in traced_seconds(trace)]

    def _path(self, name: str) -> str:
        """Return a file that a row names: beside the CSV, unless its path is whole."""
        return str(Path(self.source.name).parent / name)


def _domains(row: dict[str, str], name: str, where: str) -> int:
    text = row.get(name, "")
    if not _WHOLE.fullmatch(text) or int(text) > MOST_DOMAINS:
        what = {"dp_spread": "S, the most domains that a DP group touches", "pp_spread": "R, the same of PP groups"}[
            name
        ]
        raise InvalidInput(f"{name} is {text[:40]!r}", where=where, fix=f"give {what}: a whole number from 1 on")
    return int(text)


def _of_placement(file: str, cluster: str | None) -> tuple[tuple[int, int], Parallelism]:
    """Return S and R of a saved placement, and the degrees of its job; on a cluster they are counted anew."""
    from ground.documents import load_document
    from scheduler.job_files.placement_file import load_names, load_placement
    from scheduler.objective import evaluate
    from topology.readers import load_topology

    source = read_source(file)
    if cluster is not None:
        tree = load_topology(cluster).cluster
        saved = load_placement(source, tree)
        found = evaluate(tree, saved.job, saved.nodes)
        return (found.dp, found.pp), saved.job.parallelism
    job, said = load_names(source).job, load_document(source).data.get("spread")
    dp, pp = (said.get("dp"), said.get("pp")) if isinstance(said, dict) else (None, None)
    if not (isinstance(dp, int) and isinstance(pp, int) and min(dp, pp) > 0):
        fix = "give the JSON of `arnold place`, or the column cluster: the cluster it lies on"
        raise InvalidInput("the placement does not say its spread", where=source.name, fix=fix)
    return (dp, pp), job.parallelism
