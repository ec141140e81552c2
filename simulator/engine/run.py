"""From the start to the end, with somebody watching: progress, checkpoints, Ctrl-C, overload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from simulator.engine.loop import Engine
from simulator.engine.overload import Overload

INSTANTS = 256
"""Instants between two looks at the clock: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Who watches a run.

    :param progress: called about ten times a second.
    :param interrupted: whether the run is to stop now.
    :param save: writes a checkpoint; ``None`` = nobody wants one.
    :param every: seconds of wall time between checkpoints.
    """

    progress: Callable[[Engine], None] | None = None
    interrupted: Callable[[], bool] = bool
    save: Callable[[Engine], None] | None = None
    every: float = 60.0


def run(engine: Engine, watch: Watch | None = None, *, overload: Overload | None = None) -> None:
    """Go on until all jobs have ended, or nothing happens any more.

    :raises KeyboardInterrupt: the watch says so; a checkpoint was written if it saves them.
    :raises Diverged: the run does not come to an end; a checkpoint was written here too.
    """
    watch, overload = watch or Watch(), overload or Overload()
    shown = saved = monotonic()
    while not engine.over:
        engine.advance(INSTANTS)
        now = monotonic()
        if watch.progress is not None and now >= shown + 0.1:
            watch.progress(engine)
            shown = now
        diverged, interrupted = overload.verdict(engine), watch.interrupted()
        if watch.save is not None and (diverged or interrupted or now >= saved + watch.every):
            watch.save(engine)
            saved = monotonic()
        if diverged is not None:
            raise diverged
        if interrupted:
            raise KeyboardInterrupt
