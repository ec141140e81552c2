"""PyTorch Flight Recorder dumps as JSON: what each rank enqueued, started and completed, and who is in which group.

Read as ``torch/csrc/distributed/c10d/FlightRecorderDetail.hpp`` writes them, versions 2.0 to 2.x of the dump (2.10 in
PyTorch of 2025-26), from ``_dump_nccl_trace_json()``, the debug server, or pickles converted at their source by
``flight_recorder_to_json.py``.  One file for each rank; its rank stands in the document, or as the last digits of the
file's name.

A dump is a snapshot.  That a collective stands still, and was not merely under way when the dump was made, is known
where the recorder retired it without completion: it has timed out.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from scheduler.health.collectives.recording import Group, Member
from scheduler.health.collectives.rows import BadRow, Row, integer, listed, nested, parse_object, text
from scheduler.health.collectives.stalls import Mismatch, Snapshot, Stall
from topology.errors import InvalidInput
from topology.files import Source

STATES = ("scheduled", "started", "completed")

_P2P = re.compile(r"[a-z]+:(send|recv) (\d+)(?:->|<-)(\d+)")
_RANK = re.compile(r"(\d+)(?:\.json)?$")


class _Entry(NamedTuple):
    """One operation that a rank enqueued."""

    seq: int
    op: str
    completed: bool
    timed_out: bool
    since: float


class _Dump(NamedTuple):
    """What one rank recorded.

    :param groups: name -> ranks.
    :param collectives: name of the group -> entries, in order.
    :param sends: (group, from, to) -> an operation that is not complete, by global ranks.
    """

    rank: int
    host: str | None
    groups: dict[str, tuple[str, tuple[int, ...]]]
    collectives: dict[str, list[_Entry]]
    sends: dict[tuple[str, int, int], _Entry]


def read_flight_recorder(sources: Sequence[Source], *, lenient: bool = False) -> tuple[Snapshot, tuple[str, ...]]:
    """The snapshot that the dumps of a job's ranks make, and notes.

    :param lenient: leave out dumps that cannot be used, and say which; of their ranks nothing is known then.
    :raises InvalidInput: a dump cannot be used (leniently: none can), two are of one rank, two disagree on a group.
    """
    dumps: dict[int, _Dump] = {}
    place: dict[int, str] = {}
    refused: list[InvalidInput] = []
    for source in sources:
        try:
            dump = _read(source)
        except InvalidInput as error:
            if not lenient:
                raise
            refused.append(error)
            continue
        if dump.rank in dumps:
            raise InvalidInput(
                f"is the second dump of rank {dump.rank}: the first is {place[dump.rank]}",
                where=source.name,
                fix="give one dump of each rank, of one moment",
            )
        for name, (_, ranks) in dump.groups.items():
            for other in dumps.values():
                if name in other.groups and other.groups[name][1] != ranks:
                    raise InvalidInput(
                        f"the group {name!r:.60} has other ranks than in {place[other.rank]}",
                        where=source.name,
                        fix="give the dumps of one job only",
                    )
        dumps[dump.rank], place[dump.rank] = dump, source.name
    if not dumps:
        raise refused[0]
    snapshot, notes = _snapshot(dumps)
    return snapshot, (*(f"left out {error.where}: {error.message}" for error in refused), *notes)


def _read(source: Source) -> _Dump:
    try:
        document = parse_object(source.text)
        version = text(document, "version")
        if not version.startswith("2."):
            raise BadRow(f"the dump has version {version!r:.20}; known are 2.x")
        rank = _rank_of(document, source.name)
        host = document.get("host")
        if host is not None and not isinstance(host, str):
            raise BadRow("'host' is not a text")
        groups = {name: _group(name, info) for name, info in nested(document, "pg_config").items()}
        collectives: dict[str, list[_Entry]] = defaultdict(list)
        sends: dict[tuple[str, int, int], _Entry] = {}
        for i, entry in enumerate(listed(document, "entries") if "entries" in document else []):
            try:
                _take(entry, groups, collectives, sends)
            except BadRow as bad:
                raise BadRow(f"entry {i}: {bad.reason}") from None
    except BadRow as bad:
        fix = "get the dump again: as JSON, or its pickle converted where it was written by flight_recorder_to_json.py"
        raise InvalidInput(bad.reason, where=source.name, fix=fix) from None
    return _Dump(rank, host or None, groups, dict(collectives), sends)


def _rank_of(document: Row, name: str) -> int:
    if "rank" in document:
        return integer(document, "rank")
    digits = _RANK.search(name)
    if digits is None:
        raise BadRow("the rank is unknown: there is no 'rank' in it, and the file's name does not end in digits")
    return int(digits.group(1))


def _group(name: str, info: Any) -> tuple[str, tuple[int, ...]]:
    """Description and ranks; the recorder writes the ranks as the text ``"[0, 1]"``."""
    if not isinstance(info, dict):
        raise BadRow(f"the group {name!r:.60} is not an object")
    ranks: Any = info.get("ranks")
    if isinstance(ranks, str) and len(ranks) < 2**22:
        try:
            ranks = ast.literal_eval(ranks)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            ranks = None
    if not isinstance(ranks, list) or not all(type(rank) is int and rank >= 0 for rank in ranks) or not ranks:
        raise BadRow(f"the ranks of the group {name!r:.60} are not a list of numbers")
    return str(info.get("desc", "")), tuple(ranks)


def _take(
    entry: Any,
    groups: dict[str, tuple[str, tuple[int, ...]]],
    collectives: dict[str, list[_Entry]],
    sends: dict[tuple[str, int, int], _Entry],
) -> None:
    if not isinstance(entry, dict):
        raise BadRow("is not an object")
    names = listed(entry, "process_group")
    name = names[0] if names else None
    if not isinstance(name, str) or name not in groups:
        raise BadRow(f"the group {name!r:.60} is not in pg_config")
    state = text(entry, "state")
    if state not in STATES:
        raise BadRow(f"'state' is {state!r:.40}, not one of {', '.join(STATES)}")
    op, completed = text(entry, "profiling_name"), state == "completed"
    since = integer(entry, "time_created_ns") * 1e-9
    timed_out = bool(entry.get("retired")) and not completed
    made = _Entry(integer(entry, "collective_seq_id"), op, completed, timed_out, since)
    match = _P2P.fullmatch(op)
    if match is None:
        if not entry.get("is_p2p"):
            collectives[name].append(made)
        return
    first, second = int(match.group(2)), int(match.group(3))
    here, there = (first, second) if match.group(1) == "send" else (second, first)
    ranks = sorted(groups[name][1])
    if max(here, there) >= len(ranks):
        raise BadRow(f"{op!r:.40} names a rank that the group does not have")
    pair = (name, ranks[here], ranks[there])
    if completed:
        sends.pop(pair, None)
    else:
        sends.setdefault(pair, made)


def _snapshot(dumps: dict[int, _Dump]) -> tuple[Snapshot, tuple[str, ...]]:
    known: dict[str, tuple[str, tuple[int, ...]]] = {}
    for dump in dumps.values():
        known.update(dump.groups)
    ranks = sorted(set(dumps) | {rank for _, members in known.values() for rank in members})
    index = {rank: i for i, rank in enumerate(ranks)}
    members = tuple(Member(f"rank {r}", r, dumps[r].host if r in dumps else None) for r in ranks)
    groups = [
        Group(f"{name} {desc}".strip() if desc != "undefined" else name, "", tuple(index[r] for r in who))
        for name, (desc, who) in known.items()
    ]
    stalls: list[Stall] = []
    mismatches: list[Mismatch] = []
    timed_out = False
    for number, (name, (_, who)) in enumerate(known.items()):
        entries = {rank: dumps[rank].collectives.get(name, []) for rank in who if rank in dumps}
        stall, mismatch, late = _stall(number, entries, index)
        stalls += [stall] if stall is not None else []
        mismatches += [mismatch] if mismatch is not None else []
        timed_out |= late
    for pair in sorted({pair for dump in dumps.values() for pair in dump.sends}):
        name, source, target = pair
        entries_of = {
            rank: dumps[rank].sends[pair] for rank in (source, target) if rank in dumps and pair in dumps[rank].sends
        }
        groups.append(Group(f"{name} {source}->{target}", "pp", (index[source], index[target])))
        standing = frozenset(index[rank] for rank in entries_of)
        absent = frozenset(index[r] for r in (source, target) if r in dumps) - standing
        first = next(iter(entries_of.values()))
        stalls.append(Stall(len(groups) - 1, first.seq, first.op, standing, absent, first.since))
        timed_out |= any(entry.timed_out for entry in entries_of.values())
    unseen = frozenset(index[rank] for rank in ranks if rank not in dumps)
    notes = []
    if unseen:
        notes.append(f"there is no dump of {len(unseen)} of {len(ranks)} ranks: what they did is unknown")
    if stalls and not timed_out:
        notes.append("no operation has timed out: the dumps may show a healthy job at work")
    snapshot = Snapshot(members, tuple(groups), tuple(stalls), tuple(mismatches), settled=timed_out, unseen=unseen)
    return snapshot, tuple(notes)


def _stall(
    number: int, entries: dict[int, list[_Entry]], index: dict[int, int]
) -> tuple[Stall | None, Mismatch | None, bool]:
    """The first collective of a group that somebody enqueued and did not complete."""
    open_ = [entry for mine in entries.values() for entry in mine if not entry.completed]
    if not open_:
        return None, None, False
    seq = min(entry.seq for entry in open_)
    at = {rank: entry for rank, mine in entries.items() for entry in mine if entry.seq == seq}
    reached = {rank: max((entry.seq for entry in mine), default=-1) for rank, mine in entries.items()}
    standing = frozenset(index[rank] for rank, entry in at.items() if not entry.completed)
    absent = frozenset(index[rank] for rank, last in reached.items() if last < seq)
    ops = Counter(entry.op for entry in at.values())
    op = max(sorted(ops), key=lambda name: ops[name])
    others = tuple((index[rank], entry.op) for rank, entry in sorted(at.items()) if entry.op != op)
    mismatch = Mismatch(number, seq, op, others) if others else None
    since = min(entry.since for entry in at.values())
    return Stall(number, seq, op, standing, absent, since), mismatch, any(entry.timed_out for entry in open_)
