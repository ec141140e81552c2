"""A connection to the server: uvicorn's, with the limits that it lacks.

Uvicorn bounds neither the time that a request may take to arrive nor the size of its head; a client that sends a byte a
minute would hold a connection for ever.  Nor does it tell clients apart: any that reaches the port could use up the
connections of kube-scheduler, which has a certificate.  So a client without one gets one answer for each connection,
and of such connections the newest stay: a probe, which is answered at once, finds a place however many others come.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_BYTES = 64 * 1024  # longest request line with headers
MOST_STRANGERS = 64  # connections without a client's certificate at a time; a kubelet has two probes
LINGER_SECONDS = 0.5  # for a client to read our last word; TLS would wait 30 s for the client's own


class Strangers:
    """The newest connections of clients without a certificate; older ones are cut off."""

    def __init__(self, most: int = MOST_STRANGERS) -> None:
        self._most = most
        self._there: dict[Connection, None] = {}

    def enter(self, connection: Connection) -> None:
        """Let one more connection in."""
        self._there[connection] = None
        if len(self._there) > self._most:
            oldest = next(iter(self._there))
            self.leave(oldest)
            oldest.transport.abort()

    def leave(self, connection: Connection) -> None:
        """Let a connection go."""
        self._there.pop(connection, None)


class Connection(HttpToolsProtocol):
    """One connection; requests find in their ``state`` whether the client showed a certificate: ``authenticated``."""

    arrive_seconds: ClassVar[float] = 10.0  # from a request's first byte, or the connection's opening, to its last byte
    strangers: ClassVar[Strangers] = Strangers()  # clients without a certificate; a server has its own

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head = 0
        self._stranger = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note that the connection stands; over TLS, after the handshake."""
        super().connection_made(transport)
        encrypted = transport.get_extra_info("ssl_object")
        shown = encrypted is not None and bool(encrypted.getpeercert())
        self.app_state = {**self.app_state, "authenticated": shown}
        self._stranger = encrypted is not None and not shown
        if self._stranger:
            # Uvicorn's own limit is for clients with a certificate: others neither count there nor meet it.
            self.connections.discard(self)
            self.limit_concurrency = None
            self.strangers.enter(self)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take in bytes."""
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head += len(data)
            if self._head > HEAD_BYTES:
                self._end(b"431 Request Header Fields Too Large")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone."""
        self._arrived()
        self.strangers.leave(self)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Note the first byte of a request."""
        super().on_message_begin()
        self._in_head, self._head = True, 0
        self._expect()

    def on_headers_complete(self) -> None:
        """Note that the head of a request is here."""
        self._in_head = False
        super().on_headers_complete()
        if self._stranger:
            # As if the client had asked for it; the answer has not begun.
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Note that all of a request is here."""
        self._arrived()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that the answer is sent."""
        super().on_response_complete()
        if self._stranger:
            self._hang_up()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        super().send_400_response(msg)
        self._hang_up()

    def _expect(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.arrive_seconds, self._too_late)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self._end(b"408 Request Timeout")

    def _end(self, status: bytes) -> None:
        answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not answering and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self._hang_up()

    def _hang_up(self) -> None:
        """Close the connection, whether the client agrees or not."""
        self.transport.close()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)
