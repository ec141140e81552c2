"""JobTrace: the jobs of a file in order of submission."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from simulator.job_record import JobRecord

YEAR_2000 = 946_684_800.0  # Seconds since 1970 at the beginning of the year 2000, UTC


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Jobs in order of submission; of those submitted at one instant, in order of the file."""

    records: tuple[JobRecord, ...]  # the jobs, ids unique
    # how many rows were left out, by reason; empty where reading was strict
    dropped: Mapping[str, int] = field(default_factory=dict)
    source: str = ""  # where it came from, as errors call it: a path, stdin
    format: str = ""  # name of the format it was read from
    notes: tuple[str, ...] = ()  # what a user should know, one sentence each

    def __len__(self) -> int:
        return len(self.records)

    @property
    def epoch(self) -> float | None:
        """Seconds since 1970 UTC at second 0 of its clock: 0 where times are dates; ``None`` = it has none.

        Dates are read as seconds since 1970; a clock that began with the trace would have run for 30 years.
        """
        return 0.0 if self.records and self.records[0].submit >= YEAR_2000 else None

    def replace(self, **changes: Any) -> JobTrace:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def without(self, reasons: Mapping[str, str]) -> JobTrace:
        """Return the trace without some jobs: their ids, with the reasons by which they are counted."""
        kept = tuple(record for record in self.records if record.job_id not in reasons)
        return self.replace(records=kept, dropped=dict(Counter(self.dropped) + Counter(reasons.values())))

    def dropping(self, reason: str, count: int) -> Mapping[str, int]:
        """Return what was dropped, and ``count`` more for that reason."""
        return {**self.dropped, reason: self.dropped.get(reason, 0) + count} if count else self.dropped


def in_order(records: Iterable[JobRecord]) -> tuple[JobRecord, ...]:
    """Return records by (submit, place in the given order)."""
    return tuple(sorted(records, key=attrgetter("submit")))
