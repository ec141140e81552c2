"""An API server that resets connections, as one does that is killed: the service asks again and nothing else breaks."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from extender.cluster_api.client import NODES, ClusterApi, Unreachable
from extender.cluster_api.flow import FlowControl
from extender.service import server
from extender.service.settings import ServeOptions

RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: closing sends RST in place of FIN (socket(7))
ASKERS, TIMES = 20, 50  # uvloop 0.23 aborted within 1,000 such connections, each time of five


@pytest.fixture
def resetting() -> Iterator[str]:
    """The address of a server that resets every connection as soon as it is made."""
    with socket.create_server(("127.0.0.1", 0), backlog=ASKERS) as listener, ThreadPoolExecutor(1) as thread:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # it was shut down
                    return
                with connection:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

        thread.submit(answer)
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_connections_that_are_reset(resetting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the event loop of the service each such request is one clear error, however many there are."""
    said: list[str] = []

    async def ask(api: ClusterApi) -> None:
        for _ in range(TIMES):
            with pytest.raises(Unreachable) as error:
                await api.get(NODES, "n1")
            said.append(str(error.value))

    async def run(_: object) -> None:
        from kubernetes.aio.client import Configuration

        async with ClusterApi(Configuration(host=resetting), flow=FlowControl(rate=1, burst=1, parallel=1)) as api:
            await asyncio.gather(*(ask(api) for _ in range(ASKERS)))

    monkeypatch.setattr(server._Process, "run", run)
    monkeypatch.setattr(server, "set_up_logs", lambda **_: None)
    server.serve(ServeOptions())
    assert len(said) == ASKERS * TIMES
    assert all("does not answer" in text and resetting in text for text in said)
