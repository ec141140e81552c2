"""How we answer over HTTP: what kube-scheduler asks and what tells how we are, mutual TLS, the limits of a connection.

Filter and Preempt read the cache and change nothing.  What is wrong with a request that could be read is said with
status 200 in ``Error``, as the scheduler shows that to the pod's owner and nothing of any other answer.

A new certificate, key or client CA is taken up by the next handshake; connections that are open stay.  The listening
socket keeps its context, with an SNI callback that hands every new connection to the newest: certificate and CAs
change together, and an old CA is really forgotten.  Files that do not fit together (one is written before the other)
leave the old ones in force until they do.

Uvicorn bounds neither the time that a request may take to arrive nor the size of its head; a client that sends a byte a
minute would hold a connection for ever.  Nor does it tell clients apart: any that reaches the port could use up the
connections of kube-scheduler, which has a certificate.  A client without one, such as a probe of the kubelet, sees our
health only, and gets one answer for each connection; of such connections the newest stay, so that a probe finds a
place however many others come.  A certificate of another CA ends the handshake.

An API server shows its webhooks no certificate either.  With --webhook it is answered, on connections that it keeps:
what it asks is about the pod that it sends, and nothing of the cluster.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from extender.cluster_cache import ClusterCache
from extender.extender_metrics import CONTENT_TYPE, Metrics
from extender.service.settings import Address
from extender.service.webhook import Admission, admit_pod
from extender.verbs import FilterResult, decode_filter, decode_preempt, encode, filter_nodes, preempt
from ground.errors import ArnoldError, InvalidInput
from scheduler.queue.policy import QueuePolicy

logger = logging.getLogger(__name__)

JSON = "application/json"
WRITE_SECONDS = 1.0  # for which a refusal waits for the plan that is being written, at the most


class BodyReader:
    """Reads whole bodies; a node takes 7 to 25 kB in full-node mode, a name some 20 bytes in the other."""

    def __init__(self, limit: int, *, cure: str = "set nodeCacheCapable: true, or raise --body-limit") -> None:
        self.limit = limit
        self._cure = cure
        # Bytes of all bodies that may still be read at this moment.
        self._room = 4 * limit

    async def read(self, request: Request) -> bytes:
        """Return a body, or raise ``HTTPException``: 413 too long, 503 too many long ones at once, 400 client gone."""
        length = request.headers.get("content-length", "")
        words = f"a request may have {self.limit:,} bytes\nTo fix: {self._cure}"
        too_long = HTTPException(413, words, {"connection": "close"})
        if length.isdigit() and int(length) > self.limit:
            raise too_long
        chunks: list[bytes] = []
        taken = 0
        try:
            async for chunk in request.stream():
                taken += len(chunk)
                self._room -= len(chunk)
                if taken > self.limit:
                    raise too_long
                if self._room < 0:
                    raise HTTPException(503, "too many large requests at once", {"connection": "close"})
                chunks.append(chunk)
        except ClientDisconnect:
            raise HTTPException(400, "the request did not arrive") from None
        finally:
            self._room += taken
        return b"".join(chunks)


@dataclass(frozen=True, kw_only=True)
class HttpApplication:
    """Answers from the cluster cache."""

    state: ClusterCache
    metrics: Metrics
    now: Callable[[], datetime]
    unready: Callable[[], Sequence[str]]  # why the cache cannot be trusted, one sentence each; empty = it can
    lacks: Callable[[], Sequence[str]]  # what the cluster lacks without which we can work, one sentence each
    policy: QueuePolicy  # which nodes single pods leave to others
    bodies: BodyReader
    mutual_tls: bool  # whether only clients with a certificate may ask more than how we are
    pods: BodyReader | None = None  # of questions of the API server, which shows no certificate; None = it asks none

    def app(self) -> Starlette:
        """Return the application for a web server."""
        verbs = {"/filter": self.filter, "/preempt": self.preempt}
        if self.pods is not None:
            verbs |= {why.value: partial(self.mutate, self.pods, why) for why in Admission}
        pages = {"/healthz": self.healthz, "/readyz": self.readyz, "/metrics": self.scrape}
        posts = [Route(path, answer, methods=["POST"]) for path, answer in verbs.items()]
        return Starlette(routes=[*posts, *(Route(path, answer) for path, answer in pages.items())])

    async def filter(self, request: Request) -> Response:
        """Answer Filter."""
        self._admit(request)
        body = await self.bodies.read(request)
        started = perf_counter()
        try:
            args = decode_filter(body)
            if reasons := self.unready():
                result = FilterResult(error=f"arnold cannot answer yet: {'; '.join(reasons)}")
            else:
                verdict = filter_nodes(self.state, args, self.now(), self.policy)
                if verdict.refusal is not None and (written := self.state.write_under_way(args.pod)) is not None:
                    # a scheduler with the plug-in for plans may have seen one before its writer hears that it is stored
                    with suppress(TimeoutError):
                        await asyncio.wait_for(written.wait(), WRITE_SECONDS)
                    verdict = filter_nodes(self.state, args, self.now(), self.policy)
                result = verdict.answer
                if (refusal := verdict.refusal) is not None:
                    self.metrics.refused.labels(reason=refusal.kind.value).inc()
                    extra = {"pod": f"{args.pod.namespace}/{args.pod.name}", "uid": args.pod.uid}
                    logger.info("no node for the pod: %s", refusal.sentence, extra=extra)
        except ArnoldError as error:
            logger.warning("a Filter request cannot be answered: %s", error)
            result = FilterResult(error=str(error))
        answer = encode(result)
        self.metrics.filter_seconds.observe(perf_counter() - started)
        return Response(answer, media_type=JSON)

    async def preempt(self, request: Request) -> Response:
        """Answer Preempt."""
        self._admit(request)
        body = await self.bodies.read(request)
        started = perf_counter()
        try:
            args = decode_preempt(body)
        except ArnoldError as error:
            return PlainTextResponse(str(error), status_code=400)
        if reasons := self.unready():
            return PlainTextResponse("\n".join(reasons), status_code=503)
        answer = encode(preempt(self.state, args, self.now(), self.policy))
        self.metrics.preempt_seconds.observe(perf_counter() - started)
        return Response(answer, media_type=JSON)

    async def mutate(self, bodies: BodyReader, why: Admission, request: Request) -> Response:
        """Answer a mutating webhook."""
        try:
            return Response(admit_pod(await bodies.read(request), why), media_type=JSON)
        except ArnoldError as error:
            return PlainTextResponse(str(error), status_code=400)

    async def healthz(self, _: Request) -> Response:
        """Say that the process answers."""
        return PlainTextResponse("ok")

    async def readyz(self, _: Request) -> Response:
        """Say whether the cache holds the cluster, and what is missing there that does not keep us from working."""
        reasons, lacks = self.unready(), self.lacks()
        return PlainTextResponse("\n".join((*(reasons or ["ok"]), *lacks)), status_code=503 if reasons else 200)

    async def scrape(self, request: Request) -> Response:
        """Return the page for Prometheus."""
        self._admit(request)
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)

    def _admit(self, request: Request) -> None:
        if self.mutual_tls and not getattr(request.state, "authenticated", False):
            raise HTTPException(401, "show a client certificate of the CA that --client-ca names")


CHECK_SECONDS = 10.0  # how often the files are looked at

Signature = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: our certificate with its chain, its key, and the CAs of clients."""

    certificate: str
    key: str
    client_ca: str

    def signature(self) -> Signature:
        """Return what changes when a file does; a missing file has a signature too."""
        return tuple(_signature(path) for path in (self.certificate, self.key, self.client_ca))

    def context(self) -> ssl.SSLContext:
        """Return a context of what the files hold, or raise ``InvalidInput``: one is missing, not PEM, or no match."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A resumed session would skip the client's certificate.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET
        # A password keeps OpenSSL from asking for one at the terminal.
        option, files = "--tls-cert", f"{self.certificate} and {self.key}"
        try:
            context.load_cert_chain(self.certificate, self.key, lambda: "")
            option, files = "--client-ca", self.client_ca
            context.load_verify_locations(self.client_ca)
        except ssl.SSLError as error:
            message = f"{files}: not PEM, or certificate and key do not match: {error.reason or error}"
            fix = "give a certificate with its own key, without password, and the CA of the clients, all PEM"
            raise InvalidInput(message, where=option, fix=fix) from error
        except OSError as error:
            missing = [path for path in (self.certificate, self.key, self.client_ca) if not Path(path).is_file()]
            message = f"{(missing or [files])[0]}: {error.strerror or error}"
            raise InvalidInput(message, where=option, fix="give files that can be read") from error
        context.verify_mode = ssl.CERT_OPTIONAL
        return context


class RotatingContext:
    """The context of a listening socket; making one raises ``InvalidInput`` when the files cannot be used at first."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._signature = files.signature()
        self._newest = files.context()
        self.context = files.context()
        self.context.sni_callback = self._choose

    async def watch(self) -> None:
        """Look at the files now and then, for ever."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()

    def check(self) -> bool:
        """Take up what changed in the files, and return whether anything did."""
        signature = self._files.signature()
        if signature == self._signature:
            return False
        self._signature = signature
        try:
            self._newest = self._files.context()
        except InvalidInput as error:
            logger.warning("the certificates changed and cannot be used, the old ones stay: %s", error)
            return False
        logger.info("the certificates changed: new connections use the new ones")
        return True

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._newest


def _signature(path: str) -> tuple[int, int, int]:
    try:
        status = Path(path).stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def tls_files(bind: Address, *, certificate: str | None, key: str | None, client_ca: str | None) -> TlsFiles | None:
    """Return the TLS files of three options; ``None`` = none is given, which is for loopback addresses alone.

    :raises InvalidInput: some are missing, or none is given for an address that others can reach.
    """
    given = {"--tls-cert": certificate, "--tls-key": key, "--client-ca": client_ca}
    missing = [option for option, file in given.items() if not file]
    if certificate and key and client_ca:
        return TlsFiles(certificate, key, client_ca)
    if len(missing) < len(given):
        fix = "give --tls-cert, --tls-key and --client-ca"
        raise InvalidInput(f"{', '.join(missing)} not given", where="--tls-cert", fix=fix)
    if not bind.loopback:
        message = f"anybody who reaches {bind} could ask the extender, and drop the promises of others"
        fix = "give --tls-cert, --tls-key and --client-ca for mutual TLS, or bind to 127.0.0.1"
        raise InvalidInput(message, where="--bind", fix=fix)
    return None


HEAD_BYTES = 64 * 1024  # longest request line with headers
MOST_STRANGERS = 64  # connections without a client's certificate at a time; a kubelet has two probes
LINGER_SECONDS = 0.5  # for a client to read our last word; TLS would wait 30 s for the client's own


class Strangers:
    """The newest connections of clients without a certificate; older ones are cut off.

    :param stay: whether such a connection has more than one answer.
    """

    def __init__(self, most: int = MOST_STRANGERS, *, stay: bool = False) -> None:
        self.most = most
        self.stay = stay
        self._there: dict[Connection, None] = {}

    def enter(self, connection: Connection) -> None:
        """Let one more connection in."""
        self._there[connection] = None
        if len(self._there) > self.most:
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

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
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
        if self._stranger and not self.strangers.stay:
            # As if the client had asked for it; the answer has not begun.
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Note that all of a request is here."""
        self._arrived()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note that the answer is sent."""
        super().on_response_complete()
        if self._stranger and not self.strangers.stay:
            self._hang_up()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        super().send_400_response(msg)
        self._hang_up()

    def _expect(self) -> None:
        if self._deadline is None:

            def too_late() -> None:
                self._deadline = None
                self._end(b"408 Request Timeout")

            self._deadline = self.loop.call_later(self.arrive_seconds, too_late)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self, status: bytes) -> None:
        answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not answering and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self._hang_up()

    def _hang_up(self) -> None:
        """Close the connection, whether the client agrees or not."""
        if not self.transport.is_closing():  # Python's TLS transports forget at a second close() what abort() would end
            self.transport.close()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)


KEEP_ALIVE_SECONDS = 120  # longer than Go clients keep an idle connection (90 s): they never meet a closed one
MOST_CONNECTIONS = 1_000  # connections and requests at once of clients that may ask; kube-scheduler needs a handful


def listen(bind: Address) -> socket.socket:
    """Return the listening socket, or raise ``InvalidInput``: the address is taken, or not of this machine."""
    try:
        addresses = socket.getaddrinfo(bind.host, bind.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        listener = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        fix = "choose a free port of an address of this machine"
        raise InvalidInput(f"cannot listen on {bind}: {error.strerror or error}", where="--bind", fix=fix) from error
    # Inherited by connections. asyncio leaves it off, as Python says of no protocol that it were TCP: the second piece
    # of an answer would wait for the client's delayed acknowledgement, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def web_server(
    app: ASGIApp,
    *,
    tls: RotatingContext | None = None,
    arrive: float = 10.0,
    drain: float = 1.0,
    without_certificate: Strangers | None = None,
) -> uvicorn.Server:
    """Return the server of an application, with our limits.

    :param tls: ``None`` = plain HTTP.
    :param arrive: seconds after its first byte in which a request must be complete.
    :param drain: seconds that answers under way have at the end.
    :param without_certificate: connections of clients without one; ``None`` = a few, each for one answer.
    """
    unknown = without_certificate or Strangers()

    class Limited(Connection):
        arrive_seconds = arrive
        strangers = unknown

    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Limited,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            # Uvicorn counts requests of both kinds of clients.
            limit_concurrency=MOST_CONNECTIONS + unknown.most,
            timeout_graceful_shutdown=max(1, round(drain)),
            ssl_context_factory=None if tls is None else lambda *_: tls.context,
        )
    )


async def serve_until_signal(server: uvicorn.Server, listener: socket.socket) -> None:
    """Answer until SIGTERM or Ctrl-C.

    Uvicorn raises the signal again at its end; the process must not die of it, as work is left to do.
    """
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        await server.serve(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
