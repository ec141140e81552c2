"""Own measurements as an option of commands, apart from the reader of their file: a help loads no pydantic."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ground.files import read_source

if TYPE_CHECKING:
    from scheduler.affinity import Gains


@dataclass(frozen=True, kw_only=True)
class OwnRecords:
    """Own measurements of what jobs gain."""

    records: str | None = field(default=None, metadata={"file": True})
    """Own measurements that `arnold calibrate` wrote, for the alpha of jobs that do not say it, and their pace in
    replays."""

    @cached_property
    def measured(self) -> tuple[Gains, ...]:
        """What the file says, empty where none is named; raises InvalidInput where it is unusable."""
        if self.records is None:
            return ()
        from scheduler.job_files.records_file import load_records

        return load_records(read_source(self.records))
