"""Writes side by side: how many are under way at once, and who waits for which."""

from __future__ import annotations

import asyncio

from extender.controller.store import TOGETHER, SideWrites
from extender.gangs.types import GangKey


def test_a_write_that_is_waited_for_counts() -> None:
    """With as many under way as may be, one more waits, also while a caller waits for one of them to be done."""

    async def scenario() -> None:
        writes, let = SideWrites(), asyncio.Event()

        async def write() -> None:
            await let.wait()

        keys = [GangKey("team", f"g{i}") for i in range(TOGETHER)]
        for key in keys:
            writes.start(key, write())
        waiter = asyncio.create_task(writes.done(keys[0]))
        more = asyncio.create_task(writes.place())
        for _ in range(3):  # turns of the loop: both tasks are at their waits
            await asyncio.sleep(0)
        assert len(writes.tasks) == TOGETHER
        assert not waiter.done()
        assert not more.done()
        let.set()
        await asyncio.gather(waiter, more)
        assert not writes.tasks

    asyncio.run(scenario())


def test_what_failed_is_raised_once() -> None:
    """The caller who waits for a write hears of its error; the end of the block does not repeat it."""

    async def scenario() -> None:
        async def fail() -> None:
            raise ValueError("no")

        key, heard = GangKey("team", "g"), []
        async with SideWrites() as writes:
            writes.start(key, fail())
            try:
                await writes.done(key)
            except ValueError as error:
                heard.append(str(error))
        assert heard == ["no"]

    asyncio.run(scenario())
