"""What the cells of a row say: numbers, words, moments and lengths of time; and what no job can be.

Every column of times of every format is read by the :class:`Clock` of its file, lengths and limits too, so that one
unit holds for all of them: that of ``--time-format``, else that of the format, which is seconds but for Muri's traces.
Where dates are written, lengths are numbers still, and of the same unit.  What a file cannot tell is whether its unit
was meant: a number that no time can be is refused with the unit to say instead, and :func:`doubts` says of a whole
trace that its times are no plausible ones.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from sys import intern
from typing import Any

from ground.errors import InvalidInput, TraceFormatError
from ground.quantities import DAY
from ground.rows import BadRow, BadRows
from scheduler.job import Parallelism
from simulator.job_record import JobRecord, Status

MAX_WHOLE = 2**53  # Largest whole number: beyond it a float has not every one, and Parquet ends soon after
MAX_GPUS = 10_000_000  # GPUs of the largest job: a hundred times the largest cluster
_WORDS: dict[Status, str] = {
    "completed": "completed terminated succeeded pass",
    "failed": "failed timeout node_fail out_of_memory boot_fail deadline",
    "cancelled": "cancelled canceled killed preempted revoked",
}
STATUS: dict[str, Status] = {word: ended for ended, words in _WORDS.items() for word in words.split()}
"""Words of the public traces.  Time-outs and lost nodes count as failed, as the Acme and Helios papers count them."""


def text(cells: Mapping[str, Any], column: str) -> str:
    """Return the text of a cell; empty where there is none.

    :raises BadRow: it is a list or a mapping, as JSON may hold.
    """
    value = cells.get(column)
    if isinstance(value, list | dict):
        raise BadRow("not text", f"{column} is {str(value)[:60]}", fix=f"give {column} as text or a number")
    return "" if value is None else str(value)


def number(cell: Any, column: str) -> float:
    """Return a finite number.

    :raises BadRow: empty, not a number, true or false, NaN or infinite.
    """
    try:
        value = float(str(cell) if isinstance(cell, bool) else cell)  # "True" is none
    except OverflowError:
        value = math.inf  # a whole number of more than 308 digits, as JSON may hold
    except (TypeError, ValueError):
        what = f"is {str(cell)[:60]!r}, not a number" if cell not in ("", None) else "is empty"
        raise BadRow("not a number", f"{column} {what}", fix=f"give {column} as a number") from None
    if not math.isfinite(value):
        raise BadRow("not a number", f"{column} is {value}", fix=f"give {column} as a finite number")
    return value


def optional(cell: Any, column: str, *, each: float = 1.0) -> float | None:
    """Return a finite number as :func:`number` does, each of so many, or ``None`` for an empty cell."""
    return None if cell in ("", None) else number(cell, column) * each


def whole(cell: Any, column: str) -> int:
    """Return a whole number, as :func:`number` does; ``8.0`` is one.

    :raises BadRow: beyond :data:`MAX_WHOLE`, too.
    """
    value = number(cell, column)
    if abs(value) > MAX_WHOLE:
        fix = f"give {column} as a number up to {MAX_WHOLE:,}"
        raise BadRow("not a whole number", f"{column} is {value:g}", fix=fix)
    if value != int(value):
        raise BadRow("not a whole number", f"{column} is {value:g}", fix=f"give {column} as a whole number")
    return int(value)


def status(cell: Any) -> Status:
    """Return how a job ended; ``unknown`` for words of no public trace."""
    return STATUS.get(str(cell).strip().lower(), "unknown")


def record(
    *,
    job_id: str,
    submit: float,
    duration: float,
    gpus: float,
    nodes: int | None = None,
    user: str = "",
    queue: str = "",
    group: str = "",
    waited: float | None = None,
    **others: Any,
) -> JobRecord:
    """Return a JobRecord that can have happened, but for how long it ran: ``trace_loading`` refuses what is too long.

    Nodes that do not hold equally many GPUs are no shape of a gang: their number is left open then.  A wait below 0 is
    not known.

    :raises BadRow: no id, no GPUs, no duration, or a number that no job has.
    """
    if not job_id:
        raise BadRow("no id", "the job has no id", fix="give every job an id of its own")
    if not job_id.isprintable():
        problem = f"the id of the job has control characters: {job_id[:60]!r}"
        raise BadRow("not text", problem, fix="give it a printable id")
    # a whole number of GPUs, or a share of one in hundredths, rounded up
    if gpus == 0:
        raise BadRow("no GPUs", f"job {job_id} has no GPUs", fix="leave out jobs that need only CPUs")
    if gpus < 0 or gpus > MAX_GPUS:
        raise BadRow("impossible GPUs", f"job {job_id} has {gpus:g} GPUs", fix="give the number of GPUs it needs")
    if gpus > 1 and gpus != int(gpus):
        fix = "give a whole number, or a share of one GPU below 1"
        raise BadRow("impossible GPUs", f"job {job_id} has {gpus:g} GPUs", fix=fix)
    gpus = math.ceil(gpus * 100 - 1e-9) / 100 if gpus < 1 else float(gpus)
    if not duration > 0:
        reason = "negative duration" if duration < 0 else "zero duration"
        raise BadRow(reason, f"job {job_id} ran for {duration:g} seconds", fix="give how long it ran")
    if nodes is not None and not 1 <= nodes <= max(1.0, gpus):
        fix = "give at least one GPU a node, or leave the number of nodes open"
        raise BadRow("impossible nodes", f"job {job_id} has {gpus:g} GPUs on {nodes} nodes", fix=fix)
    if nodes is not None and nodes > 1 and gpus % nodes:
        nodes = None
    parallelism = others.get("parallelism")
    if isinstance(parallelism, Parallelism) and parallelism.gpus != gpus:
        fix = "make tp * cp * dp * pp equal to gpus"
        raise BadRow("parallelism", f"job {job_id} has {gpus:g} GPUs, its parallelism {parallelism.gpus}", fix=fix)
    return JobRecord(
        job_id=job_id,
        submit=submit,
        duration=duration,
        gpus=gpus,
        nodes=nodes,
        user=intern(user),
        queue=intern(queue),
        group=intern(group),
        waited=waited if waited is not None and waited >= 0 else None,
        **others,
    )


def summed_shares(shares: float, instances: float) -> float:
    """Return the GPUs of instances that hold so many in all: a share of one GPU only where there is a single instance,
    else whole GPUs, rounded up.
    """
    single = instances <= 1 and shares < 1
    return shares if single or not 0 < shares <= MAX_GPUS else math.ceil(shares - 1e-9)


MAX_SECONDS = 1e11  # Latest moment, about the year 5000: what lies beyond is milliseconds
MAX_DURATION = 3.2e9  # Longest run in seconds, about 100 years
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


class Clock:
    """Times of one file in seconds: moments that are numbers are on the trace's own clock, dates become seconds since
    1970 UTC, never both; lengths are numbers of the same unit.
    """

    def __init__(self, rows: TraceRows) -> None:
        self.rows = rows
        self._pattern = None if rows.time_format in UNITS else rows.time_format
        self._kind = ""
        self._zone: object = None

    def seconds(self, cell: object, column: str) -> float:
        """Return the moment in a cell.

        :raises BadRow: empty, neither number nor date, of another kind than the times before, or too far away.
        """
        if isinstance(cell, datetime):
            kind, value = self._kind_and_seconds(cell)
        elif isinstance(cell, str) and (self._pattern is not None or not is_number(cell)):
            kind, value = self._kind_and_seconds(self._parsed(cell, column))
        else:
            kind, value = "a number", number(cell, column) / UNITS[self.rows.unit]
        self._kind = self._kind or kind
        if kind != self._kind:
            problem = f"{column} is {kind}, the first time of the file is {self._kind}"
            raise BadRow("mixed clocks", problem, fix=_ALIKE)
        if abs(value) > MAX_SECONDS:
            raise BadRow("not a time", f"{column} is {value:g} seconds", fix=self.rows.unit_fix)
        return value

    def optional(self, cell: object, column: str) -> float | None:
        """Return the moment in a cell as :meth:`seconds` does, or ``None`` where it is empty."""
        return None if cell in ("", None) else self.seconds(cell, column)

    def length(self, cell: object, column: str, *, each: float = 1.0) -> float:
        """Return the length of time in a cell, in seconds.

        :param each: seconds of what the format counts in this column where it counts seconds elsewhere: 60 = minutes.
        :raises BadRow: empty, or not a finite number.
        """
        return number(cell, column) * each / UNITS[self.rows.unit]

    def optional_length(self, cell: object, column: str, *, each: float = 1.0) -> float | None:
        """Return the length in a cell as :meth:`length` does, or ``None`` where it is empty."""
        return None if cell in ("", None) else self.length(cell, column, each=each)

    def text(self, seconds: float) -> str:
        """Return a time as the file writes its times."""
        if self._kind == "a number":
            return f"{seconds * UNITS[self.rows.unit]:.15g}"
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
            problem = f"{cell[:60]!r}, {what}" if cell else "empty"
            raise BadRow("not a time", f"{column} is {problem}", fix=fix) from None

    def _kind_and_seconds(self, date: datetime) -> tuple[str, float]:
        offset = date.utcoffset()
        if offset is not None:
            if self._zone not in (None, offset):
                self.rows.note("Dates have several UTC offsets: all were made UTC.")
            self._zone = offset
            return "a date with a time zone", date.timestamp()
        self.rows.note("Dates without a time zone were read as UTC.")
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
