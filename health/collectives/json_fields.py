"""Typed fields of JSON objects from untrusted hands (else :class:`~ground.rows.BadRow`), and wrong rows.

Strict: the first wrong row is an error with its line.  Lenient: it is dropped, counted by reason, and its rank (every
rank, where the row does not tell) is noted: nothing is certain of a rank on evidence that failed to parse.
"""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any, Never, TypeVar

from ground.rows import BadRow, BadRows

Row = Mapping[str, Any]
T = TypeVar("T")

LARGEST = 2**62  # Largest integer of a field; sums of two still fit 64 bits
LATEST = 1e11  # Latest time in seconds since 1970, about the year 5000: what lies beyond is milliseconds or less


class BadRowOfRank(BadRow):
    """A row that cannot be used, and the rank it speaks of."""

    def __init__(self, reason: str, rank: int) -> None:
        super().__init__(reason)
        self.rank = rank


class TaintedRanks(BadRows):
    """Takes wrong rows while files are read, and notes the ranks of those that are dropped.

    :ivar tainted: ranks of which a row was dropped.
    :ivar all_tainted: whether a row was dropped that did not tell its rank.
    """

    def __init__(self, *, lenient: bool) -> None:
        super().__init__(lenient=lenient)
        self.tainted: set[int] = set()
        self.all_tainted = False

    def refuse(self, bad: BadRow, where: str) -> None:
        """Stop at a wrong row where reading is strict; else count it and note its rank."""
        super().refuse(bad, where)
        if isinstance(bad, BadRowOfRank):
            self.tainted.add(bad.rank)
        else:
            self.all_tainted = True

    def counted(self) -> tuple[str, ...]:
        """Return what was dropped and why, the most frequent first."""
        return tuple(f"dropped {count:,} rows: {reason}" for reason, count in self.dropped.most_common())


def integer(row: Row, key: str, *, low: int = 0) -> int:
    """Return a whole number of at least ``low``."""
    value = _present(row, key)
    if type(value) is not int or not low <= value <= LARGEST:
        _refuse(row, key, f"a whole number of at least {low}")
    return value


def number(row: Row, key: str) -> float:
    """Return a finite number of at least 0."""
    value = _present(row, key)
    try:
        # Whole numbers of more than 308 digits are no floats.
        made = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else -1.0
    except OverflowError:
        made = inf
    if not isfinite(made) or made < 0:
        _refuse(row, key, "a number of at least 0")
    return made


def moment(row: Row, key: str, *, unit: float = 1.0) -> float:
    """Return a time in seconds since 1970, at most :data:`LATEST`, of a row that counts in units of so many seconds."""
    seconds = number(row, key) * unit
    if seconds > LATEST:
        raise BadRow(f"{key!r} is {_shown(row[key])}, no time of this age: is its unit right?")
    return seconds


def text(row: Row, key: str) -> str:
    """Return a text that is not empty."""
    return _of_kind(row, key, str, "a text") or _refuse(row, key, "a text")


def nested(row: Row, key: str) -> Row:
    """Return an object."""
    return _of_kind(row, key, dict, "an object")


def listed(row: Row, key: str) -> list[Any]:
    """Return a list."""
    return _of_kind(row, key, list, "a list")


def _of_kind(row: Row, key: str, kind: type[T], words: str) -> T:
    value = _present(row, key)
    return value if isinstance(value, kind) else _refuse(row, key, words)


def _refuse(row: Row, key: str, words: str) -> Never:
    raise BadRow(f"{key!r} is {_shown(row[key])}, not {words}")


def _present(row: Row, key: str) -> Any:
    if key not in row:
        raise BadRow(f"{key!r} is missing")
    return row[key]


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        # To spell out thousands of digits takes Python long, and of more than 4,300 it refuses to.
        return f"a number of about {value.bit_length() * 0.30103:,.0f} digits"
    return repr(value)[:40]
