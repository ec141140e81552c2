"""Files that come from anywhere and files that must never be half written.

Every reader starts from a :class:`Source`, text that is known to be of bounded size, UTF-8 and not binary, together
with the name by which errors call it; or, where a file may be larger than memory, from a :class:`ByteStream`, which
is read a line at a time.  Both are a path or standard input, plain or gzip.  Every writer ends in :func:`write_file`,
which leaves the whole file or none.
"""

import gzip
import io
import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EISDIR
from functools import partial
from io import StringIO
from pathlib import Path
from typing import BinaryIO, cast

from ground.errors import InvalidInput, TooLarge, TraceFormatError

STDIN = "-"  # The file name that means standard input
GZIP = b"\x1f\x8b"  # First bytes of a gzip file, RFC 1952
_LOG = logging.getLogger(__name__)
_GZIP_WINDOW = 16 + zlib.MAX_WBITS  # For zlib: the largest window, behind the header of gzip
_IF_LARGER = "split it, or leave out what is not needed"

HEAD = 65_536  # Bytes (after unpacking) that readers look at to recognise their format
MAX_BYTES = 256 * 1024 * 1024  # Largest input; kubectl get nodes -o json of 10,000 nodes is about 100 MB


@dataclass(frozen=True, slots=True)
class Source:
    """Text of one input, and the name that errors call it by."""

    name: str
    text: str
    numbered: bool = True  # whether a reader can look at its lines; those of an answer to Arnold are seen by nobody

    @property
    def head(self) -> bytes:
        """Its beginning, by which readers recognise their format."""
        return self.text[:HEAD].encode(errors="replace")

    def at(self, line: int | None = None) -> str:
        """Return where something stands: ``"cluster.csv:12"``, or the name alone."""
        return f"{self.name}:{line}" if self.numbered and line is not None else self.name

    def lines(self) -> Iterator[str]:
        """Yield the lines with their ends."""
        return iter(StringIO(self.text, newline=""))


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of one input, unpacked, and the name that errors call it by: what may be a table that is no text."""

    name: str
    data: bytes

    @property
    def head(self) -> bytes:
        """Its beginning, by which readers recognise their format."""
        return self.data[:HEAD]

    def text(self) -> Source:
        """Return the same as text; raise :class:`InvalidInput` where it is none."""
        return decode_source(self.name, self.data)


def read_source(path: str | Path, *, max_bytes: int = MAX_BYTES, may_be_empty: bool = False) -> Source:
    """Read a text file in UTF-8, plain or packed with gzip, or standard input for ``-``.

    :param max_bytes: of the file, and of its text when it is unpacked; at most that much is ever read.
    :param may_be_empty: whether nothing is an answer too, as of a list.
    """
    name, data = read_bytes(path, max_bytes=max_bytes)
    return decode_source(name, unpacked(name, data, max_bytes=max_bytes), may_be_empty=may_be_empty)


def unpacked(name: str, data: bytes, *, max_bytes: int) -> bytes:
    """Return the content of a gzip file, of one member or several, or other bytes as they are; raise :class:`TooLarge`
    for more than ``max_bytes``: no more than that is ever unpacked.
    """
    if not data.startswith(GZIP):
        return data
    text = b""
    while data.startswith(GZIP):
        unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            text += unpacker.decompress(data, max_bytes + 1 - len(text))
        except zlib.error:
            raise InvalidInput("the gzip stream is damaged", where=name, fix="copy the file again") from None
        if len(text) > max_bytes:
            raise TooLarge(f"is larger than {max_bytes // 2**20} MB when unpacked", where=name, fix=_IF_LARGER)
        if not unpacker.eof:
            raise InvalidInput("the gzip stream is cut off", where=name, fix="copy the file again")
        data = unpacker.unused_data
    return text


def read_bytes(path: str | Path, *, max_bytes: int, if_larger: str = _IF_LARGER) -> tuple[str, bytes]:
    """Read a file, or standard input for ``-``, whatever is in it; return how errors call it, and its bytes.  At most
    ``max_bytes`` are ever read; where there are more, the error says to do ``if_larger``.
    """
    with opened(path) as (name, file):
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise TooLarge(f"is larger than {max_bytes // 2**20} MB", where=name, fix=if_larger)
    return name, data


@contextmanager
def opened(path: str | Path, *, error: type[InvalidInput] = InvalidInput) -> Iterator[tuple[str, BinaryIO]]:
    """Open a file, or standard input for ``-``, while it is read; yield how errors (of class ``error``) call it too."""
    path = os.fspath(path)
    name = "stdin" if path == STDIN else path
    _LOG.info("reading %s", name)
    if not name:
        raise error("the name of a file is empty", where="''", fix="give the path of a file")
    try:
        if path != STDIN:
            with _open(path) as file:
                yield name, file
        elif sys.stdin is None or sys.stdin.buffer.closed:
            raise error("is closed", where=name, fix="pipe the data in, or give a file")
        else:
            yield name, sys.stdin.buffer
    except FileNotFoundError:
        raise error("there is no such file", where=name, fix="check the path") from None
    except IsADirectoryError:
        raise error("this is a directory", where=name, fix="give the path of a file") from None
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise error(f"cannot be read: {reason}", where=name, fix="check the path and permissions") from problem


def _open(path: str | Path) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except ValueError as problem:  # a zero byte in its name, or what no name of a file can hold
        raise OSError(str(problem)) from problem


def decode_source(name: str, data: bytes, *, may_be_empty: bool = False) -> Source:
    """Return text from bytes, with the usual ends of lines; raise :class:`InvalidInput` where they are empty, binary or
    not UTF-8.
    """
    if data.startswith(GZIP):
        raise InvalidInput("is compressed with gzip", where=name, fix=f"pass it through gunzip: gunzip -c {name}")
    if (zero := data.find(b"\0")) >= 0:
        binary, where = "is binary or not UTF-8: it holds a zero byte", _line_at(name, data, zero)
        raise InvalidInput(binary, where=where, fix="give a text file in UTF-8")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        odd, where = f"is not UTF-8 text: {error.reason} at byte {error.start}", _line_at(name, data, error.start)
        raise InvalidInput(odd, where=where, fix="save the file as UTF-8 text") from None
    if not may_be_empty and (not text or text.isspace()):
        raise InvalidInput("is empty", where=name, fix="give a file with content")
    return Source(name, text)


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a file whole or not at all: what stood there stands still where it cannot be written, by an error."""
    target = Path(path)
    # A name of a file may stand in it, and need not be UTF-8.
    data = content.encode(errors="replace") if isinstance(content, str) else content
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return
        target = target.resolve()
        draft = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                draft.chmod(target.stat().st_mode)
            draft.replace(target)
        except BaseException:
            with suppress(FileNotFoundError):
                draft.unlink()
            raise
    except (OSError, ValueError) as error:
        raise not_writable(path, error) from error
    _LOG.info("wrote %s, %s bytes", path, f"{len(data):,}")


