"""One dump of the PyTorch Flight Recorder as JSON: what a rank enqueued, started and completed, and its groups.

Read as ``torch/csrc/distributed/c10d/FlightRecorderDetail.hpp`` and ``FlightRecorderHook`` write them, versions 2.0 to
2.x of the dump (2.10 in PyTorch of 2025-26), and as the recorder of TorchComms does.  These differ:

- a backend names its operations ``nccl:``, ``nccl2:``, ``ncclx:``, ``gloo:``;
- TorchComms describes a group by its backend, says of no operation that it is point-to-point, names no ranks of
  transfers, and retires what is over, whether or not it saw the event of its end;
- gloo keeps one group in ``pg_config``, without a name and of the ranks of whichever was made last, and retires what is
  over; its threads end operations in any order, so its ``pg_status`` does not say which;
- groups that were split from one have its name, each with its own ranks.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from ground.errors import InvalidInput
from ground.files import Source
from ground.formats import FileFormat
from ground.rows import BadRow, parse_object
from health.collectives.json_fields import Row, integer, listed, nested, text

FORMAT = FileFormat(
    "flight-recorder",
    source="PyTorch Flight Recorder dumps, 2.x (2.10 in 2026), also of gloo and TorchComms: one JSON file a rank",
    export="TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1; python3 flight_recorder_to_json.py FILE...",
    read="groups, operations with number, state, sizes and types, transfers between two ranks, pg_status",
    left_out="call stacks, durations, transfers that do not name both ranks (counted)",
    marks=('"pg_config"', '"entries"', '"version"'),
)

GLOO = "gloo"  # The backend whose own recorder is meant: FlightRecorderHook leaves it alone

STATES = ("scheduled", "started", "completed")

_OP = re.compile(r"(?:([A-Za-z0-9_-]+):)?(.*)", re.DOTALL)
_TRANSFER = re.compile(r"(send|recv)(?:_?[aA]ny_?[sS]ource)?(?: (\d+)(?:->|<-)(\d+))?\b.*", re.DOTALL)
_RANK = re.compile(r"(\d+)(?:\.json)?$")
# Operations that are given the same number of elements by every member, whole or in parts; of the others each member
# may be given its own
_SAME_INPUT = re.compile(r"_?(?:all_?)?reduce.*|gather", re.IGNORECASE)
_SAME_OUTPUT = re.compile(r"_?all_?gather.*|_?broadcast.*|scatter", re.IGNORECASE)


class GroupKey(NamedTuple):
    """What tells a process group from all others."""

    name: str
    ranks: tuple[int, ...]  # global ranks; empty = the recorder does not say


Pair = tuple[GroupKey, int, int]  # Group, the rank that sends, the rank that receives; global ranks


class Entry(NamedTuple):
    """One operation that a rank enqueued."""

    seq: int
    op: str  # as the recorder calls it, with the backend
    backend: str
    completed: bool  # it is over, by its state or by the status of its group
    seen: bool  # an event of the device has shown that it is over
    retired: bool  # the recorder has done with it
    since: float  # when it was enqueued, seconds since 1970
    number: int  # counts collectives and transfers of the group; -1 = unknown
    size: str  # what all members must give alike: "16 Float"; empty = nothing, or unknown


@dataclass
class Dump:
    """What one rank recorded."""

    rank: int
    host: str | None
    groups: dict[GroupKey, str]  # group -> description, also of groups whose ranks are not recorded
    collectives: dict[GroupKey, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    transfers: dict[Pair, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    unnamed: Counter[str] = field(default_factory=Counter)  # transfers that do not name both their ranks -> how many
    # backends of which it was seen here that operations begin or end: what has not ended is under way
    timed: set[str] = field(default_factory=set)
    lost: bool = False  # whether older entries have been overwritten, or left out when they were over
    # the recorder is that of TorchComms, which numbers the operations of all groups in one series
    one_series: bool = False


def read_dump(source: Source) -> Dump:
    """Return the dump in a file; its rank stands in it, or is the last digits of the file's name."""
    try:
        document = parse_object(source.text)
        version = text(document, "version")
        if not version.startswith("2."):
            raise BadRow(f"the dump has version {version!r:.20}; known are 2.x")
        host = document.get("host")
        if host is not None and not isinstance(host, str):
            raise BadRow("'host' is not a text")
        dump = Dump(_rank_of(document, source.name), host or None, _groups(nested(document, "pg_config")))
        entries = listed(document, "entries") if "entries" in document else []
        reader = _Entries(dump, document.get("pg_status"))
        for i, entry in enumerate(entries):
            try:
                reader.take(entry)
            except BadRow as bad:
                raise BadRow(f"entry {i}: {bad.reason}") from None
        reader.finish()
        first = entries[0].get("record_id") if entries else 0
        dump.lost = type(first) is int and first > 0
    except BadRow as bad:
        fix = "get the dump again: as JSON, or its pickle converted where it was written by flight_recorder_to_json.py"
        raise InvalidInput(bad.message, where=source.name, fix=fix) from None
    return dump


