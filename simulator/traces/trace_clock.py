"""Times in the cells of a trace: numbers, dates, or dates in a pattern that the user gives."""

from __future__ import annotations

from datetime import UTC, datetime

from simulator.traces.job_fields import number
from topology.errors import InvalidInput, TraceFormatError
from topology.tables.bad_rows import BadRow, BadRows

MAX_SECONDS = 1e11  # Latest time, about the year 5000: what lies beyond is milliseconds
UNITS = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9}
"""Seconds in what numbers count, by the words of ``--time-format``."""

_ALIKE = "write all times alike: seconds, dates, or dates with a time zone"


class TraceRows(BadRows):
    """What a reader tells of rows as it goes (those that are wrong, and notes), and how the file writes its times.

    :param time_format: a pattern of ``datetime.strptime`` or a word of :data:`UNITS`; ``None`` = seconds or ISO dates.
    """

    def __init__(self, *, lenient: bool = False, time_format: str | None = None) -> None:
        super().__init__(lenient=lenient, error=TraceFormatError)
        if time_format is not None and time_format not in UNITS and "%" not in time_format:
            fix = f"give a pattern such as '%d.%m.%Y %H:%M:%S', or one of {', '.join(UNITS)}"
            raise InvalidInput(f"{time_format[:60]!r} is no format of times", where="--time-format", fix=fix)
        self.time_format = time_format


class Clock:
    """Times of one file: numbers are the trace's own seconds, dates become seconds since 1970 UTC; never both."""

    def __init__(self, rows: TraceRows) -> None:
        self._rows = rows
        self._unit = UNITS.get(rows.time_format or "seconds")
        self._kind = ""
        self._zone: object = None

    def seconds(self, cell: object, column: str) -> float:
        """Return the time in a cell.

        :raises BadRow: empty, neither number nor date, of another kind than the times before, or too far away.
        """
        if isinstance(cell, datetime):
            kind, value = self._of_date(cell)
        elif isinstance(cell, str) and (self._unit is None or not is_number(cell)):
            kind, value = self._of_date(self._parsed(cell, column))
        else:
            kind, value = "a number", number(cell, column) * (self._unit or 1.0)
        self._kind = self._kind or kind
        if kind != self._kind:
            wrong = f"{column} is {kind}, the first time of the file is {self._kind}"
            raise BadRow("mixed clocks", wrong, fix=_ALIKE)
        if abs(value) > MAX_SECONDS:
            fix = "give seconds, not milliseconds, or say --time-format milliseconds"
            raise BadRow("not a time", f"{column} is {value:g}", fix=fix)
        return value

    def optional(self, cell: object, column: str) -> float | None:
        """Return the time in a cell as :meth:`seconds` does, or ``None`` where it is empty."""
        return None if cell in ("", None) else self.seconds(cell, column)

    def text(self, seconds: float) -> str:
        """Return a time as the file writes its times."""
        if self._kind == "a number":
            return f"{seconds:.15g}"
        return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ").removesuffix("+00:00")

    def _parsed(self, cell: str, column: str) -> datetime:
        pattern = self._rows.time_format if self._unit is None else None
        try:
            return datetime.fromisoformat(cell) if pattern is None else datetime.strptime(cell, pattern)
        except ValueError as error:
            what, fix = "neither a number of seconds nor a date", "write seconds, or a date as 2017-10-03 14:05:00"
            fix += ", or say with --time-format how times are written"
            if pattern is not None:
                what, fix = f"not a time as {pattern!r} has it", "give the --time-format of all times of the file"
                if "is a bad directive" in str(error) or "stray %" in str(error):
                    raise InvalidInput(str(error), where="--time-format", fix="give a pattern of strptime") from None
            wrong = f"{cell[:60]!r}, {what}" if cell else "empty"
            raise BadRow("not a time", f"{column} is {wrong}", fix=fix) from None

    def _of_date(self, date: datetime) -> tuple[str, float]:
        offset = date.utcoffset()
        if offset is not None:
            if self._zone not in (None, offset):
                self._rows.note("Dates have several UTC offsets: all were made UTC.")
            self._zone = offset
            return "a date with a time zone", date.timestamp()
        self._rows.note("Dates without a time zone were read as UTC.")
        return "a date without a time zone", date.replace(tzinfo=UTC).timestamp()


def is_number(text: str) -> bool:
    """Return whether a cell holds a number, be it infinite or none at all (``nan``)."""
    try:
        float(text)
    except ValueError:
        return False
    return True
