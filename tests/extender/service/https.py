"""A server with real connections and certificates, in this process, and clients that send it bytes."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trustme
import uvicorn

from extender.service.web import Connection, Strangers, TlsFiles

Message = dict[str, Any]


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Answers whether the client showed a certificate, after having read the request."""
    while (await receive()).get("more_body"):
        pass
    body = b"known" if scope["state"]["authenticated"] else b"unknown"
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]}
    )  # type: ignore[operator]
    await send({"type": "http.response.body", "body": body})  # type: ignore[operator]


@asynccontextmanager
async def serving(
    context: ssl.SSLContext | None = None,
    *,
    seconds: float = 10.0,
    most: int | None = None,
    unknown: Strangers | None = None,
) -> AsyncIterator[int]:
    """Serve while the block runs.

    :param most: connections at once.
    :param unknown: what is for clients without a certificate.
    :returns: the port.
    """

    class Limited(Connection):
        arrive_seconds = seconds
        strangers = unknown or Strangers()

    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        port=0,
        http=Limited,
        ws="none",
        lifespan="off",
        log_config=None,
        limit_concurrency=most,
        ssl_context_factory=None if context is None else lambda *_: context,
    )
    async with started(uvicorn.Server(config)) as port:
        yield port


@asynccontextmanager
async def started(server: uvicorn.Server, *sockets: socket.socket) -> AsyncIterator[int]:
    """Serve while the block runs, on sockets or else on the port that the server was told; gives the port."""
    task = asyncio.create_task(server._serve([*sockets] or None))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def send(port: int, request: bytes, *, tls: ssl.SSLContext | None = None, pause: float = 0.0) -> bytes:
    """Send bytes and read one answer, or what there is of it when the server hangs up.

    :param pause: seconds between single bytes; 0 = all at once.
    """
    name = None if tls is None else "localhost"
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=name)
    try:
        for piece in [request] if not pause else [request[i : i + 1] for i in range(len(request))]:
            if reader.at_eof() or writer.is_closing():
                break
            writer.write(piece)
            with suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(pause)
        try:
            async with asyncio.timeout(5):
                answer = await reader.read(65_536)
                length = re.search(rb"content-length: (\d+)", answer)
                # a body may come after its head
                while length is not None and len(answer.partition(b"\r\n\r\n")[2]) < int(length[1]):
                    if not (more := await reader.read(65_536)):
                        break
                    answer += more
                return answer
        except ConnectionError:
            return b""
    finally:
        writer.close()


GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def run(scenario: Awaitable[None], *, seconds: float = 20) -> None:
    """Run a scenario on the event loop that the service uses, that of Python."""
    asyncio.run(asyncio.wait_for(scenario, seconds))


class Authority:
    """A CA, and files of certificates that it issued."""

    def __init__(self, folder: Path, name: str) -> None:
        self._ca = trustme.CA()
        self._folder = folder / name
        self._folder.mkdir()
        self.file = self._folder / "ca.crt"
        self._ca.cert_pem.write_to_path(str(self.file))

    def write_server(self, certificate: Path, key: Path) -> None:
        """A certificate of the server, over what is there."""
        issued = self._ca.issue_cert("localhost")
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())

    def client(self, *, shows: Authority | None) -> ssl.SSLContext:
        """A client that trusts servers of this CA.

        :param shows: the CA of its own certificate.
        """
        context = ssl.create_default_context(cafile=str(self.file))
        if shows is not None:
            shows._ca.issue_cert(common_name="scheduler").configure_cert(context)
        return context


def install(files: TlsFiles, server: Authority, clients: Authority) -> None:
    """Write a certificate and the CA of clients."""
    server.write_server(Path(files.certificate), Path(files.key))
    Path(files.client_ca).write_bytes(clients.file.read_bytes())
