"""An extender that does as it is told and remembers what it was asked: to learn what kube-scheduler really does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.e2e.harness.certificates import LOOPBACK

Message = Mapping[str, Any]
Reply = tuple[int, Any]
"""HTTP status, and the JSON document to answer with."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer."""

    verb: str
    headers: Mapping[str, str]
    body: Message
    status: int
    answer: Any


class Recorder:
    """Listens on the loopback address while it is open.

    :param replies: verb (``filter``, ``preempt``) -> what to answer to a request.
    """

    def __init__(self, replies: Mapping[str, Callable[[Message], Reply]]) -> None:
        self.replies = replies
        self.exchanges: list[Exchange] = []
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def asked(self, verb: str) -> list[Exchange]:
        """All exchanges of one verb."""
        return [exchange for exchange in self.exchanges if exchange.verb == verb]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = self.path.strip("/")
                status, answer = recorder.replies[verb](body)
                recorder.exchanges.append(Exchange(verb, dict(self.headers), body, status, answer))
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                with suppress(BrokenPipeError, ConnectionResetError):  # the scheduler did not wait for a late answer
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        return Handler
