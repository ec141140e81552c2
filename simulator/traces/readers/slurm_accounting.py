"""Slurm's accounting, as ``sacct --parsable2`` and ``sacct --json`` print it, and jobs made of its runs.

A job that is requeued has a record for each run, all with its id.  Its runs are one job here: submitted when the first
was, with the sum of their run times, so that its GPU time stays what it was.

The text has columns between bars.  Without a header they are those that Open XDMoD asks for (:data:`XDMOD`).  Names of
columns are those of ``--format``, in any spelling of small and large letters.  Steps (``123.batch``) are passed over.

The JSON is that of the schemes of Slurm 21.08 to 25.05 (data_parser): ``time`` holds seconds since 1970 and the limit
in minutes, ``tres.allocated`` a list of resources with memory in megabytes, ``state.current`` a word or a list of
words.  A number may be an object ``{set, infinite, number}``.

Source: the manual page sacct(1) of Slurm 25.05.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from sys import intern
from types import MappingProxyType
from typing import Any

from ground.errors import InvalidInput, TraceFormatError
from ground.files import ByteStream
from ground.formats import FileFormat, Marked
from ground.rows import BadRow, entries, inside, json_document
from simulator.job_record import JobRecord
from simulator.traces.cells import Clock, TraceRows, number, optional, record, status, text
from simulator.traces.trace_loading import Numbered
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
    end: float | None  # when it ended, also before it started; None = it has not, or that is not said
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
    node_list: str = ""  # a hostlist; empty = not said, as what follows
    comment: str = ""
    priority: float | None = None

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
    resources: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, amount = part.partition("=")
        match = _AMOUNT.fullmatch(amount)
        if match is None:
            fix = "give AllocTRES as sacct prints it, such as cpu=12,gres/gpu:h100=8,mem=62.50G,node=1"
            raise BadRow("not resources", f"{part[:60]!r} is no amount of a resource", fix=fix)
        unit = match[2] or ("M" if name == "mem" else "")
        resources[name] = float(match[1]) * 1024.0 ** _STEP[unit]
    return MappingProxyType(resources)


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

    def job(row: tuple[str, list[SlurmRun]]) -> JobRecord:
        job_id, runs = row
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

    yield from bad_rows.keep(rows, job, source)
    if again:
        bad_rows.note(f"{again:,} rows stood there before (the same submission and start): read once.")
    if requeued := sum(len(own) > 1 for _, (_, own) in rows):
        bad_rows.note(f"{requeued:,} jobs were requeued: their runs are one job, run times added up.")
    if later := sum(own[0].eligible is not None and own[0].eligible > own[0].submit for _, (_, own) in rows):
        held = "might start only after their submission (dependencies, holds, begin times)"
        bad_rows.note(f"{later:,} jobs {held}: with --column Submit=Eligible a table has them submitted then.")


COLUMNS = (
    "JobID,User,Account,Partition,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,State,NNodes,AllocTRES,JobName"
)
EXPORT = f"TZ=UTC sacct --allusers --allocations --duplicates --parsable2 --starttime 2026-01-01 --format={COLUMNS}"
_XDMOD = """
    jobid jobidraw cluster partition qos account group gid user uid submit eligible start end elapsed exitcode state
    nnodes ncpus reqcpus reqmem reqtres alloctres timelimit nodelist jobname
