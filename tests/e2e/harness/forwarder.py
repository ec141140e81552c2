"""A network between two programs, which can be slow, cut, or lead to whoever is there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from tests.e2e.harness.certificates import LOOPBACK

T = TypeVar("T")


class Forwarder:
    """Forwards connections from a port of its own to the first target that takes them, as a Service would.

    :param targets: ports on the loopback address, in order of preference; may be changed at any time.
    """

    def __init__(self, targets: Sequence[int]) -> None:
        self.targets = list(targets)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._flows = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    def __enter__(self) -> Forwarder:
        self._thread.start()
        self.let_flow()
        self._server = self._run(asyncio.start_server(self._serve, LOOPBACK, 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def hold(self) -> None:
        """Let nothing come back from the target; what was sent is kept.  Nobody can tell it from a long silence."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def let_flow(self) -> None:
        """Bring back what was held."""
        self._loop.call_soon_threadsafe(self._flows.set)

    def cut(self) -> None:
        """Close all connections that there are."""
        self._run(self._cut())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)

    async def _cut(self) -> None:
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        ends = [writer]
        try:
            for port in self.targets:
                with suppress(OSError):
                    back, forth = await asyncio.open_connection(LOOPBACK, port)
                    ends.append(forth)
                    there = asyncio.create_task(_pump(reader, forth, None))
                    here = asyncio.create_task(_pump(back, writer, self._flows))
                    try:
                        await asyncio.wait((there, here), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        there.cancel()
                        here.cancel()
                    return
        except asyncio.CancelledError:
            pass
        finally:
            self._connections.discard(task)
            for end in ends:
                end.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event | None) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            if gate is not None:
                await gate.wait()
            sink.write(data)
            await sink.drain()
