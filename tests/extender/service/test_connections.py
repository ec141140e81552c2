"""Connections to the real server: mutual TLS with certificates that change, and clients that are slow or endless."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from extender.service.settings import Address
from extender.service.web import HEAD_BYTES, MOST_STRANGERS, RotatingContext, Strangers, TlsFiles, listen
from ground.errors import InvalidInput
from tests.extender.service.https import GET, Authority, install, run, send, serving


def test_small_answers_are_sent_at_once() -> None:
    """No piece of an answer waits for the client to acknowledge the one before, which takes a kernel 40 ms."""
    with listen(Address("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_slow_heads() -> None:
    """A byte now and then: the connection ends after the time that a request may take to arrive."""

    async def scenario() -> None:
        async with serving(seconds=0.2) as port:
            answer = await send(port, GET, pause=0.03)
            # What the server says last is lost when the client writes on meanwhile.
            assert answer == b"" or answer.startswith(b"HTTP/1.1 408")

    run(scenario())


def test_clients_that_say_nothing() -> None:
    """An open connection without a request ends too."""

    async def scenario() -> None:
        async with serving(seconds=0.2) as port:
            assert (await send(port, b"")).startswith(b"HTTP/1.1 408")

    run(scenario())


def test_slow_bodies() -> None:
    """A body that does not come to its end: likewise, although the application reads it."""

    async def scenario() -> None:
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n"
        async with serving(seconds=0.2) as port:
            assert (await send(port, head + b"x" * 10)).startswith(b"HTTP/1.1 408")

    run(scenario())


def test_a_connection_that_is_kept() -> None:
    """Each request has its own time; an idle connection between two is nobody's fault."""

    async def scenario() -> None:
        async with serving(seconds=0.3) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(GET)
                assert b"unknown" in await asyncio.wait_for(reader.read(65_536), 5)
                await asyncio.sleep(0.4)
            writer.close()

    run(scenario())


