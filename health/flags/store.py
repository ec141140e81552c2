"""A flag store on disk (SQLite in WAL mode): one writer, all of a change or nothing of it, readers that never wait."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ground.errors import InvalidInput
from ground.records import AwareTime, JsonRecord
from health.flags.ledger import Ledger
from topology.flag_store import PATIENCE_SECONDS, check_store, exists, has_events, sqlite_errors

MAX_STORE_BYTES = 1024 * 1024 * 1024  # Largest store: some 2,000,000 events


@dataclass(frozen=True, slots=True)
class Compaction(JsonRecord):
    """What ``arnold flags compact`` did."""

    store: str
    """The file."""
    before: AwareTime
    """History before this may be forgotten."""
    kept: int
    """Events that are left."""
    dropped: int
    """Events that are gone; 0 = the file was left alone."""
    size_before: int
    """Bytes before."""
    size: int
    """Bytes now."""
    archive: str | None
    """Where the whole store as it was is; null = nowhere."""


@contextmanager
def open_ledger(path: str | Path, *, now: datetime, create: bool = True) -> Iterator[Ledger]:
    """Open a store for one change, written as a whole at the end, or not at all where an error is raised; ``now`` is
    when a new store begins.  Raise InvalidInput for no store, or one that cannot be written or another process holds.
    """
    with _connected(path, create=create) as connection, _transaction(connection):
        ledger = Ledger(connection, str(path))
        if not has_events(connection, path):
            ledger.open(now)
        yield ledger


def store_size(path: str | Path) -> int:
    """Return the bytes of a store, with what is not yet in its file itself."""
    return sum(file.stat().st_size for file in (Path(path), Path(f"{path}-wal")) if file.exists())


def compact_store(path: str | Path, before: datetime, *, archive: str | Path | None = None) -> Compaction:
    """Forget history before an instant (:meth:`~health.flags.ledger.Ledger.forget`), and make the file smaller.

    :param archive: the whole store as it was is written here first; a file that must not be there yet.
    """
    with _connected(path, create=False) as connection:
        if not has_events(connection, path):
            raise InvalidInput("is empty", where=str(path), fix="there is nothing to forget")
        size = store_size(path)
        with _transaction(connection):
            kept_in = "" if archive is None else f"; {archive} has it"
            because = f"history before {before.isoformat()} is forgotten{kept_in}"
            dropped = Ledger(connection, str(path)).forget(before, because=because)
            if dropped and archive is not None:
                _put_aside(path, archive)
        if dropped:
            with suppress(sqlite3.OperationalError):  # without room for a second copy the file keeps its size
                connection.execute("VACUUM")
        kept = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    where = str(archive) if archive is not None and dropped else None
    return Compaction(str(path), before, kept, dropped, size, store_size(path), where)


@contextmanager
def _connected(path: str | Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    """Connect to a store that may be written to."""
    check_store(path)
    if not create and not exists(path):
        raise InvalidInput("there is no such file", where=str(path), fix="check the path")
    if "\0" in str(path):  # SQLite would take what is before it for the name
        raise InvalidInput("cannot be written: embedded null byte", where=str(path), fix="choose another name")
    with sqlite_errors(path, "written"):
        uri = f"{Path(path).absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE_SECONDS, isolation_level=None)
        with closing(connection):
            page = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {MAX_STORE_BYTES // page}")
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                with suppress(sqlite3.OperationalError):  # another process makes the same store: the next one sets it
                    connection.execute("PRAGMA journal_mode = WAL")
            yield connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the only place for a writer, and write all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _put_aside(path: str | Path, archive: str | Path) -> None:
    """Copy a store as it was before the change that is under way."""
    if os.path.lexists(archive):
        wrong = "is there already: nothing is written over"
        raise InvalidInput(wrong, where=str(archive), fix="give a name that is free")
    with sqlite_errors(archive, "written"), closing(sqlite3.connect(path, isolation_level=None)) as before:
        before.execute("VACUUM INTO ?", (str(archive),))
