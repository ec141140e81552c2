"""Writes side by side: the next gang is looked at while the API server takes what was decided about others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Self

from extender.gangs.types import GangKey

TOGETHER = 8  # writes at once, as many as the API server is sent at once


class SideWrites:
    """Tasks that write, one of a gang at a time; as a block it ends when all are done."""

    def __init__(self) -> None:
        self._tasks: dict[GangKey, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> tuple[asyncio.Task[None], ...]:
        """What is under way."""
        return tuple(task for task in self._tasks.values() if not task.done())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*self._tasks.values())

    async def done(self, key: GangKey) -> None:
        """Return when nothing is being written about a gang."""
        if (task := self._tasks.get(key)) is not None:
            try:
                await task
            finally:  # not before: until then it is one of those under way
                if self._tasks.get(key) is task:
                    del self._tasks[key]

    def start(self, key: GangKey, write: Coroutine[None, None, None]) -> None:
        """Write about a gang, about which nothing is being written."""
        self._tasks[key] = asyncio.create_task(write, name=f"write {key}")

    async def place(self) -> None:
        """Return when one more may be started."""
        if len(self.tasks) >= TOGETHER:
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_COMPLETED)
        self._tasks = {key: task for key, task in self._tasks.items() if not task.done()}