def is_folder(name: str) -> bool:
    """Return whether a name is that of a folder: an empty one is none to a shell, and the current one to Python."""
    return bool(name) and Path(name).is_dir()


def write_files(contents: Mapping[str, str | bytes]) -> None:
    """Write files, each whole or not at all, by name and in order; raises as :func:`write_file`."""
    for path, content in contents.items():
        write_file(path, content)


def check_writable(path: str | Path) -> None:
    """Make sure, by an error, that :func:`write_file` can write there, before much is computed; leave nothing."""
    from tempfile import TemporaryFile

    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        if target.is_file() or not target.exists():  # a device is written in place
            with TemporaryFile(dir=target.resolve().parent):
                pass
    except (OSError, ValueError) as error:
        raise not_writable(path, error) from error


def not_writable(path: str | Path, error: OSError | ValueError) -> InvalidInput:
    """Return the error of a place that cannot be written to, with what the system says of it."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    fix = "choose a folder that exists and may be written to"
    return InvalidInput(f"cannot be written: {reason}", where=str(path) or "''", fix=fix)


def _line_at(name: str, data: bytes, position: int) -> str:
    return f"{name}:{data.count(10, 0, position) + 1}"


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
                odd = f"is not UTF-8 text: {error.reason}"
                raise self.error(odd, where=self.at(line), fix="save the file as UTF-8 text") from None
        self._check_end(line)

    def raw_lines(self, longest: int) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the first bytes of each line, whatever stands in it, up to where the file is damaged."""
        number, whole = 0, True
        while data := self._bytes.readline(MAX_LINE):
            number += whole
            if whole:
                yield number, data[:longest]
            whole = data.endswith(b"\n")

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
        self._source = gzip.GzipFile(fileobj=packed) if packed.peek(len(GZIP)).startswith(GZIP) else packed

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
