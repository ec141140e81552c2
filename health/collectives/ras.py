"""NCCL RAS as JSON (``ncclras -f json``): which ranks answer, and how many collectives each has launched.

Read as ``src/ras/client_support.cc`` of NCCL 2.28.7 and later writes it.  One answer is a snapshot of a job that may be
running well: ranks that are behind are then merely possible culprits.  Several answers, given in order of time, show
what stands still.  A rank that RAS considers dead, or that does not answer, is what it is in any case.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import FileFormat, Marked
from ground.groups import grouped
from ground.rows import BadRow, parse_object
from health.collectives.diagnosis import Diagnosis, diagnose_snapshot
from health.collectives.json_fields import Row, integer, listed, nested, text
from health.collectives.recording import Member, RankGroup
from health.collectives.stalls import Snapshot, Stall
from health.collectives.trigger_settings import TriggerSettings

P2P = ("Send", "Recv", "SendRecv")  # Counts of operations that not all ranks take part in; the others must agree
IN_PROGRESS = 7  # ncclInProgress, which is no error


class _Seat(NamedTuple):
    """A process on a GPU."""

    host: str
    pid: int
    device: int


class _Rank(NamedTuple):
    """A rank of a communicator."""

    seat: _Seat
    counts: Mapping[str, int] | None  # operation -> number launched; None = it did not answer


class _Answer(NamedTuple):
    """One RAS document."""

    stamp: str
    comms: dict[str, dict[int, _Rank]]
    dead: set[_Seat]  # processes that are unresponsive or dead
    failing: set[_Seat]  # processes that report an asynchronous error


class Ras(Marked):
    """Reads answers of RAS."""

    format = FileFormat(
        "ras",
        source="answers of NCCL RAS as JSON (NCCL 2.28.7 and later), in order of time",
        export="ncclras -f json > 1.json; sleep 10; ncclras -f json > 2.json",
        read="ranks of each communicator, which answer, how many collectives each has launched",
        left_out="counts of Send and Recv, versions",
        marks=('"communicators"', '"nccl_version"', '"timestamp"'),
    )
    mark = re.compile(r'(?s)\A\s*\{(?=.*"communicators")(?=.*"nccl_version")')

    def read(self, sources: Sequence[Source], *, settings: TriggerSettings, lenient: bool) -> Diagnosis:  # noqa: ARG002
        """Judge the last answer."""
        return diagnose_snapshot(*read_ras(sources))


def read_ras(sources: Sequence[Source]) -> tuple[Snapshot, tuple[str, ...]]:
    """Return the snapshot that the last answer is, judged by those before it, and notes; they come in order of time."""
    answers = [_read(source) for source in sources]
    stamps = [answer.stamp for answer in answers]
    if stamps != sorted(stamps):
        raise InvalidInput("stands after a later answer", where=sources[-1].name, fix="give the files in order of time")
    last = answers[-1]
    earlier = answers[-2] if len(answers) > 1 else None
    seats = sorted({rank.seat for ranks in last.comms.values() for rank in ranks.values()})
    index = {seat: i for i, seat in enumerate(seats)}
    widest = max(last.comms.values(), key=len, default={})
    rank_of = {rank.seat: number for number, rank in widest.items()}
    world = set(seats) == set(rank_of)
    members = tuple(
        Member(
            f"rank {rank_of[seat]}" if world else f"{seat.host} pid {seat.pid} GPU {seat.device}",
            rank_of[seat] if world else None,
            seat.host if seat.host != "unknown" else None,
        )
        for seat in seats
    )
    groups = tuple(
        RankGroup(name, "", tuple(index[rank.seat] for _, rank in sorted(ranks.items())))
        for name, ranks in last.comms.items()
    )
    moving: set[int] = set()  # processes with other counts than before
    for name, ranks in () if earlier is None else last.comms.items():
        before = earlier.comms.get(name, {}) if earlier is not None else {}
        for number, (seat, counts) in ranks.items():
            if counts is not None and (number not in before or before[number].counts != counts):
                moving.add(index[seat])
    behind = (_behind(number, ranks.values(), index) for number, ranks in enumerate(last.comms.values()))
    gone = frozenset(index[seat] for seat in last.dead)
    silent = (rank.seat for ranks in last.comms.values() for rank in ranks.values() if rank.counts is None)
    notes = []
    if earlier is None:
        notes.append("one answer of RAS does not show which ranks stand still: give two or more, some seconds apart")
    if last.failing:
        notes.append(f"{len(last.failing)} processes report an asynchronous error; it may be that of a peer")
    if not world:
        notes.append("no communicator spans all processes: there are no global ranks")
    snapshot = Snapshot(
        members,
        groups,
        tuple(stall for stall in behind if stall is not None and not stall.standing & moving),
        settled=earlier is not None,
        gone=gone,
        busy=frozenset(moving),
        unseen=frozenset(index[seat] for seat in silent) - gone,
    )
    return snapshot, tuple(notes)


def _read(source: Source) -> _Answer:
    try:
        document = parse_object(source.text)
        stamp = text(document, "timestamp")
        try:
            datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S")
        except ValueError:
            raise BadRow(f"'timestamp' is {stamp!r:.40}, not a time such as 2026-01-31 12:00:00") from None
        answer = _Answer(stamp, {}, set(), set())
        for i, comm in enumerate(listed(document, "communicators")):
            try:
                if not isinstance(comm, dict):
                    raise BadRow("is not an object")
                name, size = f"{text(comm, 'hash')} {text(comm, 'secondary_hash')}", integer(comm, "size", low=1)
                if name in answer.comms:
                    raise BadRow(f"stands twice: {name!r:.60}")
                ranks = answer.comms.setdefault(name, {})
                for entry, rank, seat in _entries(comm, "ranks", size, ranks):
                    tally = nested(entry, "collective_counts")
                    ranks[rank] = _Rank(seat, {op: integer(tally, op) for op in tally if op not in P2P})
                    if integer(nested(entry, "status"), "async_error") not in (0, IN_PROGRESS):
                        answer.failing.add(seat)
                for entry, rank, seat in _entries(comm, "missing_ranks", size, ranks):
                    ranks[rank] = _Rank(seat, None)
                    status = nested(entry, "status")
                    if status.get("unresponsive") is True or status.get("considered_dead") is True:
                        answer.dead.add(seat)
                if len({frozenset(rank.counts) for rank in ranks.values() if rank.counts is not None}) > 1:
                    raise BadRow("its ranks count different operations")
            except BadRow as bad:
                raise BadRow(f"communicator {i}: {bad.reason}") from None
    except BadRow as bad:
        problem, fix = bad.message, "get the answer again: ncclras -f json, of NCCL 2.28.7 or later"
        raise InvalidInput(problem, where=source.name, fix=fix) from None
    return answer


def _entries(comm: Row, key: str, size: int, ranks: Mapping[int, _Rank]) -> Iterator[tuple[Row, int, _Seat]]:
    """Yield the entries of a list, each with its rank, which no entry before it has, and its seat."""
    entries = listed(comm, key)
    if not all(isinstance(entry, dict) for entry in entries):
        raise BadRow(f"{key!r} holds something that is not an object")
    for entry in entries:
        rank = integer(entry, "rank")
        if rank >= size or rank in ranks:
            raise BadRow(f"rank {rank} of {size} is impossible, or stands twice")
        yield entry, rank, _Seat(text(entry, "host"), integer(entry, "pid", low=-1), integer(entry, "cuda_dev", low=-1))


def _behind(number: int, ranks: Iterable[_Rank], index: Mapping[_Seat, int]) -> Stall | None:
    """Return the first operation of a communicator that some ranks have launched more often than others."""
    counted = grouped((op, (count, index[seat])) for seat, counts in ranks for op, count in (counts or {}).items())
    for op, reached in sorted(counted.items()):
        low, most = min(reached)[0], max(reached)[0]
        if low < most:
            standing = frozenset(member for count, member in reached if count == most)
            return Stall(number, low + 1, op, standing, frozenset(member for count, member in reached if count < most))
    return None