def _rank_of(document: Row, name: str) -> int:
    if "rank" in document:
        return integer(document, "rank")
    digits = _RANK.search(name)
    if digits is None:
        raise BadRow("the rank is unknown: there is no 'rank' in it, and the file's name does not end in digits")
    return int(digits.group(1)[-18:])


def _groups(config: Row) -> dict[GroupKey, str]:
    """Return groups and their descriptions; the recorder writes the ranks as the text ``"[0, 1]"`` or ``"0,1"``."""
    groups = {}
    for name, info in config.items():
        if not isinstance(info, dict):
            raise BadRow(f"the group {name!r:.60} is not an object")
        ranks: Any = info.get("ranks")
        if isinstance(ranks, str) and len(ranks) < 2**22:
            try:
                ranks = ast.literal_eval(ranks if ranks.lstrip().startswith("[") else f"[{ranks}]")
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                ranks = None
        if not isinstance(ranks, list) or not ranks or not all(type(r) is int and 0 <= r < 2**31 for r in ranks):
            raise BadRow(f"the ranks of the group {name!r:.60} are not a list of numbers")
        groups[GroupKey(name, tuple(ranks))] = str(info.get("desc", ""))
    return groups


class _Entries:
    """Takes the entries of a dump in their order.

    Whether the last operation that is over, as ``pg_status`` counts, is one of collectives or one of all operations
    differs: ProcessGroupNCCL counts collectives and transfers apart and tells the number of whichever came last, gloo
    and FlightRecorderHook count operations.  So the count is believed where the last one enqueued is, by the same
    count, the last that was recorded.
    """

    def __init__(self, dump: Dump, status: Any) -> None:
        self._dump = dump
        known = status if isinstance(status, dict) else {}
        self._status = {number: _progress(told) for number, told in known.items()}
        self._known = {key.name: key for key in dump.groups}
        self._complete = bool(dump.groups) and "" not in self._known  # whether every group must be recorded
        self._progress: dict[GroupKey, tuple[int, int]] = {}  # number last completed, last enqueued; -1 = none
        self._mixed: set[GroupKey] = set()  # groups with transfers
        self._of_comms = True  # whether all groups so far are described by their backend

    def take(self, entry: Any) -> None:
        """Add one entry; raise :class:`BadRow` where it cannot be used."""
        if not isinstance(entry, dict):
            raise BadRow("is not an object")
        names = listed(entry, "process_group")
        if not names or not isinstance(names[0], str):
            raise BadRow(f"'process_group' is {names!r:.60}, not the name and the description of a group")
        desc = str(names[1]) if len(names) > 1 else ""
        key = self._group(names[0], desc)
        state = text(entry, "state")
        if state not in STATES:
            raise BadRow(f"'state' is {state!r:.40}, not one of {', '.join(STATES)}")
        op = text(entry, "profiling_name")
        backend, what = _OP.fullmatch(op).groups()  # type: ignore[union-attr]  # it matches every text
        self._of_comms &= backend == desc
        number = entry.get("op_id")
        made = Entry(
            seq=integer(entry, "collective_seq_id"),
            op=op,
            backend=backend or "",
            completed=state == "completed",
            seen=state == "completed",
            retired=bool(entry.get("retired")),
            since=integer(entry, "time_created_ns") * 1e-9,
            number=number if type(number) is int else -1,
            size=_size(entry, what),
        )
        done, started, last = self._status.get(str(entry.get("pg_id")), (-1, -1, -1))
        self._progress[key] = (done, last)
        if state != "scheduled" or started >= 0:
            self._dump.timed.add(made.backend)
        transfer = _TRANSFER.fullmatch(what)
        if transfer is None and not entry.get("is_p2p"):
            self._dump.collectives[key].append(made)
            return
        self._mixed.add(key)
        pair = None if transfer is None else _pair(key, transfer, self._dump.rank)
        if pair is None:
            self._dump.unnamed[op] += 1
        else:
            self._dump.transfers[pair].append(made)

    def finish(self) -> None:
        """Note of each operation whether it is over, by what is known when all have been taken."""
        dump = self._dump
        dump.one_series = self._of_comms and bool(dump.collectives or dump.transfers or dump.unnamed)
        lists = [*dump.collectives.items(), *((pair[0], mine) for pair, mine in dump.transfers.items())]
        last_number: dict[GroupKey, int] = defaultdict(lambda: -1)
        last_seq: dict[GroupKey, int] = defaultdict(lambda: -1)
        for key, mine in lists:
            last_number[key] = max(last_number[key], *(entry.number for entry in mine))
            last_seq[key] = max(last_seq[key], *(entry.seq for entry in mine))
        for key, mine in lists:
            done, last = self._progress[key]
            by_number = last >= 0 and last == last_number[key]
            by_seq = key not in self._mixed and last == last_seq[key]
            all_over = 0 <= done == last and (by_number or key not in self._mixed)
            for i, one in enumerate(mine):
                if dump.one_series or one.backend == GLOO:
                    counted, over = not one.retired, one.completed or one.retired
                else:
                    counted = done >= 0 and (by_number or by_seq)
                    over = (
                        one.completed or all_over or (by_number and one.number <= done) or (by_seq and one.seq <= done)
                    )
                mine[i] = one._replace(completed=over, retired=one.retired and not over)
                if counted:
                    dump.timed.add(one.backend)

    def _group(self, name: str, desc: str) -> GroupKey:
        """Return the group of an entry; one that is not recorded is known by its name alone."""
        key = self._known.get(name)
        if key is None:
            if self._complete:
                raise BadRow(f"the group {name!r:.60} is not in pg_config")
            key = self._known[name] = GroupKey(name, ())
            self._dump.groups[key] = desc
        return key


