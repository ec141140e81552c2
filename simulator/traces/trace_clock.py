"""Times in the cells of a trace: moments (numbers, dates, or dates in a pattern that the user gives) and lengths.

Every column of times of every format is read by the :class:`Clock` of its file, lengths and limits too, so that one
unit holds for all of them: that of ``--time-format``, else that of the format, which is seconds but for Muri's traces.
Where dates are written, lengths are numbers still, and of the same unit.  What a file cannot tell is whether its unit
was meant: a number that no time can be is refused with the unit to say instead, and :func:`doubts` says of a whole
trace that its times are no plausible ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median

from ground.errors import InvalidInput, TraceFormatError
from ground.rows import BadRow, BadRows
from simulator.job_record import JobRecord
from simulator.traces.job_fields import number

MAX_SECONDS = 1e11  # Latest moment, about the year 5000: what lies beyond is milliseconds
MAX_DURATION = 3.2e9  # Longest run in seconds, about 100 years
DAY = 86_400.0  # Seconds
WEEK = 7 * DAY  # A median job that runs longer than this is in doubt: of the public traces none is above two hours
YEAR = 365.25 * DAY
TEN_YEARS = 10 * YEAR  # Submissions that lie further apart are in doubt: the longest public logs have five years
TOO_LONG = "duration too long"  # The reason by which jobs beyond MAX_DURATION are counted
UNITS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
"""How many make a second, by the words of ``--time-format``; each is finer than the one before."""

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
        self.unit = time_format if time_format in UNITS else "seconds"
        """What numbers count, a word of :data:`UNITS`; a reader whose format counts otherwise sets it before it reads,
        where the user says nothing."""

    @property
    def unit_fix(self) -> str:
        """What to do about a number that is no time in the unit it was read in."""
        finer = list(UNITS)[list(UNITS).index(self.unit) + 1 :]
        if not finer:
            return f"correct it: numbers were read as {self.unit}"
        others = f" ({', '.join(finer[1:])})" if len(finer) > 1 else ""
        read = f"numbers were read as {self.unit}: correct this one, or say"
        return f"{read} --time-format {finer[0]}{others} if the file counts those"

    def refuse_too_long(self, job: JobRecord) -> None:
        """Refuse a job that ran for longer than any can.

        :raises BadRow: its run time is above :data:`MAX_DURATION`.
        """
        if job.duration > MAX_DURATION:
            raise BadRow(TOO_LONG, f"job {job.job_id} ran for {job.duration:g} seconds", fix=self.unit_fix)


class Clock:
    """Times of one file in seconds: moments that are numbers are on the trace's own clock, dates become seconds since
    1970 UTC, never both; lengths are numbers of the same unit.
    """

    def __init__(self, rows: TraceRows) -> None:
        self._rows = rows
        self._pattern = None if rows.time_format in UNITS else rows.time_format
        self._kind = ""
        self._zone: object = None

    def seconds(self, cell: object, column: str) -> float:
        """Return the moment in a cell.

        :raises BadRow: empty, neither number nor date, of another kind than the times before, or too far away.
        """
        if isinstance(cell, datetime):
            kind, value = self._of_date(cell)
        elif isinstance(cell, str) and (self._pattern is not None or not is_number(cell)):
            kind, value = self._of_date(self._parsed(cell, column))
        else:
            kind, value = "a number", number(cell, column) / UNITS[self._rows.unit]
        self._kind = self._kind or kind
        if kind != self._kind:
            wrong = f"{column} is {kind}, the first time of the file is {self._kind}"
            raise BadRow("mixed clocks", wrong, fix=_ALIKE)
        if abs(value) > MAX_SECONDS:
            raise BadRow("not a time", f"{column} is {value:g} seconds", fix=self._rows.unit_fix)
        return value

    def optional(self, cell: object, column: str) -> float | None:
        """Return the moment in a cell as :meth:`seconds` does, or ``None`` where it is empty."""
        return None if cell in ("", None) else self.seconds(cell, column)

    def length(self, cell: object, column: str, *, each: float = 1.0) -> float:
        """Return the length of time in a cell, in seconds.

        :param each: seconds of what the format counts in this column where it counts seconds elsewhere: 60 = minutes.
        :raises BadRow: empty, or not a finite number.
        """
        return number(cell, column) * each / UNITS[self._rows.unit]

    def optional_length(self, cell: object, column: str, *, each: float = 1.0) -> float | None:
        """Return the length in a cell as :meth:`length` does, or ``None`` where it is empty."""
        return None if cell in ("", None) else self.length(cell, column, each=each)

    def text(self, seconds: float) -> str:
        """Return a time as the file writes its times."""
        if self._kind == "a number":
            return f"{seconds * UNITS[self._rows.unit]:.15g}"
        return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ").removesuffix("+00:00")

    def _parsed(self, cell: str, column: str) -> datetime:
        pattern = self._pattern
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


def doubts(records: Sequence[JobRecord], rows: TraceRows) -> list[str]:
    """Return sentences on times that no cluster has seen, each with the option that reads them otherwise.

    :param records: the jobs of a trace in order of submission, at least one.
    """
    typical, apart = median(job.duration for job in records), records[-1].submit - records[0].submit
    sentences = []
    if typical > WEEK:
        sentences.append(f"The median job runs for {typical / DAY:,.0f} days")
    if apart > TEN_YEARS:
        sentences.append(f"The first and the last submission lie {apart / YEAR:,.0f} years apart")
    if rows.dropped[TOO_LONG]:
        sentences.append(f"{rows.dropped[TOO_LONG]:,} jobs ran for more than 100 years and were left out")
    index = list(UNITS).index(rows.unit)
    finer = list(UNITS)[index + 1 : index + 2]
    option = f": say --time-format {finer[0]} if it counts those" if finer else ""
    return [f"{sentence}, as the numbers of the file were read as {rows.unit}{option}." for sentence in sentences]


def is_number(text: str) -> bool:
    """Return whether a cell holds a number, be it infinite or none at all (``nan``)."""
    try:
        float(text)
    except ValueError:
        return False
    return True
