"""Rows of trace files from untrusted hands: typed fields, and what becomes of a row that is wrong.

Strict: the first wrong row is an error with its line.  Lenient: it is dropped, counted by reason, and its rank (every
rank, where the row does not tell) is noted: nothing is certain of a rank on evidence that failed to parse.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import Any

from topology.errors import InvalidInput
from topology.files import Source

Row = Mapping[str, Any]

LARGEST = 2**62
"""Largest integer of a field; sums of two still fit 64 bits."""

LATEST = 1e11
"""Latest time in seconds since 1970, about the year 5000: what lies beyond is milliseconds or less."""

DIGITS = 4_300
"""Python reads no longer whole numbers from text."""


class BadRow(Exception):
    """A row that cannot be used.

    :param reason: what is wrong with it; equal reasons are counted together.
    """

    def __init__(self, reason: str, *, rank: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.rank = rank


class Rows:
    """The JSON objects of files of JSON lines, and what happens to wrong ones.

    :param lenient: drop wrong rows instead of stopping at the first.
    """

    def __init__(self, *, lenient: bool) -> None:
        self._lenient = lenient
        self._dropped: Counter[str] = Counter()
        self.tainted: set[int] = set()
        self.all_tainted = False

    def read(self, source: Source) -> Iterator[tuple[int, Row]]:
        """Line numbers and objects; blank lines are skipped.

        :raises InvalidInput: (strict) a line is not a JSON object.
        """
        lines = source.text.splitlines()
        for number, line in enumerate(lines, 1):
            if not line or line.isspace():
                continue
            try:
                yield number, parse_object(line)
            except BadRow as bad:
                cut_off = number == len(lines) and not source.text.endswith("\n")
                self.refuse(
                    source, number, BadRow("is truncated: the last line ends in the middle") if cut_off else bad
                )

    def refuse(self, source: Source, number: int, bad: BadRow) -> None:
        """Stop at a wrong row, or count it.

        :raises InvalidInput: (strict) always.
        """
        if not self._lenient:
            raise InvalidInput(
                bad.reason,
                where=source.at(number),
                fix="correct or remove that line, or say --lenient to go on without it",
            ) from None
        self._dropped[bad.reason] += 1
        if bad.rank is None:
            self.all_tainted = True
        else:
            self.tainted.add(bad.rank)

    def notes(self) -> tuple[str, ...]:
        """What was dropped and why, the most frequent first."""
        return tuple(f"dropped {count:,} rows: {reason}" for reason, count in self._dropped.most_common())


def parse_object(line: str) -> Row:
    """One JSON object.

    :raises BadRow: it is something else.
    """
    try:
        value = json.loads(line)
    except RecursionError:
        raise BadRow("is nested too deep") from None
    except json.JSONDecodeError:
        raise BadRow("is not JSON, or was cut off") from None
    except ValueError:
        raise BadRow(f"holds a number of more than {DIGITS:,} digits") from None
    if not isinstance(value, dict):
        raise BadRow("is not a JSON object")
    return value


def integer(row: Row, key: str, *, low: int = 0) -> int:
    """A whole number of at least ``low``.

    :raises BadRow: missing, or something else.
    """
    value = _present(row, key)
    if type(value) is not int or not low <= value <= LARGEST:
        raise BadRow(f"{key!r} is {_shown(value)}, not a whole number of at least {low}")
    return value


def number(row: Row, key: str) -> float:
    """A finite number of at least 0.

    :raises BadRow: missing, or something else: NaN and negative ones too.
    """
    value = _present(row, key)
    try:
        # Whole numbers of more than 308 digits are no floats.
        made = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else -1.0
    except OverflowError:
        made = inf
    if not isfinite(made) or made < 0:
        raise BadRow(f"{key!r} is {_shown(value)}, not a number of at least 0")
    return made


def moment(row: Row, key: str, *, unit: float = 1.0) -> float:
    """A time in seconds since 1970.

    :param unit: seconds that 1 stands for in the row.
    :raises BadRow: missing, or something else, or later than :data:`LATEST`.
    """
    seconds = number(row, key) * unit
    if seconds > LATEST:
        raise BadRow(f"{key!r} is {_shown(row[key])}, no time of this age: is its unit right?")
    return seconds


def text(row: Row, key: str) -> str:
    """A text that is not empty.

    :raises BadRow: missing, or something else.
    """
    value = _present(row, key)
    if not isinstance(value, str) or not value:
        raise BadRow(f"{key!r} is {_shown(value)}, not a text")
    return value


def nested(row: Row, key: str) -> Row:
    """An object.

    :raises BadRow: missing, or something else.
    """
    value = _present(row, key)
    if not isinstance(value, dict):
        raise BadRow(f"{key!r} is {_shown(value)}, not an object")
    return value


def listed(row: Row, key: str) -> list[Any]:
    """A list.

    :raises BadRow: missing, or something else.
    """
    value = _present(row, key)
    if not isinstance(value, list):
        raise BadRow(f"{key!r} is {_shown(value)}, not a list")
    return value


def _present(row: Row, key: str) -> Any:
    if key not in row:
        raise BadRow(f"{key!r} is missing")
    return row[key]


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        # To spell out thousands of digits takes Python long, and of more than DIGITS it refuses to.
        return f"a number of about {value.bit_length() * 0.30103:,.0f} digits"
    return repr(value)[:40]
