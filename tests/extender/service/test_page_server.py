"""The live page over HTTP: who may read it, that nothing can be written, and readers that are slow."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from extender.service.page_server import LOOPBACK, known_by, page_application
from extender.service.settings import parse_address
from extender.service.web import web_server
from ground.errors import InvalidInput
from tests.facts import saying, says


class Counting:
    """A page whose state is a number and many bytes."""

    def __init__(self) -> None:
        self.number, self.asked, self.size = 1, 0, 0

    def html(self) -> tuple[str, str]:
        """The page and its policy."""
        return "<!DOCTYPE html><p>page", "default-src 'none'"

    def news(self, since: int) -> tuple[int, str]:
        """The newest number."""
        self.asked += 1
        return self.number, json.dumps({"number": self.number, "much": "x" * self.size})

    async def newer(self, than: int, *, seconds: float) -> None:
        """Soon."""
        await asyncio.sleep(0.1 if self.number == than else 0.0)

    async def follow(self) -> None:
        """Nothing comes."""


@asynccontextmanager
async def serving(page: Counting) -> AsyncIterator[int]:
    """The port on which a page is served while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = web_server(page_application(page, LOOPBACK, ending=lambda: server.should_exit))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task


@asynccontextmanager
async def asking(port: int, head: str) -> AsyncIterator[tuple[str, asyncio.StreamReader, asyncio.Transport]]:
    """Send a request; give the head of the answer, what its body is read from, and the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    writer.write(f"{head}\r\n\r\n".encode())
    try:
        yield (await reader.readuntil(b"\r\n\r\n")).decode(), reader, writer.transport
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


def answers(*heads: str) -> list[str]:
    """The heads of the answers to some requests."""

    async def run() -> list[str]:
        async with serving(Counting()) as port:
            got = []
            for head in heads:
                async with asking(port, head.replace("PORT", str(port))) as (answer, _, _):
                    got.append(answer)
            return got

    return asyncio.run(run())


def test_only_reading_and_only_by_a_known_name() -> None:
    """GET and HEAD of the page by each name of this machine; no other method, path or host: a site whose name was
    bound to 127.0.0.1 sends its own name.
    """
    asked = {
        "GET / HTTP/1.1\r\nHost: localhost:PORT": "200",
        "GET / HTTP/1.1\r\nHost: [::1]:PORT": "200",
        "HEAD / HTTP/1.1\r\nHost: 127.0.0.1": "200",
        "HEAD /events HTTP/1.1\r\nHost: 127.0.0.1": "200",
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0": "405",
        "DELETE /events HTTP/1.1\r\nHost: localhost": "405",
        "GET /metrics HTTP/1.1\r\nHost: localhost": "404",
        "GET / HTTP/1.1\r\nHost: evil.example:PORT": "400",
        "GET /events HTTP/1.1\r\nHost: localhost.evil.example": "400",
        "GET /events HTTP/1.0": "400",
    }
    got = answers(*asked)
    assert [answer.split(" ")[1] for answer in got] == list(asked.values())
    first = got[0].lower()
    for header in ("content-security-policy: default-src 'none'", "cache-control: no-store", "x-frame-options: deny"):
        assert header in first
    assert not any("access-control-" in answer.lower() for answer in got)


def test_a_slow_reader_skips_states_and_keeps_nothing() -> None:
    """A reader that takes nothing is told no news once its connection is full, and then has the newest; another
    hears all the time.
    """

    async def run() -> None:
        page = Counting()
        page.size = 16 * 2**20  # more than the buffers of a connection hold
        head = "GET /events HTTP/1.1\r\nHost: localhost"
        async with serving(page) as port, asking(port, head) as (_, slow, connection):
            connection.pause_reading()
            await asyncio.sleep(0.4)
            asked = page.asked
            for _ in range(4):
                page.number += 1
                await asyncio.sleep(0.2)
            assert page.asked <= asked + 1  # it is stuck in the first state
            page.size, numbers = 0, list[int]()
            connection.resume_reading()
            while not numbers or numbers[-1] < page.number:
                line = await slow.readuntil(b"\n\n")  # with the marks of chunks before it
                numbers.append(json.loads(line[line.index(b"{") :])["number"])
        assert numbers in ([1, 5], [1, 2, 5])  # not each state: the second may have been on its way already

    asyncio.run(run())


def test_whom_it_listens_to() -> None:
    """Beyond this machine only where a name says that this is meant; an address is a name too."""
    assert known_by(parse_address("127.0.0.2:1"), ()) == (*LOOPBACK, "127.0.0.2")
    assert known_by(parse_address("0.0.0.0:1"), ("arnold.example.com", "fd00::7")) == (
        *LOOPBACK, "arnold.example.com", "[fd00::7]",
    )  # fmt: skip
    with pytest.raises(InvalidInput, match=saying("0.0.0.0:1")) as raised:
        known_by(parse_address("0.0.0.0:1"), ())
    assert says(raised.value.fix, "--host-name")
    for name in ("*", "", "a b", "https://a"):
        with pytest.raises(InvalidInput):
            known_by(parse_address("0.0.0.0:1"), (name,))