def _size(entry: Row, what: str) -> str:
    """Return how many elements of which types all members of a collective must give alike; empty = nothing."""
    side = "input" if _SAME_INPUT.fullmatch(what) else "output" if _SAME_OUTPUT.fullmatch(what) else ""
    sizes = entry.get(f"{side}_sizes") or entry.get("input_sizes")
    if not side or not isinstance(sizes, list) or not all(isinstance(one, list) for one in sizes):
        return ""
    dims = [size for one in sizes for size in one]
    if not dims or not all(type(size) is int and 0 <= size < 2**40 for size in dims) or len(dims) > 2**16:
        return ""
    types = entry.get(f"{side}_dtypes") or entry.get("input_dtypes")
    names = sorted({str(one)[:20] for one in types}) if isinstance(types, list) else []
    return " ".join([f"{sum(prod(one) for one in sizes):,}", *names])


def _pair(key: GroupKey, transfer: re.Match[str], rank: int) -> Pair | None:
    """Return the pair of a transfer of a rank; ``None`` = it does not name both, or not this one as it should.

    The names are places in the group, which PyTorch sorts; groups that were split keep the order they were given.
    """
    way, first, second = transfer.groups()
    if first is None or not key.ranks:
        return None
    here, there = int(first[-18:]), int(second[-18:])
    if max(here, there) >= len(key.ranks):
        raise BadRow(f"{transfer[0]!r:.40} names a rank that the group does not have")
    for ranks in (key.ranks, sorted(key.ranks)):
        if ranks[here] == rank:
            return (key, rank, ranks[there]) if way == "send" else (key, ranks[there], rank)
    return None


def _progress(status: Any) -> tuple[int, int, int]:
    """Return the last operation of a group completed, started and enqueued, as the recorder counts; -1 = none."""
    told = status if isinstance(status, dict) else {}
    values = (told.get(f"last_{what}_collective") for what in ("completed", "started", "enqueued"))
    texts = (str(value)[:20] if isinstance(value, int | str) else "" for value in values)
    done, started, last = (int(text) if re.fullmatch(r"\d{1,18}", text) else -1 for text in texts)
    return done, started, last
