"""Tasks that run as long as the process does."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from extender.service.server import BackgroundTasks, warm_up


async def fails() -> None:
    """A fault."""
    raise ValueError("a slip")


async def ends() -> None:
    """Another: it was to run for ever."""


@pytest.mark.parametrize(("work", "fault"), [(fails, ValueError), (ends, RuntimeError)])
def test_a_fault_ends_the_process(
    work: Callable[[], Coroutine[Any, Any, None]], fault: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that ends takes the process along, in order, and what it was is raised at the end."""
    raised: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)

    async def scenario() -> None:
        background = BackgroundTasks()
        background.start("other", asyncio.sleep(60))  # type: ignore[arg-type]
        background.check()
        background.start("work", work())
        await asyncio.sleep(0.01)
        assert raised == [signal.SIGTERM]
        background.stop()
        with pytest.raises(fault):
            background.check()

    asyncio.run(scenario())


def test_stopping_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that are stopped, some or all, end quietly."""
    monkeypatch.setattr(signal, "raise_signal", lambda _: pytest.fail("nothing failed"))

    async def scenario() -> None:
        background = BackgroundTasks()
        for name in ("a", "b"):
            background.start(name, asyncio.sleep(60))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        background.stop("a")
        await asyncio.sleep(0.01)
        background.stop()
        await asyncio.sleep(0.01)
        background.check()

    asyncio.run(scenario())


def test_what_was_listed_is_no_work_for_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, when all is listed and not before; the task goes on, as its end would be a fault.  The solver is loaded."""
    frozen: list[str] = []
    loaded: list[str] = []
    monkeypatch.setattr("extender.service.server.load_solver", lambda: loaded.append("loaded"))
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("frozen"))
    answers = iter([False, True])

    async def scenario() -> None:
        async def at_once(_: float) -> None:
            assert loaded
            assert not frozen

        monkeypatch.setattr("extender.service.server.asyncio.sleep", at_once)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await warm_up(lambda: next(answers))

    asyncio.run(scenario())
    assert frozen == ["frozen"]
    assert loaded == ["loaded"]
