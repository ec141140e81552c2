"""Which jobs a run replays, on the command line: a trace, others merged into it, and the part of it that is wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.traces import JobTrace


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """A trace, and what is done to it before it is replayed."""

    trace: str = field(metadata={"file": True})
    """The jobs, in any known format; - is stdin."""
    format: str | None = field(default=None, metadata={"metavar": "NAME", "default": "recognised by content"})
    """Format of the trace."""
    lenient: bool = field(default=False, metadata={"option": "--lenient/--strict"})
    """Count rows and jobs that cannot be, or stop at the first."""
    merge: tuple[str, ...] = field(default=(), metadata={"file": True})
    """Another trace on the same clock; repeat it."""
    window: str | None = field(default=None, metadata={"metavar": "START..END"})
    """Only jobs submitted then: 0..86400, 2017-10-01..2017-10-08, +1d..+8d (after the first)."""
    max_gpus: float | None = field(default=None, metadata={"metavar": "N"})
    """Only jobs of at most N GPUs."""

    def read(self) -> JobTrace:
        """Return the trace, merged and cut.

        :raises ArnoldError: a file is unusable, or nothing of it is left.
        """
        from simulator.traces import max_gpus, merge, parse_window, read_trace, window

        found = read_trace(self.trace, format=self.format, lenient=self.lenient)
        if self.merge:
            found = merge([found, *(read_trace(other, lenient=self.lenient) for other in self.merge)])
        if self.window is not None:
            found = window(found, *parse_window(self.window, found))
        return found if self.max_gpus is None else max_gpus(found, self.max_gpus)
