"""Rows that are wrong: the first one ends strict reading, lenient reading counts them by reason."""

from __future__ import annotations

from collections import Counter

from topology.errors import TraceFormatError

LENIENT = "or drop such rows with --lenient"


class BadRow(Exception):
    """A row that is no job.

    :param reason: a few words by which dropped rows are counted: ``"no GPUs"``.
    :param message: what is wrong with this one.
    :param fix: what the user can do to the file; dropping such rows is always offered too.
    """

    def __init__(self, reason: str, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.fix = fix


class Intake:
    """Takes wrong rows and notes while a trace is read.

    :param lenient: count wrong rows instead of stopping at the first.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self.lenient = lenient
        self.dropped: Counter[str] = Counter()
        self.notes: list[str] = []

    def refuse(self, bad: BadRow, where: str) -> None:
        """Drop a row and count it.

        :raises TraceFormatError: reading is strict.
        """
        if not self.lenient:
            raise TraceFormatError(bad.message, where=where, fix=f"{bad.fix}, {LENIENT}")
        self.dropped[bad.reason] += 1

    def note(self, sentence: str) -> None:
        """Say something once to the user."""
        if sentence not in self.notes:
            self.notes.append(sentence)