"""
XDMOD = tuple(_XDMOD.split())
NEEDED = (("jobid", "jobidraw"), ("submit",), ("start",), ("state",), ("elapsedraw", "elapsed", "end"), ("alloctres",))
"""One column of each group must be there."""

BAR = "|"
_PRINTED = re.compile(r"\s*\"?jobid(?:raw)?\b.*\bstate\b", re.IGNORECASE)


class Sacct:
    """Reader of ``sacct --parsable2``."""

    format = FileFormat(
        "sacct",
        source="Slurm's accounting, `sacct --parsable2`: columns between bars, `JobID|User|...|AllocTRES|JobName`",
        export=f"`{EXPORT}`",
        read="allocations: times, limit, state, user, account as group, partition; GPUs, CPUs and memory of AllocTRES",
        left_out="steps; types of GPU; jobs of MIG slices, shards, MPS; QOS, priority, dependencies; which jobs are "
        "one heterogeneous job",
        marks=("jobid", "submit", "state", "alloctres", BAR),
    )

    def likeness(self, head: bytes) -> float:
        """Return whether the first line is a header or a row of it; some where it was printed otherwise."""
        first = head.decode("utf-8-sig", errors="replace").lstrip().split("\n", 1)[0].rstrip()
        cells = first.lower().split(BAR)
        if len(cells) > 1 and ("jobid" in cells or "jobidraw" in cells):
            return 1.0
        if len(cells) == len(XDMOD) and cells[0][:1].isdigit() and cells[16].split(" ")[0].isalpha():
            return 1.0
        return 0.6 if _PRINTED.match(first) else 0.0

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        runs = bad_rows.keep(self.runs(source, bad_rows), ended, source)
        yield from jobs_of(runs, bad_rows, source)

    def runs(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[tuple[int, SlurmRun]]:
        """Yield all records with their lines, also of jobs that wait or run, in the order of the file."""
        clock = Clock(bad_rows)

        def moment(cells: Mapping[str, str], column: str) -> float | None:
            time = cells.get(column, "")
            return None if time.lower() in NO_TIME else clock.seconds(time, column.capitalize())

        def run(cells: Mapping[str, str]) -> SlurmRun:
            start, end = moment(cells, "start"), moment(cells, "end")
            elapsed = clock.optional_length(cells.get("elapsedraw"), "ElapsedRaw")
            if elapsed is None:
                elapsed = length(cells.get("elapsed", ""))
            if elapsed is None and start is not None and end is not None:
                elapsed = end - start
            minutes, nodes = cells.get("timelimitraw", ""), cells.get("nnodes", "")
            raw = clock.length(minutes, "TimelimitRaw", each=60) if minutes.isdecimal() else None
            return SlurmRun(
                job_id=cells.get("jobid") or cells["jobidraw"],
                submit=clock.seconds(cells["submit"], "Submit"),
                start=start,
                eligible=moment(cells, "eligible"),
                elapsed=elapsed,
                end=end,
                state=intern(cells["state"]),
                nodes=float(nodes) if nodes.isdecimal() else None,
                resources=trackable(cells["alloctres"]),
                requested=trackable(cells.get("reqtres", "")),
                cluster=intern(cells.get("cluster", "")),
                name=cells.get("jobname", ""),
                user=intern(cells.get("user", "")),
                account=intern(cells.get("account") or cells.get("group", "")),
                partition=intern(cells.get("partition", "")),
                limit=length(cells.get("timelimit", "")) if raw is None else raw,
                node_list="" if (listed := cells.get("nodelist", "")) in ("None assigned", "(null)") else listed,
                comment=cells.get("comment", ""),
                priority=float(priority) if (priority := cells.get("priority", "")).isdecimal() else None,
            )

        yield from bad_rows.keep(_rows(source, bad_rows), run, source)


def sacct_runs(source: ByteStream, bad_rows: TraceRows) -> Iterator[tuple[str, SlurmRun]]:
    """Yield all records of a table of sacct with where they stand, in the order of the file.

    :raises InvalidInput: it is none.
    :raises TraceFormatError: it is damaged.
    """
    reader = Sacct()
    if reader.likeness(source.head) < 1.0:
        fix = "give what `sacct --parsable2` prints (arnold formats jobs)"
        raise InvalidInput("is no table of sacct", where=source.name, fix=fix)
    for line, run in reader.runs(source, bad_rows):
        yield source.at(line), run


def _rows(source: ByteStream, bad_rows: TraceRows) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the cells of each row by the names of their columns, in small letters."""
    names: Sequence[str] = ()
    for line, written in enumerate(source.lines(), 1):
        if not written.strip():
            continue
        cells = [cell.strip() for cell in written.rstrip("\r\n").split(BAR)]
        if not names:
            names = _header(cells, source.at(line))
            if names is not XDMOD:
                continue
        if cells[-1] == "" and len(cells) == len(names) + 1:
            cells.pop()  # --parsable ends each line with a bar
        if cells[0].lower() == names[0] and [cell.lower() for cell in cells] == list(names):
            continue  # several exports one after the other
        if len(cells) > len(names) and names[-1] == "jobname":
            cells[len(names) - 1 :] = [BAR.join(cells[len(names) - 1 :])]
        if len(cells) != len(names):
            reason = "cells missing" if len(cells) < len(names) else "too many cells"
            problem = f"the row has {len(cells)} cells, the header {len(names)}"
            fix = "export JobName last: a name may hold a bar; a last row cut short means a truncated file"
            bad_rows.refuse(BadRow(reason, problem, fix=fix), source.at(line))
            continue
        row = dict(zip(names, cells, strict=True))
        if "." in (row.get("jobid") or row.get("jobidraw", "")):
            bad_rows.note("Steps of jobs were passed over.")
            continue
        yield line, row


