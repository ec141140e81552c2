"""Columns of a table of metrics as times, numbers and names; what cannot be used is an error with its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ground.columns import NOTHING, encoded, numbers, timestamps
from ground.errors import InvalidInput
from health.peers.streams import FloatArray, IntArray
from topology.cluster import BoolArray

EPOCH = 1e8  # Seconds above this are taken for seconds since 1970 (this one is in 1973)
MILLISECONDS = 1e11  # Numbers above this are taken for milliseconds since 1970 (as seconds it is the year 5138)

Fault = tuple[BoolArray, str, str]  # Rows that cannot be used, what is wrong with them, how to mend them


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Columns of an Arrow table, each by its name."""

    table: Any
    name: str  # of the file
    line: Callable[[int], str]  # from a row, counted from 0, to its place
    lenient: bool
    notes: list[str]  # takes what the user should know

    def __post_init__(self) -> None:
        if self.table.num_rows == 0:
            raise InvalidInput("has no rows", where=self.name, fix="give a file with samples")

    def times(self, title: str) -> tuple[FloatArray, bool]:
        """Return seconds, NaN where there is none, and whether they count from 1970."""
        if (since_1970 := timestamps(self.table.column(title))) is not None:
            return since_1970, True
        fix = "give seconds, or dates such as 2026-11-21T12:00:00Z"
        time = self.numbers(title, _seconds, "of times", "neither seconds nor a date", fix)
        time = np.where(np.isfinite(time), time, np.nan)
        if not np.isfinite(time).any():
            return time, False
        middle = float(np.nanmedian(time))
        return (time / 1e3, True) if middle > MILLISECONDS else (time, middle > EPOCH)

    def values(self, title: str) -> FloatArray:
        """Return plain numbers, NaN where there is none."""
        return self.numbers(title, _number, "of numbers", "not a number", "give numbers")

    def measured(self, title: str, value_of: Callable[[str], float], absent: tuple[str, ...]) -> FloatArray | None:
        """Return numbers, perhaps with units, NaN where there is none; ``None`` = the column holds no number.

        :param absent: texts that stand for no number, beside the usual ones.
        """
        try:
            found, odd, row = numbers(self.table.column(title), value_of, nothing=(*NOTHING, *absent))
        except TypeError:
            return None
        if odd is not None and not np.isfinite(found).any():
            return None
        if odd is not None and not self.lenient:
            what = f"{title.strip()[:40]} is {odd[:40]!r}, not a number"
            raise InvalidInput(what, where=self.line(row), fix="give numbers, or leave such cells out with --lenient")
        return found

    def numbers(self, title: str, value_of: Callable[[str], float], kind: str, wanted: str, fix: str) -> FloatArray:
        """Return the numbers of a column, NaN where there is none; what is no number is an error unless lenient."""
        try:
            found, odd, row = numbers(self.table.column(title), value_of)
        except TypeError as error:
            raise InvalidInput(f"{title} is a column of {error}, not {kind}", where=self.line(0), fix=fix) from None
        if odd is not None and not self.lenient:
            raise InvalidInput(
                f"{title} is {odd[:40]!r}, {wanted}",
                where=self.line(row),
                fix=f"{fix}, or leave such rows out with --lenient",
            )
        return found

    def names(self, title: str) -> tuple[IntArray, list[str]]:
        """Return numbers for names, -1 for none, and the names in order."""
        codes, texts = encoded(self.table.column(title))
        names = [text.strip() for text in texts]
        order = sorted(set(names) - {""})
        rank = {text: k for k, text in enumerate(order)}
        return np.array([*(rank.get(text, -1) for text in names), -1], dtype=np.int64)[codes], order

    def usable(self, *faults: Fault) -> BoolArray:
        """Return the rows that have none of these faults; the first that has one is an error unless lenient."""
        good = np.ones(self.table.num_rows, dtype=np.bool_)
        for bad, what, fix in faults:
            if bad.any():
                first = self.line(int(np.argmax(bad)))
                if not self.lenient:
                    raise InvalidInput(what, where=first, fix=f"{fix}, or leave such rows out with --lenient")
                self.notes.append(f"left out {int(bad.sum()):,} rows: the first, {first}, {what}")
                good &= ~bad
        return good


def _number(text: str) -> float:
    """Return a number; NaN = it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan


def _seconds(text: str) -> float:
    """Return seconds as they are written, or since 1970 of a date; NaN = neither."""
    if not np.isnan(seconds := _number(text)):
        return seconds
    try:
        # nvidia-smi writes 2026/11/21 12:00:00.123.
        date = datetime.fromisoformat(text.strip().replace("/", "-"))
    except ValueError:
        return np.nan
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
