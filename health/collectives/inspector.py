"""NCCL Inspector, JSON lines: one object for each completed collective of a communicator and rank.

Read as NCCL's ``plugins/profiler/inspector`` writes them: format v4.0 (NCCL 2.28.3) to v4.2, where every line has
``header``, ``metadata`` and ``coll_perf`` (or ``p2p_perf``), and v4.3, where a ``dump_stats`` line carries header and
metadata for the lines that follow it.  ``proxy_trace`` lines are skipped.

What the format does not have: collectives that did not complete, and global ranks.  A process is known by its host and
process id; its rank in the widest communicator is taken for its global rank.  Times of each operation are there with
``NCCL_INSPECTOR_DUMP_VERBOSE=1`` only; without, an operation ends when it was dumped and begins its execution time
earlier.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple

from health.collectives.clocks import LONGEST_PAUSE, Place, Written
from health.collectives.json_fields import Row, TaintedRanks, integer, listed, moment, nested, number, text
from health.collectives.recording import (
    CollectiveRecording,
    CompletionRow,
    Member,
    RankGroup,
    completions,
    states,
)
from topology.errors import InvalidInput
from topology.files import Source
from topology.tables.bad_rows import BadRow
from topology.tables.text_rows import json_objects

VERSIONS = ("v4.0", "v4.1", "v4.2", "v4.3")

MICRO = 1e-6

Process = tuple[str, int]
"""Host and process id."""


class _Seat(NamedTuple):
    """A rank of a communicator."""

    comm: str
    rank: int


class _Perf(NamedTuple):
    """One completed collective."""

    seat: _Seat
    op: str
    seq: int
    bytes: int
    start: float
    end: float


@dataclass
class _Context:
    """Header and metadata that v4.3 writes once for the lines that follow."""

    header: Row | None = None
    metadata: Row | None = None
    left: dict[str, int] = field(default_factory=dict)


def read_inspector(sources: Sequence[Source], *, lenient: bool = False) -> CollectiveRecording:
    """Return the recording in files of Inspector lines; one file for each process.

    :param lenient: drop lines that cannot be used, and say how many.
    :raises InvalidInput: a line cannot be used; another version of the format; no collective in the files.
    """
    rows, reader = TaintedRanks(lenient=lenient), _Reader()
    for i, source in enumerate(sources):
        context = _Context()
        for line, row in json_objects(source, rows):
            try:
                reader.take(row, context, Place(i, line))
            except BadRow as bad:
                rows.refuse(bad, source.at(line))
    reader.refuse_strays(rows, sources)
    return reader.recording(rows, sources[0].name)


class _Reader:
    def __init__(self) -> None:
        self._process: dict[_Seat, Process] = {}
        self._number: dict[_Seat, int] = {}
        self._size: dict[str, int] = {}
        self._name: dict[str, str] = {}
        self._perf: list[_Perf] = []
        self._written = Written()
        self._seen: set[tuple[_Seat, int]] = set()
        self._lost: Counter[str] = Counter()
        self._untimed = False

    def take(self, row: Row, context: _Context, place: Place) -> None:
        if "dump_stats" in row:
            self._begin(row, context)
            return
        kind = next((key for key in ("coll_perf", "p2p_perf", "proxy_trace") if key in row), None)
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
        _check_version(metadata)
        seat = self._seat(header, metadata)
        if kind == "coll_perf":
            self._collective(seat, nested(row, kind), metadata, place=place)

    def refuse_strays(self, rows: TaintedRanks, sources: Sequence[Source]) -> None:
        found = self._written.refuse_strays(rows, sources, [seat.rank for seat in self._process])
        self._perf = list(compress(self._perf, ~found))

    def recording(self, rows: TaintedRanks, name: str) -> CollectiveRecording:
        if not self._perf:
            raise InvalidInput(
                "holds no collective that can be used",
                where=name,
                fix="run the job with NCCL_INSPECTOR_ENABLE=1 and "
                "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=100000",
            )
        members, member_of, notes = self._members()
        seats: dict[str, dict[int, int]] = defaultdict(dict)
        for seat in self._process:
            seats[seat.comm][seat.rank] = member_of[seat]
        comms = list(seats)
        groups = tuple(
            RankGroup(self._name[comm], "", tuple(member for _, member in sorted(seats[comm].items())))
            for comm in comms
        )
        number_of = {comm: i for i, comm in enumerate(comms)}
        ops = {op: i for i, op in enumerate(sorted({perf.op for perf in self._perf}))}
        ends = [
            CompletionRow(p.end, p.start, number_of[p.seat.comm], member_of[p.seat], p.seq, ops[p.op], p.bytes)
            for p in self._perf
        ]
        incomplete = sum(len(seats[comm]) < self._size[comm] for comm in comms)
        if incomplete:
            notes.append(f"{incomplete} of {len(comms)} communicators have ranks of which there is no file")
        if self._untimed:
            notes.append("times are those of the dump: NCCL_INSPECTOR_DUMP_VERBOSE=1 gives those of the operations")
        notes += [
            f"the Inspector itself lost {count:,} records ({key})" for key, count in sorted(self._lost.items()) if count
        ]
        tainted = frozenset(range(len(members))) if rows.all_tainted or rows.tainted else frozenset()
        return CollectiveRecording(
            members, groups, tuple(ops), completions(ends), states([]), (*rows.counted(), *notes), tainted
        )

    def _members(self) -> tuple[tuple[Member, ...], dict[_Seat, int], list[str]]:
        """Return processes as members; a process that holds several ranks of one communicator is several of them."""
        widest = max(self._size, key=lambda comm: self._size[comm])
        several = {
            process
            for (_, process), count in Counter((seat.comm, p) for seat, p in self._process.items()).items()
            if count > 1
        }
        rank_of = {p: seat.rank for seat, p in self._process.items() if seat.comm == widest and p not in several}
        world = set(self._process.values()) <= set(rank_of)
        keys: dict[tuple[Process, _Seat | None], int] = {}
        members: list[Member] = []
        member_of: dict[_Seat, int] = {}
        for seat, process in self._process.items():
            key = (process, seat if process in several else None)
            if key not in keys:
                keys[key] = len(members)
                rank = rank_of.get(process) if world else None
                label = f"rank {rank}" if rank is not None else f"{process[0]} pid {process[1]}"
                label += f" ({seat.comm} rank {seat.rank})" if process in several else ""
                members.append(Member(label, rank, process[0]))
            member_of[seat] = keys[key]
        notes = []
        if several:
            notes.append("processes with several GPUs: their ranks cannot be told apart across communicators")
        elif not world:
            notes.append("no communicator spans all processes: there are no global ranks")
        return tuple(members), member_of, notes

    def _begin(self, row: Row, context: _Context) -> None:
        if any(context.left.values()):
            context.left = {}
            raise BadRow("a dump is incomplete: the next one begins before all its lines came")
        header, metadata, stats = nested(row, "header"), nested(row, "metadata"), nested(row, "dump_stats")
        _check_version(metadata)
        self._seat(header, metadata)
        for key in ("coll_dropped_since_last_dump", "p2p_dropped_since_last_dump"):
            self._lost[key] += integer(stats, key) if key in stats else 0
        context.header = context.metadata = None
        if metadata["inspector_output_format_version"] == "v4.3":
            context.header, context.metadata = header, metadata
            counts = {"coll_perf": "coll_records", "p2p_perf": "p2p_records", "proxy_trace": "proxy_records"}
            context.left = {kind: integer(stats, key) if key in stats else 0 for kind, key in counts.items()}

    def _seat(self, header: Row, metadata: Row) -> _Seat:
        comm, rank, size = text(header, "id"), integer(header, "rank"), integer(header, "n_ranks", low=1)
        if rank >= size:
            raise BadRow(f"rank {rank} of a communicator of {size}")
        if self._size.setdefault(comm, size) != size:
            raise BadRow(f"the communicator {comm:.40} has {size} ranks here and {self._size[comm]} above")
        seat, process = _Seat(comm, rank), (text(metadata, "hostname"), integer(metadata, "pid"))
        if self._process.setdefault(seat, process) != process:
            raise BadRow("the same rank of a communicator is another process than above")
        self._number.setdefault(seat, len(self._number))
        name = header.get("comm_name")
        known = isinstance(name, str) and name not in ("", "unknown")
        self._name.setdefault(comm, f"{name} {comm}" if known else comm)
        return seat

    def _collective(self, seat: _Seat, perf: Row, metadata: Row, *, place: Place) -> None:
        op, seq, size = text(perf, "coll"), integer(perf, "coll_sn"), integer(perf, "coll_msg_size_bytes")
        seconds = number(perf, "coll_exec_time_us") * MICRO
        start, end = _kernel_times(perf)
        if math.isnan(end):
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
        self._perf.append(_Perf(seat, op, seq, size, start, end))
        self._written.add(end, self._number[seat], place)


def _check_version(metadata: Row) -> None:
    version = metadata.get("inspector_output_format_version")
    if version not in VERSIONS:
        raise BadRow(f"the format is version {version!r:.40}; known are {', '.join(VERSIONS)}")


def _kernel_times(perf: Row) -> tuple[float, float]:
    """Start of the first and stop of the last kernel; NaN where the trace is not verbose."""
    trace: Any = perf.get("event_trace_ts")
    if trace is None:
        return math.nan, math.nan
    events = listed(nested(perf, "event_trace_ts"), "kernel_events")
    if not events or not all(isinstance(event, dict) for event in events):
        return math.nan, math.nan
    starts = [moment(event, "kernel_start_ts", unit=MICRO) for event in events]
    stops = [moment(event, "kernel_stop_ts", unit=MICRO) for event in events]
    if not min(starts) or not min(stops):
        return math.nan, math.nan
    return min(starts), max(stops)
