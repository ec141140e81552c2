"""Text files, plain or gzip, of any size: opened as a stream, with errors that a person can act on."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from topology.errors import InvalidInput, TraceFormatError
from topology.files import GZIP


@contextmanager
def open_text(path: str) -> Iterator[TextIO]:
    """Yield the text of a file; bytes that are not UTF-8 are replaced, as names of kernels may hold any.

    :raises InvalidInput: missing, a directory, unreadable.
    :raises TraceFormatError: a damaged gzip stream, also while the text is read.
    """
    try:
        with Path(path).open("rb") as raw:
            packed = raw.peek(len(GZIP))[: len(GZIP)] == GZIP
            with io.TextIOWrapper(gzip.open(raw) if packed else raw, encoding="utf-8-sig", errors="replace") as text:
                yield text
    except FileNotFoundError:
        raise InvalidInput("there is no such file", where=path, fix="check the path") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TraceFormatError(
            "the gzip stream is truncated or damaged", where=path, fix="copy the file again"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", where=path, fix="give a readable file") from None
