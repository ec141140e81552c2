"""What Slurm's accounting says of a run of a job, as text or JSON, and jobs made of their runs.

A job that is requeued has a record for each run, all with its id.  Its runs are one job here: submitted when the first
was, with the sum of their run times, so that its GPU time stays what it was.

Source: the manual page sacct(1) of Slurm 25.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType

from ground.files import ByteStream
from ground.rows import BadRow
from simulator.job_record import JobRecord
from simulator.traces.job_fields import record, status
from simulator.traces.trace_clock import TraceRows
from topology.node_gpus import mig_profile

MEGABYTE = 2**20  # Memory without a unit, and that of the JSON
_STEP = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}  # Powers of 1024, of memory and of counts
_AMOUNT = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)([KMGTPE]?)")
_LENGTH = re.compile(r"(?:([0-9]{1,9})-)?(?:(?:([0-9]{1,9}):)?([0-9]{1,9}):)?([0-9]{1,9})(?:\.[0-9]+)?")
NO_TIME = frozenset({"", "unknown", "none", "n/a", "invalid"})
_WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_GOES_ON = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "SIGNALING", "STAGE_OUT", "STOPPED"})


@dataclass(frozen=True, slots=True)
class SlurmRun:
    """A record of the accounting: a job from a submission to an end."""

    job_id: str
    submit: float  # seconds, as the next two
    start: float | None  # None = it never started
    eligible: float | None  # when it might first start; None = not said
    elapsed: float | None  # seconds that it ran; None = not said
    state: str  # "CANCELLED by 1004"
    nodes: float | None  # None = not said
    resources: Mapping[str, float]  # allocated, by the names of TRES: cpu, mem in bytes, node, gres/gpu:h100
    requested: Mapping[str, float]  # the same that it asked for
    cluster: str = ""
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    limit: float | None = None  # seconds that it might run; None = unlimited, or not said

    @property
    def gpus(self) -> float:
        """Whole GPUs that it had, or asked for where it had nothing."""
        return gpus_in(self.resources) or (0.0 if parts_in(self.resources) else gpus_in(self.requested))


def gpus_in(resources: Mapping[str, float]) -> float:
    """Return whole GPUs in trackable resources: the sum over all types where it stands, else those of each type; slices
    of MIG, which Slurm counts as GPUs, are none.

    >>> gpus_in({"gres/gpu": 9.0, "gres/gpu:a100": 2.0, "gres/gpu:1g.10gb": 7.0})
    2.0
    """
    typed = {name: count for name, count in resources.items() if name.startswith("gres/gpu:")}
    slices = sum(count for name, count in typed.items() if mig_profile(name))
    return max(0.0, (resources.get("gres/gpu", 0.0) or sum(typed.values())) - slices)


def parts_in(resources: Mapping[str, float]) -> str:
    """Return which parts of GPUs are among trackable resources, ``gres/gpu:1g.10gb, gres/shard``; empty = none."""
    shared = ("gres/shard", "gres/mps")
    return ", ".join(sorted(name for name in resources if mig_profile(name) or name.split(":")[0] in shared))


@lru_cache(maxsize=65_536)  # most jobs of a cluster ask for what others ask for
def trackable(text: str) -> Mapping[str, float]:
    """Return trackable resources by name; memory in bytes.

    >>> trackable("billing=12,cpu=12,gres/gpu:h100=8,mem=62.50G,node=1")["gres/gpu:h100"]
    8.0

    :raises BadRow: no list of NAME=AMOUNT.
    """
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        match = _AMOUNT.fullmatch(amount)
        if match is None:
            fix = "give AllocTRES as sacct prints it, such as cpu=12,gres/gpu:h100=8,mem=62.50G,node=1"
            raise BadRow("not resources", f"{part[:60]!r} is no amount of a resource", fix=fix)
        unit = match[2] or ("M" if name == "mem" else "")
        found[name] = float(match[1]) * 1024.0 ** _STEP[unit]
    return MappingProxyType(found)


def length(text: str) -> float | None:
    """Return seconds of ``[[DAYS-]HOURS:]MINUTES:SECONDS`` or ``DAYS-HOURS``; ``None`` for words (UNLIMITED).

    >>> length("1-02:03:04"), length("00:30"), length("Partition_Limit")
    (93784.0, 30.0, None)
    """
    if not text[:1].isdigit():
        return None
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise BadRow("not a time", f"{text[:60]!r} is no length of time", fix="give it as sacct prints it, 1-02:03:04")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    if match[1] and not match[3]:
        hours, seconds = seconds, 0
    return 86_400.0 * days + 3_600 * hours + 60 * minutes + seconds


def ended(run: SlurmRun) -> SlurmRun:
    """Return a run that held GPUs from a start to an end.

    :raises BadRow: it has no GPUs or parts of some, never started, or goes on.
    """
    state, job = run.state.split(" ", 1)[0].upper(), f"job {run.job_id}"
    if not run.gpus and (parts := parts_in(run.resources) or parts_in(run.requested)):
        fix = "leave out jobs of slices and shards: they run on GPUs that jobs of whole ones do not get"
        raise BadRow("parts of GPUs", f"{job} has parts of GPUs ({parts}), and no whole ones", fix=fix)
    if not run.gpus and (run.start is not None or run.resources or run.requested):
        fix = "leave out jobs that need only CPUs; GPUs are counted where AccountingStorageTRES has gres/gpu"
        raise BadRow("no GPUs", f"{job} has no GPUs", fix=fix)
    if run.start is None or state in _WAITING:
        raise BadRow("never ran", f"{job} never started", fix="leave out jobs that wait or were cancelled before")
    if state in _GOES_ON or run.elapsed is None:
        raise BadRow("has not ended", f"{job} has not ended", fix="leave out jobs that run: sacct --state")
    if run.start < run.submit:
        late = f"{job} starts {run.submit - run.start:,.0f} s before it is submitted"
        raise BadRow("submitted too late", late, fix="export times with TZ=UTC: clocks are set back once a year")
    return run


def jobs_of(
    numbered: Iterable[tuple[int, SlurmRun]], bad_rows: TraceRows, source: ByteStream
) -> Iterator[tuple[int, JobRecord]]:
    """Yield jobs with the lines of their first runs, in the order of the file.

    A run that several exports of one file have, told by its submission and start, counts once.
    """
    runs: dict[tuple[str, str, str, str], tuple[int, dict[tuple[float, float | None], SlurmRun]]] = {}
    again = 0
    for line, run in numbered:
        own = runs.setdefault((run.job_id, run.cluster, run.user, run.name), (line, {}))[1]
        again += (run.submit, run.start) in own
        own[run.submit, run.start] = run
    # Each cluster has ids of its own, and begins again at 1 after the largest: another user or name is another job.
    taken: dict[str, int] = {}
    rows: list[tuple[int, tuple[str, list[SlurmRun]]]] = []
    for (job_id, *_), (line, own) in runs.items():
        taken[job_id] = number = taken.get(job_id, 0) + 1
        in_order = sorted(own.values(), key=attrgetter("submit"))
        rows.append((line, (job_id if number == 1 else f"{job_id}@{number}", in_order)))
    yield from bad_rows.keep(rows, lambda row: _job(*row), source)
    if again:
        bad_rows.note(f"{again:,} rows stood there before (the same submission and start): read once.")
    if requeued := sum(len(own) > 1 for _, (_, own) in rows):
        bad_rows.note(f"{requeued:,} jobs were requeued: their runs are one job, run times added up.")
    if later := sum(own[0].eligible is not None and own[0].eligible > own[0].submit for _, (_, own) in rows):
        held = "might start only after their submission (dependencies, holds, begin times)"
        bad_rows.note(f"{later:,} jobs {held}: with --column Submit=Eligible a table has them submitted then.")


def _job(job_id: str, runs: list[SlurmRun]) -> JobRecord:
    first, last = runs[0], runs[-1]
    held = last.resources or last.requested
    nodes = last.nodes or held.get("node")
    return record(
        job_id=job_id,
        submit=first.submit,
        duration=sum(run.elapsed or 0.0 for run in runs),
        gpus=last.gpus,
        nodes=int(nodes) if nodes else None,
        user=last.user,
        queue=last.partition,
        group=last.account,
        cpus=held.get("cpu"),
        memory=held.get("mem"),
        status=status(last.state.split(" ", 1)[0]),
        estimate=last.limit or None,
        waited=None if first.start is None else first.start - first.submit,
    )
