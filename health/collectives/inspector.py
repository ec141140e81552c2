"""NCCL Inspector in both its forms: JSON lines of each completed collective, and mean times as Prometheus text.

JSON lines are read as NCCL's ``plugins/profiler/inspector`` writes them, an object for each completed collective of a
communicator and rank: format v4.0 (NCCL 2.28.3) to v4.2, where every line has ``header``, ``metadata`` and
``coll_perf`` (or ``p2p_perf``), and v4.3, where a ``dump_stats`` line carries header and metadata for the lines that
follow it.  ``proxy_trace`` lines are skipped.  What the format does not have: collectives that did not complete, and
global ranks.  A process is known by its host and process id; its rank in the widest communicator is taken for its
global rank.  Times of each operation are there with ``NCCL_INSPECTOR_DUMP_VERBOSE=1`` only; without, an operation ends
when it was dumped and begins its execution time earlier.

Prometheus text has mean times of collectives since the last dump, one file for each GPU, in two dialects of labels:
``node``, ``gpu``, ``comm_name``, ... (v5.1, NCCL 2.29.2 and later) and ``hostname``, ``rank``, ``comm_id``, ...
(before).  There are no sequence numbers and no times of single operations: what can be said is that a rank spends less
time in the same collectives than the others of its group, and so comes last.  That is a hint, never a flag.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite, isnan, nan
from statistics import median
from typing import Any, NamedTuple

from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import FileFormat, Marked
from ground.rows import BadRow, exporter_line
from health.collectives.diagnosis import Culprit, Diagnosis, diagnose
from health.collectives.json_fields import Row, TaintedRanks, integer, listed, moment, nested, number, text
from health.collectives.recording import (
    LONGEST_PAUSE,
    CollectiveRecording,
    CompletionRow,
    Completions,
    Member,
    RankGroup,
    States,
    read_timed,
)
from health.collectives.trigger_settings import TriggerSettings

VERSION_KEY = "inspector_output_format_version"
VERSIONS = ("v4.0", "v4.1", "v4.2", "v4.3")

COUNTS = {"coll_perf": "coll_records", "p2p_perf": "p2p_records", "proxy_trace": "proxy_records"}
"""Sorts of lines -> what a dump_stats line calls their number."""

MICRO = 1e-6

Process = tuple[str, int]  # Host and process id


class Inspector(Marked):
    """Reads the JSON lines."""

    format = FileFormat(
        "inspector",
        source="NCCL Inspector as JSON lines, v4.0 (NCCL 2.28.3) to v4.3: a file a process",
        export="NCCL_PROFILER_PLUGIN=libnccl-profiler-inspector.so NCCL_INSPECTOR_ENABLE=1 "
        "NCCL_INSPECTOR_DUMP_VERBOSE=1",
        read="completed collectives: communicator, rank, host, number, size, begin and end",
        left_out="proxy_trace lines, point-to-point operations, bandwidths",
        marks=('"coll_perf"', '"header"', '"metadata"'),
    )
    mark = re.compile(rf'\A\s*+.*"(?:coll_perf|dump_stats|{VERSION_KEY})"')  # in the first line

    def read(self, sources: Sequence[Source], *, settings: TriggerSettings, lenient: bool) -> Diagnosis:
        """Watch the recording."""
        return diagnose(read_inspector(sources, lenient=lenient), settings)


class _Seat(NamedTuple):
    """A rank of a communicator."""

    comm: str
    rank: int


@dataclass
class _Context:
    """Header and metadata that v4.3 writes once for the lines that follow, and how many of each sort are left."""

    header: Row | None = None
    metadata: Row | None = None
    left: dict[str, int] = field(default_factory=dict)


def read_inspector(sources: Sequence[Source], *, lenient: bool = False) -> CollectiveRecording:
    """Return the recording in files of Inspector lines, one for each process; raise an error where there is none."""
    bad_rows, reader = TaintedRanks(lenient=lenient), _Reader()
    rows = read_timed(sources, bad_rows, reader.of_file, lambda: [seat.rank for seat in reader.seats])
    if not rows:
        problem = "holds no collective that can be used"
        fix = "run the job with NCCL_INSPECTOR_ENABLE=1 and NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=100000"
        raise InvalidInput(problem, where=sources[0].name, fix=fix)
    return reader.recording(rows, bad_rows)


class _Reader:
    """Takes lines in the order of the files; the member of a row is the number of its seat until all are known.

    :ivar seats: rank of a communicator -> its process, in the order in which they appear.
    :ivar _comms: identifier of a communicator -> its number and name.
    """

    def __init__(self) -> None:
        self.seats: dict[_Seat, Process] = {}
        self._number: dict[_Seat, int] = {}
        self._size: dict[str, int] = {}
        self._comms: dict[str, tuple[int, str]] = {}
        self._ops: dict[str, int] = {}
        self._seen: set[tuple[_Seat, int]] = set()
        self._lost: Counter[str] = Counter()
        self._untimed = False

    def of_file(self) -> Callable[[Row], CompletionRow | None]:
        """Return what takes the lines of a file."""
        return partial(self._take, _Context())

    def _take(self, context: _Context, row: Row) -> CompletionRow | None:
        if "dump_stats" in row:
            if any(context.left.values()):
                context.left = {}
                raise BadRow("a dump is incomplete: the next one begins before all its lines came")
            header, metadata, stats = nested(row, "header"), nested(row, "metadata"), nested(row, "dump_stats")
            self._seat(header, metadata)
            for key in ("coll_dropped_since_last_dump", "p2p_dropped_since_last_dump"):
                self._lost[key] += integer(stats, key) if key in stats else 0
            context.header = context.metadata = None
            if metadata[VERSION_KEY] == "v4.3":
                context.header, context.metadata = header, metadata
                context.left = {kind: integer(stats, key) if key in stats else 0 for kind, key in COUNTS.items()}
            return None
        kind = next((key for key in COUNTS if key in row), None)
        if kind is None:
            raise BadRow("has none of coll_perf, p2p_perf, proxy_trace, dump_stats")
        if "header" in row:
            header, metadata = nested(row, "header"), nested(row, "metadata")
        elif context.header is not None and context.metadata is not None:
            if context.left.get(kind, 0) <= 0:
                raise BadRow("stands outside of its dump: the dump_stats line before it announces fewer")
            context.left[kind] -= 1
            header, metadata = context.header, context.metadata
        else:
            raise BadRow("has no header, and no dump_stats line with one stands before it")
        seat = self._seat(header, metadata)
        if kind != "coll_perf":
            return None
        perf = nested(row, kind)
        op, seq, size = text(perf, "coll"), integer(perf, "coll_sn"), integer(perf, "coll_msg_size_bytes")
        seconds = number(perf, "coll_exec_time_us") * MICRO
        start, end = _kernel_times(perf)
        if isnan(end):
            self._untimed = True
            end = moment(metadata, "dump_timestamp_us", unit=MICRO)
            start = end - seconds
        if start > end:
            raise BadRow("the duration is negative: the kernel starts after it stops")
        if end - start > LONGEST_PAUSE:
            raise BadRow("the collective takes more than a day")
        if (seat, seq) in self._seen:
            raise BadRow("the same rank completes the same collective twice")
        self._seen.add((seat, seq))
        group, operation = self._comms[seat.comm][0], self._ops.setdefault(op, len(self._ops))
        return CompletionRow(end, start, group, self._number[seat], seq, operation, size)

    def recording(self, rows: Sequence[CompletionRow], bad_rows: TaintedRanks) -> CollectiveRecording:
        """Return the recording of all rows."""
        # a process that holds several ranks of one communicator is several members
        widest = max(self._size, key=lambda comm: self._size[comm])
        held = Counter((seat.comm, process) for seat, process in self.seats.items())
        several = {process for (_, process), count in held.items() if count > 1}
        rank_of = {
            process: seat.rank for seat, process in self.seats.items() if seat.comm == widest and process not in several
        }
        world = set(self.seats.values()) <= set(rank_of)
        members: list[Member] = []
        number_of: dict[tuple[Process, _Seat | None], int] = {}
        member_of = []
        for seat, process in self.seats.items():
            member = number_of.setdefault((process, seat if process in several else None), len(members))
            if member == len(members):
                rank = rank_of.get(process) if world else None
                label = f"rank {rank}" if rank is not None else f"{process[0]} pid {process[1]}"
                label += f" ({seat.comm} rank {seat.rank})" if process in several else ""
                members.append(Member(label, rank, process[0]))
            member_of.append(member)
        notes = []
        if several:
            notes.append("processes with several GPUs: their ranks cannot be told apart across communicators")
        elif not world:
            notes.append("no communicator spans all processes: there are no global ranks")
        ranks_of: dict[str, list[tuple[int, int]]] = {comm: [] for comm in self._comms}
        for seat, member in zip(self.seats, member_of, strict=True):
            ranks_of[seat.comm].append((seat.rank, member))
        groups = tuple(
            RankGroup(self._comms[comm][1], "", tuple(member for _, member in sorted(ranks)))
            for comm, ranks in ranks_of.items()
        )
        incomplete = sum(len(ranks) < self._size[comm] for comm, ranks in ranks_of.items())
        if incomplete:
            notes.append(f"{incomplete} of {len(groups)} communicators have ranks of which there is no file")
        if self._untimed:
            notes.append("times are those of the dump: NCCL_INSPECTOR_DUMP_VERBOSE=1 gives those of the operations")
        notes += [
            f"the Inspector itself lost {count:,} records ({key})" for key, count in sorted(self._lost.items()) if count
        ]
        return CollectiveRecording(
            tuple(members),
            groups,
            tuple(self._ops),
            Completions.of(row._replace(member=member_of[row.member]) for row in rows),
            States.of(()),
            (*bad_rows.counted(), *notes),
            frozenset(range(len(members)) if bad_rows.all_tainted or bad_rows.tainted else ()),
        )

    def _seat(self, header: Row, metadata: Row) -> _Seat:
        version = metadata.get(VERSION_KEY)
        if version not in VERSIONS:
            raise BadRow(f"the format is version {version!r:.40}; known are {', '.join(VERSIONS)}")
        comm, rank, size = text(header, "id"), integer(header, "rank"), integer(header, "n_ranks", low=1)
        if rank >= size:
            raise BadRow(f"rank {rank} of a communicator of {size}")
        if self._size.setdefault(comm, size) != size:
            raise BadRow(f"the communicator {comm:.40} has {size} ranks here and {self._size[comm]} above")
        seat, process = _Seat(comm, rank), (text(metadata, "hostname"), integer(metadata, "pid"))
        if self.seats.setdefault(seat, process) != process:
            raise BadRow("the same rank of a communicator is another process than above")
        self._number.setdefault(seat, len(self._number))
        name = header.get("comm_name")
        has_name = isinstance(name, str) and name not in ("", "unknown")
        self._comms.setdefault(comm, (len(self._comms), f"{name} {comm}" if has_name else comm))
        return seat


def _kernel_times(perf: Row) -> tuple[float, float]:
    """Return start of the first and stop of the last kernel; NaN where the trace is not verbose."""
    unknown = nan, nan
    if perf.get("event_trace_ts") is None:
        return unknown
    events: list[Any] = listed(nested(perf, "event_trace_ts"), "kernel_events")
    if not events or not all(isinstance(event, dict) for event in events):
        return unknown
    starts = [moment(event, "kernel_start_ts", unit=MICRO) for event in events]
    stops = [moment(event, "kernel_stop_ts", unit=MICRO) for event in events]
    return (min(starts), max(stops)) if min(starts) and min(stops) else unknown


SECONDS = "nccl_collective_exec_time_microseconds"
BANDWIDTH = "nccl_bus_bandwidth_gbs"

LATE = 0.5  # Share of the others' median time inside a collective below which a member comes late
PERSISTENT = 0.75  # Share of its collectives in which it must
FEWEST = 3  # Members that a collective needs: of two it is not known which is the odd one
Task = tuple[int, str, str]  # Collectives that can be compared: of one group, one operation, one size


class InspectorPrometheus(Marked):
    """Reads the Prometheus text."""

    format = FileFormat(
        "prometheus",
        source="NCCL Inspector as Prometheus text (NCCL 2.29.2 and later, and the older labels): a file a GPU",
        export="NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_PROM_DUMP=1",
        read="mean time of each GPU in collectives of one communicator, operation and size",
        left_out="bandwidths, other metrics",
        marks=(SECONDS,),
    )
    mark = re.compile(f"{SECONDS}|{BANDWIDTH}")

    def read(self, sources: Sequence[Source], *, settings: TriggerSettings, lenient: bool) -> Diagnosis:  # noqa: ARG002
        """Return the members that come last as possible culprits: averages never show more."""
        averages = read_prometheus(sources, lenient=lenient)
        late = latecomers(averages)
        return Diagnosis(
            averages.members,
            averages.groups,
            "straggler" if late else "healthy",
            "late" if late else "none",
            tuple(Culprit(member, "possible", late[member]) for member in sorted(late, key=lambda m: -late[m])),
            tuple(g for g, group in enumerate(averages.groups) if set(late) & set(group.members)),
            notes=averages.notes,
            settled=False,
        )


class _Sample(NamedTuple):
    """One value of one GPU, or rank, of a host in a communicator."""

    name: str
    host: str
    unit: str
    comm: str
    op: str
    size: str
    value: float


@dataclass(frozen=True, slots=True)
class Averages:
    """Mean times inside collectives."""

    members: tuple[Member, ...]
    groups: tuple[RankGroup, ...]
    microseconds: dict[Task, dict[int, float]]  # task -> member -> mean time inside
    notes: tuple[str, ...]


def read_prometheus(sources: Sequence[Source], *, lenient: bool = False) -> Averages:
    """Return the averages in Prometheus text files; of a series that stands twice the last value counts."""
    bad_rows = TaintedRanks(lenient=lenient)
    samples: list[_Sample] = []
    for source in sources:
        lines = enumerate(source.text.splitlines(), 1)
        sample_lines = ((number, line) for number, line in lines if line.strip() and not line.startswith("#"))
        samples += [sample for _, sample in bad_rows.keep(sample_lines, _sample, source) if sample is not None]
    if not samples:
        problem, fix = f"holds no {SECONDS}", "run the job with NCCL_INSPECTOR_ENABLE=1 and NCCL_INSPECTOR_PROM_DUMP=1"
        raise InvalidInput(problem, where=sources[0].name, fix=fix)
    members: dict[tuple[str, str], int] = {}
    groups: dict[str, set[int]] = defaultdict(set)
    for sample in samples:
        groups[sample.comm].add(members.setdefault((sample.host, sample.unit), len(members)))
    number_of = {comm: i for i, comm in enumerate(groups)}
    microseconds: dict[Task, dict[int, float]] = defaultdict(dict)
    for sample in samples:
        if sample.name == SECONDS:
            microseconds[number_of[sample.comm], sample.op, sample.size][members[sample.host, sample.unit]] = (
                sample.value
            )
    return Averages(
        tuple(Member(f"{host} {unit}", None, host) for host, unit in members),
        tuple(RankGroup(comm, "", tuple(sorted(of_group))) for comm, of_group in groups.items()),
        microseconds,
        bad_rows.counted(),
    )


def latecomers(averages: Averages) -> dict[int, float]:
    """Return member -> by how much less time than the others it spends inside, if it does so in most collectives."""
    tasks: Counter[int] = Counter()
    ratios: dict[int, list[float]] = defaultdict(list)
    for times in averages.microseconds.values():
        if len(times) < FEWEST:
            continue
        for member, mine in times.items():
            others = median(time for other, time in times.items() if other != member)
            tasks[member] += 1
            if others > 0 and mine <= LATE * others:
                ratios[member].append(others / max(mine, 1e-3))  # a nanosecond stands for no time at all
    return {member: median(less) for member, less in ratios.items() if len(less) >= PERSISTENT * tasks[member]}


def _sample(line: str) -> _Sample | None:
    """Return the sample of a line, ``None`` = of another metric; raise :class:`BadRow` where it cannot be used."""
    name, labels, value, _ = exporter_line(line)
    if not isfinite(value) or value < 0:
        raise BadRow(f"the value is {value!r:.40}, not a number of at least 0")
    if name not in (SECONDS, BANDWIDTH):
        return None
    host = labels.get("node") or labels.get("hostname")
    unit = labels.get("gpu") or labels.get("gpu_device_id") or (f"rank {labels['rank']}" if "rank" in labels else None)
    comm = labels.get("comm_id") or labels.get("comm_name")
    if not host or not unit or not comm or "collective" not in labels:
        raise BadRow("a label is missing: node or hostname, gpu or rank, comm_name or comm_id, collective")
    comm = f"{comm} ({labels['nranks']} ranks)" if "nranks" in labels else comm
    return _Sample(name, host, unit, comm, labels["collective"], labels.get("message_size", ""), value)
