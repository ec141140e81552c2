"""NCCL RAS as JSON (``ncclras -f json``): which ranks answer, and how many collectives each has launched.

Read as ``src/ras/client_support.cc`` of NCCL 2.28.7 and later writes it.  Communicators are known by their hash, ranks
by their number in it; a process is known by its host address, process id and CUDA device.

One answer is a snapshot of a job that may be running well: ranks that are behind are then merely possible culprits.
Several answers of the same job, given in order of time, show who stands still.  A rank that RAS considers dead, or that
does not answer, is what it is in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from health.collectives.json_fields import Row, integer, listed, nested, text
from health.collectives.recording import Member, RankGroup
from health.collectives.stalls import Snapshot, Stall
from topology.errors import InvalidInput
from topology.files import Source
from topology.tables.bad_rows import BadRow
from topology.tables.text_rows import parse_object

P2P = ("Send", "Recv", "SendRecv")
"""Counts of operations that not all ranks take part in; the others must agree."""


class _Seat(NamedTuple):
    """A process on a GPU."""

    host: str
    pid: int
    device: int


class _Answer(NamedTuple):
    """One RAS document.

    :param counts: communicator -> rank -> operation -> number launched.
    :param seats: communicator -> rank -> process.
    :param missing: communicator -> ranks that did not answer.
    :param dead: processes that are unresponsive or dead.
    :param failing: processes that report an asynchronous error.
    """

    stamp: str
    counts: dict[str, dict[int, dict[str, int]]]
    seats: dict[str, dict[int, _Seat]]
    missing: dict[str, set[int]]
    dead: set[_Seat]
    failing: set[_Seat]


def read_ras(sources: Sequence[Source]) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot that the last answer is, judged by those before it, and notes.

    :raises InvalidInput: an answer cannot be used, or they are not in order of time.
    """
    answers = [_read(source) for source in sources]
    stamps = [answer.stamp for answer in answers]
    if stamps != sorted(stamps):
        raise InvalidInput("stands after a later answer", where=sources[-1].name, fix="give the files in order of time")
    return _snapshot(answers)


def _read(source: Source) -> _Answer:
    try:
        document = parse_object(source.text)
        stamp = text(document, "timestamp")
        try:
            datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S")
        except ValueError:
            raise BadRow(f"'timestamp' is {stamp!r:.40}, not a time such as 2026-01-31 12:00:00") from None
        answer = _Answer(stamp, {}, {}, {}, set(), set())
        for i, comm in enumerate(listed(document, "communicators")):
            try:
                _take(comm, answer)
            except BadRow as bad:
                raise BadRow(f"communicator {i}: {bad.reason}") from None
    except BadRow as bad:
        raise InvalidInput(
            bad.message, where=source.name, fix="get the answer again: ncclras -f json, of NCCL 2.28.7 or later"
        ) from None
    return answer


def _take(comm: Any, answer: _Answer) -> None:
    if not isinstance(comm, dict):
        raise BadRow("is not an object")
    name, size = f"{text(comm, 'hash')} {text(comm, 'secondary_hash')}", integer(comm, "size", low=1)
    if name in answer.counts:
        raise BadRow(f"stands twice: {name!r:.60}")
    counts, seats = answer.counts.setdefault(name, {}), answer.seats.setdefault(name, {})
    for entry in _objects(comm, "ranks"):
        rank = _rank(entry, size, seats)
        seats[rank] = _seat(entry)
        tally = nested(entry, "collective_counts")
        counts[rank] = {op: integer(tally, op) for op in tally if op not in P2P}
        if integer(nested(entry, "status"), "async_error") not in (0, IN_PROGRESS):
            answer.failing.add(seats[rank])
    answer.missing[name] = set()
    for entry in _objects(comm, "missing_ranks"):
        rank = _rank(entry, size, seats)
        seats[rank] = _seat(entry)
        answer.missing[name].add(rank)
        status = nested(entry, "status")
        if status.get("unresponsive") is True or status.get("considered_dead") is True:
            answer.dead.add(seats[rank])
    if len({frozenset(tally) for tally in counts.values()}) > 1:
        raise BadRow("its ranks count different operations")


