"""Shortest job first."""

from __future__ import annotations

from math import inf

from scheduler.queue.base import BasePolicy
from scheduler.queue.types import Rank, Waiting


class ShortestFirst(BasePolicy):
    """The job that is expected to run shortest is asked first; none passes it while it waits.

    So one of many GPUs gets its turn as soon as it is the shortest, and is passed only by shorter ones that come later.
    Jobs of unknown length come last.
    """

    name = "shortest-first"
    summary = "the shortest by prediction first; nobody passes it while it waits"

    def rank(self, job: Waiting) -> Rank:
        """Rank by predicted seconds, then as first in, first out."""
        return (inf if job.predicted is None else job.predicted, *super().rank(job))
