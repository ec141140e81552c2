"""A client that calls an ASGI application in this process, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from extender.cluster_cache import ClusterCache
from extender.extender_metrics import Metrics
from extender.service.web import BodyReader, HttpApplication
from extender.service.webhook import MOST_BYTES
from scheduler.queue.priority import PriorityAge
from tests.extender.things import NOW


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        """The body, which is JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


class Client:
    """Asks an application about a state.

    :param unready: why the cache cannot be trusted.
    """

    def __init__(
        self,
        state: ClusterCache,
        *,
        unready: Callable[[], Sequence[str]] = list,
        limit: int = 1_000_000,
        mutual_tls: bool = False,
        webhook: bool = False,
    ) -> None:
        self.metrics = Metrics(plans=state.plans.values, leads=lambda: True)
        self.intake = BodyReader(limit)
        self.app = HttpApplication(
            state=state,
            metrics=self.metrics,
            now=lambda: NOW,
            unready=unready,
            lacks=lambda: state.definitions.sentences,
            policy=PriorityAge(),
            bodies=self.intake,
            mutual_tls=mutual_tls,
            pods=BodyReader(MOST_BYTES) if webhook else None,
        ).app()

    def get(self, path: str, **more: Any) -> Answer:
        """GET."""
        return self.ask("GET", path, [b""], **more)

    def post(self, path: str, body: Any, **more: Any) -> Answer:
        """POST an object as JSON, or bytes as they are."""
        return self.ask("POST", path, [body if isinstance(body, bytes) else json.dumps(body).encode()], **more)

    def ask(
        self,
        method: str,
        path: str,
        chunks: Sequence[bytes],
        *,
        authenticated: bool = False,
        length: int | None = None,
        cut: bool = False,
    ) -> Answer:
        """One request.

        :param chunks: the body as it arrives.
        :param length: what the header Content-Length claims.
        :param cut: the client goes away after the last chunk.
        """
        headers = [] if length is None else [(b"content-length", str(length).encode())]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "state": {"authenticated": authenticated},
        }
        left = list(chunks)
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not left:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or cut}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))  # type: ignore[arg-type]
        start, *rest = sent
        answered = {key.decode(): value.decode() for key, value in start["headers"]}
        return Answer(start["status"], b"".join(part.get("body", b"") for part in rest), answered)