IN_PROGRESS = 7
"""ncclInProgress, which is no error."""


def _objects(comm: Row, key: str) -> list[Row]:
    entries = listed(comm, key)
    if not all(isinstance(entry, dict) for entry in entries):
        raise BadRow(f"{key!r} holds something that is not an object")
    return entries


def _rank(entry: Row, size: int, seats: dict[int, _Seat]) -> int:
    rank = integer(entry, "rank")
    if rank >= size or rank in seats:
        raise BadRow(f"rank {rank} of {size} is impossible, or stands twice")
    return rank


def _seat(entry: Row) -> _Seat:
    return _Seat(text(entry, "host"), integer(entry, "pid", low=-1), integer(entry, "cuda_dev", low=-1))


def _snapshot(answers: Sequence[_Answer]) -> tuple[Snapshot, tuple[str, ...]]:
    last = answers[-1]
    seats = sorted({seat for ranks in last.seats.values() for seat in ranks.values()})
    widest = max(last.seats, key=lambda name: len(last.seats[name]), default="")
    rank_of = {seat: rank for rank, seat in last.seats.get(widest, {}).items()}
    index = {seat: i for i, seat in enumerate(seats)}
    world = set(seats) == set(rank_of)
    members = tuple(
        Member(
            f"rank {rank_of[seat]}" if world else f"{seat.host} pid {seat.pid} GPU {seat.device}",
            rank_of[seat] if world else None,
            seat.host if seat.host != "unknown" else None,
        )
        for seat in seats
    )
    names = list(last.seats)
    groups = tuple(
        RankGroup(name, "", tuple(index[seat] for _, seat in sorted(last.seats[name].items()))) for name in names
    )
    stuck = len(answers) > 1
    earlier = answers[-2] if stuck else None
    moving = {
        index[last.seats[name][rank]]
        for name in names
        for rank, tally in last.counts[name].items()
        if earlier is not None and earlier.counts.get(name, {}).get(rank) != tally
    }
    stalls = tuple(
        Stall(number, min(reached.values()) + 1, op, standing, absent)
        for number, name in enumerate(names)
        for op, reached, standing, absent in _behind(last, name, index)
        if not standing & moving
    )
    gone = frozenset(index[seat] for seat in last.dead)
    notes = [] if stuck else ["one answer of RAS does not show who stands still: give two or more, some seconds apart"]
    if last.failing:
        notes.append(f"{len(last.failing)} processes report an asynchronous error; it may be that of a peer")
    if not world:
        notes.append("no communicator spans all processes: there are no global ranks")
    snapshot = Snapshot(
        members,
        groups,
        stalls,
        settled=stuck,
        gone=gone,
        busy=frozenset(moving),
        unseen=frozenset(index[last.seats[name][rank]] for name in names for rank in last.missing[name]) - gone,
    )
    return snapshot, tuple(notes)


def _behind(
    answer: _Answer, name: str, index: dict[_Seat, int]
) -> list[tuple[str, dict[int, int], frozenset[int], frozenset[int]]]:
    """Return the operation of a communicator that some of its ranks have launched more often than others."""
    tallies = answer.counts[name]
    ops: dict[str, dict[int, int]] = defaultdict(dict)
    for rank, tally in tallies.items():
        for op, count in tally.items():
            ops[op][rank] = count
    found = []
    for op, reached in sorted(ops.items()):
        most = max(reached.values())
        absent = frozenset(index[answer.seats[name][rank]] for rank, count in reached.items() if count < most)
        standing = frozenset(index[answer.seats[name][rank]] for rank, count in reached.items() if count == most)
        if absent:
            found.append((op, reached, standing, absent))
    return found[:1]
