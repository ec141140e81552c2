"""One dump of the PyTorch Flight Recorder as JSON: what a rank enqueued, started and completed, and its groups.

Read as ``torch/csrc/distributed/c10d/FlightRecorderDetail.hpp`` and ``FlightRecorderHook`` write them, versions 2.0 to
2.x of the dump (2.10 in PyTorch of 2025-26), and as the recorder of TorchComms does.  These differ:

- a backend names its operations ``nccl:``, ``nccl2:``, ``ncclx:``, ``gloo:``;
- ranks of a group are the text ``[0, 1]``, of TorchComms ``0,1``;
- TorchComms says of no operation that it is point-to-point, and its transfers name no ranks;
- the recorder of gloo writes an empty ``pg_config``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from health.collectives.json_fields import Row, integer, listed, nested, text
from topology.errors import InvalidInput
from topology.files import Source
from topology.tables.bad_rows import BadRow
from topology.tables.text_rows import parse_object

STATES = ("scheduled", "started", "completed")

PROGRESS = ("completed", "started", "enqueued")

_OP = re.compile(r"(?:([A-Za-z0-9_-]+):)?(.*)", re.DOTALL)
_TRANSFER = re.compile(r"(send|recv)(?:_?[aA]ny_?[sS]ource)?(?: (\d+)(?:->|<-)(\d+))?\b.*", re.DOTALL)
_RANK = re.compile(r"(\d+)(?:\.json)?$")

Pair = tuple[str, int, int]  # Group, the rank that sends, the rank that receives; global ranks


class Entry(NamedTuple):
    """One operation that a rank enqueued."""

    seq: int
    op: str  # as the recorder calls it, with the backend
    backend: str
    completed: bool
    retired: bool  # the recorder has done with it
    since: float  # when it was enqueued, seconds since 1970


@dataclass
class Dump:
    """What one rank recorded."""

    rank: int
    host: str | None
    groups: dict[str, tuple[str, tuple[int, ...]]]  # name -> description and ranks; empty = the recorder does not say
    collectives: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    transfers: dict[Pair, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    unnamed: Counter[str] = field(default_factory=Counter)  # transfers that do not name both their ranks -> how many
    # backends of which an event of the device was seen: their states can be believed
    timed: set[str] = field(default_factory=set)
    # name of the group -> number of the last operation completed, and of the last enqueued; -1 = none
    progress: dict[str, tuple[int, int]] = field(default_factory=dict)
    # name of the group -> identifier of its last operation, which counts collectives and transfers
    last_id: dict[str, int] = field(default_factory=dict)
    mixed: set[str] = field(default_factory=set)  # groups with transfers, which may have collectives as well
    lost: bool = False  # whether older entries have been overwritten
    # the recorder is that of TorchComms, which numbers the operations of all groups in one series
    one_series: bool = False

    def finished(self, group: str) -> bool:
        """Return whether this rank has completed all that it enqueued in a group, by the recorder's own count.

        ProcessGroupNCCL numbers transfers and collectives apart and tells the number of whichever came last: with both
        in a group, "completed 1, enqueued 1" may be a collective that is over and a transfer that hangs.  There the
        count is believed only where it is of operation identifiers, as FlightRecorderHook's is.
        """
        done, last = self.progress.get(group, (-1, -1))
        return done >= 0 and done == last and (group not in self.mixed or last == self.last_id.get(group))


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
        config = nested(document, "pg_config")
        groups = {name: _group(name, info) for name, info in config.items()}
        dump = Dump(_rank_of(document, source.name), host or None, groups)
        entries = listed(document, "entries") if "entries" in document else []
        status = document.get("pg_status")
        for i, entry in enumerate(entries):
            try:
                _take(dump, entry, status if isinstance(status, dict) else {})
            except BadRow as bad:
                raise BadRow(f"entry {i}: {bad.reason}") from None
        first = entries[0].get("record_id") if entries else 0
        dump.lost = type(first) is int and first > 0
        dump.one_series = any(not str(info.get("ranks", "[")).lstrip().startswith("[") for info in config.values())
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


def _group(name: str, info: Any) -> tuple[str, tuple[int, ...]]:
    """Return description and ranks; the recorder writes the ranks as the text ``"[0, 1]"`` or ``"0,1"``."""
    if not isinstance(info, dict):
        raise BadRow(f"the group {name!r:.60} is not an object")
    ranks: Any = info.get("ranks")
    if isinstance(ranks, str) and len(ranks) < 2**22:
        try:
            ranks = ast.literal_eval(ranks if ranks.lstrip().startswith("[") else f"[{ranks}]")
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            ranks = None
    if not isinstance(ranks, list) or not all(type(rank) is int and 0 <= rank < 2**31 for rank in ranks) or not ranks:
        raise BadRow(f"the ranks of the group {name!r:.60} are not a list of numbers")
    return str(info.get("desc", "")), tuple(ranks)


def _take(dump: Dump, entry: Any, status: Mapping[str, Any]) -> None:
    if not isinstance(entry, dict):
        raise BadRow("is not an object")
    names = listed(entry, "process_group")
    name = names[0] if names else None
    if not isinstance(name, str) or (dump.groups and name not in dump.groups):
        raise BadRow(f"the group {name!r:.60} is not in pg_config")
    state = text(entry, "state")
    if state not in STATES:
        raise BadRow(f"'state' is {state!r:.40}, not one of {', '.join(STATES)}")
    op = text(entry, "profiling_name")
    backend, what = _OP.fullmatch(op).groups()  # type: ignore[union-attr]  # it matches every text
    made = Entry(
        seq=integer(entry, "collective_seq_id"),
        op=op,
        backend=backend or "",
        completed=state == "completed",
        retired=bool(entry.get("retired")),
        since=integer(entry, "time_created_ns") * 1e-9,
    )
    done, started, last = _progress(status.get(str(entry.get("pg_id"))))
    if state != "scheduled" or max(done, started) >= 0:
        dump.timed.add(made.backend)
    dump.progress[name] = (done, last)
    if type(number := entry.get("op_id")) is int:
        dump.last_id[name] = max(number, dump.last_id.get(name, -1))
    transfer = _TRANSFER.fullmatch(what)
    if transfer is None and not entry.get("is_p2p"):
        dump.collectives[name].append(made)
        return
    dump.mixed.add(name)
    pair = None if transfer is None else _pair(dump, name, transfer)
    if pair is None:
        dump.unnamed[op] += 1
    else:
        dump.transfers[pair].append(made)


def _pair(dump: Dump, name: str, transfer: re.Match[str]) -> Pair | None:
    """Return the pair of a transfer; ``None`` = it does not name both ranks, or the ranks of its group are unknown."""
    way, first, second = transfer.groups()
    if first is None or name not in dump.groups:
        return None
    ranks = sorted(dump.groups[name][1])
    here, there = int(first[-18:]), int(second[-18:])
    if max(here, there) >= len(ranks):
        raise BadRow(f"{transfer[0]!r:.40} names a rank that the group does not have")
    pair = (ranks[here], ranks[there])
    return (name, *(pair if way == "send" else pair[::-1]))


def _progress(status: Any) -> tuple[int, int, int]:
    """Return the last operation of a group completed, started and enqueued, as the recorder counts; -1 = none."""
    told = (status.get(f"last_{what}_collective") if isinstance(status, dict) else None for what in PROGRESS)
    texts = (str(value)[:20] if isinstance(value, int | str) else "" for value in told)
    done, started, last = (int(text) if re.fullmatch(r"\d{1,18}", text) else -1 for text in texts)
    return done, started, last
