"""One file as it comes: a path or standard input, plain or gzip, read a line at a time."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from topology.errors import InvalidInput, TraceFormatError
from topology.files import GZIP, opened

HEAD = 65_536  # Bytes (after unpacking) that readers look at to recognise their format
MAX_LINE = 1_048_576  # Longest line in bytes: what has longer ones is no trace but a binary file, or a JSON document


class CutOff(TraceFormatError):
    """A compressed file ends in the middle: all that came before is readable."""


class ByteStream:
    """The bytes of a file, unpacked, to be read once; errors are of its class and call it by its name."""

    def __init__(self, name: str, raw: BinaryIO, *, error: type[InvalidInput] = InvalidInput) -> None:
        self.name = name
        self.error = error
        packed = io.BufferedReader(cast("io.RawIOBase", raw), HEAD) if not hasattr(raw, "peek") else raw
        self._filling = _Filling(cast("io.BufferedReader", packed))
        self._bytes = io.BufferedReader(self._filling, HEAD)
        self.head = self._bytes.peek(HEAD)[:HEAD]
        self._first_line: Callable[[str], str] | None = None

    @property
    def damaged(self) -> bool:
        """Whether unpacking has failed so far."""
        return self._filling.failure is not None

    def at(self, line: int | None = None) -> str:
        """Return the place of a line, ``"jobs.csv:12"``, or the name alone."""
        return self.name if line is None else f"{self.name}:{line}"

    def change_first_line(self, change: Callable[[str], str]) -> None:
        """Change the first line before it is read, as the header of a table whose columns are called otherwise."""
        first, end, rest = self.head.partition(b"\n")
        self.head = change(first.decode("utf-8-sig", errors="replace")).encode() + end + rest
        self._first_line = change

    def lines(self) -> Iterator[str]:
        """Yield the lines of a text with their ends; a byte order mark is left out.

        :raises CutOff: a gzip file ends in the middle; all whole lines before were given.
        """
        line = 0
        for line, data in enumerate(iter(partial(self._bytes.readline, MAX_LINE), b""), 1):
            if self.damaged and not data.endswith(b"\n"):
                break
            if b"\0" in data or len(data) >= MAX_LINE:
                fix = "give a text file of one row a line, or Parquet"
                raise self.error("is binary, or has a line of a million characters", where=self.at(line), fix=fix)
            try:
                text = data.decode("utf-8-sig" if line == 1 else "utf-8")
                yield text if self._first_line is None or line > 1 else self._first_line(text)
            except UnicodeDecodeError as error:
                wrong = f"is not UTF-8 text: {error.reason}"
                raise self.error(wrong, where=self.at(line), fix="save the file as UTF-8 text") from None
        self._check_end(line)

    def content(self) -> io.BytesIO:
        """Return all bytes at once, for formats that are read from their end; raise errors as for lines."""
        data = self._bytes.read()
        self._check_end(None)
        return io.BytesIO(data)

    def _check_end(self, line: int | None) -> None:
        failure = self._filling.failure
        if isinstance(failure, EOFError):
            fix = "get the whole file again, or keep what there is with --lenient"
            raise CutOff("the gzip file is cut off: it ends in the middle", where=self.at(line), fix=fix)
        if failure is not None:
            raise self.error(f"the gzip file is damaged: {failure}", where=self.at(line), fix="get the file again")


class _Filling(io.RawIOBase):
    """Unpacked bytes, which end where the file is damaged; remembers how, so that what came before can be read."""

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
def open_stream(path: str | Path, *, error: type[InvalidInput] = InvalidInput) -> Iterator[ByteStream]:
    """Open a file, or standard input for ``-``; its errors are of class ``error``, as is that of an empty one."""
    with opened(path, error=error) as (name, file):
        stream = ByteStream(name, file, error=error)
        if not stream.head.strip() and not stream.damaged:
            raise error("is empty", where=name, fix="give a file with rows")
        yield stream