def test_endless_heads() -> None:
    """Headers without end are cut off."""

    async def scenario() -> None:
        async with serving() as port:
            answer = await send(port, b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * (2 * HEAD_BYTES))
            assert answer.startswith(b"HTTP/1.1 431")

    run(scenario())


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    """Where the server's files are; nothing is in them yet."""
    return TlsFiles(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"), str(tmp_path / "ca.crt"))


def test_mutual_tls_and_its_rotation(files: TlsFiles, tmp_path: Path) -> None:
    """Clients of the CA are known; without a certificate one is unknown; of another CA one is refused.

    After the files changed, new connections see the new certificate, and only clients of the new CA are known.
    """
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    install(files, old, old)
    rotating = RotatingContext(files)

    async def scenario() -> None:
        async with serving(rotating.context) as port:
            assert b"unknown" in await send(port, GET, tls=old.client(shows=None))
            known = await send(port, GET, tls=old.client(shows=old))
            assert b"known" in known
            assert b"unknown" not in known
            assert not await refused(port, old.client(shows=old))
            assert await refused(port, old.client(shows=new))
            assert await refused(port, new.client(shows=old)), "the server's certificate is the old one"
            install(files, new, new)
            assert rotating.check()
            assert not rotating.check()
            assert not await refused(port, new.client(shows=new))
            assert await refused(port, new.client(shows=old)), "the old CA is forgotten"
            assert await refused(port, old.client(shows=new)), "the server's certificate is the new one"

    run(scenario())


async def refused(port: int, client: ssl.SSLContext) -> bool:
    """Whether a handshake fails; with TLS 1.3 the client may learn that only when it reads."""
    try:
        return not await send(port, GET, tls=client)
    except (ssl.SSLError, ConnectionError):
        return True


def test_files_that_do_not_fit_together(files: TlsFiles, tmp_path: Path) -> None:
    """Half-written files leave the old certificate in force, until they are whole."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    install(files, old, old)
    rotating = RotatingContext(files)
    key = Path(files.key).read_bytes()
    install(files, new, new)
    new_key = Path(files.key).read_bytes()
    for broken in (key, b"", b"-----BEGIN"):
        Path(files.key).write_bytes(broken)
        assert not rotating.check()
    Path(files.key).unlink()
    assert not rotating.check()
    Path(files.key).write_bytes(new_key)
    assert rotating.check()


def test_files_that_cannot_be_used_from_the_start(files: TlsFiles, tmp_path: Path) -> None:
    """Missing, not PEM, a key of another certificate: refused, and says which option."""
    with pytest.raises(InvalidInput, match="No such file") as error:
        RotatingContext(files)
    assert error.value.where == "--tls-cert"
    authority = Authority(tmp_path, "ca")
    install(files, authority, authority)
    Path(files.client_ca).write_text("nonsense", encoding="utf-8")
    with pytest.raises(InvalidInput, match="not PEM") as error:
        RotatingContext(files)
    assert error.value.where == "--client-ca"


# Clients without a certificate


HELD = 2 * MOST_STRANGERS
"""Connections that somebody without a certificate opens and keeps as they are: all that the server takes at once."""


@asynccontextmanager
async def opened(
    port: int, tls: ssl.SSLContext, request: bytes = b"", *, times: int = 1
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections that each send something and are left alone, as long as the block runs."""
    pairs = []
    try:
        for _ in range(times):
            pairs.append(await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname="localhost"))
            pairs[-1][1].write(request)
        yield [reader for reader, _ in pairs]
    finally:
        for _, writer in pairs:
            writer.transport.abort()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether the server has hung up, or does so at once."""
    try:
        await asyncio.wait_for(reader.read(), 0.01)
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def test_clients_without_a_certificate_are_answered_once(files: TlsFiles, tmp_path: Path) -> None:
    """Who shows none, as probes do, has one answer for each connection; who shows one keeps his."""
    authority = Authority(tmp_path, "ca")
    install(files, authority, authority)

    async def scenario() -> None:
        async with serving(RotatingContext(files).context) as port:
            # Two requests at once are still one answer.
            for request in (GET, GET + GET):
                async with opened(port, authority.client(shows=None), request) as (stranger,):
                    answer = await asyncio.wait_for(stranger.read(), 5)
                    assert answer.count(b"HTTP/1.1 200") == 1
                    assert b"connection: close" in answer.lower()
            async with opened(port, authority.client(shows=authority), GET + GET) as (known,):
                for _ in range(2):
                    answer = await asyncio.wait_for(known.readuntil(b"known"), 5)
                    assert answer.count(b"HTTP/1.1 200") == 1
                assert not await ended(known)

    run(scenario())


def test_api_servers_keep_their_connections(files: TlsFiles, tmp_path: Path) -> None:
    """Where they are answered without a certificate, and none of them is shut out by as many as there may be."""
    authority = Authority(tmp_path, "ca")
    install(files, authority, authority)

    async def scenario() -> None:
        without = authority.client(shows=None)
        async with (
            serving(RotatingContext(files).context, unknown=Strangers(2, stay=True)) as port,
            opened(port, without, GET[:10], times=4) as others,
            opened(port, without, GET + GET) as (api_server,),
        ):
            for _ in range(2):
                answer = await asyncio.wait_for(api_server.readuntil(b"unknown"), 5)
                assert answer.count(b"HTTP/1.1 200") == 1
            assert not await ended(api_server)
            assert sum([not await ended(reader) for reader in others]) == 1

    run(scenario())


@pytest.mark.parametrize("request_", [b"", GET[:10], GET], ids=["silent", "half a request", "answered"])
def test_any_number_of_clients_without_a_certificate(files: TlsFiles, tmp_path: Path, request_: bytes) -> None:
    """As many as the server takes at once, who keep their connections, shut out neither a client with a certificate
    nor a probe; and most of them are cut off.
    """
    authority = Authority(tmp_path, "ca")
    install(files, authority, authority)

    async def scenario() -> None:
        without = authority.client(shows=None)
        async with (
            serving(RotatingContext(files).context, most=HELD) as port,
            opened(port, without, request_, times=HELD) as held,
        ):
            known = await send(port, GET, tls=authority.client(shows=authority))
            assert known.startswith(b"HTTP/1.1 200")
            probe = await send(port, GET, tls=without)
            assert probe.startswith(b"HTTP/1.1 200")
            assert sum([not await ended(reader) for reader in held]) <= MOST_STRANGERS

    run(scenario())


def test_a_slow_client_that_does_not_hang_up(files: TlsFiles, tmp_path: Path) -> None:
    """Half a request, and no word at the end of TLS either: the connection is gone all the same."""
    authority = Authority(tmp_path, "ca")
    install(files, authority, authority)

    async def scenario() -> None:
        async with serving(RotatingContext(files).context, seconds=0.2) as port:
            loop = asyncio.get_running_loop()
            raw = socket.create_connection(("127.0.0.1", port))
            client, server = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = authority.client(shows=authority).wrap_bio(client, server, server_hostname="localhost")
            raw.setblocking(False)
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    await loop.sock_sendall(raw, server.read())
                    client.write(await loop.sock_recv(raw, 65_536))
            tls.write(GET[:10])
            await loop.sock_sendall(raw, server.read())
            # What comes is never looked at, so the end of TLS is never answered.
            while await loop.sock_recv(raw, 65_536):
                pass
            raw.close()

    run(scenario(), seconds=5)
