"""JobTrace: the jobs of a file, in order of submission, and what was said and left out on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from operator import attrgetter
from typing import Any

from simulator.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Jobs in order of submission; of those submitted at one instant, in order of the file.

    :param records: the jobs, ids unique.
    :param dropped: how many rows were left out, by reason; empty where reading was strict.
    :param source: where it came from, as errors call it: a path, ``stdin``.
    :param format: name of the format it was read from.
    :param notes: what a user should know, one sentence each.
    """

    records: tuple[JobRecord, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)
    source: str = ""
    format: str = ""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    def replace(self, **changes: Any) -> JobTrace:
        """Return a copy with some fields changed."""
        return dataclass_replace(self, **changes)

    def dropping(self, reason: str, count: int) -> Mapping[str, int]:
        """Return what was dropped, and ``count`` more for that reason."""
        return {**self.dropped, reason: self.dropped.get(reason, 0) + count} if count else self.dropped


def in_order(records: Iterable[JobRecord]) -> tuple[JobRecord, ...]:
    """Return records by (submit, place in the given order)."""
    return tuple(sorted(records, key=attrgetter("submit")))
