"""The HTTP application: what kube-scheduler asks, and what tells how we are.

Filter and Preempt read the cache and change nothing.  What is wrong with a request that could be read is said with
status 200 in ``Error``, as the scheduler shows that to the pod's owner and nothing of any other answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from extender.cluster_cache import ClusterCache
from extender.extender_metrics import CONTENT_TYPE, Metrics
from extender.verbs.filter_preempt import Refusal, filter_nodes, preempt
from extender.verbs.protocol import FilterResult, decode_filter, decode_preempt, encode
from ground.errors import ArnoldError
from scheduler.queue.policy import QueuePolicy
from topology.kubernetes.pods import Pod

logger = logging.getLogger(__name__)

JSON = "application/json"


class BodyReader:
    """Reads whole bodies; a node takes 7 to 25 kB in full-node mode, a name some 20 bytes in the other."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # Bytes of all bodies that may still be read at this moment.
        self._room = 4 * limit

    async def read(self, request: Request) -> bytes:
        """Return a body, or raise ``HTTPException``: 413 too long, 503 too many long ones at once, 400 client gone."""
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self.limit:
            raise self._too_long()
        chunks: list[bytes] = []
        taken = 0
        try:
            async for chunk in request.stream():
                taken += len(chunk)
                self._room -= len(chunk)
                if taken > self.limit:
                    raise self._too_long()
                if self._room < 0:
                    raise HTTPException(503, "too many large requests at once", {"connection": "close"})
                chunks.append(chunk)
        except ClientDisconnect:
            raise HTTPException(400, "the request did not arrive") from None
        finally:
            self._room += taken
        return b"".join(chunks)

    def _too_long(self) -> HTTPException:
        said = f"a request may have {self.limit:,} bytes\nTo fix: set nodeCacheCapable: true, or raise --body-limit"
        return HTTPException(413, said, {"connection": "close"})


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

    def app(self) -> Starlette:
        """Return the application for a web server."""
        asked = {"/filter": self.filter, "/preempt": self.preempt}
        shown = {"/healthz": self.healthz, "/readyz": self.readyz, "/metrics": self.scrape}
        posts = [Route(path, answer, methods=["POST"]) for path, answer in asked.items()]
        return Starlette(routes=[*posts, *(Route(path, answer) for path, answer in shown.items())])

    async def filter(self, request: Request) -> Response:
        """Answer Filter."""
        self._admit(request)
        body = await self.bodies.read(request)
        started = perf_counter()
        answer = encode(self._filter(body))
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

    def _filter(self, body: bytes) -> FilterResult:
        try:
            args = decode_filter(body)
            if reasons := self.unready():
                return FilterResult(error=f"arnold cannot answer yet: {'; '.join(reasons)}")
            verdict = filter_nodes(self.state, args, self.now(), self.policy)
        except ArnoldError as error:
            logger.warning("a Filter request cannot be answered: %s", error)
            return FilterResult(error=str(error))
        if verdict.refusal is not None:
            self._tell(args.pod, verdict.refusal)
        return verdict.answer

    def _tell(self, pod: Pod, refusal: Refusal) -> None:
        """Count and log a pod that no node may take."""
        self.metrics.refused.labels(reason=refusal.kind.value).inc()
        name = f"{pod.namespace}/{pod.name}"
        logger.info("no node for the pod: %s", refusal.sentence, extra={"pod": name, "uid": pod.uid})
