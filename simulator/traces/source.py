"""One trace file as it comes: a path or standard input, plain or gzip, read a line at a time."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from topology.errors import TraceFormatError
from topology.files import GZIP, STDIN

HEAD = 65_536
"""Bytes (after unpacking) that readers look at to recognise their format."""

MAX_LINE = 1_048_576
"""Longest line in bytes: what has longer ones is no trace but a binary file, or a JSON document."""


class CutOff(TraceFormatError):
    """A compressed file ends in the middle: all that came before is readable."""


class TraceSource:
    """The bytes of a trace, unpacked.  It can be read once.

    :param name: how errors call it.
    """

    def __init__(self, name: str, raw: BinaryIO) -> None:
        self.name = name
        packed = io.BufferedReader(cast("io.RawIOBase", raw), HEAD) if not hasattr(raw, "peek") else raw
        self._filling = _Filling(cast("io.BufferedReader", packed))
        self._bytes = io.BufferedReader(self._filling, HEAD)
        self.head = self._bytes.peek(HEAD)[:HEAD]

    def at(self, line: int | None = None) -> str:
        """Where something stands: ``"jobs.csv:12"``, or the name alone."""
        return self.name if line is None else f"{self.name}:{line}"

    def lines(self) -> Iterator[str]:
        """The lines of a text with their ends; a byte order mark is left out.

        :raises TraceFormatError: binary, not UTF-8, a damaged gzip file; says the line.
        :raises CutOff: a gzip file ends in the middle; all whole lines before were given.
        """
        line = 0
        for data in iter(partial(self._bytes.readline, MAX_LINE), b""):
            line += 1
            if self._filling.failure is not None and not data.endswith(b"\n"):
                break
            if b"\0" in data or len(data) >= MAX_LINE:
                raise TraceFormatError(
                    "is binary, or has a line of a million characters",
                    where=self.at(line),
                    fix="give a text file of one job a line, or Parquet",
                )
            try:
                yield data.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise TraceFormatError(
                    f"is not UTF-8 text: {error.reason}", where=self.at(line), fix="save the file as UTF-8 text"
                ) from None
        self._check_end(line)

    def content(self) -> io.BytesIO:
        """All bytes at once, for formats that are read from their end.

        :raises TraceFormatError: a damaged gzip file.
        :raises CutOff: a gzip file that ends in the middle.
        """
        data = self._bytes.read()
        self._check_end(None)
        return io.BytesIO(data)

    def _check_end(self, line: int | None) -> None:
        match self._filling.failure:
            case None:
                return
            case EOFError():
                raise CutOff(
                    "the gzip file is cut off: it ends in the middle",
                    where=self.at(line),
                    fix="get the whole file again, or keep what there is with --lenient",
                )
            case error:
                raise TraceFormatError(
                    f"the gzip file is damaged: {error}", where=self.at(line), fix="get the file again"
                )


class _Filling(io.RawIOBase):
    """Unpacked bytes; ends where the file is damaged and remembers how, so that what came before can be read."""

    def __init__(self, packed: io.BufferedReader) -> None:
        self.failure: Exception | None = None
        is_gzip = packed.peek(len(GZIP)).startswith(GZIP)
        self._source = gzip.GzipFile(fileobj=packed) if is_gzip else packed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the whole buffer unless the source ends: a pipe gives its head in pieces."""
        filled = 0
        try:
            while filled < len(buffer) and self.failure is None:
                data = self._source.read1(len(buffer) - filled)
                if not data:
                    break
                buffer[filled : filled + len(data)] = data
                filled += len(data)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.failure = error
        return filled


@contextmanager
def open_source(path: str | Path) -> Iterator[TraceSource]:
    """Open a file, or standard input for ``-``.

    :raises TraceFormatError: missing, a directory, unreadable, empty.
    """
    name = "stdin" if str(path) == STDIN else str(path)
    try:
        if str(path) == STDIN:
            if sys.stdin is None:
                raise TraceFormatError("is closed", where=name, fix="pipe the trace in, or give a file")
            yield _not_empty(TraceSource(name, sys.stdin.buffer))
        else:
            with Path(path).open("rb") as file:
                yield _not_empty(TraceSource(name, file))
    except FileNotFoundError:
        raise TraceFormatError("there is no such file", where=name, fix="check the path") from None
    except IsADirectoryError:
        raise TraceFormatError("this is a directory", where=name, fix="give the path of a file") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise TraceFormatError(f"cannot be read: {reason}", where=name, fix="check the path and permissions") from error


def _not_empty(source: TraceSource) -> TraceSource:
    if not source.head.strip() and source._filling.failure is None:
        raise TraceFormatError("is empty", where=source.name, fix="give a file with jobs")
    return source
