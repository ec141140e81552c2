"""Standard streams as they may be: closed, full, read by a program that stops reading, in an encoding without bars."""

from __future__ import annotations

import codecs
import io
import os
import sys
from contextlib import suppress
from typing import IO

ERRORS = "arnold.lookalike"
"""Name of the error handler that writes what an encoding does not have."""

_LOOKALIKES = str.maketrans(
    {"█": "#", "▒": "+", "░": ".", "─": "-", "│": "|", "├": "+", "└": "+", "…": "...", "±": "+-", "µ": "u"}
)
"""Of the bars, branches and signs that texts are drawn with."""


def settle_streams() -> None:
    """Make stdout and stderr fit for any text: where one is closed, what is written to it is gone, as was asked for;
    what its encoding does not have is written by characters that look alike.

    Raw bytes of file names come out as the bytes that they are.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _nowhere(number))
        elif isinstance(stream, io.TextIOWrapper) and name == "stdout":
            stream.reconfigure(errors=ERRORS)


def silence(stream: IO[str] | None) -> None:
    """Send what a stream that cannot be written to still holds nowhere, so that the interpreter can close it."""
    if stream is None:
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _nowhere(number: int) -> IO[str]:
    """Return a stream to nowhere, on the number of the one that is closed: no file that is opened later may get it."""
    opened = os.open(os.devnull, os.O_WRONLY)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return os.fdopen(number, "w", encoding="utf-8", errors="replace")


def _lookalike(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    looks = character.translate(_LOOKALIKES)
    return (looks if looks.isascii() else "?"), error.start + 1


codecs.register_error(ERRORS, _lookalike)
