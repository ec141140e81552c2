"""The flag store as readers see it: an SQLite file of events that say what was found, decided and when.

Each event carries what one source holds against one node from then on, its *steps*; so the events up to some time tell
what held then, without the rules by which it was decided (:mod:`health.flags`, which also writes the store).
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

from topology.errors import InvalidInput
from topology.files import STDIN
from topology.flags import FAULTY, LAST, FlagEvent, NodeFlag, merge_by_node, worst_of_each
from topology.json_record import json_data, read_json

APPLICATION = 0x41464C47  # PRAGMA application_id of a store: the letters AFLG
VERSION = 2  # PRAGMA user_version, and of the JSON lines that are exported; 1 were stores of JSON lines
PATIENCE_SECONDS = 10.0
"""How long a writer waits for another: a batch takes milliseconds, so one that holds the lock longer is stuck."""

SQLITE = b"SQLite format 3\0"  # First bytes of an SQLite file
_LINES = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"arnold"\s*:\s*"flag-store"')


class FlagLog:
    """A flag store that is open for reading: a connection to a database with ``events``, in a transaction."""

    def __init__(self, name: str, connection: sqlite3.Connection) -> None:
        self.name = name
        self._connection = connection

    @property
    def opened(self) -> FlagEvent:
        """The first event."""
        return next(self.events("number = 1"))

    @property
    def forgotten(self) -> datetime | None:
        """The time before which history is not whole any more; ``None`` = all of it is there."""
        return self.opened.forgotten

    def events(self, where: str = "1", *values: object) -> Iterator[FlagEvent]:
        """Yield events in order; ``where`` is a condition in SQL, and an order if not that of the numbers."""
        order = "" if "ORDER BY" in where else " ORDER BY number"
        for (text,) in self._connection.execute(f"SELECT json FROM events WHERE {where}{order}", values):
            try:
                yield read_json(FlagEvent, json.loads(text))
            except ValueError as error:
                wrong = f"an event cannot be read: {str(error)[:200]}"
                fix = "restore the store from a copy; it is written by `arnold flags` alone"
                raise InvalidInput(wrong, where=self.name, fix=fix) from error

    def latest(self, at: datetime = LAST, where: str = "1", *values: object) -> Iterator[FlagEvent]:
        """Yield the last event of each node and source up to an instant (timezone-aware), if an SQL condition holds."""
        last = "SELECT max(number) FROM events WHERE node != '' AND time <= ? GROUP BY node, source"
        yield from self.events(f"number IN ({last}) AND {where} ORDER BY node, source", time_text(at), *values)

    def standing(self, at: datetime) -> list[NodeFlag]:
        """Return what each source holds against each node at an instant (timezone-aware), by node and source."""
        flags = (flag for event in self.latest(at) for flag in event.flags)
        return worst_of_each(flag for flag in flags if flag.active(at))

    def holding(self, at: datetime) -> list[NodeFlag]:
        """Return the flags of an instant, one a node, merged over the sources."""
        return merge_by_node(self.standing(at))

    def over_time(self) -> Iterator[NodeFlag]:
        """Yield all that was ever held, by node and source: flags with the times from which and until which they held.

        Those that are active at an instant are what :meth:`standing` returns of it, and slower flags of the source.
        """
        ordered = self.events("node != '' ORDER BY node, source, number")
        for event, following in pairwise(chain(ordered, [None])):
            assert event is not None
            same = following is not None and (following.node, following.source) == (event.node, event.source)
            last = following.time if following is not None and same else LAST
            for step in event.steps:
                since, until = max(event.time, step.flag.since or event.time), min(last, step.until)
                if since < until:
                    yield replace(step.flag, since=since, until=until)

    def nodes(self) -> set[str]:
        """Return the names of all nodes that an event is about."""
        return {node for (node,) in self._connection.execute("SELECT DISTINCT node FROM events WHERE node != ''")}

    def slowdowns(self) -> Mapping[str, set[float]]:
        """Return every slowdown that was ever held against each node."""
        rows = self._connection.execute(
            "SELECT DISTINCT node, json_extract(step.value, '$.flag.slowdown')"
            " FROM events, json_each(events.json, '$.steps') AS step"
        )
        held: dict[str, set[float]] = {}
        for node, slowdown in rows:
            held.setdefault(node, set()).add(FAULTY if slowdown is None else slowdown)
        return held

    def lines(self) -> Iterator[str]:
        """Yield the store as JSON lines, without their ends; the first says what it is."""
        for number, event in enumerate(self.events()):
            head = {"arnold": "flag-store", "version": VERSION} if number == 0 else {}
            yield json.dumps(head | event_data(event), separators=(",", ":"))


def event_data(event: FlagEvent) -> dict[str, Any]:
    """Return an event as it is stored: without what is empty."""
    return dict(json_data(FlagEvent, event, without_defaults=True))


def time_text(time: datetime) -> str:
    """Return a time as the store compares it: in UTC, to the microsecond, the earlier the less."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def is_store(path: str | Path) -> bool:
    """Return whether a file is an SQLite database by its first bytes; what cannot be read is none."""
    return _first_bytes(path).startswith(SQLITE)


