"""First in, first out."""

from __future__ import annotations

from scheduler.queue.base import BasePolicy


class Fifo(BasePolicy):
    """The first waits until it has room, and so do all behind it."""

    name = "fifo"
    summary = "first in, first out; nobody passes a job that waits"
