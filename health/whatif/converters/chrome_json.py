"""A Chrome trace read event by event, and text files opened as streams: what profilers write is larger than memory.

Format: "Trace Event Format" (a JSON object with ``traceEvents``, or the bare array).  Kineto writes some of what stands
beside the events before them (``distributedInfo``) and some after (``baseTimeNanoseconds``).
"""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ground.errors import InvalidInput, TooLarge, TraceFormatError
from ground.files import GZIP

CHUNK = 1 << 20
MOST_PENDING = 1 << 26  # Characters of a single event, or value beside the events, above which a file is refused
TRUNCATED = ("is truncated: the JSON text ends in the middle", "copy the whole file again")
NO_TRACE_FIX = "give the JSON file that the profiler exported"
NOT_JSON_FIX = "export the trace again"

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
# Some PyTorch releases leave the value out where the group has no description, which is not JSON
_EMPTY_FIELD = re.compile(r'("Process Group (?:Description|Name)"\s*:)\s*(?=[,}])')


@contextmanager
def open_text(path: str) -> Iterator[TextIO]:
    """Yield the text of a file; bytes that are not UTF-8 are replaced, as names of kernels may hold any."""
    try:
        with Path(path).open("rb") as raw:
            packed = raw.peek(len(GZIP))[: len(GZIP)] == GZIP
            with io.TextIOWrapper(gzip.open(raw) if packed else raw, encoding="utf-8-sig", errors="replace") as text:
                yield text
    except FileNotFoundError:
        raise InvalidInput("there is no such file", where=path, fix="check the path") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        fix = "copy the file again"
        raise TraceFormatError("the gzip stream is truncated or damaged", where=path, fix=fix) from None
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=path, fix="give a readable file") from None


class ChromeTrace:
    """One file of trace events, plain or gzip: iterate once; :attr:`beside` is complete when they are through."""

    def __init__(self, path: str) -> None:
        self.name = path
        self.beside: dict[str, Any] = {}
        self.repaired = 0
        self._events = 0
        self._pending = ""
        self._here = 0
        self._ended = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the events, each as it stands in the file."""
        with open_text(self.name) as text:
            self._source = text
            first = self._peek()
            if first == "[":
                yield from self._array()
                return
            if first != "{":
                raise self._broken("is not a Chrome trace", NO_TRACE_FIX)
            self._here += 1
            seen = False
            while self._peek() != "}":
                key = self._value()
                self._take(":")
                if key == "traceEvents" and self._peek() == "[":
                    seen = True
                    yield from self._array()
                else:
                    self.beside[str(key)] = self._value()
                self._take(",", unless="}")
            if not seen and {"schema", "nodes"} <= self.beside.keys():
                raise self._broken("is an execution trace of PyTorch: it says what ran, not when", NO_TRACE_FIX)
            if not seen:
                raise self._broken('has no list "traceEvents"', NO_TRACE_FIX)

    def _array(self) -> Iterator[dict[str, Any]]:
        self._here += 1
        while self._peek() != "]":
            event = self._value()
            self._events += 1
            if isinstance(event, dict):
                yield event
            self._take(",", unless="]")
        self._here += 1

    def _value(self) -> Any:
        """Return the next JSON value, reading on as far as it takes."""
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._pending, self._here)
            except json.JSONDecodeError as error:
                # the one kind of hole that the profiler is known to leave is filled in
                start = max(self._here, error.pos - 200)
                mended, count = _EMPTY_FIELD.subn(r'\1 ""', self._pending[start:])
                if count:
                    self._pending = self._pending[:start] + mended
                    self.repaired += count
                    continue
                near_end = error.pos >= len(self._pending) - 64 or error.msg.startswith("Unterminated string")
                if self._ended or not near_end:
                    cut = self._ended and error.pos >= len(self._pending.rstrip()) - 1
                    if cut or error.msg.startswith("Unterminated"):
                        raise self._broken(*TRUNCATED) from None
                    snippet = self._pending[max(error.pos - 20, 0) : error.pos + 20]
                    raise self._broken(f"is not JSON: {error.msg.lower()} near {snippet!r}", NOT_JSON_FIX) from None
                self._read_more()
            except ValueError:
                raise self._broken("has a number of thousands of digits", NOT_JSON_FIX) from None
            except RecursionError:
                raise self._broken("is nested too deep", "give the JSON that the profiler wrote") from None
            else:
                if end == len(self._pending) and not self._ended:
                    self._read_more()
                    continue
                self._here = end
                return value

    def _peek(self) -> str:
        """Return the next character that is not white space."""
        while True:
            space = _SPACE.match(self._pending, self._here)
            self._here = space.end() if space else self._here
            if self._here < len(self._pending):
                return self._pending[self._here]
            if self._ended:
                raise self._broken(*TRUNCATED)
            self._read_more()

    def _take(self, character: str, *, unless: str = "") -> None:
        """Skip a character that must be next, unless another one is, which is not skipped."""
        if (following := self._peek()) == unless:
            return
        if following != character:
            near = self._pending[self._here : self._here + 20]
            raise self._broken(f"is not JSON: {character!r} is missing before {near!r}", NOT_JSON_FIX)
        self._here += 1

    def _read_more(self) -> None:
        left = self._pending[self._here :]
        if len(left) > MOST_PENDING:
            raise TooLarge("has a single value of more than 64 MB", where=self._where(), fix=NOT_JSON_FIX)
        more = self._source.read(max(CHUNK, len(left)))
        self._ended = not more
        self._pending, self._here = left + more, 0

    def _broken(self, message: str, fix: str) -> TraceFormatError:
        return TraceFormatError(message, where=self._where(), fix=fix)

    def _where(self) -> str:
        return f"{self.name}: event {self._events + 1}" if self._events else self.name
