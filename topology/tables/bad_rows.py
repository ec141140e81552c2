"""Rows that are wrong: the first one ends strict reading, lenient reading drops and counts them by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from topology.errors import InvalidInput
from topology.files import Source
from topology.tables.byte_stream import ByteStream

LENIENT = "or drop such rows with --lenient"

TextSource = Source | ByteStream
Row = TypeVar("Row")
Made = TypeVar("Made")


class BadRow(Exception):
    """A row that cannot be used.

    :param reason: a few words by which dropped rows are counted: ``"no GPUs"``.
    :param message: what is wrong with this one; as the reason if left out.
    :param fix: what the user can do to the file; dropping such rows is offered too.
    """

    def __init__(self, reason: str, message: str = "", *, fix: str = "correct or remove that line") -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.message = message or reason
        self.fix = fix


class BadRows:
    """Takes wrong rows, and notes to the user, while a table is read; what ends strict reading is of class ``error``.

    :param lenient: drop and count wrong rows instead of stopping at the first; ``None`` = stop, and the command has no
        option ``--lenient`` that an error could offer.
    """

    def __init__(self, *, lenient: bool | None = False, error: type[InvalidInput] = InvalidInput) -> None:
        self.lenient = lenient
        self.error = error
        self.dropped: Counter[str] = Counter()
        self.notes: list[str] = []

    def refuse(self, bad: BadRow, where: str) -> None:
        """Drop and count a row; where reading is strict, raise an error that says its place."""
        if not self.lenient:
            raise self.error(bad.message, where=where, fix=bad.fix if self.lenient is None else f"{bad.fix}, {LENIENT}")
        self.dropped[bad.reason] += 1

    def keep(
        self, rows: Iterable[tuple[int, Row]], make: Callable[[Row], Made], source: TextSource
    ) -> Iterator[tuple[int, Made]]:
        """Yield what is made of each row, with its line; refuse rows for which ``make`` raises :class:`BadRow`."""
        for line, row in rows:
            try:
                made = make(row)
            except BadRow as bad:
                self.refuse(bad, source.at(line))
            else:
                yield line, made

    def note(self, sentence: str) -> None:
        """Keep a sentence for the user, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)
