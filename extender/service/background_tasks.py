"""Tasks that run as long as the process does."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """Tasks that never end by themselves.

    One that does is a fault, and the process must not go on half alive: it ends as on SIGTERM, to be started again, and
    :meth:`check` raises what happened.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._fault: BaseException | None = None

    def start(self, name: str, work: Awaitable[None]) -> None:
        """Start a task."""
        self._tasks[name] = asyncio.create_task(self._run(name, work), name=name)

    def stop(self, *names: str) -> None:
        """Stop some tasks, or all."""
        for name in names or tuple(self._tasks):
            self._tasks[name].cancel()

    def check(self) -> None:
        """Raise the fault that ended the process, if it was one."""
        if self._fault is not None:
            raise self._fault

    async def _run(self, name: str, work: Awaitable[None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            logger.exception("the task %s failed: ending, to be started again", name)
            self._fault = error
        else:
            self._fault = RuntimeError(f"the task {name} ended")
        signal.raise_signal(signal.SIGTERM)
