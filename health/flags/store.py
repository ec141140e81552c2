"""A flag store on disk: one writer at a time, and what was written stays written.

A batch of lines is one append, followed by fsync, under a lock on the file; readers need no lock, for lines are never
changed.  A writer that was killed leaves at most the beginning of a line at the end, which nobody was told of; the next
writer takes it away.  Compaction writes another file and puts it in the place of the first at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from health.flags.compaction import compacted
from health.flags.ledger import Ledger
from topology.errors import InvalidInput, TooLarge
from topology.files import Source, decode_source, read_source, write_file
from topology.flag_log import FlagLog, read_log

T = TypeVar("T")

MAX_STORE_BYTES = 128 * 1024 * 1024
"""Largest store: some 400,000 events, which take about 15 seconds and 1.7 GB to read (``python -m benchmarks``)."""

PATIENCE_SECONDS = 10.0
"""How long a writer waits for another: a batch takes milliseconds, so one that holds the lock longer is stuck."""

_LOOK_SECONDS = 0.05

_BEGINNING = b'{"arnold":"flag-store"'


@dataclass(frozen=True, slots=True)
class Compaction:
    """What became of a store.

    :param kept: lines that are left.
    :param dropped: lines that are gone.
    :param size: bytes before and after.
    """

    kept: int
    dropped: int
    size: tuple[int, int]


class FlagStore:
    """A file of flags.  Nothing is kept in memory between two calls, so that several processes may share it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def read(self) -> FlagLog:
        """All lines.

        :raises InvalidInput: there is no such file, or it is no flag store, or it is broken.
        :raises TooLarge: it has grown beyond :data:`MAX_STORE_BYTES`.
        """
        return read_log(read_source(self.path, max_bytes=MAX_STORE_BYTES))

    def change(self, change: Callable[[Ledger], T], *, now: datetime, create: bool = True) -> tuple[T, int]:
        """Change the store under the lock; what the ledger has written by the end is appended.

        :param change: if it raises, nothing is written.
        :param create: make the file if it is not there.
        :returns: what ``change`` returned, and the bytes of an unfinished line that was taken away.
        :raises InvalidInput: the file cannot be written to, another process holds it, or it is no flag store.
        """
        if not create:
            self.read()
        with self._locked() as handle:
            text = self._text(handle, MAX_STORE_BYTES)
            log = read_log(text) if text is not None else None
            ledger = Ledger(log)
            if log is None:
                ledger.open(now)
            result = change(ledger)
            new = ledger.log.lines[len(log.lines) if log is not None else 0 :]
            torn = log.torn if log is not None else 0
            self._append(handle, "".join(line.text() for line in new), text, torn)
        return result, torn

    def compact(self, before: datetime, *, archive: str | Path | None = None) -> Compaction:
        """Forget history before an instant; flags, rules, relapses and all that came later stay.

        The file is replaced at once, by one that was written to the end.

        :param archive: the whole store as it was is written here first; a file that must not be there yet.
        :raises InvalidInput: no such store, it is broken, another process holds it, or a file cannot be written.
        :raises TooLarge: it has grown beyond twice :data:`MAX_STORE_BYTES`.
        """
        read_source(self.path, max_bytes=2 * MAX_STORE_BYTES)
        with self._locked() as handle:
            text = self._text(handle, 2 * MAX_STORE_BYTES)
            if text is None:
                raise InvalidInput("is empty", where=str(self.path), fix="there is nothing to forget")
            log = read_log(text)
            because = f"history before {before.isoformat()} is forgotten"
            lines = compacted(log, before, because=because + (f"; {archive} has it" if archive is not None else ""))
            dropped = len(log.lines) - len(lines)
            size = os.fstat(handle).st_size
            if not dropped:
                return Compaction(len(lines), 0, (size, size))
            if archive is not None:
                _put_aside(archive, text)
            content = "".join(line.text() for line in lines).encode()
            write_file(self.path, content)
            _sync_folder(self.path)
            return Compaction(len(lines), dropped, (size, len(content)))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        made = not os.path.exists(self.path)  # noqa: PTH110 - a name that no file can have is no error here
        while not self._is_current(handle := self._hold(deadline)):
            os.close(handle)
        try:
            if made:
                _sync_folder(self.path)
            yield handle
        finally:
            os.close(handle)

    def _hold(self, deadline: float) -> int:
        """The file, opened and locked."""
        import fcntl

        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except (OSError, ValueError) as error:
            raise self._unwritable(error) from error
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return handle
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise InvalidInput(
                            f"another process has been writing to it for {PATIENCE_SECONDS:g} s",
                            where=str(self.path),
                            fix="wait for it, or end it if it hangs",
                        ) from None
                    time.sleep(_LOOK_SECONDS)
                except OSError as error:
                    raise self._unwritable(error) from error
        except BaseException:
            os.close(handle)
            raise

    def _is_current(self, handle: int) -> bool:
        """Whether the file that is locked still bears the name: compaction puts another in its place."""
        try:
            return os.path.samestat(os.fstat(handle), self.path.stat())
        except OSError:
            return False

    def _text(self, handle: int, max_bytes: int) -> Source | None:
        """What the file holds; ``None`` = nothing yet, or a first line that was never finished."""
        with os.fdopen(os.dup(handle), "rb") as file:
            file.seek(0)
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise TooLarge(
                f"is larger than {max_bytes // 2**20} MB",
                where=str(self.path),
                fix="`arnold flags compact` forgets old history and keeps the flags",
            )
        if b"\n" not in data and (data.startswith(_BEGINNING) or _BEGINNING.startswith(data)):
            os.ftruncate(handle, 0)
            return None
        return decode_source(str(self.path), data) if data.strip() else None

    def _append(self, handle: int, text: str, before: Source | None, torn: int) -> None:
        if not text:
            return
        try:
            size = os.fstat(handle).st_size
            if torn:
                os.ftruncate(handle, size - torn)
            elif before is not None and not before.text.endswith("\n"):
                text = "\n" + text
            data = memoryview(text.encode())
            while data:
                data = data[os.write(handle, data) :]
            os.fsync(handle)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError | ValueError) -> InvalidInput:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return InvalidInput(
            f"cannot be written: {reason}",
            where=str(self.path),
            fix="choose a file in a folder that exists and may be written to",
        )


def _put_aside(archive: str | Path, text: Source) -> None:
    if Path(archive).exists():
        raise InvalidInput(
            "is there already: nothing is written over", where=str(archive), fix="give a name that is free"
        )
    write_file(archive, text.text)


def _sync_folder(path: Path) -> None:
    """Make sure that a new file is found again after a crash of the machine."""
    folder = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
