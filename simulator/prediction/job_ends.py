"""Jobs in order of their ends, as if each had run from its submission."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from simulator.job_record import JobRecord


class Ends:
    """Hands out each job once, when time has come past its end."""

    def __init__(self, records: Sequence[JobRecord]) -> None:
        self._heap = [(record.submit + record.duration, place) for place, record in enumerate(records)]
        heapq.heapify(self._heap)
        self._records = records

    def before(self, time: float) -> Iterator[JobRecord]:
        """Yield those that ended by ``time`` and were not handed out yet."""
        while self._heap and self._heap[0][0] <= time:
            yield self._records[heapq.heappop(self._heap)[1]]