def _header(cells: Sequence[str], where: str) -> Sequence[str]:
    """Return the names of the columns in small letters."""
    names = [cell.lower() for cell in cells]
    if "jobid" not in names and "jobidraw" not in names and len(names) == len(XDMOD):
        return XDMOD
    if names[-1] == "":
        names.pop()
    if len(names) == 1:
        fix = f"export with --parsable2 and without --delimiter: {EXPORT}"
        raise TraceFormatError("is an output of sacct whose columns cannot be told apart", where=where, fix=fix)
    for group in NEEDED:
        if not any(name in names for name in group):
            what = " or ".join(name for name in COLUMNS.split(",") if name.lower() in group) or group[0]
            missing = f"the column {what} is missing"
            raise TraceFormatError(missing, where=where, fix=f"export it: {EXPORT}")
    if repeated := [name for i, name in enumerate(names) if name in names[:i]]:
        twice = f"two columns are called {repeated[0]!r}"
        raise TraceFormatError(twice, where=where, fix="ask for every column once")
    return names


NO_VALUES = frozenset({2.0**32 - 2, 2.0**32 - 1, 2.0**64})
"""NO_VAL and INFINITE of slurm.h, of 32 bits and (as floats have them) of 64: may stand where no object says it."""
TIMES = ("submission", "eligible", "start", "end", "elapsed", "limit")  # Keys of `time`; the limit counts minutes


class SacctJson(Marked):
    """Reader of ``sacct --json``."""

    format = FileFormat(
        "sacct-json",
        source='Slurm\'s accounting, `sacct --json`: `{"jobs": [{"job_id": ..., "time": ..., "tres": ...}, ...], ...}`',
        export="`sacct --allusers --allocations --duplicates --json --starttime 2026-01-01`",
        read="as `sacct`",
        left_out="as `sacct`",
        marks=('"jobs"', '"job_id"', '"submission"', '"tres"'),
    )
    mark = re.compile(r'(?s)\A\s*\{(?=.*"jobs")(?=.*"job_id")(?=.*"submission")')

    def read(self, source: ByteStream, bad_rows: TraceRows) -> Iterator[Numbered]:
        """Yield the jobs with their lines, in the order of the file."""
        document, data = json_document(source)
        failed = data.get("errors") if isinstance(data, dict) else None
        if failed and not data.get("jobs"):
            problem = f"Slurm could not list its jobs: {str(failed)[:200]}"
            raise TraceFormatError(problem, where=source.name, fix="ask Slurm again when it answers without errors")
        clock = Clock(bad_rows)

        def run(job: Any) -> SlurmRun:
            state = inside(job, "state", "current")
            words = [str(word) for word in state] if isinstance(state, list) else [str(state or "")]
            times = {key: _number(inside(job, "time", key), f"time.{key}") for key in TIMES}
            array, task = inside(job, "array", "job_id"), _number(inside(job, "array", "task_id"), "array.task_id")
            whole = _number(inside(job, "job_id"), "job_id")
            job_id = "" if whole is None else f"{whole:.0f}"
            if array and task is not None:
                job_id = f"{_text(array)}_{task:.0f}"
            return ended(
                SlurmRun(
                    job_id=job_id,
                    submit=clock.seconds(times["submission"], "time.submission"),
                    # 0 stands for a moment that has not come
                    start=clock.optional(times["start"] or None, "time.start"),
                    eligible=clock.optional(times["eligible"] or None, "time.eligible"),
                    elapsed=clock.optional_length(times["elapsed"], "time.elapsed") if times["end"] else None,
                    end=clock.optional(times["end"] or None, "time.end"),
                    state=words[0] if words else "",
                    nodes=_number(inside(job, "allocation_nodes"), "allocation_nodes"),
                    resources=_resources(job, "allocated"),
                    requested=_resources(job, "requested"),
                    cluster=text(job, "cluster"),
                    name=text(job, "name"),
                    user=text(job, "user") or _text(inside(job, "association", "user")),
                    account=text(job, "account"),
                    partition=text(job, "partition"),
                    limit=clock.optional_length(times["limit"], "time.limit", each=60),
                )
            )

        rows = bad_rows.keep(entries(document, data, key="jobs"), run, source)
        yield from jobs_of(rows, bad_rows, source)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _resources(job: Any, which: str) -> dict[str, float]:
    listed = inside(job, "tres", which)
    if listed is not None and not isinstance(listed, list):
        raise BadRow("not resources", f"tres.{which} is no list", fix="give the output of sacct --json as it is")
    resources: dict[str, float] = {}
    for resource in listed or ():
        kind, name = _text(inside(resource, "type")).lower(), _text(inside(resource, "name"))
        count = number(inside(resource, "count"), f"tres.{which}.count")
        resources[f"{kind}/{name}" if name else kind] = count * (MEGABYTE if kind == "mem" else 1)
    return resources


def _number(value: Any, column: str) -> float | None:
    """Return a number that may be an object; ``None`` = it is not set, or infinite."""
    if isinstance(value, dict):
        if value.get("infinite") or value.get("set") is False:
            return None
        value = value.get("number")
    finite = optional(value, column)
    return None if finite in NO_VALUES else finite
