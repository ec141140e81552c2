"""A file that one run at a time may use: another is refused as long as the first goes on, and not after it crashed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ground.errors import InvalidInput


@contextmanager
def held_alone(path: str) -> Iterator[None]:
    """Hold a file for this run, by a lock on a neighbour of it that the kernel lifts when the process ends.

    The file itself cannot be locked: each saving replaces it.  Where the file system knows no locks nothing is held.

    :raises InvalidInput: another run holds it, or there is no folder to write to.
    """
    neighbour = Path(f"{path}.lock")
    handle = _take(neighbour, path)
    try:
        yield
    finally:
        neighbour.unlink(missing_ok=True)
        os.close(handle)


def _take(neighbour: Path, path: str) -> int:
    while True:
        try:
            handle = os.open(neighbour, os.O_RDWR | os.O_CREAT, 0o644)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise InvalidInput(
                f"cannot be written: {reason}", where=path, fix="choose a folder that exists and may be written to"
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 20).decode(errors="replace").strip()
            os.close(handle)
            raise InvalidInput(
                f"another run is using it{f': process {holder}' if holder else ''}",
                where=path,
                fix="wait until it has ended, or name another file",
            ) from None
        except OSError:
            return handle
        # What held it before may have removed it just now: then the next one would lock another file.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), neighbour.stat()):
                os.truncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
                return handle
        os.close(handle)
