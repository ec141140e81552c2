"""HTTP over mutual TLS with next to nothing between bytes and clock: asks the extender as fast as it can."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import cast

from tests.e2e.harness.certificates import LOOPBACK, KeyPair
from tests.e2e.harness.client import client_context

END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"content-length:"
CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Door:
    """Where an extender listens, and as which client it is asked."""

    port: int
    authority: Path
    caller: KeyPair

    def request(self, verb: str, document: object) -> bytes:
        """A request as kube-scheduler sends it: one connection for many, compact JSON."""
        return self.framed(verb, json.dumps(document, separators=(",", ":")).encode())

    def framed(self, verb: str, body: bytes) -> bytes:
        """A request with that body."""
        head = (
            f"POST /{verb} HTTP/1.1\r\nHost: {LOOPBACK}:{self.port}\r\nUser-Agent: Go-http-client/1.1\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        )
        return head.encode() + body


class OneByOne:
    """One connection, one request at a time."""

    def __init__(self, door: Door) -> None:
        plain = socket.create_connection((LOOPBACK, door.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = client_context(door.authority, door.caller).wrap_socket(plain, server_hostname=LOOPBACK)

    def __enter__(self) -> OneByOne:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: bytes) -> tuple[float, bytes]:
        """Seconds from the first byte sent to the last received, and the answer's body."""
        start = perf_counter()
        self._socket.sendall(request)
        parts = [self._socket.recv(CHUNK)]
        head, missing = _missing(parts[0])
        while missing > 0:
            parts.append(self._socket.recv(CHUNK))
            if not parts[-1]:
                raise ConnectionError("the extender hung up")
            missing -= len(parts[-1])
        seconds = perf_counter() - start
        return seconds, b"".join(parts)[head:]


def answers_a_second(door: Door, requests: Sequence[bytes], *, connections: int, seconds: float) -> float:
    """How many answers come when so many connections ask all the time."""
    return asyncio.run(_throng(door, requests, connections, seconds))


async def _throng(door: Door, requests: Sequence[bytes], connections: int, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    context = client_context(door.authority, door.caller)
    askers = [_Asker(requests[number::connections]) for number in range(connections)]
    for asker in askers:
        await loop.create_connection(lambda it=asker: it, LOOPBACK, door.port, ssl=context, server_hostname=LOOPBACK)  # type: ignore[misc]
    await asyncio.sleep(0.5)
    before, start = sum(asker.answers for asker in askers), perf_counter()
    await asyncio.sleep(seconds)
    rate = (sum(asker.answers for asker in askers) - before) / (perf_counter() - start)
    for asker in askers:
        asker.transport.close()
    return rate


class _Asker(asyncio.Protocol):
    """Asks again as soon as the answer is here."""

    transport: asyncio.Transport

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._requests = requests
        self._received = bytearray()
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._requests[0])

    def data_received(self, data: bytes) -> None:
        self._received += data
        if _missing(bytes(self._received))[1] > 0:
            return
        self._received.clear()
        self.answers += 1
        self.transport.write(self._requests[self.answers % len(self._requests)])


def _missing(received: bytes) -> tuple[int, int]:
    """Length of the head, and how many bytes of the answer are yet to come.

    :raises ConnectionError: this is no answer with status 200.
    """
    if not received.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(f"the extender answered {received[:200]!r}")
    end = received.index(END_OF_HEAD) + len(END_OF_HEAD)
    at = received.lower().index(LENGTH, 0, end) + len(LENGTH)
    length = int(received[at : received.index(b"\r\n", at)])
    return end, end + length - len(received)