def refuse_lines(name: str, data: bytes) -> None:
    """Refuse a flag store of JSON lines by an error."""
    if _LINES.match(data):
        wrong = "holds the events of a flag store as JSON lines: an export, or a store of an earlier version"
        fix = f"arnold flags import --from flag-store {name} --store NEW, and use NEW"
        raise InvalidInput(wrong, where=name, fix=fix)


def check_store(path: str | Path) -> None:
    """Refuse a file that no store can be in, before SQLite touches it; one that is empty or missing may become one."""
    data = _first_bytes(path)
    refuse_lines(str(path), data)
    if data and not data.startswith(SQLITE):
        raise _no_store(path)


@contextmanager
def open_log(path: str | Path) -> Iterator[FlagLog]:
    """Open a store for reading; all that is read until it is closed is of one moment, and no writer waits for it."""
    if not exists(path):
        raise InvalidInput("there is no such file", where=str(path), fix="check the path")
    check_store(path)
    with sqlite_errors(path, "read"), closing(_reader(path)) as connection:
        connection.execute("BEGIN")
        if not has_events(connection, path):
            raise _no_store(path)
        yield FlagLog(str(path), connection)


def has_events(connection: sqlite3.Connection, path: str | Path) -> bool:
    """Return whether a database is a store; ``False`` = it is empty; refuse another program's or a later version's."""
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not tables and not application:
        return False
    if application != APPLICATION:
        raise _no_store(path)
    if version > VERSION:
        wrong = f"this is version {version} of the format, and {VERSION} is known"
        raise InvalidInput(wrong, where=str(path), fix="use the version of Arnold that wrote it, or a later one")
    return True


@contextmanager
def sqlite_errors(path: str | Path, doing: Literal["read", "written"]) -> Iterator[None]:
    """Turn errors of SQLite into :class:`InvalidInput` that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        reason, fix = str(error), "choose a file in a folder that exists and may be written to"
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:  # the primary code, without its detail
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                reason = f"another process has been writing to it for {PATIENCE_SECONDS:g} s"
                fix = "wait for it, or end it if it hangs"
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                fix = "make room on the disk; `arnold flags compact` forgets old history and keeps the flags"
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
                fix = "restore the store from a copy; it is written by `arnold flags` alone"
        raise InvalidInput(f"cannot be {doing}: {reason}", where=str(path), fix=fix) from error


def _reader(path: str | Path) -> sqlite3.Connection:
    """Connect to a store that is there.

    A reader of a database in WAL mode leaves two files beside it unless it may also write, and another user's could
    keep the writer out.  So a store that may not be written to, and that no writer has open, is read as a file that
    does not change.
    """
    file = Path(path).absolute()
    free = os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)
    mode = "rw" if free or exists(f"{file}-wal") else "ro&immutable=1"
    return sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True, timeout=PATIENCE_SECONDS, isolation_level=None)


def _first_bytes(path: str | Path) -> bytes:
    try:
        if str(path) == STDIN or not Path(path).is_file():  # a pipe can be read once only
            return b""
        with Path(path).open("rb") as file:
            return file.read(100)
    except (OSError, ValueError):
        return b""


def exists(path: str | Path) -> bool:
    """Return whether there is such a file; a name that no file can have is none."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises for such a name


def _no_store(path: str | Path) -> InvalidInput:
    return InvalidInput(
        "is no flag store", where=str(path), fix="give a file that `arnold flags record` or `import` made"
    )
